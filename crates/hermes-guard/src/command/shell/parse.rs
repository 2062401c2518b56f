//! Commands, pipelines and groups.
//!
//! Compound commands are parsed flat: `if`, `do`, `{` and similar words only mean that a command follows, and the
//! content of a loop or a function is judged as if it ran.

use super::brackets::BracketKind;
use super::cursor::Cursor;
use super::heredoc::{PendingHeredoc, is_end_of_word, is_waiting};
use super::variables::AssignmentReach;
use super::{
    Direction, Pipeline, PipelineEnd, PipelineStage, Redirect, ShellScript, ShellVariables, ShellWord,
};

/// The nesting depth of substitutions and groups up to which they are parsed.
pub(super) const DEEPEST: usize = 24;

const MOST_EXPANDED: usize = 100_000;

/// The most characters that may be read again because the end of their enclosing construct had to be found first.
const MOST_REREAD: usize = 2_000_000;

/// Words that only precede a command.
const ANNOUNCE: &[&str] = &["then", "elif", "else", "do", "{", "}", "!", "time", "coproc"];

/// Parses a command line, given the known values of variables.
pub(crate) fn read(text: &str, variables: &ShellVariables) -> ShellScript {
    let mut reader = ShellParser::new(text, variables.clone(), 0);
    let mut script = reader.read_all();
    script.functions = reader.functions;
    script.variables = reader.variables;
    script
}

/// Parses the commands in all substitutions of a text.
pub(crate) fn substitutions(text: &str) -> Vec<ShellScript> {
    let mut reader = ShellParser::new("", ShellVariables::default(), 0);
    reader.expanded(text).inner.into_iter().map(|inner| inner.script).collect()
}

/// The token that ends a script.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ScriptTerminator {
    End,
    Parenthesis,
}

/// The position in the text, and what is known there.
pub(super) struct ShellParser<'a> {
    pub(super) cursor: Cursor<'a>,
    pub(super) variables: ShellVariables,
    /// The characters that split an unquoted value into words.
    pub(super) separators: String,
    pub(super) depth: usize,
    pub(super) too_deep: bool,
    /// The number of characters that expansions may still add: variables that refer to each other must not grow
    /// without bound.
    pub(super) budget: usize,
    /// The number of characters that may still be read again.
    pub(super) effort: usize,
    pub(super) ambiguous: bool,
    /// The number of open `$(`.
    pub(super) open_substitutions: usize,
    /// The number of open braces, brackets and parentheses.
    pub(super) pairs: usize,
    functions: Vec<String>,
    /// Here-documents whose text begins at the next line.
    pub(super) pending: Vec<PendingHeredoc>,
    /// The texts of here-documents, until each is put in its place.
    pub(super) texts: Vec<Option<ShellWord>>,
    cases: usize,
    pattern_next: bool,
    /// The number of open loops and conditions; a function counts as one that stays open.
    conditions: usize,
}

/// The token that ends a command.
#[derive(Clone, Copy, PartialEq, Eq)]
enum CommandSeparator {
    Pipe,
    Next,
    /// `&&` or `||`: the next command may not be run.
    Condition,
    /// The end of a line, after which here-documents have been read.
    Line,
    Background,
    Close,
    End,
}

impl<'a> ShellParser<'a> {
    pub(super) fn new(text: &'a str, variables: ShellVariables, depth: usize) -> Self {
        Self {
            cursor: Cursor::new(text),
            variables,
            separators: " \t\n".to_owned(),
            depth,
            too_deep: depth > DEEPEST,
            budget: MOST_EXPANDED,
            effort: MOST_REREAD,
            ambiguous: false,
            open_substitutions: 0,
            pairs: 0,
            functions: Vec::new(),
            pending: Vec::new(),
            texts: Vec::new(),
            cases: 0,
            pattern_next: false,
            conditions: 0,
        }
    }

