//! The messages about runs.

use std::fmt::Write as _;

use hermes_schedule::{Job, Zone};
use hermes_store::{JobRun, JobRunState};
use hermes_text::head;

use super::run::JobFailure;

const NOTE: &str = include_str!("texts/note.md");
const MARK: &str = "[SILENT]";
/// Answers that mean that there is nothing to report.
const MARKS: [&str; 4] = [MARK, "SILENT", "NO_REPLY", "NO REPLY"];
const LONGEST_ERROR: usize = 1000;

/// Returns the message about a run. A failure is always reported, whatever its text begins with.
pub(super) fn message_for_run(
    job: &Job,
    outcome: &Result<String, JobFailure>,
    wrapped: bool,
) -> Option<String> {
    let answer = match outcome {
        Ok(answer) => answer.trim(),
        Err(failure) => {
            return Some(format!(
                "⚠️ Cron job '{}' failed:\n{}",
                job.name(),
                head(failure.message.trim(), LONGEST_ERROR)
            ));
        }
    };
    if answer.is_empty() || is_silent(answer) {
        return None;
    }
    if !wrapped {
        return Some(answer.to_owned());
    }
    // The first hyphen is escaped: a line of them under a text would make a heading of it.
    Some(format!("Cronjob Response: {}\n\\-------------\n\n{answer}\n\n{}", job.name(), NOTE.trim()))
}

fn is_silent(answer: &str) -> bool {
    let upper = answer.to_uppercase();
    let mut lines = upper.lines().map(str::trim).filter(|line| !line.is_empty());
    let first = lines.next();
    let last = lines.next_back().or(first);
    let marked = |line: Option<&str>| line.is_some_and(|line| MARKS.contains(&line));
    upper.starts_with(MARK) || marked(first) || marked(last)
}

/// Describes missed instants in one line and cut-off runs in another.
pub(super) fn describe_missed_runs(job: &Job, runs: &[JobRun], zone: Zone) -> String {
    let name = job.name();
    let mut text = String::new();
    let of = |state: JobRunState| runs.iter().filter(|run| run.state == state).collect::<Vec<_>>();
    let missed = of(JobRunState::Missed);
    if let (Some(first), Some(last)) = (missed.first(), missed.last()) {
        let reason = last.error.as_deref().unwrap_or("it was too late");
        // Writing to a `String` cannot fail.
        let _ = match missed.len() {
            1 => write!(
                text,
                "⚠️ Cron job '{name}' missed its run of {}: {reason}.",
                zone.minute(first.due_at)
            ),
            count => write!(
                text,
                "⚠️ Cron job '{name}' missed {count} runs ({} to {}): {reason}.",
                zone.minute(first.due_at),
                zone.minute(last.due_at)
            ),
        };
    }
    for run in of(JobRunState::Unknown) {
        let line = if text.is_empty() { "" } else { "\n" };
        let reason = run.error.as_deref().unwrap_or("it was cut off");
        let again = match (job.schedule.recurs(), run.attempts) {
            (true, _) => "",
            (false, 1) => " It is run again now.",
            (false, _) => " It is not tried again.",
        };
        let _ = write!(
            text,
            "{line}⚠️ Cron job '{name}', run of {}: {reason}. What it did until then is not known.{again}",
            zone.minute(run.due_at)
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job() -> Job {
        Job { name: Some("News".into()), ..Job::default() }
    }

    fn said(answer: &str) -> Option<String> {
        message_for_run(&job(), &Ok(answer.into()), false)
    }

    #[test]
    fn silence_is_asked_for_at_the_edges_only() {
        for silent in [
            "[SILENT]",
            " [silent] nothing new",
            "[SILENT]: quiet day",
            "",
            "  ",
            "NO_REPLY",
            "checked all\n\n[SILENT]",
            "no reply\nbecause",
        ] {
            assert_eq!(said(silent), None, "{silent}");
        }
        for loud in
            ["I was told to say [SILENT] but there is news", "SILENT night", "news\n[SILENT]\nmore news"]
        {
            assert_eq!(said(loud).as_deref(), Some(loud));
        }
    }

    #[test]
    fn a_failure_is_said_whatever_it_begins_with() {
        let failure = JobFailure { kind: "Model", message: "[SILENT] no key".into() };
        let text = message_for_run(&job(), &Err(failure), true);
        assert_eq!(text.as_deref(), Some("⚠️ Cron job 'News' failed:\n[SILENT] no key"));
    }

    #[test]
    fn an_answer_is_wrapped_without_becoming_a_heading() {
        let text = message_for_run(&job(), &Ok(" all well ".into()), true).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "Cronjob Response: News");
        assert_eq!(lines[1].trim_start_matches('\\'), "-".repeat(13));
        assert!(lines[1].starts_with('\\'), "a line of hyphens alone would underline the name");
        assert_eq!(lines[2..5], ["", "all well", ""]);
        assert!(lines[5].starts_with("Note: The agent cannot see this message"));
    }
}
