//! The session of one task: what can be done with its pages.
//!
//! Holds navigation and what every action shares; elements and looks have modules of their own. Invariant: no call waits
//! for a page that waits for an answer to a dialog.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use hermes_types::Clock;
use serde_json::json;

use crate::browser::{Browser, CONTROL_TIMEOUT, Isolation, text_of};
use crate::cloud::CloudLease;
use crate::error::BrowserError;
use crate::key::KeyPress;
use crate::network::RequestGuard;
use crate::page_calls::{PageCalls, dialog_error};
use crate::pages::{OpenDialog, PageReports, PagesState, Tab, TaskPages};
use crate::snapshot::References;

/// The least time for opening a page.
const NAVIGATION_TIMEOUT: Duration = Duration::from_mins(1);

/// The session of a task in a browser.
#[derive(Debug)]
pub struct BrowserSession {
    pub(crate) page: PageCalls,
    pub(crate) references: References,
    /// The document that the references are about.
    document: (String, String),
    context: Option<String>,
    guard: RequestGuard,
    lease: Option<CloudLease>,
    /// Facts about the session that the first result tells.
    first_words: Option<SessionFeatures>,
}

/// What the first result of a session tells about it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SessionFeatures {
    pub names: Vec<&'static str>,
    pub warning: Option<&'static str>,
    /// The reason why the session is not recorded although it should be.
    pub recording_problem: Option<String>,
}

/// The page that a call ended at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageArrival {
    pub url: String,
    pub title: String,
}

/// The way to scroll.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScrollDirection {
    Up,
    Down,
}

/// What a key press did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeyEffect {
    Pressed,
    /// It answered a dialog.
    AnsweredDialog,
}

impl BrowserSession {
    pub(crate) async fn open(
        browser: Arc<Browser>,
        pages: Arc<TaskPages>,
        isolation: Isolation,
        guard: RequestGuard,
        clock: Arc<dyn Clock>,
        limit: Duration,
    ) -> Result<Self, BrowserError> {
        let context = browser.open_pages(&pages, isolation, &*clock).await?;
        Ok(Self {
            page: PageCalls { browser, pages, clock, limit },
            references: References::default(),
            document: Default::default(),
            context,
            guard,
            lease: None,
            first_words: None,
        })
    }

    pub(crate) fn with_lease(self, lease: Option<CloudLease>) -> Self {
        Self { lease, ..self }
    }

    pub(crate) fn with_features(self, features: SessionFeatures) -> Self {
        Self { first_words: Some(features), ..self }
    }

    /// Returns what the first result tells about the session; only the first call does.
    pub fn take_features(&mut self) -> Option<SessionFeatures> {
        self.first_words.take()
    }

    pub fn is_open(&self) -> bool {
        self.page.is_open()
    }

    /// Returns the dialog that waits for an answer.
    pub fn open_dialog(&self) -> Option<OpenDialog> {
        self.page.open_dialog()
    }

    /// Returns the address and the title of the current page.
    pub async fn arrival(&self) -> Result<PageArrival, BrowserError> {
        self.page.arrival().await
    }

    /// Opens a page.
    pub async fn navigate(&mut self, address: &str) -> Result<PageArrival, BrowserError> {
        let url = self.guard.parse(address).await.map_err(BrowserError::Denied)?;
        self.page.dismiss_dialog().await;
        let tab = self.usable_tab().await?;
        self.page.pages.change(|state| state.reports.refused_page = None);
        let limit = self.page.limit.max(NAVIGATION_TIMEOUT);
        let params = json!({"url": url.as_str()});
        let answer = self.page.call_within(&tab.session, "Page.navigate", params, limit).await?;
        self.page.fail_if_refused(&tab).await?;
        let problem = text_of(&answer, "errorText");
        if !problem.is_empty() {
            let is_download = self
                .page
                .pages
                .read(|state| state.downloads.is_running() || !state.reports.downloads.is_empty());
            if problem != "net::ERR_ABORTED" || !is_download {
                return Err(BrowserError::Refused(format!("the page could not be opened: {problem}")));
            }
            self.page.wait_for_downloads().await;
            return self.page.arrival().await;
        }
        let loader = text_of(&answer, "loaderId");
        if !loader.is_empty() {
            self.page.wait_for_document(&tab, &loader, limit).await?;
        }
        self.page.settle().await?;
        self.page.arrival().await
    }

