//! Programs that print a credential.
//!
//! This crate starts no process: the caller that builds the [`CredentialContext`](super::CredentialContext)
//! supplies a runner. Invariant: a program's output is secret and is never repeated in a message.

use std::fmt;

use hermes_types::{BoxFuture, Cancel};
use thiserror::Error;

use super::CredentialContext;

/// A program and its arguments, started without a shell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProgramInvocation {
    pub program: String,
    pub arguments: Vec<String>,
}

/// Starts programs.
pub trait CommandRunner: Send + Sync + fmt::Debug {
    /// Runs a program to its end, without input, and returns its output. The error text contains no output.
    fn output<'a>(
        &'a self,
        line: &'a ProgramInvocation,
        cancel: &'a Cancel,
    ) -> BoxFuture<'a, Result<Vec<u8>, CommandFailure>>;
}

/// The reason why a program gave no usable output.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum CommandFailure {
    /// There is no runner to start it.
    #[error("cannot be run here")]
    NotAllowed,
    #[error("could not be started: {0}")]
    NotStarted(String),
    #[error("failed with status {0}")]
    Failed(i32),
    #[error("did not end in time")]
    TooSlow,
    #[error("was cancelled")]
    Cancelled,
}

pub(super) async fn run_command(
    means: &CredentialContext,
    line: &ProgramInvocation,
    cancel: &Cancel,
) -> Result<Vec<u8>, CommandFailure> {
    match &means.commands {
        Some(commands) => commands.output(line, cancel).await,
        None => Err(CommandFailure::NotAllowed),
    }
}

impl ProgramInvocation {
    pub fn new(program: &str, arguments: &[&str]) -> Self {
        let arguments = arguments.iter().map(|argument| (*argument).to_owned()).collect();
        Self { program: program.to_owned(), arguments }
    }

    /// Splits at whitespace, with quotes and backslashes as in a shell. Returns `None` for an unclosed quote or an
    /// empty text.
    pub fn split(text: &str) -> Option<Self> {
        let mut words: Vec<String> = Vec::new();
        let mut word: Option<String> = None;
        let mut quote: Option<char> = None;
        let mut chars = text.chars();
        while let Some(c) = chars.next() {
            match (quote, c) {
                (Some(open), c) if c == open => quote = None,
                (None, '"' | '\'') => {
                    quote = Some(c);
                    word.get_or_insert_default();
                }
                (None | Some('"'), '\\') => word.get_or_insert_default().push(chars.next()?),
                (None, c) if c.is_whitespace() => words.extend(word.take()),
                (_, c) => word.get_or_insert_default().push(c),
            }
        }
        words.extend(word);
        if quote.is_some() || words.is_empty() {
            return None;
        }
        let program = words.remove(0);
        (!program.is_empty()).then_some(Self { program, arguments: words })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_split_as_a_shell_does() {
        let check = |text: &str, expected: Option<&[&str]>| {
            let line = ProgramInvocation::split(text);
            let words = line.map(|line| [vec![line.program], line.arguments].concat());
            let expected =
                expected.map(|words| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>());
            assert_eq!(words, expected, "{text}");
        };
        check("keys --for  work", Some(&["keys", "--for", "work"]));
        check(
            r#""/opt/my keys/run" 'a "b"' "c\"d" e\ f"#,
            Some(&["/opt/my keys/run", "a \"b\"", "c\"d", "e f"]),
        );
        check("x ''", Some(&["x", ""]));
        check("x 'open", None);
        check("  ", None);
        check("''", None);
        check("x \\", None);
    }
}
