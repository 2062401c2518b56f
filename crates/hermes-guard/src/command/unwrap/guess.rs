//! What a program nobody here knows may run.
//!
//! Its words may be a command from some place on, and a word with blanks may be one as a whole. That is a guess: what
//! comes of it counts only for the gravest dangers, and never forbids.

use std::collections::HashSet;

use super::inert::is_inert;
use super::{ExecutedItem, ShellWord, is_shell, program, wrapper};
use crate::command::rule::is_interpreter;

/// So many programs that lead to others are looked at. Of the grave ones each is, where it first stands: whatever
/// follows is among its words.
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
    // Of what is said to gh, only little is run.
    let runs = name == "gh"
        && rest.iter().take(1).any(|word| matches!(word.text.as_str(), "alias" | "cs" | "codespace"));
    if is_inert(name) && !runs {
        return;
    }
    let tails = starts(rest).into_iter().filter_map(|at| rest.get(at..));
    found.extend(tails.map(|words| ExecutedItem::MaybeCommand(words.to_vec())));
    // Text in a language of its own is code, which has a rule of its own.
    if !is_interpreter(name) && !matches!(name, "sed" | "gsed" | "awk" | "gawk" | "mawk" | "nawk") {
        let texts = rest.iter().filter_map(|word| text_in(&word.text));
        found.extend(texts.map(|text| ExecutedItem::MaybeText(text.to_owned())));
    }
}

/// Where a command may begin.
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

/// Whether it may run the words behind it.
fn leads(name: &str) -> bool {
    is_shell(name) || is_interpreter(name) || wrapper::wrapper(name).is_some()
}

/// A command in a word, maybe behind `--option=` or a sign that says "run this".
pub(crate) fn text_in(text: &str) -> Option<&str> {
    if !text.contains(char::is_whitespace) {
        return None;
    }
    // `--checkpoint-action=exec=…`: more than one name may stand before it.
    let first = text.split(char::is_whitespace).next().unwrap_or_default();
    let name = first.rfind('=').map_or(0, |at| at + 1);
    let value = text.get(name..).unwrap_or(text);
    let value = value.trim_start_matches([' ', '!', '|', ':', '\\', '+', '@', '"', '\'', '(']);
    let value = value.strip_prefix("shell ").unwrap_or(value);
    value.contains(char::is_whitespace).then_some(value)
}
