//! A turn for a request: in which session, with which history, and ended when nobody waits for it any more.

use std::fmt::Write as _;
use std::sync::Arc;

use hermes_agent::{Agent, Conversation, Error as AgentError, Said as Question, TurnResult};
use hermes_gateway::Wish;
use hermes_store::KeyedRequest;
use hermes_types::{
    Cancel, Content, Frontend, Message, Role, SessionId, SessionKind, TaskId, Turn, TurnId, random_hex,
};
use sha2::{Digest as _, Sha256};
use tokio::sync::OwnedSemaphorePermit;

use crate::app::{App, Occupied};
use crate::error::ApiError;
use crate::follow::Listener;
use crate::keyed;
use crate::said::Said;

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
    pub(crate) said: Said,
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
    let digest = digest.finalize();
    SessionId::new(format!("api-{}", hex(digest.get(..8).unwrap_or_default())))
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        // Writing to a `String` cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Stops a turn when it is dropped: whoever waited has left.
pub(crate) struct StopOnDrop(pub(crate) Cancel);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

/// Runs the turn in a task of its own and waits for it. Dropping this future ends the turn in good order, unless it has a
/// key: then it goes on, and its answer is had by the same key.
pub(crate) async fn perform(
    app: &App,
    keyed: Option<KeyedRequest>,
    asked: Asked,
    listener: Listener,
    room: OwnedSemaphorePermit,
) -> Result<Arc<Ran>, ApiError> {
    if let Some(request) = keyed {
        return keyed::once(app, request, asked, listener, room).await;
    }
    let stop = app.tasks.cancel_token().child_token();
    let _guard = StopOnDrop(stop.clone());
    let owner = app.clone();
    let task = app.tasks.spawn_cooperative("an API turn", move |_| async move {
        let _room = room;
        turn(&owner, TurnId::generate(), asked, &listener, &stop).await
    });
    match task.await {
        Ok(ran) => ran.map(Arc::new),
        Err(ended) => Err(ApiError::internal(format!("The turn ended unexpectedly: {ended}"))),
    }
}

pub(crate) async fn turn(
    app: &App,
    id: TurnId,
    asked: Asked,
    frontend: &dyn Frontend,
    cancel: &Cancel,
) -> Result<Ran, ApiError> {
    let agent = agent(app, asked.instructions.clone())?;
    let Opened { mut conversation, before, tools, _occupied } = open(app, &agent, &asked).await?;
    let first = conversation.messages().len() + before.len();
    let said = Question { content: asked.input, stored: None, before, inbox: Vec::new() };
    let result = agent.run_as(id, &mut conversation, said, frontend, cancel).await;
    close(app, &agent, &conversation, tools, first, result)
}

/// Goes on with a turn that was cut off; once only.
pub(crate) async fn resume(
    app: &App,
    turn: &Turn,
    asked: &Asked,
    frontend: &dyn Frontend,
    cancel: &Cancel,
) -> Result<Ran, ApiError> {
    let agent = agent(app, asked.instructions.clone())?;
    let _occupied = app.occupy(turn.session.as_str()).ok_or_else(in_use)?;
    let (task, tools) = match &asked.session {
        Session::Named(name) => (TaskId::new(name.as_str()), ToolState::Kept),
        Session::Matching(_) => (TaskId::generate(), ToolState::Dropped),
    };
    let taken = agent.take_up_as(&turn.session, task).await.map_err(cannot_run)?;
    let mut conversation = taken.conversation;
    // Somebody else has closed it since it was looked at.
    let cut_off = taken.cut_off.filter(|cut_off| cut_off.turn.id == turn.id).ok_or_else(in_use)?;
    if cut_off.parked {
        return Err(ApiError::cut_off_twice());
    }
    let first = conversation.messages().iter().rposition(|message| message.role == Role::User);
    let result = agent.resume_turn(&mut conversation, &cut_off, frontend, cancel).await;
    close(app, &agent, &conversation, tools, first.unwrap_or_default(), result)
}

/// What a turn that ended well left in the transcript; only its answer was never told.
pub(crate) async fn find_ended(app: &App, turn: &Turn) -> Result<Ran, ApiError> {
    let rows = app.gateway.store.transcript(&turn.session).await?;
    let asked = rows.iter().rposition(|row| row.message.role == Role::User && row.at <= turn.started_at);
    let first = asked.unwrap_or_default();
    // The words of a later turn are not this one's.
    let later = rows.iter().skip(first + 1).position(|row| row.message.role == Role::User);
    let end = later.map_or(rows.len(), |at| first + 1 + at);
    let messages: Vec<Message> = rows.into_iter().take(end).map(|row| row.message).collect();
    let text = messages
        .last()
        .and_then(hermes_agent::last_words)
        .ok_or_else(|| ApiError::internal("The turn has ended, but its answer is not in the transcript"))?;
    Ok(Ran { said: Said::found(text, turn.session.clone()), messages, first })
}

