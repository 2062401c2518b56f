//! What can be done with one element: click it, fill it in.

use serde_json::json;

use crate::browser::text_of;
use crate::error::BrowserError;
use crate::key::KeyPress;
use crate::page_calls::gone;
use crate::session::BrowserSession;
use crate::snapshot::ElementReference;

const CHECK_CLICK: &str = include_str!("scripts/check_click.js");
const DIRECT_CLICK: &str = include_str!("scripts/direct_click.js");
const PREPARE_FILL: &str = include_str!("scripts/prepare_fill.js");

/// The reference that stands for the dialog of a page.
const DIALOG: &str = "dialog";

impl BrowserSession {
    /// Clicks an element. Returns a remark if it could not be clicked like a person does.
    pub async fn click(&mut self, reference: &str) -> Result<Option<String>, BrowserError> {
        let element = self.element(reference)?;
        let params = json!({"backendNodeId": element.node});
        self.page.call(&element.session, "DOM.scrollIntoViewIfNeeded", params).await.or_else(|error| {
            match error {
                // What has no place on the page cannot be scrolled to, but can be clicked by a script.
                BrowserError::Refused(reason) if reason.contains("layout") || reason.contains("visible") => {
                    Ok(json!(null))
                }
                other => Err(gone(other)),
            }
        })?;
        let found = self.page.evaluate_on(&element, CHECK_CLICK, &json!(null)).await?;
        let remark = match text_of(&found, "way").as_str() {
            "mouse" => {
                self.click_with_mouse(&element).await?;
                None
            }
            "covered" => {
                self.click_directly(&element).await?;
                Some(format!("{} covers this element; it was clicked by a script", text_of(&found, "by")))
            }
            _ => {
                self.click_directly(&element).await?;
                None
            }
        };
        self.page.settle().await?;
        Ok(remark)
    }

    async fn click_directly(&self, element: &ElementReference) -> Result<(), BrowserError> {
        match self.page.evaluate_on(element, DIRECT_CLICK, &json!(null)).await {
            // The click opened it.
            Err(_) if self.page.open_dialog().is_some() => Ok(()),
            outcome => outcome.map(drop),
        }
    }

    async fn click_with_mouse(&self, element: &ElementReference) -> Result<(), BrowserError> {
        let tab = self.page.tab()?;
        let Some(place) = self.page.place(element).await? else { return self.click_directly(element).await };
        let (x, y) = (place.x + place.width / 2.0, place.y + place.height / 2.0);
        for (kind, buttons) in [("mouseMoved", 0), ("mousePressed", 1), ("mouseReleased", 0)] {
            let mut event = json!({"type": kind, "x": x, "y": y, "buttons": buttons});
            if kind != "mouseMoved" {
                event["button"] = "left".into();
                event["clickCount"] = 1.into();
            }
            match self.page.call(&tab.session, "Input.dispatchMouseEvent", event).await {
                Err(_) if self.page.open_dialog().is_some() => return Ok(()),
                // The click has closed the tab.
                Err(BrowserError::Refused(_)) if kind == "mouseReleased" => return Ok(()),
                outcome => outcome?,
            };
        }
        Ok(())
    }

    /// Replaces the contents of a field.
    pub async fn fill(&mut self, reference: &str, text: &str) -> Result<(), BrowserError> {
        if reference.trim().trim_start_matches('@') == DIALOG {
            return self.page.set_prompt_text(text);
        }
        let element = self.element(reference)?;
        let params = json!({"backendNodeId": element.node});
        // A field that is not shown may still take a text.
        let _ = self.page.call(&element.session, "DOM.scrollIntoViewIfNeeded", params).await;
        let state = self.page.evaluate_on(&element, PREPARE_FILL, &json!(text)).await?;
        if let Some(reason) = state["refused"].as_str() {
            return Err(BrowserError::Refused(format!("{} was not filled in: {reason}", shown(&element))));
        }
        if state["done"].as_bool() != Some(true) {
            if text.is_empty() {
                if state["empty"].as_bool() != Some(true) {
                    self.page.press_key(&element.session, &KeyPress::parse("Delete")?).await?;
                }
            } else {
                let params = json!({"text": text});
                match self.page.call(&element.session, "Input.insertText", params).await {
                    Err(_) if self.page.open_dialog().is_some() => {}
                    outcome => drop(outcome?),
                }
            }
        }
        self.page.settle().await
    }

    /// Returns the element of a reference.
    pub(crate) fn element(&mut self, reference: &str) -> Result<ElementReference, BrowserError> {
        let tab = self.page.tab()?;
        self.sync_references(&tab);
        match self.references.find(reference) {
            Some((_, element)) => Ok(element.clone()),
            None => Err(BrowserError::Refused(format!(
                "there is no element '{}' on this page. References such as @e5 come from browser_snapshot, and are valid \
                 until another page is opened",
                reference.chars().take(40).collect::<String>()
            ))),
        }
    }
}

fn shown(element: &ElementReference) -> String {
    if element.name.is_empty() {
        format!("the {}", element.role)
    } else {
        format!("{} \"{}\"", element.role, element.name)
    }
}
