//! One word: quotes, escapes, expansions.

use super::brackets::BracketKind;
use super::expand::braces;
use super::heredoc::is_end_of_word;
use super::parse::{DEEPEST, Position, ShellParser, is_arithmetic};
use super::print::output_of;
use super::quote::{ZeroEscape, ansi_c, unescape};
use super::variables::{AssignmentReach, POSITIONAL};
use super::{NestedScript, ShellScript, ShellWord, Substitution};

/// Words under construction: an unquoted expansion may split one into several.
#[expect(clippy::struct_excessive_bools, reason = "each tells something else about the word that grows")]
struct Builder {
    done: Vec<ShellWord>,
    text: String,
    known: bool,
    inner: Vec<NestedScript>,
    quoted: bool,
    braces: bool,
    hidden: bool,
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
            hidden: false,
        }
    }

    fn open_quotes(&mut self) {
        self.quoted = true;
        self.text.push(QUOTED);
    }

    /// Adds a quoted character: braces and commas in quotes do not split words.
    fn push_quoted(&mut self, c: char) {
        let place = BRACES.iter().position(|brace| *brace == c);
        self.text.push(place.and_then(|place| PROTECTED.get(place)).copied().unwrap_or(c));
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
        // A `$` that brace expansion puts before a name is expanded afterwards.
        let dollar = self.braces && known && texts.len() > 1 && texts.iter().any(|text| text.contains('$'));
        let hidden = std::mem::take(&mut self.hidden) || dollar;
        let known = known && !dollar;
        // `{,a}` is one word: an empty unquoted part is none.
        for text in texts.into_iter().filter(|text| !self.braces || !text.is_empty()) {
            let text = unprotected(text);
            self.done.push(ShellWord { text, known, hidden, inner: inner.take().unwrap_or_default() });
        }
        self.quoted = false;
        self.braces = false;
    }

    /// Adds an unquoted value: separators in it split words.
    fn split_in(&mut self, value: &str, separators: &str) {
        for (at, piece) in value.split(|c| separators.contains(c)).enumerate() {
            if at > 0 {
                self.cut();
            }
            self.text.push_str(piece);
        }
    }
}

/// Marks where quotes were in a word, so that empty quotes make a word. `PROTECTED` stands for the characters of
/// `BRACES` while they are quoted.
const QUOTED: char = '\u{f8f5}';
const BRACES: [char; 5] = ['{', ',', '}', '.', '$'];
const PROTECTED: [char; 5] = ['\u{f8f0}', '\u{f8f1}', '\u{f8f2}', '\u{f8f3}', '\u{f8f4}'];

fn unprotected(text: String) -> String {
    if !text.contains(PROTECTED) && !text.contains(QUOTED) {
        return text;
    }
    let plain =
        |c| PROTECTED.iter().position(|protected| *protected == c).and_then(|at| BRACES.get(at).copied());
    text.chars().filter(|c| *c != QUOTED).map(|c| plain(c).unwrap_or(c)).collect()
}

/// The quotes around the current position.
#[derive(Clone, Copy, PartialEq, Eq)]
enum QuoteContext {
    Nothing,
    Quotes,
    /// Inside `${…}` that is itself in quotes.
    Nested,
}

