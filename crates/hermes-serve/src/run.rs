//! Runs a turn for a request: selects its session and history, and ends it when nobody waits for it any more.

use data_encoding::HEXLOWER;
use hermes_agent::{
    Agent, Conversation, Error as AgentError, PastTurn, STOP_GRACE, TurnInput as Question, TurnOutcome,
    TurnRequest, TurnResult, TurnWork,
};
use hermes_gateway::AgentRequest;
use hermes_store::Continuation;
use hermes_types::{
    Cancel, Frontend, Message, MessageContent, Role, SessionId, SessionKind, TaskId, Turn, TurnId, random_hex,
};
use sha2::{Digest as _, Sha256};

use crate::app::{App, SessionGuard};
use crate::error::ApiError;
use crate::turn_answer::{ApiFinishReason, TurnAnswer};

/// The turn a request asks for.
#[derive(Debug, Clone)]
pub(crate) struct ApiTurnRequest {
    /// The earlier messages, as the client sent them.
    pub(crate) history: Vec<Message>,
    pub(crate) input: MessageContent,
    /// Instructions added to the prompt for this turn.
    pub(crate) instructions: Option<String>,
    pub(crate) session: SessionChoice,
}

/// Selects the session of a turn. Each id stands for its whole conversation, wherever compression has moved it.
#[derive(Debug, Clone)]
pub(crate) enum SessionChoice {
    /// The client named the session; its own transcript is the history.
    Named(SessionId),
    /// The current session of a conversation on this server; its own transcript is the history.
    Continued(SessionId),
    /// The session with this id if it holds exactly this history; otherwise a new one.
    Matching(SessionId, ToolState),
}

impl SessionChoice {
    pub(crate) fn id(&self) -> &SessionId {
        match self {
            Self::Named(session) | Self::Continued(session) | Self::Matching(session, _) => session,
        }
    }

    /// Returns the id the client is told: the name it gave, however often the conversation has moved.
    pub(crate) fn reported_id<'a>(&'a self, actual: &'a SessionId) -> &'a SessionId {
        match self {
            Self::Named(name) => name,
            Self::Continued(_) | Self::Matching(..) => actual,
        }
    }
}

/// Says whether tools keep their state for the next request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ToolState {
    Kept,
    Dropped,
}

/// The result of a turn.
#[derive(Debug)]
pub(crate) struct CompletedTurn {
    pub(crate) answer: TurnAnswer,
    /// The whole conversation after the turn.
    pub(crate) messages: Vec<Message>,
    /// The index of this turn's first message, the question.
    pub(crate) first: usize,
}

/// Derives the id of an unnamed conversation: the same as long as it begins the same way.
pub(crate) fn derived_session(instructions: Option<&str>, first_words: &str) -> SessionId {
    let mut digest = Sha256::new();
    digest.update(instructions.unwrap_or_default().as_bytes());
    digest.update(b"\n");
    digest.update(first_words.as_bytes());
    let digest = digest.finalize();
    SessionId::new(format!("api-{}", HEXLOWER.encode(digest.get(..8).unwrap_or_default())))
}

/// Stops a turn when dropped, because its client has left.
pub(crate) struct StopOnDrop(pub(crate) Cancel);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

pub(crate) async fn run_turn(
    app: &App,
    id: TurnId,
    asked: ApiTurnRequest,
    frontend: &dyn Frontend,
    cancel: &Cancel,
) -> Result<CompletedTurn, ApiError> {
    let agent = build_agent(app, asked.instructions.clone())?;
    let OpenedSession { mut conversation, earlier_messages: before, tools, _occupied } =
        open(app, &agent, &asked).await?;
    let first = conversation.messages().len() + before.len();
    let said = Box::new(Question {
        content: asked.input,
        stored: None,
        earlier_messages: before,
        inbox_rows: Vec::new(),
    });
    let work = TurnWork::Begin { id: id.clone(), input: said };
    let request = TurnRequest { work, frontend, cancel, grace: Some(STOP_GRACE) };
    let outcome = agent.drive(&mut conversation, request).await;
    finish_turn(app, &agent, &conversation, tools, first, &id, outcome).await
}

