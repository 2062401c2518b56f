//! Asks a person in a chat and receives the answer.

use std::sync::Arc;

use hermes_text::head;
use hermes_types::{
    ApprovalDecision, Cancel, Clock, Envelope, HolderId, OutgoingMessage, QuickReply, UserAnswer,
    UserQuestion,
};

use crate::active_conversations::{ActiveConversations, PendingQuestion, QuestionKind};
use crate::deliver::{Outbox, ReplyTarget};
use crate::resources::GatewayResources;
use crate::settings::LiveSettings;

/// The most characters of a command that are shown; they fit into a message of every platform.
const LONGEST_COMMAND: usize = 3_000;

/// Selects the open question an approval answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ApprovalSelector<'a> {
    Oldest,
    All,
    /// The question with this tag, as a button names it.
    Tagged(&'a str),
}

/// Puts questions into chats, and matches answers with them.
#[derive(Clone)]
pub(crate) struct ChatQuestions {
    conversations: Arc<ActiveConversations>,
    outbox: Outbox,
    clock: Arc<dyn Clock>,
    settings: LiveSettings,
    holder: HolderId,
}

impl ChatQuestions {
    pub(crate) fn new(
        resources: &GatewayResources,
        conversations: Arc<ActiveConversations>,
        outbox: Outbox,
    ) -> Self {
        Self {
            conversations,
            outbox,
            clock: resources.clock.clone(),
            settings: resources.settings.clone(),
            holder: resources.holder.clone(),
        }
    }

    /// Asks a question in the chat and waits for an answer, the end of the turn, or the timeout.
    pub(crate) async fn ask(
        &self,
        key: &str,
        envelope: &Envelope,
        question: UserQuestion,
        cancel: &Cancel,
    ) -> UserAnswer {
        let (kind, text, mut choices) = match question {
            UserQuestion::Approve { command, danger } => {
                (QuestionKind::Approval, approval_text(&command, &danger.reason), approval_choices())
            }
            UserQuestion::Clarify { question, choices } => {
                (QuestionKind::Clarification, clarify_text(&question, &choices), clarify_choices(&choices))
            }
            // A password must not be typed into a chat.
            UserQuestion::Secret { .. } => return UserAnswer::Unavailable,
        };
        let Some(PendingQuestion { id, tag, answer }) = self.conversations.ask(key, kind) else {
            return UserAnswer::Unavailable;
        };
        if kind == QuestionKind::Approval {
            // A button answers its own question, however late it is pressed and whichever questions are open by
            // then.
            for choice in &mut choices {
                choice.text = format!("{} #{tag}", choice.text);
            }
        }
        let target = ReplyTarget::chat(&envelope.platform, &envelope.place);
        let question = target.reply(text, format!("question:{}:{id}", self.holder));
        self.outbox.say(key, OutgoingMessage { choices, ..question }).await;
        let settings = self.settings.current();
        let patience = match kind {
            QuestionKind::Approval => settings.question_timeout,
            QuestionKind::Clarification => settings.clarify_patience,
        };
        tokio::select! {
            answer = answer => answer.unwrap_or(UserAnswer::Unavailable),
            () = cancel.cancelled() => UserAnswer::Unavailable,
            () = self.clock.sleep(patience) => {
                self.conversations.withdraw(key, id);
                let text = match kind {
                    QuestionKind::Approval => "⚠️ Approval expired; the command was not run. Ask me again if you want it.",
                    QuestionKind::Clarification => "⏳ No answer came; I am going on without it.",
                };
                let key_of_notice = format!("expired:{}:{id}", self.holder);
                self.outbox.say(key, ReplyTarget::of(envelope).reply(text.to_owned(), key_of_notice)).await;
                UserAnswer::TimedOut
            }
        }
    }

