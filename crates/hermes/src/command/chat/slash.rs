//! Slash commands of the terminal chat.

use anyhow::Result;
use hermes_agent::RequestOptions;
use hermes_gateway::slash::{
    self, CommandSurface, ConversationCommand, ConversationReply, ProgramCommand, ReplyText, SessionOwner,
    SlashCommand, SlashCommandId, TerminalCommand,
};
use hermes_plugins::PluginSurface;
use hermes_store::EndReason;
use hermes_text::head;
use hermes_types::{Cancel, Role, SessionKind};
use serde_json::json;

use super::chat_loop::ChatLoop;
use super::opening::{self, OpenedConversation};
use super::{goal, quick_commands, terminal_commands};
use crate::command;
use crate::command::slash::{CommandInput, CommandReply, SessionChange, YoloScope};
use crate::context::local_time;
use crate::wiring::skills::SkillCommands;
use crate::wiring::working_folder;

/// The step that follows a command.
pub(crate) enum CommandEffect {
    Continue,
    Quit,
    /// Sends this text to the model.
    Say(String),
    /// Sends this text unchanged: it comes from a skill, and its `@` words are no references.
    Invoke(String),
}

/// Runs a command line.
pub(crate) async fn run(chat: &mut ChatLoop<'_>, line: &str) -> Result<CommandEffect> {
    let (name, rest) = line
        .trim_start_matches('/')
        .split_once(char::is_whitespace)
        .unwrap_or((line.trim_start_matches('/'), ""));
    let rest = rest.trim();
    let typed_as = name.to_lowercase();
    if slash::find(&typed_as, CommandSurface::Terminal).is_none() {
        if let Some(effect) = quick_commands::run(chat, &typed_as, rest).await? {
            return Ok(effect);
        }
        let plugins = chat.runtime.extensions().plugins.clone();
        if let Some(command) = plugins.find_command(&typed_as, PluginSurface::Terminal) {
            let text = plugins.run_command(&command.name, rest).await;
            chat.output.line(&hermes_text::escape_terminal(&text));
            return Ok(CommandEffect::Continue);
        }
        if let Some(words) = invoke(chat, &typed_as, rest) {
            chat.output.line(&format!("⚡ Loading skill: {typed_as}"));
            return Ok(CommandEffect::Invoke(words));
        }
    }
    let command = match find(&typed_as) {
        CommandMatch::Command(command) => command,
        CommandMatch::Several(names) => {
            chat.output.line(&format!("Ambiguous command: /{name} ({})", names.join(", ")));
            return Ok(CommandEffect::Continue);
        }
        CommandMatch::Nothing => {
            chat.output.line(&format!("Unknown command: /{name}\nType /help for available commands"));
            return Ok(CommandEffect::Continue);
        }
    };
    match command.id {
        // Without arguments, `/q` quits.
        SlashCommandId::Conversation(ConversationCommand::Queue) if typed_as == "q" && rest.is_empty() => {
            Ok(CommandEffect::Quit)
        }
        SlashCommandId::Conversation(which) => run_conversation_command(chat, which, rest).await,
        SlashCommandId::Program(ProgramCommand::Agents) => {
            chat.terminal.list_agents();
            Ok(CommandEffect::Continue)
        }
        SlashCommandId::Program(ProgramCommand::Model)
            if rest.is_empty() && chat.terminal.screen().is_some() =>
        {
            if let Some(name) = terminal_commands::pick_model(chat).await? {
                run_program_command(chat, ProgramCommand::Model, &name).await?;
            }
            Ok(CommandEffect::Continue)
        }
        SlashCommandId::Program(which) => {
            run_program_command(chat, which, rest).await?;
            Ok(CommandEffect::Continue)
        }
        SlashCommandId::Terminal(which) => run_terminal_command(chat, which, rest).await,
        SlashCommandId::Chat(_) | SlashCommandId::Service(_) => {
            chat.output.line(&format!("/{} works in chats only.", command.name));
            Ok(CommandEffect::Continue)
        }
    }
}

