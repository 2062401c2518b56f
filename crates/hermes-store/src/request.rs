//! Requests with an idempotency key and their answers, so that the same request is not run twice.
//!
//! A row is written before the turn begins and holds that turn's id; the state of a turn that was cut off is in
//! the table of turns. Invariant: a row is answered by its own turn only, and at most once.

use hermes_types::{Timestamp, TurnId};
use rusqlite::{OptionalExtension, params};

use crate::Store;
use crate::column;
use crate::pending_result::PendingResult;
use crate::writer::{Durability, OperationScope};

/// The number of answered requests that are kept.
const MAX_ANSWERED_REQUESTS: i64 = 1000;

/// A request as its client identifies it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct KeyedRequest {
    /// The path of the request; the same key may be used with each path.
    pub path: String,
    pub key: String,
    /// A fingerprint that is equal when two requests under one key are the same.
    pub fingerprint: String,
}

/// The times before which rows have expired and are removed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RequestRetention {
    pub answered: Timestamp,
    pub open: Timestamp,
}

/// The result of claiming a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RequestClaim {
    /// The request was unknown; it is now recorded with the given turn.
    New,
    /// The request was begun before, and may be running, cut off or answered.
    Known { turn: TurnId, answer: Option<String> },
}

impl Store {
    /// Records a request before its turn begins, or returns what is known of it. A different request under the
    /// same key replaces the earlier one.
    pub fn claim_request(
        &self,
        request: &KeyedRequest,
        turn: &TurnId,
        horizon: RequestRetention,
        now: Timestamp,
    ) -> PendingResult<RequestClaim> {
        let (request, turn) = (request.clone(), turn.clone());
        self.write(Durability::Disk, move |scope| {
            remove_old(scope, horizon)?;
            let known = scope
                .connection
                .prepare_cached(
                    "SELECT turn_id, answer FROM hx_requests WHERE path = ?1 AND key = ?2 AND fingerprint = ?3",
                )?
                .query_row([&request.path, &request.key, &request.fingerprint], |row| {
                    Ok((row.get::<_, String>(0)?, row.get(1)?))
                })
                .optional()?;
            if let Some((turn, answer)) = known {
                return Ok(RequestClaim::Known { turn: TurnId::new(turn), answer });
            }
            scope.execute_cached(
                "INSERT INTO hx_requests (path, key, fingerprint, turn_id, began_at) VALUES (?1, ?2, ?3, ?4, ?5)
                 ON CONFLICT (path, key) DO UPDATE SET fingerprint = excluded.fingerprint, turn_id = excluded.turn_id,
                    began_at = excluded.began_at, ended_at = NULL, answer = NULL",
                params![request.path, request.key, request.fingerprint, turn.as_str(), now.seconds()],
            )?;
            Ok(RequestClaim::New)
        })
    }

    /// Assigns another turn to an open request, because its turn ended without an answer. Returns false when
    /// another caller already did.
    pub fn reassign_request(&self, from: &TurnId, to: &TurnId, now: Timestamp) -> PendingResult<bool> {
        let (from, to) = (from.clone(), to.clone());
        self.write(Durability::Disk, move |scope| {
            let changed = scope.execute_cached(
                "UPDATE hx_requests SET turn_id = ?2, began_at = ?3 WHERE turn_id = ?1 AND ended_at IS NULL",
                params![from.as_str(), to.as_str(), now.seconds()],
            )?;
            Ok(changed > 0)
        })
    }

    /// Stores the answer of the request's turn. A request that has another turn by now is not changed.
    pub fn answer_request(&self, turn: &TurnId, answer: String, now: Timestamp) -> PendingResult<()> {
        let turn = turn.clone();
        self.write(Durability::Disk, move |scope| {
            scope.execute_cached(
                "UPDATE hx_requests SET answer = ?2, ended_at = ?3 WHERE turn_id = ?1 AND ended_at IS NULL",
                params![turn.as_str(), answer, now.seconds()],
            )?;
            Ok(())
        })
    }

    /// Removes a request whose turn failed, so that a repeated request runs.
    pub fn forget_request(&self, turn: &TurnId) -> PendingResult<()> {
        let turn = turn.clone();
        self.write(Durability::Process, move |scope| {
            scope.execute_cached(
                "DELETE FROM hx_requests WHERE turn_id = ?1 AND ended_at IS NULL",
                [turn.as_str()],
            )?;
            Ok(())
        })
    }

    /// Returns the number of recorded requests, answered ones included.
    pub fn count_requests(&self) -> PendingResult<u64> {
        self.read(|scope| {
            let mut statement = scope.connection.prepare_cached("SELECT COUNT(*) FROM hx_requests")?;
            let mut rows = statement.query([])?;
            rows.next()?.map_or(Ok(0), |row| column::count(row, 0))
        })
    }
}

fn remove_old(scope: &OperationScope<'_>, horizon: RequestRetention) -> rusqlite::Result<()> {
    scope.execute_cached(
        "DELETE FROM hx_requests WHERE ended_at < ?1 OR (ended_at IS NULL AND began_at < ?2)",
        params![horizon.answered.seconds(), horizon.open.seconds()],
    )?;
    scope.execute_cached(
        "DELETE FROM hx_requests WHERE rowid IN
            (SELECT rowid FROM hx_requests WHERE ended_at IS NOT NULL ORDER BY ended_at DESC, rowid DESC LIMIT -1 OFFSET ?1)",
        [MAX_ANSWERED_REQUESTS],
    )?;
    Ok(())
}
