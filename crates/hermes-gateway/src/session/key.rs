//! Determines the conversation a message belongs to.
//!
//! Keys are opaque and stay byte for byte what existing homes have.

use hermes_types::{ChatAddress, ChatKind, Sender};

/// Says whose conversations are kept apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SessionIsolation {
    /// `group_sessions_per_user`: whether each member of a group has their own conversation.
    pub in_groups: ConversationSharing,
    /// `thread_sessions_per_user`: the same inside threads.
    pub in_threads: ConversationSharing,
}

/// Says who shares a conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConversationSharing {
    Shared,
    PerUser,
}

impl SessionIsolation {
    /// Says who shares the conversation of a chat that is no direct message.
    pub(crate) fn of(self, place: &ChatAddress) -> ConversationSharing {
        let is_thread = place.thread_id.as_deref().is_some_and(|id| !id.is_empty());
        if is_thread { self.in_threads } else { self.in_groups }
    }
}

impl Default for SessionIsolation {
    fn default() -> Self {
        Self { in_groups: ConversationSharing::PerUser, in_threads: ConversationSharing::PerUser }
    }
}

/// Returns the conversation's key.
pub fn session_key(
    platform: &str,
    place: &ChatAddress,
    sender: &Sender,
    isolation: SessionIsolation,
) -> String {
    let mut parts = vec!["agent", "main", platform, place.kind.as_str()];
    let chat = Some(place.chat_id.as_str()).filter(|id| !id.is_empty());
    let thread = place.thread_id.as_deref().filter(|id| !id.is_empty());
    let participant = sender.alt_id.as_deref().or(sender.user_id.as_deref()).filter(|id| !id.is_empty());
    parts.extend(chat);
    parts.extend(thread);
    if place.kind == ChatKind::Dm {
        if chat.is_none() && thread.is_none() {
            parts.extend(participant);
        }
        return parts.join(":");
    }
    if isolation.of(place) == ConversationSharing::PerUser {
        parts.extend(participant);
    }
    parts.join(":")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(platform: &str, kind: &str, chat: &str, thread: &str, user: &str, alt: &str) -> String {
        let some = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        let mut place = ChatAddress::new(ChatKind::parse(kind).unwrap(), chat);
        place.thread_id = some(thread);
        let sender = Sender { user_id: some(user), user_name: None, alt_id: some(alt), handle: None };
        session_key(platform, &place, &sender, SessionIsolation::default())
    }

    #[test]
    fn keys_are_those_of_existing_homes() {
        for (expected, platform, kind, chat, thread, user, alt) in [
            ("agent:main:telegram:dm:123456", "telegram", "dm", "123456", "", "123456", ""),
            ("agent:main:telegram:dm:9:77", "telegram", "dm", "9", "77", "9", ""),
            ("agent:main:telegram:dm:77", "telegram", "dm", "", "77", "9", ""),
            ("agent:main:telegram:dm:9", "telegram", "dm", "", "", "9", ""),
            ("agent:main:telegram:dm", "telegram", "dm", "", "", "", ""),
            ("agent:main:telegram:group:-1001:17:42", "telegram", "group", "-1001", "17", "42", ""),
            ("agent:main:discord:thread:998:998:42", "discord", "thread", "998", "998", "42", ""),
            ("agent:main:slack:group:C01:1711.2:U07", "slack", "group", "C01", "1711.2", "U07", ""),
            ("agent:main:signal:group:group:ABC=:uuid", "signal", "group", "group:ABC=", "", "+49", "uuid"),
            (
                "agent:main:webhook:webhook:webhook:gh:deliv-1:webhook:gh",
                "webhook",
                "webhook",
                "webhook:gh:deliv-1",
                "",
                "webhook:gh",
                "",
            ),
            (
                "agent:main:homeassistant:channel:ha_events:homeassistant",
                "homeassistant",
                "channel",
                "ha_events",
                "",
                "homeassistant",
                "",
            ),
        ] {
            assert_eq!(key(platform, kind, chat, thread, user, alt), expected);
        }
    }

    #[test]
    fn a_shared_group_has_one_key() {
        let place = ChatAddress::new(ChatKind::Group, "-5");
        let sender = Sender { user_id: Some("1".into()), ..Sender::default() };
        let shared = SessionIsolation {
            in_groups: ConversationSharing::Shared,
            in_threads: ConversationSharing::Shared,
        };
        assert_eq!(session_key("telegram", &place, &sender, shared), "agent:main:telegram:group:-5");
    }
}