async fn run_conversation_command(
    chat: &mut ChatLoop<'_>,
    command: ConversationCommand,
    rest: &str,
) -> Result<CommandEffect> {
    let reply = match command {
        ConversationCommand::New => {
            start_new_session(chat).await?;
            if rest.is_empty() {
                return Ok(CommandEffect::Continue);
            }
            title(chat, rest).await?
        }
        ConversationCommand::Queue => {
            if !rest.is_empty() {
                chat.output.line(&format!("Queued for the next turn: {rest}"));
                chat.queue.push_back(rest.to_owned().into());
            }
            return Ok(CommandEffect::Continue);
        }
        ConversationCommand::Plan => {
            let prompt = invoke(chat, "plan", rest);
            return Ok(prompt.map_or(CommandEffect::Continue, CommandEffect::Invoke));
        }
        ConversationCommand::Learn => {
            let prompt = invoke(chat, "learn", rest);
            return Ok(prompt.map_or(CommandEffect::Continue, CommandEffect::Invoke));
        }
        ConversationCommand::Goal => {
            goal::run_goal_command(chat, rest).await?;
            return Ok(CommandEffect::Continue);
        }
        ConversationCommand::Subgoal => {
            goal::run_subgoal_command(chat, rest).await?;
            return Ok(CommandEffect::Continue);
        }
        ConversationCommand::Resume => {
            resume(chat, rest).await?;
            return Ok(CommandEffect::Continue);
        }
        ConversationCommand::Help => {
            help(chat);
            return Ok(CommandEffect::Continue);
        }
        ConversationCommand::Branch => branch(chat, rest).await?,
        ConversationCommand::Undo => {
            slash::undo(&chat.runtime.agent, &mut chat.opened.conversation, rest).await?
        }
        ConversationCommand::Retry => {
            slash::retry(&chat.runtime.agent, &mut chat.opened.conversation).await?
        }
        ConversationCommand::Title => title(chat, rest).await?,
        ConversationCommand::Usage => {
            slash::usage(chat.runtime.agent.store(), chat.opened.conversation.session()).await?
        }
        ConversationCommand::Compress => {
            if chat.runtime.agent.compression().mode == hermes_agent::CompressionMode::Off {
                chat.output.line("Compression is turned off (compression.enabled in config.yaml).");
                return Ok(CommandEffect::Continue);
            }
            let (agent, conversation) = (&chat.runtime.agent, &mut chat.opened.conversation);
            let cancel = Cancel::new();
            match slash::compress(agent, conversation, rest, &chat.terminal, &cancel).await? {
                Some(reply) => reply,
                None => return Ok(CommandEffect::Continue),
            }
        }
    };
    Ok(match reply {
        ConversationReply::Text(text) => {
            show(chat, text);
            CommandEffect::Continue
        }
        ConversationReply::Ask(text) => CommandEffect::Say(text),
    })
}

