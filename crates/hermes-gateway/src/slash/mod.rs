//! Commands typed into a chat: the table, and those that are about the conversation or the gateway itself.
//!
//! What concerns the whole program (models, skills, insights) is the program's, through its port.

mod conversation;
mod gateway;
mod quick;
mod table;

use hermes_store::{FollowUp, Waiting};
use hermes_types::Approval;

use crate::gateway::Gateway;
use crate::intake::Which;

pub(crate) use conversation::Silent;
pub use table::{COMMANDS, Command, Surface, Typed, WhileBusy, commands, find, parse};

/// The most of a reason that is passed on.
const LONGEST_REASON: usize = 280;

/// Commands that change the program, or what it may do, for everybody.
const OWNERS_ONLY: [&str; 5] = ["model", "restart", "rollback", "update", "yolo"];

/// What somebody who was not let in by name is told.
fn owners_only(name: &str, platform: &str) -> String {
    format!(
        "/{name} is for owners. Add your id (see /whoami) to {}_ALLOWED_USERS, or pair with `hermes pairing approve`.",
        platform.to_uppercase()
    )
}

/// What a command came to.
#[derive(Debug, Clone)]
pub(crate) enum Done {
    /// An answer, or silence.
    Said(Option<String>),
    /// These words go to the model.
    Words(String),
    /// An answer, and work that begins with it.
    Begin(String, Box<FollowUp>),
}

impl Done {
    fn said(text: impl Into<String>) -> Self {
        Self::Said(Some(text.into()))
    }
}

impl Gateway {
    /// Runs a command. Never fails: what went wrong is the answer.
    pub(crate) async fn run_command(&self, row: &Waiting, typed: &Typed) -> Done {
        let Some(command) = find(&typed.name, Surface::Chat) else { return self.quick(row, typed).await };
        if self.is_for_owners(command.name, row) && !self.is_from_owner(&row.envelope) {
            return Done::said(owners_only(command.name, &row.envelope.platform));
        }
        self.ports.watchers.emit(
            &format!("command:{}", command.name),
            serde_json::json!({
                "platform": row.envelope.platform,
                "user_id": row.envelope.sender.user_id,
                "command": command.name,
                "args": typed.rest,
            }),
        );
        let key = row.conversation.as_str();
        let rest = typed.rest.as_str();
        let ran = match command.name {
            "start" => Ok(Done::Said(None)),
            "help" => Ok(Done::said(self.help())),
            "stop" => Ok(Done::said("No active task to stop.")),
            "approve" => Ok(self.approve(key, rest)),
            "deny" => Ok(Done::said(self.resolve_approval(
                key,
                Approval::Deny,
                which(rest),
                reason(rest).as_deref(),
            ))),
            "queue" => Ok(Done::said("What is to wait for the next turn? Write `/queue TEXT`.")),
            "status" => self.status(row).await,
            "whoami" => Ok(Done::said(whoami(row))),
            "sethome" => Ok(Done::said(self.set_home(row))),
            "background" => Ok(self.background(row, rest)),
            "new" => self.begin_anew(row).await,
            "undo" => self.undo(row).await,
            "retry" => self.retry(row).await,
            "title" => self.title(row, rest).await,
            "resume" => self.resume(row, rest).await,
            "compress" => self.compress(row, rest).await,
            "usage" => self.usage(row).await,
            name => Ok(self.ask_program(row, name, rest).await),
        };
        ran.unwrap_or_else(|error| Done::said(format!("⚠️ /{} did not work: {error}", command.name)))
    }

    /// Whether a command changes the program for everybody. Whoever comes first may choose the home channel.
    fn is_for_owners(&self, name: &str, row: &Waiting) -> bool {
        match name {
            "sethome" => self.live.now().home_channel(&row.envelope.platform).is_some(),
            name => OWNERS_ONLY.contains(&name),
        }
    }

    fn approve(&self, key: &str, rest: &str) -> Done {
        let word = rest.split_whitespace().next().unwrap_or_default().to_lowercase();
        let approval = match word.as_str() {
            "session" | "ses" => Approval::Session,
            "always" | "permanent" | "permanently" => Approval::Always,
            _ => Approval::Once,
        };
        Done::said(self.resolve_approval(key, approval, which(rest), None))
    }

    async fn ask_program(&self, row: &Waiting, name: &str, rest: &str) -> Done {
        if let Some(text) = self.ports.services.command(name, rest, row).await {
            return Done::said(text);
        }
        match self.ports.services.skill(name, rest) {
            Some(words) => Done::Words(words),
            None => Done::said(format!("/{name} is not available here.")),
        }
    }

    fn help(&self) -> String {
        let mut lines = vec!["📖 **Hermes Commands**".to_owned()];
        for command in commands(Surface::Chat) {
            let names: Vec<String> = std::iter::once(&command.name)
                .chain(command.aliases)
                .map(|name| format!("/{name}"))
                .collect();
            let arguments =
                if command.arguments.is_empty() { String::new() } else { format!(" {}", command.arguments) };
            lines.push(format!("`{}{arguments}` — {}", names.join(", "), command.about));
        }
        let skills = self.ports.services.skills();
        if !skills.is_empty() {
            lines.push("\n⚡ **Skills**".to_owned());
            lines.extend(skills.into_iter().map(|(name, about)| format!("`/{name}` — {about}")));
        }
        lines.join("\n")
    }
}

fn which(rest: &str) -> Which<'_> {
    if let Some(tag) = rest.split_whitespace().find_map(|word| word.strip_prefix('#')) {
        return Which::Tagged(tag);
    }
    let all = rest.split_whitespace().any(|word| word.eq_ignore_ascii_case("all"));
    if all { Which::All } else { Which::Oldest }
}

/// Why something is refused: what is left when the question's own words are taken away.
fn reason(rest: &str) -> Option<String> {
    let said = |word: &&str| !word.starts_with('#') && !word.eq_ignore_ascii_case("all");
    let words: Vec<&str> = rest.split_whitespace().filter(said).collect();
    let text = words.join(" ");
    (!text.is_empty()).then(|| hermes_text::head(&text, LONGEST_REASON).to_owned())
}

fn whoami(row: &Waiting) -> String {
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
