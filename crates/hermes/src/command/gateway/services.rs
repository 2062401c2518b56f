//! Implements the chat commands beyond the conversation: models, personalities, insights, checkpoints.

use std::sync::Arc;
use std::time::Duration;

use hermes_config::provider::registry::{ProviderKind, REGISTRY};
use hermes_config::settings::McpServer;
use hermes_config::yaml::{KeyPath as Key, YamlValue};
use hermes_config::{ManagedMode, ProgramSurface, set, write};
use hermes_exec::{Program, ProgramExit, ProgramRunner, StderrMode};
use hermes_gateway::{
    HelperPrograms, JobScriptOutcome, JobScriptRequest, LiveSettings, MessageExpansion, ProcessInfo,
    ProgramCommands, SkillPrompts,
};
use hermes_knowledge::{Personality, personality, personality_names};
use hermes_model::provider::{ProviderChoice, ProviderInputs, ResolvedModel, resolve};
use hermes_store::{Store, WaitingMessage};
use hermes_tools::{Approvals, CheckpointManager, ProcessRegistry, ReferenceResolver, ReferenceResult, Yolo};
use hermes_types::{Attachment, AttachmentKind, BoxFuture, Cancel, Clock, ReasoningEffort, TaskId};

use tokio::sync::Notify;

use super::update;
use crate::cli;
use crate::command;
use crate::command::cron::JobScripts;
use crate::context::{ProgramContext, local_time};
use crate::wiring::live_agents::context as context_of;
use crate::wiring::program_runtime::ProgramRuntime;
use crate::wiring::skills::SkillCommands;
use crate::wiring::{CommandRuntime, child_variables};

const PROGRAM_LIMIT: Duration = Duration::from_secs(30);

/// The services of the program for its chats.
pub(crate) struct ProgramServices {
    live: LiveSettings,
    store: Store,
    clock: Arc<dyn Clock>,
    approvals: Arc<Approvals>,
    processes: ProcessRegistry,
    checkpoints: Option<Arc<CheckpointManager>>,
    programs: ProgramRunner,
    scripts: JobScripts,
    references: ReferenceResolver,
    /// Notified when a restart of the gateway is requested.
    restart: Arc<Notify>,
}

impl ProgramServices {
    pub(crate) fn new(
        live: LiveSettings,
        runtime: &ProgramRuntime,
        checkpoints: Option<Arc<CheckpointManager>>,
        references: ReferenceResolver,
        restart: Arc<Notify>,
    ) -> Self {
        let (store, clock) = (runtime.store.clone(), runtime.clock.clone());
        let CommandRuntime { approvals, processes, .. } = runtime.command_runtime.clone();
        let programs = ProgramRunner::new(child_variables(&live.current().env, &[]), clock.clone());
        let scripts = JobScripts::new(live.clone(), clock.clone());
        Self { live, store, clock, approvals, processes, checkpoints, programs, scripts, references, restart }
    }

    async fn run_command(&self, name: &str, rest: &str, from: &WaitingMessage) -> Option<String> {
        Some(match name {
            "version" => cli::version(),
            "model" => self.model(rest).await,
            "personality" => self.personality(rest),
            "reasoning" => self.reasoning(rest),
            "verbose" => self.verbose(),
            "insights" => self.insights(rest),
            "yolo" => self.yolo(rest, &from.conversation),
            "rollback" => self.rollback(rest),
            "provider" => self.providers(),
            "update" => self.update(from),
            "reload-mcp" => self.about_mcp(),
            "voice" => self.voice(rest, from),
            "restart" => {
                self.restart.notify_one();
                "♻️ Restarting. What I am doing in chats goes on afterwards.".to_owned()
            }
            _ => return None,
        })
    }

    fn skill_commands(&self) -> SkillCommands {
        let settings = self.live.current();
        SkillCommands::for_platform(self.live.home(), &settings.config, &settings.env, "gateway")
    }

    fn context(&self) -> ProgramContext {
        context_of(self.live.home(), &self.live.current())
    }

