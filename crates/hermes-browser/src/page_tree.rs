//! Reads the accessibility trees of a page and of all its frames.

use std::collections::HashSet;

use serde_json::json;

use crate::browser::text_of;
use crate::error::BrowserError;
use crate::page_calls::PageCalls;
use crate::pages::{Tab, TargetKind};
use crate::snapshot::{FrameTree, PageTree, clickable_elements};

/// The most frames of a page that are read.
const MOST_FRAMES: usize = 40;

impl PageCalls {
    pub(crate) async fn read_tree(&self, tab: &Tab) -> Result<PageTree, BrowserError> {
        let mut page = PageTree::default();
        // Sessions whose frames are still to be read, with the frame's owner.
        let mut waiting: Vec<(String, Option<String>)> = vec![(tab.session.clone(), None)];
        while let Some((session, parent)) = waiting.pop() {
            let frames = match self.call(&session, "Page.getFrameTree", json!({})).await {
                Ok(frames) => frames,
                // A frame that has just gone.
                Err(BrowserError::Refused(_)) if parent.is_some() => continue,
                Err(error) => return Err(error),
            };
            let clickable = self.clickable(&session).await;
            let mut tree = vec![(&frames["frameTree"], parent.clone())];
            while let Some((entry, parent)) = tree.pop() {
                if page.frames.len() >= MOST_FRAMES {
                    return Ok(page);
                }
                let frame = text_of(&entry["frame"], "id");
                let params = json!({"frameId": frame});
                let nodes = match self.call(&session, "Accessibility.getFullAXTree", params).await {
                    Ok(nodes) => nodes,
                    Err(BrowserError::Refused(_)) if !page.frames.is_empty() => continue,
                    Err(error) => return Err(error),
                };
                if let Some(parent) = parent
                    && let Some(owner) = self.frame_owner(&parent, &frame).await
                {
                    page.owners.insert((parent, owner), page.frames.len());
                }
                page.frames.push(FrameTree::new(&session, &frame, &nodes, clickable.clone()));
                let children = entry["childFrames"].as_array().map(Vec::as_slice).unwrap_or_default();
                tree.extend(children.iter().map(|child| (child, Some(session.clone()))));
            }
            let of_session = self.pages.read(|state| {
                let frames = state.targets.iter().filter(|(_, facts)| {
                    facts.kind == TargetKind::Frame && facts.parent.as_ref() == Some(&session)
                });
                frames.map(|(id, _)| id.clone()).collect::<Vec<_>>()
            });
            waiting.extend(of_session.into_iter().map(|id| (id, Some(session.clone()))));
        }
        Ok(page)
    }

    /// Returns the elements that react to the mouse. Without them the snapshot is only less complete.
    pub(crate) async fn clickable(&self, session: &str) -> HashSet<i64> {
        let params = json!({"computedStyles": ["cursor"]});
        match self.call(session, "DOMSnapshot.captureSnapshot", params).await {
            Ok(answer) => clickable_elements(&answer),
            Err(_) => HashSet::new(),
        }
    }

    pub(crate) async fn frame_owner(&self, parent: &str, frame: &str) -> Option<i64> {
        let owner = self.call(parent, "DOM.getFrameOwner", json!({"frameId": frame})).await.ok()?;
        owner["backendNodeId"].as_i64()
    }
}
