//! The session of one task: what can be done with its pages.
//!
//! Holds navigation and what every action shares; elements and looks have modules of their own. Invariant: no call waits
//! for a page that waits for an answer to a dialog.

use std::sync::Arc;
use std::time::Duration;

use hermes_types::Clock;
use serde_json::{Value, json};

use crate::browser::{Browser, CONTROL_TIMEOUT, Isolation, text_of};
use crate::cloud::CloudLease;
use crate::error::BrowserError;
use crate::key::KeyPress;
use crate::network::RequestGuard;
use crate::pages::{OpenDialog, PageReports, PagesState, Tab, TaskPages};
use crate::snapshot::References;

/// The least time for opening a page.
const NAVIGATION_TIMEOUT: Duration = Duration::from_mins(1);
/// How long a page that can be read may go on loading before its text is taken.
const LOAD_TIMEOUT: Duration = Duration::from_secs(10);
/// How long an action may take to show that it opens a page.
const REACTION_TIME: Duration = Duration::from_millis(150);
const DOWNLOAD_TIMEOUT: Duration = Duration::from_secs(30);

/// The session of a task in a browser.
#[derive(Debug)]
pub struct BrowserSession {
    pub(crate) browser: Arc<Browser>,
    pub(crate) pages: Arc<TaskPages>,
    pub(crate) references: References,
    /// The document that the references are about.
    document: (String, String),
    context: Option<String>,
    pub(crate) guard: RequestGuard,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) limit: Duration,
    lease: Option<CloudLease>,
    /// Facts about the session that the first result tells.
    first_words: Option<SessionFeatures>,
}

/// What the first result of a session tells about it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SessionFeatures {
    pub names: Vec<&'static str>,
    pub warning: Option<&'static str>,
}

/// The page that a call ended at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageArrival {
    pub url: String,
    pub title: String,
}

/// The way to scroll.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScrollDirection {
    Up,
    Down,
}

/// What a key press did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeyEffect {
    Pressed,
    /// It answered a dialog.
    AnsweredDialog,
}

impl BrowserSession {
    pub(crate) async fn open(
        browser: Arc<Browser>,
        pages: Arc<TaskPages>,
        isolation: Isolation,
        guard: RequestGuard,
        clock: Arc<dyn Clock>,
        limit: Duration,
    ) -> Result<Self, BrowserError> {
        let context = browser.open_pages(&pages, isolation, &*clock).await?;
        Ok(Self {
            browser,
            pages,
            references: References::default(),
            document: Default::default(),
            context,
            guard,
            clock,
            limit,
            lease: None,
            first_words: None,
        })
    }

    pub(crate) fn with_lease(self, lease: Option<CloudLease>) -> Self {
        Self { lease, ..self }
    }

    pub(crate) fn with_features(self, features: SessionFeatures) -> Self {
        Self { first_words: Some(features), ..self }
    }

    /// Returns what the first result tells about the session; only the first call does.
    pub fn take_features(&mut self) -> Option<SessionFeatures> {
        self.first_words.take()
    }

    pub fn is_open(&self) -> bool {
        self.browser.connection.is_open() && self.pages.read(|state| !state.has_ended)
    }

    /// Opens a page.
    pub async fn navigate(&mut self, address: &str) -> Result<PageArrival, BrowserError> {
        let url = self.guard.parse(address).await.map_err(BrowserError::Denied)?;
        self.dismiss_dialog().await;
        let tab = self.usable_tab().await?;
        self.pages.change(|state| state.reports.refused_page = None);
        let limit = self.limit.max(NAVIGATION_TIMEOUT);
        let params = json!({"url": url.as_str()});
        let answer = self.call_within(&tab.session, "Page.navigate", params, limit).await?;
        self.fail_if_refused(&tab).await?;
        let problem = text_of(&answer, "errorText");
        if !problem.is_empty() {
            let is_download =
                self.pages.read(|state| state.downloads.is_running() || !state.reports.downloads.is_empty());
            if problem != "net::ERR_ABORTED" || !is_download {
                return Err(BrowserError::Refused(format!("the page could not be opened: {problem}")));
            }
            self.wait_for_downloads().await;
            return self.arrival().await;
        }
        let loader = text_of(&answer, "loaderId");
        if !loader.is_empty() {
            self.wait_for_document(&tab, &loader, limit).await?;
        }
        self.settle().await?;
        self.arrival().await
    }