    /// Answers an approval question; a refusal may come with a reason. Returns the text for the user.
    pub(crate) fn resolve_approval(
        &self,
        key: &str,
        approval: ApprovalDecision,
        which: ApprovalSelector<'_>,
        reason: Option<&str>,
    ) -> String {
        let tag = match which {
            ApprovalSelector::Tagged(tag) => Some(tag),
            ApprovalSelector::Oldest | ApprovalSelector::All => None,
        };
        let answer =
            reason.map_or(UserAnswer::Approval(approval), |reason| UserAnswer::Text(reason.to_owned()));
        let mut count = 0;
        while self.conversations.answer(key, QuestionKind::Approval, tag, answer.clone()) {
            count += 1;
            if which != ApprovalSelector::All {
                break;
            }
        }
        let text = match (approval, count) {
            (_, 0) if tag.is_some_and(|tag| self.conversations.is_open(tag)) => {
                "This question is for another user; only they can answer it."
            }
            (_, 0) if tag.is_some() && self.conversations.asks_approval(key) => {
                "That question is no longer open. Please answer the newer question."
            }
            (_, 0) if tag.is_some() => "That question is no longer open.",
            (ApprovalDecision::Deny, 0) => "No pending command to deny.",
            (ApprovalDecision::Deny, _) => "❌ Command denied.",
            (_, 0) => "No pending command to approve.",
            (ApprovalDecision::Once, _) => "✅ Command approved. The agent is resuming...",
            (ApprovalDecision::Session, _) => {
                "✅ Command approved (for this session). The agent is resuming..."
            }
            (ApprovalDecision::Always, _) => "✅ Command approved (permanently). The agent is resuming...",
        };
        text.to_owned()
    }
}

/// Formats the whole command with nothing hidden in it, or as much as fits and how much is missing.
fn approval_text(command: &str, reason: &str) -> String {
    let shown = hermes_text::escape_control(command).replace("```", "'''");
    let length = shown.chars().count();
    let (shown, missing) = match length.checked_sub(LONGEST_COMMAND) {
        None | Some(0) => (shown, String::new()),
        Some(rest) => (
            head(&shown, LONGEST_COMMAND).to_owned(),
            format!(
                "\n⚠️ {rest} of {length} characters are not shown. To read all of it, deny it and ask me to write it to a \
                 file.\n"
            ),
        ),
    };
    let reason = hermes_text::escape_control(reason);
    format!(
        "⚠️ **Dangerous command requires approval:**\n```\n{shown}\n```{missing}\nReason: {reason}\n\nReply `/approve` to \
         run it once, `/approve session` to allow this kind for the session, `/approve always` for good, or `/deny`."
    )
}

fn approval_choices() -> Vec<QuickReply> {
    [
        ("Allow once", "/approve"),
        ("Allow for this session", "/approve session"),
        ("Always allow", "/approve always"),
        ("Deny", "/deny"),
    ]
    .into_iter()
    .map(|(label, says)| QuickReply { label: label.to_owned(), text: says.to_owned() })
    .collect()
}

fn clarify_text(question: &str, choices: &[String]) -> String {
    let listed: Vec<String> =
        choices.iter().enumerate().map(|(at, choice)| format!("{}. {choice}", at + 1)).collect();
    if listed.is_empty() {
        format!("❓ {question}")
    } else {
        format!("❓ {question}\n\n{}", listed.join("\n"))
    }
}

fn clarify_choices(choices: &[String]) -> Vec<QuickReply> {
    choices.iter().map(|choice| QuickReply { label: choice.clone(), text: choice.clone() }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_question_shows_the_whole_command_and_nothing_hidden() {
        let command = format!("rm -rf x \u{1b}[2K\r{} && rm -rf /tail", "y".repeat(2_000));
        let text = approval_text(&command, "deletes\u{202e} files");
        assert!(text.contains("rm -rf /tail") && text.contains("\\u{1b}[2K\\u{d}"), "{text}");
        assert!(!text.contains(['\u{1b}', '\r', '\u{202e}']), "{text}");
        let text = approval_text(&"z".repeat(5_000), "long");
        assert!(text.contains("2000 of 5000 characters are not shown"), "{text}");
    }
}
