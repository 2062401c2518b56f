//! Implements the services the gateway asks of the program: commands, skills, programs, references.

use std::sync::Arc;
use std::time::Duration;

use hermes_browser::BrowserPool;
use hermes_exec::{Program, ProgramExit, ProgramRunner, StderrMode};
use hermes_gateway::slash::{CommandSurface, ProgramCommand, ServiceCommand};
use hermes_gateway::{
    AnswerToSpeak, AttachmentContent, AttachmentRequest, HelperPrograms, JobScriptOutcome, JobScriptRequest,
    LiveSettings, MessageExpansion, ProcessInfo, ProgramCommands, SkillPrompts,
};
use hermes_knowledge::ChatIdentity;
use hermes_plugins::{PluginHost, PluginSurface};
use hermes_store::{Store, WaitingMessage};
use hermes_tools::{Approvals, CheckpointManager, ProcessRegistry, ReferenceResolver, ReferenceResult, Yolo};
use hermes_types::{Attachment, AttachmentKind, BoxFuture, Cancel, ChatKind, Clock, ReasoningEffort, TaskId};

use tokio::sync::Notify;

use super::attachments::AttachmentReader;
use super::spoken_answers::SpokenAnswers;
use super::update;
use crate::command::cron::JobScripts;
use crate::command::slash::{self, CommandInput, CommandReply, SessionChange, YoloScope};
use crate::context::{ProgramContext, local_time};
use crate::wiring::live_agents::context as context_of;
use crate::wiring::mcp::McpRuntime;
use crate::wiring::program_runtime::ProgramRuntime;
use crate::wiring::skills::SkillCommands;
use crate::wiring::{CommandRuntime, child_variables};

/// The time a user's own command may take.
pub(crate) const QUICK_COMMAND_LIMIT: Duration = Duration::from_secs(30);
const PROGRAM_LIMIT: Duration = QUICK_COMMAND_LIMIT;

