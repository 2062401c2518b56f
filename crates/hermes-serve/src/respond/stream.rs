//! The same answer as a sequence of events.

use std::sync::Arc;

use axum::response::Response;
use hermes_store::KeyedRequest;
use hermes_types::{Cancel, Delta, Event, Usage, random_hex};
use serde_json::{Value, json};
use tokio::sync::OwnedSemaphorePermit;
use tokio::sync::mpsc::unbounded_channel;

use super::request::ResponseRequest;
use super::{message_item, object, output, response_id, stored};
use crate::app::App;
use crate::error::ApiError;
use crate::follow::{Heard, Listener, follow};
use crate::run::{self, Ran, StopOnDrop};
use crate::sse::{self, Frames, Gone};

pub(super) fn answer(
    app: &App,
    request: ResponseRequest,
    keyed: Option<KeyedRequest>,
    room: OwnedSemaphorePermit,
) -> Response {
    let left = app.tasks.cancel_token().child_token();
    let (frames, response) = sse::stream(StopOnDrop(left.clone()), Vec::new());
    let owner = app.clone();
    drop(app.tasks.spawn_cooperative("an API stream", move |_| async move {
        let mut writer = Writer {
            id: response_id(),
            item: format!("msg_{}", random_hex(24)),
            app: owner,
            request,
            frames,
            number: 0,
            index: 0,
            text: String::new(),
            open: false,
        };
        if writer.write(keyed, room, &left).await.is_err() {
            writer.keep_incomplete().await;
        }
    }));
    response
}

struct Writer {
    id: String,
    item: String,
    app: App,
    request: ResponseRequest,
    frames: Frames,
    number: u64,
    /// The place of the message that is being written.
    index: usize,
    text: String,
    open: bool,
}

impl Writer {
    async fn write(
        &mut self,
        keyed: Option<KeyedRequest>,
        room: OwnedSemaphorePermit,
        left: &Cancel,
    ) -> Result<(), Gone> {
        let begun = self.snapshot("in_progress", &[], Usage::default());
        if let Err(error) = stored::keep_unfinished(&self.app, &self.request, &begun).await {
            tracing::warn!(?error, "an answer that was begun could not be kept");
        }
        self.event("response.created", json!({"response": begun}))?;
        let (sender, events) = unbounded_channel();
        let app = self.app.clone();
        let turn = run::perform(&app, keyed, self.request.asked.clone(), Listener(Some(sender)), room);
        let ran = follow(&*app.gateway.clock, turn, events, left, |heard| match heard {
            Heard::Event(event) => self.show(event),
            Heard::Silence => self.frames.comment("keepalive"),
        })
        .await?;
        self.finish(ran).await
    }

    fn show(&mut self, event: Event) -> Result<(), Gone> {
        match event {
            Event::Delta(Delta::Text(text)) => self.say(&text),
            Event::Delta(Delta::Restart) if !self.text.is_empty() => self.say("\n\n"),
            Event::SegmentEnded => self.close_message(),
            Event::ToolStarted { id, name, .. } => {
                let item = json!({
                    "type": "function_call", "id": format!("fc_{}", id.as_str()), "status": "in_progress",
                    "name": name, "arguments": "", "call_id": id.as_str(),
                });
                self.event("response.output_item.added", json!({"output_index": self.index, "item": item}))
            }
            Event::ToolEnded { id, name, .. } => {
                let item = json!({
                    "type": "function_call", "id": format!("fc_{}", id.as_str()), "status": "completed",
                    "name": name, "arguments": "", "call_id": id.as_str(),
                });
                let at = self.index;
                self.index += 1;
                self.event("response.output_item.done", json!({"output_index": at, "item": item}))
            }
            _ => Ok(()),
        }
    }

    fn say(&mut self, text: &str) -> Result<(), Gone> {
        if !self.open {
            self.open = true;
            let item = json!({"type": "message", "id": self.item, "status": "in_progress", "role": "assistant", "content": []});
            self.event("response.output_item.added", json!({"output_index": self.index, "item": item}))?;
            let part = json!({"type": "output_text", "text": "", "annotations": [], "logprobs": []});
            let about =
                json!({"item_id": self.item, "output_index": self.index, "content_index": 0, "part": part});
            self.event("response.content_part.added", about)?;
        }
        self.text.push_str(text);
        let about = json!({
            "item_id": self.item, "output_index": self.index, "content_index": 0, "delta": text, "logprobs": [],
        });
        self.event("response.output_text.delta", about)
    }

    fn close_message(&mut self) -> Result<(), Gone> {
        if !std::mem::take(&mut self.open) {
            return Ok(());
        }
        let text = std::mem::take(&mut self.text);
        let about = json!({
            "item_id": self.item, "output_index": self.index, "content_index": 0, "text": text, "logprobs": [],
        });
        self.event("response.output_text.done", about)?;
        let part = json!({"type": "output_text", "text": text, "annotations": [], "logprobs": []});
        let about =
            json!({"item_id": self.item, "output_index": self.index, "content_index": 0, "part": part});
        self.event("response.content_part.done", about)?;
        let item = message_item(&self.item, "completed", &text);
        let at = self.index;
        self.index += 1;
        self.item = format!("msg_{}", random_hex(24));
        self.event("response.output_item.done", json!({"output_index": at, "item": item}))
    }

    async fn finish(&mut self, ran: Result<Arc<Ran>, ApiError>) -> Result<(), Gone> {
        let ran = match ran {
            Ok(ran) => ran,
            Err(error) => return self.fail(&error).await,
        };
        if !self.open {
            self.say(&ran.said.text)?;
        }
        self.close_message()?;
        let response = self.snapshot("completed", &output(&ran), ran.said.usage);
        if let Err(error) = stored::keep(&self.app, &self.request, &response, &ran).await {
            return self.fail(&error).await;
        }
        self.event("response.completed", json!({"response": response}))
    }

    async fn fail(&mut self, error: &ApiError) -> Result<(), Gone> {
        let mut response = self.snapshot("failed", &[], Usage::default());
        response["error"] = json!({"code": error.code, "message": error.message});
        if let Err(error) = stored::keep_unfinished(&self.app, &self.request, &response).await {
            tracing::warn!(?error, "an answer that failed could not be kept");
        }
        self.event("response.failed", json!({"response": response}))
    }

    /// The client has left in the middle.
    async fn keep_incomplete(&self) {
        let items = if self.text.is_empty() {
            Vec::new()
        } else {
            vec![message_item(&self.item, "incomplete", &self.text)]
        };
        let response = self.snapshot("incomplete", &items, Usage::default());
        if let Err(error) = stored::keep_unfinished(&self.app, &self.request, &response).await {
            tracing::warn!(?error, "an answer that was cut off could not be kept");
        }
    }

    fn snapshot(&self, status: &str, items: &[Value], usage: Usage) -> Value {
        object(&self.app, &self.request, &self.id, status, items, usage)
    }

    fn event(&mut self, kind: &str, mut about: Value) -> Result<(), Gone> {
        about["type"] = json!(kind);
        about["sequence_number"] = json!(self.number);
        self.number += 1;
        self.frames.named(kind, &about)
    }
}
