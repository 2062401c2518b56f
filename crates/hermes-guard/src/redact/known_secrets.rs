//! The literal secrets of this installation.
//!
//! They are global to the process, like its log destination: read once from the home's files, and masked in all
//! output, in every encoding. This is the only state in this crate that is not an argument; it can only mask more.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::{PoisonError, RwLock};

use hermes_types::Secret;
use regex::Regex;

use super::mask::{Mask, SecretMatch, replace_matches};

/// The shortest secret that is masked: masking shorter ones would hit ordinary words.
const SHORTEST: usize = 8;
/// The size limit of the compiled pattern in bytes, more than any home needs.
const MOST: usize = 1 << 20;

#[derive(Default)]
struct KnownSecrets {
    values: BTreeSet<String>,
    pattern: Option<Regex>,
}

static KNOWN: RwLock<KnownSecrets> = RwLock::new(KnownSecrets { values: BTreeSet::new(), pattern: None });

/// Masks these values from now on, wherever they occur. Values that are too short, or could be ordinary words, are
/// ignored.
pub fn register_secrets(secrets: impl IntoIterator<Item = Secret>) {
    let usable = |value: &str| {
        value.len() >= SHORTEST
            && !value.contains("***")
            && value.bytes().any(|byte| !byte.is_ascii_lowercase())
    };
    let mut known = KNOWN.write().unwrap_or_else(PoisonError::into_inner);
    let before = known.values.len();
    for secret in secrets {
        let value = secret.expose().trim();
        if usable(value) {
            known.values.extend([value.to_owned(), percent_encoded(value), value.replace('"', "\\\"")]);
        }
    }
    if known.values.len() == before || known.values.iter().map(String::len).sum::<usize>() > MOST {
        return;
    }
    // The longest first, so that a secret which contains another is masked as a whole.
    let mut longest_first: Vec<&String> = known.values.iter().collect();
    longest_first.sort_by_key(|value| std::cmp::Reverse(value.len()));
    let alternatives: Vec<String> = longest_first.into_iter().map(|value| regex::escape(value)).collect();
    known.pattern = Regex::new(&alternatives.join("|")).ok();
}

pub(super) fn mask_known(text: Cow<'_, str>) -> Cow<'_, str> {
    let known = KNOWN.read().unwrap_or_else(PoisonError::into_inner);
    let Some(pattern) = &known.pattern else { return text };
    replace_matches(text, |text, from| {
        let found = pattern.find_at(text, from)?;
        Some(SecretMatch { start: found.start(), end: found.end(), with: Mask::Token })
    })
}

/// Returns the value as it is written in a URL.
fn percent_encoded(value: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'~');
    let mut encoded = String::with_capacity(value.len());
    for byte in value.bytes() {
        if plain(byte) {
            encoded.push(char::from(byte));
        } else {
            let digit =
                |digit: u8| char::from_digit(u32::from(digit), 16).unwrap_or_default().to_ascii_uppercase();
            encoded.extend(['%', digit(byte >> 4), digit(byte & 15)]);
        }
    }
    encoded
}