/// The services of the program for its chats.
pub(crate) struct ProgramServices {
    live: LiveSettings,
    store: Store,
    clock: Arc<dyn Clock>,
    approvals: Arc<Approvals>,
    processes: ProcessRegistry,
    browsers: BrowserPool,
    mcp: McpRuntime,
    plugins: PluginHost,
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
        let CommandRuntime { approvals, processes, browsers, .. } = runtime.command_runtime.clone();
        let programs = ProgramRunner::new(child_variables(&live.current().env, &[]), clock.clone());
        let scripts = JobScripts::new(live.clone(), clock.clone());
        let (mcp, plugins) = (runtime.mcp.clone(), runtime.extensions.plugins.clone());
        Self {
            live,
            store,
            clock,
            approvals,
            processes,
            browsers,
            mcp,
            plugins,
            checkpoints,
            programs,
            scripts,
            references,
            restart,
        }
    }

    async fn run_program_command(
        &self,
        command: ProgramCommand,
        arguments: &str,
        from: &WaitingMessage,
    ) -> String {
        let settings = self.live.current();
        let (context, config) = (self.context(), settings.config.clone());
        let folder = settings.env.get("TERMINAL_CWD");
        let effort = config.non_empty_text("agent.reasoning_effort");
        let input = CommandInput {
            arguments,
            store: &self.store,
            now: self.clock.now(),
            checkpoints: self.checkpoints.clone(),
            folder: folder.map_or_else(|| self.live.home().path().to_owned(), Into::into),
            effort: effort.as_deref().and_then(ReasoningEffort::parse),
            tool_progress: settings.display.tool_progress_command.then_some(settings.display.tool_progress),
            mcp: self.mcp.clone(),
            plugins: self.plugins.clone(),
            processes: self.processes.clone(),
            browsers: self.browsers.clone(),
            account: Some(ChatIdentity::new(
                &from.envelope.platform,
                from.envelope.sender.user_id.as_deref().unwrap_or_default(),
            )),
            is_private: from.envelope.place.kind == ChatKind::Dm,
            background: Vec::new(),
            surface: CommandSurface::Chat,
            yolo: Yolo::Off,
            yolo_scope: YoloScope::Conversation,
            context,
            config,
        };
        let CommandReply { text, change, not_saved } = slash::run(command, input).await;
        match change {
            Some(SessionChange::Yolo(yolo)) => {
                self.approvals.set_yolo_in(&TaskId::new(from.conversation.clone()), yolo);
            }
            // A chat reads these settings anew for each turn; its last exchange stays when files are restored.
            Some(
                SessionChange::Model
                | SessionChange::SystemPrompt(_)
                | SessionChange::Effort(_)
                | SessionChange::ShowReasoning(_)
                | SessionChange::ToolProgress(_)
                | SessionChange::Settings
                | SessionChange::Skills
                | SessionChange::FilesRestored,
            )
            | None => {}
        }
        not_saved.map_or_else(|| text.into_markdown(), |error| format!("⚠️ {error}"))
    }

    fn run_service_command(&self, command: ServiceCommand, arguments: &str, from: &WaitingMessage) -> String {
        match command {
            ServiceCommand::Voice => self.spoken_answers().set_mode(arguments, from),
            ServiceCommand::Update => self.update(from),
            ServiceCommand::Restart => {
                self.restart.notify_one();
                "♻️ Restarting. What I am doing in chats goes on afterwards.".to_owned()
            }
        }
    }

    fn attachments(&self) -> AttachmentReader {
        AttachmentReader {
            settings: self.live.current(),
            context: self.context(),
            store: self.store.clone(),
            clock: self.clock.clone(),
        }
    }

    fn spoken_answers(&self) -> SpokenAnswers {
        let settings = self.live.current();
        SpokenAnswers { context: self.context(), config: settings.config.clone(), clock: self.clock.clone() }
    }

    fn skill_commands(&self) -> SkillCommands {
        let settings = self.live.current();
        SkillCommands::for_platform(self.live.home(), &settings.config, &settings.env, "gateway")
    }

    fn context(&self) -> ProgramContext {
        context_of(self.live.home(), &self.live.current())
    }

    fn update(&self, from: &WaitingMessage) -> String {
        let variables = child_variables(&self.live.current().env, &[]);
        update::begin(self.live.home(), &variables, from, self.clock.now())
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
        self.skill_commands().commands(hermes_gateway::slash::CommandSurface::Chat)
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

    fn read_attachment<'a>(&'a self, request: AttachmentRequest<'a>) -> BoxFuture<'a, AttachmentContent> {
        let text = |text: Option<String>| text.map_or(AttachmentContent::PathOnly, AttachmentContent::Text);
        match request.file.kind {
            AttachmentKind::Document => Box::pin(std::future::ready(text(read_text_file(request.file)))),
            AttachmentKind::Video => Box::pin(std::future::ready(AttachmentContent::PathOnly)),
            AttachmentKind::Image => Box::pin(self.attachments().picture(request)),
            AttachmentKind::Voice | AttachmentKind::Audio => Box::pin(self.attachments().recording(request)),
        }
    }

    fn speak_answer<'a>(&'a self, answer: AnswerToSpeak<'a>) -> BoxFuture<'a, Option<String>> {
        Box::pin(async move { self.spoken_answers().speak(answer).await })
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

    fn event_script<'a>(
        &'a self,
        name: &'a str,
        event: &'a str,
    ) -> BoxFuture<'a, Result<JobScriptOutcome, String>> {
        Box::pin(self.scripts.run_with_event(name, event))
    }

    fn program<'a>(&'a self, argv: &'a [&'a str]) -> BoxFuture<'a, Result<String, String>> {
        Box::pin(self.run_program(argv))
    }
}

impl ProgramCommands for ProgramServices {
    fn run<'a>(
        &'a self,
        command: ProgramCommand,
        arguments: &'a str,
        from: &'a WaitingMessage,
    ) -> BoxFuture<'a, String> {
        Box::pin(self.run_program_command(command, arguments, from))
    }

    fn run_service<'a>(
        &'a self,
        command: ServiceCommand,
        arguments: &'a str,
        from: &'a WaitingMessage,
    ) -> BoxFuture<'a, String> {
        Box::pin(async move { self.run_service_command(command, arguments, from) })
    }

    fn plugin_commands(&self) -> Vec<(String, String)> {
        let all = self.plugins.commands(PluginSurface::Chat).into_iter();
        all.flat_map(|command| {
            let about = command.description;
            std::iter::once(command.name).chain(command.aliases).map(move |name| (name, about.clone()))
        })
        .collect()
    }

    fn run_plugin_command<'a>(&'a self, name: &'a str, arguments: &'a str) -> BoxFuture<'a, Option<String>> {
        Box::pin(async move {
            let command = self.plugins.find_command(name, PluginSurface::Chat)?;
            Some(self.plugins.run_command(&command.name, arguments).await)
        })
    }
}
