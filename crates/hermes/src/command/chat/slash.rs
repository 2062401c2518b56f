//! Slash commands of the terminal chat.

use std::fmt::Write as _;

use anyhow::Result;
use hermes_agent::{CompressionMode, CompressionReport, RequestOptions};
use hermes_config::set;
use hermes_config::settings::ToolProgress;
use hermes_gateway::slash::{self, CommandSurface};
use hermes_knowledge::{Personality, personality, personality_names};
use hermes_store::EndReason;
use hermes_text::{Title, head, single_line, with_commas};
use hermes_tools::Yolo;
use hermes_types::{Cancel, ReasoningEffort, Role, SessionKind};
use serde_json::json;

use super::chat_loop::ChatLoop;
use super::opening::{self, OpenedConversation};
use crate::context::local_time;
use crate::wiring::skills::SkillCommands;
use crate::{cli, command};

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
pub(crate) async fn run(talk: &mut ChatLoop<'_>, line: &str) -> Result<CommandEffect> {
    let (name, rest) = line
        .trim_start_matches('/')
        .split_once(char::is_whitespace)
        .unwrap_or((line.trim_start_matches('/'), ""));
    let rest = rest.trim();
    let typed_as = name.to_lowercase();
    if slash::find(&typed_as, CommandSurface::Terminal).is_none()
        && let Some(words) = invoke(talk, &typed_as, rest)
    {
        talk.output.line(&format!("⚡ Loading skill: {typed_as}"));
        return Ok(CommandEffect::Invoke(words));
    }
    let name = match find(&typed_as) {
        CommandMatch::Command(name) => name,
        CommandMatch::Several(names) => {
            talk.output.line(&format!("Ambiguous command: /{name} ({})", names.join(", ")));
            return Ok(CommandEffect::Continue);
        }
        CommandMatch::Nothing => {
            talk.output.line(&format!("Unknown command: /{name}\nType /help for available commands"));
            return Ok(CommandEffect::Continue);
        }
    };
    match name {
        "quit" => {
            if rest == "--delete" {
                delete(talk).await?;
            } else if !rest.is_empty() {
                talk.output.line("Usage: /quit [--delete]");
                return Ok(CommandEffect::Continue);
            }
            return Ok(CommandEffect::Quit);
        }
        // Without arguments, `/q` quits.
        "queue" if rest.is_empty() && typed_as == "q" => return Ok(CommandEffect::Quit),
        "queue" => {
            if !rest.is_empty() {
                talk.output.line(&format!("Queued for the next turn: {rest}"));
                talk.queue.push_back(rest.to_owned());
            }
        }
        "new" => {
            start_new_session(talk).await?;
            if !rest.is_empty() {
                title(talk, rest).await?;
            }
        }
        "clear" => {
            start_new_session(talk).await?;
            talk.output.text("\u{1b}[2J\u{1b}[H");
        }
        "history" => history(talk),
        "save" => save(talk)?,
        "undo" => undo_exchanges(talk, rest).await?,
        "retry" => match undo(talk).await? {
            Some(text) => return Ok(CommandEffect::Say(text)),
            None => talk.output.line("There is nothing to ask again."),
        },
        "plan" => return Ok(invoke(talk, name, rest).map_or(CommandEffect::Continue, CommandEffect::Invoke)),
        "title" => title(talk, rest).await?,
        "compress" => compress(talk, rest).await?,
        "rollback" => rollback(talk, rest).await?,
        "resume" => resume(talk, rest).await?,
        "personality" => set_personality(talk, rest),
        "reasoning" => reasoning(talk, rest),
        "verbose" => cycle_tool_progress(talk),
        "model" => model(talk, rest),
        "yolo" => yolo(talk, rest),
        "version" => talk.output.line(&cli::version()),
        "tools" => super::list_tools(talk.runtime, talk.output),
        "toolsets" => super::list_toolsets(talk.runtime, talk.output),
        "cron" => command::cron::run_in_chat(rest, talk.context, talk.output)?,
        "usage" => usage(talk).await?,
        "insights" => {
            let days = rest.strip_prefix("--days").unwrap_or(rest).trim_start_matches('=').trim();
            let Some(days) =
                Some(days).filter(|days| !days.is_empty()).map_or(Some(30), |days| days.parse().ok())
            else {
                talk.output.line("Usage: /insights [--days N]");
                return Ok(CommandEffect::Continue);
            };
            let text = command::insights::report(
                talk.runtime.agent.store(),
                days,
                None,
                talk.runtime.agent.clock().now(),
            )?;
            talk.output.text(&text);
        }
        _ => help(talk),
    }
    Ok(CommandEffect::Continue)
}

