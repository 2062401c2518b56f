//! `/compress`: replaces the older part of a conversation by a summary.

use hermes_agent::{Agent, CompressionPreview, CompressionReport, Conversation, Error};
use hermes_text::with_commas;
use hermes_types::{Cancel, Frontend};

use super::ConversationReply;

const MIN_MESSAGES: usize = 4;
pub(super) const TOO_LITTLE: &str = "There is too little to compress; at least 4 messages are needed.";

/// Compresses a conversation; `focus` is what the summary must keep. Returns `None` when it was stopped before
/// anything was changed.
pub async fn compress(
    agent: &Agent,
    conversation: &mut Conversation,
    focus: &str,
    frontend: &dyn Frontend,
    cancel: &Cancel,
) -> Result<Option<ConversationReply>, Error> {
    if conversation.messages().len() < MIN_MESSAGES {
        return Ok(Some(ConversationReply::plain(TOO_LITTLE)));
    }
    if focus == "--preview" {
        return Ok(Some(ConversationReply::plain(describe(agent.preview_compression(conversation)))));
    }
    let focus = (!focus.is_empty()).then_some(focus);
    let Some(report) = agent.compress(conversation, focus, frontend, cancel).await? else {
        let unchanged = ConversationReply::plain("The conversation could not be made shorter.");
        return Ok((!cancel.is_cancelled()).then_some(unchanged));
    };
    let CompressionReport { messages_before, messages_after, tokens_before, tokens_after } = report;
    let late = if cancel.is_cancelled() { "It was too late to stop the compression. " } else { "" };
    Ok(Some(ConversationReply::plain(format!(
        "{late}🗜️ Compressed: {messages_before} → {messages_after} messages, ~{} → ~{} tokens",
        with_commas(tokens_before),
        with_commas(tokens_after)
    ))))
}

/// Says what a compression would do.
fn describe(preview: CompressionPreview) -> String {
    let CompressionPreview { messages, tokens, summarized, summarized_tokens } = preview;
    let total = with_commas(tokens);
    if summarized == 0 {
        return format!(
            "🗜️ {messages} messages, ~{total} tokens. No part is old enough for a summary; only long tool results would be moved to \
             files. Nothing was changed."
        );
    }
    format!(
        "🗜️ {messages} messages, ~{total} tokens. A summary would replace {summarized} of them (~{} tokens), and {} would stay as \
         they are. Nothing was changed.",
        with_commas(summarized_tokens),
        messages - summarized
    )
}
