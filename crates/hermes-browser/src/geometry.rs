//! Where elements are in the window.

use serde_json::json;

use crate::error::BrowserError;
use crate::page_calls::{PageCalls, gone};
use crate::pages::TargetKind;
use crate::snapshot::ElementReference;

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

impl PageCalls {
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
    pub(crate) async fn frame_offset(&self, session: &str) -> Result<(f64, f64), BrowserError> {
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