    /// Creates a parser of a nested text, which shares what this one knows.
    pub(super) fn nested<'b>(&self, text: &'b str, depth: usize) -> ShellParser<'b> {
        let mut reader = ShellParser::new(text, self.variables.clone(), depth);
        reader.separators.clone_from(&self.separators);
        reader.budget = self.budget;
        reader.effort = self.effort.saturating_sub(text.len());
        reader.pairs = self.pairs;
        reader
    }

    /// Takes over what a parser of a nested text has learnt and consumed.
    pub(super) fn merge_nested(&mut self, inner: &ShellParser<'_>) {
        self.too_deep |= inner.too_deep || inner.effort == 0;
        self.ambiguous |= inner.ambiguous;
        self.budget = inner.budget;
        self.effort = inner.effort;
    }

    /// Parses the commands of `$(…)`; the opening has been read. Its here-documents are its own.
    pub(super) fn substitution(&mut self) -> ShellScript {
        let pending = std::mem::take(&mut self.pending);
        let cases = std::mem::take(&mut self.cases);
        let pattern_next = std::mem::take(&mut self.pattern_next);
        self.open_substitutions += 1;
        let script = self.script(ScriptTerminator::Parenthesis);
        self.open_substitutions -= 1;
        // Some releases find the text of an unfinished document after the parenthesis, others run it.
        self.ambiguous |= !self.pending.is_empty();
        self.pending.splice(0..0, pending);
        self.cases = cases;
        self.pattern_next = pattern_next;
        script
    }

    pub(super) fn script(&mut self, stop: ScriptTerminator) -> ShellScript {
        self.depth += 1;
        let mut script = ShellScript::default();
        if self.depth > DEEPEST {
            self.too_deep = true;
            script.too_deep = true;
            self.cursor.skip_all();
            self.depth -= 1;
            return script;
        }
        let mut pipeline = Pipeline::default();
        let mut filled = 0;
        let mut conditional = false;
        loop {
            let (stage, joint) = self.stage(stop);
            let piped = joint == CommandSeparator::Pipe;
            let lasts = !piped && pipeline.stages.is_empty() && joint != CommandSeparator::Background;
            let reach = if lasts && !conditional && self.depth == 1 && self.conditions == 0 {
                AssignmentReach::Certain
            } else {
                AssignmentReach::Possible
            };
            self.record_assignments(&stage, pipeline.stages.last(), reach);
            conditional = joint == CommandSeparator::Condition || piped && conditional;
            // The rest of a group that was parsed flat: it stands in the pipeline for everything before it.
            if !stage.is_empty() || piped || !pipeline.stages.is_empty() {
                pipeline.stages.push(stage);
            }
            match joint {
                CommandSeparator::Pipe => continue,
                CommandSeparator::Background => pipeline.end = PipelineEnd::Background,
                CommandSeparator::Next
                | CommandSeparator::Condition
                | CommandSeparator::Line
                | CommandSeparator::Close
                | CommandSeparator::End => {}
            }
            if !pipeline.stages.is_empty() {
                script.pipelines.push(std::mem::take(&mut pipeline));
            }
            if joint == CommandSeparator::Line && self.texts.iter().any(Option::is_some) {
                self.fill_line(script.pipelines.get_mut(filled..).unwrap_or_default());
            }
            if joint == CommandSeparator::Line {
                filled = script.pipelines.len();
            }
            if matches!(joint, CommandSeparator::Close | CommandSeparator::End) {
                self.depth -= 1;
                return script;
            }
        }
    }

    /// Puts the here-documents just read in their places, and records the values they give to `read`.
    fn fill_line(&mut self, pipelines: &mut [Pipeline]) {
        let waits = |stage: &PipelineStage| stage.redirects.iter().any(is_waiting);
        let waiting: Vec<(usize, usize)> = pipelines
            .iter()
            .enumerate()
            .flat_map(|(at, pipeline)| {
                let stages = pipeline.stages.iter().enumerate();
                stages.filter(|(_, stage)| waits(stage)).map(move |(stage, _)| (at, stage))
            })
            .collect();
        self.place_heredocs(pipelines);
        for (pipeline, stage) in waiting {
            if let Some(stage) = pipelines.get(pipeline).and_then(|pipeline| pipeline.stages.get(stage)) {
                self.record_assignments(stage, None, AssignmentReach::Possible);
            }
        }
    }

    fn stage(&mut self, stop: ScriptTerminator) -> (PipelineStage, CommandSeparator) {
        let mut stage = PipelineStage::default();
        loop {
            if self.pattern_next {
                self.patterns(&mut stage);
            }
            self.skip_blanks();
            let Some(c) = self.cursor.peek() else { return (stage, CommandSeparator::End) };
            match c {
                '\n' => {
                    self.cursor.next();
                    self.read_heredoc_bodies();
                    return (stage, CommandSeparator::Line);
                }
                '#' => {
                    self.cursor.raw_line();
                }
                ';' => {
                    self.cursor.next();
                    let mut double = false;
                    while self.cursor.next_if(|c| matches!(c, ';' | '&')).is_some() {
                        double = true;
                    }
                    self.pattern_next = double && self.cases > 0;
                    return (stage, CommandSeparator::Next);
                }
                '&' => {
                    self.cursor.next();
                    match self.cursor.peek() {
                        Some('&') => {
                            self.cursor.next();
                            return (stage, CommandSeparator::Condition);
                        }
                        Some('>') => self.redirect(&mut stage),
                        _ => return (stage, CommandSeparator::Background),
                    }
                }
                '|' => {
                    self.cursor.next();
                    if self.cursor.skip('|') {
                        return (stage, CommandSeparator::Condition);
                    }
                    self.cursor.skip('&');
                    return (stage, CommandSeparator::Pipe);
                }
                ')' => {
                    self.cursor.next();
                    if stop == ScriptTerminator::Parenthesis {
                        return (stage, CommandSeparator::Close);
                    }
                    return (stage, CommandSeparator::Next);
                }
                '(' => self.parenthesis(&mut stage),
                '<' | '>' if !self.opens_file() => self.redirect(&mut stage),
                _ => self.words(&mut stage),
            }
        }
    }

    /// Parses a group, a function's `()`, or arithmetic.
    fn parenthesis(&mut self, stage: &mut PipelineStage) {
        self.cursor.next();
        let is_loop = stage.words.last().is_some_and(|word| word.text == "for") && stage.words.len() == 1;
        if !stage.words.is_empty() {
            let mut ahead = self.cursor;
            while ahead.next_if(|c| matches!(c, ' ' | '\t')).is_some() {}
            if ahead.skip(')') {
                // `name()`: what follows is the function's body.
                self.cursor = ahead;
                self.conditions += 1;
                self.functions.extend(stage.words.drain(..).next_back().map(|word| word.text));
                return;
            }
        }
        if opens_list(stage) {
            return self.list(stage);
        }
        if self.cursor.peek() == Some('(') && (stage.is_empty() || is_loop) {
            let before = self.cursor;
            let text = self.read_bracketed(BracketKind::Parentheses);
            if is_arithmetic(text) {
                stage.assignments.extend(self.computed(text));
                // After an error in an `eval` bash takes even this for nested groups.
                let mut reader = self.nested(text, self.depth);
                stage.body = Some(reader.read_all());
                self.merge_nested(&reader);
                return;
            }
            // `((…) …)`: nested groups. A quote in a comment makes bash read what follows it a second time.
            self.ambiguous |= text.contains('#') && text.contains(['\'', '"']);
            self.cursor = before;
        }
        let body = self.script(ScriptTerminator::Parenthesis);
        stage.body = Some(body);
    }

    /// Parses the values of `name=(…)`: they are words, not commands.
    fn list(&mut self, stage: &mut PipelineStage) {
        let mut values = Vec::new();
        loop {
            self.skip_blanks();
            match self.cursor.peek() {
                None => break,
                Some(')') => {
                    self.cursor.next();
                    break;
                }
                Some('#') => {
                    self.cursor.raw_line();
                }
                Some(c) if is_end_of_word(c) && !(matches!(c, '<' | '>') && self.opens_file()) => {
                    self.cursor.next();
                }
                Some(_) => values.extend(self.word(Position::Argument)),
            }
        }
        // What follows without whitespace still belongs to the assignment.
        if self.cursor.peek().is_some_and(|c| !is_end_of_word(c)) {
            values.extend(self.word(Position::Argument));
        }
        let assigned =
            if stage.words.is_empty() { stage.assignments.last_mut() } else { stage.words.last_mut() };
        let Some(assigned) = assigned else { return };
        assigned.known = false;
        let name = assigned.text.clone();
        let mut texts = Vec::with_capacity(values.len());
        for value in values {
            assigned.inner.extend(value.inner);
            // `[index]=value`
            let value = value
                .text
                .strip_prefix('[')
                .and_then(|text| text.split_once("]="))
                .map(|(_, value)| value.to_owned())
                .unwrap_or(value.text);
            texts.push(value);
        }
        self.assign_list(&name, texts);
    }

    /// Returns the commands that run while an expression is evaluated.
    pub(super) fn computed(&mut self, text: &str) -> Option<ShellWord> {
        (text.contains("$(") || text.contains('`') || text.contains("${")).then(|| self.expanded(text))
    }

    fn words(&mut self, stage: &mut PipelineStage) {
        let first = stage.words.is_empty();
        let start = self.cursor.rest();
        let words = self.word(if first { Position::Command } else { Position::Argument });
        let written = Cursor::between(start, self.cursor.rest()).replace("\\\n", "");
        if first && is_assignment(&written) {
            stage.assignments.extend(joined(words));
            return;
        }
        for word in words {
            let first = stage.words.is_empty();
            // A word that differs from its source text was quoted or expanded, and has no special meaning.
            let literal = word.known && word.text == written;
            if first && literal && self.reads_keyword(&word, stage) {
                continue;
            }
            // `2>file`, `{name}>file`: it belongs to the redirection.
            if literal && names_descriptor(&written) && matches!(self.cursor.peek(), Some('<' | '>')) {
                continue;
            }
            let test = first && literal && word.text == "[[";
            stage.words.push(word);
            if test {
                self.read_test(stage);
            }
        }
    }

    /// Tells whether the word only precedes a command, or begins a construct with its own rules.
    fn reads_keyword(&mut self, word: &ShellWord, stage: &mut PipelineStage) -> bool {
        match word.text.as_str() {
            "case" => {
                loop {
                    self.skip_lines();
                    if self.cursor.peek().is_none_or(is_end_of_word) {
                        return true;
                    }
                    let words = self.word(Position::Argument);
                    let is_in = words.iter().any(|word| word.text == "in");
                    stage.assignments.extend(words.into_iter().filter(|word| !word.inner.is_empty()));
                    if is_in {
                        break;
                    }
                }
                self.cases += 1;
                self.conditions += 1;
                self.pattern_next = true;
                true
            }
            "esac" => {
                self.cases = self.cases.saturating_sub(1);
                self.conditions = self.conditions.saturating_sub(1);
                true
            }
            "if" | "while" | "until" => {
                self.conditions += 1;
                true
            }
            "fi" | "done" => {
                self.conditions = self.conditions.saturating_sub(1);
                true
            }
            "for" | "select" => {
                self.conditions += 1;
                false
            }
            "function" => {
                self.conditions += 1;
                self.skip_blanks();
                let name = self.word(Position::Argument);
                self.functions.extend(name.into_iter().map(|word| word.text));
                let mut ahead = self.cursor;
                while ahead.next_if(|c| matches!(c, ' ' | '\t')).is_some() {}
                if ahead.skip('(') {
                    while ahead.next_if(|c| matches!(c, ' ' | '\t')).is_some() {}
                    if ahead.skip(')') {
                        self.cursor = ahead;
                    }
                }
                true
            }
            text => ANNOUNCE.contains(&text),
        }
    }

    /// Parses the patterns of a `case` up to the `)` that ends them, or its `esac`, which stays unread.
    fn patterns(&mut self, stage: &mut PipelineStage) {
        self.pattern_next = false;
        self.skip_lines();
        let mut ahead = self.cursor;
        let name: String = std::iter::from_fn(|| ahead.next_if(|c| c.is_ascii_alphabetic())).collect();
        if name == "esac" && ahead.peek().is_none_or(is_end_of_word) {
            return;
        }
        self.cursor.skip('(');
        loop {
            self.skip_blanks();
            match self.cursor.peek() {
                Some(')') => {
                    self.cursor.next();
                    return;
                }
                Some('|' | '\n') => {
                    self.cursor.next();
                }
                Some('(') => {
                    self.cursor.next();
                    self.read_bracketed(BracketKind::Parentheses);
                }
                None => return,
                Some(c) if is_end_of_word(c) => return,
                Some(_) => {
                    let words = self.word(Position::Argument);
                    stage.assignments.extend(words.into_iter().filter(|word| !word.inner.is_empty()));
                }
            }
        }
    }

    /// Parses `[[ … ]]`, where `<`, `>`, `&&` and brackets are part of the expression.
    fn read_test(&mut self, stage: &mut PipelineStage) {
        let mut goes_on = true;
        let mut pattern = false;
        loop {
            self.skip_blanks();
            match self.cursor.peek() {
                None | Some(';') => return,
                Some('\n') if !goes_on => return,
                Some('\n') => {
                    self.cursor.next();
                    self.read_heredoc_bodies();
                }
                Some('#') => {
                    self.cursor.raw_line();
                }
                Some('(') if pattern => {
                    self.cursor.next();
                    let text = self.read_bracketed(BracketKind::Parentheses);
                    stage.assignments.extend(self.computed(text));
                    pattern = false;
                }
                Some(c @ ('<' | '>' | '&' | '|' | '(' | ')'))
                    if !(matches!(c, '<' | '>') && self.opens_file()) =>
                {
                    goes_on = !self.cursor.skip(')');
                    if goes_on {
                        self.cursor.next();
                    }
                }
                Some(_) => {
                    let start = self.cursor.rest();
                    let words = self.word(Position::Argument);
                    let written = Cursor::between(start, self.cursor.rest());
                    pattern = matches!(written, "=~" | "==" | "=" | "!=");
                    goes_on = written == "!";
                    stage.words.extend(words);
                    if written == "]]" {
                        return;
                    }
                }
            }
        }
    }

    fn redirect(&mut self, stage: &mut PipelineStage) {
        let Some(sign) = self.cursor.next() else { return };
        let next = self.cursor.peek();
        let direction = match (sign, next) {
            ('<', Some('<')) => {
                self.cursor.next();
                if self.cursor.skip('<') {
                    Direction::Text
                } else {
                    return self.read_heredoc_start(stage);
                }
            }
            ('<' | '>', Some('&')) => {
                self.cursor.next();
                // `>&-` closes a descriptor; what follows is a separate word.
                if self.cursor.skip('-') {
                    return;
                }
                Direction::Descriptor
            }
            ('<', Some('>')) | ('>', Some('>' | '|')) => {
                self.cursor.next();
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

    fn target(&mut self) -> Option<ShellWord> {
        match self.cursor.peek()? {
            c if is_end_of_word(c) && !(matches!(c, '<' | '>') && self.opens_file()) => None,
            // An expansion to several words is an error in bash, but no part of it may be overlooked.
            _ => joined(self.word(Position::Argument)),
        }
    }

    /// Skips whitespace, line breaks and comments.
    fn skip_lines(&mut self) {
        loop {
            self.skip_blanks();
            match self.cursor.peek() {
                Some('\n') => {
                    self.cursor.next();
                    self.read_heredoc_bodies();
                }
                Some('#') => {
                    self.cursor.raw_line();
                }
                _ => return,
            }
        }
    }

    pub(super) fn skip_blanks(&mut self) {
        while self.cursor.next_if(|c| matches!(c, ' ' | '\t')).is_some() {}
    }
}

/// The position of a word: only before a command `name[…]=` is an assignment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Position {
    Command,
    Argument,
}

/// Tells whether the text between the outer parentheses of `((…))` is arithmetic: the inner pair encloses all of
/// it.
pub(super) fn is_arithmetic(text: &str) -> bool {
    let Some(inner) = text.strip_prefix('(').and_then(|text| text.strip_suffix(')')) else { return false };
    let mut depth = 0usize;
    let mut cursor = Cursor::new(inner);
    while let Some(c) = cursor.next() {
        match c {
            '\\' => {
                cursor.raw_next();
            }
            '\'' => {
                cursor.raw_until('\'');
            }
            '(' => depth += 1,
            ')' => match depth.checked_sub(1) {
                Some(left) => depth = left,
                None => return false,
            },
            _ => {}
        }
    }
    depth == 0
}

fn names_descriptor(written: &str) -> bool {
    let name = written.strip_prefix('{').and_then(|name| name.strip_suffix('}'));
    let is_name = |name: &str| {
        name.starts_with(|c: char| c == '_' || c.is_ascii_alphabetic())
            && name.chars().all(|c| c == '_' || c.is_ascii_alphanumeric())
    };
    !written.is_empty() && written.chars().all(|c| c.is_ascii_digit()) || name.is_some_and(is_name)
}

/// Tells whether a `(` just read opens the values of a list: `name=(…)`, also after `declare` and similar builtins.
fn opens_list(stage: &PipelineStage) -> bool {
    const DECLARE: &[&str] = &["declare", "typeset", "local", "export", "readonly"];
    let assigned = match stage.words.split_first() {
        None => stage.assignments.last(),
        Some((first, rest)) => rest.last().filter(|_| DECLARE.contains(&first.text.as_str())),
    };
    assigned.is_some_and(|word| word.text.ends_with('='))
}

/// Joins several words to one, as an assignment does.
fn joined(words: Vec<ShellWord>) -> Option<ShellWord> {
    words.into_iter().reduce(|mut all, word| {
        all.text.push(' ');
        all.text.push_str(&word.text);
        all.inner.extend(word.inner);
        all.known &= word.known;
        all.hidden |= word.hidden;
        all
    })
}

/// Tells whether a word, as it is written, is an assignment: `name=`, `name+=`, `name[…]=`.
fn is_assignment(written: &str) -> bool {
    let is_part =
        |(at, c): (usize, char)| c == '_' || c.is_ascii_alphabetic() || at > 0 && c.is_ascii_digit();
    let length = written.char_indices().take_while(|part| is_part(*part)).count();
    let Some((name, mut rest)) = written.split_at_checked(length) else { return false };
    if rest.starts_with('[') {
        let mut depth = 0usize;
        let end = rest.find(|c| {
            depth = match c {
                '[' => depth + 1,
                ']' => depth.saturating_sub(1),
                _ => depth,
            };
            depth == 0
        });
        rest = end.and_then(|end| rest.get(end + 1..)).unwrap_or_default();
    }
    !name.is_empty() && (rest.starts_with('=') || rest.starts_with("+="))
}
