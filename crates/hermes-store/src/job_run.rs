//! What became of each instant at which a scheduled job was due.
//!
//! Invariants: an instant of a job has one row, so whoever inserts it is the only one to run it; a run that ended and what
//! is to be said about it are one write; a row whose holder died says that nobody knows how it ended.

use hermes_types::{HolderId, JobRunId, OutgoingMessage, Timestamp};
use rusqlite::{OptionalExtension, Row, params};

use crate::column;
use crate::error::OperationResult;
use crate::pending_result::PendingResult;
use crate::writer::{Durability, OperationScope};
use crate::{Store, outbox};

/// Ended rows that are kept.
const MAX_ENDED_RUNS: u32 = 1000;
const COLUMNS: &str =
    "id, job, due_at, state, holder, attempts, claimed_at, started_at, ended_at, error, told, recorded";

/// An instant and its outcome.
#[derive(Debug, Clone, PartialEq)]
pub struct JobRun {
    pub id: JobRunId,
    pub job: String,
    pub due_at: Timestamp,
    pub state: JobRunState,
    /// Who runs it, or did.
    pub holder: Option<HolderId>,
    /// Times it was begun.
    pub attempts: u32,
    pub claimed_at: Timestamp,
    pub started_at: Option<Timestamp>,
    pub ended_at: Option<Timestamp>,
    pub error: Option<String>,
    pub notified: bool,
    pub recorded: bool,
}

/// Where a run stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobRunState {
    /// Somebody is about to run it.
    Claimed,
    Running,
    Completed,
    Failed,
    /// It was too late to be run.
    Missed,
    /// Its process died; it may or may not have had an effect.
    Unknown,
}

impl JobRunState {
    const ALL: [Self; 6] =
        [Self::Claimed, Self::Running, Self::Completed, Self::Failed, Self::Missed, Self::Unknown];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Claimed => "claimed",
            Self::Running => "running",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Missed => "missed",
            Self::Unknown => "unknown",
        }
    }

    fn parse(text: &str) -> Self {
        Self::ALL.into_iter().find(|state| state.as_str() == text).unwrap_or(Self::Unknown)
    }

    /// Whether somebody has it in hand.
    pub fn is_open(self) -> bool {
        matches!(self, Self::Claimed | Self::Running)
    }
}

/// The answer to asking for an instant.
#[derive(Debug, Clone, PartialEq)]
pub enum JobClaim {
    Granted(JobRunId),
    /// It has an outcome, or somebody is at it.
    Taken(JobRun),
}

/// Whether a run that was cut off may be begun again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CutOffRetry {
    Never,
    /// One more time.
    Once,
}

/// Whether the user is to hear of an instant that passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MissedRunNotice {
    Send,
    Skip,
}

/// How a run ended, and what is to be said about it.
#[derive(Debug, Clone)]
pub struct JobRunEnd {
    pub state: JobRunState,
    pub error: Option<String>,
    /// Each with the conversation it belongs to.
    pub replies: Vec<(String, OutgoingMessage)>,
    pub at: Timestamp,
}

impl Store {
    /// Takes an instant of a job. Nobody else gets it.
    pub fn claim_job_run(
        &self,
        job: &str,
        due_at: Timestamp,
        holder: &HolderId,
        retry: CutOffRetry,
        now: Timestamp,
    ) -> PendingResult<JobClaim> {
        let (job, holder) = (job.to_owned(), holder.clone());
        let most = i64::from(retry == CutOffRetry::Once);
        self.write(Durability::Disk, move |scope| {
            let taken: Option<i64> = scope
                .connection
                .prepare_cached(
                    "INSERT INTO hx_job_runs (job, due_at, state, holder, claimed_at) VALUES (?1, ?2, 'claimed', ?3, ?4)
                     ON CONFLICT (job, due_at) DO UPDATE SET state = 'claimed', holder = excluded.holder,
                        claimed_at = excluded.claimed_at, attempts = attempts + 1, started_at = NULL, ended_at = NULL,
                        error = NULL, told = 0, recorded = 0
                     WHERE state = 'unknown' AND attempts <= ?5
                     RETURNING id",
                )?
                .query_row(params![job, due_at.seconds(), holder.as_str(), now.seconds(), most], |row| row.get(0))
                .optional()?;
            if let Some(id) = taken {
                return Ok(JobClaim::Granted(JobRunId(id)));
            }
            let mut statement = scope
                .connection
                .prepare_cached(&format!("SELECT {COLUMNS} FROM hx_job_runs WHERE job = ?1 AND due_at = ?2"))?;
            let mut rows = statement.query(params![job, due_at.seconds()])?;
            let row = rows.next()?.ok_or(rusqlite::Error::QueryReturnedNoRows)?;
            Ok(JobClaim::Taken(read(row)?))
        })
    }

