//! All commands of chats and the terminal: one table for help, menus and completion.

/// A command, sorted by what runs it. Every place that runs commands matches all of its own, so that a command
/// without a body does not compile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SlashCommandId {
    Conversation(ConversationCommand),
    Program(ProgramCommand),
    Chat(ChatCommand),
    Service(ServiceCommand),
    Terminal(TerminalCommand),
}

/// Commands of chats and the terminal about the conversation they are typed in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConversationCommand {
    New,
    Retry,
    Undo,
    Title,
    Resume,
    Branch,
    Compress,
    Queue,
    Plan,
    Learn,
    Goal,
    Subgoal,
    Usage,
    Help,
}

/// Commands of chats and the terminal about the program and its settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProgramCommand {
    Rollback,
    Yolo,
    Model,
    Personality,
    Reasoning,
    Verbose,
    Insights,
    ReloadMcp,
    Plugins,
    Browser,
    Curator,
    Bundles,
    Memory,
    Forget,
    Version,
    Provider,
    Agents,
    Profile,
    Platforms,
    Reload,
    ReloadSkills,
    Debug,
    Fast,
}

/// Commands of chats that the gateway runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChatCommand {
    Stop,
    Status,
    Background,
    Approve,
    Deny,
    SetHome,
    WhoAmI,
    Start,
}

/// Commands of chats about the service, which the program around the gateway runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServiceCommand {
    Voice,
    Update,
    Restart,
}

/// Commands of the terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TerminalCommand {
    Stop,
    Status,
    Background,
    Steer,
    Sessions,
    Copy,
    Config,
    Prompt,
    Skin,
    StatusBar,
    Busy,
    Redraw,
    History,
    Save,
    Tools,
    Toolsets,
    Cron,
    Skills,
    Clear,
    Image,
    Paste,
    Timestamps,
    WhoAmI,
    Voice,
    Update,
    Quit,
}

/// A place where commands are typed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CommandSurface {
    Chat,
    Terminal,
}

/// Says who may run a command in a chat.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CommandAccess {
    Everybody,
    /// It changes the program, or its permissions, for everybody.
    Owners,
    /// Anybody while the platform has no home channel, then only owners.
    OwnersOnceHomeIsSet,
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
    pub id: SlashCommandId,
    pub name: &'static str,
    pub aliases: &'static [&'static str],
    /// The arguments it takes, as help shows them.
    pub arguments: &'static str,
    pub description: &'static str,
    pub busy_policy: BusyPolicy,
    pub access: CommandAccess,
}

const fn command(
    id: SlashCommandId,
    name: &'static str,
    arguments: &'static str,
    description: &'static str,
    busy_policy: BusyPolicy,
) -> SlashCommand {
    let (aliases, access) = (&[], CommandAccess::Everybody);
    SlashCommand { id, name, aliases, arguments, description, busy_policy, access }
}

use BusyPolicy::{Queue, Refuse, RunNow, StopTurn};
use SlashCommandId::{Chat, Conversation, Program, Service, Terminal};

