//! A command's words, as rules examine them.

use super::shell::ShellWord;
use super::unwrap::{InvocationKind, program};

#[derive(Debug)]
pub(super) struct Argv<'a> {
    pub(super) name: String,
    pub(super) args: &'a [ShellWord],
    pub(super) via: InvocationKind,
}

impl<'a> Argv<'a> {
    pub(super) fn of(words: &'a [ShellWord], via: InvocationKind) -> Option<Self> {
        let (first, args) = words.split_first()?;
        Some(Self { name: program(first), args, via })
    }

    pub(super) fn texts(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        self.args.iter().map(|word| word.text.as_str())
    }

    pub(super) fn has(&self, wanted: &str) -> bool {
        self.texts().any(|text| text == wanted)
    }

    /// Returns the words that are not options.
    pub(super) fn plain(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        let mut ended = false;
        self.texts().filter(move |text| {
            if *text == "--" && !ended {
                ended = true;
                return false;
            }
            ended || !text.starts_with('-') || *text == "-"
        })
    }

    /// Returns the n-th word that is not an option.
    pub(super) fn word(&self, at: usize) -> &'a str {
        self.plain().nth(at).unwrap_or_default()
    }

    /// Tells whether combined short options contain a letter: `-rf` has `r` and `f`.
    pub(super) fn has_letter(&self, letter: char) -> bool {
        self.texts()
            .take_while(|text| *text != "--")
            .any(|text| text.starts_with('-') && !text.starts_with("--") && text.contains(letter))
    }

    /// Tells whether a long option is given, in full, with a value, or abbreviated as programs allow.
    pub(super) fn has_long(&self, name: &str) -> bool {
        self.texts().take_while(|text| *text != "--").any(|text| {
            let given = text.split('=').next().unwrap_or(text);
            given.starts_with("--") && given.len() > 2 && name.starts_with(given)
        })
    }

    pub(super) fn asks_for_help(&self) -> bool {
        self.texts().any(|text| matches!(text, "--help" | "--version" | "-V"))
    }

    /// Returns the command as text for the user.
    pub(super) fn shown(&self) -> String {
        let mut shown = self.name.clone();
        for text in self.texts() {
            shown.push(' ');
            shown.push_str(text);
            if shown.len() > 160 {
                break;
            }
        }
        one_line(&shown)
    }
}

fn one_line(text: &str) -> String {
    const MOST: usize = 100;
    let mut cut: String = text.chars().take(MOST).collect();
    if text.chars().nth(MOST).is_some() {
        cut.push('…');
    }
    cut.replace('\n', " ")
}
