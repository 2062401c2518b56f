//! Buttons below a question, and the meaning of a press.
//!
//! A button's text is stored in its callback data if the 64 bytes allow; longer texts are stored in the home under
//! a short key. So a press is understood after a restart too. The buttons stay when one is pressed: only the
//! gateway knows whether the user may answer, and its answer appears in the chat.

use std::sync::{Arc, Mutex, PoisonError};

use hermes_types::{ApprovalDecision, OutgoingMessage, QuickReply, random_hex};
use serde_json::{Map, Value, json};

use crate::approval::parse_approval;
use crate::host::ChannelHost;

const LONGEST_DATA: usize = 64;
const LONGEST_LABEL: usize = 60;
const REMEMBERED: &str = "telegram_choices.json";
const MAX_REMEMBERED: usize = 200;

/// The short names of approvals, which other programs with the same home know.
const APPROVALS: [(&str, ApprovalDecision, &str); 4] = [
    ("once", ApprovalDecision::Once, "/approve"),
    ("session", ApprovalDecision::Session, "/approve session"),
    ("always", ApprovalDecision::Always, "/approve always"),
    ("deny", ApprovalDecision::Deny, "/deny"),
];

pub(super) struct Keyboard {
    host: Arc<dyn ChannelHost>,
    /// Serialises the read, change and write of the stored texts.
    write_lock: Mutex<()>,
}

impl Keyboard {
    pub(super) fn new(host: Arc<dyn ChannelHost>) -> Self {
        Self { host, write_lock: Mutex::default() }
    }

    /// Builds the `reply_markup` of a reply with choices.
    pub(super) fn markup(&self, reply: &OutgoingMessage) -> Option<Value> {
        if reply.choices.is_empty() {
            return None;
        }
        let button = |choice: &QuickReply| {
            let label = hermes_text::head(&choice.label, LONGEST_LABEL);
            json!([{"text": label, "callback_data": self.callback_data(choice)}])
        };
        Some(json!({"inline_keyboard": reply.choices.iter().map(button).collect::<Vec<_>>()}))
    }

    fn callback_data(&self, choice: &QuickReply) -> String {
        if let Some((approval, tag)) = parse_approval(&choice.text)
            && let Some((name, ..)) = APPROVALS.iter().find(|(_, known, _)| *known == approval)
        {
            let data = format!("ea:{name}:{}", tag.unwrap_or_default());
            if data.len() <= LONGEST_DATA {
                return data;
            }
        }
        let data = format!("s:{}", choice.text);
        if data.len() <= LONGEST_DATA { data } else { format!("k:{}", self.remember(&choice.text)) }
    }

    /// Returns the text a button stands for.
    pub(super) fn text_for_data(&self, data: &str) -> Option<String> {
        let (kind, rest) = data.split_once(':')?;
        match kind {
            "ea" => {
                let (name, tag) = rest.split_once(':').unwrap_or((rest, ""));
                let (_, _, says) = APPROVALS.iter().find(|(known, ..)| *known == name)?;
                Some(if tag.is_empty() { (*says).to_owned() } else { format!("{says} #{tag}") })
            }
            "s" => Some(rest.to_owned()),
            "k" => self.host.load_document(REMEMBERED)?.get(rest)?.as_str().map(str::to_owned),
            _ => None,
        }
    }

    fn remember(&self, says: &str) -> String {
        let key = random_hex(12);
        let _turn = self.write_lock.lock().unwrap_or_else(PoisonError::into_inner);
        let mut kept = match self.host.load_document(REMEMBERED) {
            Some(Value::Object(kept)) => kept,
            _ => Map::new(),
        };
        kept.insert(key.clone(), json!(says));
        let surplus = kept.len().saturating_sub(MAX_REMEMBERED);
        // The oldest entries come first.
        let kept: Map<String, Value> = kept.into_iter().skip(surplus).collect();
        self.host.save_document(REMEMBERED, &Value::Object(kept));
        key
    }
}
