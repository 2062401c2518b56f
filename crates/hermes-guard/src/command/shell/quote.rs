//! Quotes: `$'…'` and the escapes of `printf` and `echo`.

use super::cursor::Cursor;

/// Returns the text of `$'…'`, read up to its closing quote.
pub(super) fn ansi_c(rest: &mut Cursor<'_>) -> String {
    let mut text = String::new();
    let mut ended = false;
    while let Some(c) = rest.raw_next() {
        let start = text.len();
        match c {
            '\'' => break,
            '\\' => escape(rest, &mut text, ZeroEscape::Digit),
            c => text.push(c),
        }
        // In bash a NUL ends the text, and what follows up to the quote is dropped.
        ended |= text.get(start..).is_some_and(|new| new.contains('\0'));
        if ended {
            text.truncate(start);
        }
    }
    text
}

/// The meaning of `\0`: the first of three octal digits, or a prefix that up to three follow.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum ZeroEscape {
    Digit,
    Prefix,
}

/// Returns a text as `printf` and `echo -e` would write it.
pub(super) fn unescape(text: &str, zero: ZeroEscape) -> String {
    let mut rest = Cursor::new(text);
    let mut plain = String::with_capacity(text.len());
    while let Some(c) = rest.raw_next() {
        match c {
            '\\' if rest
                .raw_peek()
                .is_some_and(|c| matches!(c, 'n' | 't' | 'r' | 'x' | 'u' | 'U' | '0'..='7' | '\\')) =>
            {
                escape(&mut rest, &mut plain, zero);
            }
            c => plain.push(c),
        }
    }
    plain
}

/// The mask for numbers that are too large for a byte: the lower eight bits count.
const BYTE: u32 = 0xff;

fn escape(rest: &mut Cursor<'_>, text: &mut String, zero: ZeroEscape) {
    let Some(c) = rest.raw_next() else { return };
    let number = match c {
        'x' if rest.rest().starts_with('{') => {
            rest.raw_next();
            let number = digits(rest, 16, usize::MAX);
            rest.skip('}');
            // Braces without a digit mean the byte that ends the text.
            Some(number.unwrap_or(0) & BYTE)
        }
        'x' => digits(rest, 16, 2),
        'u' => digits(rest, 16, 4),
        'U' => digits(rest, 16, 8),
        '0' if zero == ZeroEscape::Prefix => Some(digits_with(rest, 8, 3, 0) & BYTE),
        '0'..='7' => {
            let first = c.to_digit(8).unwrap_or(0);
            Some(digits_with(rest, 8, 2, first) & BYTE)
        }
        _ => None,
    };
    let plain = match c {
        'c' => {
            // Where the text ends is decided before: a quote ends it, and a backslash protects what follows.
            if rest.raw_peek() == Some('\'') {
                return text.push_str("\\c");
            }
            let control = rest.raw_next();
            text.extend(control.map(|c| u32::from(c) & 0x1f).and_then(char::from_u32));
            let protected = rest.raw_peek().filter(|_| control == Some('\\'));
            text.extend(protected.filter(|c| *c != '\\'));
            if protected.is_some() {
                rest.raw_next();
            }
            return;
        }
        'n' => '\n',
        't' => '\t',
        'r' => '\r',
        'e' | 'E' => '\u{1b}',
        'a' => '\u{7}',
        'b' => '\u{8}',
        'f' => '\u{c}',
        'v' => '\u{b}',
        '\\' | '\'' | '"' | '?' => c,
        // An unknown escape stays as it is.
        other => {
            if number.is_none() {
                text.push('\\');
            }
            other
        }
    };
    text.push(number.and_then(char::from_u32).unwrap_or(plain));
}

fn digits(rest: &mut Cursor<'_>, base: u32, most: usize) -> Option<u32> {
    rest.raw_peek()?.to_digit(base)?;
    Some(digits_with(rest, base, most, 0))
}

fn digits_with(rest: &mut Cursor<'_>, base: u32, most: usize, first: u32) -> u32 {
    let mut number = first;
    for _ in 0..most {
        let Some(digit) = rest.raw_peek().and_then(|c| c.to_digit(base)) else { break };
        number = number.wrapping_mul(base).wrapping_add(digit);
        rest.raw_next();
    }
    number
}
