//! The replacement of a secret, and the scan that inserts it.

use std::borrow::Cow;

const SHORT: usize = 18;
const HEAD: usize = 6;
const TAIL: usize = 4;

/// A secret found in a text, as byte positions between characters.
pub(super) struct SecretMatch {
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) with: Mask,
}

#[derive(Clone, Copy)]
pub(super) enum Mask {
    /// Stars, or head and tail, depending on the length.
    Token,
    /// Stars, whatever the length.
    Stars,
    Words(&'static str),
    /// Keeps the country code and the last digits.
    Phone,
}

/// Replaces every match. `find` gets the text and where to begin, and returns matches in order.
pub(super) fn replace_matches(
    text: Cow<'_, str>,
    find: impl Fn(&str, usize) -> Option<SecretMatch>,
) -> Cow<'_, str> {
    let mut out = String::new();
    let mut done = 0;
    while let Some(hit) = find(&text, done) {
        let (Some(before), Some(secret)) = (text.get(done..hit.start), text.get(hit.start..hit.end)) else {
            break;
        };
        out.push_str(before);
        out.push_str(&hit.with.apply(secret));
        if hit.end <= done {
            break;
        }
        done = hit.end;
    }
    if done == 0 {
        return text;
    }
    out.push_str(text.get(done..).unwrap_or_default());
    Cow::Owned(out)
}

impl Mask {
    fn apply(self, secret: &str) -> Cow<'static, str> {
        match self {
            Self::Token => Cow::Owned(mask(secret)),
            Self::Stars => Cow::Borrowed("***"),
            Self::Words(words) => Cow::Borrowed(words),
            Self::Phone if secret.len() <= 8 => Cow::Owned(around(secret, 2, 2, "****")),
            Self::Phone => Cow::Owned(around(secret, 4, 4, "****")),
        }
    }
}

fn mask(token: &str) -> String {
    if token.chars().count() < SHORT { "***".to_owned() } else { around(token, HEAD, TAIL, "...") }
}

fn around(text: &str, head: usize, tail: usize, middle: &str) -> String {
    let count = text.chars().count();
    let mut out: String = text.chars().take(head).collect();
    out.push_str(middle);
    out.extend(text.chars().skip(count.saturating_sub(tail)));
    out
}

/// Tells whether a value is the output of [`mask`], so that masking twice changes nothing.
pub(super) fn is_masked(value: &str) -> bool {
    value == "***"
        || (value.chars().count() == HEAD + 3 + TAIL && value.chars().skip(HEAD).take(3).all(|c| c == '.'))
}
