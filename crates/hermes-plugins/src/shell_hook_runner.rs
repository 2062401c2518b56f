//! Runs shell hooks: a JSON text in, an answer or nothing out.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use hermes_config::Env;
use hermes_exec::{Program, ProgramExit, ProgramRunner, StderrMode};
use hermes_text::head;
use hermes_types::{Cancel, Clock, HookEvent, HookReply};
use serde_json::{Map, Value, json};

use crate::shell_hook::ShellHook;

/// The most characters of an answer that are used.
const LONGEST_ANSWER: usize = 50_000;
const BLOCKED: &str = "Blocked by shell hook.";

/// Runs the programs of hooks, without a shell and without the secrets of `.env`.
#[derive(Debug, Clone)]
pub struct ShellHookRunner {
    programs: ProgramRunner,
    env: Env,
    folder: PathBuf,
    clock: Arc<dyn Clock>,
}

/// One run of a hook.
#[derive(Debug, Clone)]
pub struct ShellHookRun {
    /// What it wrote to standard output.
    pub output: String,
    pub took: Duration,
    /// The text of its answer, if it gave one; otherwise why the run failed.
    pub answer: Result<Option<String>, String>,
}

impl ShellHookRunner {
    /// Builds a runner for programs that work in `folder`.
    pub fn new(programs: ProgramRunner, env: Env, folder: PathBuf, clock: Arc<dyn Clock>) -> Self {
        Self { programs, env, folder, clock }
    }

    /// Runs a hook to its end. A failure is part of the result.
    pub async fn run(&self, hook: &ShellHook, input: &Map<String, Value>) -> ShellHookRun {
        let began = self.clock.monotonic();
        let (output, answer) = match self.output(hook, input).await {
            Ok(output) => {
                let answer = parse_answer(hook.event, &output);
                (output, answer)
            }
            Err(reason) => (String::new(), Err(reason)),
        };
        ShellHookRun { output, took: self.clock.monotonic().saturating_sub(began), answer }
    }

    async fn output(&self, hook: &ShellHook, input: &Map<String, Value>) -> Result<String, String> {
        let words = hook.words(&self.env).ok_or("its command is empty")?;
        let (name, arguments) = words.split_first().ok_or("its command is empty")?;
        let program = Program {
            name,
            arguments: arguments.iter().map(OsString::from).collect(),
            directory: &self.folder,
            limit: hook.timeout,
            stderr: StderrMode::Discard,
        };
        let text = self.input_text(hook.event, input);
        let ran = self.programs.output_for(program, Some(text.as_bytes()), &Cancel::new()).await;
        match ran.map_err(|error| error.to_string())? {
            (output, ProgramExit::Exited(0)) => Ok(output),
            (_, ProgramExit::Exited(code)) => Err(format!("it ended with code {code}")),
            (_, ProgramExit::TimedOut) => Err(format!("no answer within {} s", hook.timeout.as_secs())),
            (_, ProgramExit::Cancelled) => Err("it was interrupted".to_owned()),
        }
    }

    /// Returns what a hook reads: the facts that all have, and the rest under `extra`.
    fn input_text(&self, event: HookEvent, input: &Map<String, Value>) -> String {
        let mut extra = input.clone();
        let mut take = |name: &str| extra.remove(name).unwrap_or(Value::Null);
        json!({
            "hook_event_name": event.name(),
            "tool_name": take("tool_name"),
            "tool_input": take("args"),
            "session_id": take("session_id"),
            "cwd": self.folder,
            "extra": extra,
        })
        .to_string()
    }
}

/// Reads the answer of a hook: nothing, or a JSON object with what the step takes.
fn parse_answer(event: HookEvent, output: &str) -> Result<Option<String>, String> {
    let output = output.trim();
    if output.is_empty() {
        return Ok(None);
    }
    let answer: Value = serde_json::from_str(output).map_err(|_| "its output is not JSON".to_owned())?;
    Ok(answer_text(event, &answer))
}

/// Returns the text of an answer, in the forms that programs and plugins use.
pub(crate) fn answer_text(event: HookEvent, answer: &Value) -> Option<String> {
    let text = |keys: &[&str]| {
        let found = keys.iter().find_map(|key| answer.get(*key)?.as_str()).map(str::trim);
        found.filter(|text| !text.is_empty()).map(|text| head(text, LONGEST_ANSWER).to_owned())
    };
    let plain = || answer.as_str().map(str::trim).filter(|text| !text.is_empty());
    let plain = || plain().map(|text| head(text, LONGEST_ANSWER).to_owned());
    match event.facts().reply {
        HookReply::Ignored => None,
        HookReply::Block => {
            let is_block = ["decision", "action"].iter().any(|key| answer.get(*key) == Some(&json!("block")));
            is_block.then(|| text(&["reason", "message"]).unwrap_or_else(|| BLOCKED.to_owned()))
        }
        HookReply::Context => text(&["context"]).or_else(plain),
        HookReply::Replacement => text(&["result", "output", "text", "content"]).or_else(plain),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(event: HookEvent, output: &str, expected: Result<Option<&str>, ()>) {
        let answer = parse_answer(event, output);
        assert_eq!(answer.as_ref().map(Option::as_deref).map_err(|_| ()), expected, "{event:?} {output}");
    }

    #[test]
    fn answers_mean_what_their_step_takes() {
        let pre = HookEvent::PreToolCall;
        check(pre, "", Ok(None));
        check(pre, " \n", Ok(None));
        check(pre, r#"{"decision": "block", "reason": "no"}"#, Ok(Some("no")));
        check(pre, r#"{"action": "block", "message": "not here"}"#, Ok(Some("not here")));
        check(pre, r#"{"decision": "block"}"#, Ok(Some(BLOCKED)));
        check(pre, r#"{"decision": "allow", "reason": "no"}"#, Ok(None));
        check(pre, "[1]", Ok(None));
        check(pre, "blocked", Err(()));
        check(HookEvent::PreLlmCall, r#"{"context": "it rains"}"#, Ok(Some("it rains")));
        check(HookEvent::PreLlmCall, r#""it rains""#, Ok(Some("it rains")));
        check(HookEvent::PreLlmCall, r#"{"decision": "block"}"#, Ok(None));
        check(HookEvent::TransformToolResult, r#"{"result": "short"}"#, Ok(Some("short")));
        check(HookEvent::PostToolCall, r#"{"context": "x"}"#, Ok(None));
    }
}
