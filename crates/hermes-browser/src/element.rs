//! What can be done with one element: click it, fill it in.

use serde_json::json;

use crate::browser::text_of;
use crate::error::BrowserError;
use crate::key::KeyPress;
use crate::pages::TargetKind;
use crate::session::{BrowserSession, gone};
use crate::snapshot::ElementReference;

const CHECK_CLICK: &str = include_str!("scripts/check_click.js");
const DIRECT_CLICK: &str = include_str!("scripts/direct_click.js");
const PREPARE_FILL: &str = include_str!("scripts/prepare_fill.js");

/// The reference that stands for the dialog of a page.
const DIALOG: &str = "dialog";

/// A place in the window, in pixels.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct ElementBox {
    pub(crate) x: f64,
    pub(crate) y: f64,
    pub(crate) width: f64,
    pub(crate) height: f64,
}

impl ElementBox {
    /// Returns the box around four corners.
    fn around(quad: &[f64]) -> Option<Self> {
        let (xs, ys): (Vec<f64>, Vec<f64>) = quad
            .chunks_exact(2)
            .filter_map(|corner| if let [x, y] = corner { Some((*x, *y)) } else { None })
            .unzip();
        let least = |values: &[f64]| values.iter().copied().reduce(f64::min);
        let most = |values: &[f64]| values.iter().copied().reduce(f64::max);
        let (x, y) = (least(&xs)?, least(&ys)?);
        Some(Self { x, y, width: most(&xs)? - x, height: most(&ys)? - y })
    }
}

impl BrowserSession {
    /// Clicks an element. Returns a remark if it could not be clicked like a person does.
    pub async fn click(&mut self, reference: &str) -> Result<Option<String>, BrowserError> {
        let element = self.element(reference)?;
        let params = json!({"backendNodeId": element.node});
        self.call(&element.session, "DOM.scrollIntoViewIfNeeded", params).await.or_else(
            |error| match error {
                // What has no place on the page cannot be scrolled to, but can be clicked by a script.
                BrowserError::Refused(reason) if reason.contains("layout") || reason.contains("visible") => {
                    Ok(json!(null))
                }
                other => Err(gone(other)),
            },
        )?;
        let found = self.evaluate_on(&element, CHECK_CLICK, &json!(null)).await?;
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
        self.settle().await?;
        Ok(remark)
    }

    async fn click_directly(&self, element: &ElementReference) -> Result<(), BrowserError> {
        match self.evaluate_on(element, DIRECT_CLICK, &json!(null)).await {
            // The click opened it.
            Err(_) if self.open_dialog().is_some() => Ok(()),
            outcome => outcome.map(drop),
        }
    }

    async fn click_with_mouse(&self, element: &ElementReference) -> Result<(), BrowserError> {
        let tab = self.tab()?;
        let Some(place) = self.place(element).await? else { return self.click_directly(element).await };
        let (x, y) = (place.x + place.width / 2.0, place.y + place.height / 2.0);
        for (kind, buttons) in [("mouseMoved", 0), ("mousePressed", 1), ("mouseReleased", 0)] {
            let mut event = json!({"type": kind, "x": x, "y": y, "buttons": buttons});
            if kind != "mouseMoved" {
                event["button"] = "left".into();
                event["clickCount"] = 1.into();
            }
            match self.call(&tab.session, "Input.dispatchMouseEvent", event).await {
                Err(_) if self.open_dialog().is_some() => return Ok(()),
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
            return self.set_prompt_text(text);
        }
        let element = self.element(reference)?;
        let params = json!({"backendNodeId": element.node});
        // A field that is not shown may still take a text.
        let _ = self.call(&element.session, "DOM.scrollIntoViewIfNeeded", params).await;
        let state = self.evaluate_on(&element, PREPARE_FILL, &json!(text)).await?;
        if let Some(reason) = state["refused"].as_str() {
            return Err(BrowserError::Refused(format!("{} was not filled in: {reason}", shown(&element))));
        }
        if state["done"].as_bool() != Some(true) {
            if text.is_empty() {
                if state["empty"].as_bool() != Some(true) {
                    self.press_key(&element.session, &KeyPress::parse("Delete")?).await?;
                }
            } else {
                let params = json!({"text": text});
                match self.call(&element.session, "Input.insertText", params).await {
                    Err(_) if self.open_dialog().is_some() => {}
                    outcome => drop(outcome?),
                }
            }
        }
        self.settle().await
    }

    /// Returns the element of a reference.
    fn element(&mut self, reference: &str) -> Result<ElementReference, BrowserError> {
        let tab = self.tab()?;
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

    /// Returns where an element is in the window; `None` if it is not shown.
    pub(crate) async fn place(&self, element: &ElementReference) -> Result<Option<ElementBox>, BrowserError> {
        let params = json!({"backendNodeId": element.node});
        let quads = match self.call(&element.session, "DOM.getContentQuads", params).await {
            Ok(quads) => quads,
            Err(BrowserError::Refused(_)) => return Ok(None),
            Err(error) => return Err(error),
        };
        let quad: Vec<f64> = quads["quads"][0]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(serde_json::Value::as_f64)
            .collect();
        let Some(inner) = ElementBox::around(&quad) else { return Ok(None) };
        if inner.width < 1.0 || inner.height < 1.0 {
            return Ok(None);
        }
        let (x, y) = self.frame_offset(&element.session).await?;
        Ok(Some(ElementBox { x: inner.x + x, y: inner.y + y, ..inner }))
    }

    /// Returns where the window of a session begins in the window of the tab.
    async fn frame_offset(&self, session: &str) -> Result<(f64, f64), BrowserError> {
        let (mut x, mut y) = (0.0, 0.0);
        let mut session = session.to_owned();
        for _ in 0..20 {
            let facts = self.pages.read(|state| state.targets.get(&session).cloned());
            let Some((facts, parent)) = facts.and_then(|facts| Some((facts.clone(), facts.parent?))) else {
                break;
            };
            if facts.kind != TargetKind::Frame {
                break;
            }
            let params = json!({"frameId": facts.target});
            let owner = self.call(&parent, "DOM.getFrameOwner", params).await.map_err(gone)?;
            let params = json!({"backendNodeId": owner["backendNodeId"]});
            let model = self.call(&parent, "DOM.getBoxModel", params).await.map_err(gone)?;
            let corner = &model["model"]["content"];
            x += corner[0].as_f64().unwrap_or_default();
            y += corner[1].as_f64().unwrap_or_default();
            session = parent;
        }
        Ok((x, y))
    }
}

fn shown(element: &ElementReference) -> String {
    if element.name.is_empty() {
        format!("the {}", element.role)
    } else {
        format!("{} \"{}\"", element.role, element.name)
    }
}
