//! The sessions of all tasks.
//!
//! A session is opened when a task first needs it, and closed when it is idle, when its task ends and when Hermes ends.
//! Invariant: a browser that Hermes started runs only while a session is open.

use std::collections::HashMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hermes_net::{HeaderMap, HttpClient, SocketLimits, Url};
use hermes_types::{Cancel, Clock, Deadline, TaskId};
use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard};

use crate::address::socket_address;
use crate::browser::{Browser, DialogRules, Isolation};
use crate::cloud::CloudService;
use crate::connection::{CdpTransport, LARGEST_MESSAGE};
use crate::error::BrowserError;
use crate::launch::LocalBrowserOptions;
use crate::network::{BrowserNetwork, HostNameResolution, PolicySource, RequestGuard};
use crate::pages::TaskPages;
use crate::proxy::CheckingProxy;
use crate::recording::{RecordingOptions, SessionRecording};
use crate::session::{BrowserSession, SessionFeatures};

/// How often idle sessions are looked for.
const CHECK_INTERVAL: Duration = Duration::from_secs(15);
const SHORTEST_INTERVAL: Duration = Duration::from_millis(100);
/// The longest life of a connection to a browser that runs elsewhere.
const LONGEST_LIFE: Duration = Duration::from_hours(24 * 30);

/// Builds the HTTP client when it is first needed.
pub type HttpSource = Arc<dyn Fn() -> Result<HttpClient, String> + Send + Sync>;

/// Where the browser is.
#[derive(Debug, Clone)]
pub enum BrowserPlace {
    /// On this machine, started by Hermes.
    Local,
    /// At an address of the DevTools protocol.
    Address(String),
    Cloud(CloudService),
    /// Nowhere, for this reason.
    Nowhere(String),
}

/// How an agent uses browsers.
#[derive(Clone)]
pub struct BrowserOptions {
    pub place: BrowserPlace,
    pub local: LocalBrowserOptions,
    pub http: HttpSource,
    pub policy: PolicySource,
    /// What resolves names and connects; `None` for the HTTP client.
    pub network: Option<Arc<dyn BrowserNetwork>>,
    pub resolution: HostNameResolution,
    pub dialogs: DialogRules,
    /// Says where sessions are recorded, if they are.
    pub recordings: Option<RecordingOptions>,
    /// The folder for files that pages make the browser save.
    pub downloads: PathBuf,
    pub command_timeout: Duration,
    pub idle_timeout: Duration,
}

impl fmt::Debug for BrowserOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BrowserOptions").field("place", &self.place).finish_non_exhaustive()
    }
}

/// The sessions of all tasks of a process. Clones share them.
#[derive(Debug, Clone)]
pub struct BrowserPool(Arc<PoolState>);

#[derive(Debug)]
struct PoolState {
    clock: Arc<dyn Clock>,
    tasks: Mutex<HashMap<TaskId, Arc<TaskSlot>>>,
    /// The browser that Hermes started, for all tasks.
    local: AsyncMutex<Option<Arc<Browser>>>,
    /// The address that a user chose while the program runs; it takes precedence over the configuration.
    address: Mutex<Option<String>>,
    /// Tells whether the task that closes idle sessions runs.
    watched: Mutex<bool>,
    stop: Cancel,
}

#[derive(Debug)]
struct TaskSlot {
    session: Arc<AsyncMutex<Option<BrowserSession>>>,
    last_used: Mutex<Duration>,
    idle_timeout: Duration,
}

/// A session that was closed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ClosedSession {
    /// The video of it.
    pub recording: Option<PathBuf>,
}

/// A session in use. Another call of the same task waits until it is dropped.
#[derive(Debug)]
pub struct SessionInUse {
    guard: OwnedMutexGuard<Option<BrowserSession>>,
    slot: Arc<TaskSlot>,
    clock: Arc<dyn Clock>,
}

impl SessionInUse {
    /// Returns the session; `None` if none is open.
    pub fn session(&mut self) -> Option<&mut BrowserSession> {
        self.guard.as_mut()
    }
}

