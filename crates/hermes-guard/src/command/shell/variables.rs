//! The values of variables: plain assignments, lists, `read`, `printf -v`, `set --`, the words of a loop.
//!
//! A variable must not hide its value from the judge. Only what is written in the command itself is known.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::rc::Rc;

use super::parse::ShellParser;
use super::print::{formatted, output_of, printed};
use super::{Direction, PipelineStage, ShellWord};

const LONGEST_VALUE: usize = 1_000;
const MOST_VARIABLES: usize = 200;

/// The values of variables: one, or those of a list. Nested texts share the values until one changes them.
///
/// What a variable holds where it is used depends on which assignments are reached. An assignment behind `&&`, in a
/// loop, a group or a function leaves its variable open: every value it was ever given is judged, and so is an
/// unknown one.
#[derive(Debug, Clone)]
pub(crate) struct ShellVariables {
    values: Rc<HashMap<String, Vec<String>>>,
    /// What each variable has held anywhere in the text. All copies share it.
    history: Rc<RefCell<BTreeMap<String, VariableHistory>>>,
    /// The variables whose value is chosen for this judgement, whatever is assigned to them.
    chosen: Rc<HashSet<String>>,
}

#[derive(Debug, Default)]
struct VariableHistory {
    values: Vec<Vec<String>>,
    open: bool,
    used: bool,
}

/// Tells whether an assignment is certainly reached, and lasts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AssignmentReach {
    Certain,
    Possible,
}

impl Default for ShellVariables {
    fn default() -> Self {
        Self {
            values: Rc::new(HashMap::from([("HOME".to_owned(), vec!["~".to_owned()])])),
            history: Rc::default(),
            chosen: Rc::default(),
        }
    }
}

impl ShellVariables {
    pub(super) fn get(&self, name: &str) -> Option<&Vec<String>> {
        if let Some(history) = self.history.borrow_mut().get_mut(name) {
            history.used = true;
        }
        self.values.get(name)
    }

    pub(super) fn contains(&self, name: &str) -> bool {
        self.values.contains_key(name)
    }

    pub(super) fn set(&mut self, name: &str, values: Vec<String>, reach: AssignmentReach) {
        let length: usize = values.iter().map(|value| value.len() + 1).sum();
        let known = length <= LONGEST_VALUE && (self.contains(name) || self.values.len() < MOST_VARIABLES);
        if !known {
            return self.forget(name);
        }
        if self.chosen.contains(name) {
            return;
        }
        let mut histories = self.history.borrow_mut();
        let history = histories.entry(name.to_owned()).or_default();
        history.open |= reach == AssignmentReach::Possible;
        if !history.open {
            history.values.clear();
        }
        if !history.values.contains(&values) {
            history.values.push(values.clone());
        }
        Rc::make_mut(&mut self.values).insert(name.to_owned(), values);
    }

    /// Records that a variable now holds something unknown, or nothing.
    pub(super) fn forget(&mut self, name: &str) {
        if self.chosen.contains(name) {
            return;
        }
        self.keep_open(name);
        if self.contains(name) {
            Rc::make_mut(&mut self.values).remove(name);
        }
    }

    /// Records that a later assignment may fail: the variable may keep what it holds.
    pub(super) fn keep_open(&mut self, name: &str) {
        if let Some(history) = self.history.borrow_mut().get_mut(name) {
            history.open = true;
        }
    }

    /// Returns a set of variables for each combination of values that the open ones may hold where they are used,
    /// or `None` if there are more than `most`.
    pub(crate) fn combinations(&self, most: usize) -> Option<Vec<Self>> {
        let histories = self.history.borrow();
        let open: Vec<_> = histories.iter().filter(|(_, history)| history.open && history.used).collect();
        let count = open.iter().try_fold(1usize, |count, (_, history)| {
            count.checked_mul(history.values.len() + 1).filter(|count| *count <= most)
        })?;
        if open.is_empty() {
            return Some(Vec::new());
        }
        let chosen = Rc::new(open.iter().map(|(name, _)| (*name).clone()).collect::<HashSet<_>>());
        let combination = |at: usize| {
            let mut variables = Self { chosen: Rc::clone(&chosen), ..Self::default() };
            let values = Rc::make_mut(&mut variables.values);
            let mut rest = at;
            for (name, history) in &open {
                // The last choice, which has no value, stands for an unknown one.
                match history.values.get(rest % (history.values.len() + 1)) {
                    Some(value) => values.insert((*name).clone(), value.clone()),
                    None => values.remove(name.as_str()),
                };
                rest /= history.values.len() + 1;
            }
            variables
        };
        Some((0..count).map(combination).collect())
    }
}

/// The name under which the words of `set --` are stored.
pub(super) const POSITIONAL: &str = "@";

