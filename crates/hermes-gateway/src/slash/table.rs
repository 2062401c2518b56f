//! All commands of chats and the terminal: one table for help, menus and completion.

/// Says where a command works.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CommandSurface {
    Chat,
    Terminal,
    Both,
}

/// Says what happens to a command while a turn runs in a chat.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BusyPolicy {
    /// The command runs at once, alongside the turn.
    RunNow,
    /// The turn is stopped first.
    StopTurn,
    /// The command waits as a message for the next turn.
    Queue,
    /// The command is refused; the user is told to wait or to stop the turn.
    Refuse,
}

/// One command.
#[derive(Debug, Clone, Copy)]
pub struct SlashCommand {
    pub name: &'static str,
    pub aliases: &'static [&'static str],
    /// The arguments it takes, as help shows them.
    pub arguments: &'static str,
    pub description: &'static str,
    pub surface: CommandSurface,
    pub busy_policy: BusyPolicy,
}

const fn command(
    name: &'static str,
    aliases: &'static [&'static str],
    arguments: &'static str,
    about: &'static str,
    surface: CommandSurface,
    while_busy: BusyPolicy,
) -> SlashCommand {
    SlashCommand { name, aliases, arguments, description: about, surface, busy_policy: while_busy }
}

use BusyPolicy::{Queue, Refuse, RunNow, StopTurn};
use CommandSurface::{Both, Chat, Terminal};

/// All commands, in the order in which help shows them.
pub const COMMANDS: &[SlashCommand] = &[
    command("new", &["reset"], "", "start a new conversation", Both, StopTurn),
    command("stop", &[], "", "stop the running turn", Chat, StopTurn),
    command("status", &[], "", "show the conversation, queues and platforms", Chat, RunNow),
    command("history", &[], "", "show the conversation so far", Terminal, Refuse),
    command("save", &[], "", "save the conversation to a JSON file in this folder", Terminal, Refuse),
    command("retry", &[], "", "undo the last exchange and ask again", Both, Refuse),
    command("undo", &[], "", "undo the last exchange", Both, Refuse),
    command("title", &[], "[name]", "show or set the title", Both, Refuse),
    command("resume", &[], "[name]", "list conversations, or resume one", Both, Refuse),
    command(
        "compress",
        &["compact"],
        "[what matters]",
        "compress the older part of the conversation now",
        Both,
        Refuse,
    ),
    command(
        "rollback",
        &[],
        "[N | diff N | N file]",
        "list, compare or restore file checkpoints",
        Both,
        Refuse,
    ),
    command("queue", &["q"], "text", "send this in the next turn, without interrupting", Both, Queue),
    command("background", &["bg"], "text", "run this in the background", Chat, RunNow),
    command("approve", &[], "[session | always | all]", "approve the pending command", Chat, RunNow),
    command("deny", &[], "[reason]", "deny the pending command", Chat, RunNow),
    command(
        "yolo",
        &[],
        "[on | off]",
        "run dangerous commands in this conversation without approval",
        Both,
        RunNow,
    ),
    command("model", &[], "[provider:model]", "show the model, or choose another", Both, Refuse),
    command("provider", &[], "", "list the providers and which are usable", Chat, Refuse),
    command("personality", &[], "[name]", "list personalities, or switch to one", Both, Refuse),
    command(
        "reasoning",
        &[],
        "[level | show | hide]",
        "set the reasoning effort (none minimal low medium high xhigh), or show or hide reasoning",
        Both,
        Refuse,
    ),
    command("verbose", &[], "", "cycle how much of the tool calls is shown", Both, Refuse),
    command("voice", &[], "[on | off | tts | status]", "answer with speech", Chat, Refuse),
    command("plan", &[], "[text]", "make a plan before acting", Both, Refuse),
    command("tools", &[], "", "list the tools", Terminal, Refuse),
    command("toolsets", &[], "", "list the toolsets", Terminal, Refuse),
    command(
        "cron",
        &[],
        "[list | add | edit | pause | resume | run | remove]",
        "manage scheduled jobs",
        Terminal,
        Refuse,
    ),
    command("usage", &[], "", "show the tokens and cost of this conversation", Both, RunNow),
    command("insights", &[], "[days]", "show recent usage", Both, Refuse),
    command(
        "sethome",
        &["set-home"],
        "",
        "use this chat for messages that answer nothing, such as job results",
        Chat,
        Refuse,
    ),
    command("whoami", &[], "", "show your id and this chat's id", Chat, RunNow),
    command("reload-mcp", &["reload_mcp"], "", "reconnect the MCP servers", Chat, Refuse),
    command("update", &[], "", "update Hermes", Chat, RunNow),
    command("restart", &[], "", "restart the gateway after the running turns", Chat, RunNow),
    command("version", &[], "", "show the version", Both, RunNow),
    command("start", &[], "", "what some platforms send first", Chat, RunNow),
    command("help", &["commands"], "", "show this list", Both, RunNow),
    command("clear", &[], "", "clear the screen and start a new conversation", Terminal, Refuse),
    command("quit", &["exit"], "", "leave", Terminal, Refuse),
];