    async fn wait_for_document(
        &self,
        before: &Tab,
        loader: &str,
        limit: Duration,
    ) -> Result<(), BrowserError> {
        let is_ready = |tab: &Tab| {
            tab.dom_ready.as_deref() == Some(loader)
                // A script may have led on before the first page was complete.
                || (tab.loader != loader && tab.loader != before.loader && tab.dom_ready.as_ref() == Some(&tab.loader))
        };
        let target = before.target.as_str();
        self.pages
            .wait_for(limit, &*self.clock, |state| {
                let tab = state.tabs.iter().find(|tab| tab.target == target);
                state.has_ended
                    || state.open_dialog.is_some()
                    || state.reports.refused_page.is_some()
                    || tab.is_none_or(|tab| tab.is_crashed || is_ready(tab))
            })
            .await
            .then_some(())
            .ok_or(BrowserError::TimedOut(limit))
    }

    /// Waits until what an action started has been loaded, as far as that does not take long.
    pub(crate) async fn settle(&self) -> Result<(), BrowserError> {
        let is_interrupted = |state: &PagesState| state.has_ended || state.open_dialog.is_some();
        self.pages.wait_for(REACTION_TIME, &*self.clock, is_interrupted).await;
        self.pages
            .wait_for(LOAD_TIMEOUT, &*self.clock, |state| {
                is_interrupted(state)
                    || state.current_tab().is_none_or(|tab| !tab.is_loading || tab.is_crashed)
            })
            .await;
        self.wait_for_downloads().await;
        if let Some(tab) = self.pages.read(|state| state.current_tab().cloned()) {
            self.fail_if_refused(&tab).await?;
        }
        if self.pages.read(|state| state.has_ended) {
            return Err(BrowserError::Ended(String::new()));
        }
        Ok(())
    }

    async fn wait_for_downloads(&self) {
        self.pages
            .wait_for(DOWNLOAD_TIMEOUT, &*self.clock, |state| {
                state.has_ended || !state.downloads.is_running()
            })
            .await;
    }

    /// Leaves a page whose address was refused.
    async fn fail_if_refused(&self, tab: &Tab) -> Result<(), BrowserError> {
        let refused = self.pages.change(|state| state.reports.refused_page.take());
        let Some(denial) = refused else { return Ok(()) };
        let params = json!({"url": "about:blank"});
        // What matters is the refusal; the page never got anything.
        if let Ok(answer) = self.call_within(&tab.session, "Page.navigate", params, CONTROL_TIMEOUT).await {
            let _ = self.wait_for_document(tab, &text_of(&answer, "loaderId"), CONTROL_TIMEOUT).await;
        }
        Err(BrowserError::DeniedRedirect(denial))
    }

    /// Goes back to the page before, or to the tab that opened this one.
    pub async fn back(&mut self) -> Result<PageArrival, BrowserError> {
        let tab = self.tab()?;
        let history = self.call(&tab.session, "Page.getNavigationHistory", json!({})).await?;
        let entries = history["entries"].as_array().map(Vec::as_slice).unwrap_or_default();
        let current = history["currentIndex"].as_u64().and_then(|index| usize::try_from(index).ok());
        let before = current.and_then(|index| entries.get(index.checked_sub(1)?));
        match before.filter(|entry| entry["url"] != "about:blank") {
            Some(entry) => {
                let params = json!({"entryId": entry["id"]});
                self.call(&tab.session, "Page.navigateToHistoryEntry", params).await?;
            }
            None if self.pages.read(|state| state.tabs.len() > 1) => {
                let params = json!({"targetId": tab.target});
                self.browser.connection.call(None, "Target.closeTarget", params, self.limit).await?;
                let is_gone = |state: &PagesState| state.tabs.iter().all(|other| other.target != tab.target);
                self.pages.wait_for(self.limit, &*self.clock, is_gone).await;
            }
            None => return Err(BrowserError::Refused("there is no page to go back to".to_owned())),
        }
        self.settle().await?;
        self.arrival().await
    }

    /// Presses a key. While a dialog waits, Enter accepts and Escape dismisses it.
    pub async fn press(&mut self, key: &str) -> Result<KeyEffect, BrowserError> {
        let press = KeyPress::parse(key)?;
        if let Some(dialog) = self.open_dialog() {
            let accept = match press.key.as_str() {
                "Enter" => true,
                "Escape" => false,
                _ => return Err(dialog_error(&dialog)),
            };
            self.answer_dialog(&dialog, accept).await?;
            self.settle().await?;
            return Ok(KeyEffect::AnsweredDialog);
        }
        let tab = self.tab()?;
        self.press_key(&tab.session, &press).await?;
        self.settle().await?;
        Ok(KeyEffect::Pressed)
    }

