//! Streams the response as a sequence of events.

use std::collections::HashMap;
use std::sync::Arc;

use axum::response::Response;
use hermes_types::{CallId, Cancel, Delta, TurnEvent, Usage};
use serde_json::{Value, json};
use tokio::sync::OwnedSemaphorePermit;

use super::request::ResponseRequest;
use super::{item, response_id, response_object, response_store};
use crate::app::App;
use crate::error::ApiError;
use crate::follow::{ApiFrontend, ClientUpdate, EventQueue, follow};
use crate::idempotency::RequestTicket;
use crate::request_task::run_in_task;
use crate::run::{CompletedTurn, StopOnDrop};
use crate::settings::ToolItems;
use crate::sse::{self, ClientGone, SseSender};
use crate::turn_answer::ApiFinishReason;

pub(super) fn answer(
    app: &App,
    request: ResponseRequest,
    ticket: RequestTicket,
    room: OwnedSemaphorePermit,
) -> Response {
    let left = app.tasks.cancel_token().child_token();
    let (frames, response) = sse::stream(StopOnDrop(left.clone()), Vec::new());
    let owner = app.clone();
    drop(app.tasks.spawn_cooperative("an API stream", move |_| async move {
        let mut writer = ResponseEventWriter {
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
            writer.store_incomplete().await;
        }
    }));
    response
}

struct ResponseEventWriter {
    id: String,
    /// Set unless the request is a repeat.
    is_new: bool,
    app: App,
    request: ResponseRequest,
    frames: SseSender,
    number: u64,
    /// The items sent to the client, by their index.
    items: Vec<Value>,
    /// The indexes of running calls.
    calls: HashMap<CallId, usize>,
    /// The message that is being written.
    open: Option<OpenMessage>,
}

struct OpenMessage {
    index: usize,
    id: String,
    text: String,
}

impl ResponseEventWriter {
    async fn write(
        &mut self,
        ticket: RequestTicket,
        room: OwnedSemaphorePermit,
        left: &Cancel,
    ) -> Result<(), ClientGone> {
        let begun = self.snapshot("in_progress", &[], Usage::default());
        if let Err(error) =
            response_store::store_unfinished(&self.app, &self.request, &begun, self.is_new).await
        {
            tracing::warn!(?error, "an answer that was begun could not be kept");
        }
        self.event("response.created", json!({"response": begun}))?;
        self.event("response.in_progress", json!({"response": begun}))?;
        let events = Arc::new(EventQueue::default());
        let (app, frames) = (self.app.clone(), self.frames.clone());
        let turn =
            run_in_task(&app, ticket, self.request.turn.clone(), ApiFrontend::forwarding(&events), room);
        let ran = follow(&app, turn, &events, &frames, left, |heard| match heard {
            ClientUpdate::Event(event) => self.write_event(event),
            ClientUpdate::KeepAlive => self.frames.comment("keepalive"),
        })
        .await?;
        self.finish(ran).await
    }

    fn write_event(&mut self, event: TurnEvent) -> Result<(), ClientGone> {
        match event {
            TurnEvent::Delta(Delta::Text(text)) => self.write_text(&text),
            TurnEvent::Delta(Delta::Restart) if self.open.is_some() => self.write_text("\n\n"),
            TurnEvent::SegmentEnded => self.close_message("completed"),
            TurnEvent::ToolStarted { id, name, arguments, .. } => {
                let form = self.app.settings.tool_items;
                let index =
                    self.start_item(item::call(id.as_str(), &name, &arguments, "in_progress", form))?;
                self.calls.insert(id, index);
                Ok(())
            }
            TurnEvent::ToolEnded { id, result, .. } => self.end_call(&id, &result),
            TurnEvent::Delta(
                Delta::Restart | Delta::Reasoning(_) | Delta::ToolStarted { .. } | Delta::Status(_),
            )
            | TurnEvent::TurnStarted { .. }
            | TurnEvent::Step { .. }
            | TurnEvent::Notice { .. }
            | TurnEvent::Spent { .. }
            | TurnEvent::TurnEnded { .. }
            | TurnEvent::Child { .. } => Ok(()),
        }
    }

    /// Announces a new item and returns its index.
    fn start_item(&mut self, item: Value) -> Result<usize, ClientGone> {
        let index = self.items.len();
        let about = json!({"output_index": index, "item": &item});
        self.items.push(item);
        self.event("response.output_item.added", about)?;
        Ok(index)
    }

    /// Announces that an item is final.
    fn finish_item(&mut self, index: usize, item: Value) -> Result<(), ClientGone> {
        let about = json!({"output_index": index, "item": &item});
        if let Some(kept) = self.items.get_mut(index) {
            *kept = item;
        }
        self.event("response.output_item.done", about)
    }

