//! Describes the chat of a conversation for the model.

use std::fmt::Write as _;

use hermes_types::{ChatKind, PlatformTrait, platform_has};
use sha2::{Digest as _, Sha256};

use crate::chat_agents::ChatParty;
use crate::settings::GatewaySettings;

/// Returns the section of the system text about this chat.
pub(crate) fn context_prompt(
    chat: ChatParty<'_>,
    settings: &GatewaySettings,
    connected: &[String],
) -> String {
    let mask =
        settings.config.flag("privacy.redact_pii") && platform_has(chat.platform, PlatformTrait::MaskableIds);
    let mut text = String::from("## Current Session Context\n\n");
    // Writing to a `String` cannot fail.
    let _ = writeln!(text, "**Source:** {}", source_line(chat, mask));
    if let Some(topic) = chat.place.topic.as_deref().filter(|topic| !topic.trim().is_empty()) {
        let _ = writeln!(text, "**Channel topic:** {topic}");
    }
    let user = chat.sender.user_name.as_deref().map(str::to_owned);
    let id = chat
        .sender
        .user_id
        .as_deref()
        .map(|id| if mask { format!("user_{}", short_hash(id)) } else { id.to_owned() });
    match (user, id) {
        (Some(name), Some(id)) => _ = writeln!(text, "**User:** {name} (ID: {id})"),
        (Some(one), None) | (None, Some(one)) => _ = writeln!(text, "**User:** {one}"),
        (None, None) => {}
    }
    if platform_has(chat.platform, PlatformTrait::MentionsOnly) {
        text.push_str("\nOnly messages addressed to you reach you here. You cannot search the channel's history, pin messages or administer it.\n");
    }
    let mut platforms: Vec<&str> = connected.iter().map(String::as_str).collect();
    platforms.sort_unstable();
    let _ = writeln!(text, "\n**Connected platforms:** local, {}", platforms.join(", "));
    let homes: Vec<String> = platforms
        .iter()
        .filter_map(|platform| {
            let home = settings.home_channel(platform)?;
            let home = if mask { short_hash(&home) } else { home };
            Some(format!("- {platform}: {home}"))
        })
        .collect();
    if !homes.is_empty() {
        let _ = writeln!(text, "**Home channels:**\n{}", homes.join("\n"));
    }
    text.push_str("**Where scheduled tasks can deliver to:** `origin` (this chat), `local` (a file only), a platform's name (its home channel), `platform:chat_id`.");
    text
}

fn source_line(chat: ChatParty<'_>, mask: bool) -> String {
    let place = chat.place;
    let platform = chat.platform;
    let chat = if mask { short_hash(&place.chat_id) } else { place.chat_id.clone() };
    let name = place.chat_name.as_deref().unwrap_or(&chat);
    let what = match place.kind {
        ChatKind::Dm => "direct message".to_owned(),
        ChatKind::Group => format!("group {name} (ID: {chat})"),
        ChatKind::Channel => format!("channel {name} (ID: {chat})"),
        ChatKind::Thread => format!("thread {name} (ID: {chat})"),
        ChatKind::Webhook => format!("webhook {name}"),
    };
    let thread = place.thread_id.as_deref().map(|id| format!(", thread {id}")).unwrap_or_default();
    format!("{platform} — {what}{thread}")
}

/// Returns twelve hex digits of the id's hash; a prefix such as `group:` stays.
fn short_hash(id: &str) -> String {
    let (prefix, rest) = id.rsplit_once(':').map_or(("", id), |(prefix, rest)| (prefix, rest));
    let digest = Sha256::digest(rest.as_bytes());
    let mut hex = String::new();
    for byte in digest.iter().take(6) {
        let _ = write!(hex, "{byte:02x}");
    }
    if prefix.is_empty() { hex } else { format!("{prefix}:{hex}") }
}
