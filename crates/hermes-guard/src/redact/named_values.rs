//! Values that are secret because of their name: assignments, URL parameters, JSON fields, headers.

use super::Assignments;
use super::mask::{Mask, SecretMatch, is_masked};

/// Parts of a name that make an assignment secret.
const WORDS: [&str; 17] = [
    "API_KEY",
    "APIKEY",
    "TOKEN",
    "SECRET",
    "PASSWORD",
    "PASSWD",
    "PASSPHRASE",
    "CREDENTIAL",
    "AUTH",
    "PRIVATE_KEY",
    "ACCESS_KEY",
    "ACCOUNT_KEY",
    "ACCOUNTKEY",
    "ACCESSKEY",
    "SIGNING_KEY",
    "ENCRYPTION_KEY",
    "MASTER_KEY",
];

/// Endings of a name that make an assignment secret.
const ENDINGS: [&str; 6] = ["_PASS", "_PWD", "PGPASS", "_WEBHOOK_URL", "_DSN", "_COOKIE"];

/// Whole names that make a URL parameter secret, in addition to those that contain one of [`WORDS`].
const PARAMETERS: [&str; 8] =
    ["KEY", "API-KEY", "PWD", "PASS", "SIG", "SIGNATURE", "X-AMZ-SIGNATURE", "X-GOOG-SIGNATURE"];

/// Endings of field names, without underscores, that make the value secret.
const FIELDS: [&str; 18] = [
    "apikey",
    "token",
    "secret",
    "password",
    "bearer",
    "secretvalue",
    "secretinput",
    "keymaterial",
    "privatekey",
    "passwd",
    "passphrase",
    "accesskey",
    "secretkey",
    "accountkey",
    "signingkey",
    "encryptionkey",
    "credential",
    "pwd",
];

/// Fields with such an ending that are not secret: they continue a list, or name a special token of a tokenizer.
const PLAIN_FIELDS: [&str; 7] =
    ["pagetoken", "continuationtoken", "synctoken", "nexttoken", "stoptoken", "eostoken", "padtoken"];

const HEADERS: [&str; 6] =
    ["authorization", "proxy-authorization", "x-api-key", "api-key", "x-goog-api-key", "x-auth-token"];

const SCHEMES: [&str; 8] = ["bearer", "basic", "token", "bot", "digest", "apikey", "negotiate", "key"];

/// Finds `NAME=value`, `?name=value`, and `name = "value"` on a separate line.
pub(super) fn assignment(text: &str, from: usize, which: Assignments) -> Option<SecretMatch> {
    let mut at = from;
    loop {
        let equals = at + text.get(at..)?.find('=')?;
        at = equals + 1;
        let Some(place) = name_before(text, from, equals) else { continue };
        let secret = match place.kind {
            AssignmentKind::Parameter => is_secret_name(place.name) || is_parameter(place.name),
            AssignmentKind::Spaced if !place.alone => false,
            AssignmentKind::Plain | AssignmentKind::Spaced => {
                let upper = !place.name.bytes().any(|byte| byte.is_ascii_lowercase());
                let counts = which == Assignments::AnyCase || upper || place.alone;
                counts && is_secret_name(place.name)
            }
        };
        if !secret {
            continue;
        }
        let Some((start, end)) = value_after(text, at, place.kind) else { continue };
        let value = text.get(start..end)?;
        if is_secret_value(place.name, value) {
            return Some(SecretMatch { start, end, with: Mask::Token });
        }
        at = end.max(at);
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum AssignmentKind {
    Plain,
    /// With a space before the sign, as in configuration files.
    Spaced,
    /// In a URL's query or a form.
    Parameter,
}

struct NamePlace<'a> {
    name: &'a str,
    kind: AssignmentKind,
    /// Set when nothing precedes it on its line, not even whitespace.
    alone: bool,
}

/// Returns the name that ends at the sign. The search goes no further back than `from`, which keeps the scan
/// linear.
fn name_before(text: &str, from: usize, equals: usize) -> Option<NamePlace<'_>> {
    let before = text.get(from..equals)?;
    let trimmed = before.trim_end_matches(' ');
    let spaced = trimmed.len() != before.len();
    let length = trimmed.bytes().rev().take(128).take_while(|byte| is_name(*byte)).count();
    let start = from + trimmed.len() - length;
    let name = text.get(start..from + trimmed.len())?;
    if name.is_empty() {
        return None;
    }
    let lead = text.get(..start)?.bytes().next_back();
    let kind = match lead {
        _ if spaced => AssignmentKind::Spaced,
        Some(b'?' | b'&') => AssignmentKind::Parameter,
        _ => AssignmentKind::Plain,
    };
    Some(NamePlace { name, kind, alone: matches!(lead, None | Some(b'\n' | b'\r')) })
}

