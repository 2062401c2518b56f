//! What a program nobody here knows may run.
//!
//! Its words may be a command from some place on, and a word with blanks may be one as a whole. That is a guess: what
//! comes of it counts only for the gravest dangers, and never forbids.

use super::talk::only_talks;
use super::{Run, Word, is_shell, program, wrapper};
use crate::command::rule::is_interpreter;

/// So many places where a command may begin are looked at.
const MOST_STARTS: usize = 4;
const MOST_TEXTS: usize = 32;
const LONGEST: usize = 4_000;

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

pub(super) fn guess(name: &str, rest: &[Word], found: &mut Vec<Run>) {
    // Of what is said to gh, only little is run.
    let runs = name == "gh"
        && rest.iter().take(1).any(|word| matches!(word.text.as_str(), "alias" | "cs" | "codespace"));
    if only_talks(name) && !runs {
        return;
    }
    let starts = rest.iter().enumerate().filter(|(_, word)| begins(word)).map(|(at, _)| at).take(MOST_STARTS);
    found.extend(starts.filter_map(|at| rest.get(at..)).map(|words| Run::MaybeCommand(words.to_vec())));
    // Text in a language of its own is code, which has a rule of its own.
    if !is_interpreter(name) && !matches!(name, "sed" | "gsed" | "awk" | "gawk" | "mawk" | "nawk") {
        let texts = rest.iter().filter_map(|word| text_in(&word.text)).take(MOST_TEXTS);
        found.extend(texts.map(|text| Run::MaybeText(text.to_owned())));
    }
}

fn begins(word: &Word) -> bool {
    let name = program(word);
    GRAVE.contains(&name.as_str())
        || name.starts_with("mkfs.")
        || is_shell(&name)
        || is_interpreter(&name)
        || wrapper::wrapper(&name).is_some()
}

/// A command in a word, maybe behind `--option=` or a sign that says "run this".
pub(crate) fn text_in(text: &str) -> Option<&str> {
    if text.len() > LONGEST || !text.contains(char::is_whitespace) {
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
