//! Requests their clients gave a key: what each came to, so that the same one is not run twice.
//!
//! A row is written before the turn begins and holds that turn's id; what became of a turn that was cut off stands where
//! every turn stands. Invariant: a row is answered by its own turn only, and at most once.

use hermes_types::{Timestamp, TurnId};
use rusqlite::{OptionalExtension, params};

use crate::Store;
use crate::column;
use crate::pending_result::PendingResult;
use crate::writer::{Durability, OperationScope};

/// How many answered requests are kept.
const MAX_ANSWERED_REQUESTS: i64 = 1000;

/// A request as its client names it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct KeyedRequest {
    /// Which kind of request: the same key may be used for each.
    pub path: String,
    pub key: String,
    /// What makes two requests under one key the same.
    pub fingerprint: String,
}

/// From when on rows count; older ones are removed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RequestRetention {
    pub answered: Timestamp,
    pub open: Timestamp,
}

/// What is known of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RequestClaim {
    /// Nothing was; now it is written down with the turn that was handed in.
    New,
    /// It was begun before, and may be running, cut off, or answered.
    Known { turn: TurnId, answer: Option<String> },
}

impl Store {
    /// Writes a request down before its turn begins, or says what is known of it. Another request under the same key
    /// takes its place.
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

    /// Gives an open request another turn, because the one it had came to nothing. False, when somebody else did.
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

    /// Keeps what the request's turn came to. One that has another turn by now is left alone.
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

    /// Forgets a request whose turn failed: the next one of its kind is run.
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

    /// How many requests are written down, answered ones included.
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
