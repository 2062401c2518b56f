//! The result of a script for the model.

use std::time::Duration;

use hermes_exec::{ClippedOutput, ProgramExit, ScriptOutcome, strip_ansi};
use hermes_types::{OutcomeStatus, ToolOutcome};
use serde_json::{Map, Value, json};

use crate::answer;
use crate::file::SecretMasking;
use crate::terminal::mask;

/// The number of bytes kept from the beginning and from the end of the output.
pub(super) const OUTPUT: (usize, usize) = (20_000, 30_000);
pub(super) const STDERR_LIMIT: usize = 10_000;
const INTERRUPTED: &str = "\n[execution interrupted — user sent a new message]";

/// Facts about a run in addition to its output.
#[derive(Debug, Clone, Copy)]
pub(super) struct CodeRunFacts {
    pub(super) calls: usize,
    pub(super) elapsed: Duration,
    pub(super) limit: Duration,
    pub(super) secrets: SecretMasking,
}

pub(super) fn run_outcome(run: &ScriptOutcome, facts: CodeRunFacts) -> ToolOutcome {
    let mut output = facts.readable(&clipped_text(&run.output));
    let complaints = facts.readable(&run.stderr.head);
    let mut result = Map::new();
    let (status, outcome, error) = match run.exit {
        ProgramExit::Exited(0) => ("success", OutcomeStatus::Done, None),
        ProgramExit::Exited(code) => {
            let error = if complaints.trim().is_empty() {
                format!("Script exited with code {code}")
            } else {
                output.push_str("\n--- stderr ---\n");
                output.push_str(&complaints);
                complaints
            };
            ("error", OutcomeStatus::Failed, Some(error))
        }
        ProgramExit::TimedOut => {
            let error = format!("Script timed out after {}s and was killed.", facts.limit.as_secs());
            output.push('\n');
            output.push_str(&error);
            ("timeout", OutcomeStatus::Failed, Some(error))
        }
        ProgramExit::Cancelled => {
            output.push_str(INTERRUPTED);
            ("interrupted", OutcomeStatus::Cancelled, None)
        }
    };
    result.insert("status".to_owned(), json!(status));
    result.insert("output".to_owned(), json!(output));
    facts.count(&mut result);
    if let ProgramExit::Exited(code) = run.exit {
        result.insert("exit_code".to_owned(), json!(code));
    }
    if run.output.omitted > 0 {
        result.insert("stdout_truncated".to_owned(), json!(true));
    }
    if let Some(error) = error {
        result.insert("error".to_owned(), json!(error));
    }
    if let Some(told) = crate::terminal::sandboxed_run::report_json(&run.sandbox) {
        result.insert("sandbox".to_owned(), told);
    }
    ToolOutcome { status: outcome, ..answer::success_json(&Value::Object(result)) }
}

/// Returns the result for a script that could not be started.
pub(super) fn not_run(error: &str, facts: CodeRunFacts) -> ToolOutcome {
    let mut result = Map::new();
    result.insert("status".to_owned(), json!("error"));
    result.insert("output".to_owned(), json!(""));
    facts.count(&mut result);
    result.insert("error".to_owned(), json!(error));
    answer::failure_json(&Value::Object(result))
}

impl CodeRunFacts {
    fn count(self, result: &mut Map<String, Value>) {
        let seconds = (self.elapsed.as_secs_f64() * 100.0).round() / 100.0;
        result.insert("tool_calls_made".to_owned(), json!(self.calls));
        result.insert("duration_seconds".to_owned(), json!(seconds));
    }

    /// Removes control sequences and masks secrets.
    fn readable(self, text: &str) -> String {
        let plain = strip_ansi(text);
        match self.secrets {
            SecretMasking::Show => plain.into_owned(),
            SecretMasking::Mask => mask("", &plain),
        }
    }
}

fn clipped_text(output: &ClippedOutput) -> String {
    let ClippedOutput { head, tail, omitted, total } = output;
    if *omitted == 0 {
        return head.clone();
    }
    format!(
        "{head}\n\n... [OUTPUT TRUNCATED - {omitted} chars omitted out of {total} total] [output truncated at 50KB] ...\n\n{tail}"
    )
}
