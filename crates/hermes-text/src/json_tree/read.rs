//! Reads JSON text.

use thiserror::Error;

use super::{JsonTree, number};

/// The deepest nesting that is read.
const MAX_DEPTH: usize = 200;

/// A text that is not JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("not JSON at byte {at}: {reason}")]
pub struct JsonTreeError {
    pub at: usize,
    pub reason: &'static str,
}

pub(super) fn parse(text: &str) -> Result<JsonTree, JsonTreeError> {
    let mut reader = Reader { text, at: 0 };
    reader.skip_blanks();
    let value = reader.value(0)?;
    reader.skip_blanks();
    if reader.at == text.len() { Ok(value) } else { Err(reader.error("something follows the value")) }
}

pub(super) fn parse_prefix(text: &str) -> Result<(JsonTree, usize), JsonTreeError> {
    let mut reader = Reader { text, at: 0 };
    let value = reader.value(0)?;
    Ok((value, reader.at))
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Reader<'a> {
    fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn error(&self, reason: &'static str) -> JsonTreeError {
        JsonTreeError { at: self.at, reason }
    }

    fn skip_blanks(&mut self) {
        let rest = self.rest();
        self.at += rest.len() - rest.trim_start_matches([' ', '\t', '\n', '\r']).len();
    }

    fn take(&mut self, word: &str) -> bool {
        let found = self.rest().starts_with(word);
        if found {
            self.at += word.len();
        }
        found
    }

    fn value(&mut self, depth: usize) -> Result<JsonTree, JsonTreeError> {
        if depth > MAX_DEPTH {
            return Err(self.error("nested too deeply"));
        }
        match self.rest().bytes().next() {
            Some(b'{') => self.object(depth),
            Some(b'[') => self.array(depth),
            Some(b'"') => self.string().map(JsonTree::String),
            Some(b'-' | b'0'..=b'9') => self.number(),
            _ if self.take("null") => Ok(JsonTree::Null),
            _ if self.take("true") => Ok(JsonTree::Bool(true)),
            _ if self.take("false") => Ok(JsonTree::Bool(false)),
            _ => Err(self.error("a value was expected")),
        }
    }

    fn array(&mut self, depth: usize) -> Result<JsonTree, JsonTreeError> {
        self.at += 1;
        let mut items = Vec::new();
        self.skip_blanks();
        if self.take("]") {
            return Ok(JsonTree::Array(items));
        }
        loop {
            self.skip_blanks();
            items.push(self.value(depth + 1)?);
            self.skip_blanks();
            if self.take("]") {
                return Ok(JsonTree::Array(items));
            }
            if !self.take(",") {
                return Err(self.error("`,` or `]` was expected"));
            }
        }
    }

    fn object(&mut self, depth: usize) -> Result<JsonTree, JsonTreeError> {
        self.at += 1;
        let mut members: Vec<(String, JsonTree)> = Vec::new();
        let mut places = std::collections::HashMap::new();
        self.skip_blanks();
        if self.take("}") {
            return Ok(JsonTree::Object(members));
        }
        loop {
            self.skip_blanks();
            if !self.rest().starts_with('"') {
                return Err(self.error("a name was expected"));
            }
            let name = self.string()?;
            self.skip_blanks();
            if !self.take(":") {
                return Err(self.error("`:` was expected"));
            }
            self.skip_blanks();
            let value = self.value(depth + 1)?;
            let place = *places.entry(name.clone()).or_insert(members.len());
            match members.get_mut(place) {
                Some((_, slot)) => *slot = value,
                None => members.push((name, value)),
            }
            self.skip_blanks();
            if self.take("}") {
                return Ok(JsonTree::Object(members));
            }
            if !self.take(",") {
                return Err(self.error("`,` or `}` was expected"));
            }
        }
    }

    fn number(&mut self) -> Result<JsonTree, JsonTreeError> {
        let bytes = self.rest().as_bytes();
        let digits_from = |at: usize| bytes.iter().skip(at).take_while(|byte| byte.is_ascii_digit()).count();
        let mut end = usize::from(bytes.first() == Some(&b'-'));
        let whole = if bytes.get(end) == Some(&b'0') { 1 } else { digits_from(end) };
        if whole == 0 {
            return Err(self.error("digits were expected"));
        }
        end += whole;
        if bytes.get(end) == Some(&b'.') && digits_from(end + 1) > 0 {
            end += 1 + digits_from(end + 1);
        }
        if matches!(bytes.get(end), Some(b'e' | b'E')) {
            let sign = usize::from(matches!(bytes.get(end + 1), Some(b'+' | b'-')));
            let digits = digits_from(end + 1 + sign);
            if digits > 0 {
                end += 1 + sign + digits;
            }
        }
        let digits = self.rest().get(..end).unwrap_or_default();
        let text = number::canonical(digits).ok_or_else(|| self.error("the number is too large"))?;
        self.at += end;
        Ok(JsonTree::Number(text))
    }

    fn string(&mut self) -> Result<String, JsonTreeError> {
        self.at += 1;
        let mut out = String::new();
        loop {
            let rest = self.rest();
            let Some(plain) = rest.find(|c: char| c < ' ' || matches!(c, '"' | '\\')) else {
                return Err(self.error("the string does not end"));
            };
            out.push_str(rest.get(..plain).unwrap_or_default());
            self.at += plain;
            if self.take("\"") {
                return Ok(out);
            }
            if !self.take("\\") {
                return Err(self.error("a control character in a string"));
            }
            let Some(escaped) = self.rest().chars().next() else {
                return Err(self.error("the string does not end"));
            };
            let literal = match escaped {
                '"' | '\\' | '/' => escaped,
                'b' => '\u{8}',
                'f' => '\u{c}',
                'n' => '\n',
                'r' => '\r',
                't' => '\t',
                'u' => {
                    self.at += 1;
                    out.push(self.escaped_unit()?);
                    continue;
                }
                _ => return Err(self.error("an unknown escape")),
            };
            out.push(literal);
            self.at += 1;
        }
    }

    /// Reads the four digits after `\u`, and those of the second half of a pair. Half of a pair becomes U+FFFD.
    fn escaped_unit(&mut self) -> Result<char, JsonTreeError> {
        let first = self.four_digits()?;
        if (0xd800..0xdc00).contains(&first) && self.rest().starts_with("\\u") {
            let before = self.at;
            self.at += 2;
            let second = self.four_digits()?;
            if (0xdc00..0xe000).contains(&second) {
                let code = 0x1_0000 + ((first - 0xd800) << 10) + (second - 0xdc00);
                return Ok(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER));
            }
            self.at = before;
        }
        Ok(char::from_u32(first).unwrap_or(char::REPLACEMENT_CHARACTER))
    }

    fn four_digits(&mut self) -> Result<u32, JsonTreeError> {
        let digits =
            self.rest().get(..4).filter(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()));
        let code = digits.and_then(|digits| u32::from_str_radix(digits, 16).ok());
        let code = code.ok_or_else(|| self.error("four hexadecimal digits were expected"))?;
        self.at += 4;
        Ok(code)
    }
}