    /// Runs `/model` on its own thread, because it may wait for the network.
    async fn model(&self, rest: &str) -> String {
        let (answer, done) = tokio::sync::oneshot::channel();
        let (context, config) = (self.context(), self.live.current().config.clone());
        let wanted = Some(rest.to_owned()).filter(|rest| !rest.is_empty());
        let started = std::thread::Builder::new().name("model".to_owned()).spawn(move || {
            // There is no receiver any more when the gateway ends.
            let _ = answer.send(command::model::answer(wanted.as_deref(), &context, config));
        });
        if let Err(error) = started {
            return format!("⚠️ {error}");
        }
        match done.await {
            Ok(Ok(lines)) => lines.join("\n"),
            Ok(Err(error)) => format!("⚠️ {error:#}"),
            Err(_) => "⚠️ The choice ended without an answer.".to_owned(),
        }
    }

    fn update(&self, from: &WaitingMessage) -> String {
        let variables = child_variables(&self.live.current().env, &[]);
        update::begin(self.live.home(), &variables, from, self.clock.now())
    }

    fn about_mcp(&self) -> String {
        let servers = McpServer::all(&self.live.current().config);
        if servers.is_empty() {
            return "No MCP servers are configured.".to_owned();
        }
        let names: Vec<&str> = servers.iter().map(|server| server.name.as_str()).collect();
        format!("⚠️ This release does not connect to MCP servers yet; configured: {}.", names.join(", "))
    }

    /// Lists the providers that can be used with the present configuration.
    fn providers(&self) -> String {
        let settings = self.live.current();
        let facts = ProviderInputs::read(self.live.home(), settings.config.clone(), settings.env.clone());
        let of = |choice: &ProviderChoice| match resolve(&facts, choice, ProgramSurface::Gateway) {
            Ok(ResolvedModel::Target(target)) => Some(target),
            _ => None,
        };
        let current = of(&ProviderChoice::default()).map(|target| target.provider().to_owned());
        let mut lines = vec![format!("🔌 **Provider:** {}", current.as_deref().unwrap_or("offline"))];
        for provider in REGISTRY.iter().filter(|provider| provider.kind != ProviderKind::Offline) {
            let name = provider.id;
            let choice = ProviderChoice { provider: Some(name.to_owned()), ..ProviderChoice::default() };
            let signed_in = provider.kind != ProviderKind::Aws
                || settings.env.is_set("AWS_ACCESS_KEY_ID")
                || settings.env.is_set("AWS_PROFILE");
            let usable = current.as_deref() == Some(name)
                || (signed_in && of(&choice).is_some_and(|target| target.key_origin.is_some()));
            // One that needs an address from the user is listed when it has one.
            if usable || provider.kind != ProviderKind::ApiKey || !provider.base_url.is_empty() {
                lines.push(format!("{} {name}", if usable { "✅" } else { "❌" }));
            }
        }
        lines.push("\n`/model PROVIDER:MODEL` changes it.".to_owned());
        lines.join("\n")
    }

    /// Sets whether answers are spoken in this chat; stored where existing installations look for it.
    fn voice(&self, rest: &str, from: &WaitingMessage) -> String {
        let file = self.live.home().join("gateway_voice_mode.json");
        let text = std::fs::read_to_string(&file).unwrap_or_default();
        let mut modes: serde_json::Map<String, serde_json::Value> =
            serde_json::from_str(&text).unwrap_or_default();
        let chat = from.envelope.place.chat_id.as_str();
        let own = format!("{}:{chat}", from.envelope.platform);
        let known = [own.as_str(), chat].into_iter().find_map(|key| modes.get(key)?.as_str());
        let mode = match rest {
            "status" => return format!("🔊 Voice: {}", known.unwrap_or("off")),
            "" if known.is_some_and(|mode| mode != "off") => "off",
            "" | "on" => "voice_only",
            "tts" => "all",
            "off" => "off",
            other => return format!("`{other}` is none of on, off, tts, status."),
        };
        modes.remove(&own);
        modes.insert(chat.to_owned(), mode.into());
        match write::replace(&file, serde_json::Value::Object(modes).to_string().as_bytes()) {
            Ok(()) => match mode {
                "off" => "🔇 Answers here are text only.".to_owned(),
                "all" => "🔊 Every answer here is spoken, too, once a voice is set up.".to_owned(),
                _ => "🔊 Voice messages here are answered with speech, once a voice is set up.".to_owned(),
            },
            Err(error) => format!("⚠️ {error}"),
        }
    }

