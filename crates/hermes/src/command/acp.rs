//! `hermes acp`: the agent for editors. Standard output belongs to the protocol.

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context as _, Result};
use hermes_acp::{AcpServer, EditorAgents, EditorMode, EditorModel, EditorReply};
use hermes_agent::{Agent, Conversation, SessionLogMode};
use hermes_config::{Env, ProgramSurface};
use hermes_gateway::slash::{
    self, CommandSurface, ConversationCommand, ConversationReply, ProgramCommand, SlashCommandId,
};
use hermes_gateway::{AgentProvider as _, AgentRequest, LiveSettings};
use hermes_model::provider::{ProviderChoice, ProviderInputs, ResolvedModel, resolve};
use hermes_task::SystemClock;
use hermes_tools::{Approvals, Yolo};
use hermes_types::{
    BoxFuture, Cancel, Clock, Frontend, SessionKind, TaskId, ToolUser, TurnEvent, UserAnswer, UserQuestion,
};

use crate::cli::{self, ChatArguments};
use crate::command::model_picker;
use crate::context::{ProgramContext, local_time};
use crate::output::Console;
use crate::wiring::agent_factory::AgentFactory;
use crate::wiring::agent_spec::RuntimeSpec;
use crate::wiring::live_agents::{LiveAgents, context as context_of};
use crate::wiring::model::configured_judge;
use crate::wiring::program_runtime::{ProgramConfig, ProgramRuntime};
use crate::wiring::skills::SkillCommands;

/// The commands that make sense in an editor.
const COMMANDS: [&str; 8] = ["help", "model", "tools", "usage", "new", "compress", "version", "plan"];

pub(crate) fn run(context: &ProgramContext, output: &Console) -> Result<ExitCode> {
    let config = context.usable_config(output)?;
    let store = context.store(output)?;
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let from = ProgramConfig { context, config: &config };
    let judge = configured_judge(from, ProgramSurface::Cli, &clock, &store)?;
    let spec = RuntimeSpec::from_arguments(&ChatArguments::default());
    let (runtime, _notices) = ProgramRuntime::open(spec, from, store.clone(), clock.clone(), None, judge)?;
    let (command_runtime, mcp) = (runtime.command_runtime.clone(), runtime.mcp.clone());
    let extensions = runtime.extensions.clone();
    extensions.log_problems();
    let logs = SessionLogMode::Immediate(context.home.join("sessions"));
    let live = LiveSettings::new(context.home.clone(), Env::process(), context.home.path().to_owned());
    let agents = LiveAgents::new(live.clone(), AgentFactory::new(runtime, logs));
    let port = EditorPort { agents, live, approvals: command_runtime.approvals.clone() };
    let server = AcpServer::new(Arc::new(port), store.clone(), clock);
    let workers = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .context("no runtime")?;
    let served = workers.block_on(async {
        // The servers connect while the editor opens its session.
        mcp.follow(from);
        extensions.plugins.load().await;
        let served = server.serve_stdio().await;
        tokio::join!(command_runtime.shut_down(), mcp.shut_down(), extensions.shut_down());
        served
    });
    workers.shutdown_background();
    store.close().wait()?;
    if let Err(error) = served {
        // An editor that closes its end has ended the session in order.
        tracing::debug!(%error, "the connection to the editor ended");
    }
    Ok(ExitCode::SUCCESS)
}

/// What the server of editors gets from the program.
struct EditorPort {
    agents: LiveAgents,
    live: LiveSettings,
    approvals: Arc<Approvals>,
}

impl EditorPort {
    fn skills(&self) -> SkillCommands {
        let settings = self.live.current();
        SkillCommands::for_platform(self.live.home(), &settings.config, &settings.env, "acp")
    }
}

impl EditorAgents for EditorPort {
    fn agent(&self, model: Option<&EditorModel>) -> Result<Agent, String> {
        let request = AgentRequest {
            platform: "acp",
            tool_user: Some(ToolUser::Editor),
            model: model.map(|chosen| chosen.model.as_str()),
            provider: model.map(|chosen| chosen.provider.as_str()),
            ..AgentRequest::default()
        };
        self.agents.agent(&request)
    }

