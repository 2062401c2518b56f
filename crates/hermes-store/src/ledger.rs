//! The usage and cost of every model call, on which spending limits are based.

use hermes_types::{Cost, SessionId, Timestamp, TurnId, Usage};
use rusqlite::params;

use crate::Store;
use crate::column;
use crate::pending_result::PendingResult;
use crate::writer::Durability;

/// The charge of one model call.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelCharge {
    pub at: Timestamp,
    pub session: SessionId,
    pub turn: Option<TurnId>,
    /// The turn a person started, to which this turn, possibly a subagent's, belongs.
    pub root_turn: Option<TurnId>,
    /// The scheduled job the call was made for.
    pub job: Option<String>,
    pub provider: String,
    pub model: String,
    pub usage: Usage,
    pub cost: Cost,
}

/// The charges a sum covers.
#[derive(Debug, Clone, PartialEq)]
pub enum ChargeRange {
    Since(Timestamp),
    TurnTree(TurnId),
    Job(String, Timestamp),
}

/// A sum of charges.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SpendingTotal {
    pub calls: u64,
    pub tokens: u64,
    pub micro_usd: u64,
    /// The number of calls whose price is not known; the amount does not include them.
    pub unpriced_calls: u64,
}

impl Store {
    pub fn record_charge(&self, charge: ModelCharge) -> PendingResult<()> {
        self.write(Durability::Process, move |scope| {
            scope
                .connection
                .prepare_cached(
                    "INSERT INTO hx_usage (at, session_id, turn_id, root_turn_id, job, provider, model, input_tokens,
                        output_tokens, cache_read_tokens, cache_write_tokens, reasoning_tokens, micro_usd, cost_status)
                     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)",
                )?
                .execute(params![
                    charge.at.seconds(),
                    charge.session.as_str(),
                    charge.turn.as_ref().map(TurnId::as_str),
                    charge.root_turn.as_ref().map(TurnId::as_str),
                    charge.job,
                    charge.provider,
                    charge.model,
                    column::to_signed(charge.usage.input),
                    column::to_signed(charge.usage.output),
                    column::to_signed(charge.usage.cache_read),
                    column::to_signed(charge.usage.cache_write),
                    column::to_signed(charge.usage.reasoning),
                    charge.cost.micro_usd.map(column::to_signed),
                    charge.cost.status.as_str(),
                ])?;
            Ok(())
        })
    }

    pub fn spending(&self, span: ChargeRange) -> PendingResult<SpendingTotal> {
        self.read(move |scope| {
            let (condition, name, since) = match &span {
                ChargeRange::Since(since) => ("?1 IS NULL AND at >= ?2", None, since.seconds()),
                ChargeRange::TurnTree(turn) => ("root_turn_id = ?1 AND ?2 = 0", Some(turn.as_str()), 0.0),
                ChargeRange::Job(job, since) => ("job = ?1 AND at >= ?2", Some(job.as_str()), since.seconds()),
            };
            let mut statement = scope.connection.prepare_cached(&format!(
                "SELECT COUNT(*), SUM(input_tokens + output_tokens + cache_read_tokens + cache_write_tokens),
                    SUM(micro_usd), SUM(micro_usd IS NULL AND cost_status = 'unknown') FROM hx_usage WHERE {condition}"
            ))?;
            let mut rows = statement.query(params![name, since])?;
            let Some(row) = rows.next()? else { return Ok(SpendingTotal::default()) };
            Ok(SpendingTotal {
                calls: column::count(row, 0)?,
                tokens: column::count(row, 1)?,
                micro_usd: column::count(row, 2)?,
                unpriced_calls: column::count(row, 3)?,
            })
        })
    }
}
