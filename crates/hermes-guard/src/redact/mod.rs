//! Removes secrets from text before a model, a log or a chat gets it.
//!
//! Holds the formats of secrets, not their storage. Everything that is not a secret stays byte for byte; redacting
//! twice changes nothing; the time is linear in the text. A secret shorter than 18 characters becomes `***`, a
//! longer one keeps its first six and last four, enough to tell two keys apart.

mod known_secrets;
mod mask;
mod named_values;
mod prefix;
mod shape;

use std::borrow::Cow;

pub use known_secrets::register_secrets;

use mask::replace_matches;

const MOST_ROUNDS: usize = 8;

/// Selects the names that count in `name=value`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Assignments {
    /// Names in any case, for logs and the output of commands such as `env`.
    #[default]
    AnyCase,
    /// Upper-case names, and lines that contain only an assignment; for source code, where `token=token` is code
    /// and must stay readable.
    ConfigStyle,
}

/// Tells whether telephone numbers count as secrets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PhoneNumbers {
    #[default]
    Mask,
    Keep,
}

/// Selects the secrets to search for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Redaction {
    pub assignments: Assignments,
    pub phone_numbers: PhoneNumbers,
}

/// Masks the secrets of this installation, and everything that looks like one.
pub fn redact(text: &str, what: Redaction) -> Cow<'_, str> {
    redact_shapes(known_secrets::mask_known(Cow::Borrowed(text)), what)
}

/// Masks until nothing is left to mask: a mask can join two parts that only then look like a secret. Masks only get
/// shorter, so at most two or three rounds happen, and text without secrets takes one.
fn redact_shapes(text: Cow<'_, str>, what: Redaction) -> Cow<'_, str> {
    let mut text = text;
    for _ in 0..MOST_ROUNDS {
        let next = match redact_once(Cow::Borrowed(&text), what) {
            Cow::Borrowed(_) => break,
            Cow::Owned(next) => next,
        };
        text = Cow::Owned(next);
    }
    text
}

fn redact_once(text: Cow<'_, str>, what: Redaction) -> Cow<'_, str> {
    let text = replace_matches(text, shape::private_key);
    let text = replace_matches(text, prefix::known_key);
    let text = replace_matches(text, |text, from| named_values::assignment(text, from, what.assignments));
    let text = replace_matches(text, named_values::field);
    let text = replace_matches(text, |text, from| named_values::yaml_field(text, from, what.assignments));
    let text = replace_matches(text, named_values::option);
    let text = replace_matches(text, named_values::header);
    let text = replace_matches(text, shape::webhook);
    let text = replace_matches(text, shape::bot_token);
    let text = replace_matches(text, shape::url_password);
    match what.phone_numbers {
        PhoneNumbers::Mask => replace_matches(text, shape::phone_number),
        PhoneNumbers::Keep => text,
    }
}
