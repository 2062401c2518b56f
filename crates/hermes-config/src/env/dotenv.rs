//! The `.env` format: one `NAME=value` per line, read leniently and edited line by line.

use std::path::Path;

use crate::lock::{FileLock, LockTimeout};
use crate::{Error, Home, ManagedMode, Result, write};

/// The encoding in which a file's bytes were read, so that they can be written the same way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TextEncoding {
    Utf8,
    Latin1,
}

/// Decodes UTF-8 with or without a byte-order mark; bytes that are not UTF-8 are read as Latin-1, which cannot
/// fail.
pub fn decode(bytes: &[u8]) -> (String, TextEncoding) {
    match std::str::from_utf8(bytes) {
        Ok(text) => (text.to_owned(), TextEncoding::Utf8),
        Err(_) => (bytes.iter().map(|byte| char::from(*byte)).collect(), TextEncoding::Latin1),
    }
}

/// Encodes a text; text that no longer fits Latin-1 becomes UTF-8.
pub fn encode(text: &str, encoding: TextEncoding) -> Vec<u8> {
    let latin1 = || text.chars().map(|c| u8::try_from(u32::from(c)).ok()).collect::<Option<Vec<u8>>>();
    match encoding {
        TextEncoding::Latin1 => latin1().unwrap_or_else(|| text.as_bytes().to_vec()),
        TextEncoding::Utf8 => text.as_bytes().to_vec(),
    }
}

/// Returns every assignment in order; of equal names the last counts.
pub fn parse(text: &str) -> Vec<(String, String)> {
    lines(text).filter_map(parse_line).map(|(name, value)| (name.to_owned(), value)).collect()
}

/// Returns the numbers of lines that are neither blank, nor a comment, nor an assignment: they have no effect.
pub fn ignored_lines(text: &str) -> Vec<usize> {
    let counts = |line: &str| {
        line.trim().is_empty() || line.trim_start().starts_with('#') || split_line(line).is_some()
    };
    lines(text).enumerate().filter(|(_, line)| !counts(line)).map(|(at, _)| at + 1).collect()
}

fn lines(text: &str) -> impl Iterator<Item = &str> {
    text.trim_start_matches('\u{feff}').lines()
}

/// Returns the name and value of one line; `None` for comments, blank lines and lines without an assignment.
pub(super) fn parse_line(line: &str) -> Option<(&str, String)> {
    let (name, raw) = split_line(line)?;
    Some((name, read_value(raw)))
}

/// Returns the name and the unprocessed text after the equals sign.
pub(super) fn split_line(line: &str) -> Option<(&str, &str)> {
    let line = line.trim_start_matches('\u{feff}').trim_start();
    let line = line
        .strip_prefix("export")
        .filter(|rest| rest.starts_with([' ', '\t']))
        .map_or(line, str::trim_start);
    let (name, raw) = line.split_once('=')?;
    let name = name.trim_end();
    is_name(name).then_some((name, raw))
}

pub fn is_name(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

fn read_value(raw: &str) -> String {
    let raw = raw.trim();
    for quote in ['"', '\''] {
        if let Some(value) = raw.strip_prefix(quote).and_then(|rest| read_quoted(rest, quote)) {
            return value;
        }
    }
    let mut before = None;
    let comment = raw.char_indices().find(|(_, c)| {
        let starts = *c == '#' && before.is_some_and(char::is_whitespace);
        before = Some(*c);
        starts
    });
    let end = comment.map_or(raw.len(), |(at, _)| at);
    raw.get(..end).unwrap_or(raw).trim_end().to_owned()
}

/// Returns the text up to the closing quote, when only spaces or a comment follow it.
fn read_quoted(rest: &str, quote: char) -> Option<String> {
    let mut value = String::new();
    let mut chars = rest.chars();
    loop {
        match chars.next()? {
            c if c == quote => break,
            '\\' => {
                let next = chars.next()?;
                match (next, quote) {
                    ('n', '"') => value.push('\n'),
                    ('r', '"') => value.push('\r'),
                    ('t', '"') => value.push('\t'),
                    ('"', '"') | ('\'' | '\\', _) => value.push(next),
                    _ => value.extend(['\\', next]),
                }
            }
            c => value.push(c),
        }
    }
    let tail = chars.as_str().trim_start();
    (tail.is_empty() || tail.starts_with('#')).then_some(value)
}

/// Returns a spelling of a value that is read back as the same value; line breaks are dropped, because one
/// assignment is one line.
fn write_value(value: &str) -> String {
    let value: String = value.chars().filter(|c| !matches!(c, '\n' | '\r' | '\0')).collect();
    if read_value(&value) == value {
        return value;
    }
    let single = format!("'{}'", value.replace('\\', "\\\\").replace('\'', "\\'"));
    if !value.contains(['\\', '\'']) && read_value(&single) == value {
        return single;
    }
    format!("\"{}\"", value.replace('\\', "\\\\").replace('"', "\\\""))
}

/// Returns the text with `name` set. The first line for the name is replaced in place and later ones are removed,
/// since the last would take precedence over the new one; if there is none, a line is appended. All other lines
/// are unchanged.
pub fn set(text: &str, name: &str, value: &str) -> Result<String> {
    if !is_name(name) {
        return Err(Error::InvalidName { name: name.to_owned() });
    }
    let mut out = String::with_capacity(text.len() + name.len() + value.len() + 2);
    let mut done = false;
    for line in text.split_inclusive('\n') {
        let body = line.trim_end_matches(['\n', '\r']);
        if split_line(body).is_none_or(|(found, _)| found != name) {
            out.push_str(line);
        } else if !done {
            // Indentation, a byte-order mark or `export` in front of the name are kept.
            let before = body.split_once('=').map_or("", |(before, _)| before.trim_end());
            let lead = before.strip_suffix(name).unwrap_or_default();
            let ending = line.strip_prefix(body).unwrap_or_default();
            out.extend([lead, name, "=", &write_value(value), ending]);
            done = true;
        }
    }
    if !done {
        let ending = if text.contains("\r\n") { "\r\n" } else { "\n" };
        if !out.is_empty() && !out.ends_with('\n') && out != "\u{feff}" {
            out.push_str(ending);
        }
        out.extend([name, "=", &write_value(value), ending]);
    }
    Ok(out)
}

/// Writes variables to the home's `.env` under the lock, with one read and one write.
pub fn save(home: &Home, management: ManagedMode, changes: &[(&str, &str)]) -> Result<()> {
    management.check_allowed("save environment variables")?;
    if let Some((name, _)) = changes.iter().find(|(name, _)| !is_name(name)) {
        return Err(Error::InvalidName { name: (*name).to_owned() });
    }
    home.ensure()?;
    edit(home, |text| changes.iter().try_fold(text.to_owned(), |text, (name, value)| set(&text, name, value)))
}

/// Reads, changes and writes the file under the lock; an unchanged text is not written.
pub(crate) fn edit(home: &Home, change: impl FnOnce(&str) -> Result<String>) -> Result<()> {
    let path = home.dotenv();
    let _lock = FileLock::acquire(&home.config_lock(), LockTimeout::SETTINGS)?;
    let (text, encoding) = read(&path)?;
    let next = change(&text)?;
    if next == text && path.exists() {
        return Ok(());
    }
    write::replace(&path, &encode(&next, encoding))
}

pub(crate) fn read(path: &Path) -> Result<(String, TextEncoding)> {
    Ok(write::read_optional(path)?.map_or((String::new(), TextEncoding::Utf8), |bytes| decode(&bytes)))
}
