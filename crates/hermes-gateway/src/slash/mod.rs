//! Commands typed into a chat: the table, and those that are about the conversation or the gateway itself.
//!
//! `undo`, `title`, `resume`, `compress`, `goal` and `usage` are the bodies that chats and the terminal share. Commands about the whole
//! program (models, insights) belong to the program, through its port.

mod branch;
mod compress;
mod conversation;
mod gateway;
mod goal;
mod quick;
mod reply;
mod resume;
mod table;
mod title;
mod undo;
mod usage;

use std::sync::Arc;

use hermes_store::{FollowUpWork, Store, WaitingMessage};
use hermes_types::{ApprovalDecision, Clock};

use self::conversation::SlashCommandResult;
use crate::active_conversations::ActiveConversations;
use crate::chat_agents::ChatAgents;
use crate::chat_sessions::ChatSessions;
use crate::deliver::Delivery;
use crate::ports::{EventObserver, GatewayPorts, HelperPrograms, ProgramCommands, SkillPrompts};
use crate::questions::{ApprovalSelector, ChatQuestions};
use crate::resources::GatewayResources;
use crate::sender_access::SenderAccess;
use crate::settings::LiveSettings;

pub use branch::branch;
pub use compress::compress;
pub use goal::{GoalWork, goal, subgoal};
pub use quick::{QuickStep, quick_step};
pub use reply::{ConversationReply, ReplyText};
pub use resume::{SessionOwner, find_session};
pub use table::{
    BusyPolicy, COMMANDS, ChatCommand, CommandAccess, CommandSurface, ConversationCommand, ParsedCommand,
    ProgramCommand, ServiceCommand, SlashCommand, SlashCommandId, TerminalCommand, commands, find, parse,
};
pub use title::title;
pub use undo::{retry, undo};
pub use usage::usage;

/// The most characters of a reason that are passed on.
const LONGEST_REASON: usize = 280;

/// Returns the message for a user who is not allowed individually.
fn owner_required_message(name: &str, platform: &str) -> String {
    format!(
        "/{name} is for owners. Add your id (see /whoami) to {}_ALLOWED_USERS, or pair with `hermes pairing approve`.",
        platform.to_uppercase()
    )
}

impl From<ConversationReply> for SlashCommandOutcome {
    fn from(reply: ConversationReply) -> Self {
        match reply {
            ConversationReply::Text(text) => Self::reply(text.into_markdown()),
            ConversationReply::Ask(question) => Self::Prompt(question),
        }
    }
}

/// The outcome of a command.
#[derive(Debug, Clone)]
pub(crate) enum SlashCommandOutcome {
    /// An answer, or none.
    Reply(Option<String>),
    /// A prompt for the model.
    Prompt(String),
    /// An answer, and work that starts with it.
    Start(String, Box<FollowUpWork>),
}

impl SlashCommandOutcome {
    fn reply(text: impl Into<String>) -> Self {
        Self::Reply(Some(text.into()))
    }
}

/// Runs the commands of chats.
pub(crate) struct ChatCommands {
    store: Store,
    clock: Arc<dyn Clock>,
    settings: LiveSettings,
    access: SenderAccess,
    conversations: Arc<ActiveConversations>,
    agents: ChatAgents,
    sessions: Arc<ChatSessions>,
    questions: ChatQuestions,
    delivery: Delivery,
    program: Arc<dyn ProgramCommands>,
    skills: Arc<dyn SkillPrompts>,
    programs: Arc<dyn HelperPrograms>,
    observer: Arc<dyn EventObserver>,
}

/// What commands act on.
pub(crate) struct CommandParts {
    pub(crate) access: SenderAccess,
    pub(crate) conversations: Arc<ActiveConversations>,
    pub(crate) agents: ChatAgents,
    pub(crate) sessions: Arc<ChatSessions>,
    pub(crate) questions: ChatQuestions,
    pub(crate) delivery: Delivery,
}