impl Drop for SessionInUse {
    fn drop(&mut self) {
        *lock(&self.slot.last_used) = self.clock.monotonic();
    }
}

impl BrowserPool {
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self(Arc::new(PoolState {
            clock,
            tasks: Mutex::default(),
            local: AsyncMutex::default(),
            address: Mutex::default(),
            watched: Mutex::default(),
            stop: Cancel::new(),
        }))
    }

    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.0.clock
    }

    /// Returns the address that a user chose while the program runs.
    pub fn chosen_address(&self) -> Option<String> {
        lock(&self.0.address).clone()
    }

    /// Returns how many tasks have a session.
    pub fn open_sessions(&self) -> usize {
        lock(&self.0.tasks).len()
    }

    /// Tells whether a browser can be used with these options, without starting one.
    pub fn is_usable(&self, options: &BrowserOptions) -> bool {
        match &options.place {
            _ if self.chosen_address().is_some() => true,
            BrowserPlace::Local => options.local.find(&self.0.clock).is_some(),
            BrowserPlace::Address(_) | BrowserPlace::Cloud(_) => true,
            BrowserPlace::Nowhere(_) => false,
        }
    }

    /// Uses the browser at an address from now on, after checking that one answers there. Open sessions are closed.
    pub async fn connect(&self, address: &str, options: &BrowserOptions) -> Result<Url, BrowserError> {
        let http = (options.http)().map_err(BrowserError::Unavailable)?;
        let url = socket_address(address, &http, &self.0.clock, &Cancel::new()).await?;
        let transport = self.dial(&url, &http).await?;
        // It answers.
        drop(transport);
        *lock(&self.0.address) = Some(address.to_owned());
        self.close_all().await;
        Ok(url)
    }

    /// Uses the configured browser again. Returns the address that was used until now.
    pub async fn disconnect(&self) -> Option<String> {
        let before = lock(&self.0.address).take();
        self.close_all().await;
        before
    }

    /// Returns the session of a task if there is one.
    pub async fn existing(&self, task: &TaskId) -> Option<SessionInUse> {
        let slot = lock(&self.0.tasks).get(task).cloned()?;
        Some(self.enter(slot).await)
    }

    /// Returns the session of a task; opens one if there is none, or if its browser has ended.
    pub async fn session(
        &self,
        task: &TaskId,
        options: &BrowserOptions,
        cancel: &Cancel,
    ) -> Result<SessionInUse, BrowserError> {
        let slot = {
            let mut tasks = lock(&self.0.tasks);
            let slot = tasks.entry(task.clone()).or_insert_with(|| {
                Arc::new(TaskSlot {
                    session: Arc::default(),
                    last_used: Mutex::new(self.0.clock.monotonic()),
                    idle_timeout: options.idle_timeout,
                })
            });
            slot.clone()
        };
        let mut in_use = self.enter(slot).await;
        if in_use.guard.as_ref().is_some_and(BrowserSession::is_open) {
            return Ok(in_use);
        }
        if let Some(ended) = in_use.guard.take() {
            ended.close().await;
        }
        let opened = tokio::select! {
            biased;
            () = cancel.cancelled() => Err(BrowserError::Cancelled),
            opened = self.open(task, options, cancel) => opened,
        };
        match opened {
            Ok(session) => {
                *in_use.guard = Some(session);
                self.watch();
                Ok(in_use)
            }
            Err(error) => {
                lock(&self.0.tasks).retain(|known, slot| known != task || !Arc::ptr_eq(slot, &in_use.slot));
                drop(in_use);
                self.end_unused().await;
                Err(error)
            }
        }
    }

    async fn enter(&self, slot: Arc<TaskSlot>) -> SessionInUse {
        let guard = slot.session.clone().lock_owned().await;
        SessionInUse { guard, slot, clock: self.0.clock.clone() }
    }

    async fn open(
        &self,
        task: &TaskId,
        options: &BrowserOptions,
        cancel: &Cancel,
    ) -> Result<BrowserSession, BrowserError> {
        let pages = Arc::new(TaskPages::new());
        let http = (options.http)().map_err(BrowserError::Unavailable)?;
        let network: Arc<dyn BrowserNetwork> =
            options.network.clone().unwrap_or_else(|| Arc::new(http.clone()));
        let guard =
            RequestGuard::new(network, options.policy.clone(), options.resolution, self.0.clock.clone());
        let place = self.chosen_address().map_or_else(|| options.place.clone(), BrowserPlace::Address);
        let (browser, isolation, lease, mut features) = match place {
            BrowserPlace::Nowhere(reason) => return Err(BrowserError::Unavailable(reason)),
            BrowserPlace::Local => {
                make_private(&options.downloads)?;
                pages.change(|state| state.downloads.folder = Some(options.downloads.clone()));
                let browser = self.local(options, &guard).await?;
                let warning = crate::launch::is_root()
                    .then_some("Hermes runs as root, so the browser runs without its own sandbox");
                let features =
                    SessionFeatures { names: vec!["local"], warning, ..SessionFeatures::default() };
                (browser, Isolation::Context, None, features)
            }
            BrowserPlace::Address(address) => {
                let url = socket_address(&address, &http, &self.0.clock, cancel).await?;
                let browser = self.remote(&url, &http, &guard, options).await?;
                let features = SessionFeatures { names: vec!["cdp_override"], ..SessionFeatures::default() };
                (browser, Isolation::Shared, None, features)
            }
            BrowserPlace::Cloud(service) => {
                let rented = service.rent(&http, &self.0.clock, cancel).await?;
                let url = Url::parse(&rented.address).map_err(|_| {
                    BrowserError::Unavailable(format!("{} gave no valid address", service.name()))
                });
                let browser = match url {
                    Ok(url) => self.remote(&url, &http, &guard, options).await,
                    Err(error) => Err(error),
                };
                match browser {
                    Ok(browser) => (browser, Isolation::Shared, Some(rented.lease), rented.features),
                    Err(error) => {
                        rented.lease.release().await;
                        return Err(error);
                    }
                }
            }
        };
        if let Some(recordings) = &options.recordings {
            match SessionRecording::start(recordings, task, self.0.clock.now()) {
                Ok(recording) => pages.change(|state| state.recording = Some(Arc::new(recording))),
                Err(error) => features.recording_problem = Some(error.to_string()),
            }
        }
        let limit = options.command_timeout;
        let opened =
            BrowserSession::open(browser, pages, isolation, guard, self.0.clock.clone(), limit).await;
        match (opened, lease) {
            (Ok(session), lease) => Ok(session.with_lease(lease).with_features(features)),
            (Err(error), Some(lease)) => {
                lease.release().await;
                Err(error)
            }
            (Err(error), None) => Err(error),
        }
    }

    /// Returns the browser on this machine, which is started if it does not run.
    async fn local(
        &self,
        options: &BrowserOptions,
        guard: &RequestGuard,
    ) -> Result<Arc<Browser>, BrowserError> {
        let mut local = self.0.local.lock().await;
        if let Some(browser) = local.as_ref().filter(|browser| browser.connection.is_open()) {
            return Ok(browser.clone());
        }
        let clock = &self.0.clock;
        let (proxy, address) = if let Some(address) = &options.local.proxy {
            (None, address.clone())
        } else {
            let started = CheckingProxy::start(guard.clone(), clock.clone()).await;
            let proxy = started.map_err(|error| {
                BrowserError::Unavailable(format!(
                    "the browser was not started, because it gets no proxy: {error}"
                ))
            })?;
            let address = proxy.address();
            (Some(proxy), address)
        };
        let transport = options.local.start(&address, clock).await?;
        let browser = Arc::new(Browser::open(transport, guard.clone(), options.dialogs, proxy, clock));
        if let Err(error) = browser.attach_all().await {
            browser.connection.close().await;
            return Err(match error {
                BrowserError::Ended(reason) => BrowserError::Unavailable(format!(
                    "the browser ended at its start{reason}. Where its own sandbox is not supported, set browser.cdp_url to a \
                     browser that runs elsewhere"
                )),
                error => error,
            });
        }
        *local = Some(browser.clone());
        Ok(browser)
    }

    async fn remote(
        &self,
        url: &Url,
        http: &HttpClient,
        guard: &RequestGuard,
        options: &BrowserOptions,
    ) -> Result<Arc<Browser>, BrowserError> {
        let transport = self.dial(url, http).await?;
        Ok(Arc::new(Browser::open(transport, guard.clone(), options.dialogs, None, &self.0.clock)))
    }

    async fn dial(&self, url: &Url, http: &HttpClient) -> Result<CdpTransport, BrowserError> {
        let limits = SocketLimits { max_message: LARGEST_MESSAGE, ..SocketLimits::default() };
        let deadline = Deadline::after(&*self.0.clock, LONGEST_LIFE);
        let socket = http.connect(url, HeaderMap::new(), limits, deadline, &self.0.stop).await;
        let socket = socket
            .map_err(|error| BrowserError::Unavailable(format!("the browser cannot be reached: {error}")))?;
        Ok(CdpTransport::Socket(Box::new(socket)))
    }

    /// Closes the session of a task, if there is one.
    pub async fn close(&self, task: &TaskId) -> Option<ClosedSession> {
        let slot = lock(&self.0.tasks).remove(task)?;
        let session = slot.session.clone().lock_owned().await.take();
        let closed = match session {
            Some(session) => Some(ClosedSession { recording: session.close().await }),
            None => None,
        };
        self.end_unused().await;
        closed
    }

    /// Closes the session of a task without waiting.
    pub fn close_soon(&self, task: &TaskId) {
        if lock(&self.0.tasks).contains_key(task) {
            let (pool, task) = (self.clone(), task.clone());
            let work = async move {
                pool.close(&task).await;
            };
            drop(hermes_task::spawn_named("closing a browser", &Cancel::new(), work));
        }
    }

    /// Closes all sessions, as at the end of the program.
    pub async fn close_all(&self) {
        let tasks: Vec<TaskId> = lock(&self.0.tasks).keys().cloned().collect();
        futures_util::future::join_all(tasks.iter().map(|task| self.close(task))).await;
        self.end_unused().await;
    }

    /// Ends the browser on this machine if no task uses it.
    async fn end_unused(&self) {
        let mut local = self.0.local.lock().await;
        if let Some(browser) = local.take_if(|browser| Arc::strong_count(browser) == 1) {
            browser.connection.close().await;
        }
    }

    /// Starts the task that closes idle sessions, unless it runs.
    fn watch(&self) {
        let mut watched = lock(&self.0.watched);
        if *watched {
            return;
        }
        *watched = true;
        let pool = self.clone();
        let work = async move {
            while let Some(next) = pool.close_idle().await {
                pool.0.clock.sleep(next).await;
            }
        };
        drop(hermes_task::spawn_named("idle browsers", &self.0.stop, work));
    }

    /// Closes idle sessions. Returns when to look again; nothing, and counts as stopped, once none is open.
    async fn close_idle(&self) -> Option<Duration> {
        let now = self.0.clock.monotonic();
        let idle: Vec<TaskId> = lock(&self.0.tasks)
            .iter()
            .filter(|(_, slot)| {
                let unused = now.saturating_sub(*lock(&slot.last_used));
                unused >= slot.idle_timeout && slot.session.try_lock().is_ok()
            })
            .map(|(task, _)| task.clone())
            .collect();
        for task in &idle {
            tracing::debug!(%task, "an idle browser session is closed");
            self.close(task).await;
        }
        let mut watched = lock(&self.0.watched);
        let shortest = lock(&self.0.tasks).values().map(|slot| slot.idle_timeout).min();
        *watched = shortest.is_some();
        shortest.map(|timeout| timeout.clamp(SHORTEST_INTERVAL, CHECK_INTERVAL))
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn make_private(folder: &std::path::Path) -> Result<(), BrowserError> {
    use std::os::unix::fs::DirBuilderExt as _;
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)
        .map_err(|error| BrowserError::Unavailable(format!("{}: {error}", folder.display())))
}
