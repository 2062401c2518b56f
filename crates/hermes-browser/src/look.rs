//! What can be seen of a page: its snapshot, its pictures, a screenshot, its messages.

use std::collections::HashSet;

use data_encoding::BASE64;
use serde_json::{Value, json};

use crate::browser::text_of;
use crate::error::BrowserError;
use crate::pages::{ConsoleMessage, Tab};
use crate::session::{BrowserSession, ScrollDirection};
use crate::snapshot::{ElementReference, PageSnapshot, SnapshotDetail, write_snapshot};

const SCROLL: &str = include_str!("scripts/scroll.js");
const IMAGES: &str = include_str!("scripts/images.js");
const MARKS: &str = include_str!("scripts/marks.js");

/// The largest screenshot, in pixels.
const WIDEST: f64 = 2_000.0;
const HIGHEST: f64 = 6_000.0;
/// The most elements that are marked.
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
        let tab = self.page.tab()?;
        self.sync_references(&tab);
        let page = self.page.read_tree(&tab).await?;
        Ok(write_snapshot(&page, detail, &mut self.references))
    }

    /// Scrolls the page, or what is scrolled in its middle.
    pub async fn scroll(&mut self, direction: ScrollDirection) -> Result<ScrollPosition, BrowserError> {
        let tab = self.page.tab()?;
        let sign = match direction {
            ScrollDirection::Up => -1,
            ScrollDirection::Down => 1,
        };
        let found = self.page.evaluate(&tab, SCROLL, &json!(sign)).await?;
        self.page.settle().await?;
        let number = |name: &str| found[name].as_f64().unwrap_or_default();
        Ok(ScrollPosition {
            moved: found["moved"].as_bool() == Some(true),
            seen: number("seen"),
            all: number("all"),
        })
    }

    /// Lists the pictures of the page; `None` if the page does not tell.
    pub async fn images(&mut self) -> Result<Option<Vec<Value>>, BrowserError> {
        let tab = self.page.tab()?;
        let found = self.page.evaluate(&tab, IMAGES, &json!(null)).await?;
        Ok(found.as_array().cloned())
    }

    /// Returns what the pages wrote, oldest first.
    pub fn messages(&self, clear: ClearMessages) -> PageMessages {
        self.page.pages.change(|state| {
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
        let tab = self.page.tab()?;
        let metrics = self.page.call(&tab.session, "Page.getLayoutMetrics", json!({})).await?;
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
        let taken = self.page.call(&tab.session, "Page.captureScreenshot", params).await;
        if !marked.is_empty() {
            // The page is as before, or gone.
            let _ = self.page.evaluate(&tab, MARKS, &json!([])).await;
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
            let Some(place) = self.page.place(&element).await? else { continue };
            let (x, y) = (place.x + scrolled.0, place.y + scrolled.1);
            if x < 0.0 || y < 0.0 || x > size.0 || y > size.1 {
                continue;
            }
            places.push(
                json!({"number": number, "x": x, "y": y, "width": place.width, "height": place.height}),
            );
            marked.push((number, element));
        }
        self.page.evaluate(tab, MARKS, &Value::Array(places)).await?;
        Ok(marked)
    }
}

/// Tells whether messages are forgotten after they were returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClearMessages {
    No,
    Yes,
}
