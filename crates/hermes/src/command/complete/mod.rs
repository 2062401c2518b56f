//! Completion in shells: the scripts, and the words that they ask this program for.
//!
//! A script contains no commands and no flags: it passes the words that were typed, so that what is offered is what this
//! program has, with the sessions, profiles and settings there are.

mod values;

use std::process::ExitCode;

use anyhow::Result;
use clap::{Arg, Command, ValueHint};
use clap_complete::Shell;

use crate::cli;
use crate::context::ProgramContext;
use crate::output::Console;
use values::{ValueKind, value_kind};

const BASH: &str = include_str!("hermes.bash");
const ZSH: &str = include_str!("hermes.zsh");
const FISH: &str = include_str!("hermes.fish");
/// What tells a script to complete the names of files.
const FILES: &str = ":files";

/// Returns the completion script for a shell.
pub(crate) fn script(shell: Shell) -> String {
    match shell {
        Shell::Bash => BASH.to_owned(),
        Shell::Zsh => ZSH.to_owned(),
        Shell::Fish => FISH.to_owned(),
        other => {
            let mut script = Vec::new();
            clap_complete::generate(other, &mut cli::definition(), "hermes", &mut script);
            String::from_utf8_lossy(&script).into_owned()
        }
    }
}

/// Prints what can stand in the place of the last word: one candidate a line, with its description after a tab.
pub(crate) fn run(words: &[String], context: &ProgramContext, output: &Console) -> Result<ExitCode> {
    let (typed, last) = match words.split_last() {
        Some((last, typed)) => (typed, last.as_str()),
        None => (&[][..], ""),
    };
    let context = values::profile_context(typed, context)?;
    for candidate in candidates(typed, last, &context) {
        let about = candidate.about.lines().next().unwrap_or_default();
        output.line(format!("{}\t{about}", candidate.word).trim_end());
    }
    Ok(ExitCode::SUCCESS)
}

/// A word that can stand at the cursor.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Candidate {
    word: String,
    about: String,
}

impl Candidate {
    fn new(word: impl Into<String>, about: impl Into<String>) -> Self {
        Self { word: word.into(), about: about.into() }
    }
}

/// Where the cursor is on the command line.
struct CursorPosition<'a> {
    command: &'a Command,
    /// The names of the commands that lead to it, without the program's.
    path: Vec<String>,
    /// The option whose value is being typed.
    option: Option<&'a Arg>,
    /// The number of positional arguments before the cursor.
    positionals: usize,
}

impl<'a> CursorPosition<'a> {
    /// Follows the words that were typed before the cursor.
    fn after(typed: &[String], root: &'a Command) -> Self {
        let mut place = Self { command: root, path: Vec::new(), option: None, positionals: 0 };
        let mut words = typed.iter();
        while let Some(word) = words.next() {
            if matches!(word.as_str(), "-p" | "--profile") {
                words.next();
                continue;
            }
            if place.option.take().is_some() {
                continue;
            }
            if word.starts_with('-') && word.len() > 1 {
                if !word.contains('=') {
                    place.option = place.find_option(word).filter(|option| takes_value(option));
                }
                continue;
            }
            match place.command.find_subcommand(word).filter(|_| place.positionals == 0) {
                Some(next) => {
                    place.path.push(next.get_name().to_owned());
                    place.command = next;
                }
                None => place.positionals += 1,
            }
        }
        place
    }

    fn find_option(&self, word: &str) -> Option<&'a Arg> {
        let long = word.strip_prefix("--");
        // Several short options in one word: only the last can take a value from the next word.
        let short = if long.is_none() { word.chars().last() } else { None };
        self.command.get_arguments().find(|argument| {
            long.is_some_and(|long| {
                argument.get_long_and_visible_aliases().is_some_and(|all| all.contains(&long))
            }) || short.is_some_and(|short| argument.get_short() == Some(short))
        })
    }

    /// Returns the positional argument at the cursor.
    fn positional(&self) -> Option<&'a Arg> {
        let mut all = self.command.get_positionals();
        let last = self.command.get_positionals().last();
        let takes_more =
            |argument: &&Arg| argument.get_num_args().is_some_and(|range| range.max_values() > 1);
        all.nth(self.positionals).or_else(|| last.filter(takes_more))
    }
}

