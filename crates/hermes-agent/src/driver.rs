//! One way to run a turn, the same for the terminal, chats, the API and scheduled jobs.
//!
//! Holds what happens around a turn: resuming one that was cut off, the grace period after a stop request,
//! closing a turn that does not stop, and looking up a turn that ended earlier. The turn itself is in `turn/`.
//! Invariant: a driven turn is closed, by its own id and in whichever session compression has moved it to, when
//! the driver returns; only dropping the driver leaves it running, for the next process to resume.

use std::time::Duration;

use futures_util::future::{Either, select};
use hermes_store::{Error as StoreError, ToolCallRecord};
use hermes_types::{
    BoxFuture, Cancel, Frontend, Message, OutcomeStatus, Role, SessionId, Turn, TurnId, TurnState,
};

use crate::agent::Agent;
use crate::conversation::{Conversation, UnfinishedTurn};
use crate::error::Error;
use crate::lease;
use crate::result::TurnResult;
use crate::review::{review, review_due};
use crate::title::title_conversation;
use crate::turn::open_calls::answer_waiting_calls;
use crate::turn::reply::final_text;
use crate::turn::{LeasedTurn, TurnInput};

/// The time a turn gets to end after a stop request, on surfaces that do not wait without limit.
pub const STOP_GRACE: Duration = Duration::from_secs(5);

/// The work of a driven turn.
#[derive(Debug, Clone)]
pub enum TurnWork {
    /// Begins a turn under this id.
    Begin { id: TurnId, input: Box<TurnInput> },
    /// Resumes a turn that a process left unfinished.
    Resume(UnfinishedTurn),
}

impl TurnWork {
    /// Begins a turn under a new id.
    pub fn begin(input: TurnInput) -> Self {
        Self::Begin { id: TurnId::generate(), input: Box::new(input) }
    }
}

/// A turn to run.
#[expect(missing_debug_implementations, reason = "it holds ports")]
pub struct TurnRequest<'a> {
    pub work: TurnWork,
    pub frontend: &'a dyn Frontend,
    pub cancel: &'a Cancel,
    /// The time a turn may take after a stop request; unlimited when absent.
    pub grace: Option<Duration>,
}

/// The end of a driven turn.
#[derive(Debug)]
pub enum TurnOutcome {
    Ended(Box<TurnResult>),
    /// The turn did not stop within its grace period. It is closed; what it did is in the transcript.
    Abandoned,
    /// The turn had been cut off too often and was not resumed. It is closed.
    Parked(UnfinishedTurn),
}

/// Tells whether a conversation gets a title after its first exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Naming {
    Automatic,
    /// The conversation is not one that somebody looks for later.
    Never,
}

/// A turn that has ended, as stored in the database.
#[derive(Debug, Clone)]
pub struct PastTurn {
    pub turn: Turn,
    /// The transcript up to the end of this turn.
    pub messages: Vec<Message>,
    /// The index of this turn's first message, the user's.
    pub first: usize,
    pub calls: Vec<ToolCallRecord>,
}

impl PastTurn {
    /// Returns the answer, if the turn produced one.
    pub fn answer(&self) -> Option<String> {
        self.messages.get(self.first..)?.last().and_then(final_text)
    }

    /// Tells whether tools were started: repeating such a turn may repeat what they did.
    pub fn has_acted(&self) -> bool {
        !self.calls.is_empty()
    }

    /// Describes in one sentence which tools the turn started and how each ended.
    pub fn describe_calls(&self) -> String {
        describe_calls(&self.calls)
    }
}

/// Describes in one sentence which tools were started and how each ended.
pub fn describe_calls(calls: &[ToolCallRecord]) -> String {
    const MOST: usize = 20;
    let told = |call: &ToolCallRecord| {
        let end = match call.status {
            Some(OutcomeStatus::Done) => "done",
            Some(OutcomeStatus::Failed) => "failed",
            Some(OutcomeStatus::Cancelled) => "cancelled",
            Some(OutcomeStatus::Unknown) | None => "outcome unknown",
        };
        format!("{} ({end})", call.name)
    };
    let mut names: Vec<String> = calls.iter().take(MOST).map(told).collect();
    if calls.len() > MOST {
        names.push(format!("and {} more", calls.len() - MOST));
    }
    match names.as_slice() {
        [] => "No tool had been started.".to_owned(),
        names => format!("These tools had been started: {}.", names.join(", ")),
    }
}