    /// The run begins. False, when it is no longer this holder's.
    pub fn start_job_run(&self, id: JobRunId, holder: &HolderId, now: Timestamp) -> PendingResult<bool> {
        let holder = holder.clone();
        self.write(Durability::Disk, move |scope| {
            let started = scope
                .connection
                .prepare_cached("UPDATE hx_job_runs SET state = 'running', started_at = ?3 WHERE id = ?1 AND holder = ?2 AND state = 'claimed'")?
                .execute(params![id.0, holder.as_str(), now.seconds()])?;
            Ok(started > 0)
        })
    }

    /// The run has ended; what is to be said about it is queued in the same step. False, when it is no longer this
    /// holder's: then nothing is said.
    pub fn finish_job_run(&self, id: JobRunId, holder: &HolderId, end: JobRunEnd) -> PendingResult<bool> {
        let holder = holder.clone();
        self.write(Durability::Disk, move |scope| {
            // One that was given up for dead while it was only slow may still say how it ended.
            let ended = scope
                .connection
                .prepare_cached(
                    "UPDATE hx_job_runs SET state = ?3, error = ?4, ended_at = ?5, told = 1
                     WHERE id = ?1 AND holder = ?2 AND state IN ('claimed', 'running', 'unknown')",
                )?
                .execute(params![id.0, holder.as_str(), end.state.as_str(), end.error, end.at.seconds()])?;
            if ended == 0 {
                return Ok(false);
            }
            for (conversation, reply) in &end.replies {
                outbox::insert(scope, conversation, reply, end.at)?;
            }
            prune(scope)?;
            Ok(true)
        })
    }

    /// Instants that passed without a run. Those that have a row already keep it.
    pub fn record_missed_runs(
        &self,
        job: &str,
        due: Vec<Timestamp>,
        reason: &str,
        telling: MissedRunNotice,
        now: Timestamp,
    ) -> PendingResult<()> {
        let (job, reason, told) = (job.to_owned(), reason.to_owned(), telling == MissedRunNotice::Skip);
        self.write(Durability::Disk, move |scope| {
            let mut statement = scope.connection.prepare_cached(
                "INSERT INTO hx_job_runs (job, due_at, state, claimed_at, ended_at, error, told, recorded)
                 VALUES (?1, ?2, 'missed', ?3, ?3, ?4, ?5, 1) ON CONFLICT (job, due_at) DO NOTHING",
            )?;
            for at in &due {
                statement.execute(params![job, at.seconds(), now.seconds(), reason, told])?;
            }
            prune(scope)
        })
    }

    /// A run whose holder is gone. False, when it has moved on since it was looked at.
    pub fn cut_off_job_run(&self, run: &JobRun, reason: &str, now: Timestamp) -> PendingResult<bool> {
        let (id, holder, reason) = (run.id, run.holder.clone(), reason.to_owned());
        self.write(Durability::Disk, move |scope| {
            let cut = scope
                .connection
                .prepare_cached(
                    "UPDATE hx_job_runs SET state = 'unknown', error = ?3, ended_at = ?4, told = 0, recorded = 1
                     WHERE id = ?1 AND holder IS ?2 AND state IN ('claimed', 'running')",
                )?
                .execute(params![id.0, holder.as_ref().map(HolderId::as_str), reason, now.seconds()])?;
            Ok(cut > 0)
        })
    }

