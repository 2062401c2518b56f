//! The steps of a turn that must happen together or not at all.
//!
//! Each is one transaction: a process that dies leaves the state before the step or the state after it, never a
//! part.

use std::time::Duration;

use hermes_text::{Title, next_title, title_base};
use hermes_types::{
    CallId, Envelope, HolderId, InboxId, MessageId, OutcomeStatus, OutgoingMessage, SessionId, Timestamp,
    Turn, TurnId,
};
use rusqlite::{OptionalExtension, params};

use crate::error::OperationResult;
use crate::message::{self, NewMessage};
use crate::pending_result::PendingResult;
use crate::session::{self, NewSession};
use crate::writer::{Durability, OperationScope};
use crate::{
    EndReason, InboxCloseReason, InboxInsertion, LeaseOutcome, Store, conversation, goal, inbox, lease,
    outbox, title, turn,
};

/// The end of a call, and the message that reports it to the model.
#[derive(Debug, Clone)]
pub struct FinishedCall {
    pub turn: TurnId,
    pub call: CallId,
    pub status: OutcomeStatus,
    /// The place where the rest of a long result is stored.
    pub handle: Option<String>,
    pub session: SessionId,
    pub message: NewMessage,
}

/// The data recorded when a turn begins.
#[derive(Debug, Clone)]
pub struct TurnOpening {
    /// The session, which is created if this is its first turn.
    pub session: NewSession,
    pub messages: Vec<NewMessage>,
    pub turn: Turn,
    /// The inbox rows the turn answers.
    pub inbox: Vec<InboxId>,
    /// Who speaks, on a platform with many users.
    pub speaker: Option<String>,
}

/// The outcome for messages from the inbox.
#[derive(Debug, Clone)]
pub struct InboxSettlement {
    pub inbox: Vec<InboxId>,
    pub closing: InboxCloseReason,
    pub note: Option<String>,
    pub conversation: String,
    /// The replies to send, in this order.
    pub replies: Vec<OutgoingMessage>,
    pub at: Timestamp,
}

/// Work that a message requested and that continues after the message is closed.
#[derive(Debug, Clone)]
pub struct FollowUpWork {
    pub conversation: String,
    pub envelope: Envelope,
}

impl Store {
    /// Acquires the session's lease for `span` and opens a turn with the messages that began it. Nothing is
    /// written when another holder has the session.
    pub fn begin_turn(
        &self,
        opening: TurnOpening,
        holder: &HolderId,
        span: Duration,
    ) -> PendingResult<LeaseOutcome> {
        let holder = holder.clone();
        self.write(Durability::Process, move |scope| {
            let TurnOpening { session, messages, turn, inbox: answers, speaker } = &opening;
            let leased = lease::acquire(scope, turn.session.as_str(), &holder, turn.started_at, span)?;
            if leased != LeaseOutcome::Granted {
                return Ok(leased);
            }
            session::insert(scope, session)?;
            turn::insert(scope, turn, &holder)?;
            for id in answers {
                scope.execute_cached(
                    "UPDATE hx_inbox SET turn_id = ?2 WHERE id = ?1",
                    params![id.0, turn.id.as_str()],
                )?;
            }
            for message in messages {
                let id = message::insert(scope, &session.id, message)?;
                if let Some(speaker) = speaker {
                    scope.execute_cached(
                        "INSERT OR REPLACE INTO hx_speakers (message_id, session_id, user_id) VALUES (?1, ?2, ?3)",
                        params![id.0, session.id.as_str(), speaker],
                    )?;
                }
            }
            // The binding of a chat is older than the first turn of its session.
            conversation::list_session_of_chat(scope, &session.id)?;
            Ok(leased)
        })
    }

    /// Closes the inbox rows of processed messages and queues the replies to them, together.
    pub fn settle_inbox(&self, settled: InboxSettlement) -> PendingResult<()> {
        self.write(Durability::Disk, move |scope| {
            for id in &settled.inbox {
                inbox::close(scope, *id, settled.closing, settled.note.as_deref(), settled.at)?;
            }
            for reply in &settled.replies {
                outbox::insert(scope, &settled.conversation, reply, settled.at)?;
            }
            Ok(())
        })
    }