/// Resumes a turn that was cut off, once only.
pub(crate) async fn resume_turn(
    app: &App,
    turn: &Turn,
    asked: &ApiTurnRequest,
    frontend: &dyn Frontend,
    cancel: &Cancel,
) -> Result<CompletedTurn, ApiError> {
    let agent = build_agent(app, asked.instructions.clone())?;
    let Continuation { first: name, .. } = agent.locate_conversation(&turn.session).await?;
    let _occupied = app.lock_session(name.as_str()).ok_or_else(session_in_use)?;
    let (task, tools) = task_of(&asked.session, &name);
    let taken = agent.load_conversation_as(&turn.session, task).await.map_err(agent_error)?;
    let mut conversation = taken.conversation;
    // Another process or request has closed the turn since it was read.
    let cut_off =
        taken.unfinished_turn.filter(|cut_off| cut_off.turn.id == turn.id).ok_or_else(session_in_use)?;
    let first = conversation.messages().iter().rposition(|message| message.role == Role::User);
    let request = TurnRequest { work: TurnWork::Resume(cut_off), frontend, cancel, grace: Some(STOP_GRACE) };
    let outcome = agent.drive(&mut conversation, request).await;
    finish_turn(app, &agent, &conversation, tools, first.unwrap_or_default(), &turn.id, outcome).await
}

/// Returns a turn that succeeded from the transcript; its answer was never sent.
pub(crate) async fn find_ended(app: &App, turn: &TurnId) -> Result<CompletedTurn, ApiError> {
    let missing = || ApiError::internal("The turn has ended, but its answer is not in the transcript");
    let past = past_turn(app, turn).await?.ok_or_else(missing)?;
    let text = past.answer().ok_or_else(missing)?;
    let PastTurn { turn, messages, first, .. } = past;
    Ok(CompletedTurn { answer: TurnAnswer::from_transcript(text, turn.session), messages, first })
}

/// Returns a turn by its id, from the session it is in now.
pub(crate) async fn past_turn(app: &App, turn: &TurnId) -> Result<Option<PastTurn>, ApiError> {
    Ok(build_agent(app, None)?.past_turn(turn).await?)
}

async fn finish_turn(
    app: &App,
    agent: &Agent,
    conversation: &Conversation,
    tools: ToolState,
    first: usize,
    turn: &TurnId,
    outcome: Result<TurnOutcome, AgentError>,
) -> Result<CompletedTurn, ApiError> {
    // Without tool calls, tools keep no state for a conversation, and recording its use would only leave entries
    // behind after a burst of requests.
    let used_tools = !matches!(outcome, Ok(TurnOutcome::Ended(_)))
        || conversation.messages().iter().any(|message| message.role == Role::Tool);
    match tools {
        ToolState::Kept if !used_tools => {}
        ToolState::Kept => app.idle.record_use(conversation.task(), app.clock.monotonic()),
        ToolState::Dropped => agent.release_task(conversation.task()),
    }
    let ran = match outcome {
        Ok(TurnOutcome::Ended(result)) => completed_turn(conversation, first, *result),
        Ok(TurnOutcome::Abandoned) => Err(ApiError::shutting_down()),
        Ok(TurnOutcome::Parked(_)) => Err(ApiError::interrupted_twice()),
        Err(error) => Err(agent_error(error)),
    };
    if ran.as_ref().is_ok_and(|ran| ran.answer.finish != ApiFinishReason::Error) {
        return ran;
    }
    // Repeating a turn that called tools would call them again: client libraries that retry failures are told not
    // to.
    let calls = app.store.tool_calls(turn).await?;
    ran.map_err(|error| error.after_tool_calls(&calls))
}

fn completed_turn(
    conversation: &Conversation,
    first: usize,
    result: TurnResult,
) -> Result<CompletedTurn, ApiError> {
    let messages = conversation.messages().to_vec();
    let last = messages.last().and_then(|message| message.finish_reason.as_ref());
    let said = TurnAnswer::from_result(result, last)?;
    Ok(CompletedTurn { answer: said, first: first.min(messages.len()), messages })
}

pub(crate) fn build_agent(app: &App, instructions: Option<String>) -> Result<Agent, ApiError> {
    let wish = AgentRequest { platform: "api_server", context: instructions, ..AgentRequest::default() };
    app.agents.agent(&wish).map_err(|reason| {
        ApiError::new(axum::http::StatusCode::SERVICE_UNAVAILABLE, "provider_not_configured", reason)
    })
}

/// A session that is ready for a turn.
struct OpenedSession {
    conversation: Conversation,
    /// The messages to add before the turn.
    earlier_messages: Vec<Message>,
    tools: ToolState,
    _occupied: SessionGuard,
}

/// Returns the task id under which tools keep a conversation's state: the id of its first session, which does not
/// change.
fn task_of(session: &SessionChoice, first: &SessionId) -> (TaskId, ToolState) {
    match session {
        SessionChoice::Matching(_, ToolState::Dropped) => (TaskId::generate(), ToolState::Dropped),
        SessionChoice::Named(_)
        | SessionChoice::Continued(_)
        | SessionChoice::Matching(_, ToolState::Kept) => (TaskId::new(first.as_str()), ToolState::Kept),
    }
}

