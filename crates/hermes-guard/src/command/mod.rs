//! Decides whether a shell command may be run without approval.
//!
//! The command is parsed as a shell would parse it and everything it leads to is judged: what `sudo`, `xargs` or
//! `sh -c` run, substitutions and here-documents, what a variable or an escape hides, files that the command itself
//! writes. What an unknown program may run is guessed, and a guess counts for the most severe dangers only. Words
//! that are only mentioned (a commit message, a search pattern) are not judged. Pure: this module decides; callers
//! request approval and run commands.

mod allow;
mod argv;
mod effects;
mod evaluated_words;
mod flow;
mod judge;
mod normalize;
mod output;
mod path;
mod pipes;
mod rule;
mod shell;
mod shell_input;
mod unwrap;

use hermes_types::Danger;

pub use allow::{covers, is_same_key, matches_pattern};

use judge::CommandJudge;

/// The longest command that is analysed.
const LONGEST: usize = 128_000;
const TOO_LONG: &str = "command too long to check";
const CONTROL: &str = "control character in the command";

/// The facts about the machine that a decision needs.
#[derive(Debug, Clone, Copy, Default)]
pub struct HomeFolders<'a> {
    /// The user's home folder.
    pub home: Option<&'a str>,
    /// The Hermes home.
    pub hermes_home: Option<&'a str>,
}

/// The decision about a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CommandJudgement {
    Allow,
    /// The user must approve each of these.
    Ask(Vec<Danger>),
    /// The command is never run, whatever the user has approved.
    Deny(Danger),
}

/// Returns everything that speaks against running a command.
///
/// The command is judged as it is, because that is what the shell will read, and once more with look-alike letters
/// replaced by plain ones, because that is what the user sees. The worse of the two counts. Control characters are
/// refused: no command needs them, and a terminal would show something other than what is run.
pub fn judge(command: &str, places: HomeFolders<'_>) -> CommandJudgement {
    if command.chars().count() > LONGEST {
        return CommandJudgement::Ask(vec![Danger { key: TOO_LONG.to_owned(), reason: TOO_LONG.to_owned() }]);
    }
    if let Some(c) = command.chars().find(|c| c.is_control() && !matches!(c, '\n' | '\t')) {
        let reason = format!("{CONTROL}: U+{:04X} (write it as an escape, for example $'\\e')", u32::from(c));
        return CommandJudgement::Deny(Danger { key: CONTROL.to_owned(), reason });
    }
    let judged = |text: &str| CommandJudge::of_command(text).finish();
    let raw = normalize::fold_homes(command, places);
    let plain = normalize::plain_letters(&raw);
    if plain == raw { judged(&raw) } else { judged(&raw).worse_of(judged(&plain)) }
}

/// Returns the words of every command that is known to be run, in the order of their occurrence; `None` stands for
/// a word that only the shell can determine. Returns `None` for a command that needs approval because it cannot be
/// parsed with certainty.
///
/// For comparing what is judged with what a shell runs.
pub fn executed_words(command: &str) -> Option<Vec<Vec<Option<String>>>> {
    let judge = CommandJudge::of_command(command);
    judge.is_certain().then_some(judge.executed)
}

impl CommandJudgement {
    /// Returns the worse of two judgements of one command, with the dangers of both.
    fn worse_of(self, other: Self) -> Self {
        match (self, other) {
            (denied @ Self::Deny(_), _) | (_, denied @ Self::Deny(_)) => denied,
            (Self::Ask(mut dangers), Self::Ask(others)) => {
                for danger in others {
                    if dangers.iter().all(|known| known.key != danger.key) {
                        dangers.push(danger);
                    }
                }
                Self::Ask(dangers)
            }
            (asked @ Self::Ask(_), Self::Allow) | (Self::Allow, asked @ Self::Ask(_)) => asked,
            (Self::Allow, Self::Allow) => Self::Allow,
        }
    }
}
