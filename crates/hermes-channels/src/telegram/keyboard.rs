//! Buttons below a question, and what pressing one means.
//!
//! What a button says is put into its data where the 64 bytes allow; longer words are kept in the home under a short key. So
//! a press is understood after a restart too. The buttons stay when one is pressed: only the gateway knows whether the
//! presser may answer, and its answer is seen in the chat.

use std::sync::{Arc, Mutex, PoisonError};

use hermes_types::{Approval, Choice, Reply, random_hex};
use serde_json::{Map, Value, json};

use crate::approval::approval;
use crate::host::Host;

const LONGEST_DATA: usize = 64;
const LONGEST_LABEL: usize = 60;
const REMEMBERED: &str = "telegram_choices.json";
const MOST_REMEMBERED: usize = 200;

/// Approvals have short names of their own, which other programs on the same home know.
const APPROVALS: [(&str, Approval, &str); 4] = [
    ("once", Approval::Once, "/approve"),
    ("session", Approval::Session, "/approve session"),
    ("always", Approval::Always, "/approve always"),
    ("deny", Approval::Deny, "/deny"),
];

pub(super) struct Keyboard {
    host: Arc<dyn Host>,
    /// Writing is reading, changing and writing.
    turn: Mutex<()>,
}

impl Keyboard {
    pub(super) fn new(host: Arc<dyn Host>) -> Self {
        Self { host, turn: Mutex::default() }
    }

    /// The `reply_markup` of a reply with choices.
    pub(super) fn markup(&self, reply: &Reply) -> Option<Value> {
        if reply.choices.is_empty() {
            return None;
        }
        let button = |choice: &Choice| {
            let label = hermes_text::head(&choice.label, LONGEST_LABEL);
            json!([{"text": label, "callback_data": self.data(choice)}])
        };
        Some(json!({"inline_keyboard": reply.choices.iter().map(button).collect::<Vec<_>>()}))
    }

    fn data(&self, choice: &Choice) -> String {
        if let Some((approval, tag)) = approval(&choice.says)
            && let Some((name, ..)) = APPROVALS.iter().find(|(_, known, _)| *known == approval)
        {
            let data = format!("ea:{name}:{}", tag.unwrap_or_default());
            if data.len() <= LONGEST_DATA {
                return data;
            }
        }
        let data = format!("s:{}", choice.says);
        if data.len() <= LONGEST_DATA { data } else { format!("k:{}", self.remember(&choice.says)) }
    }

    /// The words a button stands for.
    pub(super) fn says(&self, data: &str) -> Option<String> {
        let (kind, rest) = data.split_once(':')?;
        match kind {
            "ea" => {
                let (name, tag) = rest.split_once(':').unwrap_or((rest, ""));
                let (_, _, says) = APPROVALS.iter().find(|(known, ..)| *known == name)?;
                Some(if tag.is_empty() { (*says).to_owned() } else { format!("{says} #{tag}") })
            }
            "s" => Some(rest.to_owned()),
            "k" => self.host.recall(REMEMBERED)?.get(rest)?.as_str().map(str::to_owned),
            _ => None,
        }
    }

    fn remember(&self, says: &str) -> String {
        let key = random_hex(12);
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let mut kept = match self.host.recall(REMEMBERED) {
            Some(Value::Object(kept)) => kept,
            _ => Map::new(),
        };
        kept.insert(key.clone(), json!(says));
        let surplus = kept.len().saturating_sub(MOST_REMEMBERED);
        // The oldest were written first.
        let kept: Map<String, Value> = kept.into_iter().skip(surplus).collect();
        self.host.remember(REMEMBERED, &Value::Object(kept));
        key
    }
}
