//! What is known of the pages of one task: tabs, frames, messages, dialogs, downloads, refusals.
//!
//! Events change it, calls read it. Holds no connection. Invariant: everything a page can add to is bounded.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hermes_guard::UrlDenial;
use hermes_types::Clock;
use tokio::sync::watch;

use crate::download::Downloads;
use crate::recording::SessionRecording;

/// The most messages of each kind that are kept; older ones are dropped.
const MOST_MESSAGES: usize = 300;
/// The longest text of a message, in characters.
const LONGEST_MESSAGE: usize = 2_000;
const MOST_REPORTS: usize = 20;

/// The pages of one task. Events and calls share it.
#[derive(Debug)]
pub(crate) struct TaskPages {
    state: Mutex<PagesState>,
    version: watch::Sender<u64>,
}

#[derive(Debug, Default)]
pub(crate) struct PagesState {
    /// The tabs in the order in which they were opened.
    pub(crate) tabs: Vec<Tab>,
    /// The target of the tab that calls are about.
    pub(crate) current: Option<String>,
    /// Every session of the protocol by its id.
    pub(crate) targets: HashMap<String, TargetFacts>,
    pub(crate) console: VecDeque<ConsoleMessage>,
    pub(crate) exceptions: VecDeque<String>,
    pub(crate) open_dialog: Option<OpenDialog>,
    /// The session and the node of the field for which the page asked for files.
    pub(crate) file_field: Option<(String, i64)>,
    pub(crate) recording: Option<Arc<SessionRecording>>,
    pub(crate) downloads: Downloads,
    /// What happened since the last result, for the model.
    pub(crate) reports: PageReports,
    pub(crate) has_ended: bool,
}

/// A tab.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tab {
    pub(crate) target: String,
    pub(crate) session: String,
    pub(crate) url: String,
    /// The document that is shown or being loaded.
    pub(crate) loader: String,
    pub(crate) is_loading: bool,
    pub(crate) dom_ready: Option<String>,
    pub(crate) loaded: Option<String>,
    pub(crate) is_crashed: bool,
}

/// A target of the protocol that Hermes is attached to.
#[derive(Debug, Clone)]
pub(crate) struct TargetFacts {
    pub(crate) target: String,
    pub(crate) kind: TargetKind,
    /// The session of the target that it is a part of.
    pub(crate) parent: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TargetKind {
    Page,
    /// A frame that lives in a process of its own.
    Frame,
    Other,
}

/// A message that a page wrote to its console.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConsoleMessage {
    pub kind: String,
    pub text: String,
}

/// A dialog that waits for an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenDialog {
    pub(crate) session: String,
    /// `alert`, `confirm`, `prompt` or `beforeunload`.
    pub kind: String,
    pub message: String,
    /// The text a prompt will be answered with.
    pub text: String,
}

impl OpenDialog {
    /// Tells whether it is this dialog; its text may have been set meanwhile.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        (&self.session, &self.kind, &self.message) == (&other.session, &other.kind, &other.message)
    }
}

/// What happened in a page besides what a call did itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PageReports {
    /// Dialogs that were answered without the model: kind, message and answer.
    pub dialogs: Vec<String>,
    /// The addresses of tabs that were opened.
    pub new_tabs: Vec<String>,
    pub downloads: Vec<DownloadReport>,
    /// Requests that were refused: the host, and why.
    pub refused: Vec<String>,
    /// Set when the refused request was for the page itself.
    pub refused_page: Option<UrlDenial>,
    pub file_chooser: bool,
}

/// A download that has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DownloadReport {
    Saved { path: std::path::PathBuf, bytes: u64 },
    Failed { name: String, reason: String },
}

impl TaskPages {
    pub(crate) fn new() -> Self {
        Self { state: Mutex::default(), version: watch::Sender::new(0) }
    }

    pub(crate) fn read<T>(&self, look: impl FnOnce(&PagesState) -> T) -> T {
        look(&self.lock())
    }

    /// Changes the state, and wakes everyone who waits for a change.
    pub(crate) fn change<T>(&self, edit: impl FnOnce(&mut PagesState) -> T) -> T {
        let result = edit(&mut self.lock());
        self.version.send_modify(|version| *version += 1);
        result
    }

    /// Waits until the condition holds, for at most `limit`. Tells whether it does.
    pub(crate) async fn wait_for(
        &self,
        limit: Duration,
        clock: &dyn Clock,
        condition: impl Fn(&PagesState) -> bool,
    ) -> bool {
        let mut changes = self.version.subscribe();
        let mut late = clock.sleep(limit);
        loop {
            if self.read(&condition) {
                return true;
            }
            tokio::select! {
                changed = changes.changed() => if changed.is_err() { return false },
                () = &mut late => return self.read(&condition),
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, PagesState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PagesState {
    pub(crate) fn current_tab(&self) -> Option<&Tab> {
        let current = self.current.as_deref()?;
        self.tabs.iter().find(|tab| tab.target == current)
    }

    /// Returns the tab of a session, if the session is a page's own.
    pub(crate) fn tab_of_session(&mut self, session: &str) -> Option<&mut Tab> {
        self.tabs.iter_mut().find(|tab| tab.session == session)
    }

    /// Adds a tab, which becomes the current one.
    pub(crate) fn add_tab(&mut self, tab: Tab) {
        if self.current.is_some() && self.reports.new_tabs.len() < MOST_REPORTS {
            self.reports.new_tabs.push(tab.target.clone());
        }
        self.current = Some(tab.target.clone());
        self.tabs.push(tab);
    }

    /// Removes a session and what belongs to it. The last tab that is left becomes the current one.
    pub(crate) fn remove_session(&mut self, session: &str) {
        self.targets.remove(session);
        self.targets.retain(|_, facts| facts.parent.as_deref() != Some(session));
        if self.open_dialog.as_ref().is_some_and(|dialog| dialog.session == session) {
            self.open_dialog = None;
        }
        self.tabs.retain(|tab| tab.session != session);
        let is_open = |target: &String| self.tabs.iter().any(|tab| tab.target == *target);
        if !self.current.as_ref().is_some_and(is_open) {
            self.current = self.tabs.last().map(|tab| tab.target.clone());
        }
    }

    pub(crate) fn add_console(&mut self, kind: &str, text: &str) {
        if self.console.len() == MOST_MESSAGES {
            self.console.pop_front();
        }
        self.console.push_back(ConsoleMessage { kind: kind.to_owned(), text: clipped(text) });
    }

    pub(crate) fn add_exception(&mut self, text: &str) {
        if self.exceptions.len() == MOST_MESSAGES {
            self.exceptions.pop_front();
        }
        self.exceptions.push_back(clipped(text));
    }
}

impl PageReports {
    pub(crate) fn add_dialog(&mut self, report: &str) {
        if self.dialogs.len() < MOST_REPORTS {
            self.dialogs.push(clipped(report));
        }
    }

    pub(crate) fn add_refusal(&mut self, report: String) {
        if self.refused.len() < MOST_REPORTS && !self.refused.contains(&report) {
            self.refused.push(report);
        }
    }

    pub(crate) fn add_download(&mut self, report: DownloadReport) {
        if self.downloads.len() < MOST_REPORTS {
            self.downloads.push(report);
        }
    }
}

fn clipped(text: &str) -> String {
    text.chars().take(LONGEST_MESSAGE).collect()
}
