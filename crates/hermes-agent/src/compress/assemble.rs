//! Assembles a shortened conversation in a form every provider accepts. Pure.

use std::ops::Range;

use hermes_types::{ContentPart, Message, MessageContent, Role};

use super::summary::END;
use crate::turn::request::repair_pairs;

const EARLIER: &str = "[Result from earlier conversation — see context summary above]";

/// The prefix of tool texts that survive a compression.
const CARRY_OVER_PREFIX: &str = "[Your active task list was preserved";

/// Joins beginning, summary and end so that roles alternate and every call has its answer.
pub(crate) fn assemble(
    messages: &[Message],
    middle: Range<usize>,
    summary: &str,
    carried: Option<&str>,
) -> Vec<Message> {
    let head = messages.get(..middle.start).unwrap_or_default();
    let tail = messages.get(middle.end..).unwrap_or_default().iter();
    // Texts that an earlier compression carried over are collected again from the tools.
    let mut tail: Vec<Message> = tail.filter(|message| !is_carried_over(message)).cloned().collect();
    let mut summary = summary.to_owned();
    // After a user message, the list would make two user messages in a row, so it goes into the summary.
    let ends_with_user = tail.last().is_some_and(|message| message.role == Role::User);
    let behind = match carried {
        Some(text) if ends_with_user => {
            summary.push_str("\n\n");
            summary.push_str(text);
            None
        }
        other => other,
    };
    let before = head.last().map(|message| message.role);
    let after = tail.first().map(|message| message.role);
    let usual = match before {
        Some(Role::Assistant | Role::Tool) => Role::User,
        _ => Role::Assistant,
    };
    let role = [usual, opposite_role(usual)]
        .into_iter()
        .find(|role| Some(*role) != after && (Some(*role) != before || before == Some(Role::Tool)));
    let mut shortened = head.to_vec();
    match role {
        Some(role) => {
            let mut message =
                if role == Role::User { Message::user(summary) } else { Message::assistant(summary) };
            message.role = role;
            shortened.push(message);
        }
        None => {
            if let Some(first) = tail.first_mut() {
                prepend(&mut first.content, &summary);
            }
        }
    }
    shortened.append(&mut tail);
    if let Some(text) = behind {
        shortened.push(Message::user(text));
    }
    repair_pairs(shortened, EARLIER)
}

fn is_carried_over(message: &Message) -> bool {
    message.role == Role::User && message.content.text().starts_with(CARRY_OVER_PREFIX)
}

fn opposite_role(role: Role) -> Role {
    if role == Role::User { Role::Assistant } else { Role::User }
}

fn prepend(content: &mut MessageContent, text: &str) {
    match content {
        MessageContent::Text(own) => *own = format!("{text}\n\n{END}\n\n{own}"),
        MessageContent::Parts(parts) => parts.insert(0, ContentPart::Text(format!("{text}\n\n{END}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn roles(messages: &[Message]) -> String {
        messages.iter().map(|message| message.role.as_str().chars().next().unwrap_or(' ')).collect()
    }

    fn chat(pattern: &str) -> Vec<Message> {
        pattern.chars().map(|c| if c == 'u' { Message::user("u") } else { Message::assistant("a") }).collect()
    }

    #[test]
    fn roles_take_turns_whatever_the_cut() {
        for pattern in ["uauauauaua", "auauauauau", "uaauuauaua", "uuaauuaauu"] {
            let messages = chat(pattern);
            for start in 1..4 {
                for end in start + 1..9 {
                    let shortened = assemble(&messages, start..end, "S", None);
                    let summary =
                        shortened.iter().position(|message| message.content.text().starts_with('S'));
                    let Some(at) = summary else { panic!("{pattern} {start}..{end}") };
                    let own = shortened[at].role;
                    let inserted = shortened[at].content.text() == "S";
                    if inserted && at > 0 {
                        assert_ne!(
                            shortened[at - 1].role,
                            own,
                            "{pattern} {start}..{end} {}",
                            roles(&shortened)
                        );
                    }
                    if inserted && let Some(next) = shortened.get(at + 1) {
                        assert_ne!(next.role, own, "{pattern} {start}..{end} {}", roles(&shortened));
                    }
                }
            }
        }
    }

    #[test]
    fn what_is_carried_over_comes_last_or_into_the_summary() {
        let messages = chat("uauaua");
        let behind = assemble(&messages, 1..4, "S", Some("LIST"));
        assert_eq!(behind.last().map(|message| message.content.text().into_owned()).as_deref(), Some("LIST"));
        let messages = chat("uauau");
        let inside = assemble(&messages, 1..2, "S", Some("LIST"));
        assert!(inside.iter().any(|message| message.content.text().contains("S\n\nLIST")));
        assert_eq!(inside.last().map(|message| message.content.text().into_owned()).as_deref(), Some("u"));
    }
}