impl ShellParser<'_> {
    /// Reads the next word; several or none after expansion. The caller has checked that one begins.
    pub(super) fn word(&mut self, position: Position) -> Vec<ShellWord> {
        let mut builder = Builder::new();
        let mut began = false;
        let mut is_name = position == Position::Command;
        while let Some(c) = self.cursor.peek() {
            if is_end_of_word(c) && began && !(matches!(c, '<' | '>') && self.opens_file()) {
                break;
            }
            // `name[…]`: whitespace and operators in it do not split.
            if c == '[' && is_name && began {
                self.cursor.next();
                let index = self.read_bracketed(BracketKind::Index);
                let mut inside = Builder::new();
                self.default_words(&mut inside, index);
                inside.cut();
                builder.text.push('[');
                for word in inside.done {
                    builder.text.push_str(&word.text);
                    builder.inner.extend(word.inner);
                    builder.known &= word.known;
                }
                builder.text.push(']');
                is_name = false;
            } else {
                is_name &= c == '_' || c.is_ascii_alphabetic() || began && c.is_ascii_digit();
                self.part(&mut builder);
            }
            began = true;
        }
        builder.cut();
        builder.done
    }

    /// Reads one unquoted part of a word: a character, a quotation, an expansion.
    fn part(&mut self, builder: &mut Builder) {
        match self.cursor.peek() {
            None => {}
            Some(sign @ ('<' | '>')) if self.opens_file() => {
                self.cursor.next();
                let file = self.file_substitution(sign);
                builder.text.push_str(&file.text);
                builder.inner.extend(file.inner);
                builder.known = false;
            }
            Some('\\') => {
                self.cursor.next();
                let next = self.cursor.raw_next();
                // Whether bash drops a backslash at the very end depends on where the text comes from.
                self.ambiguous |= next.is_none();
                builder.push_quoted(next.unwrap_or('\\'));
                builder.quoted = true;
            }
            Some('\'') => {
                self.cursor.next();
                builder.open_quotes();
                for c in self.cursor.raw_until('\'').chars() {
                    builder.push_quoted(c);
                }
            }
            Some('"') => {
                self.cursor.next();
                builder.open_quotes();
                self.double_quotes(builder);
            }
            Some('$' | '`') => self.expansion(builder, QuoteContext::Nothing),
            Some(c) => {
                self.cursor.next();
                builder.braces |= c == '{';
                builder.text.push(c);
            }
        }
    }

    /// Reads the default in an unquoted `${name:-…}`: words like any others, split by whitespace alone.
    fn default_words(&mut self, builder: &mut Builder, text: &str) {
        let mut reader = self.nested(text, self.depth + 1);
        if reader.too_deep {
            self.too_deep = true;
            builder.known = false;
            return;
        }
        while let Some(c) = reader.cursor.peek() {
            if matches!(c, ' ' | '\t' | '\n') {
                reader.cursor.next();
                builder.cut();
            } else if BRACES.contains(&c) && c != '$' {
                reader.cursor.next();
                builder.push_quoted(c);
            } else {
                reader.part(builder);
            }
        }
        self.merge_nested(&reader);
    }

    fn double_quotes(&mut self, builder: &mut Builder) {
        while let Some(c) = self.cursor.peek() {
            match c {
                '"' => {
                    self.cursor.next();
                    return;
                }
                '\\' => {
                    self.cursor.next();
                    match self.cursor.raw_next() {
                        None => {}
                        Some(c @ ('"' | '\\' | '$' | '`')) => builder.push_quoted(c),
                        Some(c) => {
                            builder.text.push('\\');
                            builder.push_quoted(c);
                        }
                    }
                }
                '$' | '`' => self.expansion(builder, QuoteContext::Quotes),
                c => {
                    self.cursor.next();
                    builder.push_quoted(c);
                }
            }
        }
    }

    /// Expands a text in which only expansions have a meaning: a here-document, or arithmetic.
    pub(super) fn expanded(&mut self, text: &str) -> ShellWord {
        self.expanded_around(text, QuoteContext::Quotes)
    }

    fn expanded_around(&mut self, text: &str, around: QuoteContext) -> ShellWord {
        let mut reader = self.nested(text, self.depth + 1);
        if reader.too_deep {
            self.too_deep = true;
            return ShellWord { text: text.to_owned(), ..ShellWord::default() };
        }
        let mut builder = Builder::new();
        let mut single = false;
        while let Some(c) = reader.cursor.peek() {
            match c {
                // Within single quotes `$'` opens nothing, though other expansions continue.
                '\'' if around == QuoteContext::Nested => {
                    single = !single;
                    reader.cursor.next();
                    builder.text.push(c);
                }
                '$' | '`' => {
                    reader.expansion(&mut builder, if single { QuoteContext::Quotes } else { around });
                }
                '"' if around == QuoteContext::Nested => {
                    reader.cursor.next();
                    reader.double_quotes(&mut builder);
                }
                '\\' => {
                    reader.cursor.next();
                    match reader.cursor.raw_next() {
                        Some(c @ ('$' | '`' | '\\')) => builder.text.push(c),
                        Some(c) => builder.text.extend(['\\', c]),
                        None => builder.text.push('\\'),
                    }
                }
                c => {
                    reader.cursor.next();
                    builder.text.push(c);
                }
            }
        }
        self.merge_nested(&reader);
        builder.quoted = true;
        builder.cut();
        builder.done.pop().unwrap_or_default()
    }

    fn expansion(&mut self, builder: &mut Builder, around: QuoteContext) {
        if self.cursor.next() == Some('`') {
            let text = self.backticks();
            // Within quotes the backslash before a quote is removed before the commands are parsed.
            let text = if around == QuoteContext::Nothing { text } else { text.replace("\\\"", "\"") };
            let mut reader = self.nested(&text, self.depth);
            let script = reader.read_all();
            self.merge_nested(&reader);
            return substitute(builder, script, around, &self.separators);
        }
        match self.cursor.peek() {
            Some('\'') if around != QuoteContext::Quotes => {
                self.cursor.next();
                builder.open_quotes();
                for c in ansi_c(&mut self.cursor).chars() {
                    builder.push_quoted(c);
                }
            }
            Some('"') if around != QuoteContext::Quotes => {}
            Some('(') => {
                self.cursor.next();
                self.parenthesized(builder, around);
            }
            Some('[') => {
                self.cursor.next();
                let text = self.read_bracketed(BracketKind::OldArithmetic);
                // Where this old form ends depends on the release of bash once anything is opened in it.
                self.ambiguous |= text.contains(['[', '(', '{', '\'', '"', '`']);
                self.compute(builder, text);
            }
            Some('{') => {
                self.cursor.next();
                let inside = self.read_bracketed(BracketKind::Parameter);
                // Within quotes and commands a continued line may not be one; they are parsed again, and handle it
                // themselves.
                let plain = !inside.contains(['\'', '"', '`', '(']);
                let inside = if plain { inside.replace("\\\n", "") } else { inside.to_owned() };
                self.parameter_value(builder, &inside, around);
            }
            Some(c) if c == '_' || c.is_ascii_alphabetic() => {
                let mut name = String::new();
                while let Some(c) = self.cursor.next_if(|c| c == '_' || c.is_ascii_alphanumeric()) {
                    name.push(c);
                }
                self.value(builder, &name, around);
            }
            Some(c @ ('1'..='9' | '@' | '*')) if self.variables.contains(POSITIONAL) => {
                self.cursor.next();
                self.positional(builder, c, around);
            }
            Some(c @ ('0'..='9' | '@' | '*' | '#' | '?' | '!' | '-' | '$')) => {
                self.cursor.next();
                builder.text.extend(['$', c]);
                builder.known = false;
            }
            _ => builder.text.push('$'),
        }
    }

    /// Parses `$(…)` or `$((…))`; the first parenthesis has been read.
    fn parenthesized(&mut self, builder: &mut Builder, around: QuoteContext) {
        if self.cursor.peek() == Some('(') {
            let text = self.read_bracketed(BracketKind::Parentheses);
            let computes = is_arithmetic(text);
            // Braces around it make bash read a copy, in which a continued line has become two.
            self.ambiguous |= computes && text.contains("\\\n") && text.contains(['(', '`']);
            if computes {
                self.compute(builder, text);
            }
            // Quotes and line breaks do not belong in a number: bash may take it for commands all the same.
            if computes && !text.contains(['\'', '"', '\n', ';']) {
                return;
            }
            // `$((…) …)`: commands in a group. Bash looks for the end of arithmetic first, with other rules for quotes.
            self.ambiguous |= !computes && text.contains(['\'', '"', '`', '\\', '#']);
            let mut reader = self.nested(text, self.depth);
            let script = reader.read_all();
            self.merge_nested(&reader);
            return substitute(builder, script, around, &self.separators);
        }
        let script = self.substitution();
        substitute(builder, script, around, &self.separators);
    }

    fn compute(&mut self, builder: &mut Builder, text: &str) {
        builder.inner.extend(inner_scripts(self.computed(text)));
        builder.text.push_str("$((0))");
        builder.known = false;
    }

    fn parameter_value(&mut self, builder: &mut Builder, inside: &str, around: QuoteContext) {
        // `${!name}`: an indirect reference.
        let named = inside.strip_prefix('!').and_then(|name| self.variables.get(name)?.first().cloned());
        let inside = named.as_deref().unwrap_or(inside);
        let is_special = |c: &char| matches!(c, '-' | '?' | '$' | '!' | '@' | '*');
        let name: String = match inside.chars().next().filter(is_special) {
            Some(special) => special.to_string(),
            None => inside.chars().take_while(|c| *c == '_' || c.is_ascii_alphanumeric()).collect(),
        };
        let operation: String = inside.chars().skip(name.chars().count()).collect();
        if let Some(other) = operation.strip_prefix(":+").or_else(|| operation.strip_prefix('+')) {
            return self.alternative(builder, &name, &operation, other, around);
        }
        if operation.is_empty() || name == "IFS" || name == "HOME" {
            if operation.is_empty() && name != "IFS" && !self.variables.contains(&name) {
                builder.text.extend(["${", name.as_str(), "}"]);
                builder.known = false;
                return;
            }
            return self.value(builder, &name, around);
        }
        let known = self.variables.get(&name).cloned();
        // An empty value is replaced by what follows `:-`.
        let known = known.filter(|values| {
            !operation.starts_with([':']) || values.first().is_some_and(|first| !first.is_empty())
        });
        if let Some(values) = known {
            let index = operation.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
            match index {
                Some("@" | "*") => return self.put(builder, &values, around),
                Some(index) => {
                    let value = index.parse().ok().and_then(|at: usize| values.get(at).cloned());
                    builder.inner.extend(inner_scripts(self.computed(index)));
                    return self.put(builder, &value.map_or(values, |value| vec![value]), around);
                }
                None if operation == "@P" => {
                    // The value is expanded once more, as a prompt would be.
                    let word = self.expanded(&values.join(" "));
                    builder.inner.extend(word.inner);
                    builder.known = false;
                    return self.put(builder, &[word.text], around);
                }
                None if operation.starts_with([':', '-', '=', '?']) => {
                    let part = values.first().and_then(|value| part_of(value, &operation));
                    builder.inner.extend(inner_scripts(self.computed(&operation)));
                    return self.put(builder, &part.map_or(values, |part| vec![part]), around);
                }
                None => {
                    if let Some(text) = values.first().and_then(|value| changed(value, &operation)) {
                        return self.put(builder, &[text], around);
                    }
                    // The command has set the value, and changes it in a way that is not followed here.
                    builder.hidden = true;
                }
            }
        } else if operation == "@P" {
            builder.hidden = true;
        }
        // These are always set.
        let is_set = matches!(name.as_str(), "-" | "?" | "$" | "0");
        let default = [":-", ":=", "-", "="].iter().find_map(|sign| operation.strip_prefix(sign));
        let default = default.filter(|_| !is_set);
        if let Some(default) =
            default.filter(|_| operation.starts_with([':', '=']) && !operation.starts_with(":-"))
        {
            let mut value = Builder::new();
            self.put_text(&mut value, default, around);
            value.cut();
            if value.done.iter().all(|word| word.known) {
                let texts: Vec<&str> = value.done.iter().map(|word| word.text.as_str()).collect();
                self.variables.set(&name, vec![texts.join(" ")], AssignmentReach::Possible);
            }
        }
        match default {
            // The default for an unset variable may itself run something.
            Some(default) if !default.is_empty() => self.put_text(builder, default, around),
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

    /// Adds the value of `${name:+other}`: `other` if the variable is set, and not empty.
    fn alternative(
        &mut self,
        builder: &mut Builder,
        name: &str,
        operation: &str,
        other: &str,
        around: QuoteContext,
    ) {
        let first = self.variables.get(name).map(|values| values.first().cloned().unwrap_or_default());
        match first {
            Some(value) if value.is_empty() && operation.starts_with(':') => {
                builder.quoted |= around != QuoteContext::Nothing;
            }
            Some(_) => self.put_text(builder, other, around),
            // Without the variable nothing is left, and the next word may name the command.
            None => {
                self.put_text(builder, other, around);
                builder.hidden = true;
                builder.known = false;
            }
        }
    }

    /// Adds a text within `${…}`, expanded.
    fn put_text(&mut self, builder: &mut Builder, text: &str, around: QuoteContext) {
        if around == QuoteContext::Nothing {
            return self.default_words(builder, text);
        }
        // What the escapes of `$'…'` stand for is expanded once more here, and releases of bash disagree about how.
        let escapes = text.split_once("$'").map(|(_, escapes)| escapes);
        self.ambiguous |= escapes.is_some_and(|text| text.contains(['$', '}', '`', '\\']));
        // Inner quotes have a meaning again.
        let word = self.expanded_around(text, QuoteContext::Nested);
        builder.text.push_str(&word.text);
        builder.inner.extend(word.inner);
        builder.known &= word.known;
    }

    fn value(&mut self, builder: &mut Builder, name: &str, around: QuoteContext) {
        if name == "IFS" && around == QuoteContext::Nothing {
            builder.cut();
            return;
        }
        // The name of a list alone stands for its first value.
        if let Some(value) =
            self.variables.get(name).map(|values| values.first().cloned().unwrap_or_default())
        {
            return self.put(builder, &[value], around);
        }
        builder.text.push('$');
        builder.text.push_str(name);
        builder.known = false;
    }

    /// Adds a word of `set --`, or all of them. The caller has checked that there are some.
    fn positional(&mut self, builder: &mut Builder, which: char, around: QuoteContext) {
        let values = self.variables.get(POSITIONAL).cloned().unwrap_or_default();
        match which.to_digit(10) {
            Some(at) => {
                let value = values.into_iter().nth((at as usize).saturating_sub(1)).unwrap_or_default();
                self.put(builder, &[value], around);
            }
            None => self.put(builder, &values, around),
        }
    }

    /// Adds the values of a variable; those of a list are separate words.
    fn put(&mut self, builder: &mut Builder, values: &[String], around: QuoteContext) {
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
                QuoteContext::Nothing => builder.split_in(value, &self.separators),
                QuoteContext::Quotes | QuoteContext::Nested => {
                    builder.text.push_str(value);
                    builder.quoted = true;
                }
            }
        }
    }

    /// Tells whether the `<` or `>` that comes next opens `<(…)` or `>(…)`.
    pub(super) fn opens_file(&self) -> bool {
        let mut ahead = self.cursor;
        ahead.next();
        ahead.peek() == Some('(')
    }

    /// Parses `<(…)` or `>(…)`; the sign has been read.
    pub(super) fn file_substitution(&mut self, sign: char) -> ShellWord {
        self.cursor.next();
        let script = if self.depth > DEEPEST { ShellScript::default() } else { self.substitution() };
        let kind = if sign == '>' { Substitution::Sink } else { Substitution::File };
        ShellWord {
            text: "/dev/fd/63".to_owned(),
            inner: vec![NestedScript { script, kind }],
            ..ShellWord::default()
        }
    }
}