fn takes_value(argument: &Arg) -> bool {
    argument.get_num_args().is_none_or(|range| range.min_values() > 0) && argument.get_action().takes_values()
}

fn candidates(typed: &[String], last: &str, context: &ProgramContext) -> Vec<Candidate> {
    let root = cli::definition();
    if typed.last().is_some_and(|word| matches!(word.as_str(), "-p" | "--profile")) {
        return matching(values::list(ValueKind::Profile, context), last);
    }
    let place = CursorPosition::after(typed, &root);
    if let Some(option) = place.option {
        return matching(values_of(option, &place, context), last);
    }
    if let Some((name, value)) = last.split_once('=').filter(|_| last.starts_with("--")) {
        let Some(option) = place.find_option(name) else { return Vec::new() };
        let found = matching(values_of(option, &place, context), value);
        return found.into_iter().map(|c| Candidate::new(format!("{name}={}", c.word), c.about)).collect();
    }
    if last.starts_with('-') {
        return matching(flags(place.command), last);
    }
    let mut found = Vec::new();
    if place.positionals == 0 {
        found.extend(place.command.get_subcommands().filter(|child| !child.is_hide_set()).map(|child| {
            Candidate::new(child.get_name(), child.get_about().map(ToString::to_string).unwrap_or_default())
        }));
    }
    if let Some(positional) = place.positional() {
        found.extend(values_of(positional, &place, context));
    }
    matching(found, last)
}

fn matching(candidates: Vec<Candidate>, last: &str) -> Vec<Candidate> {
    candidates.into_iter().filter(|c| c.word.starts_with(last) || c.word == FILES).collect()
}

fn flags(command: &Command) -> Vec<Candidate> {
    let shown = command.get_arguments().filter(|argument| !argument.is_hide_set());
    let flag = |argument: &Arg| {
        let about = argument.get_help().map(ToString::to_string).unwrap_or_default();
        Some(Candidate::new(format!("--{}", argument.get_long()?), about))
    };
    let mut found: Vec<Candidate> = shown.filter_map(flag).collect();
    found.push(Candidate::new("--help", "Print help"));
    found
}

/// Returns the values that an argument can have.
fn values_of(argument: &Arg, place: &CursorPosition<'_>, context: &ProgramContext) -> Vec<Candidate> {
    let possible = argument.get_possible_values();
    if !possible.is_empty() {
        let shown = possible.iter().filter(|value| !value.is_hide_set());
        return shown
            .map(|value| {
                Candidate::new(
                    value.get_name(),
                    value.get_help().map(ToString::to_string).unwrap_or_default(),
                )
            })
            .collect();
    }
    if let Some(kind) = value_kind(&place.path, argument.get_id().as_str()) {
        return values::list(kind, context);
    }
    match argument.get_value_hint() {
        ValueHint::AnyPath | ValueHint::FilePath | ValueHint::DirPath => vec![Candidate::new(FILES, "")],
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use hermes_config::{Env, Home};

    use super::*;

    fn check(line: &str, expected: &[&str]) {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::new(folder.path());
        std::fs::create_dir_all(home.join("profiles/work")).unwrap();
        let context = ProgramContext { home, env: Env::from_pairs([("HOME", "/nonexistent")]) };
        let mut words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        let last = words.pop().unwrap();
        let found: Vec<String> = candidates(&words, &last, &context).into_iter().map(|c| c.word).collect();
        assert_eq!(found, expected, "{line}");
    }

    #[test]
    fn words_follow_the_command_line() {
        check("gate", &["gateway"]);
        check("gateway re", &["restart"]);
        check("gateway restart --a", &["--all"]);
        check("sessions export --format ", &["jsonl", "sharegpt", "md", "qmd", "html"]);
        check("sessions export --format=m", &["--format=md"]);
        check("sessions export ", &[":files"]);
        check("profile use w", &["work"]);
        check("-p ", &["default", "work"]);
        check("-p work profile sh", &["show"]);
        check("chat --provider openr", &["openrouter"]);
        check("config get terminal.back", &["terminal.backend"]);
        check("gateway status --platform tele", &["telegram"]);
        check("tools enable --platform cli fi", &["file"]);
        check("tools enable file mem", &["memory", "memory_service"]);
        check("nonsense ", &[]);
        check("chat -q ", &[]);
    }
}
