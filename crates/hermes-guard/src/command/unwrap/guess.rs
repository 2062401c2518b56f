//! Guesses what an unknown program may run.
//!
//! Its words may be a command from some position on, and a word with whitespace may be one as a whole. The result
//! is a guess: it counts only for the most severe dangers, and never forbids.

use std::collections::HashSet;

use super::inert::is_inert;
use super::{ExecutedItem, ShellWord, is_shell, program, wrapper};
use crate::command::rule::is_interpreter;

/// Limits how many programs that run their arguments are examined. Of the severe ones each is, at its first
/// occurrence: whatever follows is among its words.
const MOST_LEADING: usize = 4;

const GRAVE: &[&str] = &[
    "rm",
    "grm",
    "srm",
    "shred",
    "chmod",
    "chown",
    "dd",
    "mkfs",
    "find",
    "systemctl",
    "kill",
    "pkill",
    "killall",
    "tee",
];

pub(super) fn guess(name: &str, rest: &[ShellWord], found: &mut Vec<ExecutedItem>) {
    // gh runs only few of its arguments.
    let runs = name == "gh"
        && rest.iter().take(1).any(|word| matches!(word.text.as_str(), "alias" | "cs" | "codespace"));
    if is_inert(name) && !runs {
        return;
    }
    let tails = starts(rest).into_iter().filter_map(|at| rest.get(at..));
    found.extend(tails.map(|words| ExecutedItem::MaybeCommand(words.to_vec())));
    // Text in another language is code, which has its own rule.
    if !is_interpreter(name) && !matches!(name, "sed" | "gsed" | "awk" | "gawk" | "mawk" | "nawk") {
        let texts = rest.iter().filter_map(|word| text_in(&word.text));
        found.extend(texts.map(|text| ExecutedItem::MaybeText(text.to_owned())));
    }
}

/// Returns the positions where a command may begin.
fn starts(rest: &[ShellWord]) -> Vec<usize> {
    let mut seen = HashSet::new();
    let mut leading = 0;
    let mut starts = Vec::new();
    for (at, word) in rest.iter().enumerate() {
        let name = program(word);
        let grave = GRAVE.contains(&name.as_str()) || name.starts_with("mkfs.");
        if !grave && leading < MOST_LEADING && leads(&name) {
            leading += 1;
            starts.push(at);
        } else if grave && seen.len() <= GRAVE.len() && seen.insert(name) {
            starts.push(at);
        }
    }
    starts
}

/// Tells whether a program may run the words after it.
fn leads(name: &str) -> bool {
    is_shell(name) || is_interpreter(name) || wrapper::wrapper(name).is_some()
}

/// Returns a command in a word, possibly after `--option=` or a sign that means "run this".
pub(crate) fn text_in(text: &str) -> Option<&str> {
    if !text.contains(char::is_whitespace) {
        return None;
    }
    // `--checkpoint-action=exec=…`: more than one name may precede it.
    let first = text.split(char::is_whitespace).next().unwrap_or_default();
    let name = first.rfind('=').map_or(0, |at| at + 1);
    let value = text.get(name..).unwrap_or(text);
    let value = value.trim_start_matches([' ', '!', '|', ':', '\\', '+', '@', '"', '\'', '(']);
    let value = value.strip_prefix("shell ").unwrap_or(value);
    value.contains(char::is_whitespace).then_some(value)
}
