//! A model whose server returns tool calls as text: they are taken out of the answer.
//!
//! Invariant: no part of a call is shown. An answer whose calls are broken is passed on as the text it is.

use std::sync::Arc;

use hermes_text::{ToolCallParser, ToolCallStream};
use hermes_types::{
    BoxFuture, Completion, Delta, DeltaSink, FinishReason, Model, ModelError, ModelRequest, ToolCall,
};

/// Reads the calls in the text of another model's answers.
#[expect(missing_debug_implementations, reason = "it holds a port")]
pub struct RawToolCallModel {
    inner: Arc<dyn Model>,
    parser: ToolCallParser,
}

impl RawToolCallModel {
    pub fn new(inner: Arc<dyn Model>, parser: ToolCallParser) -> Self {
        Self { inner, parser }
    }

    async fn ask(&self, request: &ModelRequest, sink: DeltaSink<'_>) -> Result<Completion, ModelError> {
        let mut stream = ToolCallStream::new(self.parser);
        let mut completion = {
            let mut pass = |delta: Delta| match delta {
                Delta::Text(text) => {
                    let visible = stream.push(&text);
                    if !visible.is_empty() {
                        sink(Delta::Text(visible));
                    }
                }
                Delta::Restart => {
                    stream = ToolCallStream::new(self.parser);
                    sink(Delta::Restart);
                }
                other => sink(other),
            };
            self.inner.complete(request, &mut pass).await?
        };
        let text = completion.message.content.text().into_owned();
        // A server that understands the form itself has left nothing in the text.
        let parsed = if completion.message.tool_calls.is_empty() { self.parser.parse(&text) } else { None };
        let Some(parsed) = parsed else {
            let (_, rest) = stream.finish();
            if !rest.is_empty() && completion.message.tool_calls.is_empty() {
                sink(Delta::Text(rest));
            }
            return Ok(completion);
        };
        for call in &parsed.calls {
            sink(Delta::ToolStarted { name: call.name.clone() });
        }
        let calls = parsed.calls.into_iter();
        completion.message.tool_calls =
            calls.map(|call| ToolCall::new(call.id.as_deref(), call.name, call.arguments)).collect();
        completion.message.content = parsed.content.unwrap_or_default().into();
        completion.message.finish_reason = Some(FinishReason::ToolCalls);
        Ok(completion)
    }
}

impl Model for RawToolCallModel {
    fn complete<'a>(
        &'a self,
        request: &'a ModelRequest,
        sink: DeltaSink<'a>,
    ) -> BoxFuture<'a, Result<Completion, ModelError>> {
        if request.tools.is_empty() {
            return self.inner.complete(request, sink);
        }
        Box::pin(self.ask(request, sink))
    }

    fn context_window(&self, model: &str) -> u64 {
        self.inner.context_window(model)
    }
}