async fn run_program_command(chat: &mut ChatLoop<'_>, command: ProgramCommand, rest: &str) -> Result<()> {
    let input = CommandInput {
        arguments: rest,
        context: chat.context.clone(),
        config: chat.runtime.config.clone(),
        store: chat.runtime.agent.store(),
        now: chat.runtime.agent.clock().now(),
        checkpoints: chat.runtime.checkpoints.clone(),
        // A folder that is gone has no checkpoints.
        folder: working_folder(chat.context, &chat.runtime.config).unwrap_or_default(),
        effort: chat.runtime.agent.request_options().effort,
        tool_progress: Some(chat.terminal.display().tool_progress),
        mcp: chat.runtime.mcp().clone(),
        plugins: chat.runtime.extensions().plugins.clone(),
        processes: chat.runtime.command_runtime.processes.clone(),
        browsers: chat.runtime.command_runtime.browsers.clone(),
        account: None,
        is_private: true,
        background: chat.background.list().describe(chat.runtime.agent.clock().now()),
        surface: CommandSurface::Terminal,
        yolo: chat.yolo,
        yolo_scope: YoloScope::Program,
    };
    let slow = match command {
        ProgramCommand::ReloadMcp => Some("Reconnecting MCP servers…"),
        ProgramCommand::Debug => Some("Writing the report…"),
        ProgramCommand::Browser => Some("Asking the browser…"),
        ProgramCommand::Model => Some("Asking the provider…"),
        _ => None,
    };
    let running = command::slash::run(command, input);
    let CommandReply { text, change, not_saved } =
        terminal_commands::locked(&chat.terminal, slow, running).await;
    if let Some(error) = not_saved {
        // The change applies to this chat all the same.
        chat.output.notice(&format!("not saved: {error}"));
    }
    show(chat, text);
    match change {
        None => {}
        Some(SessionChange::Model) => {
            if let Err(error) = chat.runtime.change_model(chat.context) {
                chat.output.line(&format!("{error:#}"));
            }
        }
        Some(SessionChange::Settings) => terminal_commands::reload_settings(chat),
        Some(SessionChange::Skills) => {
            if let Some(screen) = chat.terminal.screen() {
                screen.set_commands(super::screen::commands(chat.runtime, chat.context));
            }
        }
        Some(SessionChange::SystemPrompt(prompt)) => {
            let options =
                RequestOptions { ephemeral: prompt, ..chat.runtime.agent.request_options().clone() };
            chat.runtime.set_request_options(options);
        }
        Some(SessionChange::Effort(effort)) => {
            let options =
                RequestOptions { effort: Some(effort), ..chat.runtime.agent.request_options().clone() };
            chat.runtime.set_request_options(options);
        }
        Some(SessionChange::ShowReasoning(shown)) => {
            chat.terminal.change_display(|display| display.show_reasoning = shown);
        }
        Some(SessionChange::ToolProgress(progress)) => {
            chat.terminal.change_display(|display| display.tool_progress = progress);
        }
        Some(SessionChange::Yolo(yolo)) => {
            chat.yolo = yolo;
            chat.runtime.command_runtime.approvals.set_yolo(yolo);
        }
        Some(SessionChange::FilesRestored) => {
            chat.runtime.agent.undo_last_exchange(&mut chat.opened.conversation).await?;
        }
    }
    Ok(())
}

async fn run_terminal_command(
    chat: &mut ChatLoop<'_>,
    command: TerminalCommand,
    rest: &str,
) -> Result<CommandEffect> {
    match command {
        TerminalCommand::Stop => terminal_commands::stop(chat).await,
        TerminalCommand::Status => terminal_commands::status(chat).await?,
        TerminalCommand::Background if rest.is_empty() => chat.output.line("Usage: /background TEXT"),
        TerminalCommand::Background => {
            let screen = chat.terminal.screen().cloned();
            let started = chat.background.start(&chat.runtime.agent, rest, screen)?;
            chat.output.line(&started);
        }
        // Without a running turn, it is a message.
        TerminalCommand::Steer if rest.is_empty() => chat.output.line("Usage: /steer TEXT"),
        TerminalCommand::Steer => return Ok(CommandEffect::Say(rest.to_owned())),
        TerminalCommand::Sessions => resume(chat, "").await?,
        TerminalCommand::Copy => terminal_commands::copy(chat, rest),
        TerminalCommand::Config => terminal_commands::config(chat)?,
        TerminalCommand::Prompt => terminal_commands::prompt(chat, rest),
        TerminalCommand::Skin => terminal_commands::skin(chat, rest),
        TerminalCommand::StatusBar => terminal_commands::toggle_status_bar(chat),
        TerminalCommand::Busy => terminal_commands::busy(chat, rest),
        TerminalCommand::Redraw => chat.output.redraw(),
        TerminalCommand::Image => terminal_commands::image(chat, rest),
        TerminalCommand::Paste => terminal_commands::paste(chat).await,
        TerminalCommand::Timestamps => terminal_commands::timestamps(chat, rest),
        TerminalCommand::WhoAmI => terminal_commands::who_am_i(chat),
        TerminalCommand::Voice => terminal_commands::voice(chat, rest),
        TerminalCommand::Update => terminal_commands::update(chat).await,
        TerminalCommand::History => history(chat),
        TerminalCommand::Save => save(chat)?,
        TerminalCommand::Tools => super::list_tools(chat.runtime, chat.output),
        TerminalCommand::Toolsets => super::list_toolsets(chat.runtime, chat.output),
        TerminalCommand::Cron => command::cron::run_in_chat(rest, chat.context, chat.output)?,
        TerminalCommand::Skills => {
            let note = command::skills::run_in_chat(rest, chat.context, chat.output).await?;
            chat.runtime.add_system_text(note.into_iter().collect());
        }
        TerminalCommand::Clear => {
            start_new_session(chat).await?;
            chat.output.clear();
        }
        TerminalCommand::Quit => {
            if rest == "--delete" {
                delete(chat).await?;
            } else if !rest.is_empty() {
                chat.output.line("Usage: /quit [--delete]");
                return Ok(CommandEffect::Continue);
            }
            return Ok(CommandEffect::Quit);
        }
    }
    Ok(CommandEffect::Continue)
}

