//! Secrets taken out of text before anyone sees it: a model, a log, a chat.
//!
//! Holds what secrets look like, not where they are kept. Everything that is not a secret stays byte for byte; doing it
//! twice changes nothing; the time is linear in the text. A secret shorter than 18 characters becomes `***`, a longer
//! one keeps its first six and last four, enough to tell two keys apart.

mod known;
mod mask;
mod named;
mod prefix;
mod shape;

use std::borrow::Cow;

pub use known::learn_secrets;

use mask::sweep;

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
    redact_shapes(known::mask_known(Cow::Borrowed(text)), what)
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
    let text = sweep(text, shape::private_key);
    let text = sweep(text, prefix::known_key);
    let text = sweep(text, |text, from| named::assignment(text, from, what.assignments));
    let text = sweep(text, named::field);
    let text = sweep(text, |text, from| named::yaml_field(text, from, what.assignments));
    let text = sweep(text, named::option);
    let text = sweep(text, named::header);
    let text = sweep(text, shape::webhook);
    let text = sweep(text, shape::bot_token);
    let text = sweep(text, shape::url_password);
    match what.phone_numbers {
        PhoneNumbers::Mask => sweep(text, shape::phone_number),
        PhoneNumbers::Keep => text,
    }
}
