//! The same answer, word by word.

use std::sync::Arc;

use axum::response::Response;
use hermes_types::{Cancel, Delta, Event, OutcomeStatus};
use serde_json::{Value, json};
use tokio::sync::OwnedSemaphorePermit;

use super::request::ChatRequest;
use super::{completion_id, usage};
use crate::app::App;
use crate::error::ApiError;
use crate::follow::{EventQueue, Heard, Listener, follow};
use crate::keyed::Ticket;
use crate::run::{self, Asked, Ran, Session, StopOnDrop};
use crate::sse::{self, Frames, Gone};

/// Begins the turn and answers at once; words follow as they come.
pub(super) fn answer(
    app: &App,
    request: ChatRequest,
    ticket: Ticket,
    room: OwnedSemaphorePermit,
) -> Response {
    let left = app.tasks.cancel_token().child_token();
    // A session the client named is told back at once; one that is found or made is not known yet.
    let session = match &request.asked.session {
        Session::Named(session) => super::session_header(session),
        Session::Continued(_) | Session::Matching(..) => None,
    };
    let (frames, response) = sse::stream(StopOnDrop(left.clone()), session.into_iter().collect());
    let chunks = Chunks {
        id: completion_id(ticket.turn()),
        created: app.seconds(),
        model: request.model_or(&app.settings.model_name),
        frames,
        sent: String::new(),
        tool_progress: app.settings.tool_progress,
    };
    let owner = app.clone();
    drop(app.tasks.spawn_cooperative("an API stream", move |_| async move {
        // A client that has left has let go of the turn; there is nobody to tell.
        let _ = chunks.write(&owner, ticket, request.asked, room, &left).await;
    }));
    response
}

struct Chunks {
    id: String,
    created: u64,
    model: String,
    frames: Frames,
    /// The words the client has of the text that is being written.
    sent: String,
    tool_progress: bool,
}

impl Chunks {
    async fn write(
        mut self,
        app: &App,
        ticket: Ticket,
        asked: Asked,
        room: OwnedSemaphorePermit,
        left: &Cancel,
    ) -> Result<(), Gone> {
        self.chunk(&json!({"role": "assistant"}), None, None)?;
        let events = Arc::new(EventQueue::default());
        let turn = run::perform(app, ticket, asked, Listener::to(&events), room);
        let frames = self.frames.clone();
        let ran = follow(app, turn, &events, &frames, left, |heard| match heard {
            Heard::Event(event) => self.show(event),
            Heard::Silence => self.frames.comment("keepalive"),
        })
        .await?;
        self.finish(ran)
    }

    fn show(&mut self, event: Event) -> Result<(), Gone> {
        match event {
            Event::Delta(Delta::Text(text)) => self.say(&text),
            // What was shown is no longer so. It cannot be taken back; the new attempt follows in a paragraph of its own.
            Event::Delta(Delta::Restart) if !self.sent.is_empty() => self.say("\n\n"),
            Event::SegmentEnded if !self.sent.is_empty() => {
                self.say("\n\n")?;
                self.sent.clear();
                Ok(())
            }
            Event::ToolStarted { id, name, preview, .. } if self.tool_progress && !name.starts_with('_') => {
                let about =
                    json!({"tool": name, "label": preview, "toolCallId": id.as_str(), "status": "running"});
                self.progress(about)
            }
            Event::ToolEnded { id, name, status, .. } if self.tool_progress && !name.starts_with('_') => {
                let status = if status == OutcomeStatus::Done { "completed" } else { status.as_str() };
                self.progress(json!({"tool": name, "toolCallId": id.as_str(), "status": status}))
            }
            _ => Ok(()),
        }
    }

    fn say(&mut self, text: &str) -> Result<(), Gone> {
        self.sent.push_str(text);
        self.chunk(&json!({"content": text}), None, None)
    }

    fn finish(mut self, ran: Result<Arc<Ran>, ApiError>) -> Result<(), Gone> {
        match ran {
            Ok(ran) => {
                if self.sent.trim().is_empty() {
                    self.say(&ran.said.text)?;
                }
                if let Some(error) = ran.said.failure() {
                    self.frames.data(&error.body())?;
                }
                self.chunk(&json!({}), Some(ran.said.finish.as_str()), Some(usage(ran.said.usage)))?;
            }
            Err(error) => {
                self.frames.data(&error.body())?;
                self.chunk(&json!({}), Some("error"), None)?;
            }
        }
        self.frames.done()
    }

    fn chunk(&self, delta: &Value, finish: Option<&str>, usage: Option<Value>) -> Result<(), Gone> {
        let mut chunk = self.frame();
        chunk["choices"] = json!([{"index": 0, "delta": delta, "logprobs": null, "finish_reason": finish}]);
        if let Some(usage) = usage {
            chunk["usage"] = usage;
        }
        self.frames.data(&chunk)
    }

    /// A named event that is also a whole chunk: clients that do not know the name find no choice in it.
    fn progress(&self, about: Value) -> Result<(), Gone> {
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
