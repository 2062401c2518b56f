//! Acts on the events of a browser: prepares new targets, judges requests, keeps what pages do.
//!
//! Invariant: a new target continues only after its requests are intercepted, and every intercepted request is answered.

use std::sync::Arc;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use hermes_guard::UrlDenial;
use hermes_net::Url;
use hermes_types::{BoxFuture, Cancel, Clock};
use serde_json::{Value, json};
use tokio::sync::mpsc::UnboundedReceiver;

use crate::browser::{DialogPolicy, DialogRules, Routes, text_of};
use crate::connection::{CdpConnection, CdpEvent};
use crate::download::DownloadStep;
use crate::network::RequestGuard;
use crate::pages::{OpenDialog, PagesState, Tab, TargetFacts, TargetKind, TaskPages};
use crate::recording::SessionRecording;

/// A request that waits for its addresses to be looked up.
type JudgedRequest = BoxFuture<'static, (CdpEvent, Result<(), UrlDenial>)>;

struct EventHandler {
    connection: CdpConnection,
    routes: Arc<Routes>,
    guard: RequestGuard,
    dialogs: DialogRules,
    clock: Arc<dyn Clock>,
    waiting: FuturesUnordered<JudgedRequest>,
}

/// Handles events until the connection ends.
pub(crate) async fn handle_all(
    mut received: UnboundedReceiver<CdpEvent>,
    connection: CdpConnection,
    routes: Arc<Routes>,
    guard: RequestGuard,
    (dialogs, clock): (DialogRules, Arc<dyn Clock>),
) {
    let mut handler =
        EventHandler { connection, routes, guard, dialogs, clock, waiting: FuturesUnordered::new() };
    loop {
        tokio::select! {
            biased;
            Some((event, verdict)) = handler.waiting.next(), if !handler.waiting.is_empty() => {
                handler.answer_request(&event, verdict);
            }
            event = received.recv() => match event {
                Some(event) => handler.handle(event),
                None => break,
            },
        }
    }
    for pages in handler.routes.all() {
        pages.change(|state| state.has_ended = true);
    }
}

impl EventHandler {
    fn handle(&mut self, event: CdpEvent) {
        match event.method.as_str() {
            "Fetch.requestPaused" => self.judge_request(event),
            "Target.attachedToTarget" => self.attached(&event),
            "Target.targetCreated" => self.created(&event.params),
            "Target.detachedFromTarget" => self.detached(&text_of(&event.params, "sessionId")),
            "Browser.downloadWillBegin" => self.download_begins(&event.params),
            "Browser.downloadProgress" => self.download_progresses(&event.params),
            _ => {
                let Some(session) = event.session.as_deref() else { return };
                let Some(pages) = self.routes.of_session(session) else { return };
                self.of_page(&pages, session, &event.method, &event.params);
            }
        }
    }

