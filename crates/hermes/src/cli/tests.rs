//! Every command and argument is described, shown in an example, and read.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use clap::{Arg, Command};

use super::definition;

/// Calls `look` with every command that help shows, and the words that lead to it.
fn walk(command: &Command, path: &str, look: &mut impl FnMut(&str, &Command)) {
    look(path, command);
    for child in command.get_subcommands().filter(|child| !child.is_hide_set()) {
        walk(child, &format!("{path} {}", child.get_name()), look);
    }
}

fn shown(command: &Command) -> impl Iterator<Item = &Arg> {
    let is_clap = |argument: &&Arg| matches!(argument.get_id().as_str(), "help" | "version");
    command
        .get_arguments()
        .filter(|argument| !argument.is_hide_set())
        .filter(move |argument| !is_clap(argument))
}

#[test]
fn every_command_and_argument_is_described() {
    let mut found = Vec::new();
    walk(&definition(), "hermes", &mut |path, command| {
        if command.get_about().is_none() {
            found.push(path.to_owned());
        }
        for argument in shown(command).filter(|argument| argument.get_help().is_none()) {
            found.push(format!("{path}: {}", argument.get_id()));
        }
    });
    assert!(found.is_empty(), "without a description: {found:#?}");
}

#[test]
fn every_command_has_an_example_that_can_be_parsed() {
    let mut found = Vec::new();
    let tree = definition();
    walk(&tree, "hermes", &mut |path, command| {
        if command.has_subcommands() {
            return;
        }
        let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        let examples = help
            .lines()
            .filter_map(|line| line.trim().trim_start_matches("Example: ").strip_prefix("hermes "));
        let own: Vec<&str> =
            examples.filter(|example| format!("hermes {example}").starts_with(path)).collect();
        if own.is_empty() {
            found.push(format!("{path} has no example"));
        }
        for example in own {
            // What the shell does is not parsed: pipes and redirections.
            let words = example.split(['|', '<', '>']).next().unwrap_or_default();
            let words = shell_words(words);
            if let Err(error) =
                definition().try_get_matches_from(std::iter::once("hermes".to_owned()).chain(words))
            {
                found.push(format!("hermes {example}: {error}"));
            }
        }
    });
    assert!(found.is_empty(), "{found:#?}");
}

/// Splits an example as a shell would: quotes hold words together.
fn shell_words(text: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut quote = None;
    for c in text.trim().chars() {
        match (quote, c) {
            (None, ' ') => words.push(String::new()),
            (None, '\'' | '"') => quote = Some(c),
            (Some(open), c) if c == open => quote = None,
            (_, c) => words.last_mut().unwrap().push(c),
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

/// Returns the text of the sources that act on the command line.
fn sources(folder: &Path) -> String {
    let mut text = String::new();
    let mut open: Vec<PathBuf> = vec![folder.to_owned()];
    while let Some(next) = open.pop() {
        for entry in fs::read_dir(&next).unwrap().flatten() {
            let path = entry.path();
            if path.is_dir() && path.file_name().unwrap() != "cli" {
                open.push(path);
            } else if path.extension().is_some_and(|ending| ending == "rs") {
                text.push_str(&fs::read_to_string(path).unwrap());
            }
        }
    }
    text
}

#[test]
fn every_argument_is_read() {
    let text = sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"));
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let words: BTreeSet<&str> = text.split(|c| !is_word(c)).collect();
    let mut found = Vec::new();
    walk(&definition(), "hermes", &mut |path, command| {
        for argument in shown(command).filter(|argument| !words.contains(argument.get_id().as_str())) {
            found.push(format!("{path}: {}", argument.get_id()));
        }
    });
    // The opposite of another flag: that it is given is all there is to it.
    found.retain(|name| {
        !["no_start_now", "start_on_login"]
            .iter()
            .any(|opposite| name == &format!("hermes gateway install: {opposite}"))
    });
    assert!(found.is_empty(), "accepted, and nobody reads it: {found:#?}");
}
