//! Files for the fields of a page.

use std::path::PathBuf;

use serde_json::json;

use crate::error::BrowserError;
use crate::page_calls::gone;
use crate::session::BrowserSession;

/// The reference that stands for the field for which a page asked for files.
const FILE_FIELD: &str = "file";
const TAKES_FILES: &str = "function () { return this.tagName === 'INPUT' && this.type === 'file'; }";

impl BrowserSession {
    /// Tells whether an element takes files.
    pub async fn takes_files(&mut self, reference: &str) -> Result<bool, BrowserError> {
        if is_file_field(reference) {
            return Ok(true);
        }
        let Ok(element) = self.element(reference) else { return Ok(false) };
        let answer = self.page.evaluate_on(&element, TAKES_FILES, &json!(null)).await?;
        Ok(answer.as_bool() == Some(true))
    }

    /// Gives files of this machine to a field.
    pub async fn upload(&mut self, reference: &str, files: &[PathBuf]) -> Result<(), BrowserError> {
        if self.page.pages.read(|state| state.downloads.folder.is_none()) {
            return Err(BrowserError::Refused(
                "the browser runs on another machine, where the files of this one are not".to_owned(),
            ));
        }
        let (session, node) = if is_file_field(reference) {
            let field = self.page.pages.read(|state| state.file_field.clone());
            field.ok_or_else(|| {
                BrowserError::Refused("no page asks for a file. Click what opens its dialog first".to_owned())
            })?
        } else {
            let element = self.element(reference)?;
            (element.session.clone(), element.node)
        };
        let params = json!({"files": files, "backendNodeId": node});
        self.page.call(&session, "DOM.setFileInputFiles", params).await.map_err(gone)?;
        self.page.pages.change(|state| state.file_field = None);
        self.page.settle().await
    }
}

fn is_file_field(reference: &str) -> bool {
    reference.trim().trim_start_matches('@') == FILE_FIELD
}