fn skill_commands(talk: &ChatLoop<'_>) -> SkillCommands {
    let context = talk.context;
    SkillCommands::for_platform(&context.home, &talk.runtime.config, &context.env, "cli")
}

/// Returns the text of a skill.
fn invoke(talk: &ChatLoop<'_>, name: &str, rest: &str) -> Option<String> {
    skill_commands(talk).invoke(name, rest, local_time(talk.runtime.agent.clock().now()))
}

enum CommandMatch {
    Command(&'static str),
    Several(Vec<String>),
    Nothing,
}

/// Finds a command by name or alias, or by a prefix that only one command has.
fn find(name: &str) -> CommandMatch {
    if let Some(command) = slash::find(name, CommandSurface::Terminal) {
        return CommandMatch::Command(command.name);
    }
    let begins = |command: &&slash::SlashCommand| {
        std::iter::once(&command.name).chain(command.aliases).any(|known| known.starts_with(name))
    };
    let begun: Vec<&'static str> =
        slash::commands(CommandSurface::Terminal).filter(begins).map(|command| command.name).collect();
    match begun.as_slice() {
        [] => CommandMatch::Nothing,
        [only] => CommandMatch::Command(only),
        several => CommandMatch::Several(several.iter().map(|name| format!("/{name}")).collect()),
    }
}

fn help(talk: &ChatLoop<'_>) {
    for command in slash::commands(CommandSurface::Terminal) {
        let names: Vec<String> =
            std::iter::once(&command.name).chain(command.aliases).map(|name| format!("/{name}")).collect();
        let left = format!("{} {}", names.join(", "), command.arguments);
        talk.output.line(&format!("  {left:<34} {}", command.description));
    }
    for (name, about) in skill_commands(talk).commands() {
        talk.output.line(&format!("  {:<34} {about}", format!("/{name}")));
    }
    talk.output.line("Anything else is said to the model. Ctrl-C interrupts it, twice leaves.");
}

async fn start_new_session(talk: &mut ChatLoop<'_>) -> Result<()> {
    let agent = &talk.runtime.agent;
    if agent.flush_due(&talk.opened.conversation) {
        agent.flush_memories(&talk.opened.conversation, &Cancel::new()).await;
    }
    agent.end_conversation(&talk.opened.conversation, EndReason::NewSession).await?;
    let source = talk.opened.conversation.source().to_owned();
    let conversation = agent.new_conversation(source, SessionKind::Local);
    talk.opened = OpenedConversation { conversation, title: None, resumed: false, unfinished_turn: None };
    talk.output.line("(^_^)v New session started!");
    Ok(())
}

fn history(talk: &ChatLoop<'_>) {
    let messages = talk.opened.conversation.messages();
    let tools = messages.iter().filter(|message| message.role == Role::Tool).count();
    for message in messages {
        let who = match message.role {
            Role::User => "You",
            Role::Assistant => "Hermes",
            Role::System | Role::Tool => continue,
        };
        let text = message.content.text();
        if !text.trim().is_empty() {
            talk.output.line(&format!("{who}: {}", head(text.trim(), 400)));
        }
    }
    talk.output.line(&format!("({} messages, {tools} of them tool results)", messages.len()));
}

fn save(talk: &ChatLoop<'_>) -> Result<()> {
    let agent = &talk.runtime.agent;
    let now = local_time(agent.clock().now());
    let name = format!(
        "hermes_conversation_{:04}{:02}{:02}_{:02}{:02}{:02}.json",
        now.year, now.month, now.day, now.hour, now.minute, now.second
    );
    let content = json!({
        "model": agent.models().name,
        "session_start": now.to_string(),
        "messages": talk.opened.conversation.messages(),
    });
    let path = std::env::current_dir()?.join(&name);
    hermes_config::write::replace(&path, serde_json::to_string_pretty(&content)?.as_bytes())?;
    talk.output.line(&format!("Saved to {name}"));
    Ok(())
}

/// Shows the model, or selects another, which is used from the next turn on.
fn model(talk: &mut ChatLoop<'_>, rest: &str) {
    let wanted = (!rest.is_empty()).then(|| rest.to_owned());
    let (context, config) = (talk.context.clone(), talk.runtime.config.clone());
    // On its own thread, because it may wait for the network.
    let answered =
        std::thread::spawn(move || command::model::answer(wanted.as_deref(), &context, config)).join();
    match answered {
        Ok(Ok(lines)) => lines.iter().for_each(|line| talk.output.line(line)),
        Ok(Err(error)) => talk.output.line(&format!("{error:#}")),
        Err(_) => talk.output.line("The choice ended unexpectedly."),
    }
    if !rest.is_empty()
        && let Err(error) = talk.runtime.change_model(talk.context)
    {
        talk.output.line(&format!("{error:#}"));
    }
}

/// Removes the last exchange, or the last few.
async fn undo_exchanges(talk: &mut ChatLoop<'_>, rest: &str) -> Result<()> {
    let Some(count) =
        Some(rest).filter(|rest| !rest.is_empty()).map_or(Some(1), |rest| rest.parse::<usize>().ok())
    else {
        talk.output.line("Usage: /undo [N]");
        return Ok(());
    };
    let mut last = None;
    let mut done = 0;
    while done < count
        && let Some(text) = undo(talk).await?
    {
        last = Some(text);
        done += 1;
    }
    match last {
        None => talk.output.line("There is nothing to take back."),
        Some(text) if done == 1 => {
            talk.output.line(&format!("Taken back: {}", head(&single_line(&text), 60)));
        }
        Some(text) => {
            talk.output
                .line(&format!("Taken back: {done} exchanges, from: {}", head(&single_line(&text), 60)));
        }
    }
    Ok(())
}

/// Turns approvals for dangerous commands off or on again.
fn yolo(talk: &mut ChatLoop<'_>, rest: &str) {
    let yolo = match rest {
        "on" => Yolo::On,
        "off" => Yolo::Off,
        _ if talk.yolo == Yolo::On => Yolo::Off,
        _ => Yolo::On,
    };
    talk.yolo = yolo;
    talk.runtime.command_runtime.approvals.set_yolo(yolo);
    talk.output.line(match yolo {
        Yolo::On => "Dangerous commands run without asking; /yolo ends that.",
        Yolo::Off => "Dangerous commands are asked about again.",
    });
}

/// Deletes this session permanently.
async fn delete(talk: &mut ChatLoop<'_>) -> Result<()> {
    let session = talk.opened.conversation.session().clone();
    let source = talk.opened.conversation.source().to_owned();
    talk.opened.conversation = talk.runtime.agent.new_conversation(source, SessionKind::Local);
    talk.runtime.agent.store().delete_session(&session).await?;
    talk.output.line("This conversation was deleted.");
    Ok(())
}

async fn undo(talk: &mut ChatLoop<'_>) -> Result<Option<String>> {
    Ok(talk.runtime.agent.undo_last_exchange(&mut talk.opened.conversation).await?)
}

async fn title(talk: &mut ChatLoop<'_>, name: &str) -> Result<()> {
    let agent = &talk.runtime.agent;
    if name.is_empty() {
        let row = agent.store().session(talk.opened.conversation.session()).await?;
        let title = row.and_then(|row| row.title).or_else(|| talk.opened.title.clone());
        talk.output.line(title.as_deref().unwrap_or("This conversation has no name yet."));
        return Ok(());
    }
    let title = match Title::sanitise(name) {
        Ok(Some(title)) => title,
        Ok(None) => {
            talk.output.line("A name needs at least one visible character.");
            return Ok(());
        }
        Err(error) => {
            talk.output.line(&error.to_string());
            return Ok(());
        }
    };
    let conversation = &talk.opened.conversation;
    if conversation.messages().is_empty() {
        // The session has no row before its first message; naming it creates one.
        let new = hermes_store::NewSession::new(
            conversation.session().clone(),
            conversation.source(),
            agent.clock().now(),
        );
        agent.store().create_session(new).await?;
    }
    match agent.store().set_title(conversation.session(), Some(title.clone())).await {
        Ok(()) => {
            talk.opened.title = Some(title.as_str().to_owned());
            talk.output.line(&format!("Named: {}", title.as_str()));
        }
        Err(error) => talk.output.line(&error.to_string()),
    }
    Ok(())
}

async fn compress(talk: &mut ChatLoop<'_>, focus: &str) -> Result<()> {
    if talk.opened.conversation.messages().len() < 4 {
        talk.output.line("There is too little to compress; at least 4 messages are needed.");
        return Ok(());
    }
    if talk.runtime.agent.compression().mode == CompressionMode::Off {
        talk.output.line("Compression is turned off (compression.enabled in config.yaml).");
        return Ok(());
    }
    let cancel = Cancel::new();
    let agent = &talk.runtime.agent;
    let focus = (!focus.is_empty()).then_some(focus);
    let done = agent.compress(&mut talk.opened.conversation, focus, &talk.terminal, &cancel).await?;
    if let Some(CompressionReport { messages_before, messages_after, tokens_before, tokens_after }) = done {
        talk.output.line(&format!(
            "{messages_before} → {messages_after} messages, about {tokens_before} → {tokens_after} tokens"
        ));
    }
    Ok(())
}

async fn rollback(talk: &mut ChatLoop<'_>, rest: &str) -> Result<()> {
    let Some(checkpoints) = talk.runtime.checkpoints.clone() else {
        talk.output.line("Checkpoints are turned off (checkpoints.enabled in config.yaml).");
        return Ok(());
    };
    let folder = crate::wiring::working_folder(talk.context, &talk.runtime.config)?;
    let (text, after) = restore(&checkpoints, &folder, rest);
    if after == RestoreExtent::Everything {
        talk.runtime.agent.undo_last_exchange(&mut talk.opened.conversation).await?;
    }
    talk.output.line(&text);
    Ok(())
}

/// The extent of what was restored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RestoreExtent {
    Nothing,
    Everything,
}

