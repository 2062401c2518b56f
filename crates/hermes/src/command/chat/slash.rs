//! What is typed with a `/` in front.

use std::fmt::Write as _;

use anyhow::Result;
use hermes_agent::Compressed;
use hermes_config::set;
use hermes_config::settings::ToolProgress;
use hermes_gateway::slash::{self, Surface};
use hermes_knowledge::{Personality, personality, personality_names};
use hermes_store::EndReason;
use hermes_text::{Title, head, single_line, with_commas};
use hermes_tools::Yolo;
use hermes_types::{Cancel, Effort, Role, SessionKind};
use serde_json::json;

use super::lines::Talk;
use super::opening::{self, Opened};
use crate::context::local_time;
use crate::wiring::skills::Shelf;
use crate::{cli, command};

/// What comes after a command.
pub(crate) enum After {
    Go,
    Quit,
    /// This is said to the model.
    Say(String),
    /// So is this, as it is: it is a skill's, and points at nothing.
    Invoke(String),
}

/// Runs a command line.
pub(crate) async fn run(talk: &mut Talk<'_>, line: &str) -> Result<After> {
    let (name, rest) = line
        .trim_start_matches('/')
        .split_once(char::is_whitespace)
        .unwrap_or((line.trim_start_matches('/'), ""));
    let rest = rest.trim();
    let typed_as = name.to_lowercase();
    if slash::find(&typed_as, Surface::Terminal).is_none()
        && let Some(words) = invoke(talk, &typed_as, rest)
    {
        talk.output.line(&format!("⚡ Loading skill: {typed_as}"));
        return Ok(After::Invoke(words));
    }
    let name = match find(&typed_as) {
        Found::Command(name) => name,
        Found::Several(names) => {
            talk.output.line(&format!("Ambiguous command: /{name} ({})", names.join(", ")));
            return Ok(After::Go);
        }
        Found::Nothing => {
            talk.output.line(&format!("Unknown command: /{name}\nType /help for available commands"));
            return Ok(After::Go);
        }
    };
    match name {
        "quit" => {
            if rest == "--delete" {
                delete(talk).await?;
            } else if !rest.is_empty() {
                talk.output.line("Usage: /quit [--delete]");
                return Ok(After::Go);
            }
            return Ok(After::Quit);
        }
        // Alone, `/q` leaves.
        "queue" if rest.is_empty() && typed_as == "q" => return Ok(After::Quit),
        "queue" => {
            if !rest.is_empty() {
                talk.output.line(&format!("Queued for the next turn: {rest}"));
                talk.queue.push_back(rest.to_owned());
            }
        }
        "new" => {
            begin_anew(talk).await?;
            if !rest.is_empty() {
                title(talk, rest).await?;
            }
        }
        "clear" => {
            begin_anew(talk).await?;
            talk.output.text("\u{1b}[2J\u{1b}[H");
        }
        "history" => history(talk),
        "save" => save(talk)?,
        "undo" => undo_some(talk, rest).await?,
        "retry" => match undo(talk).await? {
            Some(text) => return Ok(After::Say(text)),
            None => talk.output.line("There is nothing to ask again."),
        },
        "plan" => return Ok(invoke(talk, name, rest).map_or(After::Go, After::Invoke)),
        "title" => title(talk, rest).await?,
        "compress" => compress(talk, rest).await?,
        "rollback" => rollback(talk, rest).await?,
        "resume" => resume(talk, rest).await?,
        "personality" => put_on(talk, rest),
        "reasoning" => reasoning(talk, rest),
        "verbose" => cycle_tool_progress(talk),
        "model" => model(talk, rest),
        "yolo" => yolo(talk, rest),
        "version" => talk.output.line(&cli::version()),
        "tools" => super::list_tools(talk.wired, talk.output),
        "toolsets" => super::list_toolsets(talk.wired, talk.output),
        "cron" => command::cron::in_chat(rest, talk.context, talk.output)?,
        "usage" => usage(talk).await?,
        "insights" => {
            let days = rest.strip_prefix("--days").unwrap_or(rest).trim_start_matches('=').trim();
            let Some(days) =
                Some(days).filter(|days| !days.is_empty()).map_or(Some(30), |days| days.parse().ok())
            else {
                talk.output.line("Usage: /insights [--days N]");
                return Ok(After::Go);
            };
            let text =
                command::insights::report(&talk.wired.agent.store, days, None, talk.wired.agent.clock.now())?;
            talk.output.text(&text);
        }
        _ => help(talk),
    }
    Ok(After::Go)
}

