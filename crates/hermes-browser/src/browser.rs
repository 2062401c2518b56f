//! One browser: its connection, and the sessions of tasks in it.
//!
//! A browser that Hermes started serves all tasks, each with a context of its own: cookies and storage are not shared. One
//! that runs elsewhere serves one task. Invariant: no page of a task loads anything before its requests are intercepted.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hermes_types::{Cancel, Clock};
use serde_json::{Value, json};

use crate::connection::{CdpConnection, CdpTransport};
use crate::error::BrowserError;
use crate::events;
use crate::network::RequestGuard;
use crate::pages::{PagesState, TaskPages};
use crate::proxy::CheckingProxy;

/// The time for calls that need no page.
pub(crate) const CONTROL_TIMEOUT: Duration = Duration::from_secs(30);

/// What answers the dialogs of pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DialogPolicy {
    /// Questions wait for the model; alerts are closed.
    #[default]
    AskModel,
    Accept,
    Dismiss,
}

/// How dialogs of pages are answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DialogRules {
    pub policy: DialogPolicy,
    /// The time after which a question without an answer is dismissed.
    pub timeout: Duration,
}

/// A running browser.
#[derive(Debug)]
pub(crate) struct Browser {
    pub(crate) connection: CdpConnection,
    pub(crate) routes: Arc<Routes>,
    _proxy: Option<CheckingProxy>,
}

/// Which pages an event belongs to.
#[derive(Debug, Default)]
pub(crate) struct Routes {
    state: Mutex<RoutesState>,
}

#[derive(Debug, Default)]
struct RoutesState {
    contexts: HashMap<String, Arc<TaskPages>>,
    /// The pages of the only task of a browser that runs elsewhere.
    only: Option<Arc<TaskPages>>,
    sessions: HashMap<String, Arc<TaskPages>>,
}

impl Routes {
    fn lock(&self) -> MutexGuard<'_, RoutesState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn of_session(&self, session: &str) -> Option<Arc<TaskPages>> {
        self.lock().sessions.get(session).cloned()
    }

    /// Returns the pages that a new target belongs to: those of the target it is a part of, else of its context.
    pub(crate) fn of_target(&self, parent: Option<&str>, context: Option<&str>) -> Option<Arc<TaskPages>> {
        let state = self.lock();
        let of_parent = parent.and_then(|parent| state.sessions.get(parent));
        let of_context = context.and_then(|context| state.contexts.get(context));
        of_parent.or(of_context).or(state.only.as_ref()).cloned()
    }

    pub(crate) fn add_session(&self, session: &str, pages: &Arc<TaskPages>) {
        self.lock().sessions.insert(session.to_owned(), pages.clone());
    }

    pub(crate) fn remove_session(&self, session: &str) {
        self.lock().sessions.remove(session);
    }

    pub(crate) fn context_of(&self, pages: &Arc<TaskPages>) -> Option<String> {
        let state = self.lock();
        let found = state.contexts.iter().find(|(_, known)| Arc::ptr_eq(known, pages));
        found.map(|(context, _)| context.clone())
    }

    /// Returns the pages of every task.
    pub(crate) fn all(&self) -> Vec<Arc<TaskPages>> {
        let state = self.lock();
        state.contexts.values().chain(state.only.as_ref()).cloned().collect()
    }

    fn forget(&self, pages: &Arc<TaskPages>) {
        let mut state = self.lock();
        state.contexts.retain(|_, known| !Arc::ptr_eq(known, pages));
        state.sessions.retain(|_, known| !Arc::ptr_eq(known, pages));
        if state.only.as_ref().is_some_and(|known| Arc::ptr_eq(known, pages)) {
            state.only = None;
        }
    }
}

/// Where the pages of a task are kept apart from others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Isolation {
    /// In a context of its own, of a browser that Hermes started.
    Context,
    /// Nowhere: the browser runs elsewhere, and its user is who Hermes acts for.
    Shared,
}

impl Browser {
    /// Starts to talk to a browser.
    pub(crate) fn open(
        transport: CdpTransport,
        guard: RequestGuard,
        dialogs: DialogRules,
        proxy: Option<CheckingProxy>,
        clock: &Arc<dyn Clock>,
    ) -> Self {
        let (connection, received) = CdpConnection::open(transport, clock.clone());
        let routes = Arc::new(Routes::default());
        let work =
            events::handle_all(received, connection.clone(), routes.clone(), guard, (dialogs, clock.clone()));
        // The receiver ends with the connection, and the task with it.
        drop(hermes_task::spawn_named("browser events", &Cancel::new(), work));
        Self { connection, routes, _proxy: proxy }
    }

