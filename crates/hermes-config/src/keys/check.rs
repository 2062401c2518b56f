//! Compares a user's tree with the table.

use super::suggest::suggest;
use super::{KeyKind, ValueFit, find_at, fit, is_open_mapping, is_section};
use crate::yaml::YamlValue;

/// A finding of `config check` and `doctor`. It never contains a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyFinding {
    pub key: String,
    pub problem: KeyProblem,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeyProblem {
    /// The key is kept, but nothing reads it; another key may have been meant.
    Unknown { suggestion: Option<&'static str> },
    /// The value has the wrong type; the default applies instead.
    WrongType { expected: &'static str, found: &'static str },
    /// The value is not one of the allowed words; the default applies instead.
    NotAllowed { allowed: &'static [&'static str] },
    /// The value contains a `${VAR}` whose variable is not set.
    Unresolved,
}

impl std::fmt::Display for KeyFinding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let key = &self.key;
        match &self.problem {
            KeyProblem::Unknown { suggestion: Some(near) } => {
                write!(f, "{key}: unknown key; did you mean {near}?")
            }
            KeyProblem::Unknown { suggestion: None } => {
                write!(f, "{key}: unknown key; it is kept but has no effect")
            }
            KeyProblem::WrongType { expected, found } => {
                write!(f, "{key}: expected {expected}, found {found}; using the default")
            }
            KeyProblem::NotAllowed { allowed } => {
                write!(f, "{key}: must be one of {}; using the default", allowed.join(", "))
            }
            KeyProblem::Unresolved => {
                write!(f, "{key}: still contains ${{…}}; set that variable in .env or write the value itself")
            }
        }
    }
}

/// Returns the findings for a user's tree whose `${VAR}` have been expanded, in file order.
pub fn check(tree: &YamlValue) -> Vec<KeyFinding> {
    let mut findings = Vec::new();
    walk(tree, &mut Vec::new(), &mut findings);
    findings
}

fn walk<'tree>(value: &'tree YamlValue, path: &mut Vec<&'tree str>, findings: &mut Vec<KeyFinding>) {
    let mut report = |path: &[&str], problem| findings.push(KeyFinding { key: path.join("."), problem });
    if let YamlValue::Str(text) = value
        && text.contains("${")
    {
        report(path, KeyProblem::Unresolved);
    }
    if !path.is_empty() {
        match find_at(path) {
            Some(spec) => {
                if fit(spec, value) == ValueFit::Unusable {
                    let problem = match (spec.kind, value) {
                        (
                            KeyKind::Choice(allowed),
                            YamlValue::Str(_) | YamlValue::Bool(_) | YamlValue::Int(_) | YamlValue::Float(_),
                        ) => KeyProblem::NotAllowed { allowed },
                        _ => KeyProblem::WrongType { expected: spec.kind.name(), found: value.kind_name() },
                    };
                    report(path, problem);
                    return;
                }
            }
            None if is_section(path) => {
                let section_switch =
                    matches!((path.as_slice(), value), (["checkpoints"], YamlValue::Bool(_)));
                if !matches!(value, YamlValue::Map(_) | YamlValue::Null) && !section_switch {
                    report(path, KeyProblem::WrongType { expected: "a mapping", found: value.kind_name() });
                    return;
                }
            }
            None if is_open_mapping(path) || is_variable(path, value) => {}
            None => {
                report(path, KeyProblem::Unknown { suggestion: suggest(&path.join(".")) });
                return;
            }
        }
    }
    match value {
        YamlValue::Map(map) => {
            for (key, child) in map.iter() {
                path.push(key);
                walk(child, path, findings);
                path.pop();
            }
        }
        YamlValue::Seq(items) => {
            // Entries of lists have no rows of their own; they are only checked for an unresolved `${…}`.
            for item in items {
                if has_unresolved(item) {
                    findings.push(KeyFinding { key: path.join("."), problem: KeyProblem::Unresolved });
                    break;
                }
            }
        }
        _ => {}
    }
}

/// Tells whether a key is the name of a variable, which is valid at the top level, because the gateway exports
/// top-level scalars as variables.
fn is_variable(path: &[&str], value: &YamlValue) -> bool {
    matches!(path, [name] if name.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_'))
        && value.scalar_text().is_some()
}

fn has_unresolved(value: &YamlValue) -> bool {
    match value {
        YamlValue::Str(text) => text.contains("${"),
        YamlValue::Seq(items) => items.iter().any(has_unresolved),
        YamlValue::Map(map) => map.iter().any(|(_, child)| has_unresolved(child)),
        _ => false,
    }
}