fn is_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.')
}

fn is_secret_name(name: &str) -> bool {
    let name = name.to_ascii_uppercase().replace('-', "_");
    // "Author" is not "authorization".
    let name = name.replace("AUTHOR_", "").replace("AUTHORS", "");
    let name = name.strip_suffix("AUTHOR").unwrap_or(&name);
    WORDS.iter().any(|word| name.contains(word)) || ENDINGS.iter().any(|ending| name.ends_with(ending))
}

fn is_secret_field(name: &str) -> bool {
    let name = name.to_ascii_lowercase().replace(['_', '-'], "");
    FIELDS.iter().any(|field| name.ends_with(field))
        && !PLAIN_FIELDS.iter().any(|field| name.ends_with(field))
}

/// Finds `password: value` on a separate line, as in YAML.
pub(super) fn yaml_field(text: &str, from: usize, which: Assignments) -> Option<SecretMatch> {
    let mut at = from;
    loop {
        let colon = at + text.get(at..)?.find(": ")?;
        at = colon + 2;
        let line = text.get(from..colon)?.rsplit('\n').next().unwrap_or_default();
        let name = line.trim_start_matches([' ', '\t', '-']);
        let begins = from == 0 || line.len() < colon - from;
        if !begins || !name.bytes().all(is_name) || !is_secret_field(name) {
            continue;
        }
        let rest = text.get(at..)?;
        let start = at + rest.len() - rest.trim_start_matches([' ', '\t']).len();
        let value = until_end_of_line(text.get(start..)?);
        let looks_secret = value.len() >= 20 || value.bytes().any(|byte| byte.is_ascii_digit());
        let is_word = !value.contains(char::is_whitespace)
            && !value.starts_with(['"', '\'', '[', '{', '<', '&', '|', '>', '$', '*']);
        let is_type = value.ends_with([',', ';', '{', '(', ')', ']', '>']) || TYPES.contains(&value);
        let counts =
            value.len() >= 4 && is_word && !is_type && (which == Assignments::AnyCase || looks_secret);
        if counts && is_secret_value(name, value) {
            return Some(SecretMatch { start, end: start + value.len(), with: Mask::Token });
        }
    }
}

/// Words that follow a name in source code and documents, not in settings.
const TYPES: [&str; 16] = [
    "str", "string", "String", "bool", "int", "number", "any", "None", "null", "none", "true", "false",
    "required", "optional", "object", "bytes",
];

fn until_end_of_line(text: &str) -> &str {
    text.split(['\n', '\r']).next().unwrap_or_default().trim_end()
}

/// Finds `--password value`, as in program arguments.
pub(super) fn option(text: &str, from: usize) -> Option<SecretMatch> {
    let mut at = from;
    loop {
        let dashes = at + text.get(at..)?.find("--")?;
        at = dashes + 2;
        let length = text.get(at..)?.bytes().take_while(|byte| is_name(*byte)).count();
        let name = text.get(at..at + length)?;
        at += length;
        if !is_secret_field(name) {
            continue;
        }
        let Some(rest) = text.get(at..)?.strip_prefix(' ') else { continue };
        let quote = rest.chars().next().filter(|c| matches!(c, '"' | '\''));
        let start = at + 1 + quote.map_or(0, char::len_utf8);
        let value = text.get(start..)?;
        let value = match quote {
            Some(quote) => value.split(quote).next().unwrap_or_default(),
            None => credential(value).unwrap_or_default(),
        };
        if !value.starts_with(['-', '<', '[']) && value.len() >= 4 && is_secret_value(name, value) {
            return Some(SecretMatch { start, end: start + value.len(), with: Mask::Token });
        }
    }
}