/// Lists, compares or restores checkpoints of a folder, and returns what happened as text.
pub(crate) fn restore(
    checkpoints: &hermes_tools::CheckpointManager,
    folder: &std::path::Path,
    rest: &str,
) -> (String, RestoreExtent) {
    let words: Vec<&str> = rest.split_whitespace().collect();
    let mut after = RestoreExtent::Nothing;
    let said = match words.as_slice() {
        [] => checkpoints.list(folder).map(|found| list_checkpoints(&found)),
        ["diff", which] => checkpoints.diff(folder, which).map(|diff| {
            let more = match diff.lines_left_out {
                0 => String::new(),
                count => format!("\n… {count} more lines"),
            };
            format!("{}\n{}{more}", diff.stat, diff.diff)
        }),
        [which] => {
            let restored = checkpoints.restore(folder, which);
            if restored.is_ok() {
                after = RestoreExtent::Everything;
            }
            restored.map(|restored| describe_restored(&restored))
        }
        [which, file @ ..] => checkpoints
            .restore_file(folder, which, &file.join(" "))
            .map(|restored| describe_restored(&restored)),
    };
    (said.unwrap_or_else(|error| error.to_string()), after)
}

fn list_checkpoints(found: &[hermes_tools::Checkpoint]) -> String {
    let mut lines = Vec::new();
    for (at, checkpoint) in found.iter().enumerate() {
        let when = local_time(checkpoint.taken_at).to_string().replace('T', " ");
        let counts = checkpoint
            .counts
            .as_ref()
            .map(|counts| format!("  ({} files, +{}/-{})", counts.files, counts.insertions, counts.deletions))
            .unwrap_or_default();
        lines.push(format!(
            "  {}. {}  {when}  {}{counts}",
            at + 1,
            checkpoint.short_hash(),
            checkpoint.reason
        ));
    }
    lines.push(
        "  /rollback N restores one, /rollback diff N compares, /rollback N FILE restores one file"
            .to_owned(),
    );
    lines.join(
        "
",
    )
}

