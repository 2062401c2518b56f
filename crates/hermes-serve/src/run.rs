//! A turn for a request: in which session, with which history, and ended when nobody waits for it any more.

use std::fmt::Write as _;

use hermes_agent::{Agent, Conversation, Error as AgentError, Said, TurnResult};
use hermes_gateway::Wish;
use hermes_types::{
    Answer, BoxFuture, Cancel, Content, Event, Frontend, Message, Question, Role, SessionId, SessionKind,
    TaskId, random_hex,
};
use sha2::{Digest as _, Sha256};
use tokio::sync::mpsc::UnboundedSender;

use crate::app::{App, Occupied};
use crate::error::ApiError;

/// What a request asks for.
#[derive(Debug, Clone)]
pub(crate) struct Asked {
    /// Said before, by the client's account.
    pub(crate) history: Vec<Message>,
    pub(crate) input: Content,
    /// Layered on top of the prompt for this turn.
    pub(crate) instructions: Option<String>,
    pub(crate) session: Session,
}

/// Which session the turn belongs to.
#[derive(Debug, Clone)]
pub(crate) enum Session {
    /// The client named it; its own transcript is the history.
    Named(SessionId),
    /// The one that holds exactly this history, if there is one under this id; else a new one.
    Matching(SessionId),
}

/// What a turn came to.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) result: TurnResult,
    pub(crate) session: SessionId,
    /// The whole conversation now.
    pub(crate) messages: Vec<Message>,
    /// Where this turn's messages begin, the question included.
    pub(crate) first: usize,
}

/// The id of a conversation nobody named: the same as long as it begins the same way.
pub(crate) fn derived_session(instructions: Option<&str>, first_words: &str) -> SessionId {
    let mut digest = Sha256::new();
    digest.update(instructions.unwrap_or_default().as_bytes());
    digest.update(b"\n");
    digest.update(first_words.as_bytes());
    let mut hex = String::with_capacity(16);
    for byte in digest.finalize().iter().take(8) {
        // Writing to a `String` cannot fail.
        let _ = write!(hex, "{byte:02x}");
    }
    SessionId::new(format!("api-{hex}"))
}

/// Stops a turn when it is dropped: whoever waited has left.
pub(crate) struct StopOnDrop(pub(crate) Cancel);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

/// Runs the turn in a task of its own and waits for it. Dropping this future ends the turn in good order.
pub(crate) async fn run(
    app: &App,
    asked: Asked,
    events: Option<UnboundedSender<Event>>,
    room: tokio::sync::OwnedSemaphorePermit,
) -> Result<Ran, ApiError> {
    let stop = app.tasks.cancel_token().child_token();
    let _guard = StopOnDrop(stop.clone());
    let owner = app.clone();
    let task = app.tasks.spawn_cooperative("an API turn", move |_| async move {
        let _room = room;
        turn(&owner, asked, &Listener(events), &stop).await
    });
    match task.await {
        Ok(ran) => ran,
        Err(ended) => Err(ApiError::internal(format!("The turn ended unexpectedly: {ended}"))),
    }
}

pub(crate) async fn turn(
    app: &App,
    asked: Asked,
    frontend: &dyn Frontend,
    cancel: &Cancel,
) -> Result<Ran, ApiError> {
    let agent = agent(app, asked.instructions.clone())?;
    let (mut conversation, before, _occupied, keeps_state) = open(app, &agent, &asked).await?;
    let first = conversation.messages().len() + before.len();
    let said = Said { content: asked.input, stored: None, before, inbox: Vec::new() };
    let ran = agent.run(&mut conversation, said, frontend, cancel).await;
    if !keeps_state {
        agent.release(conversation.task());
    }
    let result = ran.map_err(cannot_run)?;
    let session = result.session.clone();
    let messages = conversation.messages().to_vec();
    Ok(Ran { first: first.min(messages.len()), result, session, messages })
}

fn agent(app: &App, instructions: Option<String>) -> Result<Agent, ApiError> {
    let wish = Wish { platform: "api_server", context: instructions, ..Wish::default() };
    app.gateway.ports.agents.agent(&wish).map_err(|reason| {
        ApiError::new(axum::http::StatusCode::SERVICE_UNAVAILABLE, "provider_not_configured", reason)
    })
}

