//! Calls to the pages of one task, and what they wait for.
//!
//! Knows nothing of references. Invariant: no call waits for a page that waits for an answer to a dialog.

use std::sync::Arc;
use std::time::Duration;

use hermes_types::Clock;
use serde_json::{Value, json};

use crate::browser::{Browser, CONTROL_TIMEOUT, text_of};
use crate::error::BrowserError;
use crate::key::KeyPress;
use crate::pages::{OpenDialog, PagesState, Tab, TaskPages};
use crate::session::PageArrival;
use crate::snapshot::ElementReference;

/// How long a page that can be read may go on loading before its text is taken.
const LOAD_TIMEOUT: Duration = Duration::from_secs(10);
/// How long an action may take to show that it opens a page.
const REACTION_TIME: Duration = Duration::from_millis(150);
const DOWNLOAD_TIMEOUT: Duration = Duration::from_secs(30);

/// The pages of one task with the connection to them.
#[derive(Debug)]
pub(crate) struct PageCalls {
    pub(crate) browser: Arc<Browser>,
    pub(crate) pages: Arc<TaskPages>,
    pub(crate) clock: Arc<dyn Clock>,
    /// The time limit of one call.
    pub(crate) limit: Duration,
}

impl PageCalls {
    pub(crate) async fn wait_for_document(
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

    pub(crate) async fn wait_for_downloads(&self) {
        self.pages
            .wait_for(DOWNLOAD_TIMEOUT, &*self.clock, |state| {
                state.has_ended || !state.downloads.is_running()
            })
            .await;
    }

    /// Leaves a page whose address was refused.
    pub(crate) async fn fail_if_refused(&self, tab: &Tab) -> Result<(), BrowserError> {
        let refused = self.pages.change(|state| state.reports.refused_page.take());
        let Some(denial) = refused else { return Ok(()) };
        let params = json!({"url": "about:blank"});
        // What matters is the refusal; the page never got anything.
        if let Ok(answer) = self.call_within(&tab.session, "Page.navigate", params, CONTROL_TIMEOUT).await {
            let _ = self.wait_for_document(tab, &text_of(&answer, "loaderId"), CONTROL_TIMEOUT).await;
        }
        Err(BrowserError::DeniedRedirect(denial))
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
    pub(crate) fn open_dialog(&self) -> Option<OpenDialog> {
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

    pub(crate) async fn answer_dialog(&self, dialog: &OpenDialog, accept: bool) -> Result<(), BrowserError> {
        let params = json!({"accept": accept, "promptText": dialog.text});
        let session = Some(dialog.session.as_str());
        let connection = &self.browser.connection;
        connection.call(session, "Page.handleJavaScriptDialog", params, self.limit).await?;
        self.pages.change(|state| state.open_dialog = None);
        Ok(())
    }

    pub(crate) async fn dismiss_dialog(&self) {
        if let Some(dialog) = self.open_dialog() {
            // The page is being left.
            let _ = self.answer_dialog(&dialog, false).await;
        }
    }

    /// Returns the address and the title of the current page.
    pub(crate) async fn arrival(&self) -> Result<PageArrival, BrowserError> {
        let tab = self.tab()?;
        let params = json!({"targetId": tab.target});
        let connection = &self.browser.connection;
        let answer = connection.call(None, "Target.getTargetInfo", params, self.limit).await?;
        let info = &answer["targetInfo"];
        let url = text_of(info, "url");
        // A page before its first document has no address yet.
        let url = if url.is_empty() { "about:blank".to_owned() } else { url };
        let mut title = text_of(info, "title");
        // The browser calls a page by its address until it has heard of its title.
        if url.ends_with(&title)
            && self.open_dialog().is_none()
            && let Ok(own) = self.evaluate(&tab, "() => document.title", &json!(null)).await
            && let Some(own) = own.as_str().filter(|own| !own.is_empty())
        {
            own.clone_into(&mut title);
        }
        Ok(PageArrival { url, title })
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

    /// Calls a method of a page. Fails at once while a dialog is open, because the page would not answer.
    pub(crate) async fn call(
        &self,
        session: &str,
        method: &str,
        params: Value,
    ) -> Result<Value, BrowserError> {
        self.call_within(session, method, params, self.limit).await
    }

    pub(crate) async fn call_within(
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
        element: &ElementReference,
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

    pub(crate) async fn isolated_world(&self, session: &str, frame: &str) -> Result<Value, BrowserError> {
        let params = json!({"frameId": frame, "worldName": "hermes"});
        let answer = self.call(session, "Page.createIsolatedWorld", params).await?;
        Ok(answer["executionContextId"].clone())
    }

    pub(crate) fn is_open(&self) -> bool {
        self.browser.connection.is_open() && self.pages.read(|state| !state.has_ended)
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

pub(crate) fn dialog_error(dialog: &OpenDialog) -> BrowserError {
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
