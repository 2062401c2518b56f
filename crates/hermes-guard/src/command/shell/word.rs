//! One word: quotes, escapes, expansions.

use super::expand::braces;
use super::parse::{DEEPEST, Reader, Stop};
use super::quote::ansi_c;
use super::{Inner, Script, Substitution, Word};

/// Words as they grow: an expansion without quotes may make several of one.
struct Builder {
    done: Vec<Word>,
    text: String,
    known: bool,
    inner: Vec<Inner>,
    quoted: bool,
    braces: bool,
}

impl Builder {
    fn new() -> Self {
        Self {
            done: Vec::new(),
            text: String::new(),
            known: true,
            inner: Vec::new(),
            quoted: false,
            braces: false,
        }
    }

    fn cut(&mut self) {
        if self.text.is_empty() && !self.quoted && self.inner.is_empty() && self.known {
            return;
        }
        let text = std::mem::take(&mut self.text);
        let inner = std::mem::take(&mut self.inner);
        let known = std::mem::replace(&mut self.known, true);
        let texts = if self.braces { braces(&text) } else { vec![text] };
        let mut inner = Some(inner);
        for text in texts {
            self.done.push(Word { text, known, inner: inner.take().unwrap_or_default() });
        }
        self.quoted = false;
        self.braces = false;
    }

    /// A value where no quotes stand: blanks in it part words.
    fn split_in(&mut self, value: &str) {
        for (at, piece) in value.split([' ', '\t', '\n']).enumerate() {
            if at > 0 {
                self.cut();
            }
            self.text.push_str(piece);
        }
    }
}

/// Whether quotes stand around.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Around {
    Nothing,
    Quotes,
}

