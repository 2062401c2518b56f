//! The laws about names: a type that others see has a name of its own, and no type does everything.
//!
//! Both count what a search of the sources finds. Numbers that are too high today stand in `names.txt` and may only fall.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::{Context, Result};

use crate::lengths::source_files;

/// Names that mean the same in every crate.
const SHARED_NAMES: [&str; 3] = ["Error", "Config", "Result"];
/// More methods than a reader can hold in mind.
const MAX_METHODS: usize = 30;
/// Types that are a crate's front door and nothing else.
const FACADES: [&str; 1] = ["Store"];

const ALLOWED: &str = include_str!("../names.txt");

/// Returns every breach, as a sentence each.
pub(crate) fn check(crates: &Path) -> Result<Vec<String>> {
    let mut names = Names::default();
    for file in source_files(crates)? {
        let text = std::fs::read_to_string(&file).with_context(|| file.display().to_string())?;
        let place = file.strip_prefix(crates).unwrap_or(&file);
        let owner = place.iter().next().map(|part| part.to_string_lossy().into_owned()).unwrap_or_default();
        names.read(&owner, &place.display().to_string(), &text);
    }
    Ok(names.judge(&allowed(ALLOWED)?))
}

/// What the sources declare.
#[derive(Debug, Default)]
struct Names {
    /// Where each visible type is declared.
    types: BTreeMap<String, BTreeSet<String>>,
    /// How many functions stand in `impl` blocks of a type, by crate and type.
    methods: BTreeMap<(String, String), usize>,
}

/// Exceptions of today: how many types share a name, and how many methods a type has.
#[derive(Debug, Default)]
struct Allowed {
    homonyms: usize,
    methods: BTreeMap<String, usize>,
}

fn allowed(text: &str) -> Result<Allowed> {
    let mut allowed = Allowed::default();
    for line in text.lines().filter(|line| !line.starts_with('#') && !line.trim().is_empty()) {
        let (name, number) = line.rsplit_once(' ').with_context(|| format!("names.txt: {line}"))?;
        let number = number.parse().with_context(|| format!("names.txt: {line}"))?;
        match name.trim() {
            "homonyms" => allowed.homonyms = number,
            name => drop(allowed.methods.insert(name.to_owned(), number)),
        }
    }
    Ok(allowed)
}

impl Names {
    fn read(&mut self, owner: &str, place: &str, text: &str) {
        let mut block: Option<String> = None;
        for line in text.lines().take_while(|line| *line != "#[cfg(test)]") {
            if let Some(name) = visible_type(line) {
                self.types.entry(name.to_owned()).or_default().insert(place.to_owned());
            }
            if line.starts_with("impl") {
                block = inherent_impl(line).map(str::to_owned);
            } else if line == "}" {
                block = None;
            } else if let Some(name) = &block
                && is_method(line)
            {
                *self.methods.entry((owner.to_owned(), name.clone())).or_default() += 1;
            }
        }
    }

    fn judge(&self, allowed: &Allowed) -> Vec<String> {
        let mut breaches = Vec::new();
        let shared: Vec<(&String, &BTreeSet<String>)> = self
            .types
            .iter()
            .filter(|(name, places)| places.len() > 1 && !SHARED_NAMES.contains(&name.as_str()))
            .collect();
        if shared.len() > allowed.homonyms {
            let list: Vec<String> =
                shared.iter().map(|(name, places)| format!("{name} {places:?}")).collect();
            breaches.push(format!(
                "{} names are shared by several types, more than {}: {}",
                shared.len(),
                allowed.homonyms,
                list.join("; ")
            ));
        }
        for ((owner, name), count) in &self.methods {
            let most = match allowed.methods.get(&format!("{owner} {name}")) {
                Some(most) => *most,
                None if FACADES.contains(&name.as_str()) => usize::MAX,
                None => MAX_METHODS,
            };
            if *count > most {
                breaches.push(format!("{owner}: {name} has {count} methods, more than {most}"));
            }
        }
        breaches
    }
}

/// Returns the name a line declares for others to use.
fn visible_type(line: &str) -> Option<&str> {
    let rest = line.strip_prefix("pub")?;
    let rest = match rest.strip_prefix('(') {
        Some(rest) => rest.split_once(") ")?.1,
        None => rest.strip_prefix(' ')?,
    };
    let rest = ["struct ", "enum ", "trait "].iter().find_map(|word| rest.strip_prefix(word))?;
    rest.split(|c: char| !c.is_alphanumeric() && c != '_').next().filter(|name| !name.is_empty())
}

/// Returns the type of an `impl` block that implements no trait.
fn inherent_impl(line: &str) -> Option<&str> {
    let rest = line.strip_prefix("impl")?;
    if line.contains(" for ") {
        return None;
    }
    let rest = match rest.strip_prefix('<') {
        Some(generics) => generics.split_once("> ")?.1,
        None => rest.trim_start(),
    };
    rest.split(|c: char| !c.is_alphanumeric() && c != '_').next().filter(|name| !name.is_empty())
}

fn is_method(line: &str) -> bool {
    let Some(line) = line.strip_prefix("    ").filter(|line| !line.starts_with(' ')) else { return false };
    let line = ["pub(crate) ", "pub(super) ", "pub "]
        .iter()
        .find_map(|word| line.strip_prefix(word))
        .unwrap_or(line);
    let line = ["const ", "async "].iter().find_map(|word| line.strip_prefix(word)).unwrap_or(line);
    line.starts_with("fn ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_workspace_keeps_its_names_apart() {
        let breaches = check(&crate::workspace::root().join("crates")).unwrap();
        assert!(breaches.is_empty(), "{breaches:#?}");
    }

    #[test]
    fn shared_names_are_found() {
        let mut names = Names::default();
        names.read(
            "a",
            "a/src/x.rs",
            "pub struct Row {\n}\npub(crate) enum Kind {}\npub struct Error;\nstruct Hidden;\n",
        );
        names.read(
            "b",
            "b/src/y.rs",
            "pub(super) struct Row<'a>(&'a str);\npub struct Error;\nstruct Hidden;\n",
        );
        assert_eq!(names.judge(&Allowed::default()).len(), 1);
        let more = Allowed { homonyms: 1, ..Allowed::default() };
        assert!(names.judge(&more).is_empty());
    }

    #[test]
    fn types_with_too_many_methods_are_found_unless_they_are_facades() {
        let body =
            "    pub fn f(&self) {}\n    pub(crate) async fn g(&self) {\n        fn inner() {}\n    }\n"
                .repeat(16);
        let text =
            |name: &str| format!("impl<'a> {name}<'a> {{\n{body}}}\nimpl Clone for {name} {{\n{body}}}\n");
        let mut names = Names::default();
        names.read("a", "a/src/x.rs", &text("Everything"));
        names.read("a", "a/src/y.rs", &text("Store"));
        let breaches = names.judge(&Allowed::default());
        assert_eq!(breaches, ["a: Everything has 32 methods, more than 30"]);
    }
}
