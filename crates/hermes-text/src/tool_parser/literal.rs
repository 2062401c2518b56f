//! Values that are typed by how they look: as JSON, else as a literal of Python, else as a text.

use crate::JsonTree;

/// The deepest nesting that is read.
const MAX_DEPTH: usize = 100;

/// Why a text is not read as a literal.
enum LiteralError {
    /// It is none.
    NotALiteral,
    /// It is one that JSON has no form for: a set, bytes, a complex number.
    NoJsonForm,
}

type LiteralResult<T> = Result<T, LiteralError>;

/// Types a value. `None` for a literal that has no JSON form.
pub(super) fn typed_value(text: &str) -> Option<JsonTree> {
    if let Ok(value) = JsonTree::parse(text) {
        return Some(value);
    }
    let mut reader = LiteralReader { text, at: 0 };
    let value = reader.expression(0).and_then(|value| {
        reader.skip_blanks();
        if reader.at == text.len() { Ok(value) } else { Err(LiteralError::NotALiteral) }
    });
    match value {
        Ok(value) => Some(value),
        Err(LiteralError::NotALiteral) => Some(JsonTree::text(text)),
        Err(LiteralError::NoJsonForm) => None,
    }
}

struct LiteralReader<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> LiteralReader<'a> {
    fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn skip_blanks(&mut self) {
        let rest = self.rest();
        self.at += rest.len() - rest.trim_start().len();
    }

    fn take(&mut self, word: &str) -> bool {
        let found = self.rest().starts_with(word);
        if found {
            self.at += word.len();
        }
        found
    }

    /// Reads a value, or several with commas, which are a tuple.
    fn expression(&mut self, depth: usize) -> LiteralResult<JsonTree> {
        let first = self.value(depth)?;
        self.skip_blanks();
        if !self.rest().starts_with(',') {
            return Ok(first);
        }
        let mut items = vec![first];
        while self.take(",") {
            self.skip_blanks();
            if self.rest().is_empty() || self.rest().starts_with(')') {
                break;
            }
            items.push(self.value(depth)?);
            self.skip_blanks();
        }
        Ok(JsonTree::Array(items))
    }

    fn value(&mut self, depth: usize) -> LiteralResult<JsonTree> {
        if depth > MAX_DEPTH {
            return Err(LiteralError::NotALiteral);
        }
        self.skip_blanks();
        match self.rest().chars().next().ok_or(LiteralError::NotALiteral)? {
            '[' => self.list(depth),
            '(' => self.tuple(depth),
            '{' => self.braces(depth),
            '0'..='9' | '.' | '+' | '-' => self.number(),
            _ => self.word(),
        }
    }

    fn list(&mut self, depth: usize) -> LiteralResult<JsonTree> {
        self.at += 1;
        let mut items = Vec::new();
        loop {
            self.skip_blanks();
            if self.take("]") {
                return Ok(JsonTree::Array(items));
            }
            items.push(self.value(depth + 1)?);
            self.skip_blanks();
            if !self.take(",") && !self.rest().starts_with(']') {
                return Err(LiteralError::NotALiteral);
            }
        }
    }

    fn tuple(&mut self, depth: usize) -> LiteralResult<JsonTree> {
        self.at += 1;
        self.skip_blanks();
        if self.take(")") {
            return Ok(JsonTree::Array(Vec::new()));
        }
        let value = self.expression(depth + 1)?;
        self.skip_blanks();
        if self.take(")") { Ok(value) } else { Err(LiteralError::NotALiteral) }
    }

    /// Reads a dictionary, or finds that it is a set.
    fn braces(&mut self, depth: usize) -> LiteralResult<JsonTree> {
        self.at += 1;
        let mut object = JsonTree::object([]);
        let mut is_set = false;
        loop {
            self.skip_blanks();
            if self.take("}") {
                return if is_set { Err(LiteralError::NoJsonForm) } else { Ok(object) };
            }
            let key = self.value(depth + 1)?;
            self.skip_blanks();
            if self.take(":") {
                let value = self.value(depth + 1)?;
                object.set(&key_text(key)?, value);
            } else {
                is_set = true;
            }
            self.skip_blanks();
            if !self.take(",") && !self.rest().starts_with('}') {
                return Err(LiteralError::NotALiteral);
            }
        }
    }

    fn number(&mut self) -> LiteralResult<JsonTree> {
        let mut negative = false;
        while let Some(sign) = self.rest().chars().next().filter(|c| matches!(c, '+' | '-')) {
            negative ^= sign == '-';
            self.at += 1;
            self.skip_blanks();
        }
        let rest = self.rest();
        let is_part = |(at, c): (usize, char)| {
            c.is_ascii_alphanumeric()
                || matches!(c, '_' | '.')
                || matches!(c, '+' | '-')
                    && rest.get(..at).is_some_and(|head| {
                        head.ends_with(['e', 'E']) && !head.starts_with("0x") && !head.starts_with("0X")
                    })
        };
        let length = rest.char_indices().find(|part| !is_part(*part)).map_or(rest.len(), |(at, _)| at);
        let written = rest.get(..length).unwrap_or_default();
        let value = number_text(written, negative)?;
        self.at += length;
        Ok(JsonTree::Number(value))
    }

    fn word(&mut self) -> LiteralResult<JsonTree> {
        for (word, value) in
            [("True", JsonTree::Bool(true)), ("False", JsonTree::Bool(false)), ("None", JsonTree::Null)]
        {
            let is_whole = |rest: &str| !rest.starts_with(|c: char| c.is_alphanumeric() || c == '_');
            if self.rest().strip_prefix(word).is_some_and(is_whole) {
                self.at += word.len();
                return Ok(value);
            }
        }
        if self.rest().starts_with("set()") {
            return Err(LiteralError::NoJsonForm);
        }
        self.string()
    }

    fn string(&mut self) -> LiteralResult<JsonTree> {
        let prefix: String = self.rest().chars().take_while(char::is_ascii_alphabetic).collect::<String>();
        let after = self.rest().get(prefix.len()..).unwrap_or_default();
        if !after.starts_with(['\'', '"']) {
            return Err(LiteralError::NotALiteral);
        }
        let is_raw = match prefix.to_ascii_lowercase().as_str() {
            "" | "u" => false,
            "r" => true,
            "b" | "br" | "rb" => return Err(LiteralError::NoJsonForm),
            _ => return Err(LiteralError::NotALiteral),
        };
        self.at += prefix.len();
        let quote = match () {
            () if self.take("'''") => "'''",
            () if self.take("\"\"\"") => "\"\"\"",
            () if self.take("'") => "'",
            () => {
                self.at += 1;
                "\""
            }
        };
        let mut out = String::new();
        loop {
            if self.take(quote) {
                return Ok(JsonTree::String(out));
            }
            let Some(next) = self.rest().chars().next() else { return Err(LiteralError::NotALiteral) };
            if next == '\n' && quote.len() == 1 {
                return Err(LiteralError::NotALiteral);
            }
            self.at += next.len_utf8();
            if next != '\\' {
                out.push(next);
                continue;
            }
            let Some(escaped) = self.rest().chars().next() else { return Err(LiteralError::NotALiteral) };
            if is_raw {
                out.push('\\');
                out.push(escaped);
                self.at += escaped.len_utf8();
            } else {
                self.escape(escaped, &mut out)?;
            }
        }
    }

    fn escape(&mut self, escaped: char, out: &mut String) -> LiteralResult<()> {
        self.at += escaped.len_utf8();
        let digits = match escaped {
            '\n' => return Ok(()),
            '\\' | '\'' | '"' => {
                out.push(escaped);
                return Ok(());
            }
            'a' => '\u{7}',
            'b' => '\u{8}',
            'f' => '\u{c}',
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'v' => '\u{b}',
            'x' => return self.code(2, out),
            'u' => return self.code(4, out),
            'U' => return self.code(8, out),
            other => {
                out.push('\\');
                out.push(other);
                return Ok(());
            }
        };
        out.push(digits);
        Ok(())
    }

    fn code(&mut self, digits: usize, out: &mut String) -> LiteralResult<()> {
        let text = self.rest().get(..digits).ok_or(LiteralError::NotALiteral)?;
        let code = u32::from_str_radix(text, 16).map_err(|_| LiteralError::NotALiteral)?;
        out.push(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER));
        self.at += digits;
        Ok(())
    }
}

