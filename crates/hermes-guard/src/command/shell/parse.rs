//! Commands, pipelines and groups.
//!
//! Compound commands are read flat: `if`, `do`, `{` and their like only say that a command follows, and whatever a loop
//! or a function holds is judged as if it ran.

use std::iter::Peekable;
use std::str::Chars;

use super::{Direction, End, Pipeline, Redirect, Script, Stage, Variables, Word};

/// Substitutions and groups within each other; deeper ones are not looked into.
pub(super) const DEEPEST: usize = 24;

const MOST_EXPANDED: usize = 100_000;

/// Words that only announce a command.
const ANNOUNCE: &[&str] = &[
    "if", "then", "elif", "else", "fi", "while", "until", "do", "done", "{", "}", "!", "time", "coproc",
    "esac",
];

/// Reads a command line, given what names are known to stand for.
pub(crate) fn read(text: &str, variables: &Variables) -> Script {
    let mut reader = Reader::new(text, variables.clone(), 0);
    let mut script = reader.script(Stop::End);
    script.too_deep |= reader.too_deep;
    script.functions = reader.functions;
    script.variables = reader.variables;
    script
}

/// What ends a script.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stop {
    End,
    Parenthesis,
}

/// Where in the text we are, and what is known there.
pub(super) struct Reader<'a> {
    pub(super) rest: Peekable<Chars<'a>>,
    pub(super) variables: Variables,
    /// What parts the words of a value without quotes.
    pub(super) separators: String,
    pub(super) depth: usize,
    pub(super) too_deep: bool,
    /// How many characters expansions may still add: names that stand for each other must not grow without end.
    pub(super) budget: usize,
    functions: Vec<String>,
    /// Here-documents whose text begins at the next line.
    pending: Vec<Pending>,
    cases: usize,
    pattern_next: bool,
}

struct Pending {
    delimiter: String,
    strip_tabs: bool,
    expands: bool,
}

/// What a command ends with.
enum Joint {
    Pipe,
    Next,
    Background,
    Close,
    End,
}

impl<'a> Reader<'a> {
    pub(super) fn new(text: &'a str, variables: Variables, depth: usize) -> Self {
        Self {
            rest: text.chars().peekable(),
            variables,
            separators: " \t\n".to_owned(),
            depth,
            too_deep: depth > DEEPEST,
            budget: MOST_EXPANDED,
            functions: Vec::new(),
            pending: Vec::new(),
            cases: 0,
            pattern_next: false,
        }
    }

