//! Streams the answer as it is written.

use std::sync::Arc;

use axum::response::Response;
use hermes_types::{Cancel, Delta, OutcomeStatus, TurnEvent};
use serde_json::{Value, json};
use tokio::sync::OwnedSemaphorePermit;

use super::request::ChatRequest;
use super::{completion_id, usage};
use crate::app::App;
use crate::error::ApiError;
use crate::follow::{ApiFrontend, ClientUpdate, EventQueue, follow};
use crate::idempotency::RequestTicket;
use crate::request_task::run_in_task;
use crate::run::{ApiTurnRequest, CompletedTurn, SessionChoice, StopOnDrop};
use crate::sse::{self, ClientGone, SseSender};

/// Starts the turn and responds at once; text follows as it arrives.
pub(super) fn answer(
    app: &App,
    request: ChatRequest,
    ticket: RequestTicket,
    room: OwnedSemaphorePermit,
) -> Response {
    let left = app.tasks.cancel_token().child_token();
    // A session the client named is returned at once; one that is looked up or created is not known yet.
    let session = match &request.turn.session {
        SessionChoice::Named(session) => super::session_header(session),
        SessionChoice::Continued(_) | SessionChoice::Matching(..) => None,
    };
    let (frames, response) = sse::stream(StopOnDrop(left.clone()), session.into_iter().collect());
    let chunks = ChunkWriter {
        id: completion_id(ticket.turn()),
        created: app.unix_seconds(),
        model: request.model_or(&app.settings.model_name),
        frames,
        sent_text: String::new(),
        tool_progress: app.settings.tool_progress,
    };
    let owner = app.clone();
    drop(app.tasks.spawn_cooperative("an API stream", move |_| async move {
        // When the client has left, it has given up the turn and there is nobody to notify.
        let _ = chunks.write(&owner, ticket, request.turn, room, &left).await;
    }));
    response
}

struct ChunkWriter {
    id: String,
    created: u64,
    model: String,
    frames: SseSender,
    /// The text of the current segment that the client has received.
    sent_text: String,
    tool_progress: bool,
}

impl ChunkWriter {
    async fn write(
        mut self,
        app: &App,
        ticket: RequestTicket,
        asked: ApiTurnRequest,
        room: OwnedSemaphorePermit,
        left: &Cancel,
    ) -> Result<(), ClientGone> {
        self.chunk(&json!({"role": "assistant"}), None, None)?;
        let events = Arc::new(EventQueue::default());
        let turn = run_in_task(app, ticket, asked, ApiFrontend::forwarding(&events), room);
        let frames = self.frames.clone();
        let ran = follow(app, turn, &events, &frames, left, |heard| match heard {
            ClientUpdate::Event(event) => self.write_event(event),
            ClientUpdate::KeepAlive => self.frames.comment("keepalive"),
        })
        .await?;
        self.finish(ran)
    }

    fn write_event(&mut self, event: TurnEvent) -> Result<(), ClientGone> {
        match event {
            TurnEvent::Delta(Delta::Text(text)) => self.write_text(&text),
            // Text already sent cannot be withdrawn; the new attempt follows as a new paragraph.
            TurnEvent::Delta(Delta::Restart) if !self.sent_text.is_empty() => self.write_text("\n\n"),
            TurnEvent::SegmentEnded if !self.sent_text.is_empty() => {
                self.write_text("\n\n")?;
                self.sent_text.clear();
                Ok(())
            }
            TurnEvent::ToolStarted { id, name, preview, .. }
                if self.tool_progress && !name.starts_with('_') =>
            {
                let about =
                    json!({"tool": name, "label": preview, "toolCallId": id.as_str(), "status": "running"});
                self.progress(about)
            }
            TurnEvent::ToolEnded { id, name, status, .. } if self.tool_progress && !name.starts_with('_') => {
                let status = if status == OutcomeStatus::Done { "completed" } else { status.as_str() };
                self.progress(json!({"tool": name, "toolCallId": id.as_str(), "status": status}))
            }
            TurnEvent::Delta(
                Delta::Restart | Delta::Reasoning(_) | Delta::ToolStarted { .. } | Delta::Status(_),
            )
            | TurnEvent::TurnStarted { .. }
            | TurnEvent::Step { .. }
            | TurnEvent::SegmentEnded
            | TurnEvent::ToolStarted { .. }
            | TurnEvent::ToolEnded { .. }
            | TurnEvent::Notice { .. }
            | TurnEvent::Spent { .. }
            | TurnEvent::TurnEnded { .. }
            | TurnEvent::Child { .. } => Ok(()),
        }
    }

    fn write_text(&mut self, text: &str) -> Result<(), ClientGone> {
        self.sent_text.push_str(text);
        self.chunk(&json!({"content": text}), None, None)
    }

    fn finish(mut self, ran: Result<Arc<CompletedTurn>, ApiError>) -> Result<(), ClientGone> {
        match ran {
            Ok(ran) => {
                if self.sent_text.trim().is_empty() {
                    self.write_text(&ran.answer.text)?;
                }
                if let Some(error) = ran.answer.failure() {
                    self.frames.data(&error.body())?;
                }
                self.chunk(&json!({}), Some(ran.answer.finish.as_str()), Some(usage(ran.answer.usage)))?;
            }
            Err(error) => {
                self.frames.data(&error.body())?;
                self.chunk(&json!({}), Some("error"), None)?;
            }
        }
        self.frames.done()
    }

    fn chunk(&self, delta: &Value, finish: Option<&str>, usage: Option<Value>) -> Result<(), ClientGone> {
        let mut chunk = self.frame();
        chunk["choices"] = json!([{"index": 0, "delta": delta, "logprobs": null, "finish_reason": finish}]);
        if let Some(usage) = usage {
            chunk["usage"] = usage;
        }
        self.frames.data(&chunk)
    }

    /// Sends a named event that is also a complete chunk: clients that do not know the name find no choices in
    /// it.
    fn progress(&self, about: Value) -> Result<(), ClientGone> {
        let mut chunk = self.frame();
        if let (Some(chunk), Value::Object(about)) = (chunk.as_object_mut(), about) {
            chunk.extend(about);
        }
        self.frames.named("hermes.tool.progress", &chunk)
    }

    fn frame(&self) -> Value {
        json!({
            "id": self.id, "object": "chat.completion.chunk", "created": self.created, "model": self.model,
            "system_fingerprint": null, "choices": [],
        })
    }
}