    /// Settles the messages and also accepts the work they requested, in one step.
    pub fn settle_with_follow_up(
        &self,
        settled: InboxSettlement,
        follow_up: FollowUpWork,
    ) -> PendingResult<InboxInsertion> {
        self.write(Durability::Disk, move |scope| {
            for id in &settled.inbox {
                inbox::close(scope, *id, settled.closing, settled.note.as_deref(), settled.at)?;
            }
            for reply in &settled.replies {
                outbox::insert(scope, &settled.conversation, reply, settled.at)?;
            }
            inbox::insert(scope, &follow_up.conversation, &follow_up.envelope)
        })
    }

    /// Records a call's end together with its result: a finished call always has one.
    pub fn finish_call(&self, finished: FinishedCall) -> PendingResult<MessageId> {
        self.write(Durability::Process, move |scope| {
            let FinishedCall { turn, call, status, handle, session, message } = &finished;
            scope
                .connection
                .prepare_cached("UPDATE hx_tool_calls SET status = ?3, handle = ?4, ended_at = ?5 WHERE turn_id = ?1 AND call_id = ?2")?
                .execute(params![turn.as_str(), call.as_str(), status.as_str(), handle, message.at.seconds()])?;
            message::insert(scope, session, message)
        })
    }

    /// Continues a conversation in a new session: the old one ends, and the new one gets its messages and the next
    /// number of its title. The chat bound to the old session, the turn running in it and its lease move to the
    /// new one.
    pub fn split_session(
        &self,
        old: &SessionId,
        new: NewSession,
        messages: Vec<NewMessage>,
        at: Timestamp,
    ) -> PendingResult<()> {
        let old = old.clone();
        self.write(Durability::Process, move |scope| {
            scope.connection.execute(
                "UPDATE sessions SET ended_at = COALESCE(ended_at, ?2), end_reason = ?3 WHERE id = ?1",
                params![old.as_str(), at.seconds(), EndReason::Compression.as_str()],
            )?;
            session::insert(scope, &new)?;
            for message in &messages {
                message::insert(scope, &new.id, message)?;
            }
            carry_title(scope, &old, &new.id)?;
            goal::carry(scope, &old, &new.id)?;
            scope.connection.execute(
                "UPDATE hx_turns SET session_id = ?2 WHERE session_id = ?1 AND state = 'running'",
                [old.as_str(), new.id.as_str()],
            )?;
            conversation::move_bindings(scope, &old, &new.id, at)?;
            scope.connection.execute(
                "UPDATE OR REPLACE hx_leases SET conversation = ?2 WHERE conversation = ?1",
                [old.as_str(), new.id.as_str()],
            )?;
            Ok(())
        })
    }

    /// Acquires the lease of a conversation from a holder that is known to have ended.
    pub fn acquire_lease_from(
        &self,
        conversation: &str,
        gone: &HolderId,
        holder: &HolderId,
        now: Timestamp,
        span: Duration,
    ) -> PendingResult<bool> {
        let (conversation, gone, holder) = (conversation.to_owned(), gone.clone(), holder.clone());
        self.write(Durability::Process, move |scope| {
            let taken = scope
                .connection
                .prepare_cached("UPDATE hx_leases SET holder = ?3, taken_at = ?4, expires_at = ?5 WHERE conversation = ?1 AND holder = ?2")?
                .execute(params![
                    conversation,
                    gone.as_str(),
                    holder.as_str(),
                    now.seconds(),
                    now.plus(span).seconds()
                ])?;
            Ok(taken > 0)
        })
    }
}

fn carry_title(scope: &OperationScope<'_>, old: &SessionId, new: &SessionId) -> OperationResult<()> {
    let current: Option<Option<String>> = scope
        .connection
        .prepare_cached("SELECT title FROM sessions WHERE id = ?1")?
        .query_row([old.as_str()], |row| row.get(0))
        .optional()?;
    let Some(current) = current.flatten() else { return Ok(()) };
    let taken = title::series(scope, title_base(&current))?;
    let next = next_title(&current, taken.iter().map(|(_, taken)| taken.as_str()));
    match Title::sanitise(&next) {
        Ok(next) => title::assign(scope, new, next.as_ref()),
        // A title at its maximum length has no space for a number; the new session then has no title.
        Err(_) => Ok(()),
    }
}
