//! Secrets recognised by their format: bot tokens, private keys, passwords in URLs, telephone numbers.

use super::mask::{Mask, SecretMatch, is_masked};

const BEGIN: &str = "-----BEGIN ";
const END: &str = "-----END ";
const LABEL: &str = "PRIVATE KEY";
const DASHES: &str = "-----";

/// The longest URL that is searched for a password; the bound keeps the scan linear.
const LONGEST_URL: usize = 512;

/// URL schemes whose passwords are found even where a slash in them makes the URL invalid.
const DATABASES: [&str; 9] =
    ["postgres", "postgresql", "mysql", "mongodb", "mongodb+srv", "redis", "rediss", "amqp", "amqps"];

/// Finds a PEM private key, from its first line to its last. A truncated one ends with its last line of key
/// material.
pub(super) fn private_key(text: &str, from: usize) -> Option<SecretMatch> {
    let mut at = from;
    loop {
        let start = at + text.get(at..)?.find(BEGIN)?;
        at = start + BEGIN.len();
        let head = first_line(text.get(at..)?, 80);
        let Some(length) = label_length(head) else { continue };
        let body = at + length;
        let end = key_end(text.get(body..)?).map(|length| body + length);
        if let Some(end) = end {
            return Some(SecretMatch { start, end, with: Mask::Words("[REDACTED PRIVATE KEY]") });
        }
        at = body;
    }
}

/// Returns the length of the rest of a marker line, if it is about a private key.
fn label_length(text: &str) -> Option<usize> {
    let label = text.find(LABEL)?;
    Some(label + text.get(label..)?.find(DASHES)? + DASHES.len())
}

/// Returns the length of the material after the first line, or `None` when there is none, as in prose about keys.
fn key_end(body: &str) -> Option<usize> {
    let material = |c: char| {
        c.is_ascii_alphanumeric()
            || matches!(c, '+' | '/' | '=' | '\\' | ':' | ',' | '-' | ' ' | '\n' | '\r' | '\t')
    };
    // Only up to the next key, so that many first lines do not each read to the end.
    let body = body.split(BEGIN).next()?;
    let stretch = body.split(|c| !material(c)).next()?;
    if let Some(end) = stretch.find(END) {
        let end = end + END.len();
        return label_length(stretch.get(end..)?).map(|length| end + length);
    }
    let last = stretch.trim_end().len();
    let longest = stretch.split(['\n', '\r', '\\', ' ']).map(str::len).max().unwrap_or(0);
    (longest >= 16).then_some(last)
}

fn first_line(text: &str, most: usize) -> &str {
    let end = text.char_indices().take(most).find(|(_, c)| matches!(c, '\n' | '\r'));
    match end.or_else(|| text.char_indices().nth(most)) {
        Some((end, _)) => text.get(..end).unwrap_or_default(),
        None => text,
    }
}