    fn end_call(&mut self, id: &CallId, result: &str) -> Result<(), ClientGone> {
        let Some(index) = self.calls.remove(id) else { return Ok(()) };
        let form = self.app.settings.tool_items;
        if let Some(mut call) = self.items.get(index).cloned() {
            call["status"] = json!("completed");
            if form == ToolItems::McpCall {
                call["output"] = json!(result);
            }
            self.finish_item(index, call)?;
        }
        match form {
            ToolItems::McpCall => Ok(()),
            ToolItems::FunctionCall => self.write_item(item::function_result(id.as_str(), result)),
        }
    }

    /// Announces an item that is already complete.
    fn write_item(&mut self, item: Value) -> Result<(), ClientGone> {
        let index = self.start_item(item.clone())?;
        self.finish_item(index, item)
    }

    fn write_text(&mut self, text: &str) -> Result<(), ClientGone> {
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

    fn open_message(&mut self) -> Result<OpenMessage, ClientGone> {
        let id = item::message_id();
        let item =
            json!({"type": "message", "id": id, "status": "in_progress", "role": "assistant", "content": []});
        let index = self.start_item(item)?;
        let part = json!({"type": "output_text", "text": "", "annotations": [], "logprobs": []});
        let about = json!({"item_id": id, "output_index": index, "content_index": 0, "part": part});
        self.event("response.content_part.added", about)?;
        Ok(OpenMessage { index, id, text: String::new() })
    }

    fn close_message(&mut self, status: &str) -> Result<(), ClientGone> {
        let Some(OpenMessage { index, id, text }) = self.open.take() else { return Ok(()) };
        let about =
            json!({"item_id": id, "output_index": index, "content_index": 0, "text": text, "logprobs": []});
        self.event("response.output_text.done", about)?;
        let part = json!({"type": "output_text", "text": text, "annotations": [], "logprobs": []});
        let about = json!({"item_id": id, "output_index": index, "content_index": 0, "part": part});
        self.event("response.content_part.done", about)?;
        self.finish_item(index, item::message(&id, status, &text))
    }

    async fn finish(&mut self, ran: Result<Arc<CompletedTurn>, ApiError>) -> Result<(), ClientGone> {
        let ran = match ran {
            Ok(ran) => ran,
            Err(error) => return self.fail(&error).await,
        };
        if self.items.is_empty() {
            // Another request with the same key ran the turn, so no events arrived here.
            for item in item::tool_items(&ran, self.app.settings.tool_items) {
                self.write_item(item)?;
            }
        }
        if self.open.is_none() {
            self.write_text(&ran.answer.text)?;
        }
        self.close_message(item::message_status(ran.answer.finish))?;
        let response = super::ended_response(&self.app, &self.request, &self.id, &self.items, &ran.answer);
        let kept =
            response_store::store_response(&self.app, &self.request, response, &ran, self.is_new).await;
        let response = match kept {
            Ok(response) => response,
            Err(error) => return self.fail(&error).await,
        };
        let kind = match ran.answer.finish {
            ApiFinishReason::Stop => "response.completed",
            ApiFinishReason::Length | ApiFinishReason::ContentFilter => "response.incomplete",
            ApiFinishReason::Error => "response.failed",
        };
        self.event(kind, json!({"response": response}))
    }

    async fn fail(&mut self, error: &ApiError) -> Result<(), ClientGone> {
        let mut response = self.snapshot("failed", &self.incomplete_items(), Usage::default());
        response["error"] = json!({"code": error.code, "message": error.message});
        if let Err(error) =
            response_store::store_unfinished(&self.app, &self.request, &response, self.is_new).await
        {
            tracing::warn!(?error, "an answer that failed could not be kept");
        }
        self.event("response.failed", json!({"response": response}))
    }

    /// Stores the response when the client has left midway.
    async fn store_incomplete(&self) {
        let response = self.snapshot("incomplete", &self.incomplete_items(), Usage::default());
        if let Err(error) =
            response_store::store_unfinished(&self.app, &self.request, &response, self.is_new).await
        {
            tracing::warn!(?error, "an answer that was cut off could not be kept");
        }
    }

    /// Returns the items sent to the client, as they are when the stream ends early.
    fn incomplete_items(&self) -> Vec<Value> {
        let mut items = self.items.clone();
        if let Some(OpenMessage { index, id, text }) = &self.open
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
        response_object(&self.app, &self.request, &self.id, status, items, usage)
    }

    fn event(&mut self, kind: &str, mut about: Value) -> Result<(), ClientGone> {
        about["type"] = json!(kind);
        about["sequence_number"] = json!(self.number);
        self.number += 1;
        self.frames.named(kind, &about)
    }
}
