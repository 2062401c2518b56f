//! Tests of programs that are run for their output.

use std::path::Path;
use std::sync::Arc;

use hermes_exec::{PipedLine, Program, ProgramExit, ProgramRunner, StderrMode, Variables};
use hermes_task::SystemClock;
use hermes_types::Cancel;

use super::support::LONG;

fn programs() -> ProgramRunner {
    let variables = Variables::for_commands([("PATH", "/usr/bin:/bin")], &[], &[]);
    ProgramRunner::new(variables, Arc::new(SystemClock::new()))
}

fn program<'a>(name: &'a str, arguments: &[&str], complaints: StderrMode) -> Program<'a> {
    let arguments = arguments.iter().map(Into::into).collect();
    Program { name, arguments, directory: Path::new("/"), limit: LONG, stderr: complaints }
}

#[tokio::test]
async fn arguments_pass_untouched_and_the_code_comes_back() {
    let words = ["%s|", "a b", "$HOME; `id`", "it's"];
    let (output, end) =
        programs().output(program("printf", &words, StderrMode::Merge), &Cancel::new()).await.unwrap();
    assert_eq!((output.as_str(), end), ("a b|$HOME; `id`|it's|", ProgramExit::Exited(0)));
    let script = ["-c", "echo out; echo complaint >&2; exit 3"];
    let kept = programs().output(program("sh", &script, StderrMode::Merge), &Cancel::new()).await.unwrap();
    assert_eq!(kept, ("out\ncomplaint\n".to_owned(), ProgramExit::Exited(3)));
    let dropped =
        programs().output(program("sh", &script, StderrMode::Discard), &Cancel::new()).await.unwrap();
    assert_eq!(dropped.0, "out\n");
}

#[tokio::test]
async fn messages_that_end_with_a_zero_byte_pass_both_ways_beside_the_standard_descriptors() {
    let echo =
        program("sh", &["-c", "echo not a message; echo complaint >&2; exec cat <&3 >&4"], StderrMode::Merge);
    let mut process = programs().framed(echo, 1024).await.unwrap();
    let input = process.take_input().unwrap();
    for message in ["one\ntwo", "", "three\r\n"] {
        input.write_line(message.as_bytes()).await.unwrap();
    }
    let mut seen = Vec::new();
    while seen.len() < 4 {
        seen.push(process.next_line().await.unwrap().unwrap());
    }
    let (complaints, messages): (Vec<_>, Vec<_>) =
        seen.into_iter().partition(|line| matches!(line, PipedLine::Stderr(_)));
    assert_eq!(complaints, [PipedLine::Stderr("complaint".to_owned())]);
    let expected = [&b"one\ntwo"[..], b"", b"three\r\n"];
    assert_eq!(messages, expected.map(|bytes| PipedLine::Output(bytes.to_vec())));
}

#[tokio::test]
async fn what_is_not_there_is_named_and_what_is_cancelled_ends() {
    let missing = program("no-such-program", &[], StderrMode::Merge);
    let error = programs().output(missing, &Cancel::new()).await.unwrap_err();
    assert!(error.to_string().contains("no-such-program"), "{error}");
    let cancel = Cancel::new();
    cancel.cancel();
    let (_, end) = programs().output(program("sleep", &["600"], StderrMode::Merge), &cancel).await.unwrap();
    assert_eq!(end, ProgramExit::Cancelled);
}
