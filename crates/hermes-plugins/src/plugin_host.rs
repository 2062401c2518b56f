//! The plugins of a process: loaded once into one helper interpreter, called through it.
//!
//! Without an enabled plugin nothing is started. Invariant: a helper that ends by itself is started once more, and
//! then not again.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hermes_exec::{Program, ProgramRunner, StderrMode};
use hermes_types::{Clock, HookEvent, Tool};
use serde_json::{Map, Value, json};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::error::PluginError;
use crate::plugin_folder::{FoundPlugin, PluginActivation};
use crate::plugin_process::{LONGEST_LINE, PluginProcess};
use crate::plugin_tool::{PluginTool, PluginToolRecord};
use crate::shell_hook_runner::answer_text;

const HELPER: &str = include_str!("plugin_helper.py");
const LOAD_LIMIT: Duration = Duration::from_secs(30);
const HOOK_LIMIT: Duration = Duration::from_secs(30);
const COMMAND_LIMIT: Duration = Duration::from_mins(1);
/// How often a helper that ended by itself is started again.
const RESTARTS: u32 = 1;

/// A command that a plugin registered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PluginCommand {
    pub name: String,
    pub aliases: Vec<String>,
    pub description: String,
    pub arguments: String,
    /// Set if the command is not for chats.
    pub cli_only: bool,
    /// Set if the command is only for chats.
    pub gateway_only: bool,
}

/// A place where commands of plugins are typed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PluginSurface {
    Terminal,
    Chat,
}

impl PluginCommand {
    fn is_for(&self, surface: PluginSurface) -> bool {
        match surface {
            PluginSurface::Terminal => !self.gateway_only,
            PluginSurface::Chat => !self.cli_only,
        }
    }
}

/// A text that a plugin says in place of the user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PluginMessage {
    pub plugin: String,
    pub text: String,
}

/// A plugin, and what it registered.
#[derive(Debug, Clone)]
pub struct LoadedPlugin {
    pub plugin: FoundPlugin,
    /// Why it was not loaded, or what it registered that this release does not have.
    pub problems: Vec<String>,
    pub tools: Vec<String>,
    pub hooks: Vec<String>,
    pub commands: Vec<PluginCommand>,
    pub cli_commands: Vec<PluginCommand>,
}

/// How the helper is started.
#[derive(Debug, Clone)]
pub struct PluginHostOptions {
    /// Runs programs with the variables that plugins may have.
    pub programs: ProgramRunner,
    /// The interpreter: a path, or a name on the path.
    pub python: String,
    pub home: PathBuf,
    pub folder: PathBuf,
    pub clock: Arc<dyn Clock>,
}

/// The plugins of a process. Clones share them.
#[derive(Clone)]
pub struct PluginHost(Arc<HostState>);

struct HostState {
    options: PluginHostOptions,
    enabled: Vec<FoundPlugin>,
    process: tokio::sync::Mutex<ProcessSlot>,
    loaded: Mutex<Vec<LoadedPlugin>>,
    tools: Mutex<Vec<PluginToolRecord>>,
    sender: UnboundedSender<PluginMessage>,
    messages: Mutex<Option<UnboundedReceiver<PluginMessage>>>,
}

#[derive(Default)]
struct ProcessSlot {
    process: Option<Arc<PluginProcess>>,
    starts: u32,
    is_shut_down: bool,
}

impl std::fmt::Debug for PluginHost {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PluginHost").field("enabled", &self.0.enabled.len()).finish_non_exhaustive()
    }
}

impl PluginHost {
    /// Prepares the plugins that are enabled; starts nothing.
    pub fn new(options: PluginHostOptions, found: Vec<FoundPlugin>) -> Self {
        let (sender, messages) = unbounded_channel();
        let enabled = found.iter().filter(|plugin| plugin.is_enabled()).cloned().collect();
        let loaded = found.into_iter().map(LoadedPlugin::not_loaded).collect();
        Self(Arc::new(HostState {
            options,
            enabled,
            process: tokio::sync::Mutex::default(),
            loaded: Mutex::new(loaded),
            tools: Mutex::default(),
            sender,
            messages: Mutex::new(Some(messages)),
        }))
    }

    /// Tells whether there is anything to load.
    pub fn has_plugins(&self) -> bool {
        !self.0.enabled.is_empty()
    }

    /// Loads the enabled plugins. What goes wrong is in the list.
    pub async fn load(&self) {
        if !self.has_plugins() {
            return;
        }
        if let Err(error) = self.process().await {
            tracing::warn!(%error, "plugins were not loaded");
            for plugin in self.lock_loaded().iter_mut().filter(|loaded| loaded.plugin.is_enabled()) {
                plugin.problems = vec![error.to_string()];
            }
        }
    }