fn shelf(talk: &Talk<'_>) -> Shelf {
    let context = talk.context;
    Shelf::of(&context.home, &talk.wired.config, &context.env, "cli")
}

/// The words of a skill.
fn invoke(talk: &Talk<'_>, name: &str, rest: &str) -> Option<String> {
    shelf(talk).invoke(name, rest, local_time(talk.wired.agent.clock.now()))
}

enum Found {
    Command(&'static str),
    Several(Vec<String>),
    Nothing,
}

/// By name or alias, or by the beginning of exactly one.
fn find(name: &str) -> Found {
    if let Some(command) = slash::find(name, Surface::Terminal) {
        return Found::Command(command.name);
    }
    let begins = |command: &&slash::Command| {
        std::iter::once(&command.name).chain(command.aliases).any(|known| known.starts_with(name))
    };
    let begun: Vec<&'static str> =
        slash::commands(Surface::Terminal).filter(begins).map(|command| command.name).collect();
    match begun.as_slice() {
        [] => Found::Nothing,
        [only] => Found::Command(only),
        several => Found::Several(several.iter().map(|name| format!("/{name}")).collect()),
    }
}

fn help(talk: &Talk<'_>) {
    for command in slash::commands(Surface::Terminal) {
        let names: Vec<String> =
            std::iter::once(&command.name).chain(command.aliases).map(|name| format!("/{name}")).collect();
        let left = format!("{} {}", names.join(", "), command.arguments);
        talk.output.line(&format!("  {left:<34} {}", command.about));
    }
    for (name, about) in shelf(talk).commands() {
        talk.output.line(&format!("  {:<34} {about}", format!("/{name}")));
    }
    talk.output.line("Anything else is said to the model. Ctrl-C interrupts it, twice leaves.");
}

async fn begin_anew(talk: &mut Talk<'_>) -> Result<()> {
    let agent = &talk.wired.agent;
    if agent.flush_due(&talk.opened.conversation) {
        agent.flush_memories(&talk.opened.conversation, &Cancel::new()).await;
    }
    agent.end(&talk.opened.conversation, EndReason::NewSession).await?;
    let source = talk.opened.conversation.source().to_owned();
    let conversation = agent.begin(source, SessionKind::Local);
    talk.opened = Opened { conversation, title: None, resumed: false, cut_off: None };
    talk.output.line("(^_^)v New session started!");
    Ok(())
}

fn history(talk: &Talk<'_>) {
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

fn save(talk: &Talk<'_>) -> Result<()> {
    let agent = &talk.wired.agent;
    let now = local_time(agent.clock.now());
    let name = format!(
        "hermes_conversation_{:04}{:02}{:02}_{:02}{:02}{:02}.json",
        now.year, now.month, now.day, now.hour, now.minute, now.second
    );
    let content = json!({
        "model": agent.model_name,
        "session_start": now.to_string(),
        "messages": talk.opened.conversation.messages(),
    });
    let path = std::env::current_dir()?.join(&name);
    hermes_config::write::replace(&path, serde_json::to_string_pretty(&content)?.as_bytes())?;
    talk.output.line(&format!("Saved to {name}"));
    Ok(())
}

/// Shows the model, or chooses another, which answers from the next turn on.
fn model(talk: &mut Talk<'_>, rest: &str) {
    let wanted = (!rest.is_empty()).then(|| rest.to_owned());
    let (context, config) = (talk.context.clone(), talk.wired.config.clone());
    // On a thread of its own: it may wait for the network.
    let answered =
        std::thread::spawn(move || command::model::answer(wanted.as_deref(), &context, config)).join();
    match answered {
        Ok(Ok(lines)) => lines.iter().for_each(|line| talk.output.line(line)),
        Ok(Err(error)) => talk.output.line(&format!("{error:#}")),
        Err(_) => talk.output.line("The choice ended unexpectedly."),
    }
    if !rest.is_empty()
        && let Err(error) = talk.wired.change_model(talk.context)
    {
        talk.output.line(&format!("{error:#}"));
    }
}

/// Takes back the last exchange, or the last few.
async fn undo_some(talk: &mut Talk<'_>, rest: &str) -> Result<()> {
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

/// Turns questions about dangerous commands off and on again.
fn yolo(talk: &mut Talk<'_>, rest: &str) {
    let yolo = match rest {
        "on" => Yolo::On,
        "off" => Yolo::Off,
        _ if talk.yolo == Yolo::On => Yolo::Off,
        _ => Yolo::On,
    };
    talk.yolo = yolo;
    talk.wired.hands.approvals.set_yolo(yolo);
    talk.output.line(match yolo {
        Yolo::On => "Dangerous commands run without asking; /yolo ends that.",
        Yolo::Off => "Dangerous commands are asked about again.",
    });
}

/// Deletes this conversation for good.
async fn delete(talk: &mut Talk<'_>) -> Result<()> {
    let session = talk.opened.conversation.session().clone();
    let source = talk.opened.conversation.source().to_owned();
    talk.opened.conversation = talk.wired.agent.begin(source, SessionKind::Local);
    talk.wired.agent.store.delete_session(&session).await?;
    talk.output.line("This conversation was deleted.");
    Ok(())
}

async fn undo(talk: &mut Talk<'_>) -> Result<Option<String>> {
    Ok(talk.wired.agent.undo(&mut talk.opened.conversation).await?)
}

async fn title(talk: &mut Talk<'_>, name: &str) -> Result<()> {
    let agent = &talk.wired.agent;
    if name.is_empty() {
        let row = agent.store.session(talk.opened.conversation.session()).await?;
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
        // The session has no row before its first message; it gets one for its name.
        let new = hermes_store::NewSession::new(
            conversation.session().clone(),
            conversation.source(),
            agent.clock.now(),
        );
        agent.store.create_session(new).await?;
    }
    match agent.store.set_title(conversation.session(), Some(title.clone())).await {
        Ok(()) => {
            talk.opened.title = Some(title.as_str().to_owned());
            talk.output.line(&format!("Named: {}", title.as_str()));
        }
        Err(error) => talk.output.line(&error.to_string()),
    }
    Ok(())
}

async fn compress(talk: &mut Talk<'_>, focus: &str) -> Result<()> {
    if talk.opened.conversation.messages().len() < 4 {
        talk.output.line("There is too little to compress; at least 4 messages are needed.");
        return Ok(());
    }
    if talk.wired.agent.compression.mode == hermes_agent::CompressionMode::Off {
        talk.output.line("Compression is turned off (compression.enabled in config.yaml).");
        return Ok(());
    }
    let cancel = Cancel::new();
    let agent = &talk.wired.agent;
    let focus = (!focus.is_empty()).then_some(focus);
    let done = agent.compress(&mut talk.opened.conversation, focus, &talk.terminal, &cancel).await?;
    if let Some(Compressed { messages_before, messages_after, tokens_before, tokens_after }) = done {
        talk.output.line(&format!(
            "{messages_before} → {messages_after} messages, about {tokens_before} → {tokens_after} tokens"
        ));
    }
    Ok(())
}

async fn rollback(talk: &mut Talk<'_>, rest: &str) -> Result<()> {
    let Some(checkpoints) = talk.wired.checkpoints.clone() else {
        talk.output.line("Checkpoints are turned off (checkpoints.enabled in config.yaml).");
        return Ok(());
    };
    let folder = crate::wiring::working_folder(talk.context, &talk.wired.config)?;
    let (text, after) = restore(&checkpoints, &folder, rest);
    if after == Restoring::Everything {
        talk.wired.agent.undo(&mut talk.opened.conversation).await?;
    }
    talk.output.line(&text);
    Ok(())
}

/// What was restored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Restoring {
    Nothing,
    Everything,
}

/// Lists, compares or restores checkpoints of a folder, and says what came of it.
pub(crate) fn restore(
    checkpoints: &hermes_tools::Checkpoints,
    folder: &std::path::Path,
    rest: &str,
) -> (String, Restoring) {
    let words: Vec<&str> = rest.split_whitespace().collect();
    let mut after = Restoring::Nothing;
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
                after = Restoring::Everything;
            }
            restored.map(|restored| told(&restored))
        }
        [which, file @ ..] => {
            checkpoints.restore_file(folder, which, &file.join(" ")).map(|restored| told(&restored))
        }
    };
    (said.unwrap_or_else(|error| error.to_string()), after)
}

