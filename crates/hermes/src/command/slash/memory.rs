//! `/memory` and `/forget`: what is remembered about the person who asks.

use super::{CommandInput, CommandReply};
use crate::command::memory::PersonMemory;

const USAGE: &str = "Usage: /memory [show | search WORDS | log | undo [N]]";

pub(super) fn run(arguments: &str, input: &CommandInput<'_>) -> CommandReply {
    if !input.is_private {
        return CommandReply::text("What is remembered about you is shown in a direct message only.");
    }
    let memory = PersonMemory::open(&input.context, &input.config, input.account.as_ref());
    let (word, rest) = arguments.trim().split_once(char::is_whitespace).unwrap_or((arguments.trim(), ""));
    let text = match (word, rest.trim()) {
        ("" | "show", "") => Ok(memory.describe()),
        ("search", words) if !words.is_empty() => memory.search(words, input.store),
        ("log", "") => Ok(memory.list_changes(10)),
        ("undo", number) => match (number, number.parse().ok()) {
            ("", _) => memory.undo(None),
            (_, Some(number)) => memory.undo(Some(number)),
            (_, None) => Ok(USAGE.to_owned()),
        },
        _ => Ok(USAGE.to_owned()),
    };
    CommandReply::text(text.unwrap_or_else(|error| format!("⚠️ {error:#}")))
}

pub(super) fn forget(arguments: &str, input: &CommandInput<'_>) -> CommandReply {
    if arguments.trim() != "me" {
        return CommandReply::text("Usage: /forget me");
    }
    let memory = PersonMemory::open(&input.context, &input.config, input.account.as_ref());
    CommandReply::text(match memory.forget() {
        Ok(true) => "✓ Your profile is forgotten. Conversations stay until you delete them.".to_owned(),
        Ok(false) => "No profile of you is kept. Conversations stay until you delete them.".to_owned(),
        Err(error) => format!("⚠️ {error:#}"),
    })
}
