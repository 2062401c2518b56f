//! The browser tools: what a model gets of a page, and what it does there.
//!
//! The session of a task is the work of `hermes-browser`; this module composes results. Invariant: whatever a page says is
//! marked as coming from the web, cleaned, scanned and bounded.

mod descriptors;
mod page_result;
mod upload;
mod vision;

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use hermes_browser::{
    BrowserError, BrowserOptions, BrowserPool, BrowserSession, ClearMessages, ClosedSession, KeyEffect,
    ScrollDirection, SessionInUse, SnapshotDetail,
};
use hermes_types::{
    BoxFuture, Clock, OutcomeStatus, Provenance, TaskId, Tool, ToolContext, ToolDescriptor, ToolEvent,
    ToolInvocation, ToolOutcome, ToolSpec,
};
use serde_json::{Map, Value, json};

use crate::answer::spaced_json;
use crate::argument::{any_text, missing, spec, text};
use crate::file::FileTools;
use crate::vision::PictureReader;
use crate::web::{cleaned, denial_text, with_scheme};

pub(crate) use descriptors::{
    BACK, CLICK, CLOSE, CONSOLE, GET_IMAGES, NAVIGATE, PRESS, SCROLL, SNAPSHOT, TYPE, VISION,
};
use page_result::PageResult;

/// Words in titles of pages that only let people pass.
const BOT_CHECKS: [&str; 14] = [
    "access denied",
    "access to this page has been denied",
    "blocked",
    "bot detected",
    "verification required",
    "please verify",
    "are you a robot",
    "captcha",
    "cloudflare",
    "ddos protection",
    "checking your browser",
    "just a moment",
    "attention required",
    "security check",
];

/// What the browser tools need.
#[derive(Clone)]
#[expect(missing_debug_implementations, reason = "it holds a port")]
pub struct BrowserAccess {
    pub pool: BrowserPool,
    pub options: BrowserOptions,
    /// What looks at screenshots.
    pub reader: Option<PictureReader>,
    pub clock: Arc<dyn Clock>,
    /// The folder for snapshots that do not fit.
    pub cache: PathBuf,
    pub screenshots: PathBuf,
    /// The folder for copies of files that are given to pages.
    pub uploads: PathBuf,
    /// What the conversation may read.
    pub files: FileTools,
    /// The longest snapshot, in characters.
    pub page_chars: usize,
    /// Whether the configured browser can be used, once that was looked up for all tools.
    pub found: OnceLock<bool>,
}

/// What a tool does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BrowserAction {
    Navigate,
    Snapshot,
    Click,
    Type,
    Scroll,
    Back,
    Press,
    Close,
    GetImages,
    Vision,
    Console,
}

/// One of the browser tools.
#[expect(missing_debug_implementations, reason = "it holds a port")]
pub struct BrowserTool {
    spec: ToolSpec,
    descriptor: ToolDescriptor<'static>,
    action: BrowserAction,
    access: Arc<BrowserAccess>,
}

impl BrowserTool {
    /// Builds all browser tools, in the order in which people see them.
    pub fn all(access: &Arc<BrowserAccess>) -> Vec<Self> {
        macro_rules! tool {
            ($action:ident, $descriptor:ident, $name:literal) => {
                Self {
                    spec: spec(
                        &$descriptor,
                        include_str!(concat!("../texts/", $name, ".md")),
                        include_str!(concat!("../texts/", $name, ".json")),
                    ),
                    descriptor: $descriptor,
                    action: BrowserAction::$action,
                    access: access.clone(),
                }
            };
        }
        vec![
            tool!(Navigate, NAVIGATE, "browser_navigate"),
            tool!(Snapshot, SNAPSHOT, "browser_snapshot"),
            tool!(Click, CLICK, "browser_click"),
            tool!(Type, TYPE, "browser_type"),
            tool!(Scroll, SCROLL, "browser_scroll"),
            tool!(Back, BACK, "browser_back"),
            tool!(Press, PRESS, "browser_press"),
            tool!(Close, CLOSE, "browser_close"),
            tool!(GetImages, GET_IMAGES, "browser_get_images"),
            tool!(Vision, VISION, "browser_vision"),
            tool!(Console, CONSOLE, "browser_console"),
        ]
    }

    /// Tells whether the tool can be used: there is a browser, and a model for pictures where one is needed.
    pub fn is_usable(&self) -> bool {
        let access = &self.access;
        (access.pool.chosen_address().is_some()
            || *access.found.get_or_init(|| access.pool.is_usable(&access.options)))
            && (self.action != BrowserAction::Vision || access.reader.is_some())
    }

