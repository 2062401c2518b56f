//! The text of a command, character by character, as bash reads it.

/// Reads characters. Continuation lines are joined on the way, as bash joins them before anything else; the `raw`
/// methods leave them alone, for the places where bash does (single quotes, comments, after a backslash).
#[derive(Debug, Clone, Copy)]
pub(super) struct Cursor<'a> {
    rest: &'a str,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self { rest: text }
    }

    /// Returns the unread text.
    pub(super) fn rest(&self) -> &'a str {
        self.rest
    }

    /// Returns what was read since `start`, an earlier rest of the same text, up to `end`.
    pub(super) fn between(start: &'a str, end: &str) -> &'a str {
        start.len().checked_sub(end.len()).and_then(|length| start.get(..length)).unwrap_or(start)
    }

    pub(super) fn peek(&mut self) -> Option<char> {
        while let Some(rest) = self.rest.strip_prefix("\\\n") {
            self.rest = rest;
        }
        self.rest.chars().next()
    }

    pub(super) fn next(&mut self) -> Option<char> {
        self.peek();
        self.raw_next()
    }

    pub(super) fn raw_peek(&self) -> Option<char> {
        self.rest.chars().next()
    }

    pub(super) fn raw_next(&mut self) -> Option<char> {
        let mut chars = self.rest.chars();
        let next = chars.next()?;
        self.rest = chars.as_str();
        Some(next)
    }

    pub(super) fn next_if(&mut self, wanted: impl Fn(char) -> bool) -> Option<char> {
        self.peek().filter(|c| wanted(*c))?;
        self.raw_next()
    }

    /// Reads `wanted` if it comes next, and tells whether it did.
    pub(super) fn skip(&mut self, wanted: char) -> bool {
        self.next_if(|c| c == wanted).is_some()
    }

    /// Returns the text up to the next `end`, which is read too.
    pub(super) fn raw_until(&mut self, end: char) -> &'a str {
        if let Some((text, rest)) = self.rest.split_once(end) {
            self.rest = rest;
            return text;
        }
        std::mem::take(&mut self.rest)
    }

    /// Returns the rest of the line without its line break, which stays unread.
    pub(super) fn raw_line(&mut self) -> &'a str {
        let length = self.rest.find('\n').unwrap_or(self.rest.len());
        let (line, rest) = self.rest.split_at_checked(length).unwrap_or((self.rest, ""));
        self.rest = rest;
        line
    }

    pub(super) fn skip_all(&mut self) {
        self.rest = "";
    }
}