    fn personality(&self, name: &str) -> String {
        if name.is_empty() {
            return format!(
                "🎭 **Personalities**\n{}, none\n\n`/personality NAME` puts one on.",
                personality_names(&self.live.current().config)
            );
        }
        let prompt = match personality(name, &self.live.current().config) {
            None => {
                return format!(
                    "Unknown personality '{name}'. There are: {}",
                    personality_names(&self.live.current().config)
                );
            }
            Some(Personality::Plain) => String::new(),
            Some(Personality::Prompt(text)) => text,
        };
        match self.save_setting("agent.system_prompt", YamlValue::Str(prompt)) {
            Ok(()) => format!("🎭 Personality set to **{name}**"),
            Err(error) => format!("⚠️ {error}"),
        }
    }

    fn reasoning(&self, level: &str) -> String {
        let show = |value: bool| self.save_setting("display.show_reasoning", YamlValue::Bool(value));
        let kept = match level {
            "" => {
                let config = &self.live.current().config;
                let effort = config.non_empty_text("agent.reasoning_effort").unwrap_or_else(|| "medium".to_owned());
                return format!("🧠 Reasoning effort: {effort}");
            }
            "show" | "on" => show(true),
            "hide" | "off" => show(false),
            level => match ReasoningEffort::parse(level) {
                Some(effort) => self.save_setting("agent.reasoning_effort", YamlValue::Str(effort.as_str().to_owned())),
                None => return "Levels are none, minimal, low, medium, high and xhigh; show and hide are about seeing it.".to_owned(),
            },
        };
        kept.map_or_else(|error| format!("⚠️ {error}"), |()| format!("🧠 Reasoning: {level}"))
    }

    fn verbose(&self) -> String {
        let settings = self.live.current();
        if !settings.display.tool_progress_command {
            return "/verbose is turned off (`display.tool_progress_command` in config.yaml).".to_owned();
        }
        let next = match settings.config.text("display.tool_progress").as_str() {
            "off" => "new",
            "new" => "all",
            "all" => "verbose",
            _ => "off",
        };
        match self.save_setting("display.tool_progress", YamlValue::Str(next.to_owned())) {
            Ok(()) => format!("Tool progress: {next}"),
            Err(error) => format!("⚠️ {error}"),
        }
    }

    fn insights(&self, rest: &str) -> String {
        let mut words = rest.split_whitespace();
        let mut days = 30;
        let mut source = None;
        while let Some(word) = words.next() {
            match word {
                "--source" => source = words.next().map(str::to_owned),
                "--days" => days = words.next().and_then(|days| days.parse().ok()).unwrap_or(days),
                word => days = word.parse().unwrap_or(days),
            }
        }
        let report = command::insights::report(&self.store, days, source, self.clock.now());
        report.unwrap_or_else(|error| format!("⚠️ {error:#}"))
    }

    /// Turns approvals off or on, only for the conversation the command came from.
    fn yolo(&self, rest: &str, conversation: &str) -> String {
        let yolo = if rest == "off" { Yolo::Off } else { Yolo::On };
        self.approvals.set_yolo_in(&TaskId::new(conversation), yolo);
        match yolo {
            Yolo::On => "⚠️ Dangerous commands of this conversation run without asking until `/yolo off`, `/new` or a restart.".to_owned(),
            Yolo::Off => "Dangerous commands are asked about again.".to_owned(),
        }
    }

    fn rollback(&self, rest: &str) -> String {
        let Some(checkpoints) = &self.checkpoints else {
            return "Checkpoints are turned off (`checkpoints.enabled` in config.yaml).".to_owned();
        };
        let settings = self.live.current();
        let folder =
            settings.env.get("TERMINAL_CWD").map_or_else(|| self.live.home().path().to_owned(), Into::into);
        command::chat::restore(checkpoints, &folder, rest).0
    }

    /// Writes one key of config.yaml and leaves the rest unchanged.
    fn save_setting(&self, dotted: &str, value: YamlValue) -> hermes_config::Result<()> {
        let Some(path) = Key::parse(dotted) else { return Ok(()) };
        let home = self.live.home();
        let management = ManagedMode::detect(home, &self.live.current().env);
        set::update_value(home, management, &path, |_| Some(value))
    }
}

