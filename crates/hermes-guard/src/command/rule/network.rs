//! Network use: remote shells, leaked secrets.

use super::RuleFinding::{self, Ask};
use crate::command::argv::Argv;
use crate::command::path::is_secret;
use crate::command::shell::{Direction, PipelineStage, Redirect};
use crate::command::unwrap::{is_shell, program};

pub(in crate::command) const SHELL: RuleFinding = Ask("shell for somebody else");

pub(super) fn check(argv: &Argv<'_>) -> Option<RuleFinding> {
    match argv.name.as_str() {
        "nc" | "ncat" | "netcat" | "nc.traditional" => {
            let runs = argv.texts().any(|text| {
                matches!(text, "--exec" | "--sh-exec" | "--lua-exec")
                    || text.strip_prefix('-').is_some_and(|letters| {
                        !letters.starts_with('-') && letters.ends_with(['e', 'c']) && letters.len() < 6
                    })
            });
            runs.then_some(SHELL)
        }
        "socat" => {
            let runs = |text: &str| {
                let text = text.to_lowercase();
                text.starts_with("exec:") || text.starts_with("system:") || text.starts_with("shell:")
            };
            argv.texts().any(runs).then_some(SHELL)
        }
        "curl" | "wget" | "http" | "https" | "xh" => uploads(argv).then_some(Ask("send secrets away")),
        "scp" | "rsync" | "sftp" | "aws" | "gsutil" | "rclone" => {
            let (target, sources) = split_last(argv)?;
            let away = target.contains(':') && sources.iter().any(|source| is_secret(source));
            away.then_some(Ask("send secrets away"))
        }
        _ => None,
    }
}

/// Tells whether a file with secrets follows `@`, or an option that sends files.
fn uploads(argv: &Argv<'_>) -> bool {
    let mut texts = argv.texts().peekable();
    while let Some(text) = texts.next() {
        let next = texts.peek().copied().unwrap_or_default();
        let file = match text {
            "-T" | "--upload-file" | "--post-file" | "--body-file" => Some(next),
            _ => text
                .strip_prefix("--post-file=")
                .or_else(|| text.strip_prefix("--upload-file="))
                .or_else(|| text.split_once('@').map(|(_, file)| file)),
        };
        if file.is_some_and(|file| is_secret(file.trim_start_matches('@'))) {
            return true;
        }
    }
    false
}

/// Returns the last word, and those before it that are not values of options.
fn split_last<'a>(argv: &Argv<'a>) -> Option<(&'a str, Vec<&'a str>)> {
    let mut plain = Vec::new();
    let mut texts = argv.texts();
    while let Some(text) = texts.next() {
        match text {
            "-i" | "-o" | "-P" | "-F" | "-e" | "-J" | "-c" | "-l" | "-S" => {
                texts.next();
            }
            _ if text.starts_with('-') => {}
            _ => plain.push(text),
        }
    }
    let last = plain.pop()?;
    Some((last, plain))
}

/// Tells whether a program sends its words to another machine.
pub(in crate::command) fn sends_arguments(name: &str) -> bool {
    matches!(name, "curl" | "wget" | "http" | "https" | "xh")
}

/// Tells whether a stage sends its input to another machine.
pub(in crate::command) fn sends_input(stage: &PipelineStage) -> bool {
    let Some(first) = stage.words.first() else { return false };
    match program(first).as_str() {
        "nc" | "ncat" | "netcat" | "socat" | "telnet" => true,
        "curl" | "wget" | "http" | "xh" => {
            let from_input = |text: &str| text == "@-" || text.ends_with("=@-") || text == "-" || text == ".";
            stage.words.iter().any(|word| from_input(&word.text))
        }
        _ => false,
    }
}

/// Tells whether a stage prints secrets: the whole environment, or a file that contains some.
pub(in crate::command) fn prints_secrets(stage: &PipelineStage) -> bool {
    let Some((first, rest)) = stage.words.split_first() else { return false };
    match program(first).as_str() {
        "env" | "printenv" | "set" => rest.is_empty(),
        "export" => rest.first().is_none_or(|word| word.text == "-p"),
        "gpg" => rest.iter().any(|word| word.text.starts_with("--export-secret")),
        "cat" | "tar" | "base64" | "gzip" | "head" | "tail" | "xxd" | "zip" => {
            let files = stage.redirects.iter().map(|redirect| &redirect.target);
            rest.iter().chain(files).any(|word| is_secret(&word.text))
        }
        _ => false,
    }
}

/// Detects a shell, or any file, connected to the network by the shell's own means. Checking whether a port is open
/// is common.
pub(in crate::command) fn opens_shell(stage: &PipelineStage, redirect: &Redirect) -> Option<RuleFinding> {
    let target = redirect.target.text.as_str();
    if !(target.starts_with("/dev/tcp/") || target.starts_with("/dev/udp/")) {
        return None;
    }
    let name = program(stage.words.first()?);
    let runs = is_shell(&name) || name == "exec";
    let sends =
        redirect.direction == Direction::Out && !matches!(name.as_str(), "echo" | "printf" | ":" | "true");
    (runs || sends).then_some(SHELL)
}
