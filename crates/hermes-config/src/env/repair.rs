//! Repairs a `.env` that lost line breaks: two assignments joined on one line.

use super::dotenv::{parse_line, split_line};
use super::variables;
use crate::provider::is_usable_key;

/// The repaired text and the number of repaired entries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DotenvRepair {
    pub text: String,
    pub fixed: usize,
}

impl DotenvRepair {
    /// Returns the line that `migrate` shows; `None` when nothing was wrong.
    pub fn report(&self) -> Option<String> {
        (self.fixed > 0).then(|| format!("✓ Repaired .env file ({} corrupted entries fixed)", self.fixed))
    }
}

/// Splits joined lines, then drops placeholders (`***`, `changeme`) of names that also have a real value.
pub fn repair(text: &str) -> DotenvRepair {
    let mut fixed = 0;
    let mut pieces: Vec<String> = Vec::new();
    for line in text.split_inclusive('\n') {
        let body = line.trim_end_matches(['\n', '\r']);
        let ending = line.strip_prefix(body).unwrap_or_default();
        let mut rest = body;
        while let Some((head, tail)) = split_glued(rest) {
            pieces.push(format!("{head}{}", if ending.is_empty() { "\n" } else { ending }));
            rest = tail;
            fixed += 1;
        }
        pieces.push(format!("{rest}{ending}"));
    }
    let assignments: Vec<Option<(String, String)>> =
        pieces.iter().map(|line| parse_line(line).map(|(name, value)| (name.to_owned(), value))).collect();
    let is_filler = |value: &str| !value.is_empty() && !is_usable_key(value);
    let has_real =
        |name: &str| assignments.iter().flatten().any(|(other, value)| other == name && is_usable_key(value));
    let mut out = String::with_capacity(text.len());
    for (line, assignment) in pieces.iter().zip(&assignments) {
        match assignment {
            Some((name, value)) if is_secret(name) && is_filler(value) && has_real(name) => fixed += 1,
            _ => out.push_str(line),
        }
    }
    DotenvRepair { text: out, fixed }
}

/// Tells whether a variable is a secret. Only secrets have placeholders; `1` is a valid value for a switch.
fn is_secret(name: &str) -> bool {
    variables::find(name).is_some_and(|variable| variable.secret)
}

/// Splits before the first known `NAME=` that directly follows another line's value. A name after a space, a quote
/// or an underscore is part of the value.
fn split_glued(line: &str) -> Option<(&str, &str)> {
    if line.trim_start().starts_with('#') {
        return None;
    }
    let (_, raw) = split_line(line)?;
    if raw.trim_start().starts_with(['"', '\'']) {
        return None;
    }
    let value_start = line.len() - raw.len();
    let cut = variables::all()
        .iter()
        .filter_map(|variable| {
            let needle = format!("{}=", variable.name);
            raw.match_indices(&needle).map(|(at, _)| value_start + at).find(|at| {
                line.get(..*at)
                    .and_then(|before| before.chars().next_back())
                    .is_some_and(|c| c.is_ascii_alphanumeric() || c == '=' || c == '-')
            })
        })
        .min()?;
    line.split_at_checked(cut)
}
