//! Agents for training data: one per choice of toolsets, with a database of their own.

use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context as _, Result, bail};
use hermes_agent::{Agent, ContextFiles, RequestOptions, SessionLogMode};
use hermes_config::Config;
use hermes_exec::TaskImage;
use hermes_model::client::{ModelClient, RetryPolicy};
use hermes_model::credential::CredentialContext;
use hermes_model::provider::{ProviderChoice, ProviderInputs, resolve};
use hermes_net::HttpClient;
use hermes_research::{DatasetRow, RolloutAgents, SummaryModel, SummarySettings};
use hermes_store::Store;
use hermes_tools::BUILT_IN_TOOLS;
use hermes_types::{BoxFuture, Cancel, Clock, HolderId, Secret, TaskId};

use super::agent_factory::AgentFactory;
use super::agent_spec::{AgentSpec, RuntimeSpec};
use super::model::{ModelSet, net_config};
use super::program_runtime::{ProgramConfig, ProgramRuntime};
use super::programs::CredentialHelpers;
use super::sandbox::temp_folder;
use crate::context::ProgramContext;

/// Where the databases of runs are, in the home.
const SCRATCH: &str = "cache/research";
/// The beginning of the name of a folder for the folders of tasks.
const OWN_FOLDERS: &str = "hermes-rollouts-";

/// The database of a run, which is removed with it. The user's own is never touched.
pub(crate) struct ScratchStore {
    folder: PathBuf,
    pub(crate) store: Store,
}

impl ScratchStore {
    /// Creates a database, and removes those that killed processes left.
    pub(crate) fn create(context: &ProgramContext) -> Result<Self> {
        let all = context.home.folder(SCRATCH)?;
        for entry in fs::read_dir(&all).with_context(|| all.display().to_string())?.flatten() {
            let holder = HolderId::new(entry.file_name().to_string_lossy());
            if !hermes_task::may_be_alive(&holder) {
                // Another process may be removing it, too.
                let _ = fs::remove_dir_all(entry.path());
            }
        }
        let folder = context.home.folder(PathBuf::from(SCRATCH).join(HolderId::generate().as_str()))?;
        let store = Store::open(&folder.join("state.db"))?;
        Ok(Self { folder, store })
    }

    /// Closes and removes the database.
    pub(crate) async fn remove(self) {
        if let Err(error) = self.store.close().await {
            tracing::warn!(%error, "the database of a run was not closed");
        }
        if let Err(error) = fs::remove_dir_all(&self.folder) {
            tracing::warn!(%error, folder = %self.folder.display(), "the database of a run was not removed");
        }
    }
}

/// The names of all tools of this release, whether they can be used now or not.
pub(crate) fn registered_tools() -> Arc<[String]> {
    BUILT_IN_TOOLS.iter().map(|tool| tool.name.to_owned()).collect()
}

/// Returns the model that summarizes trajectories. Each request is made once: the caller repeats it.
pub(crate) fn summary_model(
    settings: &SummarySettings,
    from: ProgramConfig<'_>,
    clock: &Arc<dyn Clock>,
) -> Result<SummaryModel> {
    let ProgramConfig { context, config } = from;
    let provider = provider_of(&settings.base_url);
    let key = context.env.get(&settings.api_key_env).map(Secret::new);
    if provider == "custom" && key.is_none() {
        bail!("{} is not set; it is to hold the key for {}", settings.api_key_env, settings.base_url);
    }
    let choice = ProviderChoice {
        provider: Some(provider.to_owned()),
        model: Some(settings.model.clone()),
        base_url: Some(settings.base_url.clone()),
        api_key: key.filter(|_| provider == "custom"),
    };
    let inputs = ProviderInputs::read(&context.home, config.clone(), context.env.clone());
    let target = resolve(&inputs, &choice, RuntimeSpec::research().surface)?.target().context("no model")?;
    let net = HttpClient::new(net_config(&context.env, clock))?;
    let helpers = Arc::new(CredentialHelpers::new(&context.env, clock.clone()));
    let means = CredentialContext::new(net.clone(), clock.clone(), &context.home, context.env.clone())
        .with_commands(helpers);
    let policy = RetryPolicy { attempts: 1, stream_retries: 0, ..RetryPolicy::from_env(&context.env) };
    let client =
        ModelClient::new(net, clock.clone(), vec![target.endpoint(&means)], policy).context("no endpoint")?;
    Ok(SummaryModel { model: Arc::new(client), name: target.model.clone(), clock: clock.clone() })
}

/// Returns the provider at an address, by its host.
fn provider_of(base_url: &str) -> &'static str {
    const HOSTS: [(&str, &str); 9] = [
        ("openrouter.ai", "openrouter"),
        ("nousresearch.com", "nous"),
        ("z.ai", "zai"),
        ("moonshot.ai", "kimi-coding"),
        ("moonshot.cn", "kimi-coding"),
        ("api.kimi.com", "kimi-coding"),
        ("arcee.ai", "arcee"),
        ("minimaxi.com", "minimax-cn"),
        ("minimax.io", "minimax"),
    ];
    let rest = base_url.split_once("://").map_or(base_url, |(_, rest)| rest);
    let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
    let host = authority.rsplit('@').next().unwrap_or_default();
    let host = host.split(':').next().unwrap_or_default().to_ascii_lowercase();
    let is_at = |name: &str| host == name || host.ends_with(&format!(".{name}"));
    if is_at("chatgpt.com") && path.starts_with("backend-api/codex") {
        return "openai-codex";
    }
    let found = HOSTS.iter().find(|(name, _)| is_at(name)).map(|(_, provider)| *provider);
    found.filter(|id| hermes_config::canonical_provider(id).is_ok()).unwrap_or("custom")
}

