//! Here-documents: their delimiters, and the commands they belong to.

use super::cursor::Cursor;
use super::parse::ShellParser;
use super::quote::ansi_c;
use super::{Direction, Pipeline, PipelineStage, Redirect, ShellScript, ShellWord};

/// A here-document whose text begins at the next line.
pub(super) struct PendingHeredoc {
    delimiter: String,
    strip_tabs: bool,
    quoted: bool,
    number: usize,
}

/// The first character of a redirection's target whose text has not been reached; its number follows. No command
/// can contain it: a command with control characters is refused.
const WAITING: char = '\0';

impl ShellParser<'_> {
    /// Reads what follows `<<`.
    pub(super) fn read_heredoc_start(&mut self, stage: &mut PipelineStage) {
        let strip_tabs = self.cursor.skip('-');
        self.skip_blanks();
        let (delimiter, quoted) = self.delimiter();
        let number = self.texts.len();
        self.texts.push(None);
        self.pending.push(PendingHeredoc { delimiter, strip_tabs, quoted, number });
        let target = ShellWord::plain(format!("{WAITING}{number}"));
        stage.redirects.push(Redirect { direction: Direction::Text, target });
    }

    /// Reads a delimiter. Nothing in it is expanded; quotes are removed, and the result tells whether there were
    /// any.
    fn delimiter(&mut self) -> (String, bool) {
        let start = self.cursor.rest();
        while let Some(c) = self.cursor.next_if(|c| !is_end_of_word(c)) {
            self.skip_quoted(c);
        }
        let written = Cursor::between(start, self.cursor.rest());
        // Bash reads an expansion there up to its end, over lines, and expands nothing in it.
        let opens = self.cursor.peek() == Some('(') && written.ends_with('$');
        self.ambiguous |= opens || written.contains('`') || written.contains("${") || written.contains("$[");
        let quoted = written.replace("\\\n", "").contains(['\'', '"', '\\']);
        (without_quotes(written), quoted)
    }

    /// Reads the texts of all pending documents; their first line comes next.
    pub(super) fn read_heredoc_bodies(&mut self) {
        for document in std::mem::take(&mut self.pending) {
            let mut text = String::new();
            while !self.cursor.rest().is_empty() {
                let mut line = self.cursor.raw_line().to_owned();
                let mut whole = self.cursor.raw_next().is_some();
                // Without quotes around the delimiter, continued lines are one line, also the last one.
                while !document.quoted && whole && ends_with_backslash(&line) {
                    line.pop();
                    line.push_str(self.cursor.raw_line());
                    whole = self.cursor.raw_next().is_some();
                }
                let line = if document.strip_tabs { line.trim_start_matches('\t') } else { &line };
                if line == document.delimiter {
                    break;
                }
                // Within `$(…)` bash ends the document at a line that only begins with the delimiter, if the parenthesis
                // closes in it, and runs the rest of that line.
                let rest = line.strip_prefix(document.delimiter.as_str());
                self.ambiguous |= self.open_substitutions > 0 && rest.is_some_and(|rest| rest.contains(')'));
                text.push_str(line);
                if whole {
                    text.push('\n');
                }
            }
            let word = if document.quoted { ShellWord::plain(text) } else { self.expanded(&text) };
            if let Some(slot) = self.texts.get_mut(document.number) {
                *slot = Some(word);
            }
        }
    }

    /// Puts texts into the redirections they belong to, in the pipelines and in nested scripts.
    pub(super) fn place_heredocs(&mut self, pipelines: &mut [Pipeline]) {
        for stage in pipelines.iter_mut().flat_map(|pipeline| pipeline.stages.iter_mut()) {
            for redirect in &mut stage.redirects {
                let number = redirect.target.text.strip_prefix(WAITING).and_then(|text| text.parse().ok());
                let text = number.and_then(|at: usize| self.texts.get_mut(at)).and_then(Option::take);
                if let Some(text) = text {
                    redirect.target = text;
                }
            }
            if let Some(body) = &mut stage.body {
                self.place_heredocs(&mut body.pipelines);
            }
            let words = stage.words.iter_mut().chain(&mut stage.assignments);
            let words = words.chain(stage.redirects.iter_mut().map(|redirect| &mut redirect.target));
            for inner in words.flat_map(|word| word.inner.iter_mut()) {
                self.place_heredocs(&mut inner.script.pipelines);
            }
        }
    }

    /// Reads a whole text, and puts the here-documents in it in their places.
    pub(super) fn read_all(&mut self) -> ShellScript {
        let mut script = self.script(super::parse::ScriptTerminator::End);
        if self.texts.iter().any(Option::is_some) {
            self.place_heredocs(&mut script.pipelines);
        }
        script.too_deep |= self.too_deep;
        script.ambiguous |= self.ambiguous;
        script
    }
}

pub(super) fn is_waiting(redirect: &Redirect) -> bool {
    redirect.target.text.starts_with(WAITING)
}

pub(super) fn is_end_of_word(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\n' | ';' | '&' | '|' | '(' | ')' | '<' | '>')
}

fn ends_with_backslash(line: &str) -> bool {
    line.chars().rev().take_while(|c| *c == '\\').count() % 2 == 1
}

fn without_quotes(written: &str) -> String {
    let mut cursor = Cursor::new(written);
    let mut plain = String::new();
    while let Some(c) = cursor.next() {
        match (c, cursor.peek()) {
            ('$', Some('\'')) => {
                cursor.next();
                plain.push_str(&ansi_c(&mut cursor));
            }
            ('$', Some('"')) => {}
            ('\'', _) => plain.push_str(cursor.raw_until('\'')),
            ('"', _) => plain.push_str(cursor.raw_until('"')),
            ('\\', _) => plain.extend(cursor.raw_next()),
            (c, _) => plain.push(c),
        }
    }
    plain
}