impl ChatCommands {
    pub(crate) fn new(resources: &GatewayResources, parts: CommandParts, ports: &GatewayPorts) -> Self {
        let CommandParts { access, conversations, agents, sessions, questions, delivery } = parts;
        Self {
            store: resources.store.clone(),
            clock: resources.clock.clone(),
            settings: resources.settings.clone(),
            access,
            conversations,
            agents,
            sessions,
            questions,
            delivery,
            program: ports.commands.clone(),
            skills: ports.skills.clone(),
            programs: ports.programs.clone(),
            observer: resources.observer.clone(),
        }
    }

    /// Tells whether a plugin has a command of this name.
    pub(crate) fn is_plugin_command(&self, name: &str) -> bool {
        self.program.plugin_commands().iter().any(|(known, _)| known == name)
    }

    /// Runs a command. Never fails: an error becomes the answer.
    pub(crate) async fn run(&self, row: &WaitingMessage, typed: &ParsedCommand) -> SlashCommandOutcome {
        let Some(command) = find(&typed.name, CommandSurface::Chat) else {
            return self.run_quick_command(row, typed).await;
        };
        if self.requires_owner(command.access, row) && !self.access.is_from_owner(&row.envelope) {
            return SlashCommandOutcome::reply(owner_required_message(command.name, &row.envelope.platform));
        }
        self.observer.emit(
            &format!("command:{}", command.name),
            serde_json::json!({
                "platform": row.envelope.platform,
                "user_id": row.envelope.sender.user_id,
                "command": command.name,
                "args": typed.arguments,
            }),
        );
        let rest = typed.arguments.as_str();
        let ran = match command.id {
            SlashCommandId::Conversation(which) => self.run_conversation_command(which, row, rest).await,
            SlashCommandId::Chat(which) => self.run_chat_command(which, row, rest).await,
            SlashCommandId::Program(which) => {
                Ok(SlashCommandOutcome::reply(self.program.run(which, rest, row).await))
            }
            SlashCommandId::Service(which) => {
                Ok(SlashCommandOutcome::reply(self.program.run_service(which, rest, row).await))
            }
            SlashCommandId::Terminal(_) => Ok(not_available(command.name)),
        };
        ran.unwrap_or_else(|error| {
            SlashCommandOutcome::reply(format!("⚠️ /{} did not work: {error}", command.name))
        })
    }

    async fn run_conversation_command(
        &self,
        command: ConversationCommand,
        row: &WaitingMessage,
        rest: &str,
    ) -> SlashCommandResult {
        match command {
            ConversationCommand::New => self.start_new_session(row).await,
            ConversationCommand::Retry => self.retry(row).await,
            ConversationCommand::Undo => self.undo(row, rest).await,
            ConversationCommand::Title => self.title(row, rest).await,
            ConversationCommand::Resume => self.resume(row, rest).await,
            ConversationCommand::Branch => self.branch(row, rest).await,
            ConversationCommand::Compress => self.compress(row, rest).await,
            ConversationCommand::Queue => {
                Ok(SlashCommandOutcome::reply("What is to wait for the next turn? Write `/queue TEXT`."))
            }
            ConversationCommand::Plan => {
                let prompt = self.skills.prompt("plan", rest);
                Ok(prompt.map_or_else(|| not_available("plan"), SlashCommandOutcome::Prompt))
            }
            ConversationCommand::Learn => {
                let prompt = self.skills.prompt("learn", rest);
                Ok(prompt.map_or_else(|| not_available("learn"), SlashCommandOutcome::Prompt))
            }
            ConversationCommand::Goal => self.goal(row, rest).await,
            ConversationCommand::Subgoal => self.subgoal(row, rest).await,
            ConversationCommand::Usage => self.usage(row).await,
            ConversationCommand::Help => Ok(SlashCommandOutcome::reply(self.help())),
        }
    }