/// Returns the name of a member whose key this is.
fn key_text(key: JsonTree) -> LiteralResult<String> {
    match key {
        JsonTree::String(text) => Ok(text),
        JsonTree::Array(_) | JsonTree::Object(_) => Err(LiteralError::NoJsonForm),
        other => Ok(other.to_string()),
    }
}

/// Returns the canonical text of a number as Python writes it.
fn number_text(written: &str, negative: bool) -> LiteralResult<String> {
    let lower = written.to_ascii_lowercase();
    let well_separated = !lower.starts_with('_') && !lower.ends_with('_') && !lower.contains("__");
    if lower.is_empty() || !well_separated {
        return Err(LiteralError::NotALiteral);
    }
    let plain = lower.replace('_', "");
    let sign = if negative { "-" } else { "" };
    for (prefix, radix) in [("0x", 16), ("0o", 8), ("0b", 2)] {
        if let Some(digits) = plain.strip_prefix(prefix) {
            let value = u128::from_str_radix(digits, radix).map_err(|_| LiteralError::NotALiteral)?;
            return Ok(format!("{}{value}", if value == 0 { "" } else { sign }));
        }
    }
    if let Some(imaginary) = plain.strip_suffix('j') {
        let is_number = imaginary.parse::<f64>().is_ok();
        return Err(if is_number { LiteralError::NoJsonForm } else { LiteralError::NotALiteral });
    }
    if plain.bytes().all(|byte| byte.is_ascii_digit()) {
        let zeros = plain.bytes().all(|byte| byte == b'0');
        return match plain.as_str() {
            _ if zeros => Ok("0".to_owned()),
            digits if digits.starts_with('0') => Err(LiteralError::NotALiteral),
            digits => Ok(format!("{sign}{digits}")),
        };
    }
    let is_float =
        plain.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b'.' | b'e' | b'+' | b'-'));
    let value: f64 = plain.parse().map_err(|_| LiteralError::NotALiteral)?;
    match JsonTree::float(if negative { -value } else { value }) {
        JsonTree::Number(text) if is_float => Ok(text),
        _ => Err(LiteralError::NoJsonForm),
    }
}
