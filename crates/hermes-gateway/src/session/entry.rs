//! The stored data of a chat beside its transcript: the entry of `sessions.json`, which other programs read and
//! write.

use hermes_types::{ChatAddress, ChatKind, CivilTime, Envelope, Sender, SessionId, Usage};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// An entry, with the order and names other programs use. Unknown fields are kept.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SessionEntry {
    pub session_key: String,
    pub session_id: String,
    pub created_at: String,
    pub updated_at: String,
    #[serde(default)]
    pub display_name: Option<String>,
    #[serde(default)]
    pub platform: Option<String>,
    #[serde(default)]
    pub chat_type: Option<String>,
    #[serde(default)]
    pub input_tokens: u64,
    #[serde(default)]
    pub output_tokens: u64,
    #[serde(default)]
    pub cache_read_tokens: u64,
    #[serde(default)]
    pub cache_write_tokens: u64,
    #[serde(default)]
    pub total_tokens: u64,
    #[serde(default)]
    pub last_prompt_tokens: u64,
    #[serde(default)]
    pub estimated_cost_usd: f64,
    #[serde(default = "unknown")]
    pub cost_status: String,
    #[serde(default)]
    pub origin: Option<ChatOrigin>,
    #[serde(flatten)]
    pub more: Map<String, Value>,
}

fn unknown() -> String {
    "unknown".to_owned()
}

/// The chat a conversation takes place in; all eight fields are always written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChatOrigin {
    pub platform: String,
    #[serde(default)]
    pub chat_id: String,
    #[serde(default)]
    pub chat_name: Option<String>,
    #[serde(default)]
    pub chat_type: Option<String>,
    #[serde(default)]
    pub user_id: Option<String>,
    #[serde(default)]
    pub user_name: Option<String>,
    #[serde(default)]
    pub thread_id: Option<String>,
    #[serde(default)]
    pub chat_topic: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_id_alt: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chat_id_alt: Option<String>,
}

impl ChatOrigin {
    pub fn from_envelope(envelope: &Envelope) -> Self {
        let Envelope { platform, place, sender, .. } = envelope;
        Self {
            platform: platform.clone(),
            chat_id: place.chat_id.clone(),
            chat_name: place.chat_name.clone(),
            chat_type: Some(place.kind.as_str().to_owned()),
            user_id: sender.user_id.clone(),
            user_name: sender.user_name.clone(),
            thread_id: place.thread_id.clone(),
            chat_topic: place.topic.clone().filter(|topic| !topic.trim().is_empty()),
            user_id_alt: sender.alt_id.clone(),
            chat_id_alt: place.alt_id.clone(),
        }
    }

    /// Returns the person the conversation is with.
    pub fn sender(&self) -> Sender {
        Sender { user_id: self.user_id.clone(), user_name: self.user_name.clone(), ..Sender::default() }
    }

    /// Returns the address to send to.
    pub fn place(&self) -> ChatAddress {
        let kind = self.chat_type.as_deref().and_then(ChatKind::parse).unwrap_or(ChatKind::Dm);
        ChatAddress {
            chat_name: self.chat_name.clone(),
            thread_id: self.thread_id.clone(),
            topic: self.chat_topic.clone(),
            alt_id: self.chat_id_alt.clone(),
            ..ChatAddress::new(kind, self.chat_id.clone())
        }
    }
}

impl SessionEntry {
    pub fn new(key: &str, session: &SessionId, envelope: &Envelope, now: CivilTime) -> Self {
        let origin = ChatOrigin::from_envelope(envelope);
        Self {
            session_key: key.to_owned(),
            session_id: session.as_str().to_owned(),
            created_at: now.to_string(),
            updated_at: now.to_string(),
            display_name: origin.chat_name.clone().or_else(|| origin.user_name.clone()),
            platform: Some(origin.platform.clone()),
            chat_type: origin.chat_type.clone(),
            input_tokens: 0,
            output_tokens: 0,
            cache_read_tokens: 0,
            cache_write_tokens: 0,
            total_tokens: 0,
            last_prompt_tokens: 0,
            estimated_cost_usd: 0.0,
            cost_status: unknown(),
            origin: Some(origin),
            more: Map::new(),
        }
    }

    /// Sets the token counts of the whole session.
    pub fn set_usage(&mut self, usage: Usage, last_prompt: u64) {
        self.input_tokens = usage.input;
        self.output_tokens = usage.output;
        self.cache_read_tokens = usage.cache_read;
        self.cache_write_tokens = usage.cache_write;
        self.total_tokens = usage.total();
        if last_prompt > 0 {
            self.last_prompt_tokens = last_prompt;
        }
    }

    /// Returns when the entry was last used, if that can be parsed.
    pub fn last_used(&self) -> Option<CivilTime> {
        parse_civil(&self.updated_at)
    }
}

/// Parses `2026-03-05T09:15:07.123456`, with or without fraction and offset; the offset is ignored.
pub(crate) fn parse_civil(text: &str) -> Option<CivilTime> {
    let number = |from: usize, to: usize| text.get(from..to)?.parse::<u32>().ok();
    Some(CivilTime {
        year: text.get(0..4)?.parse().ok()?,
        month: number(5, 7).filter(|month| (1..=12).contains(month))?,
        day: number(8, 10).filter(|day| (1..=31).contains(day))?,
        hour: number(11, 13).filter(|hour| *hour < 24)?,
        minute: number(14, 16).filter(|minute| *minute < 60)?,
        second: number(17, 19).unwrap_or(0),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_of_another_program_keeps_what_is_not_known_here() {
        let text = r#"{"session_key":"agent:main:telegram:dm:1","session_id":"20260305_091507_abcdef01",
            "created_at":"2026-03-05T09:15:07.123456","updated_at":"2026-03-05T10:15:07.5+01:00","resume_pending":true}"#;
        let entry: SessionEntry = serde_json::from_str(text).unwrap();
        assert_eq!(entry.cost_status, "unknown");
        assert_eq!(entry.last_used().map(|at| (at.hour, at.minute)), Some((10, 15)));
        let back = serde_json::to_value(&entry).unwrap();
        assert_eq!(back["resume_pending"], true);
        assert!(back["origin"].is_null());
    }

    #[test]
    fn nonsense_for_a_time_is_no_time() {
        for text in ["", "yesterday", "2026-13-01T00:00", "2026-01-01T25:00", "2026-é1-01T00:00"] {
            assert_eq!(parse_civil(text), None, "{text}");
        }
    }
}
