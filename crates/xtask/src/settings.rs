//! Checks the tables of keys and variables: those marked as used are read by code, and those marked as only kept
//! are not.
//!
//! Reads the sources as text. A key is read where its path is a literal, where a literal with a placeholder matches
//! it (`platforms.{name}.token`), or where its section and its name are in the same file.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use hermes_config::env::variables;
use hermes_config::keys::{self, Support};

use crate::workspace;

/// The files in which reading a setting does not count as use: tables, writers, and lists of settings.
const NOT_ACTING: &[&str] = &[
    "hermes-config/src/keys/",
    "hermes-config/src/env/variables.rs",
    "hermes-config/src/env/bridge.rs",
    "hermes-config/src/set.rs",
    "hermes-config/src/save.rs",
    "hermes-config/src/migrate.rs",
    "hermes-config/src/secrets.rs",
    "hermes-exec/",
    // The file of `hermes compress` has keys of the same names.
    "hermes-research/src/compress/config.rs",
    "hermes-testkit/",
    "hermes/src/command/config.rs",
    // It says which memory service is used, and takes the setting away.
    "hermes/src/command/memory.rs",
    "xtask/",
];

/// The folder of the settings structures. A setting that is only parsed into an unused field does not count as
/// used.
const STRUCTURES: &str = "hermes-config/src/settings/";

struct Source {
    path: String,
    text: String,
    literals: BTreeSet<String>,
}

fn sources(wanted: impl Fn(&str) -> bool) -> Vec<Source> {
    let root = workspace::root().join("crates");
    let mut files = Vec::new();
    for krate in fs::read_dir(&root).expect("the crates").flatten() {
        collect(&krate.path().join("src"), &mut files);
    }
    let read = |path: PathBuf| {
        let name = path.strip_prefix(&root).expect("a crate").to_string_lossy().into_owned();
        let is_test = name.ends_with("/tests.rs") || name.contains("/tests/");
        if is_test || !wanted(&name) {
            return None;
        }
        let text = fs::read_to_string(&path).expect("a source");
        let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
        let lines: Vec<&str> = text.lines().filter(|line| !line.trim_start().starts_with("//")).collect();
        let text = lines.join("\n");
        let literals = text.split('"').skip(1).step_by(2).map(str::to_owned).collect();
        Some(Source { path: name, text, literals })
    };
    files.into_iter().filter_map(read).collect()
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            collect(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
}

fn acting() -> Vec<Source> {
    sources(|name| !NOT_ACTING.iter().any(|start| name.starts_with(start)))
}

/// Tells whether a literal is the path, or one below it, with placeholders for some segments. Returns the segments
/// they stand for.
fn gaps<'a>(literal: &str, segments: &[&'a str]) -> Option<Vec<&'a str>> {
    let own: Vec<&str> = literal.split('.').collect();
    if own.len() < segments.len() || !literal.contains('.') {
        return None;
    }
    let mut filled = Vec::new();
    for (own, wanted) in own.iter().zip(segments) {
        match (own.starts_with('{'), *wanted) {
            (true, "*") => {}
            (true, wanted) => filled.push(wanted),
            (false, wanted) if *own == wanted => {}
            (false, _) => return None,
        }
    }
    Some(filled)
}

fn is_read(path: &str, sources: &[Source], bridged: &[(String, String)]) -> bool {
    let segments: Vec<&str> = path.split('.').collect();
    let exact = |source: &Source| source.literals.contains(path) && is_looked_at(path, source, sources);
    let with_gaps = |source: &Source| {
        source.literals.iter().filter(|literal| literal.contains('{')).any(|literal| {
            gaps(literal, &segments).is_some_and(|filled| {
                filled.iter().all(|name| sources.iter().any(|source| source.literals.contains(*name)))
            })
        })
    };
    let by_section = |source: &Source| {
        (1..segments.len()).any(|length| {
            let (section, rest) = segments.split_at(length);
            let is_section = |literal: &String| {
                *literal == section.join(".")
                    || gaps(literal, section).is_some_and(|filled| filled.is_empty())
            };
            let stands = |name: &str| {
                source
                    .literals
                    .iter()
                    .any(|literal| literal == name || literal.ends_with(&format!("}}.{name}")))
            };
            source.text.contains("onfig")
                && source.literals.iter().any(is_section)
                && rest.iter().filter(|name| **name != "*").all(|name| stands(name))
        })
    };
    let by_variable = || {
        let name = bridged.iter().find(|(key, _)| key == path).map(|(_, name)| name);
        name.is_some_and(|name| sources.iter().any(|source| source.literals.contains(name)))
    };
    sources.iter().any(|source| exact(source) || with_gaps(source) || by_section(source)) || by_variable()
}