fn close(
    app: &App,
    agent: &Agent,
    conversation: &Conversation,
    tools: ToolState,
    first: usize,
    result: Result<TurnResult, AgentError>,
) -> Result<Ran, ApiError> {
    match tools {
        ToolState::Kept => app.idle.note(conversation.task(), app.gateway.clock.monotonic()),
        ToolState::Dropped => agent.release(conversation.task()),
    }
    let messages = conversation.messages().to_vec();
    let last = messages.last().and_then(|message| message.finish_reason.as_ref());
    let said = Said::of(result.map_err(cannot_run)?, last)?;
    Ok(Ran { said, first: first.min(messages.len()), messages })
}

pub(crate) fn agent(app: &App, instructions: Option<String>) -> Result<Agent, ApiError> {
    let wish = Wish { platform: "api_server", context: instructions, ..Wish::default() };
    app.gateway.ports.agents.agent(&wish).map_err(|reason| {
        ApiError::new(axum::http::StatusCode::SERVICE_UNAVAILABLE, "provider_not_configured", reason)
    })
}

/// Whether tools keep their state for the next request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ToolState {
    Kept,
    Dropped,
}

/// A conversation that can be gone on with.
struct Opened {
    conversation: Conversation,
    /// What has to be added to it first.
    before: Vec<Message>,
    tools: ToolState,
    _occupied: Occupied,
}

async fn open(app: &App, agent: &Agent, asked: &Asked) -> Result<Opened, ApiError> {
    match &asked.session {
        Session::Named(session) => open_named(app, agent, session, asked).await,
        Session::Matching(session) => open_matching(app, agent, session, asked).await,
    }
}

async fn open_named(
    app: &App,
    agent: &Agent,
    session: &SessionId,
    asked: &Asked,
) -> Result<Opened, ApiError> {
    let occupied = app.occupy(session.as_str()).ok_or_else(in_use)?;
    let task = TaskId::new(session.as_str());
    let (conversation, before) = match agent.take_up_as(session, task.clone()).await {
        Ok(taken) => {
            if let Some(cut_off) = &taken.cut_off {
                agent.drop_turn(cut_off).await.map_err(cannot_run)?;
            }
            (taken.conversation, Vec::new())
        }
        Err(AgentError::NotFound(_)) => {
            let begun = agent.begin_as(session.clone(), "api_server", SessionKind::Gateway).with_task(task);
            (begun, asked.history.clone())
        }
        Err(error) => return Err(cannot_run(error)),
    };
    Ok(Opened { conversation, before, tools: ToolState::Kept, _occupied: occupied })
}

async fn open_matching(
    app: &App,
    agent: &Agent,
    session: &SessionId,
    asked: &Asked,
) -> Result<Opened, ApiError> {
    let opened = |conversation, before, occupied| Opened {
        conversation,
        before,
        tools: ToolState::Dropped,
        _occupied: occupied,
    };
    let begin = |id| agent.begin_as(id, "api_server", SessionKind::Gateway);
    if let Some(occupied) = app.occupy(session.as_str()) {
        match agent.take_up(session).await {
            Err(AgentError::NotFound(_)) => {
                return Ok(opened(begin(session.clone()), asked.history.clone(), occupied));
            }
            Ok(taken) => match &taken.cut_off {
                None if tells_the_same(taken.conversation.messages(), &asked.history) => {
                    return Ok(opened(taken.conversation, Vec::new(), occupied));
                }
                None => {}
                // The request it belongs to may come again.
                Some(cut_off) => app.gateway.store.leave_to_request(&cut_off.turn.id).await?,
            },
            Err(AgentError::Busy { .. }) => {}
            Err(error) => return Err(cannot_run(error)),
        }
    }
    // Another conversation that began the same way.
    let own = SessionId::new(format!("{session}-{}", random_hex(8)));
    let occupied = app.occupy(own.as_str()).ok_or_else(in_use)?;
    Ok(opened(begin(own), asked.history.clone(), occupied))
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

pub(crate) fn in_use() -> ApiError {
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
