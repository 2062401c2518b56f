//! Quotes: `$'…'` and the characters a shell gives meaning to.

use std::iter::Peekable;
use std::str::Chars;

/// The text of `$'…'`, read up to its closing quote.
pub(super) fn ansi_c(rest: &mut Peekable<Chars<'_>>) -> String {
    let mut text = String::new();
    while let Some(c) = rest.next() {
        match c {
            '\'' => break,
            '\\' => escape(rest, &mut text),
            c => text.push(c),
        }
    }
    text
}

/// A text as `printf` and `echo -e` would write it.
pub(super) fn unescape(text: &str) -> String {
    let mut rest = text.chars().peekable();
    let mut plain = String::with_capacity(text.len());
    while let Some(c) = rest.next() {
        match c {
            '\\' if rest
                .peek()
                .is_some_and(|c| matches!(c, 'n' | 't' | 'r' | 'x' | 'u' | 'U' | '0'..='7' | '\\')) =>
            {
                escape(&mut rest, &mut plain);
            }
            c => plain.push(c),
        }
    }
    plain
}

fn escape(rest: &mut Peekable<Chars<'_>>, text: &mut String) {
    let Some(c) = rest.next() else { return };
    let number = match c {
        'x' => digits(rest, 16, 2),
        'u' => digits(rest, 16, 4),
        'U' => digits(rest, 16, 8),
        '0'..='7' => {
            let first = c.to_digit(8).unwrap_or(0);
            let more = digits_with(rest, 8, 2, first);
            Some(more)
        }
        _ => None,
    };
    let plain = match c {
        'n' => '\n',
        't' => '\t',
        'r' => '\r',
        'e' | 'E' => '\u{1b}',
        'a' => '\u{7}',
        'b' => '\u{8}',
        'f' => '\u{c}',
        'v' => '\u{b}',
        other => other,
    };
    text.push(number.and_then(char::from_u32).unwrap_or(plain));
}

fn digits(rest: &mut Peekable<Chars<'_>>, base: u32, most: usize) -> Option<u32> {
    rest.peek()?.to_digit(base)?;
    Some(digits_with(rest, base, most, 0))
}

fn digits_with(rest: &mut Peekable<Chars<'_>>, base: u32, most: usize, first: u32) -> u32 {
    let mut number = first;
    for _ in 0..most {
        let Some(digit) = rest.peek().and_then(|c| c.to_digit(base)) else { break };
        number = number.wrapping_mul(base).wrapping_add(digit);
        rest.next();
    }
    number
}