    /// A reader of a text within this one, which knows what this one knows.
    pub(super) fn within<'b>(&self, text: &'b str, depth: usize) -> Reader<'b> {
        let mut reader = Reader::new(text, self.variables.clone(), depth);
        reader.separators.clone_from(&self.separators);
        reader.budget = self.budget;
        reader
    }

    pub(super) fn script(&mut self, stop: Stop) -> Script {
        self.depth += 1;
        let mut script = Script::default();
        if self.depth > DEEPEST {
            self.too_deep = true;
            script.too_deep = true;
            self.rest.by_ref().for_each(drop);
            self.depth -= 1;
            return script;
        }
        let mut pipeline = Pipeline::default();
        let mut texts = Vec::new();
        let mut filled = 0;
        loop {
            let (stage, joint) = self.stage(stop, &mut texts);
            self.learn(&stage, pipeline.stages.last());
            let piped = matches!(joint, Joint::Pipe);
            // The rest of a group that was read flat: it stands in the pipeline for all that came before.
            if !stage.is_empty() || piped || !pipeline.stages.is_empty() {
                pipeline.stages.push(stage);
            }
            match joint {
                Joint::Pipe => continue,
                Joint::Background => pipeline.end = End::Background,
                Joint::Next | Joint::Close | Joint::End => {}
            }
            if !pipeline.stages.is_empty() {
                script.pipelines.push(std::mem::take(&mut pipeline));
            }
            if !texts.is_empty() {
                fill(script.pipelines.get_mut(filled..).unwrap_or_default(), std::mem::take(&mut texts));
                filled = script.pipelines.len();
            }
            if matches!(joint, Joint::Close | Joint::End) {
                self.depth -= 1;
                return script;
            }
        }
    }

    fn stage(&mut self, stop: Stop, texts: &mut Vec<Word>) -> (Stage, Joint) {
        let mut stage = Stage::default();
        loop {
            if self.pattern_next {
                self.skip_pattern();
            }
            self.skip_blanks();
            let Some(&c) = self.rest.peek() else { return (stage, Joint::End) };
            match c {
                '\n' => {
                    self.rest.next();
                    self.read_texts(texts);
                    return (stage, Joint::Next);
                }
                '#' => while self.rest.next_if(|c| *c != '\n').is_some() {},
                ';' => {
                    self.rest.next();
                    let mut double = false;
                    while self.rest.next_if(|c| matches!(c, ';' | '&')).is_some() {
                        double = true;
                    }
                    self.pattern_next = double && self.cases > 0;
                    return (stage, Joint::Next);
                }
                '&' => {
                    self.rest.next();
                    match self.rest.peek() {
                        Some('&') => {
                            self.rest.next();
                            return (stage, Joint::Next);
                        }
                        Some('>') => self.redirect(&mut stage),
                        _ => return (stage, Joint::Background),
                    }
                }
                '|' => {
                    self.rest.next();
                    if self.rest.next_if_eq(&'|').is_some() {
                        return (stage, Joint::Next);
                    }
                    self.rest.next_if_eq(&'&');
                    return (stage, Joint::Pipe);
                }
                ')' => {
                    self.rest.next();
                    if stop == Stop::Parenthesis {
                        return (stage, Joint::Close);
                    }
                    return (stage, Joint::Next);
                }
                '(' => self.parenthesis(&mut stage),
                '<' | '>' => self.redirect(&mut stage),
                _ => self.words(&mut stage),
            }
        }
    }

    /// A group, a function's `()`, or arithmetic.
    fn parenthesis(&mut self, stage: &mut Stage) {
        self.rest.next();
        if !stage.words.is_empty() {
            let mut ahead = self.rest.clone();
            while ahead.next_if(|c| c.is_whitespace()).is_some() {}
            if ahead.next_if_eq(&')').is_some() {
                // `name()`: what follows is the function's body.
                self.rest = ahead;
                self.functions.extend(stage.words.drain(..).next_back().map(|word| word.text));
                return;
            }
        }
        if stage.words.is_empty() && stage.assignments.last().is_some_and(|word| word.text.ends_with('=')) {
            return self.list(stage);
        }
        if self.rest.peek() == Some(&'(') && stage.is_empty() {
            let text = self.arithmetic();
            // Only `((…))` computes; `((…) …)` are groups within each other.
            if text.ends_with(')') {
                stage.assignments.extend(self.computed(&text));
            } else {
                let mut reader = self.within(&text, self.depth);
                stage.body = Some(reader.script(Stop::End));
                self.too_deep |= reader.too_deep;
                self.budget = reader.budget;
            }
            return;
        }
        let body = self.script(Stop::Parenthesis);
        stage.body = Some(body);
    }

    /// The values of `name=(…)`: they are words, not commands.
    fn list(&mut self, stage: &mut Stage) {
        let mut values = Vec::new();
        loop {
            self.skip_blanks();
            match self.rest.peek() {
                None => break,
                Some(')') => {
                    self.rest.next();
                    break;
                }
                Some('\n' | ';' | '&' | '|' | '(' | '<' | '>') => {
                    self.rest.next();
                }
                Some(_) => values.extend(self.word()),
            }
        }
        let Some(assigned) = stage.assignments.last_mut() else { return };
        assigned.known = false;
        let name = assigned.text.clone();
        let mut texts = Vec::with_capacity(values.len());
        for value in values {
            assigned.inner.extend(value.inner);
            texts.push(value.text);
        }
        self.assign_list(&name, texts);
    }

    /// Up to the parenthesis that closes what was opened.
    pub(super) fn arithmetic(&mut self) -> String {
        let mut text = String::new();
        let mut depth = 1usize;
        for c in self.rest.by_ref() {
            match c {
                '(' => depth += 1,
                ')' if depth == 1 => break,
                ')' => depth -= 1,
                _ => {}
            }
            text.push(c);
        }
        text
    }

    /// What is run while something is computed.
    pub(super) fn computed(&mut self, text: &str) -> Option<Word> {
        (text.contains("$(") || text.contains('`')).then(|| self.expanded(text))
    }

    fn words(&mut self, stage: &mut Stage) {
        let unquoted = !matches!(self.rest.peek(), Some('\'' | '"' | '\\' | '$' | '`'));
        let words = self.word();
        for word in words {
            let first = stage.words.is_empty();
            if first && unquoted && self.announced(&word, stage) {
                continue;
            }
            if first && is_assignment(&word.text) {
                stage.assignments.push(word);
                continue;
            }
            // `2>file`: the number belongs to the redirection.
            let is_number =
                word.known && !word.text.is_empty() && word.text.chars().all(|c| c.is_ascii_digit());
            if is_number && unquoted && matches!(self.rest.peek(), Some('<' | '>')) {
                continue;
            }
            let test = first && word.text == "[[";
            stage.words.push(word);
            if test {
                self.read_test(stage);
            }
        }
    }

    /// Whether the word only announces a command, or opens or names something that is read by rules of its own.
    fn announced(&mut self, word: &Word, stage: &mut Stage) -> bool {
        match word.text.as_str() {
            "case" => {
                loop {
                    self.skip_blanks();
                    if matches!(self.rest.peek(), None | Some('\n' | ';' | ')' | '(' | '|' | '&' | '<' | '>'))
                    {
                        return true;
                    }
                    let words = self.word();
                    let is_in = words.iter().any(|word| word.text == "in");
                    stage.assignments.extend(words.into_iter().filter(|word| !word.inner.is_empty()));
                    if is_in {
                        break;
                    }
                }
                self.cases += 1;
                self.pattern_next = true;
                true
            }
            "esac" => {
                self.cases = self.cases.saturating_sub(1);
                true
            }
            "function" => {
                self.skip_blanks();
                let name = self.word();
                self.functions.extend(name.into_iter().map(|word| word.text));
                self.skip_blanks();
                if self.rest.next_if_eq(&'(').is_some() {
                    self.rest.next_if_eq(&')');
                }
                true
            }
            text => ANNOUNCE.contains(&text),
        }
    }

    /// `pattern)` of a `case`, or its end.
    fn skip_pattern(&mut self) {
        self.pattern_next = false;
        while self.rest.next_if(|c| c.is_whitespace() || *c == '(').is_some() {}
        let ahead: String = self.rest.clone().take(4).collect();
        if ahead == "esac" {
            return;
        }
        while let Some(c) = self.rest.next() {
            match c {
                ')' => return,
                '\\' => {
                    self.rest.next();
                }
                '\'' => while self.rest.next().is_some_and(|c| c != '\'') {},
                '"' => while self.rest.next().is_some_and(|c| c != '"') {},
                _ => {}
            }
        }
    }

    /// `[[ … ]]`, where `<`, `>`, `&&` and brackets compare.
    fn read_test(&mut self, stage: &mut Stage) {
        loop {
            self.skip_blanks();
            match self.rest.peek() {
                None | Some('\n' | ';') => return,
                Some('<' | '>' | '&' | '|' | '(' | ')') => {
                    self.rest.next();
                }
                Some(_) => {
                    let words = self.word();
                    let closed = words.iter().any(|word| word.text == "]]");
                    stage.words.extend(words);
                    if closed {
                        return;
                    }
                }
            }
        }
    }

    fn redirect(&mut self, stage: &mut Stage) {
        let Some(sign) = self.rest.next() else { return };
        let next = self.rest.peek().copied();
        if next == Some('(') {
            let word = self.file_substitution(sign);
            stage.words.push(word);
            return;
        }
        let direction = match (sign, next) {
            ('<', Some('<')) => {
                self.rest.next();
                if self.rest.next_if_eq(&'<').is_some() {
                    Direction::Text
                } else {
                    return self.announce_text(stage);
                }
            }
            ('<' | '>', Some('&')) => {
                self.rest.next();
                Direction::Descriptor
            }
            ('<', Some('>')) | ('>', Some('>' | '|')) => {
                self.rest.next();
                Direction::Out
            }
            ('<', _) => Direction::In,
            _ => Direction::Out,
        };
        self.skip_blanks();
        let Some(target) = self.target() else { return };
        // `>&file` writes a file; `>&2` and `>&-` do not.
        let is_descriptor = target.text.chars().all(|c| c.is_ascii_digit() || c == '-');
        let direction = match direction {
            Direction::Descriptor if sign == '>' && !is_descriptor => Direction::Out,
            other => other,
        };
        stage.redirects.push(Redirect { direction, target });
    }

    fn target(&mut self) -> Option<Word> {
        match self.rest.peek()? {
            '<' | '>' => {
                let sign = self.rest.next()?;
                (self.rest.peek() == Some(&'(')).then(|| self.file_substitution(sign))
            }
            '\n' | ';' | '&' | '|' | ')' => None,
            _ => self.word().into_iter().next(),
        }
    }

    fn announce_text(&mut self, stage: &mut Stage) {
        let strip_tabs = self.rest.next_if_eq(&'-').is_some();
        self.skip_blanks();
        let expands = !matches!(self.rest.peek(), Some('\'' | '"' | '\\'));
        let delimiter = self.word().into_iter().next().map(|word| word.text).unwrap_or_default();
        self.pending.push(Pending { delimiter, strip_tabs, expands });
        stage.redirects.push(Redirect { direction: Direction::Text, target: Word::plain(WAITING) });
    }

    fn read_texts(&mut self, texts: &mut Vec<Word>) {
        for Pending { delimiter, strip_tabs, expands } in std::mem::take(&mut self.pending) {
            let mut text = String::new();
            while self.rest.peek().is_some() {
                let mut line = String::new();
                let mut whole = false;
                for c in self.rest.by_ref() {
                    if c == '\n' {
                        whole = true;
                        break;
                    }
                    line.push(c);
                }
                let shown = if strip_tabs { line.trim_start_matches('\t') } else { &line };
                if shown == delimiter {
                    break;
                }
                text.push_str(shown);
                if whole {
                    text.push('\n');
                }
            }
            texts.push(if expands { self.expanded(&text) } else { Word::plain(text) });
        }
    }

    pub(super) fn skip_blanks(&mut self) {
        loop {
            match self.rest.peek() {
                Some(' ' | '\t' | '\r') => {
                    self.rest.next();
                }
                Some('\\') => {
                    let mut ahead = self.rest.clone();
                    ahead.next();
                    if ahead.next() != Some('\n') {
                        return;
                    }
                    self.rest = ahead;
                }
                _ => return,
            }
        }
    }
}

/// Stands for a here-document whose text has not been reached. No command can contain it: NULs are removed before.
const WAITING: &str = "\0";

/// Puts the here-documents just read where they belong: in the order they were announced.
fn fill(pipelines: &mut [Pipeline], texts: Vec<Word>) {
    let mut texts = texts.into_iter();
    let stages = pipelines.iter_mut().flat_map(|pipeline| pipeline.stages.iter_mut());
    for redirect in stages.flat_map(|stage| stage.redirects.iter_mut()) {
        if redirect.direction == Direction::Text && redirect.target.text == WAITING {
            let Some(text) = texts.next() else { return };
            redirect.target = text;
        }
    }
}

fn is_assignment(text: &str) -> bool {
    let Some((name, _)) = text.split_once('=') else { return false };
    let name = name.strip_suffix('+').unwrap_or(name);
    let name = name.split_once('[').map_or(name, |(name, _)| name);
    !name.is_empty()
        && name
            .chars()
            .enumerate()
            .all(|(at, c)| c == '_' || c.is_ascii_alphabetic() || at > 0 && c.is_ascii_digit())
}