    /// Goes back to the page before, or to the tab that opened this one.
    pub async fn back(&mut self) -> Result<PageArrival, BrowserError> {
        let tab = self.page.tab()?;
        let history = self.page.call(&tab.session, "Page.getNavigationHistory", json!({})).await?;
        let entries = history["entries"].as_array().map(Vec::as_slice).unwrap_or_default();
        let current = history["currentIndex"].as_u64().and_then(|index| usize::try_from(index).ok());
        let before = current.and_then(|index| entries.get(index.checked_sub(1)?));
        match before.filter(|entry| entry["url"] != "about:blank") {
            Some(entry) => {
                let params = json!({"entryId": entry["id"]});
                self.page.call(&tab.session, "Page.navigateToHistoryEntry", params).await?;
            }
            None if self.page.pages.read(|state| state.tabs.len() > 1) => {
                let params = json!({"targetId": tab.target});
                self.page
                    .browser
                    .connection
                    .call(None, "Target.closeTarget", params, self.page.limit)
                    .await?;
                let is_gone = |state: &PagesState| state.tabs.iter().all(|other| other.target != tab.target);
                self.page.pages.wait_for(self.page.limit, &*self.page.clock, is_gone).await;
            }
            None => return Err(BrowserError::Refused("there is no page to go back to".to_owned())),
        }
        self.page.settle().await?;
        self.page.arrival().await
    }

    /// Presses a key. While a dialog waits, Enter accepts and Escape dismisses it.
    pub async fn press(&mut self, key: &str) -> Result<KeyEffect, BrowserError> {
        let press = KeyPress::parse(key)?;
        if let Some(dialog) = self.page.open_dialog() {
            let accept = match press.key.as_str() {
                "Enter" => true,
                "Escape" => false,
                _ => return Err(dialog_error(&dialog)),
            };
            self.page.answer_dialog(&dialog, accept).await?;
            self.page.settle().await?;
            return Ok(KeyEffect::AnsweredDialog);
        }
        let tab = self.page.tab()?;
        self.page.press_key(&tab.session, &press).await?;
        self.page.settle().await?;
        Ok(KeyEffect::Pressed)
    }

    /// Returns what happened in the pages since the last call, apart from what calls did.
    pub fn take_reports(&self) -> PageReports {
        self.page.pages.change(|state| {
            let mut reports = std::mem::take(&mut state.reports);
            for target in &mut reports.new_tabs {
                let tab = state.tabs.iter().find(|tab| tab.target == *target);
                *target = tab.map_or_else(|| "a tab that is closed again".to_owned(), |tab| tab.url.clone());
            }
            reports
        })
    }

    /// Returns a tab that a page can be opened in.
    async fn usable_tab(&self) -> Result<Tab, BrowserError> {
        if let Ok(tab) = self.page.tab() {
            return Ok(tab);
        }
        let mut params = json!({"url": "about:blank"});
        if let (Some(context), Some(fields)) = (&self.context, params.as_object_mut()) {
            fields.insert("browserContextId".to_owned(), context.as_str().into());
        }
        let created =
            self.page.browser.connection.call(None, "Target.createTarget", params, CONTROL_TIMEOUT).await?;
        let target = text_of(&created, "targetId");
        if self.context.is_none() {
            let params = json!({"targetId": target, "flatten": true});
            self.page.browser.connection.call(None, "Target.attachToTarget", params, CONTROL_TIMEOUT).await?;
        }
        self.page.browser.wait_for_tab(&self.page.pages, &target, &*self.page.clock).await?;
        self.page.pages.change(|state| {
            state.reports.new_tabs.retain(|opened| *opened != target);
            state.current = Some(target.clone());
        });
        self.page.tab()
    }

    /// Forgets references to a document that is no longer shown.
    pub(crate) fn sync_references(&mut self, tab: &Tab) {
        let document = (tab.target.clone(), tab.loader.clone());
        if self.document != document {
            self.references.clear();
            self.document = document;
        }
    }

    /// Closes the tabs of the task, and gives a rented browser back. Returns the video of the session, if there is one.
    pub(crate) async fn close(self) -> Option<PathBuf> {
        let recording = self.page.pages.change(|state| state.recording.take());
        self.page.browser.close_pages(&self.page.pages, self.context.as_deref()).await;
        if let Some(lease) = self.lease {
            self.page.browser.connection.close().await;
            lease.release().await;
        } else if self.context.is_none() {
            self.page.browser.connection.close().await;
        }
        recording?.finish().await
    }
}
