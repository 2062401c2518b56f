//! The memory service of a process: opened when an agent needs it, and again when its settings change.

use std::collections::hash_map::DefaultHasher;
use std::hash::Hasher as _;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hermes_agent::VectorIndex;
use hermes_config::settings::MemorySettings;
use hermes_config::{Config, user_home};
use hermes_exec::ProgramRunner;
use hermes_memory::honcho::{HonchoFile, HonchoSettings};
use hermes_memory::{
    EmbeddingOptions, EmbeddingsEndpoint, EngineAccess, EngineInputs, HttpSource, KNOWN_ENGINES,
    MemoryEngine, MemoryService, ServiceLimits, SessionTitles, open_engine,
};
use hermes_net::HttpClient;
use hermes_store::Store;
use hermes_types::{Cancel, Clock, Secret, SessionId};

use super::program_runtime::ProgramConfig;
use super::{child_variables, net_config};
use crate::context::ProgramContext;

/// The values of `memory.provider` that mean no service.
pub(crate) const BUILT_IN: [&str; 2] = ["builtin", "none"];

/// The files with settings of services.
const FILES: [&str; 4] = ["honcho.json", "mem0.json", "hindsight/config.json", "supermemory.json"];

/// Returns the service that the configuration names.
pub(crate) fn configured_service(config: &Config) -> Option<String> {
    config.non_empty_text("memory.provider").filter(|name| !BUILT_IN.contains(&name.as_str()))
}

/// The services of a process. Clones share them.
#[derive(Clone)]
pub(crate) struct MemoryServices {
    clock: Arc<dyn Clock>,
    cancel: Cancel,
    state: Arc<Mutex<ServicesState>>,
}

impl std::fmt::Debug for MemoryServices {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MemoryServices").finish_non_exhaustive()
    }
}

#[derive(Default)]
struct ServicesState {
    /// The sum of the settings the service was opened with, and the service, or why there is none.
    opened: Option<(u64, Result<MemoryService, String>)>,
    vectors: Option<(u64, Result<Arc<VectorIndex>, String>)>,
    /// What the user is to be told once.
    notice: Arc<Mutex<Option<String>>>,
    told: Vec<String>,
}

impl MemoryServices {
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, cancel: Cancel::new(), state: Arc::default() }
    }

    fn state(&self) -> std::sync::MutexGuard<'_, ServicesState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the service that the configuration names, if it can be used. Why it cannot is told once.
    pub(crate) fn active(&self, store: &Store, from: ProgramConfig<'_>) -> Option<MemoryService> {
        let name = configured_service(from.config)?;
        let sum = settings_sum(&name, from);
        let mut state = self.state();
        if state.opened.as_ref().is_none_or(|(known, _)| *known != sum) {
            let opened = self.open(&name, store, from);
            state.opened = Some((sum, opened));
        }
        match state.opened.clone().map(|(_, opened)| opened)? {
            Ok(service) => Some(service),
            Err(reason) => {
                state.tell(&format!(
                    "{reason}. What was said earlier is recalled from the transcripts instead"
                ));
                None
            }
        }
    }

    /// Opens the engine of a service. Makes no request.
    pub(crate) fn engine(
        &self,
        name: &str,
        from: ProgramConfig<'_>,
    ) -> Result<Arc<dyn MemoryEngine>, String> {
        let context = from.context;
        let user_home = user_home(&context.env).map_err(|error| error.to_string())?;
        let inputs = EngineInputs {
            home: &context.home,
            user_home: &user_home,
            env: &context.env,
            profile: &profile_name(context),
            access: self.access(context),
            programs: ProgramRunner::new(child_variables(&context.env, &[]), self.clock.clone()),
            cancel: self.cancel.clone(),
        };
        open_engine(name, &inputs)
    }

    /// Opens a service without keeping it.
    pub(crate) fn open(
        &self,
        name: &str,
        store: &Store,
        from: ProgramConfig<'_>,
    ) -> Result<MemoryService, String> {
        let (engine, config) = (self.engine(name, from)?, from.config);
        let wait = MemorySettings::from_config(config).recall_timeout;
        let limits = ServiceLimits { recall: wait, ..ServiceLimits::default() };
        let service = MemoryService::new(engine, limits, self.clock.clone(), self.cancel.clone());
        Ok(service.with_titles(titles(store)))
    }

    /// Returns the vectors of the home, if an endpoint for embeddings is configured.
    pub(crate) fn vectors(&self, store: &Store, from: ProgramConfig<'_>) -> Option<Arc<VectorIndex>> {
        let ProgramConfig { context, config } = from;
        let settings = MemorySettings::from_config(config).embeddings?;
        let key = context.env.get("EMBEDDINGS_API_KEY");
        let sum = sum_of(&(&settings.base_url, &settings.model, settings.dimensions, key));
        let mut state = self.state();
        if state.vectors.as_ref().is_none_or(|(known, _)| *known != sum) {
            let options = EmbeddingOptions {
                base_url: settings.base_url,
                key: key.map(|key| Secret::new(key.to_owned())),
                variable: "EMBEDDINGS_API_KEY",
                model: settings.model,
                dimensions: settings.dimensions,
            };
            let opened = EmbeddingsEndpoint::new(options, &self.access(context)).map(|endpoint| {
                let (clock, cancel) = (self.clock.clone(), self.cancel.clone());
                let least = settings.min_similarity;
                Arc::new(VectorIndex::new(Arc::new(endpoint), store.clone(), clock, least, cancel))
            });
            state.vectors = Some((sum, opened));
        }
        match state.vectors.clone().map(|(_, opened)| opened)? {
            Ok(vectors) => Some(vectors),
            Err(reason) => {
                state.tell(&format!("memory.embeddings: {reason}. Recall uses words only"));
                None
            }
        }
    }

    /// Returns what the user is to be told once, whichever conversation takes it.
    pub(crate) fn notice(&self) -> Arc<Mutex<Option<String>>> {
        self.state().notice.clone()
    }

    fn access(&self, context: &ProgramContext) -> EngineAccess {
        let net = net_config(&context.env, &self.clock);
        let http: HttpSource =
            Arc::new(move || HttpClient::new(net.clone()).map_err(|error| error.to_string()));
        EngineAccess::new(http, self.clock.clone(), self.cancel.clone())
    }

    /// Waits for a limited time until everything is stored.
    pub(crate) async fn shut_down(&self) {
        let opened = self.state().opened.clone();
        if let Some((_, Ok(service))) = opened {
            service.shut_down().await;
        }
        self.cancel.cancel();
    }
}

