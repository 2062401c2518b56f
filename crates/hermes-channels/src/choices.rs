//! Answers offered as reactions: whoever reacts to a question of the bot with one of them chooses it.
//!
//! What the reactions stand for must be known after a restart, too. On Matrix it is in the question itself; platforms whose
//! messages take no field of ours note it in a small document, [`AskedQuestions`].

use std::sync::{Arc, Mutex, PoisonError};

use hermes_types::{
    ApprovalDecision, ChatAddress, ChatPart, Envelope, OutgoingMessage, QuickReply, Sender, Timestamp,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::approval::parse_approval;
use crate::host::ChannelHost;

/// The field of a question's content.
const FIELD: &str = "org.hermes.choices";
/// The number of questions that are remembered.
const MAX_QUESTIONS: usize = 100;
const NUMBERS: [&str; 9] = ["1️⃣", "2️⃣", "3️⃣", "4️⃣", "5️⃣", "6️⃣", "7️⃣", "8️⃣", "9️⃣"];

/// Returns the reaction of each choice, and the text it stands for.
pub(crate) fn reactions(choices: &[QuickReply]) -> Vec<(&'static str, String)> {
    let mut numbers = NUMBERS.into_iter();
    let reaction = |choice: &QuickReply| {
        let key = match parse_approval(&choice.text) {
            Some((ApprovalDecision::Once, _)) => "✅",
            Some((ApprovalDecision::Session, _)) => "🕒",
            Some((ApprovalDecision::Always, _)) => "♾️",
            Some((ApprovalDecision::Deny, _)) => "❌",
            None => numbers.next()?,
        };
        Some((key, choice.text.clone()))
    };
    choices.iter().filter_map(reaction).collect()
}

/// Adds what the reactions stand for to a question.
pub(crate) fn describe(content: &mut Value, reactions: &[(&'static str, String)]) {
    let list: Vec<Value> = reactions.iter().map(|(key, text)| json!({"key": key, "text": text})).collect();
    content[FIELD] = json!(list);
}

/// Returns the words that explain the reactions where the bot has put them under its question.
pub(crate) fn legend(choices: &[QuickReply], reactions: &[(&'static str, String)]) -> String {
    let label =
        |text: &str| choices.iter().find(|choice| choice.text == text).map_or("", |choice| &choice.label);
    let parts: Vec<String> = reactions.iter().map(|(key, text)| format!("{key} {}", label(text))).collect();
    format!("\n\n{}", parts.join(" · "))
}

/// Returns the words that explain the reactions where people have to choose them themselves.
pub(crate) fn instruction(choices: &[QuickReply]) -> String {
    let reactions = reactions(choices);
    if reactions.is_empty() {
        return String::new();
    }
    format!("\n\nOr react with {}", legend(choices, &reactions).trim_start())
}

/// Returns the text that a reaction to a question stands for.
pub(crate) fn chosen(question: &Value, key: &str) -> Option<String> {
    let list = question.get(FIELD)?.as_array()?;
    let entry = list.iter().find(|entry| entry["key"].as_str().is_some_and(|known| is_same(known, key)))?;
    entry.get("text")?.as_str().map(str::to_owned)
}

/// Tells whether two reactions are the same. Some programs add a variation selector, some remove it.
fn is_same(a: &str, b: &str) -> bool {
    let plain = |text: &str| text.replace('\u{FE0F}', "");
    plain(a) == plain(b)
}

/// The questions a platform asked last, with the answers that reactions to them stand for.
pub(crate) struct AskedQuestions {
    platform: &'static str,
    host: Arc<dyn ChannelHost>,
    /// Held while the document is changed.
    change: Mutex<()>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct AskedQuestion {
    id: String,
    place: ChatAddress,
    answers: Vec<QuickReply>,
}

/// A reaction to a message.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct IncomingReaction {
    /// The platform's key of the reaction, unique per platform.
    pub(crate) key: String,
    /// The chat it was made in.
    pub(crate) chat: String,
    /// The id of the message.
    pub(crate) target: String,
    pub(crate) emoji: String,
    pub(crate) sender: Sender,
    pub(crate) at: Timestamp,
}

impl AskedQuestions {
    pub(crate) fn new(platform: &'static str, host: Arc<dyn ChannelHost>) -> Self {
        Self { platform, host, change: Mutex::default() }
    }

    /// Remembers a question that was sent. Its last message has the question.
    pub(crate) fn remember(&self, reply: &OutgoingMessage, message_ids: &[String]) {
        let answers: Vec<QuickReply> = reactions(&reply.choices)
            .into_iter()
            .map(|(key, text)| QuickReply { label: key.to_owned(), text })
            .collect();
        let Some(id) = message_ids.last().filter(|id| !answers.is_empty() && !id.is_empty()) else { return };
        let _changing = self.change.lock().unwrap_or_else(PoisonError::into_inner);
        let mut known = self.load();
        known.retain(|question| question.id != *id);
        known.push(AskedQuestion { id: id.clone(), place: reply.place.clone(), answers });
        known.drain(..known.len().saturating_sub(MAX_QUESTIONS));
        self.host.save_document(&self.document(), &json!(known));
    }

    /// Returns the answer that a reaction stands for, as if its author had written it; `None` where it is no answer.
    pub(crate) fn answer(&self, reaction: IncomingReaction) -> Option<Envelope> {
        // Who reacts names the message: one of another chat is none of theirs.
        let is_meant = |question: &AskedQuestion| {
            question.id == reaction.target && question.place.chat_id == reaction.chat
        };
        let question = self.load().into_iter().find(is_meant)?;
        let answer = question.answers.into_iter().find(|answer| is_same(&answer.label, &reaction.emoji))?;
        Some(Envelope {
            platform: self.platform.to_owned(),
            platform_key: reaction.key,
            place: question.place,
            sender: reaction.sender,
            parts: vec![ChatPart::Text { text: answer.text }],
            message_id: Some(reaction.target.clone()),
            reply_to: Some(reaction.target),
            reply_to_text: None,
            skill: None,
            quiet_ms: 0,
            received_at: reaction.at,
        })
    }

    fn load(&self) -> Vec<AskedQuestion> {
        // A document that cannot be read is replaced with the next question.
        let document = self.host.load_document(&self.document()).unwrap_or_default();
        serde_json::from_value(document).unwrap_or_default()
    }

    fn document(&self) -> String {
        format!("{}_questions.json", self.platform)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reaction_stands_for_its_choice() {
        let choice = |label: &str, text: &str| QuickReply { label: label.to_owned(), text: text.to_owned() };
        let choices =
            [choice("Allow once", "/approve #1"), choice("Deny", "/deny #1"), choice("Blue", "Blue")];
        let reactions = reactions(&choices);
        let mut content = json!({"body": "?"});
        describe(&mut content, &reactions);
        for (key, text) in
            [("✅", Some("/approve #1")), ("❌", Some("/deny #1")), ("1⃣", Some("Blue")), ("👍", None)]
        {
            assert_eq!(chosen(&content, key).as_deref(), text, "{key}");
        }
        assert_eq!(legend(&choices, &reactions), "\n\n✅ Allow once · ❌ Deny · 1️⃣ Blue");
        assert_eq!(chosen(&json!({FIELD: "x"}), "✅"), None);
        assert_eq!(instruction(&choices), "\n\nOr react with ✅ Allow once · ❌ Deny · 1️⃣ Blue");
        assert_eq!(instruction(&[]), "");
    }
}