impl Agent {
    /// Runs a turn to its end, or resumes one. An error inside the turn is part of its outcome.
    pub async fn drive(
        &self,
        conversation: &mut Conversation,
        request: TurnRequest<'_>,
    ) -> Result<TurnOutcome, Error> {
        let TurnRequest { work, frontend, cancel, grace } = request;
        let id = match &work {
            TurnWork::Begin { id, .. } => id.clone(),
            TurnWork::Resume(cut_off) => cut_off.turn.id.clone(),
        };
        let ended = {
            let running = async {
                match work {
                    TurnWork::Begin { id, input } => {
                        let result = begin_turn(self, conversation, id, *input, frontend, cancel).await?;
                        Ok(TurnOutcome::Ended(Box::new(result)))
                    }
                    TurnWork::Resume(cut_off) => {
                        if cut_off.parked || !claim_unfinished_turn(self, conversation, &cut_off).await? {
                            answer_waiting_calls(self, conversation).await?;
                            self.drop_turn(&cut_off).await?;
                            return Ok(TurnOutcome::Parked(cut_off));
                        }
                        let resumed = LeasedTurn::new(self, conversation, frontend, cancel).resume(&cut_off);
                        let result = Box::pin(resumed).await?;
                        Ok(TurnOutcome::Ended(Box::new(result)))
                    }
                }
            };
            let overdue = async {
                cancel.cancelled().await;
                match grace {
                    Some(grace) => self.clock.sleep(grace).await,
                    None => std::future::pending().await,
                }
            };
            match select(std::pin::pin!(running), std::pin::pin!(overdue)).await {
                Either::Left((ended, _)) => Some(ended),
                Either::Right(_) => None,
            }
        };
        if let Some(ended) = ended {
            return ended;
        }
        abandon_turn(self, &id).await?;
        Ok(TurnOutcome::Abandoned)
    }

    /// Runs a turn that nobody resumes, and waits for its end however long it takes to stop: a subagent's, a background
    /// prompt's, an embedding program's. Only a database that cannot be written, or another process that works in the
    /// same conversation, is an error; everything else is a result.
    pub async fn run_turn(
        &self,
        conversation: &mut Conversation,
        input: TurnInput,
        frontend: &dyn Frontend,
        cancel: &Cancel,
    ) -> Result<TurnResult, Error> {
        begin_turn(self, conversation, TurnId::generate(), input, frontend, cancel).await
    }

    /// Does what follows a turn, while nobody waits for it: names the conversation and reviews it, where due. Returns
    /// what a review stored, in a line for the user.
    pub async fn follow_up(
        &self,
        conversation: &Conversation,
        naming: Naming,
        cancel: &Cancel,
    ) -> Option<String> {
        if naming == Naming::Automatic {
            title_conversation(self, conversation, cancel).await;
        }
        let due = review_due(self, conversation);
        if due.is_any() { review(self, conversation, due, cancel).await } else { None }
    }

    /// Returns a turn that has ended or was cut off, from the session it is in now.
    pub async fn past_turn(&self, id: &TurnId) -> Result<Option<PastTurn>, StoreError> {
        let Some(turn) = self.store.turn(id).await? else { return Ok(None) };
        let (rows, calls, next) = (
            self.store.transcript(&turn.session),
            self.store.tool_calls(id),
            self.store.next_turn_start(&turn),
        );
        let (rows, calls, next) = (rows.await?, calls.await?, next.await?);
        let end = next.and_then(|next| rows.iter().position(|row| row.at >= next)).unwrap_or(rows.len());
        let own = rows.get(..end).unwrap_or_default();
        // The user's message was stored when the turn began. After a compression, it or its summary is further
        // up.
        let began = own.iter().rposition(|row| row.message.role == Role::User && row.at <= turn.started_at);
        let first = began.or_else(|| own.iter().rposition(|row| row.message.role == Role::User));
        let first = first.unwrap_or_default();
        let messages = rows.into_iter().take(end).map(|row| row.message).collect();
        Ok(Some(PastTurn { turn, messages, first, calls }))
    }

    /// Returns the first session of the conversation a session belongs to, and its current one.
    pub async fn locate_conversation(
        &self,
        session: &SessionId,
    ) -> Result<hermes_store::Continuation, StoreError> {
        self.store.continuation(session).await
    }
}

/// Runs a new turn. The future is boxed, because a turn runs those of its subagents.
fn begin_turn<'a>(
    agent: &'a Agent,
    conversation: &'a mut Conversation,
    id: TurnId,
    input: TurnInput,
    frontend: &'a dyn Frontend,
    cancel: &'a Cancel,
) -> BoxFuture<'a, Result<TurnResult, Error>> {
    LeasedTurn::new(agent, conversation, frontend, cancel).begin(id, input)
}

/// Takes over a cut-off turn. Returns false when it was cut off too often or has ended meanwhile.
async fn claim_unfinished_turn(
    agent: &Agent,
    conversation: &Conversation,
    cut_off: &UnfinishedTurn,
) -> Result<bool, Error> {
    lease::acquire(agent, conversation).await?;
    let state = agent.store.record_cut_off(&cut_off.turn.id, agent.holder.clone(), agent.clock.now()).await?;
    Ok(state == Some(TurnState::Running))
}

/// Closes a turn whose work was dropped because it did not stop when told to.
async fn abandon_turn(agent: &Agent, id: &TurnId) -> Result<(), StoreError> {
    let note = Some("did not stop when told to".to_owned());
    agent.store.close_turn(id, TurnState::Interrupted, note, agent.clock.now()).await?;
    if let Some(turn) = agent.store.turn(id).await? {
        agent.store.release_lease(turn.session.as_str(), &agent.holder).await?;
    }
    Ok(())
}