/// All commands, in the order in which help shows them.
pub const COMMANDS: &[SlashCommand] = &[
    command(Conversation(ConversationCommand::New), "new", "", "start a new conversation", StopTurn)
        .or(&["reset"]),
    command(Chat(ChatCommand::Stop), "stop", "", "stop the running turn", StopTurn),
    command(Terminal(TerminalCommand::Stop), "stop", "", "end all background processes", Refuse),
    command(Terminal(TerminalCommand::Status), "status", "", "show this session", Refuse),
    command(Chat(ChatCommand::Status), "status", "", "show the conversation, queues and platforms", RunNow),
    command(Terminal(TerminalCommand::History), "history", "", "show the conversation so far", Refuse),
    command(
        Terminal(TerminalCommand::Save),
        "save",
        "",
        "save the conversation to a JSON file in this folder",
        Refuse,
    ),
    command(
        Conversation(ConversationCommand::Retry),
        "retry",
        "",
        "undo the last exchange and ask again",
        Refuse,
    ),
    command(Conversation(ConversationCommand::Undo), "undo", "[N]", "undo the last exchanges", Refuse),
    command(Conversation(ConversationCommand::Title), "title", "[name]", "show or set the title", Refuse),
    command(
        Conversation(ConversationCommand::Resume),
        "resume",
        "[name]",
        "list conversations, or resume one",
        Refuse,
    ),
    command(
        Conversation(ConversationCommand::Branch),
        "branch",
        "[name]",
        "continue in a copy of this conversation",
        Refuse,
    )
    .or(&["fork"]),
    command(
        Conversation(ConversationCommand::Compress),
        "compress",
        "[what matters | --preview]",
        "compress the older part of the conversation now, or say what that would do",
        Refuse,
    )
    .or(&["compact"]),
    command(
        Program(ProgramCommand::Rollback),
        "rollback",
        "[N | diff N | N file]",
        "list, compare or restore file checkpoints",
        Refuse,
    )
    .for_owners(),
    command(
        Conversation(ConversationCommand::Queue),
        "queue",
        "text",
        "send this in the next turn, without interrupting",
        Queue,
    )
    .or(&["q"]),
    command(Chat(ChatCommand::Background), "background", "text", "run this in the background", RunNow)
        .or(&["bg"]),
    command(
        Terminal(TerminalCommand::Background),
        "background",
        "text",
        "run this in a session of its own, in the background",
        Refuse,
    )
    .or(&["bg", "btw"]),
    command(
        Program(ProgramCommand::Agents),
        "agents",
        "",
        "list the subagents, prompts and processes that run",
        RunNow,
    )
    .or(&["tasks"]),
    command(
        Terminal(TerminalCommand::Steer),
        "steer",
        "text",
        "say this to the running turn without stopping it",
        Refuse,
    ),
    command(
        Chat(ChatCommand::Approve),
        "approve",
        "[session | always | all]",
        "approve the pending command",
        RunNow,
    ),
    command(Chat(ChatCommand::Deny), "deny", "[reason]", "deny the pending command", RunNow),
    command(
        Program(ProgramCommand::Yolo),
        "yolo",
        "[on | off]",
        "run dangerous commands in this conversation without approval",
        RunNow,
    )
    .for_owners(),
    command(
        Program(ProgramCommand::Model),
        "model",
        "[provider:model]",
        "show the model, or choose another",
        Refuse,
    )
    .for_owners(),
    command(
        Program(ProgramCommand::Provider),
        "provider",
        "",
        "list the providers and which are usable",
        Refuse,
    ),
    command(
        Program(ProgramCommand::Personality),
        "personality",
        "[name]",
        "list personalities, or switch to one",
        Refuse,
    ),
    command(
        Program(ProgramCommand::Reasoning),
        "reasoning",
        "[level | show | hide]",
        "set the reasoning effort (none minimal low medium high xhigh), or show or hide reasoning",
        Refuse,
    ),
    command(
        Program(ProgramCommand::Fast),
        "fast",
        "[on | off | status]",
        "ask the provider for its priority tier, or no longer",
        Refuse,
    )
    .for_owners(),
    command(
        Program(ProgramCommand::Verbose),
        "verbose",
        "",
        "cycle how much of the tool calls is shown",
        Refuse,
    ),
    command(
        Service(ServiceCommand::Voice),
        "voice",
        "[on | off | tts | status]",
        "answer with speech",
        Refuse,
    ),
    command(
        Conversation(ConversationCommand::Goal),
        "goal",
        "[text | status | pause | resume | clear]",
        "work towards this goal, turn after turn, until it is reached",
        RunNow,
    ),
    command(
        Conversation(ConversationCommand::Subgoal),
        "subgoal",
        "[text | remove N | clear]",
        "add a requirement to the goal, or list them",
        RunNow,
    ),
    command(Conversation(ConversationCommand::Plan), "plan", "[text]", "make a plan before acting", Refuse),
    command(
        Conversation(ConversationCommand::Learn),
        "learn",
        "[what]",
        "keep what was worked out here as a skill",
        Refuse,
    ),
    command(
        Terminal(TerminalCommand::Image),
        "image",
        "PATH",
        "attach a picture to the next message",
        Refuse,
    ),
    command(
        Terminal(TerminalCommand::Paste),
        "paste",
        "",
        "attach the picture in the clipboard to the next message",
        Refuse,
    ),
    command(
        Terminal(TerminalCommand::Voice),
        "voice",
        "[on | off | tts | status]",
        "talk instead of typing, and hear the answers",
        Refuse,
    ),
    command(Terminal(TerminalCommand::Sessions), "sessions", "", "pick a session to resume", Refuse),
    command(Terminal(TerminalCommand::Copy), "copy", "[N]", "copy the last answer, or the Nth last", Refuse),
    command(Terminal(TerminalCommand::Config), "config", "", "show the settings of this chat", Refuse),
    command(
        Terminal(TerminalCommand::Prompt),
        "prompt",
        "[text | clear]",
        "show, set or clear the additional system prompt",
        Refuse,
    ),
    command(Terminal(TerminalCommand::Skin), "skin", "[name]", "list the skins, or switch to one", Refuse),
    command(Terminal(TerminalCommand::StatusBar), "statusbar", "", "show or hide the status bar", Refuse)
        .or(&["sb"]),
    command(
        Terminal(TerminalCommand::Busy),
        "busy",
        "[interrupt | queue | steer]",
        "set what typing during a turn does",
        Refuse,
    ),
    command(
        Terminal(TerminalCommand::Timestamps),
        "timestamps",
        "[on | off]",
        "show or hide the time beside messages",
        Refuse,
    ),
    command(Terminal(TerminalCommand::Redraw), "redraw", "", "draw the screen again", Refuse),
    command(Terminal(TerminalCommand::Tools), "tools", "", "list the tools", Refuse),
    command(Terminal(TerminalCommand::Toolsets), "toolsets", "", "list the toolsets", Refuse),
    command(
        Terminal(TerminalCommand::Cron),
        "cron",
        "[list | add | edit | pause | resume | run | remove]",
        "manage scheduled jobs",
        Refuse,
    ),
    command(
        Terminal(TerminalCommand::Skills),
        "skills",
        "[list | search | browse | install | update | uninstall | undo | …]",
        "find, install and manage skills",
        Refuse,
    ),
    command(
        Conversation(ConversationCommand::Usage),
        "usage",
        "",
        "show the tokens and cost of this conversation",
        RunNow,
    ),
    command(
        Program(ProgramCommand::Memory),
        "memory",
        "[show | search WORDS | log | undo [N]]",
        "show what is remembered about you, and take changes back",
        RunNow,
    ),
    command(
        Program(ProgramCommand::Forget),
        "forget",
        "me",
        "forget the profile that was kept of you",
        RunNow,
    ),
    command(Program(ProgramCommand::Insights), "insights", "[days]", "show recent usage", Refuse),
    command(
        Chat(ChatCommand::SetHome),
        "sethome",
        "",
        "use this chat for messages that answer nothing, such as job results",
        Refuse,
    )
    .or(&["set-home"])
    .for_owners_once_home_is_set(),
    command(Chat(ChatCommand::WhoAmI), "whoami", "", "show your id and this chat's id", RunNow),
    command(Program(ProgramCommand::ReloadMcp), "reload-mcp", "", "reconnect the MCP servers", Refuse)
        .or(&["reload_mcp"])
        .for_owners(),
    command(Program(ProgramCommand::Plugins), "plugins", "", "list the plugins and what they added", Refuse),
    command(
        Program(ProgramCommand::Browser),
        "browser",
        "[status | connect [address] | disconnect]",
        "show which browser is used, or use one that runs",
        Refuse,
    )
    .for_owners(),
    command(
        Program(ProgramCommand::Curator),
        "curator",
        "[status | usage | run | pin | archive | restore | prune | backup | rollback | …]",
        "see which skills are used, and put others away",
        Refuse,
    )
    .for_owners(),
    command(
        Program(ProgramCommand::Bundles),
        "bundles",
        "[list | show | create | delete]",
        "group skills under one command",
        Refuse,
    )
    .for_owners(),
    command(
        Terminal(TerminalCommand::WhoAmI),
        "whoami",
        "",
        "show who you are here: user, profile, session",
        Refuse,
    ),
    command(Program(ProgramCommand::Reload), "reload", "", "read config.yaml and .env again", Refuse)
        .for_owners(),
    command(
        Program(ProgramCommand::ReloadSkills),
        "reload-skills",
        "",
        "read the skills again and list them",
        Refuse,
    )
    .or(&["reload_skills"]),
    command(
        Program(ProgramCommand::Platforms),
        "platforms",
        "",
        "show the gateway and its platforms",
        RunNow,
    )
    .or(&["gateway"]),
    command(Program(ProgramCommand::Profile), "profile", "", "show the profile and its home", RunNow),
    command(
        Program(ProgramCommand::Debug),
        "debug",
        "",
        "write a report for support, without secrets and conversations",
        Refuse,
    )
    .for_owners(),
    command(Terminal(TerminalCommand::Update), "update", "", "update Hermes", Refuse),
    command(Service(ServiceCommand::Update), "update", "", "update Hermes", RunNow).for_owners(),
    command(
        Service(ServiceCommand::Restart),
        "restart",
        "",
        "restart the gateway after the running turns",
        RunNow,
    )
    .for_owners(),
    command(Program(ProgramCommand::Version), "version", "", "show the version", RunNow),
    command(Chat(ChatCommand::Start), "start", "", "what some platforms send first", RunNow),
    command(Conversation(ConversationCommand::Help), "help", "", "show this list", RunNow).or(&["commands"]),
    command(
        Terminal(TerminalCommand::Clear),
        "clear",
        "",
        "clear the screen and start a new conversation",
        Refuse,
    ),
    command(Terminal(TerminalCommand::Quit), "quit", "", "leave", Refuse).or(&["exit"]),
];