    fn attached(&self, event: &CdpEvent) {
        let session = text_of(&event.params, "sessionId");
        let target = event.params.get("targetInfo").cloned().unwrap_or_default();
        let context = target.get("browserContextId").and_then(Value::as_str);
        let send = |method: &str, params: Value| self.connection.send(Some(&session), method, &params);
        let is_of_window = target["type"] == "browser_ui" || target["type"] == "tab";
        let pages = self.routes.of_target(event.session.as_deref(), context).filter(|_| !is_of_window);
        let Some(pages) = pages else {
            // The browser's own first tab, or a part of its window.
            send("Runtime.runIfWaitingForDebugger", json!({}));
            self.connection.send(None, "Target.detachFromTarget", &json!({"sessionId": session}));
            return;
        };
        self.routes.add_session(&session, &pages);
        let kind = match target.get("type").and_then(Value::as_str) {
            Some("page") => TargetKind::Page,
            Some("iframe") => TargetKind::Frame,
            _ => TargetKind::Other,
        };
        let is_new = pages.change(|state| {
            let id = text_of(&target, "targetId");
            let facts = TargetFacts { target: id.clone(), kind, parent: event.session.clone() };
            state.targets.insert(session.clone(), facts);
            if kind == TargetKind::Page && !state.tabs.iter().any(|tab| tab.target == id) {
                let url = text_of(&target, "url");
                state.add_tab(Tab { target: id, session: session.clone(), url, ..Tab::default() });
            }
            !state.has_ended
        });
        // Commands of a session are carried out in the order in which they are sent.
        let patterns = json!({"patterns": [{"urlPattern": "http://*"}, {"urlPattern": "https://*"}]});
        send("Fetch.enable", patterns);
        let attach = json!({"autoAttach": true, "waitForDebuggerOnStart": true, "flatten": true});
        send("Target.setAutoAttach", attach);
        if kind != TargetKind::Other {
            send("Page.enable", json!({}));
            send("Page.setLifecycleEventsEnabled", json!({"enabled": true}));
            send("Runtime.enable", json!({}));
            send("Log.enable", json!({}));
            send("DOM.enable", json!({}));
        }
        if kind == TargetKind::Page {
            send("Page.setInterceptFileChooserDialog", json!({"enabled": true}));
            send("Emulation.setFocusEmulationEnabled", json!({"enabled": true}));
            if pages.read(|state| state.recording.is_some()) {
                send("Page.startScreencast", SessionRecording::screencast());
            }
        }
        if is_new {
            send("Runtime.runIfWaitingForDebugger", json!({}));
        }
    }

    /// Attaches to a tab that a page opened, where the browser does not do so by itself.
    fn created(&self, params: &Value) {
        let target = params.get("targetInfo").cloned().unwrap_or_default();
        let opener = text_of(&target, "openerId");
        let is_attached = target.get("attached").and_then(Value::as_bool).unwrap_or(false);
        let is_ours = self
            .routes
            .all()
            .iter()
            .any(|pages| pages.read(|state| state.tabs.iter().any(|tab| tab.target == opener)));
        if is_ours && !is_attached && target.get("type").and_then(Value::as_str) == Some("page") {
            let params = json!({"targetId": target["targetId"], "flatten": true});
            self.connection.send(None, "Target.attachToTarget", &params);
        }
    }

    fn detached(&self, session: &str) {
        if let Some(pages) = self.routes.of_session(session) {
            pages.change(|state| state.remove_session(session));
        }
        self.routes.remove_session(session);
    }

    fn judge_request(&self, event: CdpEvent) {
        let url = request_url(&event.params).to_owned();
        if let Some(verdict) = self.guard.check_now(&url) {
            return self.answer_request(&event, verdict);
        }
        let guard = self.guard.clone();
        self.waiting.push(Box::pin(async move {
            let verdict = guard.check(&url).await;
            (event, verdict)
        }));
    }

    fn answer_request(&self, event: &CdpEvent, verdict: Result<(), UrlDenial>) {
        let session = event.session.as_deref();
        let id = &event.params["requestId"];
        let Err(denial) = verdict else {
            return self.connection.send(session, "Fetch.continueRequest", &json!({"requestId": id}));
        };
        let refusal = json!({"requestId": id, "errorReason": "BlockedByClient"});
        self.connection.send(session, "Fetch.failRequest", &refusal);
        let Some(pages) = session.and_then(|session| self.routes.of_session(session)) else { return };
        let host = Url::parse(request_url(&event.params)).ok();
        let host = host.as_ref().and_then(Url::host_str).unwrap_or("an address").to_owned();
        let is_document = event.params["resourceType"] == "Document";
        let frame = text_of(&event.params, "frameId");
        pages.change(|state| {
            if is_document && state.current.as_deref() == Some(frame.as_str()) {
                state.reports.refused_page = Some(denial);
            } else {
                state.reports.add_refusal(format!("{host}: {denial}"));
            }
        });
    }