fn show(chat: &ChatLoop<'_>, text: ReplyText) {
    chat.output.line(text.into_plain().trim_end());
}

/// Continues in a copy of the conversation.
async fn branch(chat: &mut ChatLoop<'_>, name: &str) -> Result<ConversationReply> {
    let agent = &chat.runtime.agent;
    let original = chat.opened.conversation.clone();
    let reply = slash::branch(agent, &mut chat.opened.conversation, name).await?;
    if chat.opened.conversation.session() != original.session() {
        agent.end_conversation(&original, EndReason::SessionSwitch).await?;
        let row = agent.store().session(chat.opened.conversation.session()).await?;
        chat.opened.title = row.and_then(|row| row.title);
        chat.opened.resumed = true;
    }
    Ok(reply)
}

fn skill_commands(chat: &ChatLoop<'_>) -> SkillCommands {
    let context = chat.context;
    SkillCommands::for_platform(&context.home, &chat.runtime.config, &context.env, "cli")
}

/// Returns the text of a skill.
fn invoke(chat: &ChatLoop<'_>, name: &str, rest: &str) -> Option<String> {
    skill_commands(chat).invoke(name, rest, local_time(chat.runtime.agent.clock().now()))
}

enum CommandMatch {
    Command(&'static SlashCommand),
    Several(Vec<String>),
    Nothing,
}

/// Finds a command by name or alias, or by a prefix that only one command has.
fn find(name: &str) -> CommandMatch {
    if let Some(command) = slash::find(name, CommandSurface::Terminal) {
        return CommandMatch::Command(command);
    }
    let begins = |command: &&SlashCommand| {
        std::iter::once(&command.name).chain(command.aliases).any(|known| known.starts_with(name))
    };
    let begun: Vec<&'static SlashCommand> =
        slash::commands(CommandSurface::Terminal).filter(begins).collect();
    match begun.as_slice() {
        [] => CommandMatch::Nothing,
        [only] => CommandMatch::Command(only),
        several => {
            CommandMatch::Several(several.iter().map(|command| format!("/{}", command.name)).collect())
        }
    }
}

fn help(chat: &ChatLoop<'_>) {
    for command in slash::commands(CommandSurface::Terminal) {
        let left = command.synopsis();
        chat.output.line(&format!("  {left:<34} {}", command.description));
    }
    for command in chat.runtime.extensions().plugins.commands(PluginSurface::Terminal) {
        let left = format!("/{} {}", command.name, command.arguments);
        chat.output.line(&format!("  {:<34} {}", left.trim_end(), command.description));
    }
    for (name, about) in skill_commands(chat).commands(CommandSurface::Terminal) {
        chat.output.line(&format!("  {:<34} {about}", format!("/{name}")));
    }
    chat.output.line("Anything else is said to the model. Ctrl-C interrupts it, twice leaves.");
}

async fn start_new_session(chat: &mut ChatLoop<'_>) -> Result<()> {
    let agent = &chat.runtime.agent;
    if agent.flush_due(&chat.opened.conversation) {
        agent.flush_memories(&chat.opened.conversation, &Cancel::new()).await;
    }
    agent.end_conversation(&chat.opened.conversation, EndReason::NewSession).await?;
    let source = chat.opened.conversation.source().to_owned();
    let conversation = agent.new_conversation(source, SessionKind::Local);
    chat.opened = OpenedConversation { conversation, title: None, resumed: false, unfinished_turn: None };
    chat.output.line("(^_^)v New session started!");
    Ok(())
}

fn history(chat: &ChatLoop<'_>) {
    let messages = chat.opened.conversation.messages();
    let tools = messages.iter().filter(|message| message.role == Role::Tool).count();
    for message in messages {
        let who = match message.role {
            Role::User => "You",
            Role::Assistant => "Hermes",
            Role::System | Role::Tool => continue,
        };
        let text = message.content.text();
        if !text.trim().is_empty() {
            chat.output.line(&format!("{who}: {}", head(text.trim(), 400)));
        }
    }
    chat.output.line(&format!("({} messages, {tools} of them tool results)", messages.len()));
}

fn save(chat: &ChatLoop<'_>) -> Result<()> {
    let agent = &chat.runtime.agent;
    let now = local_time(agent.clock().now());
    let name = format!(
        "hermes_conversation_{:04}{:02}{:02}_{:02}{:02}{:02}.json",
        now.year, now.month, now.day, now.hour, now.minute, now.second
    );
    let content = json!({
        "model": agent.models().name,
        "session_start": now.to_string(),
        "messages": chat.opened.conversation.messages(),
    });
    let path = std::env::current_dir()?.join(&name);
    hermes_config::write::replace(&path, serde_json::to_string_pretty(&content)?.as_bytes())?;
    chat.output.line(&format!("Saved to {name}"));
    Ok(())
}

/// Deletes this session permanently.
async fn delete(chat: &mut ChatLoop<'_>) -> Result<()> {
    let session = chat.opened.conversation.session().clone();
    let source = chat.opened.conversation.source().to_owned();
    chat.opened.conversation = chat.runtime.agent.new_conversation(source, SessionKind::Local);
    chat.runtime.agent.store().delete_session(&session).await?;
    chat.output.line("This conversation was deleted.");
    Ok(())
}

async fn title(chat: &mut ChatLoop<'_>, name: &str) -> Result<ConversationReply> {
    let agent = &chat.runtime.agent;
    let conversation = &chat.opened.conversation;
    let (session, source) = (conversation.session(), conversation.source());
    let reply = slash::title(agent.store(), session, source, name, agent.clock().now()).await?;
    if let Some(row) = agent.store().session(session).await? {
        chat.opened.title = row.title;
    }
    Ok(reply)
}

async fn resume(chat: &mut ChatLoop<'_>, name: &str) -> Result<()> {
    if name.is_empty() && chat.terminal.screen().is_none() {
        command::sessions::recent(chat.runtime.agent.store(), chat.output)?;
        chat.output.line("Go on with one: /resume ID or NAME");
        return Ok(());
    }
    let id = if name.is_empty() {
        let Some(id) = terminal_commands::pick_session(chat).await? else { return Ok(()) };
        id
    } else {
        match slash::find_session(chat.runtime.agent.store(), name, SessionOwner::Anybody).await? {
            Ok(id) => id,
            Err(message) => {
                chat.output.line(&message);
                return Ok(());
            }
        }
    };
    let agent = &chat.runtime.agent;
    let taken = match agent.load_conversation(&id).await {
        Ok(taken) => taken,
        Err(error) => {
            chat.output.line(&error.to_string());
            return Ok(());
        }
    };
    agent.end_conversation(&chat.opened.conversation, EndReason::ResumedOther).await?;
    if let Some(cut_off) = &taken.unfinished_turn {
        chat.output.line(&opening::describe_unfinished_turn(cut_off));
        agent.drop_turn(cut_off).await?;
    }
    chat.opened = OpenedConversation {
        conversation: taken.conversation,
        title: taken.title,
        resumed: true,
        unfinished_turn: None,
    };
    chat.output.line(&opening::greeting(&chat.opened));
    Ok(())
}