    fn models(&self) -> BoxFuture<'static, Vec<EditorModel>> {
        let settings = self.live.current();
        let context = context_of(self.live.home(), &settings);
        let config = settings.config.clone();
        let (answer, listed) = tokio::sync::oneshot::channel();
        // On a thread of its own, because it may wait for the network.
        let started = std::thread::Builder::new().name("models".to_owned()).spawn(move || {
            // There is no receiver any more when the program ends.
            let _ = answer.send(model_picker::offered(&context, config));
        });
        Box::pin(async move {
            if let Err(error) = started {
                tracing::warn!(%error, "the models cannot be listed");
            }
            let offered = listed.await.unwrap_or_default();
            offered
                .into_iter()
                .map(|offer| EditorModel { provider: offer.provider, model: offer.model })
                .collect()
        })
    }

    fn set_working_folder(&self, task: &TaskId, folder: &Path) {
        self.agents.set_working_folder(task, folder);
    }

    fn set_mode(&self, task: &TaskId, mode: EditorMode) {
        let yolo = if mode == EditorMode::DontAsk { Yolo::On } else { Yolo::Off };
        self.approvals.set_yolo_in(task, yolo);
    }

    fn provider(&self) -> Option<String> {
        let settings = self.live.current();
        let inputs = ProviderInputs::read(self.live.home(), settings.config.clone(), settings.env.clone());
        match resolve(&inputs, &ProviderChoice::default(), ProgramSurface::Cli) {
            Ok(ResolvedModel::Target(target)) => Some(target.provider().to_owned()),
            Ok(ResolvedModel::Offline) => Some("offline".to_owned()),
            Err(_) => None,
        }
    }

    fn commands(&self) -> Vec<(String, String)> {
        let own = slash::commands(CommandSurface::Terminal)
            .filter(|command| COMMANDS.contains(&command.name))
            .map(|command| (command.name.to_owned(), command.description.to_owned()));
        own.chain(self.skills().commands(CommandSurface::Terminal)).collect()
    }

    fn run_command<'a>(
        &'a self,
        line: &'a str,
        agent: &'a Agent,
        conversation: &'a mut Conversation,
    ) -> BoxFuture<'a, Option<EditorReply>> {
        Box::pin(async move {
            let typed = slash::parse(line)?;
            let name = match typed.name.as_str() {
                "reset" => "new",
                "context" => "usage",
                "compact" => "compress",
                name => name,
            };
            let rest = typed.arguments.as_str();
            let Some(command) = slash::find(name, CommandSurface::Terminal)
                .filter(|command| COMMANDS.contains(&command.name))
            else {
                let prompt = self.skills().invoke(name, rest, local_time(agent.clock().now()));
                return prompt.map(EditorReply::Prompt);
            };
            let reply = match command.id {
                SlashCommandId::Conversation(ConversationCommand::Help) => {
                    let lines =
                        self.commands().into_iter().map(|(name, about)| format!("- `/{name}` — {about}"));
                    lines.collect::<Vec<_>>().join("\n")
                }
                SlashCommandId::Conversation(ConversationCommand::New) => {
                    let source = conversation.source().to_owned();
                    let task = conversation.task().clone();
                    *conversation = agent.new_conversation(source, SessionKind::Local).with_task(task);
                    "New conversation.".to_owned()
                }
                SlashCommandId::Conversation(ConversationCommand::Plan) => {
                    let prompt = self.skills().invoke("plan", rest, local_time(agent.clock().now()));
                    return prompt.map(EditorReply::Prompt);
                }
                SlashCommandId::Conversation(ConversationCommand::Usage) => {
                    conversation_reply(slash::usage(agent.store(), conversation.session()).await)
                }
                SlashCommandId::Conversation(ConversationCommand::Compress) => {
                    let compressed =
                        slash::compress(agent, conversation, rest, &Silent, &Cancel::new()).await;
                    match compressed {
                        Ok(Some(ConversationReply::Text(text))) => text.into_markdown(),
                        Ok(_) => "Stopped.".to_owned(),
                        Err(error) => error.to_string(),
                    }
                }
                SlashCommandId::Program(ProgramCommand::Version) => cli::version(),
                SlashCommandId::Program(ProgramCommand::Model) => {
                    format!("{} ({})", agent.models().name, agent.models().provider)
                }
                SlashCommandId::Terminal(_) => {
                    let tools = agent.tools().iter().map(|tool| tool.spec().name.clone());
                    tools.collect::<Vec<_>>().join(", ")
                }
                _ => return None,
            };
            Some(EditorReply::Text(reply))
        })
    }
}

fn conversation_reply(reply: Result<ConversationReply, hermes_store::Error>) -> String {
    match reply {
        Ok(ConversationReply::Text(text)) => text.into_markdown(),
        Ok(ConversationReply::Ask(text)) => text,
        Err(error) => error.to_string(),
    }
}

/// Shows nothing and asks nobody.
struct Silent;

impl Frontend for Silent {
    fn show(&self, _: TurnEvent) {}

    fn ask<'a>(&'a self, _: UserQuestion, _: &'a Cancel) -> BoxFuture<'a, UserAnswer> {
        Box::pin(std::future::ready(UserAnswer::Unavailable))
    }
}
