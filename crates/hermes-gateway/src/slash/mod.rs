//! Commands typed into a chat: the table, and those that are about the conversation or the gateway itself.
//!
//! Commands about the whole program (models, skills, insights) belong to the program, through its port.

mod conversation;
mod gateway;
mod quick;
mod table;

use std::sync::Arc;

use hermes_store::{FollowUpWork, Store, WaitingMessage};
use hermes_types::{ApprovalDecision, Clock};

use crate::active_conversations::ActiveConversations;
use crate::chat_agents::ChatAgents;
use crate::chat_sessions::ChatSessions;
use crate::deliver::Delivery;
use crate::ports::{EventObserver, GatewayPorts, HelperPrograms, ProgramCommands, SkillPrompts};
use crate::questions::{ApprovalSelector, ChatQuestions};
use crate::resources::GatewayResources;
use crate::sender_access::SenderAccess;
use crate::settings::LiveSettings;

pub use table::{BusyPolicy, COMMANDS, CommandSurface, ParsedCommand, SlashCommand, commands, find, parse};

/// The most characters of a reason that are passed on.
const LONGEST_REASON: usize = 280;

/// Commands that change the program, or its permissions, for everybody.
const OWNERS_ONLY: [&str; 5] = ["model", "restart", "rollback", "update", "yolo"];

/// Returns the message for a user who is not allowed individually.
fn owner_required_message(name: &str, platform: &str) -> String {
    format!(
        "/{name} is for owners. Add your id (see /whoami) to {}_ALLOWED_USERS, or pair with `hermes pairing approve`.",
        platform.to_uppercase()
    )
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

    /// Runs a command. Never fails: an error becomes the answer.
    pub(crate) async fn run(&self, row: &WaitingMessage, typed: &ParsedCommand) -> SlashCommandOutcome {
        let Some(command) = find(&typed.name, CommandSurface::Chat) else {
            return self.run_quick_command(row, typed).await;
        };
        if self.requires_owner(command.name, row) && !self.access.is_from_owner(&row.envelope) {
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
        let key = row.conversation.as_str();
        let rest = typed.arguments.as_str();
        let ran = match command.name {
            "start" => Ok(SlashCommandOutcome::Reply(None)),
            "help" => Ok(SlashCommandOutcome::reply(self.help())),
            "stop" => Ok(SlashCommandOutcome::reply("No active task to stop.")),
            "approve" => Ok(self.approve(key, rest)),
            "deny" => Ok(SlashCommandOutcome::reply(self.questions.resolve_approval(
                key,
                ApprovalDecision::Deny,
                parse_selector(rest),
                parse_reason(rest).as_deref(),
            ))),
            "queue" => {
                Ok(SlashCommandOutcome::reply("What is to wait for the next turn? Write `/queue TEXT`."))
            }
            "status" => self.status(row).await,
            "whoami" => Ok(SlashCommandOutcome::reply(whoami(row))),
            "sethome" => Ok(SlashCommandOutcome::reply(self.set_home(row))),
            "background" => Ok(self.start_background_work(row, rest)),
            "new" => self.start_new_session(row).await,
            "undo" => self.undo(row).await,
            "retry" => self.retry(row).await,
            "title" => self.title(row, rest).await,
            "resume" => self.resume(row, rest).await,
            "compress" => self.compress(row, rest).await,
            "usage" => self.usage(row).await,
            name => Ok(self.run_program_command(row, name, rest).await),
        };
        ran.unwrap_or_else(|error| {
            SlashCommandOutcome::reply(format!("⚠️ /{} did not work: {error}", command.name))
        })
    }

    /// Tells whether a command needs an owner because it changes the program for everybody. Anybody may set the
    /// home channel while there is none.
    fn requires_owner(&self, name: &str, row: &WaitingMessage) -> bool {
        match name {
            "sethome" => self.settings.current().home_channel(&row.envelope.platform).is_some(),
            name => OWNERS_ONLY.contains(&name),
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

    async fn run_program_command(&self, row: &WaitingMessage, name: &str, rest: &str) -> SlashCommandOutcome {
        if let Some(text) = self.program.run(name, rest, row).await {
            return SlashCommandOutcome::reply(text);
        }
        match self.skills.prompt(name, rest) {
            Some(words) => SlashCommandOutcome::Prompt(words),
            None => SlashCommandOutcome::reply(format!("/{name} is not available here.")),
        }
    }

    fn help(&self) -> String {
        let mut lines = vec!["📖 **Hermes Commands**".to_owned()];
        for command in commands(CommandSurface::Chat) {
            let names: Vec<String> = std::iter::once(&command.name)
                .chain(command.aliases)
                .map(|name| format!("/{name}"))
                .collect();
            let arguments =
                if command.arguments.is_empty() { String::new() } else { format!(" {}", command.arguments) };
            lines.push(format!("`{}{arguments}` — {}", names.join(", "), command.description));
        }
        let skills = self.skills.list();
        if !skills.is_empty() {
            lines.push("\n⚡ **Skills**".to_owned());
            lines.extend(skills.into_iter().map(|(name, about)| format!("`/{name}` — {about}")));
        }
        lines.join("\n")
    }
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
