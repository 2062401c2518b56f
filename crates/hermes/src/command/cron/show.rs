//! Prints jobs and their runs.

use std::process::ExitCode;

use anyhow::Result;
use hermes_gateway::process;
use hermes_schedule::{Job, JobFilter, describe_repeat, earliest_next_run, parse_instant};
use hermes_store::{JobRun, JobRunState};
use hermes_text::{head, single_line};
use hermes_types::Timestamp;

use super::CronCommands;

const INSIDE: usize = 62;
/// Limits the runs read to fill the list; consecutive missed runs take one line.
const MOST_READ: usize = 5_000;
/// The age in seconds of the last heartbeat after which the ticker counts as stuck.
const STALLED_AFTER: f64 = 200.0;
const START: &str = "  hermes gateway run       run it in the foreground\n  hermes gateway install   install it as a service\n  hermes gateway start     start the service";

impl CronCommands<'_> {
    pub(super) fn list(&self, listed: JobFilter) -> ExitCode {
        let jobs = self.jobs.list(listed);
        if let Some(trouble) = jobs.is_empty().then(|| self.jobs.read_problem()).flatten() {
            self.output.error(&trouble);
            return ExitCode::FAILURE;
        }
        if jobs.is_empty() {
            self.output.line("No scheduled jobs.");
            self.output.line("Create one with `hermes cron create \"every 2h\" \"what is to be done\"`, or ask for it in a chat.");
            return ExitCode::SUCCESS;
        }
        let line = "─".repeat(INSIDE);
        self.output.line(&format!("┌{line}┐\n│{:^INSIDE$}│\n└{line}┘", "Scheduled Jobs"));
        for job in &jobs {
            self.output.line(&format!("\n  {} [{}]", job.id, mark(job)));
            for (label, text) in self.fields(job) {
                self.output.line(&format!("    {label:<10}{text}"));
            }
        }
        if process::running_pid(&self.context.home).is_none() {
            self.output.line("\n⚠ The gateway is not running, so nothing will run by itself. `hermes gateway run` starts it.");
        }
        ExitCode::SUCCESS
    }

    fn fields(&self, job: &Job) -> Vec<(&'static str, String)> {
        let mut fields = vec![
            ("Name:", job.name().to_owned()),
            ("Schedule:", job.display().to_owned()),
            ("Repeat:", repeat(job)),
            ("Next run:", self.format_time(job.next_run_at.as_deref())),
            ("Deliver:", job.deliver()),
        ];
        let skills = job.skills();
        if !skills.is_empty() {
            fields.push(("Skills:", skills.join(", ")));
        }
        if let Some(error) = &job.last_error {
            fields.push(("Error:", head(&single_line(error), 100).to_owned()));
        }
        if let Some(problem) = job.extra("last_delivery_error") {
            fields.push(("Delivery:", head(&single_line(problem), 100).to_owned()));
        }
        fields
    }

    pub(super) fn describe_new(&self, job: &Job) {
        self.output.line(&format!("  Name:     {}", job.name()));
        self.output.line(&format!("  Schedule: {}", job.display()));
        self.output.line(&format!("  Next run: {}", self.format_time(job.next_run_at.as_deref())));
    }

    /// Formats a time in the time zone of the schedules.
    fn format_time(&self, stored: Option<&str>) -> String {
        match stored.map(|text| (text, parse_instant(text))) {
            None => "never".to_owned(),
            Some((_, Some(at))) => self.jobs.zone().minute(at),
            Some((text, None)) => text.to_owned(),
        }
    }

    pub(super) fn status(&self) -> ExitCode {
        let running = process::running_pid(&self.context.home);
        if let Some(pid) = running {
            self.output.line("✓ Gateway is running — cron jobs will fire automatically");
            self.output.line(&format!("  PID: {pid}"));
            self.print_ticker_age();
        } else {
            self.output.line("✗ Gateway is not running — cron jobs will NOT fire");
            self.output.line(START);
        }
        let jobs = self.jobs.list(JobFilter::Enabled);
        if jobs.is_empty() {
            self.output.line("\nNo active jobs");
            return ExitCode::SUCCESS;
        }
        self.output.line(&format!("\n{} active job(s)", jobs.len()));
        if let Some(next) = earliest_next_run(&jobs) {
            self.output.line(&format!("  Next run: {}", self.jobs.zone().minute(next)));
        }
        ExitCode::SUCCESS
    }

    /// Prints how long ago the ticker was last active.
    fn print_ticker_age(&self) {
        let text =
            std::fs::read_to_string(self.context.home.cron().join("ticker_heartbeat")).unwrap_or_default();
        let Ok(last) = text.trim().parse::<f64>() else { return };
        let age = self.now.since(Timestamp(last)).as_secs_f64();
        if age > STALLED_AFTER {
            self.output.line(&format!("  ⚠ The scheduler has not looked at the jobs for {age:.0} s"));
        } else {
            self.output.line(&format!("  Last look: {age:.0} s ago"));
        }
    }

    pub(super) fn runs(&self, reference: Option<&str>, limit: usize) -> Result<ExitCode> {
        // The runs of a deleted job are still stored.
        let known = reference.map(|text| self.jobs.find(text));
        let is_gone = matches!(known, Some(Err(_)));
        let job = reference.map(|text| match &known {
            Some(Ok(job)) => job.id.to_string(),
            _ => text.to_owned(),
        });
        let store = self.context.store(self.output)?;
        let runs = joined(store.job_runs(job.as_deref(), MOST_READ).wait()?, limit);
        if let Some(text) = reference.filter(|_| is_gone && runs.is_empty()) {
            self.output.notice(&format!("Job not found: {text}"));
            let _ = store.close().wait();
            return Ok(ExitCode::SUCCESS);
        }
        if runs.is_empty() {
            self.output.line("No runs yet.");
        } else {
            self.output.line(&format!("{:<18} {:<13} {:<10} {:<9} What", "Due", "Job", "Outcome", "Took"));
        }
        for run in &runs {
            self.output.line(self.run_line(run).trim_end());
        }
        let _ = store.close().wait();
        Ok(ExitCode::SUCCESS)
    }

    fn run_line(&self, (run, count): &(JobRun, usize)) -> String {
        let took = match (run.started_at, run.ended_at) {
            (Some(from), Some(to)) => format!("{:.0} s", to.since(from).as_secs_f64()),
            _ => String::new(),
        };
        let mut what = head(&single_line(run.error.as_deref().unwrap_or_default()), 80).to_owned();
        if *count > 1 {
            what = format!("{count} runs in a row: {what}");
        }
        let due = self.jobs.zone().minute(run.due_at);
        format!("{due:<18} {:<13} {:<10} {took:<9} {what}", head(&run.job, 12), run.state.as_str())
    }
}

/// Joins consecutive missed runs of a job that have the same reason; the newest represents them, with their number.
fn joined(runs: Vec<JobRun>, most: usize) -> Vec<(JobRun, usize)> {
    let mut lines: Vec<(JobRun, usize)> = Vec::new();
    for run in runs {
        if let Some((last, count)) = lines.last_mut()
            && run.state == JobRunState::Missed
            && (last.state, &last.job, &last.error) == (run.state, &run.job, &run.error)
        {
            *count += 1;
        } else {
            lines.push((run, 1));
        }
    }
    lines.truncate(most);
    lines
}

fn mark(job: &Job) -> &str {
    match (job.state(), job.is_enabled()) {
        ("paused", _) => "paused",
        ("completed", _) => "completed",
        ("error", _) => "error",
        (_, true) => "active",
        (_, false) => "disabled",
    }
}

fn repeat(job: &Job) -> String {
    match job.repeat.as_ref().and_then(|repeat| Some((repeat.times?, repeat.completed))) {
        Some((times, completed)) => format!("{completed}/{times}"),
        None if describe_repeat(job) == "forever" => "∞".to_owned(),
        None => describe_repeat(job),
    }
}
