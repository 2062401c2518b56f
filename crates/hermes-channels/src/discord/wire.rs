//! Discord's objects: only the fields that are used, and required only where necessary.

use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// A frame of the gateway.
#[derive(Debug, Deserialize)]
pub(super) struct GatewayPayload {
    pub(super) op: u64,
    #[serde(default)]
    pub(super) d: Value,
    #[serde(default)]
    pub(super) s: Option<u64>,
    #[serde(default)]
    pub(super) t: Option<String>,
}

#[derive(Debug, Clone, Deserialize)]
pub(super) struct ReadyEvent {
    pub(super) session_id: String,
    pub(super) resume_gateway_url: String,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct DiscordUser {
    pub(super) id: String,
    pub(super) username: String,
    pub(super) global_name: Option<String>,
    #[serde(deserialize_with = "or_default")]
    pub(super) bot: bool,
    /// The user's membership in this server; only in mentions.
    pub(super) member: Option<GuildMember>,
}

impl DiscordUser {
    /// Returns the name users see.
    pub(super) fn display_name(&self, member: Option<&GuildMember>) -> String {
        let nick = member.or(self.member.as_ref()).and_then(|member| member.nick.clone());
        nick.or_else(|| self.global_name.clone()).unwrap_or_else(|| self.username.clone())
    }
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct GuildMember {
    pub(super) nick: Option<String>,
    pub(super) user: Option<Box<DiscordUser>>,
    /// The user's permissions in the channel, as a decimal bit set.
    pub(super) permissions: Option<String>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct DiscordMessage {
    pub(super) id: String,
    pub(super) channel_id: String,
    pub(super) guild_id: Option<String>,
    #[serde(deserialize_with = "or_default")]
    pub(super) author: DiscordUser,
    pub(super) member: Option<GuildMember>,
    #[serde(deserialize_with = "or_default")]
    pub(super) content: String,
    #[serde(rename = "type", deserialize_with = "or_default")]
    pub(super) kind: u64,
    #[serde(deserialize_with = "or_default")]
    pub(super) flags: u64,
    #[serde(deserialize_with = "readable")]
    pub(super) mentions: Vec<DiscordUser>,
    #[serde(deserialize_with = "readable")]
    pub(super) attachments: Vec<DiscordAttachment>,
    #[serde(deserialize_with = "readable")]
    pub(super) sticker_items: Vec<StickerItem>,
    #[serde(deserialize_with = "readable")]
    pub(super) message_snapshots: Vec<MessageSnapshot>,
    pub(super) message_reference: Option<MessageReference>,
    pub(super) referenced_message: Option<Box<DiscordMessage>>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct DiscordAttachment {
    #[serde(deserialize_with = "or_default")]
    pub(super) filename: String,
    pub(super) content_type: Option<String>,
    pub(super) size: Option<u64>,
    #[serde(deserialize_with = "or_default")]
    pub(super) url: String,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct StickerItem {
    #[serde(deserialize_with = "or_default")]
    pub(super) name: String,
}

/// A forwarded message.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct MessageSnapshot {
    #[serde(deserialize_with = "or_default")]
    pub(super) message: ForwardedMessage,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct ForwardedMessage {
    #[serde(deserialize_with = "or_default")]
    pub(super) content: String,
    #[serde(deserialize_with = "readable")]
    pub(super) attachments: Vec<DiscordAttachment>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct MessageReference {
    /// The kind of reference; 1 is a forward, not a reply.
    #[serde(rename = "type", deserialize_with = "or_default")]
    pub(super) kind: u64,
    pub(super) message_id: Option<String>,
}

/// A channel or a thread.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(super) struct ChannelInfo {
    pub(super) id: String,
    #[serde(rename = "type", deserialize_with = "or_default")]
    pub(super) kind: u64,
    pub(super) name: Option<String>,
    pub(super) topic: Option<String>,
    pub(super) guild_id: Option<String>,
    pub(super) parent_id: Option<String>,
}

impl ChannelInfo {
    pub(super) fn is_thread(&self) -> bool {
        matches!(self.kind, 10..=12)
    }

    /// Tells whether it is a chat with one user, or a group chat outside servers.
    pub(super) fn is_direct(&self) -> bool {
        matches!(self.kind, 1 | 3)
    }

    pub(super) fn is_forum(&self) -> bool {
        matches!(self.kind, 15 | 16)
    }

    /// Tells whether its messages can start threads.
    pub(super) fn supports_threads(&self) -> bool {
        matches!(self.kind, 0 | 5)
    }
}

/// A command that was used, or a button that was pressed.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct DiscordInteraction {
    pub(super) id: String,
    pub(super) token: String,
    pub(super) application_id: String,
    #[serde(rename = "type")]
    pub(super) kind: u64,
    #[serde(default)]
    pub(super) channel_id: Option<String>,
    #[serde(default)]
    pub(super) guild_id: Option<String>,
    #[serde(default)]
    pub(super) member: Option<GuildMember>,
    #[serde(default)]
    pub(super) user: Option<DiscordUser>,
    #[serde(default, deserialize_with = "or_default")]
    pub(super) data: InteractionData,
    #[serde(default)]
    pub(super) message: Option<DiscordMessage>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct InteractionData {
    #[serde(deserialize_with = "or_default")]
    pub(super) name: String,
    #[serde(deserialize_with = "or_default")]
    pub(super) custom_id: String,
    #[serde(deserialize_with = "readable")]
    pub(super) options: Vec<CommandOption>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct CommandOption {
    #[serde(deserialize_with = "or_default")]
    pub(super) name: String,
    pub(super) value: Value,
}

/// Reads null or a value of another type as the default.
fn or_default<'de, D: Deserializer<'de>, T: Default + serde::de::DeserializeOwned>(
    from: D,
) -> Result<T, D::Error> {
    let value = Value::deserialize(from)?;
    Ok(serde_json::from_value(value).unwrap_or_default())
}

/// Reads the valid elements and skips the others.
fn readable<'de, D: Deserializer<'de>, T: serde::de::DeserializeOwned>(from: D) -> Result<Vec<T>, D::Error> {
    let list = match Value::deserialize(from)? {
        Value::Array(list) => list,
        _ => Vec::new(),
    };
    Ok(list.into_iter().filter_map(|value| serde_json::from_value(value).ok()).collect())
}