fn is_parameter(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    PARAMETERS.contains(&name.as_str())
}

/// Returns where the value begins and ends, without its quotes.
fn value_after(text: &str, at: usize, kind: AssignmentKind) -> Option<(usize, usize)> {
    let rest = text.get(at..)?;
    let at = if kind == AssignmentKind::Spaced {
        at + rest.len() - rest.trim_start_matches(' ').len()
    } else {
        at
    };
    let rest = text.get(at..)?;
    // An escaped quote opens a value that an escaped quote closes.
    for quote in ["\"", "'", "\\\"", "\\'"] {
        let Some(inner) = rest.strip_prefix(quote) else { continue };
        if let Some(length) = closing(inner, quote, QuoteSpan::One) {
            let start = at + quote.len();
            return Some((start, start + length));
        }
    }
    let mut end = rest.len();
    let mut chars = rest.char_indices().peekable();
    while let Some((index, c)) = chars.next() {
        let escape =
            c == '\\' && chars.peek().is_some_and(|(_, next)| matches!(next, 'n' | 'r' | 't' | '"' | '\''));
        let stops = c.is_whitespace()
            || matches!(c, '"' | '\'' | '`')
            || (kind == AssignmentKind::Parameter && matches!(c, '&' | '#' | '<' | '>'));
        if escape || (stops && index > 0) {
            end = index;
            break;
        }
        if c.is_whitespace() {
            return None;
        }
    }
    let value = without_closers(rest.get(..end)?);
    if is_one_of(value, &SCHEMES) && kind != AssignmentKind::Parameter {
        let word = rest.get(end..)?.strip_prefix(' ').and_then(credential);
        if let Some(word) = word {
            return Some((at + end + 1, at + end + 1 + word.len()));
        }
    }
    (!value.is_empty()).then_some((at, at + value.len()))
}

