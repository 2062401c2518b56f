//! One word: quotes, escapes, expansions.

use super::expand::braces;
use super::learn::POSITIONAL;
use super::parse::{DEEPEST, Reader, Stop};
use super::print::output_of;
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
    fn split_in(&mut self, value: &str, separators: &str) {
        for (at, piece) in value.split(|c| separators.contains(c)).enumerate() {
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
        let mut reader = self.within(text, self.depth + 1);
        if reader.too_deep {
            self.too_deep = true;
            return Word { text: text.to_owned(), known: false, inner: Vec::new() };
        }
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
            let mut reader = self.within(&text, self.depth);
            let script = reader.script(Stop::End);
            self.too_deep |= reader.too_deep;
            self.budget = reader.budget;
            return substitute(builder, script, around, &self.separators);
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
                    let text = self.arithmetic();
                    self.rest.next_if_eq(&')');
                    builder.inner.extend(self.computed(&text).into_iter().flat_map(|word| word.inner));
                    builder.text.push('0');
                    builder.known = false;
                } else {
                    let script = self.script(Stop::Parenthesis);
                    substitute(builder, script, around, &self.separators);
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
            Some(c @ ('1'..='9' | '@' | '*')) if self.variables.knows(POSITIONAL) => {
                self.rest.next();
                self.positional(builder, c, around);
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
        // `${!name}`: the name of a name.
        let named = inside.strip_prefix('!').and_then(|name| self.variables.get(name)?.first().cloned());
        let inside = named.as_deref().unwrap_or(inside);
        let name: String = inside.chars().take_while(|c| *c == '_' || c.is_ascii_alphanumeric()).collect();
        let operation: String = inside.chars().skip(name.chars().count()).collect();
        if operation.is_empty() || name == "IFS" || name == "HOME" {
            if operation.is_empty() && name != "IFS" && !self.variables.knows(&name) {
                builder.text.extend(["${", name.as_str(), "}"]);
                builder.known = false;
                return;
            }
            return self.value(builder, &name, around);
        }
        if let Some(values) = self.variables.get(&name).cloned() {
            let index = operation.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
            match index {
                Some("@" | "*") => return self.put(builder, &values, around),
                Some(index) => {
                    let value = index.parse().ok().and_then(|at: usize| values.get(at).cloned());
                    return self.put(builder, &value.map_or(values, |value| vec![value]), around);
                }
                None if operation.starts_with([':', '-']) => {
                    let part = values.first().and_then(|value| part_of(value, &operation));
                    return self.put(builder, &part.map_or(values, |part| vec![part]), around);
                }
                None => {
                    if let Some(text) = values.first().and_then(|value| replaced(value, &operation)) {
                        return self.put(builder, &[text], around);
                    }
                }
            }
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
        if let Some(values) = self.variables.get(name).cloned() {
            return self.put(builder, &values, around);
        }
        builder.text.push('$');
        builder.text.push_str(name);
        builder.known = false;
    }

    /// A word of `set --`, or all of them. The caller has seen that there are some.
    fn positional(&mut self, builder: &mut Builder, which: char, around: Around) {
        let values = self.variables.get(POSITIONAL).cloned().unwrap_or_default();
        match which.to_digit(10) {
            Some(at) => {
                let value = values.into_iter().nth((at as usize).saturating_sub(1)).unwrap_or_default();
                self.put(builder, &[value], around);
            }
            None => self.put(builder, &values, around),
        }
    }

    /// The values of a name; those of a list are words of their own.
    fn put(&mut self, builder: &mut Builder, values: &[String], around: Around) {
        for (at, value) in values.iter().enumerate() {
            let Some(left) = self.budget.checked_sub(value.len() + 1) else {
                self.too_deep = true;
                builder.known = false;
                return;
            };
            self.budget = left;
            if at > 0 {
                builder.cut();
            }
            match around {
                Around::Nothing => builder.split_in(value, &self.separators),
                Around::Quotes => {
                    builder.text.push_str(value);
                    builder.quoted = true;
                }
            }
        }
    }

    /// `<(…)` or `>(…)`; the sign has been read.
    pub(super) fn file_substitution(&mut self, sign: char) -> Word {
        self.rest.next();
        let script = if self.depth > DEEPEST { Script::default() } else { self.script(Stop::Parenthesis) };
        let kind = if sign == '>' { Substitution::Sink } else { Substitution::File };
        Word { text: "/dev/fd/63".to_owned(), known: false, inner: vec![Inner { script, kind }] }
    }
}

fn substitute(builder: &mut Builder, script: Script, around: Around, separators: &str) {
    if let Some(output) = output_of(&script) {
        match around {
            Around::Nothing => builder.split_in(&output, separators),
            Around::Quotes => builder.text.push_str(&output),
        }
    } else {
        builder.text.push_str("$()");
        builder.known = false;
    }
    builder.inner.push(Inner { script, kind: Substitution::Output });
}

/// What `${name/this/that}` makes of a value. Patterns are taken as they stand.
fn replaced(value: &str, operation: &str) -> Option<String> {
    let rest = operation.strip_prefix('/')?;
    let rest = rest.strip_prefix('/').unwrap_or(rest);
    let (this, that) = rest.split_once('/').unwrap_or((rest, ""));
    let plain = !this.is_empty()
        && !this.contains(['*', '?', '[', '$', '`', '\\'])
        && !that.contains(['$', '`', '\\']);
    (plain && that.len() <= 16).then(|| value.replace(this, that))
}

/// The letters that `${name:from:count}` picks.
fn part_of(value: &str, operation: &str) -> Option<String> {
    let (from, count) = match operation.strip_prefix(':')?.split_once(':') {
        Some((from, count)) => (from, count.trim().parse().ok()?),
        None => (operation.strip_prefix(':')?, usize::MAX),
    };
    Some(value.chars().skip(from.trim().parse().ok()?).take(count).collect())
}