async fn open(app: &App, agent: &Agent, asked: &ApiTurnRequest) -> Result<OpenedSession, ApiError> {
    let Continuation { first, newest } = agent.locate_conversation(asked.session.id()).await?;
    match &asked.session {
        SessionChoice::Named(_) | SessionChoice::Continued(_) => {
            open_named(app, agent, &first, &newest, asked).await
        }
        SessionChoice::Matching(..) => open_matching(app, agent, &first, &newest, asked).await,
    }
}

async fn open_named(
    app: &App,
    agent: &Agent,
    first: &SessionId,
    newest: &SessionId,
    asked: &ApiTurnRequest,
) -> Result<OpenedSession, ApiError> {
    let occupied = app.lock_session(first.as_str()).ok_or_else(session_in_use)?;
    let (task, tools) = task_of(&asked.session, first);
    let (conversation, before) = match agent.load_conversation_as(newest, task.clone()).await {
        Ok(taken) => {
            if let Some(cut_off) = &taken.unfinished_turn {
                agent.drop_turn(cut_off).await.map_err(agent_error)?;
            }
            (taken.conversation, Vec::new())
        }
        Err(AgentError::NotFound(_)) => {
            let begun = agent
                .new_conversation_with_id(newest.clone(), "api_server", SessionKind::Gateway)
                .with_task(task);
            (begun, asked.history.clone())
        }
        Err(error) => return Err(agent_error(error)),
    };
    Ok(OpenedSession { conversation, earlier_messages: before, tools, _occupied: occupied })
}

async fn open_matching(
    app: &App,
    agent: &Agent,
    first: &SessionId,
    newest: &SessionId,
    asked: &ApiTurnRequest,
) -> Result<OpenedSession, ApiError> {
    let opened = |conversation, before, tools, occupied| OpenedSession {
        conversation,
        earlier_messages: before,
        tools,
        _occupied: occupied,
    };
    let begin =
        |id, task| agent.new_conversation_with_id(id, "api_server", SessionKind::Gateway).with_task(task);
    if let Some(occupied) = app.lock_session(first.as_str()) {
        let (task, tools) = task_of(&asked.session, first);
        match agent.load_conversation_as(newest, task.clone()).await {
            Err(AgentError::NotFound(_)) => {
                let begun = begin(newest.clone(), task);
                return Ok(opened(begun, asked.history.clone(), tools, occupied));
            }
            // A session with a cut-off turn is left for that turn's request, which may be repeated.
            Ok(taken) if taken.unfinished_turn.is_none() => {
                if matches_client_history(app, &taken.conversation, first, &asked.history).await? {
                    return Ok(opened(taken.conversation, Vec::new(), tools, occupied));
                }
            }
            Ok(_) | Err(AgentError::Busy { .. }) => {}
            Err(error) => return Err(agent_error(error)),
        }
    }
    // The session belongs to another conversation that began the same way.
    let own = SessionId::new(format!("{first}-{}", random_hex(8)));
    let occupied = app.lock_session(own.as_str()).ok_or_else(session_in_use)?;
    let (task, tools) = task_of(&asked.session, &own);
    Ok(opened(begin(own, task), asked.history.clone(), tools, occupied))
}

/// Tells whether a conversation matches the client's history. A client that sends the whole history does not know
/// that it was compressed here.
async fn matches_client_history(
    app: &App,
    conversation: &Conversation,
    first: &SessionId,
    told: &[Message],
) -> Result<bool, ApiError> {
    if matches_transcript(conversation.messages(), told) {
        return Ok(true);
    }
    if conversation.session() == first {
        return Ok(false);
    }
    let whole = app.store.full_conversation(conversation.session()).await?;
    let whole: Vec<Message> = whole.into_iter().map(|row| row.message).collect();
    Ok(matches_transcript(&whole, told))
}

/// Tells whether a transcript matches the client's history: clients do not send tool calls back.
fn matches_transcript(stored: &[Message], told: &[Message]) -> bool {
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

pub(crate) fn session_in_use() -> ApiError {
    ApiError {
        retry_after: Some(1),
        ..ApiError::new(
            axum::http::StatusCode::CONFLICT,
            "session_busy",
            "A turn is running in this session; wait until it has ended",
        )
    }
}

fn agent_error(error: AgentError) -> ApiError {
    match error {
        AgentError::Busy { .. } => session_in_use(),
        AgentError::NotFound(session) => ApiError::not_found(format!("Session not found: {session}")),
        AgentError::Store(error) => error.into(),
    }
}
