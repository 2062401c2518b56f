//! The same answer as a sequence of events.

use std::collections::HashMap;
use std::sync::Arc;

use axum::response::Response;
use hermes_types::{CallId, Cancel, Delta, Event, Usage};
use serde_json::{Value, json};
use tokio::sync::OwnedSemaphorePermit;

use super::request::ResponseRequest;
use super::{item, object, response_id, stored};
use crate::app::App;
use crate::error::ApiError;
use crate::follow::{EventQueue, Heard, Listener, follow};
use crate::keyed::Ticket;
use crate::run::{self, Ran, StopOnDrop};
use crate::said::Finish;
use crate::settings::ToolItems;
use crate::sse::{self, Frames, Gone};

pub(super) fn answer(
    app: &App,
    request: ResponseRequest,
    ticket: Ticket,
    room: OwnedSemaphorePermit,
) -> Response {
    let left = app.tasks.cancel_token().child_token();
    let (frames, response) = sse::stream(StopOnDrop(left.clone()), Vec::new());
    let owner = app.clone();
    drop(app.tasks.spawn_cooperative("an API stream", move |_| async move {
        let mut writer = Writer {
            id: response_id(ticket.turn()),
            is_new: ticket.is_new(),
            app: owner,
            request,
            frames,
            number: 0,
            items: Vec::new(),
            calls: HashMap::new(),
            open: None,
        };
        if writer.write(ticket, room, &left).await.is_err() {
            writer.keep_incomplete().await;
        }
    }));
    response
}

struct Writer {
    id: String,
    /// Not a repeat of a request that was seen before.
    is_new: bool,
    app: App,
    request: ResponseRequest,
    frames: Frames,
    number: u64,
    /// What the client was told of, each at the place it was told.
    items: Vec<Value>,
    /// The places of calls that run.
    calls: HashMap<CallId, usize>,
    /// The message that is being written.
    open: Option<Open>,
}

struct Open {
    index: usize,
    id: String,
    text: String,
}

impl Writer {
    async fn write(&mut self, ticket: Ticket, room: OwnedSemaphorePermit, left: &Cancel) -> Result<(), Gone> {
        let begun = self.snapshot("in_progress", &[], Usage::default());
        if let Err(error) = stored::keep_unfinished(&self.app, &self.request, &begun, self.is_new).await {
            tracing::warn!(?error, "an answer that was begun could not be kept");
        }
        self.event("response.created", json!({"response": begun}))?;
        self.event("response.in_progress", json!({"response": begun}))?;
        let events = Arc::new(EventQueue::default());
        let (app, frames) = (self.app.clone(), self.frames.clone());
        let turn = run::perform(&app, ticket, self.request.asked.clone(), Listener::to(&events), room);
        let ran = follow(&app, turn, &events, &frames, left, |heard| match heard {
            Heard::Event(event) => self.show(event),
            Heard::Silence => self.frames.comment("keepalive"),
        })
        .await?;
        self.finish(ran).await
    }

    fn show(&mut self, event: Event) -> Result<(), Gone> {
        match event {
            Event::Delta(Delta::Text(text)) => self.say(&text),
            Event::Delta(Delta::Restart) if self.open.is_some() => self.say("\n\n"),
            Event::SegmentEnded => self.close_message("completed"),
            Event::ToolStarted { id, name, arguments, .. } => {
                let form = self.app.settings.tool_items;
                let index = self.add(item::call(id.as_str(), &name, &arguments, "in_progress", form))?;
                self.calls.insert(id, index);
                Ok(())
            }
            Event::ToolEnded { id, result, .. } => self.end_call(&id, &result),
            _ => Ok(()),
        }
    }

    /// Tells of a new item; says its place.
    fn add(&mut self, item: Value) -> Result<usize, Gone> {
        let index = self.items.len();
        let about = json!({"output_index": index, "item": &item});
        self.items.push(item);
        self.event("response.output_item.added", about)?;
        Ok(index)
    }

    /// Tells that an item is as it stays.
    fn done(&mut self, index: usize, item: Value) -> Result<(), Gone> {
        let about = json!({"output_index": index, "item": &item});
        if let Some(kept) = self.items.get_mut(index) {
            *kept = item;
        }
        self.event("response.output_item.done", about)
    }