    pub(crate) async fn press_key(&self, session: &str, press: &KeyPress) -> Result<(), BrowserError> {
        let mut down = json!({
            "type": if press.text.is_some() { "keyDown" } else { "rawKeyDown" },
            "key": press.key, "code": press.code, "modifiers": press.modifiers,
            "windowsVirtualKeyCode": press.number,
        });
        if let Some(fields) = down.as_object_mut() {
            if let Some(text) = &press.text {
                fields.insert("text".to_owned(), text.as_str().into());
            }
            if let Some(command) = press.command {
                fields.insert("commands".to_owned(), json!([command]));
            }
        }
        let up = json!({
            "type": "keyUp", "key": press.key, "code": press.code, "modifiers": press.modifiers,
            "windowsVirtualKeyCode": press.number,
        });
        for event in [down, up] {
            match self.call(session, "Input.dispatchKeyEvent", event).await {
                // The key opened it.
                Err(_) if self.open_dialog().is_some() => return Ok(()),
                outcome => outcome?,
            };
        }
        Ok(())
    }

    /// Returns the dialog that waits for an answer.
    pub fn open_dialog(&self) -> Option<OpenDialog> {
        self.pages.read(|state| state.open_dialog.clone())
    }

    /// Sets the text that a prompt will be answered with.
    pub(crate) fn set_prompt_text(&self, text: &str) -> Result<(), BrowserError> {
        self.pages.change(|state| match &mut state.open_dialog {
            Some(dialog) if dialog.kind == "prompt" => {
                text.clone_into(&mut dialog.text);
                Ok(())
            }
            _ => Err(BrowserError::Refused("no dialog asks for a text".to_owned())),
        })
    }

    async fn answer_dialog(&self, dialog: &OpenDialog, accept: bool) -> Result<(), BrowserError> {
        let params = json!({"accept": accept, "promptText": dialog.text});
        let session = Some(dialog.session.as_str());
        let connection = &self.browser.connection;
        connection.call(session, "Page.handleJavaScriptDialog", params, self.limit).await?;
        self.pages.change(|state| state.open_dialog = None);
        Ok(())
    }

    async fn dismiss_dialog(&self) {
        if let Some(dialog) = self.open_dialog() {
            // The page is being left.
            let _ = self.answer_dialog(&dialog, false).await;
        }
    }

    /// Returns what happened in the pages since the last call, apart from what calls did.
    pub fn take_reports(&self) -> PageReports {
        self.pages.change(|state| {
            let mut reports = std::mem::take(&mut state.reports);
            for target in &mut reports.new_tabs {
                let tab = state.tabs.iter().find(|tab| tab.target == *target);
                *target = tab.map_or_else(|| "a tab that is closed again".to_owned(), |tab| tab.url.clone());
            }
            reports
        })
    }

    /// Returns the address and the title of the current page.
    pub async fn arrival(&self) -> Result<PageArrival, BrowserError> {
        let tab = self.tab()?;
        let params = json!({"targetId": tab.target});
        let connection = &self.browser.connection;
        let answer = connection.call(None, "Target.getTargetInfo", params, self.limit).await?;
        let info = &answer["targetInfo"];
        Ok(PageArrival { url: text_of(info, "url"), title: text_of(info, "title") })
    }

    /// Returns the current tab.
    pub(crate) fn tab(&self) -> Result<Tab, BrowserError> {
        if !self.is_open() {
            return Err(BrowserError::Ended(String::new()));
        }
        match self.pages.read(|state| state.current_tab().cloned()) {
            Some(tab) if tab.is_crashed => Err(BrowserError::Refused(
                "the page has crashed. Open it again with browser_navigate".to_owned(),
            )),
            Some(tab) => Ok(tab),
            None => Err(BrowserError::Refused("no page is open. Open one with browser_navigate".to_owned())),
        }
    }

    /// Returns a tab that a page can be opened in.
    async fn usable_tab(&self) -> Result<Tab, BrowserError> {
        if let Ok(tab) = self.tab() {
            return Ok(tab);
        }
        let mut params = json!({"url": "about:blank"});
        if let (Some(context), Some(fields)) = (&self.context, params.as_object_mut()) {
            fields.insert("browserContextId".to_owned(), context.as_str().into());
        }
        let created =
            self.browser.connection.call(None, "Target.createTarget", params, CONTROL_TIMEOUT).await?;
        let target = text_of(&created, "targetId");
        if self.context.is_none() {
            let params = json!({"targetId": target, "flatten": true});
            self.browser.connection.call(None, "Target.attachToTarget", params, CONTROL_TIMEOUT).await?;
        }
        self.browser.wait_for_tab(&self.pages, &target, &*self.clock).await?;
        self.pages.change(|state| {
            state.reports.new_tabs.retain(|opened| *opened != target);
            state.current = Some(target.clone());
        });
        self.tab()
    }

