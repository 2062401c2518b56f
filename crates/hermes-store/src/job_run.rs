//! The runs of scheduled jobs, one row for each scheduled time.
//!
//! Invariants: a scheduled time of a job has one row, so the process that inserts it is the only one to run it;
//! the end of a run and the messages about it are one write; a row whose holder died is marked as having an
//! unknown outcome.

use hermes_types::{HolderId, JobRunId, OutgoingMessage, Timestamp};
use rusqlite::{OptionalExtension, Row, params};

use crate::column;
use crate::error::OperationResult;
use crate::pending_result::PendingResult;
use crate::writer::{Durability, OperationScope};
use crate::{Store, outbox};

/// The number of ended rows that are kept.
const MAX_ENDED_RUNS: u32 = 1000;
const COLUMNS: &str =
    "id, job, due_at, state, holder, attempts, claimed_at, started_at, ended_at, error, told, recorded";

/// A scheduled time of a job and its outcome.
#[derive(Debug, Clone, PartialEq)]
pub struct JobRun {
    pub id: JobRunId,
    pub job: String,
    pub due_at: Timestamp,
    pub state: JobRunState,
    /// The process that runs it, or ran it.
    pub holder: Option<HolderId>,
    /// The number of times it was begun.
    pub attempts: u32,
    pub claimed_at: Timestamp,
    pub started_at: Option<Timestamp>,
    pub ended_at: Option<Timestamp>,
    pub error: Option<String>,
    pub notified: bool,
    pub recorded: bool,
}

/// The state of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobRunState {
    /// A process is about to run it.
    Claimed,
    Running,
    Completed,
    Failed,
    /// It was too late to run it.
    Missed,
    /// Its process died; the run may or may not have had an effect.
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

    /// Tells whether a process has claimed or is running it.
    pub fn is_open(self) -> bool {
        matches!(self, Self::Claimed | Self::Running)
    }
}

/// The result of claiming a scheduled time.
#[derive(Debug, Clone, PartialEq)]
pub enum JobClaim {
    Granted(JobRunId),
    /// The scheduled time already has an outcome, or another process is running it.
    Taken(JobRun),
}

/// The rule for restarting a run that was cut off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CutOffRetry {
    Never,
    /// The run may be restarted once.
    Once,
}

/// Decides whether the user is notified of a scheduled time that passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MissedRunNotice {
    Send,
    Skip,
}

/// The end of a run, and the messages about it.
#[derive(Debug, Clone)]
pub struct JobRunEnd {
    pub state: JobRunState,
    pub error: Option<String>,
    /// The replies, each with the conversation it belongs to.
    pub replies: Vec<(String, OutgoingMessage)>,
    pub at: Timestamp,
}

impl Store {
    /// Claims a scheduled time of a job. No other process gets it.
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

    /// Records the start of a run. Returns false when it no longer belongs to this holder.
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

    /// Records the end of a run and queues the messages about it in the same step. Returns false when the run no
    /// longer belongs to this holder; no message is then queued.
    pub fn finish_job_run(&self, id: JobRunId, holder: &HolderId, end: JobRunEnd) -> PendingResult<bool> {
        let holder = holder.clone();
        self.write(Durability::Disk, move |scope| {
            // A run that was declared dead although it was only slow may still report how it ended.
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

    /// Records scheduled times that passed without a run. Those that have a row already keep it.
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

    /// Marks a run whose holder has ended. Returns false when its state has changed since it was read.
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

    /// Records that the job list contains the outcome of a run.
    pub fn mark_job_run_recorded(&self, id: JobRunId) -> PendingResult<()> {
        self.write(Durability::Process, move |scope| {
            scope
                .connection
                .prepare_cached("UPDATE hx_job_runs SET recorded = 1 WHERE id = ?1")?
                .execute([id.0])?;
            Ok(())
        })
    }

    /// Marks runs as reported and queues the message to the user about them, in one step.
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

    /// Returns the runs that are claimed or running, including those whose process has died.
    pub fn open_job_runs(&self) -> PendingResult<Vec<JobRun>> {
        self.job_runs_where("state IN ('claimed', 'running') ORDER BY id")
    }

    /// Returns the ended runs that have not been reported to the user or recorded in the job list yet.
    pub fn unreported_job_runs(&self) -> PendingResult<Vec<JobRun>> {
        self.job_runs_where(
            "(told = 0 OR recorded = 0) AND state NOT IN ('claimed', 'running') ORDER BY due_at",
        )
    }

    /// Returns the newest runs, of one job or of all.
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

/// Removes the oldest ended rows; those that still have to be reported are kept.
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