    fn end_call(&mut self, id: &CallId, result: &str) -> Result<(), Gone> {
        let Some(index) = self.calls.remove(id) else { return Ok(()) };
        let form = self.app.settings.tool_items;
        if let Some(mut call) = self.items.get(index).cloned() {
            call["status"] = json!("completed");
            if form == ToolItems::McpCall {
                call["output"] = json!(result);
            }
            self.done(index, call)?;
        }
        match form {
            ToolItems::McpCall => Ok(()),
            ToolItems::FunctionCall => self.tell(item::function_result(id.as_str(), result)),
        }
    }

    /// An item that is complete when it is told of.
    fn tell(&mut self, item: Value) -> Result<(), Gone> {
        let index = self.add(item.clone())?;
        self.done(index, item)
    }

    fn say(&mut self, text: &str) -> Result<(), Gone> {
        let mut open = match self.open.take() {
            Some(open) => open,
            None => self.open_message()?,
        };
        open.text.push_str(text);
        let about = json!({
            "item_id": open.id, "output_index": open.index, "content_index": 0, "delta": text, "logprobs": [],
        });
        self.open = Some(open);
        self.event("response.output_text.delta", about)
    }

    fn open_message(&mut self) -> Result<Open, Gone> {
        let id = item::message_id();
        let item =
            json!({"type": "message", "id": id, "status": "in_progress", "role": "assistant", "content": []});
        let index = self.add(item)?;
        let part = json!({"type": "output_text", "text": "", "annotations": [], "logprobs": []});
        let about = json!({"item_id": id, "output_index": index, "content_index": 0, "part": part});
        self.event("response.content_part.added", about)?;
        Ok(Open { index, id, text: String::new() })
    }

    fn close_message(&mut self, status: &str) -> Result<(), Gone> {
        let Some(Open { index, id, text }) = self.open.take() else { return Ok(()) };
        let about =
            json!({"item_id": id, "output_index": index, "content_index": 0, "text": text, "logprobs": []});
        self.event("response.output_text.done", about)?;
        let part = json!({"type": "output_text", "text": text, "annotations": [], "logprobs": []});
        let about = json!({"item_id": id, "output_index": index, "content_index": 0, "part": part});
        self.event("response.content_part.done", about)?;
        self.done(index, item::message(&id, status, &text))
    }

    async fn finish(&mut self, ran: Result<Arc<Ran>, ApiError>) -> Result<(), Gone> {
        let ran = match ran {
            Ok(ran) => ran,
            Err(error) => return self.fail(&error).await,
        };
        if self.items.is_empty() {
            // Somebody else's request under the same key has run: nothing was heard of it here.
            for item in item::happened(&ran, self.app.settings.tool_items) {
                self.tell(item)?;
            }
        }
        if self.open.is_none() {
            self.say(&ran.said.text)?;
        }
        self.close_message(item::message_status(ran.said.finish))?;
        let response = super::ended(&self.app, &self.request, &self.id, &self.items, &ran.said);
        let kept = stored::keep(&self.app, &self.request, response, &ran, self.is_new).await;
        let response = match kept {
            Ok(response) => response,
            Err(error) => return self.fail(&error).await,
        };
        let kind = match ran.said.finish {
            Finish::Stop => "response.completed",
            Finish::Length | Finish::ContentFilter => "response.incomplete",
            Finish::Error => "response.failed",
        };
        self.event(kind, json!({"response": response}))
    }

    async fn fail(&mut self, error: &ApiError) -> Result<(), Gone> {
        let mut response = self.snapshot("failed", &self.cut_items(), Usage::default());
        response["error"] = json!({"code": error.code, "message": error.message});
        if let Err(error) = stored::keep_unfinished(&self.app, &self.request, &response, self.is_new).await {
            tracing::warn!(?error, "an answer that failed could not be kept");
        }
        self.event("response.failed", json!({"response": response}))
    }

    /// The client has left in the middle.
    async fn keep_incomplete(&self) {
        let response = self.snapshot("incomplete", &self.cut_items(), Usage::default());
        if let Err(error) = stored::keep_unfinished(&self.app, &self.request, &response, self.is_new).await {
            tracing::warn!(?error, "an answer that was cut off could not be kept");
        }
    }

    /// What the client was told of, as it stands where it ends too early.
    fn cut_items(&self) -> Vec<Value> {
        let mut items = self.items.clone();
        if let Some(Open { index, id, text }) = &self.open
            && let Some(item) = items.get_mut(*index)
        {
            *item = item::message(id, "incomplete", text);
        }
        for index in self.calls.values() {
            if let Some(item) = items.get_mut(*index) {
                item["status"] = json!("incomplete");
            }
        }
        items
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