    /// Forgets references to a document that is no longer shown.
    pub(crate) fn sync_references(&mut self, tab: &Tab) {
        let document = (tab.target.clone(), tab.loader.clone());
        if self.document != document {
            self.references.clear();
            self.document = document;
        }
    }

    /// Calls a method of a page. Fails at once while a dialog is open, because the page would not answer.
    pub(crate) async fn call(
        &self,
        session: &str,
        method: &str,
        params: Value,
    ) -> Result<Value, BrowserError> {
        self.call_within(session, method, params, self.limit).await
    }

    async fn call_within(
        &self,
        session: &str,
        method: &str,
        params: Value,
        limit: Duration,
    ) -> Result<Value, BrowserError> {
        let is_asking = |state: &PagesState| state.open_dialog.is_some();
        tokio::select! {
            biased;
            answer = self.browser.connection.call(Some(session), method, params, limit) => answer,
            true = self.pages.wait_for(limit, &*self.clock, is_asking) => {
                Err(self.open_dialog().map_or_else(|| BrowserError::Refused("a dialog was open".to_owned()), |dialog| dialog_error(&dialog)))
            }
        }
    }

    /// Calls a function in a world of its own beside the page's scripts, which cannot change what it uses.
    pub(crate) async fn evaluate(
        &self,
        tab: &Tab,
        function: &str,
        argument: &Value,
    ) -> Result<Value, BrowserError> {
        let context = self.isolated_world(&tab.session, &tab.target).await?;
        let params = json!({
            "expression": format!("({function})({argument})"), "contextId": context, "returnByValue": true,
        });
        let answer = self.call(&tab.session, "Runtime.evaluate", params).await?;
        value_of(&answer)
    }

    /// Calls a function on an element, in a world of its own.
    pub(crate) async fn evaluate_on(
        &self,
        element: &crate::snapshot::ElementReference,
        function: &str,
        argument: &Value,
    ) -> Result<Value, BrowserError> {
        let session = element.session.as_str();
        let context = self.isolated_world(session, &element.frame).await.map_err(gone)?;
        let params = json!({"backendNodeId": element.node, "executionContextId": context});
        let resolved = self.call(session, "DOM.resolveNode", params).await.map_err(gone)?;
        let params = json!({
            "objectId": resolved["object"]["objectId"], "functionDeclaration": function,
            "arguments": [{"value": argument}], "returnByValue": true,
        });
        let answer = self.call(session, "Runtime.callFunctionOn", params).await?;
        value_of(&answer)
    }

    async fn isolated_world(&self, session: &str, frame: &str) -> Result<Value, BrowserError> {
        let params = json!({"frameId": frame, "worldName": "hermes"});
        let answer = self.call(session, "Page.createIsolatedWorld", params).await?;
        Ok(answer["executionContextId"].clone())
    }

    /// Closes the tabs of the task, and gives a rented browser back.
    pub(crate) async fn close(self) {
        self.browser.close_pages(&self.pages, self.context.as_deref()).await;
        if let Some(lease) = self.lease {
            self.browser.connection.close().await;
            lease.release().await;
        } else if self.context.is_none() {
            self.browser.connection.close().await;
        }
    }
}

/// Tells a model that an element is gone, unless the failure is another one.
pub(crate) fn gone(error: BrowserError) -> BrowserError {
    match error {
        BrowserError::Refused(reason) if !reason.starts_with("a dialog") => BrowserError::Refused(
            "this element is no longer on the page. Take a new snapshot with browser_snapshot".to_owned(),
        ),
        other => other,
    }
}

fn dialog_error(dialog: &OpenDialog) -> BrowserError {
    let OpenDialog { kind, message, .. } = dialog;
    let message: String = message.chars().take(500).collect();
    let text =
        if kind == "prompt" { " Set its text before with browser_type and the ref @dialog." } else { "" };
    BrowserError::Refused(format!(
        "a dialog is open ({kind}): {message:?}. Answer it with browser_press: Enter for OK, Escape for Cancel.{text}"
    ))
}

fn value_of(answer: &Value) -> Result<Value, BrowserError> {
    match answer.get("exceptionDetails") {
        Some(details) => {
            let text = details["exception"]["description"].as_str().unwrap_or("a script failed");
            Err(BrowserError::Refused(text.lines().next().unwrap_or_default().to_owned()))
        }
        None => Ok(answer["result"]["value"].clone()),
    }
}
