//! The values of variables: plain assignments, lists, `read`, `printf -v`, `set --`, the words of a loop.
//!
//! A variable must not hide its value from the judge. Only what is written in the command itself is known.

use std::collections::HashMap;
use std::rc::Rc;

use super::parse::ShellParser;
use super::print::{formatted, output_of, printed};
use super::{Direction, PipelineStage, ShellWord};

const LONGEST_VALUE: usize = 1_000;
const MOST_VARIABLES: usize = 200;

/// The values of variables: one, or those of a list. Nested texts share the map until one changes it.
#[derive(Debug, Clone)]
pub(crate) struct ShellVariables(Rc<HashMap<String, Vec<String>>>);

impl Default for ShellVariables {
    fn default() -> Self {
        Self(Rc::new(HashMap::from([("HOME".to_owned(), vec!["~".to_owned()])])))
    }
}

impl ShellVariables {
    pub(super) fn get(&self, name: &str) -> Option<&Vec<String>> {
        self.0.get(name)
    }

    pub(super) fn contains(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    pub(super) fn set(&mut self, name: &str, values: Vec<String>) {
        let length: usize = values.iter().map(|value| value.len() + 1).sum();
        if length <= LONGEST_VALUE && (self.contains(name) || self.0.len() < MOST_VARIABLES) {
            Rc::make_mut(&mut self.0).insert(name.to_owned(), values);
        }
    }
}

/// The name under which the words of `set --` are stored.
pub(super) const POSITIONAL: &str = "@";

impl ShellParser<'_> {
    /// Records the variables that a command sets. `before` is the stage that feeds it.
    pub(super) fn record_assignments(&mut self, stage: &PipelineStage, before: Option<&PipelineStage>) {
        match stage.words.first().map(|word| word.text.as_str()) {
            None | Some("export" | "declare" | "local" | "readonly" | "typeset") => {
                for word in stage.assignments.iter().chain(stage.words.iter().skip(1)) {
                    self.assign(word);
                }
            }
            // A loop's variable stands for each of its words; all of them are judged at once.
            Some("for") => {
                if let [_, name, is_in, values @ ..] = stage.words.as_slice()
                    && is_in.text == "in"
                {
                    self.variables.set(&name.text, vec![texts(values).join(" ")]);
                }
            }
            Some("read" | "mapfile" | "readarray") => self.read_into(stage, before),
            Some("printf") => {
                if let [option, name, format, values @ ..] =
                    texts(stage.words.get(1..).unwrap_or_default()).as_slice()
                    && *option == "-v"
                {
                    self.variables.set(name, vec![formatted(format, values)]);
                }
            }
            Some("set") => {
                if let Some(at) = stage.words.iter().position(|word| word.text == "--") {
                    let values = stage.words.iter().skip(at + 1).map(|word| word.text.clone());
                    self.variables.set(POSITIONAL, values.collect());
                }
            }
            Some(_) => {}
        }
    }

    fn assign(&mut self, word: &ShellWord) {
        let Some((name, value)) = word.text.split_once('=').filter(|_| word.known) else { return };
        if name == "IFS" {
            // Whitespace still splits words: seeing one command too many is safer than missing one.
            self.separators = format!(" \t\n{value}");
            return;
        }
        if let Some(name) = name.strip_suffix('+') {
            let mut values = self.variables.get(name).cloned().unwrap_or_default();
            match values.first_mut() {
                Some(first) => first.push_str(value),
                None => values.push(value.to_owned()),
            }
            return self.variables.set(name, values);
        }
        self.variables.set(name, vec![value.to_owned()]);
    }

    /// Records `name=(…)` and `name+=(…)`.
    pub(super) fn assign_list(&mut self, assigned: &str, mut values: Vec<String>) {
        let name = assigned.trim_end_matches('=');
        if let Some(name) = name.strip_suffix('+') {
            let mut all = self.variables.get(name).cloned().unwrap_or_default();
            all.append(&mut values);
            return self.variables.set(name, all);
        }
        self.variables.set(name, values);
    }

    /// Records `read a b <<< 'rm -rf x'`: each variable gets a word, the last one all the rest.
    fn read_into(&mut self, stage: &PipelineStage, before: Option<&PipelineStage>) {
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
            self.variables.set(name, vec![value.to_owned()]);
            rest = left.trim_start();
        }
    }
}

fn texts(words: &[ShellWord]) -> Vec<&str> {
    words.iter().map(|word| word.text.as_str()).collect()
}