/// Commands hidden from help and menus.
const UNLISTED: &[&str] = &["start"];

impl SlashCommand {
    pub fn is_for(&self, surface: CommandSurface) -> bool {
        self.surface == CommandSurface::Both || self.surface == surface
    }

    pub fn is_listed(&self) -> bool {
        !UNLISTED.contains(&self.name)
    }

    fn is_called(&self, name: &str) -> bool {
        self.name == name || self.aliases.contains(&name)
    }
}

/// Returns the commands of a surface, for help and menus.
pub fn commands(surface: CommandSurface) -> impl Iterator<Item = &'static SlashCommand> {
    COMMANDS.iter().filter(move |command| command.is_for(surface) && command.is_listed())
}

/// Finds a command by name or alias. Some platforms write an underscore for a hyphen.
pub fn find(name: &str, surface: CommandSurface) -> Option<&'static SlashCommand> {
    let hyphened = name.replace('_', "-");
    COMMANDS
        .iter()
        .find(|command| command.is_for(surface) && (command.is_called(name) || command.is_called(&hyphened)))
}

/// A command as a user typed it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParsedCommand {
    /// The name in lower case, without the slash and the bot's name.
    pub name: String,
    pub arguments: String,
}

/// Parses a text that begins with a slash and a word.
pub fn parse(text: &str) -> Option<ParsedCommand> {
    let line = text.trim_start().strip_prefix('/')?;
    let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    let name = word.split('@').next().unwrap_or(word).to_lowercase();
    let plain = |c: char| c.is_alphanumeric() || c == '-' || c == '_';
    (!name.is_empty() && name.chars().all(plain))
        .then(|| ParsedCommand { name, arguments: rest.trim().to_owned() })
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn no_name_is_taken_twice() {
        let mut names = HashSet::new();
        for command in COMMANDS {
            for name in std::iter::once(&command.name).chain(command.aliases) {
                assert!(names.insert(*name), "{name} stands for two commands");
            }
        }
    }

    #[test]
    fn what_is_typed_is_read() {
        let typed = |text: &str| parse(text).map(|typed| (typed.name, typed.arguments));
        assert_eq!(typed("/New@my_bot  x y "), Some(("new".into(), "x y".into())));
        assert_eq!(typed("/usr/bin/env"), None, "a path is no command");
        assert_eq!(typed("no"), None);
        assert_eq!(typed("/"), None);
        assert_eq!(find("reload_mcp", CommandSurface::Chat).map(|command| command.name), Some("reload-mcp"));
        assert!(find("history", CommandSurface::Chat).is_none());
        assert!(find("approve", CommandSurface::Terminal).is_none());
    }
}