    async fn act(
        &self,
        call: &ToolInvocation,
        context: &ToolContext<'_>,
    ) -> Result<PageResult, BrowserError> {
        let access = &*self.access;
        if self.action == BrowserAction::Close {
            let mut result = PageResult::default();
            result.set("closed", true);
            match access.pool.close(&call.task).await {
                Some(ClosedSession { recording: Some(video) }) => {
                    result.set("recording", video.to_string_lossy().as_ref());
                }
                Some(ClosedSession { recording: None }) => {}
                None => result.set("warning", "no browser was open"),
            }
            return Ok(result);
        }
        let mut in_use = self.session(&call.task, context).await?;
        let session = in_use.session().ok_or_else(no_page)?;
        let before = session.arrival().await.ok().map(|page| page.url);
        let mut result = PageResult::default();
        match self.perform(call, context, session, &mut result).await {
            Ok(()) => {}
            // What happened besides may explain the failure.
            Err(error) => result.fail(error),
        }
        if self.action != BrowserAction::Navigate {
            result.add_address_change(session, before.as_deref()).await;
        }
        result.add_reports(session);
        if self.action == BrowserAction::Navigate {
            result.add_features(session);
        }
        Ok(result)
    }

    /// Returns the session of the task. Only opening a page starts a browser.
    async fn session(&self, task: &TaskId, context: &ToolContext<'_>) -> Result<SessionInUse, BrowserError> {
        let access = &*self.access;
        if self.action == BrowserAction::Navigate {
            return access.pool.session(task, &access.options, context.cancel).await;
        }
        access.pool.existing(task).await.ok_or_else(no_page)
    }

    async fn perform(
        &self,
        call: &ToolInvocation,
        context: &ToolContext<'_>,
        session: &mut BrowserSession,
        result: &mut PageResult,
    ) -> Result<(), BrowserError> {
        let argument = |name: &str| text(&call.arguments, name).unwrap_or_default();
        match self.action {
            BrowserAction::Navigate => {
                let page = session.navigate(&address(argument("url"))).await?;
                let title = page.title.to_lowercase();
                result.set("url", page.url.as_str());
                result.set_text("title", &page.title);
                if BOT_CHECKS.iter().any(|words| title.contains(words)) {
                    result.set(
                        "bot_detection_warning",
                        "this page seems to let only people pass; another source may serve better",
                    );
                }
                // A page that asks something cannot be read before it has an answer.
                if session.open_dialog().is_none() {
                    self.add_snapshot(session, SnapshotDetail::Compact, result).await?;
                }
            }
            BrowserAction::Snapshot => {
                let detail = if flag(&call.arguments, "full") {
                    SnapshotDetail::Full
                } else {
                    SnapshotDetail::Compact
                };
                self.add_snapshot(session, detail, result).await?;
            }
            BrowserAction::Click => {
                let remark = session.click(argument("ref")).await?;
                result.set("clicked", with_sign(argument("ref")));
                if let Some(remark) = remark {
                    result.set_text("note", &remark);
                }
            }
            BrowserAction::Type => {
                let words = any_text(&call.arguments, "text").unwrap_or_default();
                if session.takes_files(argument("ref")).await? {
                    return self.upload(call, context, session, words, result).await;
                }
                session.fill(argument("ref"), words).await?;
                result.set("typed", words);
                result.set("element", with_sign(argument("ref")));
            }
            BrowserAction::Scroll => {
                let direction = match argument("direction") {
                    "up" => ScrollDirection::Up,
                    "down" => ScrollDirection::Down,
                    _ => return Err(BrowserError::Refused("direction is up or down".to_owned())),
                };
                let position = session.scroll(direction).await?;
                result.set("scrolled", argument("direction"));
                if !position.moved {
                    result.set("note", "the page does not scroll further");
                }
            }
            BrowserAction::Back => {
                let page = session.back().await?;
                result.set("url", page.url);
            }
            BrowserAction::Press => {
                let effect = session.press(argument("key")).await?;
                result.set("pressed", argument("key"));
                if effect == KeyEffect::AnsweredDialog {
                    result.set("note", "the dialog is answered");
                }
            }
            BrowserAction::GetImages => {
                let images = session.images().await?;
                if images.is_none() {
                    result.set("warning", "the page did not tell its pictures");
                }
                let images = images.unwrap_or_default();
                result.set("count", images.len());
                result.set_texts("images", images);
            }
            BrowserAction::Vision => {
                self.look(call, context, session, argument("question"), result).await?;
            }
            BrowserAction::Console => {
                let clear =
                    if flag(&call.arguments, "clear") { ClearMessages::Yes } else { ClearMessages::No };
                let messages = session.messages(clear);
                let console = messages
                    .console
                    .iter()
                    .map(|message| json!({"type": message.kind, "text": message.text, "source": "console"}));
                let errors =
                    messages.exceptions.iter().map(|text| json!({"message": text, "source": "exception"}));
                result.set("total_messages", messages.console.len());
                result.set("total_errors", messages.exceptions.len());
                result.set_texts("console_messages", console.collect());
                result.set_texts("js_errors", errors.collect());
            }
            BrowserAction::Close => {}
        }
        Ok(())
    }