    fn download_begins(&self, params: &Value) {
        let frame = text_of(params, "frameId");
        let all = self.routes.all();
        let owner = all
            .iter()
            .find(|pages| pages.read(|state| state.targets.values().any(|facts| facts.target == frame)));
        // A frame within a page is no target; with one task there is no doubt.
        let owner = owner.or(if let [only] = all.as_slice() { Some(only) } else { None });
        if let Some(pages) = owner {
            pages.change(|state| {
                state.downloads.begin(&text_of(params, "guid"), &text_of(params, "suggestedFilename"));
            });
        } else {
            let params = json!({"guid": params["guid"]});
            self.connection.send(None, "Browser.cancelDownload", &params);
        }
    }

    fn download_progresses(&self, params: &Value) {
        let id = text_of(params, "guid");
        let number = |name: &str| {
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "sizes are whole numbers"
            )]
            params.get(name).and_then(Value::as_f64).map_or(0, |number| number.max(0.0) as u64)
        };
        let (received, total) = (number("receivedBytes"), number("totalBytes"));
        let state_name = text_of(params, "state");
        for pages in self.routes.all().iter().filter(|pages| pages.read(|state| state.downloads.owns(&id))) {
            let step = pages.change(|state| {
                let step = state.downloads.progress(&id, &state_name, received, total);
                if let DownloadStep::Ended(report) = &step {
                    state.reports.add_download(report.clone());
                }
                step
            });
            if matches!(step, DownloadStep::Cancel) {
                let mut params = json!({"guid": id});
                if let Some(context) = self.routes.context_of(pages) {
                    params["browserContextId"] = context.into();
                }
                self.connection.send(None, "Browser.cancelDownload", &params);
            }
        }
    }

    fn of_page(&self, pages: &Arc<TaskPages>, session: &str, method: &str, params: &Value) {
        match method {
            "Page.javascriptDialogOpening" => self.dialog_opens(pages, session, params),
            "Page.javascriptDialogClosed" => pages.change(|state| state.open_dialog = None),
            "Page.screencastFrame" => self.record_frame(pages, session, params),
            "Page.fileChooserOpened" => pages.change(|state| {
                state.reports.file_chooser = true;
                state.file_field = params["backendNodeId"].as_i64().map(|node| (session.to_owned(), node));
            }),
            "Runtime.consoleAPICalled" => {
                let kind = text_of(params, "type");
                pages.change(|state| state.add_console(&kind, &console_text(params)));
            }
            "Log.entryAdded" => {
                let entry = &params["entry"];
                let address = entry["url"].as_str().map(|url| format!(" ({url})")).unwrap_or_default();
                let text = format!("{}{address}", text_of(entry, "text"));
                pages.change(|state| state.add_console(&text_of(entry, "level"), &text));
            }
            "Runtime.exceptionThrown" => {
                let details = &params["exceptionDetails"];
                let thrown = details["exception"]["description"].as_str();
                let text = thrown.map_or_else(|| text_of(details, "text"), str::to_owned);
                pages.change(|state| state.add_exception(&text));
            }
            "Inspector.targetCrashed" => {
                pages.change(|state| {
                    if let Some(tab) = state.tab_of_session(session) {
                        tab.is_crashed = true;
                        tab.is_loading = false;
                    }
                });
            }
            _ => of_tab(pages, session, method, params),
        }
    }

    /// Keeps a picture of the current tab for the recording.
    fn record_frame(&self, pages: &Arc<TaskPages>, session: &str, params: &Value) {
        let ack = json!({"sessionId": params["sessionId"]});
        self.connection.send(Some(session), "Page.screencastFrameAck", &ack);
        let recording = pages.read(|state| {
            let is_current = state.current_tab().is_some_and(|tab| tab.session == session);
            state.recording.clone().filter(|_| is_current)
        });
        if let (Some(recording), Some(at), Some(picture)) =
            (recording, params["metadata"]["timestamp"].as_f64(), params["data"].as_str())
        {
            recording.add(at, picture);
        }
    }

    fn dialog_opens(&self, pages: &Arc<TaskPages>, session: &str, params: &Value) {
        let (kind, message) = (text_of(params, "type"), text_of(params, "message"));
        let answer = match (kind.as_str(), self.dialogs.policy) {
            ("alert" | "beforeunload", _) | (_, DialogPolicy::Accept) => Some(true),
            (_, DialogPolicy::Dismiss) => Some(false),
            (_, DialogPolicy::AskModel) => None,
        };
        let text = text_of(params, "defaultPrompt");
        if let Some(accept) = answer {
            let params = json!({"accept": accept, "promptText": text});
            self.connection.send(Some(session), "Page.handleJavaScriptDialog", &params);
            let done = if accept { "accepted" } else { "dismissed" };
            pages.change(|state| state.reports.add_dialog(&format!("{kind}: {message} ({done})")));
        } else {
            let dialog = OpenDialog { session: session.to_owned(), kind, message, text };
            pages.change(|state| state.open_dialog = Some(dialog.clone()));
            self.dismiss_later(pages, dialog);
        }
    }

    /// Dismisses a dialog that nobody answers, so that a page does not hang for the rest of its task.
    fn dismiss_later(&self, pages: &Arc<TaskPages>, dialog: OpenDialog) {
        let (pages, connection, clock) = (pages.clone(), self.connection.clone(), self.clock.clone());
        let timeout = self.dialogs.timeout;
        let work = async move {
            let is_over = |state: &PagesState| {
                state.has_ended || state.open_dialog.as_ref().is_none_or(|open| !open.is_same(&dialog))
            };
            if pages.wait_for(timeout, &*clock, is_over).await {
                return;
            }
            let params = json!({"accept": false});
            connection.send(Some(&dialog.session), "Page.handleJavaScriptDialog", &params);
            let OpenDialog { kind, message, .. } = &dialog;
            let report = format!("{kind}: {message} (dismissed after {} s)", timeout.as_secs());
            pages.change(|state| {
                state.open_dialog = None;
                state.reports.add_dialog(&report);
            });
        };
        // It ends with the dialog, or with the pages.
        drop(hermes_task::spawn_named("page dialog", &Cancel::new(), work));
    }
}

