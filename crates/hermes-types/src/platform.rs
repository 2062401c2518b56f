//! The chat platforms: one table of the facts that several crates need about each.
//!
//! How a platform is spoken to is in `hermes-channels`. Every other list of platforms is derived from this table.

/// A chat platform, or a service whose events become messages.
#[derive(Debug, Clone, Copy)]
pub struct PlatformFacts {
    /// The name in session keys, configuration and targets: `telegram`.
    pub name: &'static str,
    /// The name for users: `Telegram`.
    pub label: &'static str,
    /// How its messages are sent and who starts them.
    pub kind: PlatformKind,
    /// The form of the texts it shows.
    pub text_form: TextForm,
    /// The variable with the chat for messages that answer nothing.
    pub home_variable: &'static str,
    pub traits: &'static [PlatformTrait],
}

/// A property that only some platforms have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlatformTrait {
    /// A target may name a thread: `discord:123:456`. Elsewhere a colon is part of the id.
    ThreadTargets,
    /// Ids of people and chats can be masked, because no mention needs them.
    MaskableIds,
    /// In group chats only messages that address the bot reach it, and it cannot read others.
    MentionsOnly,
    /// A chat is not told how to choose a home channel.
    SilentAboutHome,
    /// The transport has checked the sender. What comes in are events of other services, whose text anybody may have
    /// written: data, never commands.
    ExternalEvents,
    /// One message carries a text and files together.
    FilesWithText,
    /// Unknown users get no answer unless the user asks for one: answering would confirm the address to anybody.
    IgnoresUnknownUsers,
    /// An id is a number, `@` and a server. Elsewhere the part before an `@` proves nothing.
    NumberIds,
}

impl PlatformFacts {
    /// Tells whether the platform has a property.
    pub fn has(&self, wanted: PlatformTrait) -> bool {
        self.traits.contains(&wanted)
    }
}

/// Says what a platform is to the gateway.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlatformKind {
    /// People write to the agent, and messages can be sent there unasked.
    Chat,
    /// Programs send requests or events; answers go back to them or to another platform.
    Requests,
}

/// The form of the texts a platform shows; the prompt has a hint for each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TextForm {
    /// Chats that show no markup.
    PlainChat,
    /// Chats that show Markdown, or a dialect it is converted to.
    MarkdownChat,
    Email,
    TextMessage,
    /// Whatever the program that asked expects.
    Unspecified,
}

impl TextForm {
    /// Returns the name of the form's hint in the prompt.
    pub const fn hint_name(self) -> &'static str {
        match self {
            Self::PlainChat => "plain-chat",
            Self::MarkdownChat => "markdown-chat",
            Self::Email => "email",
            Self::TextMessage => "text-message",
            Self::Unspecified => "",
        }
    }
}

const fn chat(
    name: &'static str,
    label: &'static str,
    text_form: TextForm,
    home_variable: &'static str,
    traits: &'static [PlatformTrait],
) -> PlatformFacts {
    PlatformFacts { name, label, kind: PlatformKind::Chat, text_form, home_variable, traits }
}

const fn requests(
    name: &'static str,
    label: &'static str,
    home_variable: &'static str,
    traits: &'static [PlatformTrait],
) -> PlatformFacts {
    let facts = chat(name, label, Unspecified, home_variable, traits);
    PlatformFacts { kind: PlatformKind::Requests, ..facts }
}

use PlatformTrait::{
    ExternalEvents, FilesWithText, IgnoresUnknownUsers, MaskableIds, MentionsOnly, NumberIds,
    SilentAboutHome, ThreadTargets,
};
use TextForm::{Email, MarkdownChat, PlainChat, TextMessage, Unspecified};

/// All platforms, in the order users see.
pub const PLATFORM_FACTS: &[PlatformFacts] = &[
    chat("telegram", "Telegram", MarkdownChat, "TELEGRAM_HOME_CHANNEL", &[ThreadTargets, MaskableIds]),
    chat("discord", "Discord", MarkdownChat, "DISCORD_HOME_CHANNEL", &[ThreadTargets, MentionsOnly]),
    chat("slack", "Slack", MarkdownChat, "SLACK_HOME_CHANNEL", &[ThreadTargets, MentionsOnly]),
    chat("whatsapp", "WhatsApp", PlainChat, "WHATSAPP_HOME_CHANNEL", &[MaskableIds, NumberIds]),
    chat("whatsapp_cloud", "WhatsApp Cloud", PlainChat, "WHATSAPP_CLOUD_HOME_CHANNEL", &[MaskableIds]),
    chat("signal", "Signal", PlainChat, "SIGNAL_HOME_CHANNEL", &[MaskableIds]),
    chat("matrix", "Matrix", Unspecified, "MATRIX_HOME_ROOM", &[]),
    chat("mattermost", "Mattermost", Unspecified, "MATTERMOST_HOME_CHANNEL", &[ThreadTargets]),
    chat(
        "homeassistant",
        "Home Assistant",
        Unspecified,
        "HOMEASSISTANT_HOME_CHANNEL",
        &[SilentAboutHome, ExternalEvents],
    ),
    chat("dingtalk", "DingTalk", Unspecified, "DINGTALK_HOME_CHANNEL", &[]),
    chat(
        "email",
        "Email",
        Email,
        "EMAIL_HOME_ADDRESS",
        &[SilentAboutHome, FilesWithText, IgnoresUnknownUsers],
    ),
    chat("sms", "SMS", TextMessage, "SMS_HOME_CHANNEL", &[]),
    requests("webhook", "Webhooks", "WEBHOOK_HOME_CHANNEL", &[SilentAboutHome, ExternalEvents]),
    requests("api_server", "API server", "API_SERVER_HOME_CHANNEL", &[SilentAboutHome]),
];

/// Returns the facts about the platform of that name.
pub fn platform_facts(name: &str) -> Option<&'static PlatformFacts> {
    PLATFORM_FACTS.iter().find(|platform| platform.name == name)
}

/// Tells whether the platform of that name has a property. An unknown one has none.
pub fn platform_has(name: &str, wanted: PlatformTrait) -> bool {
    platform_facts(name).is_some_and(|platform| platform.has(wanted))
}

/// Returns the names of the platforms that messages can be sent to.
pub fn chat_platforms() -> impl Iterator<Item = &'static str> {
    PLATFORM_FACTS.iter().filter(|platform| platform.kind == PlatformKind::Chat).map(|platform| platform.name)
}

/// Returns a platform's name for users. An unknown one is shown with a capital letter.
pub fn platform_label(name: &str) -> String {
    if let Some(platform) = platform_facts(name) {
        return platform.label.to_owned();
    }
    let mut letters = name.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn names_and_home_variables_are_unique() {
        let mut seen = HashSet::new();
        for platform in PLATFORM_FACTS {
            assert!(seen.insert(platform.name), "{} has two rows", platform.name);
            assert!(seen.insert(platform.home_variable), "{} is used twice", platform.home_variable);
        }
    }

    #[test]
    fn an_unknown_platform_is_shown_with_a_capital_letter() {
        assert_eq!(platform_label("homeassistant"), "Home Assistant");
        assert_eq!(platform_label("irc"), "Irc");
        assert_eq!(platform_label(""), "");
    }
}
