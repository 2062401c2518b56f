//! A text with calls while it arrives: what stands before the first call is shown at once.

use super::{ParsedToolText, ToolCallParser};

/// Collects a text piece by piece. Invariant: what is shown is the beginning of the text, and never a part of a call, however the
/// text is divided.
#[derive(Debug, Clone)]
pub struct ToolCallStream {
    parser: ToolCallParser,
    text: String,
    /// The bytes of the text that were shown.
    shown: usize,
}

impl ToolCallStream {
    pub fn new(parser: ToolCallParser) -> Self {
        Self { parser, text: String::new(), shown: 0 }
    }

    /// Adds a piece, and returns what can be shown now.
    pub fn push(&mut self, piece: &str) -> String {
        self.text.push_str(piece);
        let end = self.certain_end().max(self.shown);
        let visible = self.text.get(self.shown..end).unwrap_or_default().to_owned();
        self.shown = end;
        visible
    }

    /// Ends the text: returns its calls, and what is left to show where there are none.
    pub fn finish(self) -> (Option<ParsedToolText>, String) {
        let parsed = self.parser.parse(&self.text);
        let rest = match &parsed {
            Some(_) => String::new(),
            None => self.text.get(self.shown..).unwrap_or_default().to_owned(),
        };
        (parsed, rest)
    }

    /// Returns where the part ends that belongs to no call: before a marker, before what may become one, and before blanks that
    /// stand there.
    fn certain_end(&self) -> usize {
        let markers = self.parser.markers();
        let found = markers.iter().filter_map(|marker| self.text.find(marker)).min();
        let begun = || {
            let longest = markers.iter().map(|marker| marker.len()).max().unwrap_or_default();
            let from = self.text.len().saturating_sub(longest);
            let starts = (from..self.text.len()).filter(|at| self.text.is_char_boundary(*at));
            let mut starts = starts.filter_map(|at| Some((at, self.text.get(at..)?)));
            starts.find(|(_, tail)| markers.iter().any(|marker| marker.starts_with(tail))).map(|(at, _)| at)
        };
        let end = found.or_else(begun).unwrap_or(self.text.len());
        self.text.get(..end).unwrap_or_default().trim_end().len()
    }
}
