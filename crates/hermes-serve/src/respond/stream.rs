//! The same answer as a sequence of events.

use std::time::Duration;

use axum::response::Response;
use hermes_types::{Delta, Event, Usage, random_hex};
use serde_json::{Value, json};
use tokio::sync::OwnedSemaphorePermit;
use tokio::sync::mpsc::unbounded_channel;

use super::request::ResponseRequest;
use super::{message_item, object, output, response_id, stored};
use crate::app::App;
use crate::chat::Said;
use crate::error::ApiError;
use crate::run::{self, Listener, Ran, StopOnDrop};
use crate::sse::{self, Frames, Gone};

const KEEP_ALIVE: Duration = Duration::from_secs(30);

pub(super) fn answer(app: &App, request: ResponseRequest, room: OwnedSemaphorePermit) -> Response {
    let cancel = app.tasks.cancel_token().child_token();
    let (frames, response) = sse::stream(StopOnDrop(cancel.clone()), Vec::new());
    let owner = app.clone();
    drop(app.tasks.spawn_cooperative("an API stream", move |_| async move {
        let _room = room;
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
        if writer.write(&cancel).await.is_err() {
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
    async fn write(&mut self, cancel: &hermes_types::Cancel) -> Result<(), Gone> {
        let begun = self.snapshot("in_progress", &[], Usage::default());
        if let Err(error) = stored::keep_unfinished(&self.app, &self.request, &begun).await {
            tracing::warn!(?error, "an answer that was begun could not be kept");
        }
        self.event("response.created", json!({"response": begun}))?;
        let (sender, mut events) = unbounded_channel();
        let (app, asked, cancel) = (self.app.clone(), self.request.asked.clone(), cancel.clone());
        let turn = async move {
            let listener = Listener(Some(sender));
            run::turn(&app, asked, &listener, &cancel).await
        };
        tokio::pin!(turn);
        let clock = self.app.gateway.clock.clone();
        let ran = loop {
            tokio::select! {
                biased;
                Some(event) = events.recv() => self.show(event)?,
                ran = &mut turn => {
                    while let Ok(event) = events.try_recv() {
                        self.show(event)?;
                    }
                    break ran;
                }
                () = clock.sleep(KEEP_ALIVE) => self.frames.comment("keepalive")?,
            }
        };
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

    async fn finish(&mut self, ran: Result<Ran, ApiError>) -> Result<(), Gone> {
        let ended = ran.and_then(|ran| Said::of(&ran).map(|said| (said, ran)));
        match ended {
            Ok((said, ran)) => {
                if !self.open {
                    self.say(&said.text)?;
                }
                self.close_message()?;
                let response = self.snapshot("completed", &output(&ran, &said.text), ran.result.usage);
                if let Err(error) = stored::keep(&self.app, &self.request, &response, &ran).await {
                    return self.fail(&error).await;
                }
                self.event("response.completed", json!({"response": response}))
            }
            Err(error) => self.fail(&error).await,
        }
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
