//! What an environment gets of the program: tools, servers, the clock, and where its settings come from.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context as _, Result, bail};
use hermes_config::Config;
use hermes_config::settings::{CommandBackend, TerminalSettings};
use hermes_config::yaml::{KeyPath, YamlValue};
use hermes_exec::ProgramRunner;
use hermes_model::provider::ProviderChoice;
use hermes_net::HttpClient;
use hermes_research::{
    DataEnvironment, EnvironmentFlags, EnvironmentMeans, EnvironmentMode, EnvironmentSettings,
    InferenceServerSettings, ModelServers, ProgramEnvironment, SHIPPED_ENVIRONMENTS, SettingLayers,
    TaskImageBuilder, TrainingEnvironment,
};
use hermes_tools::TOOLSETS;
use hermes_types::Clock;
use serde_json::{Map, Value, json};

use super::agent_spec::RuntimeSpec;
use super::backends::client_variables;
use super::child_variables;
use super::model::{choose_models, net_config};
use super::program_runtime::ProgramConfig;
use super::research::{ResearchAgentOptions, ResearchAgents, ScratchStore};
use crate::context::ProgramContext;

/// The providers whose keys are used for servers at their addresses.
const KEYS_OF_HOSTS: [(&str, &str); 2] =
    [("https://openrouter.ai/", "OPENROUTER_API_KEY"), ("https://api.openai.com/", "OPENAI_API_KEY")];

/// An environment with its settings.
pub(crate) struct ConfiguredEnvironment {
    pub(crate) environment: Arc<dyn TrainingEnvironment>,
    pub(crate) settings: EnvironmentSettings,
    servers: Vec<InferenceServerSettings>,
}

/// Finds an environment by its name, or in a file.
async fn find(
    name: &str,
    context: &ProgramContext,
    clock: &Arc<dyn Clock>,
) -> Result<(Arc<dyn TrainingEnvironment>, Value)> {
    if let Some(shipped) = SHIPPED_ENVIRONMENTS.iter().find(|shipped| shipped.name == name) {
        return Ok(((shipped.build)(), Value::Null));
    }
    let path = Path::new(name);
    if !path.is_file() {
        bail!(
            "there is no environment `{name}`; `hermes env list` shows those there are, and a file may be given"
        );
    }
    if path.extension().is_some_and(|end| end == "yaml" || end == "yml") {
        let environment = DataEnvironment::read(path)?;
        let servers = environment.servers().clone();
        return Ok((Arc::new(environment), servers));
    }
    let programs = ProgramRunner::new(child_variables(&context.env, &[]), clock.clone());
    let environment = ProgramEnvironment::start(&programs, path, clock.clone()).await?;
    Ok((Arc::new(environment), Value::Null))
}

/// Reads the settings of an environment from all their layers.
pub(crate) async fn configure(
    name: &str,
    mode: EnvironmentMode,
    flags: &EnvironmentFlags,
    context: &ProgramContext,
    clock: &Arc<dyn Clock>,
) -> Result<ConfiguredEnvironment> {
    let (environment, servers) = find(name, context, clock).await?;
    let mut file = match &flags.config {
        Some(path) => {
            let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
            let value = hermes_config::yaml::parse(&text).with_context(|| path.display().to_string())?;
            value.to_json()
        }
        None => Value::Object(Map::new()),
    };
    for key in ["slurm", "testing"] {
        if file.get(key).and_then(Value::as_bool) == Some(true) {
            bail!("`{key}: true` is not supported; list the servers under `openai`");
        }
    }
    if let Some(file) = file.as_object_mut()
        && !file.contains_key("openai")
    {
        file.insert("openai".to_owned(), servers);
    }
    let layers = SettingLayers {
        defaults: vec![environment.defaults(), mode.defaults(environment.name())],
        file,
        env_flags: flags.env.clone(),
        server_flags: flags.servers.clone(),
    };
    let settings = layers.environment(&environment.own_keys())?;
    let mut servers = layers.servers()?;
    for server in &mut servers {
        if server.api_key.is_empty() {
            let key = KEYS_OF_HOSTS.iter().find(|(address, _)| server.base_url.starts_with(address));
            if let Some(key) = key.and_then(|(_, name)| context.env.get(name)) {
                key.clone_into(&mut server.api_key);
            }
        }
        if server.proxy_url.is_none() {
            server.proxy_url = context.env.get("ATROPOS_PROXY_URL").map(str::to_owned);
        }
    }
    Ok(ConfiguredEnvironment { environment, settings, servers })
}