fn describe_restored(restored: &hermes_tools::RestoreReport) -> String {
    let mut text = format!(
        "Restored {} files to {} ({}).",
        restored.files.len(),
        head(&restored.hash, 8),
        restored.reason
    );
    for (path, why) in &restored.failed {
        // Writing to a `String` cannot fail.
        let _ = write!(text, "\n  {}: {why}", path.display());
    }
    text
}

async fn resume(talk: &mut ChatLoop<'_>, name: &str) -> Result<()> {
    if name.is_empty() {
        command::sessions::recent(talk.runtime.agent.store(), talk.output)?;
        talk.output.line("Go on with one: /resume ID or NAME");
        return Ok(());
    }
    let agent = &talk.runtime.agent;
    let Some(id) = agent.store().resolve(name).await? else {
        talk.output.line(&format!("Session not found: {name}"));
        return Ok(());
    };
    let taken = match agent.load_conversation(&id).await {
        Ok(taken) => taken,
        Err(error) => {
            talk.output.line(&error.to_string());
            return Ok(());
        }
    };
    agent.end_conversation(&talk.opened.conversation, EndReason::ResumedOther).await?;
    if let Some(cut_off) = &taken.unfinished_turn {
        talk.output.line(&opening::describe_unfinished_turn(cut_off));
        agent.drop_turn(cut_off).await?;
    }
    talk.opened = OpenedConversation {
        conversation: taken.conversation,
        title: taken.title,
        resumed: true,
        unfinished_turn: None,
    };
    talk.output.line(&opening::greeting(&talk.opened));
    Ok(())
}

