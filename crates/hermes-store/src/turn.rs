//! Turns and their tool calls, recorded before and after they run, so that a restarted process knows what was
//! running.

use hermes_types::{
    CallId, HolderId, InboxId, OutcomeStatus, SessionId, SpendingCap, Timestamp, Turn, TurnId, TurnState,
};
use rusqlite::{OptionalExtension, Row, params};

use crate::Store;
use crate::column;
use crate::error::OperationResult;
use crate::pending_result::PendingResult;
use crate::writer::{Durability, OperationScope};

/// The number of cut-offs after which a turn is not retried automatically.
const MAX_CUT_OFFS: u32 = 2;

/// A tool call that is about to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewToolCall {
    pub id: CallId,
    pub name: String,
    /// The arguments as JSON text, as the model wrote them.
    pub arguments: String,
}

/// A tool call as it was recorded.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolCallRecord {
    pub id: CallId,
    pub name: String,
    pub arguments: String,
    pub started_at: Timestamp,
    /// The way the call ended; absent while it runs. After a restart, absence means that it is unknown whether the
    /// call had an effect.
    pub status: Option<OutcomeStatus>,
    /// Tells whether a person is being asked for approval of the call, which has done nothing yet.
    pub asking: bool,
}

/// The value of `verdict` while a person is being asked.
const ASKING: &str = "asking";

const COLUMNS: &str =
    "id, session_id, inbox_id, state, started_at, deadline_at, cap_micro_usd, cap_tokens, cut_offs";

impl Store {
    /// Records a turn before its first model call.
    pub fn open_turn(&self, turn: Turn, holder: HolderId) -> PendingResult<()> {
        self.write(Durability::Process, move |scope| insert(scope, &turn, &holder))
    }

    pub fn close_turn(
        &self,
        id: &TurnId,
        state: TurnState,
        note: Option<String>,
        at: Timestamp,
    ) -> PendingResult<()> {
        let id = id.clone();
        self.write(Durability::Process, move |scope| {
            scope
                .connection
                .prepare_cached("UPDATE hx_turns SET state = ?2, note = ?3, closed_at = ?4 WHERE id = ?1 AND state = 'running'")?
                .execute(params![id.as_str(), state.as_str(), note, at.seconds()])?;
            Ok(())
        })
    }

    pub fn turn(&self, id: &TurnId) -> PendingResult<Option<Turn>> {
        let id = id.clone();
        self.read(move |scope| {
            let mut statement =
                scope.connection.prepare_cached(&format!("SELECT {COLUMNS} FROM hx_turns WHERE id = ?1"))?;
            let mut rows = statement.query([id.as_str()])?;
            rows.next()?.map(read_turn).transpose()
        })
    }

    /// Returns the newest turn of a session that is recorded as running.
    pub fn running_turn(&self, session: &SessionId) -> PendingResult<Option<Turn>> {
        let session = session.clone();
        self.read(move |scope| {
            let mut statement = scope.connection.prepare_cached(&format!(
                "SELECT {COLUMNS} FROM hx_turns WHERE session_id = ?1 AND state = 'running'
                 ORDER BY started_at DESC LIMIT 1"
            ))?;
            let mut rows = statement.query([session.as_str()])?;
            rows.next()?.map(read_turn).transpose()
        })
    }

    /// Returns when the next turn of the same session began, if there is one.
    pub fn next_turn_start(&self, turn: &Turn) -> PendingResult<Option<Timestamp>> {
        let (id, session, at) = (turn.id.clone(), turn.session.clone(), turn.started_at);
        self.read(move |scope| {
            let mut statement = scope.connection.prepare_cached(
                "SELECT MIN(started_at) FROM hx_turns WHERE session_id = ?1 AND started_at > ?2 AND id <> ?3",
            )?;
            let mut rows = statement.query(params![session.as_str(), at.seconds(), id.as_str()])?;
            let Some(row) = rows.next()? else { return Ok(None) };
            Ok(column::real(row, 0)?.map(Timestamp))
        })
    }