impl ServicesState {
    fn tell(&mut self, notice: &str) {
        if !self.told.iter().any(|told| told == notice) {
            self.told.push(notice.to_owned());
            tracing::warn!("{notice}");
            let mut waiting = self.notice.lock().unwrap_or_else(PoisonError::into_inner);
            *waiting = Some(notice.to_owned());
        }
    }
}

/// Returns the settings of Honcho, where it is the service in use.
pub(crate) fn active_honcho(from: ProgramConfig<'_>) -> Option<HonchoSettings> {
    if configured_service(from.config).as_deref() != Some("honcho") {
        return None;
    }
    let user_home = user_home(&from.context.env).ok()?;
    let settings = HonchoFile::load(&from.context.home, &user_home).settings(&from.context.env);
    settings.is_active().then_some(settings)
}

/// Returns the name of a profile: that of its folder, or `hermes` for the usual home.
fn profile_name(context: &ProgramContext) -> String {
    let path = context.home.path();
    let is_profile = path.parent().is_some_and(|parent| parent.ends_with("profiles"));
    let name = path.file_name().filter(|_| is_profile).map(|name| name.to_string_lossy().into_owned());
    name.unwrap_or_else(|| "hermes".to_owned())
}

fn titles(store: &Store) -> SessionTitles {
    let store = store.clone();
    Arc::new(move |session: SessionId| {
        let row = store.session(&session);
        Box::pin(async move { row.await.ok().flatten().and_then(|row| row.title) })
    })
}

/// Returns a sum of everything a service is opened with.
fn settings_sum(name: &str, from: ProgramConfig<'_>) -> u64 {
    let ProgramConfig { context, config } = from;
    let variables: Vec<Option<&str>> = KNOWN_ENGINES
        .iter()
        .filter(|known| known.name == name)
        .flat_map(|known| [known.key, known.address])
        .map(|variable| context.env.get(variable))
        .collect();
    let mut files: Vec<PathBuf> = FILES.iter().map(|file| context.home.path().join(file)).collect();
    files.extend(user_home(&context.env).ok().map(|home| home.join(".honcho/config.json")));
    let texts: Vec<Option<Vec<u8>>> = files.iter().map(|file| std::fs::read(file).ok()).collect();
    let wait: Duration = MemorySettings::from_config(config).recall_timeout;
    sum_of(&(name, variables, texts, wait))
}

fn sum_of(value: &impl std::hash::Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}
