//! Summarizes a conversation with a side model.

use hermes_text::strip_think;
use hermes_types::{Clock, Completion, Message, ModelError, ModelRequest, SideModel, ToolContext};

const TRIES: usize = 3;
const MOST_TOKENS: u64 = 10_000;
const TEMPERATURE: f32 = 0.1;

/// Returns the summary, or `None` if the model produced none.
pub(super) async fn summarise(
    side: &SideModel,
    clock: &dyn Clock,
    query: &str,
    transcript: &str,
    context: &ToolContext<'_>,
    spent: impl Fn(&Completion),
) -> Option<String> {
    let request = ModelRequest {
        model: side.name.clone(),
        system: include_str!("../texts/session_summary.md").trim().to_owned(),
        messages: vec![Message::user(format!("Searched for: {query}\n\nConversation:\n{transcript}"))],
        tools: std::sync::Arc::default(),
        max_tokens: Some(MOST_TOKENS),
        temperature: Some(TEMPERATURE),
        effort: None,
        session: None,
        deadline: context.deadline.at_most(clock, side.timeout),
        cancel: context.cancel.clone(),
    };
    for _ in 0..TRIES {
        match side.model.complete(&request, &mut |_| {}).await {
            Ok(completion) => {
                spent(&completion);
                let text = completion.message.content.text();
                let text = strip_think(&text);
                if !text.trim().is_empty() {
                    return Some(text.trim().to_owned());
                }
            }
            Err(ModelError::GiveUp { .. }) => {}
            // A retry would fail in the same way.
            Err(_) => return None,
        }
    }
    None
}