    /// Returns the turns recorded as running. At start-up, those whose conversation has no lease holder were cut
    /// off.
    pub fn running_turns(&self) -> PendingResult<Vec<Turn>> {
        self.read(|scope| {
            let mut statement = scope.connection.prepare_cached(&format!(
                "SELECT {COLUMNS} FROM hx_turns WHERE state = 'running' ORDER BY started_at"
            ))?;
            let mut rows = statement.query([])?;
            let mut turns = Vec::new();
            while let Some(row) = rows.next()? {
                turns.push(read_turn(row)?);
            }
            Ok(turns)
        })
    }

    /// Records that a turn was cut off and assigns it to a new holder, or parks it when that happened too often. A
    /// turn that its holder released during an orderly shutdown was not cut off. Returns the new state, or `None`
    /// when the turn had ended.
    pub fn record_cut_off(
        &self,
        id: &TurnId,
        holder: HolderId,
        at: Timestamp,
    ) -> PendingResult<Option<TurnState>> {
        let id = id.clone();
        self.write(Durability::Process, move |scope| {
            let count: Option<u32> = scope
                .connection
                .prepare_cached(
                    "UPDATE hx_turns SET cut_offs = cut_offs + (holder IS NOT NULL), holder = ?2
                     WHERE id = ?1 AND state = 'running' RETURNING cut_offs",
                )?
                .query_row(params![id.as_str(), holder.as_str()], |row| row.get(0))
                .optional()?;
            let Some(count) = count else { return Ok(None) };
            if count < MAX_CUT_OFFS {
                return Ok(Some(TurnState::Running));
            }
            scope
                .connection
                .prepare_cached("UPDATE hx_turns SET state = 'parked', closed_at = ?2 WHERE id = ?1")?
                .execute(params![id.as_str(), at.seconds()])?;
            Ok(Some(TurnState::Parked))
        })
    }

    /// Releases the turns of this process for the next one during an orderly shutdown, which does not count as a
    /// cut-off. Also ends their leases. Returns the number of turns.
    pub fn release_turns(&self) -> PendingResult<usize> {
        self.write(Durability::Disk, |scope| {
            let prefix = HolderId::process_prefix();
            let left = scope.execute_cached(
                "UPDATE hx_turns SET holder = NULL
                 WHERE state = 'running' AND substr(holder, 1, length(?1)) = ?1",
                [prefix],
            )?;
            scope
                .execute_cached("DELETE FROM hx_leases WHERE substr(holder, 1, length(?1)) = ?1", [prefix])?;
            Ok(left)
        })
    }

    /// Tells whether one more cut-off would park a turn.
    pub fn is_last_attempt(&self, id: &TurnId) -> PendingResult<bool> {
        let id = id.clone();
        self.read(move |scope| {
            let mut statement = scope
                .connection
                .prepare_cached("SELECT cut_offs + (holder IS NOT NULL) >= ?2 FROM hx_turns WHERE id = ?1")?;
            let parks: Option<bool> =
                statement.query_row(params![id.as_str(), MAX_CUT_OFFS], |row| row.get(0)).optional()?;
            Ok(parks.unwrap_or(false))
        })
    }

    /// Records a call before it runs.
    pub fn begin_call(&self, turn: &TurnId, call: NewToolCall, at: Timestamp) -> PendingResult<()> {
        let turn = turn.clone();
        self.write(Durability::Process, move |scope| {
            scope
                .connection
                .prepare_cached(
                    "INSERT INTO hx_tool_calls (turn_id, call_id, name, arguments, started_at)
                     VALUES (?1, ?2, ?3, ?4, ?5)
                     ON CONFLICT (turn_id, call_id) DO UPDATE SET verdict = NULL, started_at = excluded.started_at, ended_at = NULL, status = NULL",
                )?
                .execute(params![turn.as_str(), call.id.as_str(), call.name, call.arguments, at.seconds()])?;
            Ok(())
        })
    }

    /// Records that a person is being asked for approval of a call, before the call has done anything.
    pub fn begin_asking(&self, turn: &TurnId, call: &CallId) -> PendingResult<()> {
        self.set_verdict(turn, call, Some(ASKING))
    }