impl ConfiguredEnvironment {
    /// Returns the configuration with what the environment changes about the terminal.
    pub(crate) fn config(&self, config: &Config, context: &ProgramContext) -> Config {
        let settings = &self.settings;
        let number = |number: Option<u64>| number.map(|number| YamlValue::Int(i128::from(number)));
        let wanted = [
            ("terminal.backend", settings.terminal_backend.clone().map(YamlValue::Str)),
            ("terminal.timeout", number(settings.terminal_timeout)),
            ("terminal.lifetime_seconds", number(settings.terminal_lifetime)),
            ("checkpoints.enabled", Some(YamlValue::Bool(false))),
        ];
        let values = wanted.into_iter().filter_map(|(key, value)| Some((KeyPath::parse(key)?, value?)));
        config.with_values(values, &context.env)
    }

    /// Builds what rollouts need.
    pub(crate) fn means(
        &self,
        from: ProgramConfig<'_>,
        scratch: &ScratchStore,
        clock: &Arc<dyn Clock>,
    ) -> Result<(EnvironmentMeans, Arc<ResearchAgents>)> {
        let surface = RuntimeSpec::research().surface;
        // The models of tools, such as those that look at pictures; the rollouts ask the servers of the environment.
        let models = choose_models(&ProviderChoice::default(), from, surface, clock, &scratch.store)?;
        let options = ResearchAgentOptions {
            max_turns: self.settings.max_agent_turns,
            request_options: hermes_agent::RequestOptions::default(),
        };
        let agents = Arc::new(ResearchAgents::open(from, models, options, &scratch.store, clock)?);
        let net = HttpClient::new(net_config(&from.context.env, clock))?;
        let means = EnvironmentMeans {
            agents: agents.clone(),
            toolsets: TOOLSETS.iter().map(|toolset| toolset.name.to_owned()).collect(),
            servers: ModelServers::new(self.servers.clone(), net.clone(), clock.clone()),
            net,
            tokenizer: self.tokenizer(from.context)?,
            images: image_builder(from, clock),
            clock: clock.clone(),
        };
        Ok((means, agents))
    }

    /// Returns the tokenizer that the settings name, where there are its files.
    #[cfg(feature = "tokenizers")]
    fn tokenizer(&self, context: &ProgramContext) -> Result<Option<Arc<dyn hermes_research::ChatTokenizer>>> {
        let Some(server) = self.servers.first() else { return Ok(None) };
        let needs = server.server_type.is_exact() && server.proxy_url.is_none();
        let named =
            [server.tokenizer_name.as_str(), self.settings.tokenizer_name.as_str(), &server.model_name];
        for name in named.into_iter().filter(|name| !name.is_empty() && *name != "none") {
            if let Some(folder) = super::tokenizer::find(name, &context.env) {
                let file = hermes_research::TokenizerFile::open(&folder)?;
                return Ok(Some(Arc::new(file)));
            }
        }
        if needs {
            bail!(
                "no tokenizer was found; set openai.tokenizer_name to a folder with tokenizer.json and tokenizer_config.json"
            );
        }
        Ok(None)
    }

    #[cfg(not(feature = "tokenizers"))]
    #[expect(clippy::unused_self, clippy::unnecessary_wraps, reason = "as with the feature")]
    fn tokenizer(&self, _: &ProgramContext) -> Result<Option<Arc<dyn hermes_research::ChatTokenizer>>> {
        Ok(None)
    }
}

/// Returns what builds images of tasks, where commands run in containers of this machine.
fn image_builder(from: ProgramConfig<'_>, clock: &Arc<dyn Clock>) -> Option<Arc<TaskImageBuilder>> {
    let ProgramConfig { context, config } = from;
    let backend = TerminalSettings::resolve(config, &context.env).backend;
    (CommandBackend::parse(&backend) == Some(CommandBackend::Docker)).then(|| {
        let programs = ProgramRunner::new(client_variables(&context.env), clock.clone());
        Arc::new(TaskImageBuilder::new(programs, context.home.join("cache/task-images")))
    })
}

/// Describes the environments that come with the program.
pub(crate) fn describe_all() -> String {
    let width = SHIPPED_ENVIRONMENTS.iter().map(|shipped| shipped.name.len()).max().unwrap_or_default();
    let lines = SHIPPED_ENVIRONMENTS.iter().map(|shipped| {
        let modes =
            if (shipped.build)().is_evaluation_only() { "evaluate" } else { "serve, process, evaluate" };
        format!("{:<width$}  {} ({modes})\n", shipped.name, shipped.summary)
    });
    lines.collect()
}

/// Says in one line what a report says about groups.
pub(crate) fn as_json(metrics: &Map<String, Value>) -> String {
    serde_json::to_string_pretty(&json!(metrics)).unwrap_or_default()
}