impl SlashCommand {
    /// Adds other names.
    const fn or(mut self, aliases: &'static [&'static str]) -> Self {
        self.aliases = aliases;
        self
    }

    const fn for_owners(mut self) -> Self {
        self.access = CommandAccess::Owners;
        self
    }

    const fn for_owners_once_home_is_set(mut self) -> Self {
        self.access = CommandAccess::OwnersOnceHomeIsSet;
        self
    }

    /// Tells whether the command works on a surface.
    pub fn is_for(&self, surface: CommandSurface) -> bool {
        match self.id {
            Conversation(_) | Program(_) => true,
            Chat(_) | Service(_) => surface == CommandSurface::Chat,
            Terminal(_) => surface == CommandSurface::Terminal,
        }
    }

    /// Returns its names and arguments as help shows them: `/compress, /compact [what matters]`.
    pub fn synopsis(&self) -> String {
        let names: Vec<String> =
            std::iter::once(&self.name).chain(self.aliases).map(|name| format!("/{name}")).collect();
        let space = if self.arguments.is_empty() { "" } else { " " };
        format!("{}{space}{}", names.join(", "), self.arguments)
    }

    /// Tells whether help and menus show the command.
    pub fn is_listed(&self) -> bool {
        self.id != Chat(ChatCommand::Start)
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
        for surface in [CommandSurface::Chat, CommandSurface::Terminal] {
            let mut names = HashSet::new();
            for command in COMMANDS.iter().filter(|command| command.is_for(surface)) {
                for name in std::iter::once(&command.name).chain(command.aliases) {
                    assert!(names.insert(*name), "{name} stands for two commands");
                }
            }
        }
    }

    #[test]
    fn no_command_has_two_rows() {
        for (at, command) in COMMANDS.iter().enumerate() {
            let mut later = COMMANDS.iter().skip(at + 1);
            assert!(later.all(|other| other.id != command.id), "{:?} has two rows", command.id);
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
