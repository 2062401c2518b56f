//! What can be seen of a page: its snapshot, its pictures, a screenshot, its messages.

use std::collections::HashSet;

use data_encoding::BASE64;
use serde_json::{Value, json};

use crate::browser::text_of;
use crate::error::BrowserError;
use crate::pages::{ConsoleMessage, Tab, TargetKind};
use crate::session::{BrowserSession, ScrollDirection};
use crate::snapshot::{
    ElementReference, FrameTree, PageSnapshot, PageTree, SnapshotDetail, clickable_elements, write_snapshot,
};

const SCROLL: &str = include_str!("scripts/scroll.js");
const IMAGES: &str = include_str!("scripts/images.js");
const MARKS: &str = include_str!("scripts/marks.js");

/// The largest screenshot, in pixels.
const WIDEST: f64 = 2_000.0;
const HIGHEST: f64 = 6_000.0;
/// The most frames of a page that are read, and the most elements that are marked.
const MOST_FRAMES: usize = 40;
const MOST_MARKS: usize = 150;

/// A picture of a page.
#[derive(Debug, Clone)]
pub struct Screenshot {
    /// The picture as PNG.
    pub png: Vec<u8>,
    /// The elements that have a mark, by their numbers.
    pub marks: Vec<(u32, ElementReference)>,
}

/// Tells whether elements are marked in a screenshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScreenshotMarks {
    None,
    Numbered,
}

/// What a page wrote to its console, and the errors of its scripts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PageMessages {
    pub console: Vec<ConsoleMessage>,
    pub exceptions: Vec<String>,
}

/// How far a page is scrolled, in pixels.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ScrollPosition {
    pub moved: bool,
    /// The end of what is seen.
    pub seen: f64,
    pub all: f64,
}

impl BrowserSession {
    /// Reads the page with its frames as text.
    pub async fn snapshot(&mut self, detail: SnapshotDetail) -> Result<PageSnapshot, BrowserError> {
        let tab = self.tab()?;
        self.sync_references(&tab);
        let page = self.read_tree(&tab).await?;
        Ok(write_snapshot(&page, detail, &mut self.references))
    }

    async fn read_tree(&self, tab: &Tab) -> Result<PageTree, BrowserError> {
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
    async fn clickable(&self, session: &str) -> HashSet<i64> {
        let params = json!({"computedStyles": ["cursor"]});
        match self.call(session, "DOMSnapshot.captureSnapshot", params).await {
            Ok(answer) => clickable_elements(&answer),
            Err(_) => HashSet::new(),
        }
    }

    async fn frame_owner(&self, parent: &str, frame: &str) -> Option<i64> {
        let owner = self.call(parent, "DOM.getFrameOwner", json!({"frameId": frame})).await.ok()?;
        owner["backendNodeId"].as_i64()
    }

    /// Scrolls the page, or what is scrolled in its middle.
    pub async fn scroll(&mut self, direction: ScrollDirection) -> Result<ScrollPosition, BrowserError> {
        let tab = self.tab()?;
        let sign = match direction {
            ScrollDirection::Up => -1,
            ScrollDirection::Down => 1,
        };
        let found = self.evaluate(&tab, SCROLL, &json!(sign)).await?;
        self.settle().await?;
        let number = |name: &str| found[name].as_f64().unwrap_or_default();
        Ok(ScrollPosition {
            moved: found["moved"].as_bool() == Some(true),
            seen: number("seen"),
            all: number("all"),
        })
    }

    /// Lists the pictures of the page; `None` if the page does not tell.
    pub async fn images(&mut self) -> Result<Option<Vec<Value>>, BrowserError> {
        let tab = self.tab()?;
        let found = self.evaluate(&tab, IMAGES, &json!(null)).await?;
        Ok(found.as_array().cloned())
    }

    /// Returns what the pages wrote, oldest first.
    pub fn messages(&self, clear: ClearMessages) -> PageMessages {
        self.pages.change(|state| {
            let messages = PageMessages {
                console: state.console.iter().cloned().collect(),
                exceptions: state.exceptions.iter().cloned().collect(),
            };
            if clear == ClearMessages::Yes {
                state.console.clear();
                state.exceptions.clear();
            }
            messages
        })
    }

    /// Takes a picture of the whole page.
    pub async fn screenshot(&mut self, marks: ScreenshotMarks) -> Result<Screenshot, BrowserError> {
        let tab = self.tab()?;
        let metrics = self.call(&tab.session, "Page.getLayoutMetrics", json!({})).await?;
        let size = |name: &str| metrics["cssContentSize"][name].as_f64().unwrap_or(1_000.0).max(1.0);
        let (width, height) = (size("width").min(WIDEST), size("height").min(HIGHEST));
        let marked = match marks {
            ScreenshotMarks::None => Vec::new(),
            ScreenshotMarks::Numbered => {
                let view = &metrics["cssVisualViewport"];
                let scrolled =
                    (view["pageX"].as_f64().unwrap_or_default(), view["pageY"].as_f64().unwrap_or_default());
                self.mark(&tab, scrolled, (width, height)).await?
            }
        };
        let params = json!({
            "format": "png", "captureBeyondViewport": true,
            "clip": {"x": 0, "y": 0, "width": width, "height": height, "scale": 1},
        });
        let taken = self.call(&tab.session, "Page.captureScreenshot", params).await;
        if !marked.is_empty() {
            // The page is as before, or gone.
            let _ = self.evaluate(&tab, MARKS, &json!([])).await;
        }
        let png = BASE64
            .decode(text_of(&taken?, "data").as_bytes())
            .map_err(|_| BrowserError::Refused("the browser returned no picture".to_owned()))?;
        Ok(Screenshot { png, marks: marked })
    }

    /// Draws a mark at every element that can be used.
    async fn mark(
        &mut self,
        tab: &Tab,
        scrolled: (f64, f64),
        size: (f64, f64),
    ) -> Result<Vec<(u32, ElementReference)>, BrowserError> {
        let snapshot = self.snapshot(SnapshotDetail::Compact).await?;
        let mut places = Vec::new();
        let mut marked = Vec::new();
        let mut taken = HashSet::new();
        for (number, element) in snapshot.elements {
            if marked.len() >= MOST_MARKS || !taken.insert(number) {
                continue;
            }
            let Some(place) = self.place(&element).await? else { continue };
            let (x, y) = (place.x + scrolled.0, place.y + scrolled.1);
            if x < 0.0 || y < 0.0 || x > size.0 || y > size.1 {
                continue;
            }
            places.push(
                json!({"number": number, "x": x, "y": y, "width": place.width, "height": place.height}),
            );
            marked.push((number, element));
        }
        self.evaluate(tab, MARKS, &Value::Array(places)).await?;
        Ok(marked)
    }
}

/// Tells whether messages are forgotten after they were returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClearMessages {
    No,
    Yes,
}
