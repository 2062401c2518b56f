//! Delivery targets as users write them: `origin`, `telegram`, `discord:123:456`, or a list of these.

use hermes_types::{PlatformTrait, platform_facts};
use serde_json::Value;

/// One delivery target, or a keyword for several.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DeliveryTarget {
    /// No delivery: the answer is only written to the run document.
    Local,
    /// The chat in which the job was created.
    Origin,
    /// Every platform that has a home channel.
    All,
    /// The platform's home channel, or the chat of the job's origin on it.
    Platform(String),
    /// A chat by its id, or by its name in the channel directory.
    Chat { platform: String, chat: String, thread: Option<String> },
}

/// Parses a target or a list of targets. An empty text means [`DeliveryTarget::Local`].
pub fn parse_targets(deliver: &str) -> Vec<DeliveryTarget> {
    let text = deliver.trim();
    let listed: Vec<String> = match serde_json::from_str::<Value>(text) {
        Ok(Value::Array(items)) => items.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        _ => text.split(',').map(str::to_owned).collect(),
    };
    let mut found: Vec<DeliveryTarget> = Vec::new();
    for target in listed.iter().map(|text| text.trim()).filter(|text| !text.is_empty()).map(parse_target) {
        if !found.contains(&target) {
            found.push(target);
        }
    }
    if found.is_empty() { vec![DeliveryTarget::Local] } else { found }
}

fn parse_target(text: &str) -> DeliveryTarget {
    let (platform, rest) = text.split_once(':').unwrap_or((text, ""));
    let (platform, rest) = (platform.trim().to_lowercase(), rest.trim());
    if rest.is_empty() {
        return match platform.as_str() {
            "local" => DeliveryTarget::Local,
            "origin" => DeliveryTarget::Origin,
            "all" => DeliveryTarget::All,
            _ => DeliveryTarget::Platform(platform),
        };
    }
    let (chat, thread) = match rest.split_once(':') {
        Some((chat, thread)) if has_thread_targets(&platform) && !thread.is_empty() => {
            (chat, Some(thread.to_owned()))
        }
        _ => (rest, None),
    };
    DeliveryTarget::Chat { platform, chat: chat.to_owned(), thread }
}

/// Tells whether chats of a platform have threads. Elsewhere a colon is part of the id: `!room:server`, `group:abc=`.
fn has_thread_targets(platform: &str) -> bool {
    platform_facts(platform).is_some_and(|facts| facts.has(PlatformTrait::ThreadTargets))
}