    /// Records that the question about a call is answered; from then on the call may act.
    pub fn end_asking(&self, turn: &TurnId, call: &CallId) -> PendingResult<()> {
        self.set_verdict(turn, call, None)
    }

    fn set_verdict(&self, turn: &TurnId, call: &CallId, verdict: Option<&'static str>) -> PendingResult<()> {
        let (turn, call) = (turn.clone(), call.clone());
        self.write(Durability::Process, move |scope| {
            scope.execute_cached(
                "UPDATE hx_tool_calls SET verdict = ?3 WHERE turn_id = ?1 AND call_id = ?2",
                params![turn.as_str(), call.as_str(), verdict],
            )?;
            Ok(())
        })
    }

    /// Records how a call ended; `handle` says where the rest of a long result is stored.
    pub fn end_call(
        &self,
        turn: &TurnId,
        call: &CallId,
        status: OutcomeStatus,
        handle: Option<String>,
        at: Timestamp,
    ) -> PendingResult<()> {
        let (turn, call) = (turn.clone(), call.clone());
        self.write(Durability::Process, move |scope| {
            scope
                .connection
                .prepare_cached("UPDATE hx_tool_calls SET status = ?3, handle = ?4, ended_at = ?5 WHERE turn_id = ?1 AND call_id = ?2")?
                .execute(params![turn.as_str(), call.as_str(), status.as_str(), handle, at.seconds()])?;
            Ok(())
        })
    }

    /// Returns the calls of a turn in the order they began.
    pub fn tool_calls(&self, turn: &TurnId) -> PendingResult<Vec<ToolCallRecord>> {
        let turn = turn.clone();
        self.read(move |scope| {
            let mut statement = scope.connection.prepare_cached(
                "SELECT call_id, name, arguments, started_at, status, verdict FROM hx_tool_calls WHERE turn_id = ?1
                 ORDER BY started_at, call_id",
            )?;
            let mut rows = statement.query([turn.as_str()])?;
            let mut calls = Vec::new();
            while let Some(row) = rows.next()? {
                calls.push(ToolCallRecord {
                    id: CallId::new(column::string(row, 0)?),
                    name: column::string(row, 1)?,
                    arguments: column::string(row, 2)?,
                    started_at: Timestamp(column::real(row, 3)?.unwrap_or_default()),
                    status: column::text(row, 4)?.and_then(|text| OutcomeStatus::parse(&text)),
                    asking: column::text(row, 5)?.as_deref() == Some(ASKING),
                });
            }
            Ok(calls)
        })
    }
}

pub(crate) fn insert(scope: &OperationScope<'_>, turn: &Turn, holder: &HolderId) -> OperationResult<()> {
    scope
        .connection
        .prepare_cached(&format!(
            "INSERT INTO hx_turns ({COLUMNS}, holder) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)"
        ))?
        .execute(params![
            turn.id.as_str(),
            turn.session.as_str(),
            turn.inbox.map(|id| id.0),
            turn.state.as_str(),
            turn.started_at.seconds(),
            turn.deadline_at.map(Timestamp::seconds),
            turn.cap.micro_usd.map(column::to_signed),
            turn.cap.tokens.map(column::to_signed),
            turn.cut_offs,
            holder.as_str(),
        ])?;
    Ok(())
}

fn read_turn(row: &Row<'_>) -> OperationResult<Turn> {
    let amount = |at: usize| {
        Ok::<_, crate::error::OperationError>(
            row.get::<_, Option<i64>>(at)?.and_then(|n| u64::try_from(n).ok()),
        )
    };
    Ok(Turn {
        id: TurnId::new(column::string(row, 0)?),
        session: SessionId::new(column::string(row, 1)?),
        inbox: row.get::<_, Option<i64>>(2)?.map(InboxId),
        state: TurnState::parse(&column::string(row, 3)?).unwrap_or(TurnState::Failed),
        started_at: Timestamp(column::real(row, 4)?.unwrap_or_default()),
        deadline_at: column::real(row, 5)?.map(Timestamp),
        cap: SpendingCap { micro_usd: amount(6)?, tokens: amount(7)? },
        cut_offs: u32::try_from(column::count(row, 8)?).unwrap_or(u32::MAX),
    })
}