impl Reader<'_> {
    /// The next word; several or none after expansion. The caller has seen that one begins.
    pub(super) fn word(&mut self) -> Vec<Word> {
        let mut builder = Builder::new();
        let mut began = false;
        while let Some(&c) = self.rest.peek() {
            match c {
                ' ' | '\t' | '\r' | '\n' | ';' | '&' | '|' | '(' | ')' | '<' | '>' if began => break,
                '\\' => {
                    self.rest.next();
                    match self.rest.next() {
                        Some('\n') | None => {}
                        Some(c) => {
                            builder.text.push(c);
                            builder.quoted = true;
                        }
                    }
                }
                '\'' => {
                    self.rest.next();
                    builder.quoted = true;
                    builder.text.extend(self.rest.by_ref().take_while(|c| *c != '\''));
                }
                '"' => {
                    self.rest.next();
                    builder.quoted = true;
                    self.double_quotes(&mut builder);
                }
                '$' | '`' => self.expansion(&mut builder, Around::Nothing),
                c => {
                    self.rest.next();
                    builder.braces |= c == '{';
                    builder.text.push(c);
                }
            }
            began = true;
        }
        builder.cut();
        builder.done
    }

    fn double_quotes(&mut self, builder: &mut Builder) {
        while let Some(&c) = self.rest.peek() {
            match c {
                '"' => {
                    self.rest.next();
                    return;
                }
                '\\' => {
                    self.rest.next();
                    match self.rest.next() {
                        Some('\n') | None => {}
                        Some(c @ ('"' | '\\' | '$' | '`')) => builder.text.push(c),
                        Some(c) => builder.text.extend(['\\', c]),
                    }
                }
                '$' | '`' => self.expansion(builder, Around::Quotes),
                c => {
                    self.rest.next();
                    builder.text.push(c);
                }
            }
        }
    }

    /// The text of a here-document, in which only expansions have a meaning.
    pub(super) fn expanded(&mut self, text: &str) -> Word {
        let mut reader = Reader::new(text, self.variables.clone(), self.depth + 1);
        if reader.too_deep {
            self.too_deep = true;
            return Word { text: text.to_owned(), known: false, inner: Vec::new() };
        }
        reader.budget = self.budget;
        let mut builder = Builder::new();
        while let Some(&c) = reader.rest.peek() {
            if matches!(c, '$' | '`') {
                reader.expansion(&mut builder, Around::Quotes);
            } else {
                reader.rest.next();
                builder.text.push(c);
            }
        }
        self.too_deep |= reader.too_deep;
        self.budget = reader.budget;
        builder.quoted = true;
        builder.cut();
        builder.done.pop().unwrap_or_default()
    }

    fn expansion(&mut self, builder: &mut Builder, around: Around) {
        if self.rest.next() == Some('`') {
            let text = self.backticks();
            let mut reader = Reader::new(&text, self.variables.clone(), self.depth);
            reader.budget = self.budget;
            let script = reader.script(Stop::End);
            self.too_deep |= reader.too_deep;
            self.budget = reader.budget;
            return substitute(builder, script, around);
        }
        match self.rest.peek().copied() {
            Some('\'') if around == Around::Nothing => {
                self.rest.next();
                builder.quoted = true;
                builder.text.push_str(&ansi_c(&mut self.rest));
            }
            Some('"') if around == Around::Nothing => {}
            Some('(') => {
                self.rest.next();
                if self.rest.peek() == Some(&'(') {
                    self.rest.next();
                    self.skip_arithmetic();
                    self.rest.next_if_eq(&')');
                    builder.text.push('0');
                    builder.known = false;
                } else {
                    let script = self.script(Stop::Parenthesis);
                    substitute(builder, script, around);
                }
            }
            Some('{') => {
                self.rest.next();
                let inside = self.parameter();
                self.parameter_value(builder, &inside, around);
            }
            Some(c) if c == '_' || c.is_ascii_alphabetic() => {
                let mut name = String::new();
                while let Some(c) = self.rest.next_if(|c| *c == '_' || c.is_ascii_alphanumeric()) {
                    name.push(c);
                }
                self.value(builder, &name, around);
            }
            Some(c @ ('0'..='9' | '@' | '*' | '#' | '?' | '!' | '-' | '$')) => {
                self.rest.next();
                builder.text.extend(['$', c]);
                builder.known = false;
            }
            _ => builder.text.push('$'),
        }
    }

    fn backticks(&mut self) -> String {
        let mut text = String::new();
        while let Some(c) = self.rest.next() {
            match c {
                '`' => break,
                '\\' => match self.rest.next() {
                    Some(c @ ('`' | '\\' | '$')) => text.push(c),
                    Some(c) => text.extend(['\\', c]),
                    None => {}
                },
                c => text.push(c),
            }
        }
        text
    }

    /// What stands within `${…}`.
    fn parameter(&mut self) -> String {
        let mut inside = String::new();
        let mut depth = 0usize;
        for c in self.rest.by_ref() {
            match c {
                '}' if depth == 0 => break,
                '}' => depth -= 1,
                '{' => depth += 1,
                _ => {}
            }
            inside.push(c);
        }
        inside
    }

    fn parameter_value(&mut self, builder: &mut Builder, inside: &str, around: Around) {
        let name: String = inside.chars().take_while(|c| *c == '_' || c.is_ascii_alphanumeric()).collect();
        let operation: String = inside.chars().skip(name.chars().count()).collect();
        if operation.is_empty() || name == "IFS" || name == "HOME" {
            return self.value(builder, &name, around);
        }
        if let Some(value) = self.variables.get(&name).cloned().filter(|_| operation.starts_with([':', '-']))
        {
            return self.put(builder, &value, around);
        }
        let default = [":-", ":=", "-", "="].iter().find_map(|sign| operation.strip_prefix(sign));
        match default {
            // What stands there when the name is not set may itself run something.
            Some(default) if !default.is_empty() => {
                let word = self.expanded(default);
                builder.text.push_str(&word.text);
                builder.inner.extend(word.inner);
                builder.known &= word.known;
            }
            _ => {
                let word = self.expanded(&operation);
                builder.inner.extend(word.inner);
                builder.text.push_str("${");
                builder.text.push_str(&name);
                builder.text.push('}');
                builder.known = false;
            }
        }
    }

    fn value(&mut self, builder: &mut Builder, name: &str, around: Around) {
        if name == "IFS" && around == Around::Nothing {
            builder.cut();
            return;
        }
        if let Some(value) = self.variables.get(name).cloned() {
            return self.put(builder, &value, around);
        }
        builder.text.push('$');
        builder.text.push_str(name);
        builder.known = false;
    }

    fn put(&mut self, builder: &mut Builder, value: &str, around: Around) {
        let Some(left) = self.budget.checked_sub(value.len()) else {
            self.too_deep = true;
            builder.known = false;
            return;
        };
        self.budget = left;
        match around {
            Around::Nothing => builder.split_in(value),
            Around::Quotes => builder.text.push_str(value),
        }
    }

    /// `<(…)`; the sign has been read.
    pub(super) fn file_substitution(&mut self) -> Word {
        self.rest.next();
        let script = if self.depth > DEEPEST { Script::default() } else { self.script(Stop::Parenthesis) };
        Word {
            text: "/dev/fd/63".to_owned(),
            known: false,
            inner: vec![Inner { script, kind: Substitution::File }],
        }
    }
}

fn substitute(builder: &mut Builder, script: Script, around: Around) {
    if let Some(output) = output_of(&script) {
        match around {
            Around::Nothing => builder.split_in(&output),
            Around::Quotes => builder.text.push_str(&output),
        }
    } else {
        builder.text.push_str("$()");
        builder.known = false;
    }
    builder.inner.push(Inner { script, kind: Substitution::Output });
}

/// What a script prints, where that can be seen: `echo rm` is a way to write `rm`.
fn output_of(script: &Script) -> Option<String> {
    let [pipeline] = script.pipelines.as_slice() else { return None };
    let [stage] = pipeline.stages.as_slice() else { return None };
    if !stage.redirects.is_empty() || !stage.words.iter().all(|word| word.known) {
        return None;
    }
    let words: Vec<&str> = stage.words.iter().map(|word| word.text.as_str()).collect();
    match words.as_slice() {
        ["echo", "-n" | "-e" | "-ne", rest @ ..] | ["echo", rest @ ..] => Some(rest.join(" ")),
        ["printf", "%s" | "%s\\n", rest @ ..] => Some(rest.concat()),
        ["printf", format] if !format.contains('%') => Some((*format).to_owned()),
        ["which", name] | ["command", "-v", name] | ["type", "-p" | "-P", name] => Some((*name).to_owned()),
        _ => None,
    }
}