    /// Returns all plugins that were found, loaded or not.
    pub fn plugins(&self) -> Vec<LoadedPlugin> {
        self.lock_loaded().clone()
    }

    /// Returns the tools that can be used.
    pub fn tools(&self) -> Vec<Arc<dyn Tool>> {
        let records = self.0.tools.lock().unwrap_or_else(PoisonError::into_inner).clone();
        records
            .into_iter()
            .map(|record| Arc::new(PluginTool::new(record, self.clone())) as Arc<dyn Tool>)
            .collect()
    }

    /// Returns the slash commands of all plugins on a surface.
    pub fn commands(&self, surface: PluginSurface) -> Vec<PluginCommand> {
        let all = self.lock_loaded();
        all.iter()
            .flat_map(|loaded| &loaded.commands)
            .filter(|command| command.is_for(surface))
            .cloned()
            .collect()
    }

    /// Finds a slash command by its name or another name.
    pub fn find_command(&self, name: &str, surface: PluginSurface) -> Option<PluginCommand> {
        self.commands(surface)
            .into_iter()
            .find(|command| command.name == name || command.aliases.iter().any(|alias| alias == name))
    }

    /// Returns the receiver of what plugins say in place of the user; only the first call does.
    pub fn take_messages(&self) -> Option<UnboundedReceiver<PluginMessage>> {
        self.0.messages.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Tells whether a plugin has a hook at this step.
    pub fn wants(&self, event: HookEvent) -> bool {
        self.lock_loaded().iter().any(|loaded| loaded.hooks.iter().any(|name| name == event.name()))
    }

    /// Runs the hooks of all plugins at a step, and returns the text of their answers.
    pub async fn run_hooks(&self, event: HookEvent, input: &Map<String, Value>) -> Vec<String> {
        let params = json!({"event": event.name(), "input": input});
        match self.request("hook", &params, HOOK_LIMIT).await {
            Ok(Value::Array(answers)) => {
                answers.iter().filter_map(|answer| answer_text(event, answer)).collect()
            }
            Ok(_) => Vec::new(),
            Err(error) => {
                tracing::warn!(event = event.name(), %error, "hooks of plugins failed");
                Vec::new()
            }
        }
    }

    /// Runs a slash command and returns what it answers, or why it failed.
    pub async fn run_command(&self, name: &str, arguments: &str) -> String {
        let params = json!({"name": name, "arguments": arguments});
        match self.request("command", &params, COMMAND_LIMIT).await {
            Ok(answer) => answer.as_str().unwrap_or("Done.").to_owned(),
            Err(error) => format!("⚠️ /{name}: {error}"),
        }
    }

    pub(crate) async fn request(
        &self,
        method: &str,
        params: &Value,
        limit: Duration,
    ) -> Result<Value, PluginError> {
        let process = self.process().await?;
        process.request(method, params, limit).await
    }

    /// Ends the helper.
    pub async fn shut_down(&self) {
        let mut slot = self.0.process.lock().await;
        slot.is_shut_down = true;
        if let Some(process) = slot.process.take().and_then(Arc::into_inner) {
            process.stop().await;
        }
    }

    /// Returns the helper, and starts it if it does not run.
    async fn process(&self) -> Result<Arc<PluginProcess>, PluginError> {
        let mut slot = self.0.process.lock().await;
        if let Some(process) = slot.process.as_ref().filter(|process| !process.has_ended()) {
            return Ok(process.clone());
        }
        let unavailable = |text: &str| Err(PluginError::Unavailable(text.to_owned()));
        if slot.is_shut_down {
            return unavailable("the program is ending");
        }
        if slot.starts > RESTARTS {
            return unavailable("the helper process of the plugins ended twice; it is not started again");
        }
        slot.starts += 1;
        let process = Arc::new(self.start().await?);
        let plugins: Vec<Value> = self.0.enabled.iter().map(load_entry).collect();
        let params = json!({"plugins": plugins, "home": self.0.options.home});
        let answer = process.request("load", &params, LOAD_LIMIT).await?;
        self.record(&answer);
        slot.process = Some(process.clone());
        Ok(process)
    }

    async fn start(&self) -> Result<PluginProcess, PluginError> {
        let PluginHostOptions { programs, python, folder, clock, .. } = &self.0.options;
        if programs.find(python).is_none() {
            let reason = format!(
                "plugins need Python, and there is no `{python}`; install python3, or set HERMES_PYTHON"
            );
            return Err(PluginError::Unavailable(reason));
        }
        let arguments: Vec<OsString> = vec!["-u".into(), "-c".into(), HELPER.into()];
        let program = Program {
            name: python,
            arguments,
            directory: folder,
            limit: LOAD_LIMIT,
            stderr: StderrMode::Merge,
        };
        let started = programs.piped(program, LONGEST_LINE).await;
        let started = started.map_err(|error| PluginError::Unavailable(error.to_string()))?;
        PluginProcess::new(started, self.0.sender.clone(), clock.clone())
            .ok_or_else(|| PluginError::Unavailable("the helper process takes no input".to_owned()))
    }

    /// Takes up what the helper says about the plugins it loaded.
    fn record(&self, answer: &Value) {
        let entries = answer.get("plugins").and_then(Value::as_array).cloned().unwrap_or_default();
        let mut tools: Vec<PluginToolRecord> = Vec::new();
        for loaded in self.lock_loaded().iter_mut().filter(|loaded| loaded.plugin.is_enabled()) {
            let name = &loaded.plugin.manifest.name;
            let Some(entry) = entries.iter().find(|entry| entry.get("name") == Some(&json!(name))) else {
                continue;
            };
            let list = |key: &str| entry.get(key).and_then(Value::as_array).cloned().unwrap_or_default();
            let texts =
                |key: &str| list(key).iter().filter_map(Value::as_str).map(str::to_owned).collect::<Vec<_>>();
            loaded.problems = texts("problems");
            loaded.hooks = texts("hooks");
            loaded.commands = list("commands").iter().filter_map(command).collect();
            loaded.cli_commands = list("cli_commands").iter().filter_map(command).collect();
            let missing = &loaded.plugin.missing_variables;
            let offered = list("tools");
            loaded.tools.clear();
            if !missing.is_empty() && !offered.is_empty() {
                let note = format!("its tools are off, because these are not set: {}", missing.join(", "));
                loaded.problems.push(note);
                continue;
            }
            for entry in offered {
                match PluginToolRecord::parse(&entry) {
                    Some(tool) if entry.get("available") != Some(&json!(false)) => {
                        loaded.tools.push(tool.name.clone());
                        tools.retain(|known| known.name != tool.name);
                        tools.push(tool);
                    }
                    Some(tool) => {
                        loaded.problems.push(format!("its tool {} is not available here", tool.name));
                    }
                    None => loaded.problems.push("it registered a tool without a usable name".to_owned()),
                }
            }
        }
        *self.0.tools.lock().unwrap_or_else(PoisonError::into_inner) = tools;
    }

    fn lock_loaded(&self) -> std::sync::MutexGuard<'_, Vec<LoadedPlugin>> {
        self.0.loaded.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LoadedPlugin {
    fn not_loaded(plugin: FoundPlugin) -> Self {
        let problems = match &plugin.activation {
            PluginActivation::Unusable(reason) => vec![reason.clone()],
            PluginActivation::Enabled | PluginActivation::Disabled => Vec::new(),
        };
        Self {
            plugin,
            problems,
            tools: Vec::new(),
            hooks: Vec::new(),
            commands: Vec::new(),
            cli_commands: Vec::new(),
        }
    }
}

/// Returns the arguments with which the interpreter runs `hermes WORDS…` of a plugin. `unknown` is the message for a
/// command that no plugin has.
pub fn command_line(home: &Path, enabled: &[FoundPlugin], words: &[String], unknown: &str) -> Vec<String> {
    let plugins: Vec<Value> = enabled.iter().map(load_entry).collect();
    let settings = json!({"home": home, "plugins": plugins, "unknown": unknown}).to_string();
    ["-c".to_owned(), HELPER.to_owned(), settings].into_iter().chain(words.iter().cloned()).collect()
}

fn load_entry(plugin: &FoundPlugin) -> Value {
    json!({"name": plugin.manifest.name, "path": plugin.folder})
}

fn command(entry: &Value) -> Option<PluginCommand> {
    let text = |key: &str| entry.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    let flag = |key: &str| entry.get(key) == Some(&Value::Bool(true));
    let name = text("name").trim_start_matches('/').to_lowercase();
    let aliases = entry.get("aliases").and_then(Value::as_array).into_iter().flatten();
    (!name.is_empty()).then(|| PluginCommand {
        aliases: aliases.filter_map(Value::as_str).map(str::to_lowercase).collect(),
        description: text("description"),
        arguments: text("args_hint"),
        cli_only: flag("cli_only"),
        gateway_only: flag("gateway_only"),
        name,
    })
}