    /// Waits until the browser answers, and has it report targets before they load anything.
    pub(crate) async fn attach_all(&self) -> Result<(), BrowserError> {
        let params = json!({"autoAttach": true, "waitForDebuggerOnStart": true, "flatten": true});
        self.connection.call(None, "Target.setAutoAttach", params, CONTROL_TIMEOUT).await.map(drop)
    }

    /// Opens the pages of a task, with one empty tab. Returns the context, where there is one.
    pub(crate) async fn open_pages(
        &self,
        pages: &Arc<TaskPages>,
        isolation: Isolation,
        clock: &dyn Clock,
    ) -> Result<Option<String>, BrowserError> {
        let context = match isolation {
            Isolation::Shared => {
                self.routes.lock().only = Some(pages.clone());
                let discover = json!({"discover": true, "filter": [{"type": "page"}]});
                self.connection.call(None, "Target.setDiscoverTargets", discover, CONTROL_TIMEOUT).await?;
                None
            }
            Isolation::Context => {
                let params = json!({"disposeOnDetach": true});
                let created = self
                    .connection
                    .call(None, "Target.createBrowserContext", params, CONTROL_TIMEOUT)
                    .await?;
                let context = text_of(&created, "browserContextId");
                self.routes.lock().contexts.insert(context.clone(), pages.clone());
                Some(context)
            }
        };
        self.set_downloads(pages, context.as_deref()).await?;
        let mut params = json!({"url": "about:blank"});
        if let (Some(context), Some(fields)) = (&context, params.as_object_mut()) {
            fields.insert("browserContextId".to_owned(), context.as_str().into());
        }
        let created = self.connection.call(None, "Target.createTarget", params, CONTROL_TIMEOUT).await?;
        if isolation == Isolation::Shared {
            let params = json!({"targetId": created["targetId"], "flatten": true});
            self.connection.call(None, "Target.attachToTarget", params, CONTROL_TIMEOUT).await?;
        }
        self.wait_for_tab(pages, &text_of(&created, "targetId"), clock).await?;
        Ok(context)
    }

    /// Waits until a new tab runs: one that is still held up crashes when a page is opened in it.
    pub(crate) async fn wait_for_tab(
        &self,
        pages: &TaskPages,
        target: &str,
        clock: &dyn Clock,
    ) -> Result<(), BrowserError> {
        let session = |state: &PagesState| {
            state.tabs.iter().find(|tab| tab.target == target).map(|tab| tab.session.clone())
        };
        pages.wait_for(CONTROL_TIMEOUT, clock, |state| state.has_ended || session(state).is_some()).await;
        let Some(session) = pages.read(session) else { return Err(BrowserError::TimedOut(CONTROL_TIMEOUT)) };
        let params = json!({"expression": "1"});
        self.connection.call(Some(&session), "Runtime.evaluate", params, CONTROL_TIMEOUT).await.map(drop)
    }

    async fn set_downloads(&self, pages: &TaskPages, context: Option<&str>) -> Result<(), BrowserError> {
        let folder = pages.read(|state| state.downloads.folder.clone());
        let mut params = match folder {
            Some(folder) => {
                json!({"behavior": "allowAndName", "downloadPath": folder, "eventsEnabled": true})
            }
            None => json!({"behavior": "deny", "eventsEnabled": true}),
        };
        if let (Some(context), Some(fields)) = (context, params.as_object_mut()) {
            fields.insert("browserContextId".to_owned(), context.into());
        }
        self.connection.call(None, "Browser.setDownloadBehavior", params, CONTROL_TIMEOUT).await.map(drop)
    }

    /// Closes the tabs of a task.
    pub(crate) async fn close_pages(&self, pages: &Arc<TaskPages>, context: Option<&str>) {
        let targets = pages.read(|state| state.tabs.iter().map(|tab| tab.target.clone()).collect::<Vec<_>>());
        self.routes.forget(pages);
        pages.change(|state| state.has_ended = true);
        if !self.connection.is_open() {
            return;
        }
        let limit = Duration::from_secs(10);
        // A browser that does not answer is ended with its connection.
        match context {
            Some(context) => {
                let params = json!({"browserContextId": context});
                let _ = self.connection.call(None, "Target.disposeBrowserContext", params, limit).await;
            }
            None => {
                for target in targets {
                    let params = json!({"targetId": target});
                    let _ = self.connection.call(None, "Target.closeTarget", params, limit).await;
                }
            }
        }
    }
}

/// Returns a text field of an answer, or nothing.
pub(crate) fn text_of(value: &Value, name: &str) -> String {
    value.get(name).and_then(Value::as_str).unwrap_or_default().to_owned()
}
