//! Answers offered as reactions: the bot puts one for each under its question, and whoever adds to one chooses it.
//!
//! What the reactions stand for is in the question itself, so that it is known after a restart, too.

use hermes_types::{ApprovalDecision, QuickReply};
use serde_json::{Value, json};

use crate::approval::parse_approval;

/// The field of a question's content.
const FIELD: &str = "org.hermes.choices";
const NUMBERS: [&str; 9] = ["1️⃣", "2️⃣", "3️⃣", "4️⃣", "5️⃣", "6️⃣", "7️⃣", "8️⃣", "9️⃣"];

/// Returns the reaction of each choice, and the text it stands for.
pub(super) fn reactions(choices: &[QuickReply]) -> Vec<(&'static str, String)> {
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
pub(super) fn describe(content: &mut Value, reactions: &[(&'static str, String)]) {
    let list: Vec<Value> = reactions.iter().map(|(key, text)| json!({"key": key, "text": text})).collect();
    content[FIELD] = json!(list);
}

/// Returns the words that explain the reactions.
pub(super) fn legend(choices: &[QuickReply], reactions: &[(&'static str, String)]) -> String {
    let label =
        |text: &str| choices.iter().find(|choice| choice.text == text).map_or("", |choice| &choice.label);
    let parts: Vec<String> = reactions.iter().map(|(key, text)| format!("{key} {}", label(text))).collect();
    format!("\n\n{}", parts.join(" · "))
}

/// Returns the text that a reaction to a question stands for.
pub(super) fn chosen(question: &Value, key: &str) -> Option<String> {
    // Some programs add a variation selector, some remove it.
    let plain = |text: &str| text.replace('\u{FE0F}', "");
    let list = question.get(FIELD)?.as_array()?;
    let entry =
        list.iter().find(|entry| entry["key"].as_str().is_some_and(|known| plain(known) == plain(key)))?;
    entry.get("text")?.as_str().map(str::to_owned)
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
    }
}