    /// The list of jobs knows how a run ended.
    pub fn mark_job_run_recorded(&self, id: JobRunId) -> PendingResult<()> {
        self.write(Durability::Process, move |scope| {
            scope
                .connection
                .prepare_cached("UPDATE hx_job_runs SET recorded = 1 WHERE id = ?1")?
                .execute([id.0])?;
            Ok(())
        })
    }

    /// The user is told of some runs: the rows are marked and the words queued in one step.
    pub fn notify_job_runs(
        &self,
        runs: Vec<JobRunId>,
        replies: Vec<(String, OutgoingMessage)>,
        at: Timestamp,
    ) -> PendingResult<()> {
        self.write(Durability::Disk, move |scope| {
            let mut mark =
                scope.connection.prepare_cached("UPDATE hx_job_runs SET told = 1 WHERE id = ?1")?;
            for id in &runs {
                mark.execute([id.0])?;
            }
            for (conversation, reply) in &replies {
                outbox::insert(scope, conversation, reply, at)?;
            }
            Ok(())
        })
    }

    /// Runs somebody has in hand, or had when they died.
    pub fn open_job_runs(&self) -> PendingResult<Vec<JobRun>> {
        self.job_runs_where("state IN ('claimed', 'running') ORDER BY id")
    }

    /// Ended runs the user or the list of jobs does not know of yet.
    pub fn unreported_job_runs(&self) -> PendingResult<Vec<JobRun>> {
        self.job_runs_where(
            "(told = 0 OR recorded = 0) AND state NOT IN ('claimed', 'running') ORDER BY due_at",
        )
    }

    /// The newest runs, of one job or of all.
    pub fn job_runs(&self, job: Option<&str>, limit: usize) -> PendingResult<Vec<JobRun>> {
        let job = job.map(str::to_owned);
        self.read(move |scope| {
            let mut statement = scope.connection.prepare_cached(&format!(
                "SELECT {COLUMNS} FROM hx_job_runs WHERE ?1 IS NULL OR job = ?1 ORDER BY due_at DESC, id DESC LIMIT ?2"
            ))?;
            let mut rows = statement.query(params![job, column::to_signed(limit as u64)])?;
            let mut runs = Vec::new();
            while let Some(row) = rows.next()? {
                runs.push(read(row)?);
            }
            Ok(runs)
        })
    }

    fn job_runs_where(&self, condition: &'static str) -> PendingResult<Vec<JobRun>> {
        self.read(move |scope| {
            let mut statement = scope
                .connection
                .prepare_cached(&format!("SELECT {COLUMNS} FROM hx_job_runs WHERE {condition}"))?;
            let mut rows = statement.query([])?;
            let mut runs = Vec::new();
            while let Some(row) = rows.next()? {
                runs.push(read(row)?);
            }
            Ok(runs)
        })
    }
}

/// Keeps the newest; what somebody still has to hear of stays.
fn prune(scope: &OperationScope<'_>) -> OperationResult<()> {
    scope
        .connection
        .prepare_cached(
            "DELETE FROM hx_job_runs WHERE told = 1 AND recorded = 1 AND state NOT IN ('claimed', 'running')
             AND id <= (SELECT id FROM hx_job_runs WHERE state NOT IN ('claimed', 'running')
                        ORDER BY id DESC LIMIT 1 OFFSET ?1)",
        )?
        .execute([MAX_ENDED_RUNS])?;
    Ok(())
}

fn read(row: &Row<'_>) -> OperationResult<JobRun> {
    let time = |at: usize| column::real(row, at).map(|found| found.map(Timestamp));
    Ok(JobRun {
        id: JobRunId(row.get(0)?),
        job: column::string(row, 1)?,
        due_at: time(2)?.unwrap_or(Timestamp(0.0)),
        state: JobRunState::parse(&column::string(row, 3)?),
        holder: column::text(row, 4)?.map(HolderId::new),
        attempts: u32::try_from(column::count(row, 5)?).unwrap_or(u32::MAX),
        claimed_at: time(6)?.unwrap_or(Timestamp(0.0)),
        started_at: time(7)?,
        ended_at: time(8)?,
        error: column::text(row, 9)?,
        notified: column::integer(row, 10)? != 0,
        recorded: column::integer(row, 11)? != 0,
    })
}