    async fn run_chat_command(
        &self,
        command: ChatCommand,
        row: &WaitingMessage,
        rest: &str,
    ) -> SlashCommandResult {
        let key = row.conversation.as_str();
        Ok(match command {
            ChatCommand::Stop => SlashCommandOutcome::reply("No active task to stop."),
            ChatCommand::Status => return self.status(row).await,
            ChatCommand::Background => self.start_background_work(row, rest),
            ChatCommand::Approve => self.approve(key, rest),
            ChatCommand::Deny => {
                let (which, reason) = (parse_selector(rest), parse_reason(rest));
                let denied = ApprovalDecision::Deny;
                SlashCommandOutcome::reply(self.questions.resolve_approval(
                    key,
                    denied,
                    which,
                    reason.as_deref(),
                ))
            }
            ChatCommand::SetHome => SlashCommandOutcome::reply(self.set_home(row)),
            ChatCommand::WhoAmI => SlashCommandOutcome::reply(whoami(row)),
            ChatCommand::Start => SlashCommandOutcome::Reply(None),
        })
    }

    /// Tells whether a command needs an owner now.
    fn requires_owner(&self, access: CommandAccess, row: &WaitingMessage) -> bool {
        match access {
            CommandAccess::Everybody => false,
            CommandAccess::Owners => true,
            CommandAccess::OwnersOnceHomeIsSet => {
                self.settings.current().home_channel(&row.envelope.platform).is_some()
            }
        }
    }

    fn approve(&self, key: &str, rest: &str) -> SlashCommandOutcome {
        let word = rest.split_whitespace().next().unwrap_or_default().to_lowercase();
        let approval = match word.as_str() {
            "session" | "ses" => ApprovalDecision::Session,
            "always" | "permanent" | "permanently" => ApprovalDecision::Always,
            _ => ApprovalDecision::Once,
        };
        SlashCommandOutcome::reply(self.questions.resolve_approval(key, approval, parse_selector(rest), None))
    }

    fn help(&self) -> String {
        let mut lines = vec!["📖 **Hermes Commands**".to_owned()];
        for command in commands(CommandSurface::Chat) {
            lines.push(format!("`{}` — {}", command.synopsis(), command.description));
        }
        let of_plugins = self.program.plugin_commands();
        if !of_plugins.is_empty() {
            lines.push("\n🔌 **Plugins**".to_owned());
            lines.extend(of_plugins.into_iter().map(|(name, about)| format!("`/{name}` — {about}")));
        }
        let skills = self.skills.list();
        if !skills.is_empty() {
            lines.push("\n⚡ **Skills**".to_owned());
            lines.extend(skills.into_iter().map(|(name, about)| format!("`/{name}` — {about}")));
        }
        lines.join("\n")
    }
}

fn not_available(name: &str) -> SlashCommandOutcome {
    SlashCommandOutcome::reply(format!("/{name} is not available here."))
}

fn parse_selector(rest: &str) -> ApprovalSelector<'_> {
    if let Some(tag) = rest.split_whitespace().find_map(|word| word.strip_prefix('#')) {
        return ApprovalSelector::Tagged(tag);
    }
    let all = rest.split_whitespace().any(|word| word.eq_ignore_ascii_case("all"));
    if all { ApprovalSelector::All } else { ApprovalSelector::Oldest }
}

/// Returns the reason for a refusal: the text without the words that select a question.
fn parse_reason(rest: &str) -> Option<String> {
    let said = |word: &&str| !word.starts_with('#') && !word.eq_ignore_ascii_case("all");
    let words: Vec<&str> = rest.split_whitespace().filter(said).collect();
    let text = words.join(" ");
    (!text.is_empty()).then(|| hermes_text::head(&text, LONGEST_REASON).to_owned())
}

fn whoami(row: &WaitingMessage) -> String {
    let envelope = &row.envelope;
    let or = |text: &Option<String>| text.clone().unwrap_or_else(|| "not known".to_owned());
    format!(
        "Platform: {}\nChat: `{}`\nYou: {} (`{}`)\nConversation: `{}`",
        envelope.platform,
        envelope.place.chat_id,
        or(&envelope.sender.user_name),
        or(&envelope.sender.user_id),
        row.conversation
    )
}