/// Returns the commands that run while a word is evaluated.
fn inner_scripts(word: Option<ShellWord>) -> Vec<NestedScript> {
    word.map(|word| word.inner).unwrap_or_default()
}

fn substitute(builder: &mut Builder, script: ShellScript, around: QuoteContext, separators: &str) {
    if let Some(output) = output_of(&script) {
        match around {
            QuoteContext::Nothing => builder.split_in(&output, separators),
            QuoteContext::Quotes | QuoteContext::Nested => builder.text.push_str(&output),
        }
    } else {
        builder.text.push_str("$()");
        builder.known = false;
    }
    builder.inner.push(NestedScript { script, kind: Substitution::Output });
}

/// Applies an operation to a value: `${name/this/that}`, `${name,,}`, `${name#this}` and similar. Patterns are
/// taken literally; returns `None` where that would be wrong.
fn changed(value: &str, operation: &str) -> Option<String> {
    let plain = |pattern: &str| !pattern.contains(['*', '?', '[', '$', '`', '\\', '(']);
    let first = |up: bool| {
        let mut chars = value.chars();
        let first = chars.next().map(|c| if up { c.to_ascii_uppercase() } else { c.to_ascii_lowercase() });
        first.into_iter().chain(chars).collect()
    };
    match operation {
        ",," | "@L" => return Some(value.to_lowercase()),
        "^^" | "@U" => return Some(value.to_uppercase()),
        "," => return Some(first(false)),
        "^" | "@u" => return Some(first(true)),
        "@E" => return Some(unescape(value, ZeroEscape::Digit)),
        "@Q" | "@A" | "@a" | "@k" | "@K" => return Some(value.to_owned()),
        _ => {}
    }
    if let Some(pattern) = operation.strip_prefix('#') {
        let pattern = pattern.strip_prefix('#').unwrap_or(pattern);
        return plain(pattern).then(|| value.strip_prefix(pattern).unwrap_or(value).to_owned());
    }
    if let Some(pattern) = operation.strip_prefix('%') {
        let pattern = pattern.strip_prefix('%').unwrap_or(pattern);
        return plain(pattern).then(|| value.strip_suffix(pattern).unwrap_or(value).to_owned());
    }
    let rest = operation.strip_prefix('/')?;
    let rest = rest.strip_prefix('/').unwrap_or(rest);
    let (this, that) = rest.split_once('/').unwrap_or((rest, ""));
    let followed = !this.is_empty() && plain(this) && plain(that) && that.len() <= 16;
    followed.then(|| value.replace(this, that))
}

/// Returns the characters that `${name:from:count}` selects.
fn part_of(value: &str, operation: &str) -> Option<String> {
    let (from, count) = match operation.strip_prefix(':')?.split_once(':') {
        Some((from, count)) => (from, count.trim().parse().ok()?),
        None => (operation.strip_prefix(':')?, usize::MAX),
    };
    Some(value.chars().skip(from.trim().parse().ok()?).take(count).collect())
}