    async fn add_snapshot(
        &self,
        session: &mut BrowserSession,
        detail: SnapshotDetail,
        result: &mut PageResult,
    ) -> Result<(), BrowserError> {
        let snapshot = session.snapshot(detail).await?;
        let url = session.arrival().await?.url;
        result.set_page("snapshot", &snapshot.text, &url, &self.access);
        result.set("element_count", snapshot.elements.len());
        Ok(())
    }

    /// Returns the first argument that is missing.
    fn missing_argument(&self, call: &ToolInvocation) -> Option<&'static str> {
        let needed: &[&'static str] = match self.action {
            BrowserAction::Navigate => &["url"],
            BrowserAction::Click | BrowserAction::Type => &["ref"],
            BrowserAction::Scroll => &["direction"],
            // A blank is a key, too.
            BrowserAction::Press => {
                return any_text(&call.arguments, "key").is_none_or(str::is_empty).then_some("key");
            }
            BrowserAction::Vision => &["question"],
            _ => &[],
        };
        let missing = needed.iter().find(|name| text(&call.arguments, name).is_none());
        let no_text = self.action == BrowserAction::Type && any_text(&call.arguments, "text").is_none();
        missing.copied().or(no_text.then_some("text"))
    }
}

impl Tool for BrowserTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn descriptor(&self) -> ToolDescriptor<'_> {
        self.descriptor
    }

    fn run<'a>(&'a self, call: &'a ToolInvocation, context: ToolContext<'a>) -> BoxFuture<'a, ToolOutcome> {
        Box::pin(async move {
            if let Some(name) = self.missing_argument(call) {
                return missing(self.descriptor.name, name);
            }
            let remaining = context.deadline.remaining(&*self.access.clock);
            let outcome = tokio::select! {
                biased;
                () = context.cancel.cancelled() => Err(BrowserError::Cancelled),
                outcome = self.act(call, &context) => outcome,
                () = self.access.clock.sleep(remaining) => Err(BrowserError::TimedOut(remaining)),
            };
            match outcome {
                Ok(result) => result.into_outcome(),
                Err(error) => failure(&error),
            }
        })
    }

    fn on_event(&self, task: &TaskId, occasion: ToolEvent<'_>) {
        if matches!(occasion, ToolEvent::Ended) {
            self.access.pool.close_soon(task);
        }
    }

    fn end_background_work(&self, task: &TaskId) {
        self.access.pool.close_soon(task);
    }
}

fn no_page() -> BrowserError {
    BrowserError::Refused("no page is open. Open one with browser_navigate".to_owned())
}

fn flag(arguments: &Map<String, Value>, name: &str) -> bool {
    arguments.get(name).and_then(Value::as_bool).unwrap_or(false)
}

/// Adds the scheme that people leave out: a server with a port or without a name rarely has a certificate.
fn address(given: &str) -> String {
    let host = given.trim().split(['/', '?', '#']).next().unwrap_or_default();
    let (name, port) = host.rsplit_once(':').unwrap_or((host, ""));
    let is_port = !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
    let is_local = name == "localhost" || name.parse::<std::net::Ipv4Addr>().is_ok();
    if !given.contains("://") && (is_port || is_local) {
        return format!("http://{}", given.trim());
    }
    with_scheme(given)
}

/// Writes a reference as the snapshot's readers do.
fn with_sign(reference: &str) -> String {
    format!("@{}", reference.trim().trim_start_matches('@'))
}

/// Returns the text of a failure for the model.
fn failure_text(error: &BrowserError) -> String {
    match error {
        BrowserError::Denied(denial) => denial_text(denial),
        BrowserError::DeniedRedirect(denial) => {
            format!(
                "Blocked: the page redirects to an address that may not be opened. {}",
                denial_text(denial)
            )
        }
        error => error.to_string(),
    }
}

fn failure(error: &BrowserError) -> ToolOutcome {
    let content = spaced_json(&json!({"success": false, "error": cleaned(&failure_text(error))}));
    let status =
        if *error == BrowserError::Cancelled { OutcomeStatus::Cancelled } else { OutcomeStatus::Failed };
    ToolOutcome { content, status, provenance: Provenance::Web }
}

#[cfg(test)]
mod tests {
    use super::address;

    #[test]
    fn an_address_without_a_scheme_is_what_people_mean() {
        for (given, meant) in [
            ("example.com/a", "https://example.com/a"),
            ("http://example.com", "http://example.com"),
            (" localhost ", "http://localhost"),
            ("localhost:3000/x?a=b:c", "http://localhost:3000/x?a=b:c"),
            ("192.168.0.7", "http://192.168.0.7"),
            ("example.com:8080", "http://example.com:8080"),
            ("file:///etc/passwd", "file:///etc/passwd"),
            ("javascript:alert(1)", "javascript:alert(1)"),
            ("no name", "no name"),
        ] {
            assert_eq!(address(given), meant, "{given}");
        }
    }
}
