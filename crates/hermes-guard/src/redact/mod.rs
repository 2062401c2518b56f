//! Secrets taken out of text before anyone sees it: a model, a log, a chat.
//!
//! Holds what secrets look like, not where they are kept. Everything that is not a secret stays byte for byte; doing it
//! twice changes nothing; the time is linear in the text. A secret shorter than 18 characters becomes `***`, a longer
//! one keeps its first six and last four, enough to tell two keys apart.

mod mask;
mod named;
mod prefix;
mod shape;

use std::borrow::Cow;
use std::fmt;

use hermes_types::Secret;

use mask::{Hit, Mask, sweep};

/// Shorter known secrets are left alone: masking them would hit ordinary words.
const SHORTEST_KNOWN: usize = 6;

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

/// Masks everything that looks like a secret.
pub fn redact(text: &str, what: Redaction) -> Cow<'_, str> {
    redact_shapes(Cow::Borrowed(text), what)
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
    let text = sweep(text, named::header);
    let text = sweep(text, shape::bot_token);
    let text = sweep(text, shape::url_password);
    match what.phone_numbers {
        PhoneNumbers::Mask => sweep(text, shape::phone_number),
        PhoneNumbers::Keep => text,
    }
}

/// Also masks secrets it knows word for word, wherever and in whatever shape they stand.
#[derive(Clone, Default)]
pub struct Redactor {
    what: Redaction,
    known: Vec<Secret>,
}

impl Redactor {
    pub fn new(what: Redaction, known: impl IntoIterator<Item = Secret>) -> Self {
        let mut redactor = Self { what, known: Vec::new() };
        redactor.learn(known);
        redactor
    }

    /// Adds secrets that became known later, such as a token just refreshed.
    pub fn learn(&mut self, secrets: impl IntoIterator<Item = Secret>) {
        let usable =
            |secret: &Secret| secret.expose().len() >= SHORTEST_KNOWN && !secret.expose().contains("***");
        self.known.extend(secrets.into_iter().filter(usable));
        // The longest first, so that a secret which contains another is masked whole.
        self.known.sort_by_key(|secret| std::cmp::Reverse(secret.expose().len()));
        self.known.dedup();
    }

    pub fn redact<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let mut text = Cow::Borrowed(text);
        for secret in &self.known {
            let secret = secret.expose();
            text = sweep(text, |text, from| {
                let start = text.get(from..)?.find(secret)? + from;
                Some(Hit { start, end: start + secret.len(), with: Mask::Token })
            });
        }
        redact_shapes(text, self.what)
    }
}

impl fmt::Debug for Redactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Redactor").field("what", &self.what).field("known", &self.known.len()).finish()
    }
}