fn list_checkpoints(found: &[hermes_tools::Checkpoint]) -> String {
    let mut lines = Vec::new();
    for (at, checkpoint) in found.iter().enumerate() {
        let when = local_time(checkpoint.at).to_string().replace('T', " ");
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

fn told(restored: &hermes_tools::Restored) -> String {
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

async fn resume(talk: &mut Talk<'_>, name: &str) -> Result<()> {
    if name.is_empty() {
        command::sessions::recent(&talk.wired.agent.store, talk.output)?;
        talk.output.line("Go on with one: /resume ID or NAME");
        return Ok(());
    }
    let agent = &talk.wired.agent;
    let Some(id) = agent.store.resolve(name).await? else {
        talk.output.line(&format!("Session not found: {name}"));
        return Ok(());
    };
    let taken = match agent.take_up(&id).await {
        Ok(taken) => taken,
        Err(error) => {
            talk.output.line(&error.to_string());
            return Ok(());
        }
    };
    agent.end(&talk.opened.conversation, EndReason::ResumedOther).await?;
    if let Some(cut_off) = &taken.cut_off {
        talk.output.line(&opening::about_cut_off(cut_off));
        agent.drop_turn(cut_off).await?;
    }
    talk.opened =
        Opened { conversation: taken.conversation, title: taken.title, resumed: true, cut_off: None };
    talk.output.line(&opening::greeting(&talk.opened));
    Ok(())
}

fn put_on(talk: &mut Talk<'_>, name: &str) {
    if name.is_empty() {
        talk.output.line(&format!("Personalities: {}, none", personality_names(&talk.wired.config)));
        return;
    }
    let prompt = match personality(name, &talk.wired.config) {
        None => {
            talk.output.line(&format!(
                "Unknown personality '{name}'. There are: {}",
                personality_names(&talk.wired.config)
            ));
            return;
        }
        Some(Personality::Plain) => None,
        Some(Personality::Prompt(text)) => Some(text),
    };
    if let Some(text) = &prompt {
        keep(talk, "agent.system_prompt", text);
    } else {
        let removed = set::unset(&talk.context.home, &talk.context.env, "agent.system_prompt");
        // Nothing was set before: nothing is what was wanted.
        if let Err(error) = removed
            && !matches!(error, hermes_config::Error::NotSet { .. })
        {
            talk.output.notice(&format!("not saved: {error}"));
        }
    }
    talk.wired.agent.asking.ephemeral = prompt;
    talk.output.line(&format!("Personality: {name}"));
}

fn reasoning(talk: &mut Talk<'_>, level: &str) {
    if level.is_empty() {
        let effort = talk.wired.agent.asking.effort.map_or("medium (the default)", Effort::as_str);
        talk.output.line(&format!("Reasoning effort: {effort}"));
        return;
    }
    if let Some(shown) = match level {
        "show" | "on" => Some(true),
        "hide" | "off" => Some(false),
        _ => None,
    } {
        keep(talk, "display.show_reasoning", if shown { "true" } else { "false" });
        talk.terminal.display.show_reasoning = shown;
        talk.output.line(if shown { "Reasoning is shown." } else { "Reasoning is hidden." });
        return;
    }
    let Some(effort) = Effort::parse(level) else {
        talk.output.line("Usage: /reasoning [none|minimal|low|medium|high|xhigh|show|hide]");
        return;
    };
    keep(talk, "agent.reasoning_effort", effort.as_str());
    talk.wired.agent.asking.effort = Some(effort);
    talk.output.line(&format!("Reasoning effort: {}", effort.as_str()));
}

/// Shows more of what tools do: off, new, all, verbose, and from the beginning.
fn cycle_tool_progress(talk: &mut Talk<'_>) {
    let (next, name) = match talk.terminal.display.tool_progress {
        ToolProgress::Off => (ToolProgress::New, "new"),
        ToolProgress::New => (ToolProgress::All, "all"),
        ToolProgress::All => (ToolProgress::Verbose, "verbose"),
        ToolProgress::Verbose => (ToolProgress::Off, "off"),
    };
    keep(talk, "display.tool_progress", name);
    talk.terminal.display.tool_progress = next;
    talk.output.line(&format!("Tool progress: {name}"));
}

/// Saves a setting; a home that cannot be written to keeps it for this chat only, which is said.
fn keep(talk: &Talk<'_>, key: &str, value: &str) {
    if let Err(error) = set::set(&talk.context.home, &talk.context.env, key, value) {
        talk.output.notice(&format!("not saved: {error}"));
    }
}

async fn usage(talk: &Talk<'_>) -> Result<()> {
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
    let row = talk.wired.agent.store.session(conversation.session()).await?;
    match row.and_then(|row| row.estimated_cost_usd) {
        Some(cost) => talk.output.line(&format!("  Estimated cost:      ${cost:.4}")),
        None => talk.output.line("  Estimated cost:      unknown"),
    }
    talk.output.line(&format!("  Messages:            {}", conversation.messages().len()));
    Ok(())
}
