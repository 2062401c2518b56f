//! Finds the closing delimiter of quotes, braces, brackets and parentheses.
//!
//! The rules are bash's: a plain `{` within `${…}` opens nothing, quotes within it protect, a substitution within
//! it is parsed as commands. A parser that ends one of these earlier or later than bash sees other commands.

use super::cursor::Cursor;
use super::parse::{DEEPEST, ShellParser};

/// The kind of an open delimiter, with the rules for finding its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BracketKind {
    /// `${…}`: ends at the first brace outside quotes and substitutions.
    Parameter,
    /// `name[…]`: brackets nest; quotes and substitutions protect.
    Index,
    /// `$[…]`: brackets nest; only quotes protect.
    OldArithmetic,
    /// `((…))` and patterns: parentheses nest; only quotes protect.
    Parentheses,
}

impl BracketKind {
    fn signs(self) -> (Option<char>, char) {
        match self {
            Self::Parameter => (None, '}'),
            Self::Index | Self::OldArithmetic => (Some('['), ']'),
            Self::Parentheses => (Some('('), ')'),
        }
    }

    fn skips_substitutions(self) -> bool {
        matches!(self, Self::Parameter | Self::Index)
    }
}

impl<'a> ShellParser<'a> {
    /// Returns the text up to the closing delimiter; both delimiters are read.
    pub(super) fn read_bracketed(&mut self, pair: BracketKind) -> &'a str {
        let (open, close) = pair.signs();
        let start = self.cursor.rest();
        let mut depth = 1usize;
        self.pairs += 1;
        if self.pairs > DEEPEST {
            self.too_deep = true;
            self.cursor.skip_all();
        }
        loop {
            let end = self.cursor.rest();
            match self.cursor.next() {
                None => break,
                Some(c) if c == close => {
                    depth -= 1;
                    if depth == 0 {
                        self.pairs -= 1;
                        return self.count_reread(Cursor::between(start, end));
                    }
                }
                Some(c) if Some(c) == open => depth += 1,
                Some('$') if !pair.skips_substitutions() && self.cursor.peek() != Some('\'') => {}
                Some('<' | '>') if pair.skips_substitutions() && self.cursor.skip('(') => {
                    self.substitution();
                }
                Some(c) => self.skip_quoted(c),
            }
        }
        self.pairs -= 1;
        self.count_reread(start)
    }

    /// Skips what `c`, just read, opens: a quote, an escape, a substitution.
    pub(super) fn skip_quoted(&mut self, c: char) {
        match c {
            '\\' => {
                self.cursor.raw_next();
            }
            '\'' => {
                self.cursor.raw_until('\'');
            }
            '"' => self.skip_double_quotes(),
            '`' => {
                self.backticks();
            }
            '$' => self.skip_dollar(),
            _ => {}
        }
    }

    fn skip_double_quotes(&mut self) {
        while let Some(c) = self.cursor.next() {
            match c {
                '"' => return,
                // A single quote has no meaning here.
                '\'' => {}
                c => self.skip_quoted(c),
            }
        }
    }

    fn skip_dollar(&mut self) {
        match self.cursor.peek() {
            Some('\'') => {
                self.cursor.next();
                while let Some(c) = self.cursor.raw_next() {
                    match c {
                        '\'' => return,
                        '\\' => {
                            self.cursor.raw_next();
                        }
                        _ => {}
                    }
                }
            }
            Some('{') => {
                self.cursor.next();
                self.read_bracketed(BracketKind::Parameter);
            }
            Some('[') => {
                self.cursor.next();
                self.read_bracketed(BracketKind::OldArithmetic);
            }
            Some('(') => {
                self.cursor.next();
                let start = self.cursor.rest();
                if self.cursor.peek() == Some('(') {
                    self.read_bracketed(BracketKind::Parentheses);
                } else {
                    self.substitution();
                }
                self.count_reread(Cursor::between(start, self.cursor.rest()));
            }
            _ => {}
        }
    }

    /// Returns the text between backticks, as commands; the opening backtick has been read.
    pub(super) fn backticks(&mut self) -> String {
        let mut text = String::new();
        while let Some(c) = self.cursor.next() {
            match c {
                '`' => break,
                '\\' => match self.cursor.raw_next() {
                    Some(c @ ('`' | '\\' | '$')) => text.push(c),
                    Some(c) => text.extend(['\\', c]),
                    None => {}
                },
                c => text.push(c),
            }
        }
        text
    }

    /// Counts a text that is read more than once. Nested texts would take exponential time.
    fn count_reread(&mut self, text: &'a str) -> &'a str {
        if let Some(left) = self.effort.checked_sub(text.len()) {
            self.effort = left;
        } else {
            self.too_deep = true;
            self.cursor.skip_all();
        }
        text
    }
}