impl ShellParser<'_> {
    /// Records the variables that a command sets. `before` is the stage that feeds it.
    pub(super) fn record_assignments(
        &mut self,
        stage: &PipelineStage,
        before: Option<&PipelineStage>,
        reach: AssignmentReach,
    ) {
        let first = stage.words.first().map(|word| word.text.as_str());
        match first {
            None | Some("export" | "declare" | "local" | "readonly" | "typeset") => {
                let has = |option: char| {
                    let mut options = stage.words.iter().filter(|word| word.text.starts_with('-'));
                    options.any(|word| word.text.contains(option))
                };
                // Another name for a variable: neither name tells what it holds.
                self.ambiguous |= first.is_some() && first != Some("export") && has('n');
                for word in stage.assignments.iter().chain(stage.words.iter().skip(1)) {
                    self.assign(word, reach);
                    if let Some((name, _)) =
                        word.text.split_once('=').filter(|_| first == Some("readonly") || has('r'))
                    {
                        self.variables.keep_open(name);
                    }
                }
            }
            // A loop's variable stands for each of its words; all of them are judged at once.
            Some("for") => {
                if let [_, name, rest @ ..] = stage.words.as_slice() {
                    match rest {
                        [is_in, values @ ..] if is_in.text == "in" => {
                            let values = vec![texts(values).join(" ")];
                            self.variables.set(&name.text, values, AssignmentReach::Possible);
                        }
                        _ => self.variables.forget(&name.text),
                    }
                }
            }
            Some("unset" | "let" | "getopts") => {
                for word in stage.words.iter().skip(1) {
                    let is_part = |c: char| c == '_' || c.is_ascii_alphanumeric();
                    self.variables.forget(word.text.split(|c| !is_part(c)).next().unwrap_or_default());
                }
            }
            Some("read" | "mapfile" | "readarray") => self.read_into(stage, before),
            Some("printf") => {
                if let [option, name, format, values @ ..] =
                    texts(stage.words.get(1..).unwrap_or_default()).as_slice()
                    && *option == "-v"
                {
                    self.variables.set(name, vec![formatted(format, values)], reach);
                }
            }
            Some("set") => {
                if let Some(at) = stage.words.iter().position(|word| word.text == "--") {
                    let values = stage.words.iter().skip(at + 1).map(|word| word.text.clone());
                    self.variables.set(POSITIONAL, values.collect(), reach);
                }
            }
            Some(_) => {}
        }
    }

    fn assign(&mut self, word: &ShellWord, reach: AssignmentReach) {
        let Some((name, value)) = word.text.split_once('=') else { return };
        if !word.known {
            // The values of a list are recorded where they are parsed.
            if !value.is_empty() {
                self.variables.forget(name.trim_end_matches('+'));
            }
            return;
        }
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
            return self.variables.set(name, values, reach);
        }
        self.variables.set(name, vec![value.to_owned()], reach);
    }

    /// Records `name=(…)` and `name+=(…)`.
    pub(super) fn assign_list(&mut self, assigned: &str, mut values: Vec<String>) {
        let name = assigned.trim_end_matches('=');
        if let Some(name) = name.strip_suffix('+') {
            let mut all = self.variables.get(name).cloned().unwrap_or_default();
            all.append(&mut values);
            return self.variables.set(name, all, AssignmentReach::Possible);
        }
        self.variables.set(name, values, AssignmentReach::Possible);
    }

    /// Records `read a b <<< 'rm -rf x'`: each variable gets a word, the last one all the rest.
    fn read_into(&mut self, stage: &PipelineStage, before: Option<&PipelineStage>) {
        let text = stage.redirects.iter().find_map(|redirect| match redirect.direction {
            Direction::Text => Some(redirect.target.text.clone()),
            Direction::In => redirect.target.inner.first().and_then(|inner| output_of(&inner.script)),
            Direction::Out | Direction::Descriptor => None,
        });
        let text = text.or_else(|| printed(&before?.words));
        let names = stage.words.iter().skip(1).map(|word| &word.text);
        let names: Vec<&String> = names.filter(|name| !name.starts_with('-')).collect();
        let Some(text) = text else {
            return names.into_iter().for_each(|name| self.variables.forget(name));
        };
        let mut rest = text.trim();
        for (at, name) in names.iter().enumerate() {
            let (value, left) = match rest.split_once(char::is_whitespace) {
                Some(parts) if at + 1 < names.len() => parts,
                _ => (rest, ""),
            };
            self.variables.set(name, vec![value.to_owned()], AssignmentReach::Possible);
            rest = left.trim_start();
        }
    }
}

fn texts(words: &[ShellWord]) -> Vec<&str> {
    words.iter().map(|word| word.text.as_str()).collect()
}
