//! Secrets taken out of text before anyone sees it: a model, a log, a chat.
//!
//! Holds what secrets look like, not where they are kept. Everything that is not a secret stays byte for byte; doing it
//! twice changes nothing; the time is linear in the text. A secret shorter than 18 characters becomes `***`, a longer
//! one keeps its first six and last four, enough to tell two keys apart.

mod known_secrets;
mod mask;
mod named_values;
mod prefix;
mod shape;

use std::borrow::Cow;

pub use known_secrets::register_secrets;

use mask::replace_matches;

const MOST_ROUNDS: usize = 8;

/// Which names count in `name=value`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Assignments {
    /// For logs and the output of commands such as `env`.
    #[default]
    AnyCase,
    /// For source code, where `token=token` is a program and must stay readable: upper-case names, and lines that hold
    /// nothing but an assignment.
    ConfigStyle,
}

/// Whether telephone numbers count as secrets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PhoneNumbers {
    #[default]
    Mask,
    Keep,
}

/// What to look for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Redaction {
    pub assignments: Assignments,
    pub phone_numbers: PhoneNumbers,
}

/// Masks the secrets of this installation, and everything that looks like one.
pub fn redact(text: &str, what: Redaction) -> Cow<'_, str> {
    redact_shapes(known_secrets::mask_known(Cow::Borrowed(text)), what)
}

/// Until nothing is left to mask: a mask can bring two things together that only then look like a secret. Masks only
/// get shorter, so two or three rounds are the most that happen, and text without secrets takes one.
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