/// Returns the value without the punctuation of its context. A bracket that the value itself opened belongs to it.
fn without_closers(mut value: &str) -> &str {
    let closers = [(',', ','), (';', ';'), (')', '('), (']', '['), ('}', '{')];
    while let Some((shorter, _)) = closers
        .iter()
        .find_map(|(closer, opener)| Some((value.strip_suffix(*closer)?, opener)))
        .filter(|(shorter, opener)| !shorter.contains(**opener) || [',', ';'].contains(opener))
    {
        value = shorter;
    }
    value
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum QuoteSpan {
    One,
    Any,
}

/// Returns where the quote that was opened before `text` is closed. Stops at the first result, so that many opened
/// quotes in a long line do not each read to its end.
fn closing(text: &str, quote: &str, lines: QuoteSpan) -> Option<usize> {
    let quote = quote.as_bytes();
    let mut escaped = false;
    for (at, byte) in text.bytes().enumerate() {
        if lines == QuoteSpan::One && matches!(byte, b'\n' | b'\r') {
            return None;
        }
        let closes = match quote {
            [plain] => byte == *plain && !escaped,
            _ => text.as_bytes().get(at..).is_some_and(|rest| rest.starts_with(quote)),
        };
        if closes {
            return Some(at);
        }
        escaped = byte == b'\\' && !escaped;
    }
    None
}

/// Tells whether a value under a secret name must be hidden: masked values, references to variables and settings
/// need not.
fn is_secret_value(name: &str, value: &str) -> bool {
    if value.is_empty() || is_masked(value) {
        return false;
    }
    if is_reference(value) {
        return false;
    }
    let upper = name.to_ascii_uppercase();
    let counts_tokens = upper.contains("TOKENS") || upper.contains("TOKENIZ");
    let setting = value.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.')
        || ["true", "false", "none", "null"].contains(&value.to_ascii_lowercase().as_str());
    !(counts_tokens && setting)
}

/// Detects `$NAME` or `${NAME}`, which reveals nothing.
fn is_reference(value: &str) -> bool {
    let name = value.strip_prefix("${").and_then(|rest| rest.strip_suffix('}')).or(value.strip_prefix('$'));
    name.is_some_and(|name| {
        !name.is_empty()
            && name.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_')
    })
}

/// Finds `"api_key": "value"`, with either quote, escaped or not.
pub(super) fn field(text: &str, from: usize) -> Option<SecretMatch> {
    let mut at = from;
    loop {
        let colon = at + text.get(at..)?.find(':')?;
        at = colon + 1;
        let before = text.get(from..colon)?.trim_end_matches([' ', '\t']);
        let Some(quote) = ["\\\"", "\\'", "\"", "'"].into_iter().find(|quote| before.ends_with(quote)) else {
            continue;
        };
        let inner = before.strip_suffix(quote)?;
        let length = inner.bytes().rev().take(64).take_while(|byte| is_name(*byte)).count();
        let name = inner.get(inner.len() - length..)?.to_ascii_lowercase();
        if !is_secret_field(&name) {
            continue;
        }
        let rest = text.get(at..)?;
        let start = at + rest.len() - rest.trim_start().len();
        let Some(value) = text.get(start..)?.strip_prefix(quote) else { continue };
        let start = start + quote.len();
        let Some(length) = closing(value, quote, QuoteSpan::Any) else { continue };
        let value = value.get(..length)?;
        if is_secret_value(&name, value) {
            return Some(SecretMatch { start, end: start + length, with: Mask::Token });
        }
        at = start + length;
    }
}

/// Finds `Authorization: Bearer value` and similar headers, and a bearer token by itself.
pub(super) fn header(text: &str, from: usize) -> Option<SecretMatch> {
    let bytes = text.as_bytes();
    let mut at = from;
    while at < bytes.len() {
        if !is_header(bytes[at]) {
            at += 1;
            continue;
        }
        let end = at + bytes.get(at..)?.iter().take_while(|byte| is_header(**byte)).count();
        let word = text.get(at..end)?;
        let hit = if is_one_of(word, &HEADERS) {
            header_value(text, end)
        } else if word.eq_ignore_ascii_case("bearer") {
            bearer_value(text, end)
        } else {
            None
        };
        if hit.is_some() {
            return hit;
        }
        at = end;
    }
    None
}

fn is_header(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_')
}

fn is_one_of(word: &str, words: &[&str]) -> bool {
    words.iter().any(|candidate| word.eq_ignore_ascii_case(candidate))
}

/// Finds the credential after a header's name and colon, without the scheme.
fn header_value(text: &str, end: usize) -> Option<SecretMatch> {
    let rest = text.get(end..)?;
    let value = rest.trim_start_matches(['"', '\'', '\\', ' ', '\t']).strip_prefix([':', '='])?;
    let value = value.trim_start_matches(['"', '\'', '\\', ' ', '\t']);
    let (mut start, mut word) = (end + rest.len() - value.len(), credential(value)?);
    if is_one_of(word, &SCHEMES) {
        let after = value.get(word.len()..)?;
        let next = after.trim_start_matches([' ', '\t']);
        start += word.len() + after.len() - next.len();
        word = credential(next)?;
    } else if word.len() < 8 && !word.bytes().any(|byte| byte.is_ascii_digit()) {
        // A type or a word of prose: `authorization: str`.
        return None;
    }
    (!is_masked(word) && !is_reference(word)).then_some(SecretMatch {
        start,
        end: start + word.len(),
        with: Mask::Token,
    })
}

fn credential(text: &str) -> Option<&str> {
    let stops = |c: char| {
        c.is_whitespace() || matches!(c, '"' | '\'' | '\\' | '`' | ',' | ';' | '<' | '>' | ')' | '}')
    };
    text.split(stops).next().filter(|word| !word.is_empty())
}

/// Finds a token after the word alone; in prose about bearers the next word has no digits and is shorter.
fn bearer_value(text: &str, end: usize) -> Option<SecretMatch> {
    let rest = text.get(end..)?;
    let value = rest.strip_prefix([' ', '\t'])?.trim_start_matches([' ', '\t']);
    let word = credential(value)?;
    let start = end + rest.len() - value.len();
    let looks_secret =
        word.len() >= 24 || (word.len() >= 8 && word.bytes().any(|byte| byte.is_ascii_digit()));
    (looks_secret && !is_masked(word)).then_some(SecretMatch {
        start,
        end: start + word.len(),
        with: Mask::Token,
    })
}