/// Follows what the main frame of a tab does.
fn of_tab(pages: &TaskPages, session: &str, method: &str, params: &Value) {
    if !method.starts_with("Page.") {
        return;
    }
    pages.change(|state| {
        let Some(tab) = state.tab_of_session(session) else { return };
        match method {
            "Page.frameNavigated" if params["frame"].get("parentId").is_none() => {
                let frame = &params["frame"];
                tab.url = format!("{}{}", text_of(frame, "url"), text_of(frame, "urlFragment"));
                tab.loader = text_of(frame, "loaderId");
            }
            "Page.navigatedWithinDocument" if params["frameId"] == tab.target.as_str() => {
                tab.url = text_of(params, "url");
            }
            "Page.frameStartedLoading" if params["frameId"] == tab.target.as_str() => tab.is_loading = true,
            "Page.frameStoppedLoading" if params["frameId"] == tab.target.as_str() => tab.is_loading = false,
            "Page.lifecycleEvent" if params["frameId"] == tab.target.as_str() => {
                let loader = text_of(params, "loaderId");
                match params["name"].as_str() {
                    Some("DOMContentLoaded") => tab.dom_ready = Some(loader),
                    Some("load") => tab.loaded = Some(loader),
                    _ => {}
                }
            }
            _ => {}
        }
    });
}

fn request_url(params: &Value) -> &str {
    params["request"]["url"].as_str().unwrap_or_default()
}

/// Returns what a call of the console printed.
fn console_text(params: &Value) -> String {
    let values = params["args"].as_array().map(Vec::as_slice).unwrap_or_default();
    let texts: Vec<String> = values
        .iter()
        .map(|value| match (&value["value"], value["description"].as_str()) {
            (Value::String(text), _) => text.clone(),
            (Value::Null, Some(description)) => description.to_owned(),
            (Value::Null, None) => text_of(value, "type"),
            (plain, _) => plain.to_string(),
        })
        .collect();
    texts.join(" ")
}
