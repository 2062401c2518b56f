//! The same answer, word by word.

use std::time::Duration;

use axum::response::Response;
use hermes_types::{Delta, Event, OutcomeStatus};
use serde_json::{Value, json};
use tokio::sync::OwnedSemaphorePermit;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use super::request::ChatRequest;
use super::{Said, completion_id, usage};
use crate::app::App;
use crate::error::ApiError;
use crate::run::{self, Asked, Listener, Ran, Session, StopOnDrop};
use crate::sse::{self, Frames, Gone};

const KEEP_ALIVE: Duration = Duration::from_secs(30);

/// Begins the turn and answers at once; words follow as they come.
pub(super) fn answer(app: &App, request: ChatRequest, room: OwnedSemaphorePermit) -> Response {
    let cancel = app.tasks.cancel_token().child_token();
    // A session the client named is told back at once; one that is found or made is not known yet.
    let session = match &request.asked.session {
        Session::Named(session) => super::session_header(session),
        Session::Matching(_) => None,
    };
    let (frames, response) = sse::stream(StopOnDrop(cancel.clone()), session.into_iter().collect());
    let chunks = Chunks {
        id: completion_id(),
        created: app.seconds(),
        model: request.model_or(&app.settings.model_name),
        frames,
        sent: String::new(),
        tool_progress: app.settings.tool_progress,
    };
    let owner = app.clone();
    drop(app.tasks.spawn_cooperative("an API stream", move |_| async move {
        let _room = room;
        // A client that has left has cancelled the turn; there is nobody to tell.
        let _ = chunks.write(&owner, request.asked, &cancel).await;
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
    async fn write(mut self, app: &App, asked: Asked, cancel: &hermes_types::Cancel) -> Result<(), Gone> {
        self.chunk(&json!({"role": "assistant"}), None, None)?;
        let (sender, mut events) = unbounded_channel();
        let listener = Listener(Some(sender));
        let ran = {
            let turn = async {
                let ran = run::turn(app, asked, &listener, cancel).await;
                drop(listener);
                ran
            };
            tokio::pin!(turn);
            let mut followed = Ok(());
            let ran = loop {
                tokio::select! {
                    biased;
                    event = next(&mut events), if followed.is_ok() => match event {
                        Some(event) => followed = self.show(event),
                        None => break turn.await,
                    },
                    () = app.gateway.clock.sleep(KEEP_ALIVE), if followed.is_ok() => {
                        followed = self.frames.comment("keepalive");
                    }
                    ran = &mut turn => {
                        while let Ok(event) = events.try_recv() {
                            if followed.is_ok() {
                                followed = self.show(event);
                            }
                        }
                        break ran;
                    }
                }
            };
            followed?;
            ran
        };
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
            Event::ToolStarted { id, name, preview } if self.tool_progress && !name.starts_with('_') => {
                let about =
                    json!({"tool": name, "label": preview, "toolCallId": id.as_str(), "status": "running"});
                self.progress(about)
            }
            Event::ToolEnded { id, name, status } if self.tool_progress && !name.starts_with('_') => {
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

    fn finish(mut self, ran: Result<Ran, ApiError>) -> Result<(), Gone> {
        let ended = ran.and_then(|ran| Said::of(&ran).map(|said| (said, ran)));
        match ended {
            Ok((said, ran)) => {
                if self.sent.trim().is_empty() {
                    self.say(&said.text)?;
                }
                let finish = Some(said.finish_reason);
                self.chunk(&json!({}), finish, Some(usage(ran.result.usage)))?;
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
        chunk["choices"] = json!([{"index": 0, "delta": delta, "finish_reason": finish}]);
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
            "id": self.id, "object": "chat.completion.chunk", "created": self.created, "model": self.model, "choices": [],
        })
    }
}

async fn next(events: &mut UnboundedReceiver<Event>) -> Option<Event> {
    events.recv().await
}
