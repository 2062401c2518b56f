//! Names a conversation after its first exchange.

use hermes_text::{Title, head, single_line};
use hermes_types::{Cancel, Deadline, Message, ModelRequest, Role};

use crate::agent::Agent;
use crate::conversation::Conversation;
use crate::review::record_usage;

const INSTRUCTIONS: &str = include_str!("texts/title.md").trim_ascii();
const MAX_EXCERPT_CHARS: usize = 500;
const MAX_TITLE_CHARS: usize = 80;
const MAX_TOKENS: u64 = 30;
const MAX_USER_TURNS: usize = 2;

/// Names a conversation that has had its first exchange and has no title. A failure is not reported.
pub(crate) async fn title_conversation(agent: &Agent, conversation: &Conversation, cancel: &Cancel) {
    let _ = try_title(agent, conversation, cancel).await;
}

async fn try_title(agent: &Agent, conversation: &Conversation, cancel: &Cancel) -> Option<()> {
    if conversation.user_turns() > MAX_USER_TURNS {
        return None;
    }
    let row = agent.store.session(&conversation.session).await.ok()??;
    if row.title.is_some() {
        return None;
    }
    let said = |role: Role| {
        conversation
            .messages
            .iter()
            .find(|message| message.role == role && !message.content.text().trim().is_empty())
            .map(|message| head(&message.content.text(), MAX_EXCERPT_CHARS).to_owned())
    };
    let (user, assistant) = (said(Role::User)?, said(Role::Assistant)?);
    let side = agent.models.side();
    let request = ModelRequest {
        model: side.name.clone(),
        system: INSTRUCTIONS.to_owned(),
        messages: vec![Message::user(format!("User: {user}\n\nAssistant: {assistant}"))],
        tools: std::sync::Arc::default(),
        max_tokens: Some(MAX_TOKENS),
        temperature: Some(0.3),
        effort: None,
        session: None,
        deadline: Deadline::after(&*agent.clock, side.timeout),
        cancel: cancel.clone(),
    };
    let completion = agent.models.ask_side(&*agent.clock, request).await.ok()?;
    if let Err(error) = record_usage(agent, conversation, (&completion).into()).await {
        tracing::warn!(%error, "a charge was not recorded");
    }
    let title = clean_title(&completion.message.content.text())?;
    let sanitised = Title::sanitise(&title).ok()??;
    if let Err(error) = agent.store.set_title(&conversation.session, Some(sanitised)).await {
        tracing::info!(%error, "a conversation stays without a name");
    }
    Some(())
}

/// Cleans a title: no quotes, no leading `Title:`, not too long.
fn clean_title(text: &str) -> Option<String> {
    let text = hermes_text::strip_think(text);
    let line = single_line(text.trim());
    let line = line.trim_matches(|c: char| matches!(c, '"' | '\'' | '`' | '*' | ' ' | '“' | '”'));
    let line = match line.get(..6) {
        Some(start) if start.eq_ignore_ascii_case("title:") => line.get(6..).unwrap_or_default(),
        _ => line,
    };
    let line = line.trim_matches(|c: char| matches!(c, '"' | '\'' | ' ' | '“' | '”' | '.'));
    if line.is_empty() {
        return None;
    }
    if line.chars().count() > MAX_TITLE_CHARS {
        return Some(format!("{}...", head(line, MAX_TITLE_CHARS - 3)));
    }
    Some(line.to_owned())
}

#[cfg(test)]
mod tests {
    use super::clean_title;

    #[test]
    fn titles_are_stripped_of_their_wrapping() {
        assert_eq!(clean_title("\"Title: Sorting photos\"").as_deref(), Some("Sorting photos"));
        assert_eq!(clean_title("<think>hm</think> title: “Über Züge.”").as_deref(), Some("Über Züge"));
        assert_eq!(clean_title(" \" \" "), None);
        assert!(
            clean_title(&"x".repeat(100))
                .is_some_and(|title| title.chars().count() == 80 && title.ends_with("..."))
        );
    }
}
