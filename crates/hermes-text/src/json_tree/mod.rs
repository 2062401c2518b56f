//! JSON whose text is data: read strictly, written with a space after each comma and colon.
//!
//! Training data and the calls of models that write raw text are compared and counted as text, so that order, spacing and numbers
//! matter. Holds no schema. Invariant: the order of members is kept, integers are exact however long they are, and what is
//! written is always valid JSON: a number that has no finite value is refused when it is read.

mod number;
mod read;
#[cfg(test)]
mod tests;

use std::fmt::{self, Write};

pub use read::JsonTreeError;

/// A JSON value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JsonTree {
    Null,
    Bool(bool),
    /// The number as it is written: integers digit by digit, others in their shortest form.
    Number(String),
    String(String),
    Array(Vec<JsonTree>),
    /// The members in order. No name occurs twice.
    Object(Vec<(String, JsonTree)>),
}

impl JsonTree {
    /// Reads one value. Of members with the same name the last value counts, at the place of the first.
    pub fn parse(text: &str) -> Result<Self, JsonTreeError> {
        read::parse(text)
    }

    /// Reads the value at the start of a text, and returns the number of bytes it takes. What follows is not looked at.
    pub fn parse_prefix(text: &str) -> Result<(Self, usize), JsonTreeError> {
        read::parse_prefix(text)
    }

    pub fn text(text: impl Into<String>) -> Self {
        Self::String(text.into())
    }

    /// Returns the number in its shortest form; one that is not finite becomes `null`.
    pub fn float(value: f64) -> Self {
        number::float_text(value).map_or(Self::Null, Self::Number)
    }

    /// Builds an object. The names must differ.
    pub fn object<const N: usize>(members: [(&str, Self); N]) -> Self {
        Self::Object(members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
    }

    /// Returns the member of an object.
    pub fn get(&self, name: &str) -> Option<&Self> {
        match self {
            Self::Object(members) => members.iter().find(|(key, _)| key == name).map(|(_, value)| value),
            _ => None,
        }
    }

    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::String(text) => Some(text),
            _ => None,
        }
    }

    pub fn as_array(&self) -> Option<&[Self]> {
        match self {
            Self::Array(items) => Some(items),
            _ => None,
        }
    }

    pub fn as_u64(&self) -> Option<u64> {
        match self {
            Self::Number(digits) => digits.parse().ok(),
            _ => None,
        }
    }

    pub fn as_f64(&self) -> Option<f64> {
        match self {
            Self::Number(digits) => digits.parse().ok(),
            _ => None,
        }
    }

    pub fn as_bool(&self) -> Option<bool> {
        match self {
            Self::Bool(value) => Some(*value),
            _ => None,
        }
    }

    pub fn is_null(&self) -> bool {
        *self == Self::Null
    }

    /// Sets a member of an object, in place if it is there. Does nothing to another value.
    pub fn set(&mut self, name: &str, value: Self) {
        let Self::Object(members) = self else { return };
        match members.iter_mut().find(|(key, _)| key == name) {
            Some((_, slot)) => *slot = value,
            None => members.push((name.to_owned(), value)),
        }
    }

    /// Returns the text over several lines, each level indented by two spaces.
    pub fn pretty(&self) -> String {
        let mut out = String::new();
        // Writing to a `String` cannot fail.
        let _ = write_pretty(&mut out, self, 0);
        out
    }
}

impl From<u64> for JsonTree {
    fn from(value: u64) -> Self {
        Self::Number(value.to_string())
    }
}

impl From<usize> for JsonTree {
    fn from(value: usize) -> Self {
        Self::Number(value.to_string())
    }
}

impl From<u32> for JsonTree {
    fn from(value: u32) -> Self {
        Self::Number(value.to_string())
    }
}

impl From<bool> for JsonTree {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}

impl From<&str> for JsonTree {
    fn from(text: &str) -> Self {
        Self::text(text)
    }
}

impl From<String> for JsonTree {
    fn from(text: String) -> Self {
        Self::String(text)
    }
}

impl<T: Into<Self>> From<Option<T>> for JsonTree {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

impl<T: Into<Self>> FromIterator<T> for JsonTree {
    fn from_iter<I: IntoIterator<Item = T>>(items: I) -> Self {
        Self::Array(items.into_iter().map(Into::into).collect())
    }
}

impl fmt::Display for JsonTree {
    /// Writes the value on one line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("null"),
            Self::Bool(true) => f.write_str("true"),
            Self::Bool(false) => f.write_str("false"),
            Self::Number(digits) => f.write_str(digits),
            Self::String(text) => write_string(f, text),
            Self::Array(items) => {
                f.write_char('[')?;
                for (at, item) in items.iter().enumerate() {
                    if at > 0 {
                        f.write_str(", ")?;
                    }
                    item.fmt(f)?;
                }
                f.write_char(']')
            }
            Self::Object(members) => {
                f.write_char('{')?;
                for (at, (name, value)) in members.iter().enumerate() {
                    if at > 0 {
                        f.write_str(", ")?;
                    }
                    write_string(f, name)?;
                    f.write_str(": ")?;
                    value.fmt(f)?;
                }
                f.write_char('}')
            }
        }
    }
}

fn write_pretty(out: &mut String, value: &JsonTree, level: usize) -> fmt::Result {
    let indent = |out: &mut String, level: usize| {
        out.push('\n');
        out.extend(std::iter::repeat_n("  ", level));
    };
    match value {
        JsonTree::Array(items) if !items.is_empty() => {
            out.push('[');
            for (at, item) in items.iter().enumerate() {
                if at > 0 {
                    out.push(',');
                }
                indent(out, level + 1);
                write_pretty(out, item, level + 1)?;
            }
            indent(out, level);
            out.push(']');
        }
        JsonTree::Object(members) if !members.is_empty() => {
            out.push('{');
            for (at, (name, item)) in members.iter().enumerate() {
                if at > 0 {
                    out.push(',');
                }
                indent(out, level + 1);
                write_string(out, name)?;
                out.push_str(": ");
                write_pretty(out, item, level + 1)?;
            }
            indent(out, level);
            out.push('}');
        }
        other => write!(out, "{other}")?,
    }
    Ok(())
}

/// Writes a string. Only what JSON requires is escaped.
fn write_string(out: &mut impl Write, text: &str) -> fmt::Result {
    out.write_char('"')?;
    let mut rest = text;
    while let Some(at) = rest.find(|c: char| c < ' ' || matches!(c, '"' | '\\')) {
        let (plain, special) = rest.split_at_checked(at).unwrap_or((rest, ""));
        out.write_str(plain)?;
        let mut characters = special.chars();
        match characters.next() {
            Some('"') => out.write_str("\\\"")?,
            Some('\\') => out.write_str("\\\\")?,
            Some('\n') => out.write_str("\\n")?,
            Some('\r') => out.write_str("\\r")?,
            Some('\t') => out.write_str("\\t")?,
            Some('\u{8}') => out.write_str("\\b")?,
            Some('\u{c}') => out.write_str("\\f")?,
            Some(control) => write!(out, "\\u{:04x}", u32::from(control))?,
            None => {}
        }
        rest = characters.as_str();
    }
    out.write_str(rest)?;
    out.write_char('"')
}
