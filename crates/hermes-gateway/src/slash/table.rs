//! Every command there is, for chats and for the terminal: one table for help, menus and completion.

/// Where a command works.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Surface {
    Chat,
    Terminal,
    Both,
}

/// What happens to it while a turn runs in a chat.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WhileBusy {
    /// It is done at once, beside the turn.
    Now,
    /// The turn is stopped first.
    Stops,
    /// It waits as words for the next turn.
    Waits,
    /// It is not done; the user is told to wait or to stop the turn.
    Refused,
}

/// One command.
#[derive(Debug, Clone, Copy)]
pub struct Command {
    pub name: &'static str,
    pub aliases: &'static [&'static str],
    /// What may follow it.
    pub arguments: &'static str,
    pub about: &'static str,
    pub surface: Surface,
    pub while_busy: WhileBusy,
}

const fn command(
    name: &'static str,
    aliases: &'static [&'static str],
    arguments: &'static str,
    about: &'static str,
    surface: Surface,
    while_busy: WhileBusy,
) -> Command {
    Command { name, aliases, arguments, about, surface, while_busy }
}

use Surface::{Both, Chat, Terminal};
use WhileBusy::{Now, Refused, Stops, Waits};

/// In the order help shows them.
pub const COMMANDS: &[Command] = &[
    command("new", &["reset"], "", "end this conversation and begin another", Both, Stops),
    command("stop", &[], "", "stop what is being done", Chat, Stops),
    command("status", &[], "", "the conversation, queues and platforms", Chat, Now),
    command("history", &[], "", "what was said so far", Terminal, Refused),
    command("save", &[], "", "write the conversation to a JSON file here", Terminal, Refused),
    command("retry", &[], "", "take the last exchange back and ask again", Both, Refused),
    command("undo", &[], "", "take the last exchange back", Both, Refused),
    command("title", &[], "[name]", "show or set the conversation's name", Both, Refused),
    command("resume", &[], "[name]", "list conversations, or go on with one", Both, Refused),
    command("compress", &["compact"], "[what matters]", "summarise older parts now", Both, Refused),
    command(
        "rollback",
        &[],
        "[N | diff N | N file]",
        "list, compare or restore checkpoints of the files",
        Both,
        Refused,
    ),
    command("queue", &["q"], "text", "say this in the next turn, without interrupting", Both, Waits),
    command("background", &["bg"], "text", "work on this beside the conversation", Chat, Now),
    command("approve", &[], "[session | always | all]", "allow the command that waits", Chat, Now),
    command("deny", &[], "[reason]", "do not allow the command that waits", Chat, Now),
    command(
        "yolo",
        &[],
        "[on | off]",
        "run dangerous commands of this conversation without asking",
        Both,
        Now,
    ),
    command("model", &[], "[provider:model]", "show the model, or choose another", Both, Refused),
    command("provider", &[], "", "the providers, and which can be used", Chat, Refused),
    command("personality", &[], "[name]", "list manners of speaking, or put one on", Both, Refused),
    command(
        "reasoning",
        &[],
        "[level | show | hide]",
        "how hard the model thinks: none minimal low medium high xhigh",
        Both,
        Refused,
    ),
    command("verbose", &[], "", "show more or less of what tools do", Both, Refused),
    command("voice", &[], "[on | off | tts | status]", "answer with speech", Chat, Refused),
    command("plan", &[], "[text]", "make a plan before doing anything", Both, Refused),
    command("tools", &[], "", "the tools of this conversation", Terminal, Refused),
    command("toolsets", &[], "", "the toolsets", Terminal, Refused),
    command(
        "cron",
        &[],
        "[list | add | edit | pause | resume | run | remove]",
        "scheduled jobs",
        Terminal,
        Refused,
    ),
    command("usage", &[], "", "tokens and money used by this conversation", Both, Now),
    command("insights", &[], "[days]", "what was used lately", Both, Refused),
    command("sethome", &["set-home"], "", "send what comes unasked to this chat", Chat, Refused),
    command("whoami", &[], "", "how this chat and you are known here", Chat, Now),
    command("reload-mcp", &["reload_mcp"], "", "connect to the MCP servers again", Chat, Refused),
    command("update", &[], "", "bring Hermes up to date", Chat, Now),
    command("restart", &[], "", "restart the gateway when the running turns have ended", Chat, Now),
    command("version", &[], "", "which Hermes this is", Both, Now),
    command("start", &[], "", "what some platforms send first", Chat, Now),
    command("help", &["commands"], "", "this list", Both, Now),
    command("clear", &[], "", "begin another conversation on an empty screen", Terminal, Refused),
    command("quit", &["exit"], "", "leave", Terminal, Refused),
];

/// Hidden from help and menus.
const UNLISTED: &[&str] = &["start"];

impl Command {
    pub fn is_for(&self, surface: Surface) -> bool {
        self.surface == Surface::Both || self.surface == surface
    }

    pub fn is_listed(&self) -> bool {
        !UNLISTED.contains(&self.name)
    }

    fn is_called(&self, name: &str) -> bool {
        self.name == name || self.aliases.contains(&name)
    }
}

/// The commands of a surface, for help and menus.
pub fn commands(surface: Surface) -> impl Iterator<Item = &'static Command> {
    COMMANDS.iter().filter(move |command| command.is_for(surface) && command.is_listed())
}

/// By name or alias. Some platforms write an underscore for a hyphen.
pub fn find(name: &str, surface: Surface) -> Option<&'static Command> {
    let hyphened = name.replace('_', "-");
    COMMANDS
        .iter()
        .find(|command| command.is_for(surface) && (command.is_called(name) || command.is_called(&hyphened)))
}

/// What someone typed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Typed {
    /// Lower case, without the slash and without what names the bot.
    pub name: String,
    pub rest: String,
}

/// A text that begins with a slash and a word.
pub fn parse(text: &str) -> Option<Typed> {
    let line = text.trim_start().strip_prefix('/')?;
    let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    let name = word.split('@').next().unwrap_or(word).to_lowercase();
    let plain = |c: char| c.is_alphanumeric() || c == '-' || c == '_';
    (!name.is_empty() && name.chars().all(plain)).then(|| Typed { name, rest: rest.trim().to_owned() })
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
        let typed = |text: &str| parse(text).map(|typed| (typed.name, typed.rest));
        assert_eq!(typed("/New@my_bot  x y "), Some(("new".into(), "x y".into())));
        assert_eq!(typed("/usr/bin/env"), None, "a path is no command");
        assert_eq!(typed("no"), None);
        assert_eq!(typed("/"), None);
        assert_eq!(find("reload_mcp", Surface::Chat).map(|command| command.name), Some("reload-mcp"));
        assert!(find("history", Surface::Chat).is_none());
        assert!(find("approve", Surface::Terminal).is_none());
    }
}