/// What the agents of a run are like.
pub(crate) struct ResearchAgentOptions {
    pub(crate) max_turns: usize,
    pub(crate) request_options: RequestOptions,
}

/// Builds the agents of a run, and keeps them.
pub(crate) struct ResearchAgents {
    factory: AgentFactory,
    models: ModelSet,
    context: ProgramContext,
    config: Config,
    options: ResearchAgentOptions,
    cache: Mutex<HashMap<String, Agent>>,
    /// The folder of the folders in which tasks work on this machine.
    own_folders: PathBuf,
}

impl ResearchAgents {
    /// Prepares the agents. Makes no network request.
    pub(crate) fn open(
        from: ProgramConfig<'_>,
        models: ModelSet,
        options: ResearchAgentOptions,
        store: &Store,
        clock: &Arc<dyn Clock>,
    ) -> Result<Self> {
        let spec = RuntimeSpec::research();
        let (runtime, _notices) =
            ProgramRuntime::open(spec, from, store.clone(), clock.clone(), None, models.judge())?;
        Ok(Self {
            factory: AgentFactory::new(runtime, SessionLogMode::None),
            models,
            context: from.context.clone(),
            config: from.config.clone(),
            options,
            cache: Mutex::default(),
            own_folders: own_folders(from.context),
        })
    }

    fn own_folder(&self, task: &TaskId) -> PathBuf {
        self.own_folders.join(task.as_str())
    }

    fn build(&self, toolsets: &[&str]) -> Result<Agent> {
        let spec = AgentSpec {
            toolsets: toolsets.iter().map(|name| (*name).to_owned()).collect(),
            max_turns: Some(self.options.max_turns),
            rules: ContextFiles::Skip,
            ..AgentSpec::for_platform("cli")
        };
        let from = ProgramConfig { context: &self.context, config: &self.config };
        let built = self.factory.build_with(self.models.clone(), &spec, from)?;
        let agent = built.agent.into_builder().request_options(self.options.request_options.clone());
        // No name would stand for the toolsets of the platform.
        Ok(if toolsets.is_empty() { agent.tools(Vec::new()).build() } else { agent.build() })
    }

    /// Ends what the run started.
    pub(crate) async fn shut_down(&self) {
        let runtime = &self.factory.runtime;
        runtime.command_runtime.shut_down().await;
        runtime.extensions.shut_down().await;
        // There is none where no task had a folder of its own.
        let _ = fs::remove_dir_all(&self.own_folders);
    }
}

/// Returns where the folders of tasks are, and removes those that killed processes left.
fn own_folders(context: &ProgramContext) -> PathBuf {
    let temp = temp_folder(context);
    for entry in fs::read_dir(&temp).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let holder = name.strip_prefix(OWN_FOLDERS).map(HolderId::new);
        if holder.is_some_and(|holder| !hermes_task::may_be_alive(&holder)) {
            // Another user's, or another process is removing it.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
    temp.join(format!("{OWN_FOLDERS}{}", HolderId::generate()))
}

impl RolloutAgents for ResearchAgents {
    fn agent(&self, toolsets: &[&str]) -> Result<Agent, String> {
        let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        let key = toolsets.join(",");
        let agent = if let Some(agent) = cache.get(&key) {
            agent.clone()
        } else {
            let agent = self.build(toolsets).map_err(|error| format!("{error:#}"))?;
            cache.insert(key, agent.clone());
            agent
        };
        Ok(self.models.renew_budget(agent))
    }

    fn prepare<'a>(
        &'a self,
        task: &'a TaskId,
        row: &'a DatasetRow,
        cancel: &'a Cancel,
    ) -> BoxFuture<'a, Result<(), String>> {
        Box::pin(async move {
            let Some(image) = &row.image else { return Ok(()) };
            let image = TaskImage { image: image.clone(), directory: row.cwd.clone() };
            self.factory.runtime.command_runtime.shells.use_image(task, &image, cancel).await
        })
    }

    fn begin_in_own_folder(&self, task: &TaskId) -> Result<(), String> {
        let commands = &self.factory.runtime.command_runtime;
        if !commands.is_local() {
            return Ok(());
        }
        let folder = self.own_folder(task);
        let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(&folder);
        made.map_err(|error| format!("{}: {error}", folder.display()))?;
        let shown = folder.display().to_string();
        commands.shells.variables().pass(task, "HERMES_ROLLOUT_FOLDER", Secret::new(&shown));
        commands.folders.set_start(task, folder);
        Ok(())
    }

    fn release(&self, task: &TaskId) {
        let commands = &self.factory.runtime.command_runtime;
        commands.shells.release(task);
        commands.folders.forget(task);
        // Most tasks have none.
        let _ = fs::remove_dir_all(self.own_folder(task));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn providers_are_recognized_by_their_hosts() {
        let check = |url: &str, provider: &str| assert_eq!(provider_of(url), provider, "{url}");
        check("https://openrouter.ai/api/v1", "openrouter");
        check("https://inference-api.nousresearch.com/v1", "nous");
        check("https://chatgpt.com/backend-api/codex", "openai-codex");
        check("https://chatgpt.com/other", "custom");
        check("https://api.z.ai/api/paas/v4", "zai");
        check("https://API.Moonshot.ai/v1", "kimi-coding");
        check("https://api.minimax.io/v1", "minimax");
        check("https://api.minimaxi.com/v1", "minimax-cn");
        check("https://notopenrouter.ai/v1", "custom");
        check("https://openrouter.ai.example.org/v1", "custom");
        check("http://me@localhost:8000/openrouter.ai", "custom");
    }
}