/// Finds `12345678:secret`, with or without `bot` before it; the number is public and stays.
pub(super) fn bot_token(text: &str, from: usize) -> Option<SecretMatch> {
    let bytes = text.as_bytes();
    let mut at = from;
    loop {
        let colon = at + text.get(at..)?.find(':')?;
        at = colon + 1;
        let digits =
            bytes.get(from..colon)?.iter().rev().take_while(|byte| byte.is_ascii_digit()).take(8).count();
        let rest = bytes.get(at..)?;
        let length = rest
            .iter()
            .take_while(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'))
            .count();
        if digits == 8 && length >= 30 {
            return Some(SecretMatch { start: at, end: at + length, with: Mask::Stars });
        }
    }
}

/// Finds the password in `scheme://user:password@host`, and a user name that is long enough to be a token itself.
pub(super) fn url_password(text: &str, from: usize) -> Option<SecretMatch> {
    let mut at = from;
    loop {
        let sign = at + text.get(at..)?.find("://")?;
        let start = sign + 3;
        at = start;
        let rest = text.get(start..)?;
        let authority = until(rest, |c| ends_url(c) || matches!(c, '/' | '?' | '#' | '\\'));
        let user_info = match authority.rfind('@') {
            Some(end) => authority.get(..end)?,
            None if is_database(text.get(from..sign)?) => match broken_user_info(rest) {
                Some(user_info) => user_info,
                None => continue,
            },
            None => continue,
        };
        let (offset, secret) = match user_info.split_once(':') {
            Some((user, password)) => (user.len() + 1, password),
            None if user_info.len() >= 20 => (0, user_info),
            None => continue,
        };
        if !secret.is_empty() && !is_masked(secret) {
            let start = start + offset;
            return Some(SecretMatch { start, end: start + secret.len(), with: Mask::Stars });
        }
    }
}

/// URLs that let anyone who knows them write, with the number of parts before the secret one.
const WEBHOOKS: [(&str, usize); 6] = [
    ("hooks.slack.com/services/", 2),
    ("hooks.slack.com/workflows/", 3),
    ("discord.com/api/webhooks/", 1),
    ("discordapp.com/api/webhooks/", 1),
    ("api.telegram.org/bot", 0),
    ("hooks.zapier.com/hooks/catch/", 1),
];

/// Finds the secret last part of a webhook URL.
pub(super) fn webhook(text: &str, from: usize) -> Option<SecretMatch> {
    let found = WEBHOOKS.iter().filter_map(|(address, parts)| {
        let start = from + text.get(from..)?.find(address)? + address.len();
        let path = until(text.get(start..)?, |c| ends_url(c) || matches!(c, '?' | '#' | ')' | ',' | '\\'));
        let secret = path.splitn(parts + 1, '/').nth(*parts)?;
        let secret = if *parts == 0 { secret.split('/').next()? } else { secret.trim_end_matches('/') };
        let offset = path.find(secret)?;
        let start = start + offset;
        (secret.len() >= 8 && !is_masked(secret) && !secret.ends_with("***")).then_some(SecretMatch {
            start,
            end: start + secret.len(),
            with: Mask::Stars,
        })
    });
    found.min_by_key(|hit| hit.start)
}

fn ends_url(c: char) -> bool {
    c.is_whitespace() || matches!(c, '"' | '\'' | '`' | '<' | '>')
}

/// Returns everything before the first `@`, slashes included.
fn broken_user_info(rest: &str) -> Option<&str> {
    let at = rest.char_indices().take(LONGEST_URL).find(|(_, c)| ends_url(*c) || *c == '@')?;
    (at.1 == '@').then(|| rest.get(..at.0))?
}

fn is_database(before: &str) -> bool {
    let length = before
        .bytes()
        .rev()
        .take(16)
        .take_while(|byte| byte.is_ascii_alphanumeric() || *byte == b'+')
        .count();
    let scheme = before.get(before.len() - length..).unwrap_or_default().to_ascii_lowercase();
    DATABASES.contains(&scheme.as_str())
}

fn until(text: &str, stops: impl Fn(char) -> bool) -> &str {
    text.split(stops).next().unwrap_or_default()
}

/// Finds `+` and seven to fifteen digits (E.164), as a separate word.
pub(super) fn phone_number(text: &str, from: usize) -> Option<SecretMatch> {
    let bytes = text.as_bytes();
    let mut at = from;
    loop {
        let plus = at + text.get(at..)?.find('+')?;
        at = plus + 1;
        let digits = bytes.get(at..)?.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let end = at + digits;
        let before = plus.checked_sub(1).and_then(|at| bytes.get(at));
        let stands_alone = !before.is_some_and(u8::is_ascii_alphanumeric)
            && !text.get(end..)?.chars().next().is_some_and(char::is_alphanumeric);
        if (7..=15).contains(&digits) && bytes.get(at) != Some(&b'0') && stands_alone {
            return Some(SecretMatch { start: plus, end, with: Mask::Phone });
        }
        at = end;
    }
}
