//! The origin of the reasoning that a message carries.
//!
//! `reasoning_details` contains entries of three kinds: those of chat servers, Anthropic's thinking blocks, and
//! Converse's reasoning blocks. Each is sent back only to its origin, byte for byte. Thinking blocks of an endpoint
//! other than Claude's own are followed by an entry that names the endpoint, because no other endpoint can check
//! their signatures. Code that alters a message must drop its details.

use hermes_types::{JsonFields, RawJson};

use super::fields::{JsonFieldsExt as _, raw_list};
use super::options::CLAUDE_FAMILY;

const ORIGIN: &str = "hermes.origin";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Chat,
    Thinking,
    Converse,
    Origin,
}

fn kind(entry: &RawJson) -> Kind {
    let Ok(fields) = entry.read::<JsonFields>() else {
        return Kind::Chat;
    };
    match fields.text("type").as_deref() {
        Some("thinking" | "redacted_thinking") => Kind::Thinking,
        Some(ORIGIN) => Kind::Origin,
        None if fields.get("reasoningContent").is_some() => Kind::Converse,
        _ => Kind::Chat,
    }
}

fn entries(details: &RawJson) -> Vec<RawJson> {
    details.read().unwrap_or_default()
}

/// Returns what is sent back to a chat server: the exact bytes if all of it came from a chat server, else that
/// part.
pub(crate) fn for_chat(details: &RawJson) -> Option<RawJson> {
    let Ok(entries) = details.read::<Vec<RawJson>>() else {
        return Some(details.clone());
    };
    let kept: Vec<&RawJson> = entries.iter().filter(|entry| kind(entry) == Kind::Chat).collect();
    if kept.len() == entries.len() {
        return (!entries.is_empty()).then(|| details.clone());
    }
    raw_list(kept)
}

/// Returns the thinking blocks that an endpoint of that family can check.
pub(crate) fn thinking_blocks(details: &RawJson, family: &str) -> Vec<RawJson> {
    let entries = entries(details);
    let origin = entries
        .iter()
        .filter(|entry| kind(entry) == Kind::Origin)
        .find_map(|entry| entry.read::<JsonFields>().ok()?.text("family"));
    if origin.as_deref().unwrap_or(CLAUDE_FAMILY) != family {
        return Vec::new();
    }
    entries.into_iter().filter(|entry| kind(entry) == Kind::Thinking && is_signed(entry)).collect()
}

fn is_signed(block: &RawJson) -> bool {
    let Ok(fields) = block.read::<JsonFields>() else { return false };
    ["signature", "data"].into_iter().any(|name| fields.text(name).is_some_and(|text| !text.is_empty()))
}

pub(crate) fn converse_blocks(details: &RawJson) -> Vec<RawJson> {
    entries(details).into_iter().filter(|entry| kind(entry) == Kind::Converse).collect()
}

/// Returns thinking blocks in the form in which a message stores them.
pub(crate) fn stored_thinking(blocks: &[RawJson], family: &str) -> Option<RawJson> {
    if blocks.is_empty() {
        return None;
    }
    let origin = (family != CLAUDE_FAMILY)
        .then(|| RawJson::from_value(&serde_json::json!({"type": ORIGIN, "family": family})));
    raw_list(blocks.iter().chain(&origin))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(text: &str) -> RawJson {
        RawJson::parse(text.to_owned()).unwrap()
    }

    #[test]
    fn each_kind_goes_home_only() {
        let chat = raw(r#"[ {"type":"reasoning.text", "text":"a"} ]"#);
        assert_eq!(for_chat(&chat), Some(chat.clone()));
        assert!(thinking_blocks(&chat, CLAUDE_FAMILY).is_empty());

        let block = raw(r#"{"type":"thinking","thinking":"t", "signature":"s"}"#);
        let claude = stored_thinking(std::slice::from_ref(&block), CLAUDE_FAMILY).unwrap();
        assert_eq!(thinking_blocks(&claude, CLAUDE_FAMILY), std::slice::from_ref(&block));
        assert!(thinking_blocks(&claude, "api.minimax.io").is_empty());
        assert_eq!(for_chat(&claude), None);

        let other = stored_thinking(std::slice::from_ref(&block), "api.minimax.io").unwrap();
        assert_eq!(thinking_blocks(&other, "api.minimax.io"), [block]);
        assert!(thinking_blocks(&other, CLAUDE_FAMILY).is_empty());
    }

    #[test]
    fn unsigned_thinking_is_not_replayed() {
        let details = raw(
            r#"[{"type":"thinking","thinking":"t","signature":""},{"type":"redacted_thinking","data":"d"}]"#,
        );
        assert_eq!(thinking_blocks(&details, CLAUDE_FAMILY).len(), 1);
    }
}