/// The conversation, what has to be added to it first, the session's mark of being in use, and whether tools keep their
/// state for the next request.
async fn open(
    app: &App,
    agent: &Agent,
    asked: &Asked,
) -> Result<(Conversation, Vec<Message>, Occupied, bool), ApiError> {
    match &asked.session {
        Session::Named(session) => {
            let occupied = app.occupy(session.as_str()).ok_or_else(in_use)?;
            let task = TaskId::new(session.as_str());
            match agent.take_up_as(session, task.clone()).await {
                Ok(taken) => {
                    if let Some(cut_off) = &taken.cut_off {
                        agent.drop_turn(cut_off).await.map_err(cannot_run)?;
                    }
                    Ok((taken.conversation, Vec::new(), occupied, true))
                }
                Err(AgentError::NotFound(_)) => {
                    let conversation =
                        agent.begin_as(session.clone(), "api_server", SessionKind::Gateway).with_task(task);
                    Ok((conversation, asked.history.clone(), occupied, true))
                }
                Err(error) => Err(cannot_run(error)),
            }
        }
        Session::Matching(session) => {
            if let Some(occupied) = app.occupy(session.as_str()) {
                match agent.take_up(session).await {
                    Err(AgentError::NotFound(_)) => {
                        let conversation =
                            agent.begin_as(session.clone(), "api_server", SessionKind::Gateway);
                        return Ok((conversation, asked.history.clone(), occupied, false));
                    }
                    Ok(taken)
                        if taken.cut_off.is_none()
                            && tells_the_same(taken.conversation.messages(), &asked.history) =>
                    {
                        return Ok((taken.conversation, Vec::new(), occupied, false));
                    }
                    Ok(_) | Err(AgentError::Busy { .. }) => {}
                    Err(error) => return Err(cannot_run(error)),
                }
            }
            // Another conversation that began the same way.
            let own = SessionId::new(format!("{session}-{}", random_hex(8)));
            let occupied = app.occupy(own.as_str()).ok_or_else(in_use)?;
            let conversation = agent.begin_as(own, "api_server", SessionKind::Gateway);
            Ok((conversation, asked.history.clone(), occupied, false))
        }
    }
}

/// Whether a transcript is what the client says was said: clients do not send tool calls back.
fn tells_the_same(stored: &[Message], told: &[Message]) -> bool {
    fn spoken(messages: &[Message]) -> impl Iterator<Item = (Role, &Message)> {
        messages
            .iter()
            .filter(|message| matches!(message.role, Role::User | Role::Assistant))
            .filter(|message| message.tool_calls.is_empty())
            .map(|message| (message.role, message))
    }
    let same = |(a, b): ((Role, &Message), (Role, &Message))| {
        a.0 == b.0 && a.1.content.text().trim() == b.1.content.text().trim()
    };
    spoken(stored).count() == spoken(told).count() && spoken(stored).zip(spoken(told)).all(same)
}

fn in_use() -> ApiError {
    ApiError {
        retry_after: Some(1),
        ..ApiError::new(
            axum::http::StatusCode::CONFLICT,
            "session_busy",
            "A turn is running in this session; wait until it has ended",
        )
    }
}

fn cannot_run(error: AgentError) -> ApiError {
    match error {
        AgentError::Busy { .. } => in_use(),
        AgentError::NotFound(session) => ApiError::not_found(format!("Session not found: {session}")),
        AgentError::Store(error) => error.into(),
    }
}

/// Passes events on; nobody is there to be asked.
pub(crate) struct Listener(pub(crate) Option<UnboundedSender<Event>>);

impl Frontend for Listener {
    fn show(&self, event: Event) {
        if let Some(events) = &self.0 {
            // A client that has left hears nothing.
            let _ = events.send(event);
        }
    }

    fn ask<'a>(&'a self, _: Question, _: &'a Cancel) -> BoxFuture<'a, Answer> {
        Box::pin(std::future::ready(Answer::Unavailable))
    }
}