/// Tells whether another crate names the field of a structure.
fn is_looked_at(path: &str, source: &Source, sources: &[Source]) -> bool {
    if !source.path.starts_with(STRUCTURES) {
        return true;
    }
    let before = source.text.split(&format!("\"{path}\"")).next().unwrap_or_default();
    let field = before.lines().rev().find_map(|line| {
        let (name, _) = line.trim_start().split_once(": ")?;
        name.chars().all(|c| c.is_ascii_lowercase() || c == '_').then_some(name)
    });
    let Some(field) = field else { return true };
    let elsewhere = |other: &Source| !other.path.starts_with("hermes-config/") && names(&other.text, field);
    sources.iter().any(elsewhere)
}

fn names(text: &str, word: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    text.match_indices(word).any(|(at, _)| {
        let before = text.get(..at).and_then(|before| before.chars().next_back());
        let after = text.get(at + word.len()..).and_then(|after| after.chars().next());
        before == Some('.') && !after.is_some_and(is_part)
    })
}

/// Returns the keys that become variables.
fn bridged() -> Vec<(String, String)> {
    let bridge = sources(|name| name == "hermes-config/src/env/bridge.rs");
    let text = bridge.iter().map(|source| source.text.as_str()).collect::<String>();
    let mut pairs = Vec::new();
    for part in text.split("(\"").skip(1) {
        let mut words = part.split('"');
        if let (Some(key), Some(", "), Some(name)) = (words.next(), words.next(), words.next()) {
            pairs.push((key.to_owned(), name.to_owned()));
        }
    }
    pairs
}

/// Tells whether a path is a section of a chat platform, whose keys become variables of the same name.
fn is_platform_section(path: &str) -> bool {
    path.split_once('.').is_some_and(|(section, _)| ["telegram", "discord", "slack"].contains(&section))
}

#[test]
fn keys_are_acted_on_exactly_where_the_table_says_so() {
    let (sources, bridged) = (acting(), bridged());
    let mut wrong = Vec::new();
    for spec in keys::all() {
        match spec.support {
            // Only the migration reads the version.
            Support::ActedOn if is_platform_section(spec.path) || spec.path == "_config_version" => {}
            Support::ActedOn if !is_read(spec.path, &sources, &bridged) => {
                wrong.push(format!("{} is said to be acted on, and nothing reads it", spec.path));
            }
            Support::ActedOn => {}
            // A single word may occur for other reasons; a path does not.
            Support::Kept => {
                let reads = |source: &&Source| {
                    source.literals.contains(spec.path) && is_looked_at(spec.path, source, &sources)
                };
                if let Some(source) = sources.iter().filter(|_| spec.path.contains('.')).find(reads) {
                    wrong
                        .push(format!("{} is said to be kept only, and {} reads it", spec.path, source.path));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn variables_are_acted_on_exactly_where_the_table_says_so() {
    let sources = sources(|name| {
        ![
            "hermes-config/src/env/",
            "hermes-config/src/set.rs",
            "hermes-config/src/migrate.rs",
            "hermes-config/src/secrets.rs",
        ]
        .iter()
        .chain(&[
            "hermes-exec/src/variable_blocklist.rs",
            "hermes-types/src/platform.rs",
            // It writes what other releases use, too.
            "hermes/src/command/claw/",
            "hermes-testkit/",
            "xtask/",
        ])
        .any(|start| name.starts_with(start))
            || name == "hermes-config/src/env/mod.rs"
    });
    let bridged = sources_of_bridge();
    let mut wrong = Vec::new();
    for variable in variables::all() {
        let exact = sources.iter().find(|source| source.literals.contains(variable.name));
        let with_gap = || {
            sources.iter().flat_map(|source| &source.literals).any(|literal| {
                let (Some((start, _)), Some((_, end))) = (literal.split_once('{'), literal.rsplit_once('}'))
                else {
                    return false;
                };
                let is_name = |text: &str| text.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_');
                let is_part = is_name(start) && is_name(end) && start.len() + end.len() > 3;
                is_part && variable.name.starts_with(start) && variable.name.ends_with(end)
            })
        };
        match (variable.support, exact) {
            (Support::ActedOn, None) if !with_gap() && !bridged.contains(variable.name) => {
                wrong.push(format!("{} is said to be acted on, and nothing reads it", variable.name));
            }
            (Support::Kept, Some(source)) => {
                wrong
                    .push(format!("{} is said to be kept only, and {} reads it", variable.name, source.path));
            }
            _ => {}
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Returns the variables the bridge itself uses.
fn sources_of_bridge() -> BTreeSet<String> {
    sources(|name| name.starts_with("hermes-config/src/env/") && !name.ends_with("variables.rs"))
        .into_iter()
        .flat_map(|source| source.literals)
        .collect()
}