impl ProgramServices {
    /// Runs a user-defined command and returns its output, whatever its exit code.
    async fn run_shell(&self, command: &str) -> Result<String, String> {
        let arguments = vec!["-c".into(), command.into()];
        let home = self.live.home().path().to_owned();
        let program = Program {
            name: "sh",
            arguments,
            directory: &home,
            limit: PROGRAM_LIMIT,
            stderr: StderrMode::Merge,
        };
        match self.programs.output(program, &Cancel::new()).await {
            Ok((output, ProgramExit::Exited(code))) if code != 0 && output.trim().is_empty() => {
                Err(format!("it ended with {code} and said nothing"))
            }
            Ok((output, ProgramExit::Exited(_))) => Ok(output),
            Ok((_, ProgramExit::TimedOut)) => Err("it took longer than 30 s".to_owned()),
            Ok((_, ProgramExit::Cancelled)) => Err("it was stopped".to_owned()),
            Err(error) => Err(error.to_string()),
        }
    }

    /// Runs a program for at most thirty seconds and returns its output, whatever its exit code.
    async fn run_program(&self, argv: &[&str]) -> Result<String, String> {
        let Some((name, arguments)) = argv.split_first() else {
            return Err("there is nothing to run".to_owned());
        };
        let arguments = arguments.iter().map(|argument| (*argument).into()).collect();
        let home = self.live.home().path().to_owned();
        let program =
            Program { name, arguments, directory: &home, limit: PROGRAM_LIMIT, stderr: StderrMode::Merge };
        match self.programs.output(program, &Cancel::new()).await {
            Ok((output, ProgramExit::Exited(0))) => Ok(output),
            Ok((output, ProgramExit::Exited(code))) => {
                Err(format!("it ended with {code}: {}", output.trim()))
            }
            Ok((_, ProgramExit::TimedOut)) => Err("it took longer than 30 s".to_owned()),
            Ok((_, ProgramExit::Cancelled)) => Err("it was stopped".to_owned()),
            Err(error) => Err(error.to_string()),
        }
    }
}

/// Limits the size of documents that are passed to the model as text.
const LONGEST_READ: u64 = 100 * 1024;

/// Reads a short text file.
fn read_text_file(file: &Attachment) -> Option<String> {
    let path = std::path::Path::new(&file.path);
    let plain = path.extension().is_some_and(|extension| extension == "txt" || extension == "md");
    let short = std::fs::metadata(path).is_ok_and(|found| found.len() <= LONGEST_READ);
    let text = (plain && short).then(|| std::fs::read(path).ok()).flatten()?;
    Some(String::from_utf8_lossy(&text).into_owned())
}

impl SkillPrompts for ProgramServices {
    fn prompt(&self, name: &str, request: &str) -> Option<String> {
        self.skill_commands().invoke(name, request, local_time(self.clock.now()))
    }

    fn list(&self) -> Vec<(String, String)> {
        self.skill_commands().commands()
    }
}

impl MessageExpansion for ProgramServices {
    fn expand_references<'a>(
        &'a self,
        words: &'a str,
        window: u64,
    ) -> BoxFuture<'a, Result<Option<String>, String>> {
        Box::pin(async move {
            match self.references.attach(words, window, &Cancel::new()).await {
                ReferenceResult::NoReferences => Ok(None),
                ReferenceResult::Attached { text, .. } => Ok(Some(text)),
                ReferenceResult::TooLarge(words) => Err(format!("⚠️ {words}")),
            }
        })
    }

    fn describe_file<'a>(&'a self, file: &'a Attachment) -> BoxFuture<'a, Option<String>> {
        Box::pin(std::future::ready(match file.kind {
            AttachmentKind::Document => read_text_file(file),
            _ => None,
        }))
    }
}

impl ProcessInfo for ProgramServices {
    fn has_running_process(&self, task: &TaskId) -> bool {
        self.processes.has_running(task)
    }
}

impl HelperPrograms for ProgramServices {
    fn shell<'a>(&'a self, command: &'a str) -> BoxFuture<'a, Result<String, String>> {
        Box::pin(self.run_shell(command))
    }

    fn script<'a>(&'a self, order: JobScriptRequest<'a>) -> BoxFuture<'a, Result<JobScriptOutcome, String>> {
        Box::pin(self.scripts.run(order))
    }

    fn program<'a>(&'a self, argv: &'a [&'a str]) -> BoxFuture<'a, Result<String, String>> {
        Box::pin(self.run_program(argv))
    }
}

impl ProgramCommands for ProgramServices {
    fn run<'a>(
        &'a self,
        name: &'a str,
        arguments: &'a str,
        from: &'a WaitingMessage,
    ) -> BoxFuture<'a, Option<String>> {
        Box::pin(self.run_command(name, arguments, from))
    }
}
