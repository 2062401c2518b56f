//! What names stand for: plain assignments, lists, `read`, `printf -v`, `set --`, the words of a loop.
//!
//! A name may not hide what it stands for. Only what is written in the command itself is known.

use super::parse::Reader;
use super::print::{formatted, output_of, printed};
use super::{Direction, Stage, Word};

const LONGEST_VALUE: usize = 1_000;
const MOST_VARIABLES: usize = 200;

/// The name under which the words of `set --` are kept.
pub(super) const POSITIONAL: &str = "@";

impl Reader<'_> {
    pub(super) fn remember(&mut self, name: &str, values: Vec<String>) {
        let length: usize = values.iter().map(|value| value.len() + 1).sum();
        let known = self.variables.contains_key(name);
        if length <= LONGEST_VALUE && (known || self.variables.len() < MOST_VARIABLES) {
            self.variables.insert(name.to_owned(), values);
        }
    }

    /// Remembers what a command makes known. `before` is what feeds it.
    pub(super) fn learn(&mut self, stage: &Stage, before: Option<&Stage>) {
        match stage.words.first().map(|word| word.text.as_str()) {
            None | Some("export" | "declare" | "local" | "readonly" | "typeset") => {
                for word in stage.assignments.iter().chain(stage.words.iter().skip(1)) {
                    self.assign(word);
                }
            }
            // A loop's name stands for each of its words; all of them together are judged at once.
            Some("for") => {
                if let [_, name, is_in, values @ ..] = stage.words.as_slice()
                    && is_in.text == "in"
                {
                    self.remember(&name.text, vec![texts(values).join(" ")]);
                }
            }
            Some("read" | "mapfile" | "readarray") => self.read_into(stage, before),
            Some("printf") => {
                if let [option, name, format, values @ ..] =
                    texts(stage.words.get(1..).unwrap_or_default()).as_slice()
                    && *option == "-v"
                {
                    self.remember(name, vec![formatted(format, values)]);
                }
            }
            Some("set") => {
                if let Some(at) = stage.words.iter().position(|word| word.text == "--") {
                    let values = stage.words.iter().skip(at + 1).map(|word| word.text.clone());
                    self.remember(POSITIONAL, values.collect());
                }
            }
            Some(_) => {}
        }
    }

    fn assign(&mut self, word: &Word) {
        let Some((name, value)) = word.text.split_once('=').filter(|_| word.known) else { return };
        if name == "IFS" {
            // Blanks part words still: a guard would rather see one command too many.
            self.separators = format!(" \t\n{value}");
            return;
        }
        if let Some(name) = name.strip_suffix('+') {
            let mut values = self.variables.get(name).cloned().unwrap_or_default();
            match values.first_mut() {
                Some(first) => first.push_str(value),
                None => values.push(value.to_owned()),
            }
            return self.remember(name, values);
        }
        self.remember(name, vec![value.to_owned()]);
    }

    /// `name=(…)` and `name+=(…)`.
    pub(super) fn assign_list(&mut self, assigned: &str, mut values: Vec<String>) {
        let name = assigned.trim_end_matches('=');
        if let Some(name) = name.strip_suffix('+') {
            let mut all = self.variables.get(name).cloned().unwrap_or_default();
            all.append(&mut values);
            return self.remember(name, all);
        }
        self.remember(name, values);
    }

    /// `read a b <<< 'rm -rf x'`: each name gets a word, the last one all the rest.
    fn read_into(&mut self, stage: &Stage, before: Option<&Stage>) {
        let text = stage.redirects.iter().find_map(|redirect| match redirect.direction {
            Direction::Text => Some(redirect.target.text.clone()),
            Direction::In => redirect.target.inner.first().and_then(|inner| output_of(&inner.script)),
            Direction::Out | Direction::Descriptor => None,
        });
        let text = text.or_else(|| printed(&before?.words));
        let Some(text) = text else { return };
        let names: Vec<String> = stage.words.iter().skip(1).map(|word| word.text.clone()).collect();
        let names: Vec<&String> = names.iter().filter(|name| !name.starts_with('-')).collect();
        let mut rest = text.trim();
        for (at, name) in names.iter().enumerate() {
            let (value, left) = match rest.split_once(char::is_whitespace) {
                Some(parts) if at + 1 < names.len() => parts,
                _ => (rest, ""),
            };
            self.remember(name, vec![value.to_owned()]);
            rest = left.trim_start();
        }
    }
}

fn texts(words: &[Word]) -> Vec<&str> {
    words.iter().map(|word| word.text.as_str()).collect()
}
