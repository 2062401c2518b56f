//! A result of a browser tool, composed field by field.

use hermes_browser::{BrowserError, BrowserSession, DownloadReport};
use hermes_types::{OutcomeStatus, Provenance, ToolOutcome};
use serde_json::{Map, Value, json};

use super::{BrowserAccess, failure_text};
use crate::answer::spaced_json;
use crate::web::{bounded, cleaned, warning};

/// The fields of a result. Texts of pages enter it cleaned, and are scanned for instructions to their reader.
#[derive(Debug, Default)]
pub(super) struct PageResult {
    fields: Map<String, Value>,
    failure: Option<BrowserError>,
    warning: Option<String>,
}

impl PageResult {
    /// Sets a field that no page wrote.
    pub(super) fn set(&mut self, name: &str, value: impl Into<Value>) {
        self.fields.insert(name.to_owned(), value.into());
    }

    /// Sets a field that a page wrote.
    pub(super) fn set_text(&mut self, name: &str, text: &str) {
        let text = self.examined(text);
        self.fields.insert(name.to_owned(), text.into());
    }

    /// Sets a field of values that a page wrote.
    pub(super) fn set_texts(&mut self, name: &str, values: Vec<Value>) {
        let values = values.into_iter().map(|value| self.examined_value(value)).collect();
        self.fields.insert(name.to_owned(), Value::Array(values));
    }

    /// Sets the text of a page, which is shortened if it does not fit.
    pub(super) fn set_page(&mut self, name: &str, text: &str, url: &str, access: &BrowserAccess) {
        let text = self.examined(text);
        let key = format!("{url}#snapshot");
        let text = bounded(text, access.page_chars, &key, &access.cache, access.clock.now());
        self.fields.insert(name.to_owned(), text.into());
    }

    pub(super) fn fail(&mut self, error: BrowserError) {
        self.failure = Some(error);
    }

    /// Adds where an action led.
    pub(super) async fn add_address_change(&mut self, session: &BrowserSession, before: Option<&str>) {
        let Ok(page) = session.arrival().await else { return };
        if Some(page.url.as_str()) != before && !self.fields.contains_key("url") {
            self.set("url", page.url);
            self.set_text("title", &page.title);
        }
    }

    /// Adds what happened in the page besides.
    pub(super) fn add_reports(&mut self, session: &BrowserSession) {
        let reports = session.take_reports();
        if let Some(dialog) = session.open_dialog() {
            let dialog = json!({
                "type": dialog.kind, "message": dialog.message,
                "answer_with": "browser_press Enter (OK) or Escape (Cancel)",
            });
            let dialog = self.examined_value(dialog);
            self.set("open_dialog", dialog);
        }
        for (name, texts) in [
            ("dialogs", reports.dialogs),
            ("new_tabs", reports.new_tabs),
            ("blocked_requests", reports.refused),
        ] {
            if !texts.is_empty() {
                self.set_texts(name, texts.into_iter().map(Value::String).collect());
            }
        }
        if !reports.downloads.is_empty() {
            let downloads = reports.downloads.iter().map(|download| match download {
                DownloadReport::Saved { path, bytes } => json!({"path": path, "bytes": bytes}),
                DownloadReport::Failed { name, reason } => json!({"name": name, "error": reason}),
            });
            self.set_texts("downloads", downloads.collect());
        }
        if reports.file_chooser {
            self.set(
                "note",
                "the page asks for a file; browser_type with the ref @file gives it one, by its path",
            );
        }
    }

    /// Adds what the first result tells about the session.
    pub(super) fn add_features(&mut self, session: &mut BrowserSession) {
        if self.failure.is_some() {
            return;
        }
        if let Some(features) = session.take_features() {
            self.set("stealth_features", features.names);
            if let Some(problem) = features.recording_problem {
                self.set("recording_warning", format!("nothing is recorded: {problem}"));
            }
            if let Some(warning) = features.warning {
                self.set("stealth_warning", warning);
            }
        }
    }

    pub(super) fn into_outcome(mut self) -> ToolOutcome {
        let mut all = Map::new();
        if let Some(warning) = self.warning {
            all.insert("_warning".to_owned(), warning.into());
        }
        let status = match &self.failure {
            None => OutcomeStatus::Done,
            Some(BrowserError::Cancelled) => OutcomeStatus::Cancelled,
            Some(_) => OutcomeStatus::Failed,
        };
        all.insert("success".to_owned(), self.failure.is_none().into());
        if let Some(error) = &self.failure {
            all.insert("error".to_owned(), cleaned(&failure_text(error)).into());
        }
        all.append(&mut self.fields);
        let content = spaced_json(&Value::Object(all));
        ToolOutcome { content, status, provenance: Provenance::Web }
    }

    fn examined(&mut self, text: &str) -> String {
        let text = cleaned(text);
        self.warning = self.warning.take().or_else(|| warning(&text));
        text
    }

    fn examined_value(&mut self, value: Value) -> Value {
        match value {
            Value::String(text) => self.examined(&text).into(),
            Value::Array(values) => {
                Value::Array(values.into_iter().map(|value| self.examined_value(value)).collect())
            }
            Value::Object(fields) => Value::Object(
                fields.into_iter().map(|(name, value)| (name, self.examined_value(value))).collect(),
            ),
            plain => plain,
        }
    }
}
