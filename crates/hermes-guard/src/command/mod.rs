//! Whether a shell command may simply be run.
//!
//! The command is read as a shell would read it and everything it leads to is judged: what `sudo`, `xargs` or `sh -c`
//! run, what stands in substitutions and here-documents, what a name or an escape hides, what a file holds that the
//! command itself writes. What a program that is not known may run is guessed at, and a guess counts for the gravest
//! dangers only. Words that are only talked about (a commit message, a search pattern) are not judged. Pure: it decides,
//! others ask and act.

mod allow;
mod argv;
mod flow;
mod given;
mod judge;
mod memory;
mod normal;
mod output;
mod path;
mod pipes;
mod rule;
mod shell;
mod unwrap;

use hermes_types::{Danger, Verdict};

pub use allow::{covers, is_like, is_same_key};

use judge::Judge;

/// Longer commands are not looked into.
const LONGEST: usize = 128_000;
const TOO_LONG: &str = "command too long to check";

/// What must be known of the machine.
#[derive(Debug, Clone, Copy, Default)]
pub struct Places<'a> {
    /// The user's home folder.
    pub home: Option<&'a str>,
    /// The Hermes home.
    pub hermes_home: Option<&'a str>,
}

/// What is to be done about a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Judgement {
    Allow,
    /// A person has to agree to each of these.
    Ask(Vec<Danger>),
    /// Never, whatever a person has agreed to.
    Deny(Danger),
}

/// Everything that speaks against running a command.
pub fn judge(command: &str, places: Places<'_>) -> Judgement {
    if command.chars().count() > LONGEST {
        return Judgement::Ask(vec![Danger { key: TOO_LONG.to_owned(), reason: TOO_LONG.to_owned() }]);
    }
    let text = normal::normalize(command, places);
    let mut judge = Judge::default();
    judge.text(&text);
    judge.finish()
}

/// The same with the first danger only.
pub fn decide(command: &str, places: Places<'_>) -> Verdict {
    match judge(command, places) {
        Judgement::Allow => Verdict::Allow,
        Judgement::Ask(dangers) => dangers.into_iter().next().map_or(Verdict::Allow, Verdict::Ask),
        Judgement::Deny(danger) => Verdict::Deny(danger),
    }
}