fn set_personality(talk: &mut ChatLoop<'_>, name: &str) {
    if name.is_empty() {
        talk.output.line(&format!("Personalities: {}, none", personality_names(&talk.runtime.config)));
        return;
    }
    let prompt = match personality(name, &talk.runtime.config) {
        None => {
            talk.output.line(&format!(
                "Unknown personality '{name}'. There are: {}",
                personality_names(&talk.runtime.config)
            ));
            return;
        }
        Some(Personality::Plain) => None,
        Some(Personality::Prompt(text)) => Some(text),
    };
    if let Some(text) = &prompt {
        save_setting(talk, "agent.system_prompt", text);
    } else {
        let removed = set::unset(&talk.context.home, &talk.context.env, "agent.system_prompt");
        // A value that was not set before is already in the wanted state.
        if let Err(error) = removed
            && !matches!(error, hermes_config::Error::NotSet { .. })
        {
            talk.output.notice(&format!("not saved: {error}"));
        }
    }
    let options = RequestOptions { ephemeral: prompt, ..talk.runtime.agent.request_options().clone() };
    talk.runtime.set_request_options(options);
    talk.output.line(&format!("Personality: {name}"));
}

fn reasoning(talk: &mut ChatLoop<'_>, level: &str) {
    if level.is_empty() {
        let effort = talk.runtime.agent.request_options().effort;
        let effort = effort.map_or("medium (the default)", ReasoningEffort::as_str);
        talk.output.line(&format!("Reasoning effort: {effort}"));
        return;
    }
    if let Some(shown) = match level {
        "show" | "on" => Some(true),
        "hide" | "off" => Some(false),
        _ => None,
    } {
        save_setting(talk, "display.show_reasoning", if shown { "true" } else { "false" });
        talk.terminal.display.show_reasoning = shown;
        talk.output.line(if shown { "Reasoning is shown." } else { "Reasoning is hidden." });
        return;
    }
    let Some(effort) = ReasoningEffort::parse(level) else {
        talk.output.line("Usage: /reasoning [none|minimal|low|medium|high|xhigh|show|hide]");
        return;
    };
    save_setting(talk, "agent.reasoning_effort", effort.as_str());
    let options = RequestOptions { effort: Some(effort), ..talk.runtime.agent.request_options().clone() };
    talk.runtime.set_request_options(options);
    talk.output.line(&format!("Reasoning effort: {}", effort.as_str()));
}

/// Switches to the next level of tool output: off, new, all, verbose, then off again.
fn cycle_tool_progress(talk: &mut ChatLoop<'_>) {
    let (next, name) = match talk.terminal.display.tool_progress {
        ToolProgress::Off => (ToolProgress::New, "new"),
        ToolProgress::New => (ToolProgress::All, "all"),
        ToolProgress::All => (ToolProgress::Verbose, "verbose"),
        ToolProgress::Verbose => (ToolProgress::Off, "off"),
    };
    save_setting(talk, "display.tool_progress", name);
    talk.terminal.display.tool_progress = next;
    talk.output.line(&format!("Tool progress: {name}"));
}

/// Saves a setting. When the home is not writable, the setting applies to this chat only, and a message says so.
fn save_setting(talk: &ChatLoop<'_>, key: &str, value: &str) {
    if let Err(error) = set::set(&talk.context.home, &talk.context.env, key, value) {
        talk.output.notice(&format!("not saved: {error}"));
    }
}

async fn usage(talk: &ChatLoop<'_>) -> Result<()> {
    let conversation = &talk.opened.conversation;
    let usage = conversation.usage();
    let number = |count: u64| with_commas(count);
    talk.output.line(&format!("  Input tokens:        {}", number(usage.input)));
    talk.output.line(&format!(
        "  Cache read / write:  {} / {}",
        number(usage.cache_read),
        number(usage.cache_write)
    ));
    talk.output.line(&format!("  Output tokens:       {}", number(usage.output)));
    talk.output.line(&format!("  Total tokens:        {}", number(usage.total())));
    let row = talk.runtime.agent.store().session(conversation.session()).await?;
    match row.and_then(|row| row.estimated_cost_usd) {
        Some(cost) => talk.output.line(&format!("  Estimated cost:      ${cost:.4}")),
        None => talk.output.line("  Estimated cost:      unknown"),
    }
    talk.output.line(&format!("  Messages:            {}", conversation.messages().len()));
    Ok(())
}
