//! Compares a user's tree with the table.

use super::suggest::suggest;
use super::{Fit, Kind, find_at, fit, is_open, is_section};
use crate::yaml::Value;

/// Something `config check` and `doctor` point out. Never carries a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    pub key: String,
    pub problem: Problem,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Problem {
    /// Kept, but nothing reads it; perhaps another key was meant.
    Unknown { suggestion: Option<&'static str> },
    /// The default applies instead.
    WrongType { expected: &'static str, found: &'static str },
    /// The default applies instead.
    NotAllowed { allowed: &'static [&'static str] },
    /// T41-13: a `${VAR}` whose variable is not set.
    Unresolved,
}

impl std::fmt::Display for Finding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let key = &self.key;
        match &self.problem {
            Problem::Unknown { suggestion: Some(near) } => {
                write!(f, "{key}: unknown key; did you mean {near}?")
            }
            Problem::Unknown { suggestion: None } => {
                write!(f, "{key}: unknown key; it is kept but has no effect")
            }
            Problem::WrongType { expected, found } => {
                write!(f, "{key}: expected {expected}, found {found}; using the default")
            }
            Problem::NotAllowed { allowed } => {
                write!(f, "{key}: must be one of {}; using the default", allowed.join(", "))
            }
            Problem::Unresolved => {
                write!(f, "{key}: still contains ${{…}}; set that variable in .env or write the value itself")
            }
        }
    }
}

/// Findings for a user's tree whose `${VAR}` have been expanded, in file order.
pub fn check(tree: &Value) -> Vec<Finding> {
    let mut findings = Vec::new();
    walk(tree, &mut Vec::new(), &mut findings);
    findings
}

fn walk<'tree>(value: &'tree Value, path: &mut Vec<&'tree str>, findings: &mut Vec<Finding>) {
    let mut report = |path: &[&str], problem| findings.push(Finding { key: path.join("."), problem });
    if let Value::Str(text) = value
        && text.contains("${")
    {
        report(path, Problem::Unresolved);
    }
    if !path.is_empty() {
        match find_at(path) {
            Some(spec) => {
                if fit(spec, value) == Fit::Wrong {
                    let problem = match (spec.kind, value) {
                        (
                            Kind::Choice(allowed),
                            Value::Str(_) | Value::Bool(_) | Value::Int(_) | Value::Float(_),
                        ) => Problem::NotAllowed { allowed },
                        _ => Problem::WrongType { expected: spec.kind.name(), found: value.kind_name() },
                    };
                    report(path, problem);
                    return;
                }
            }
            None if is_section(path) => {
                let section_switch = matches!((path.as_slice(), value), (["checkpoints"], Value::Bool(_)));
                if !matches!(value, Value::Map(_) | Value::Null) && !section_switch {
                    report(path, Problem::WrongType { expected: "a mapping", found: value.kind_name() });
                    return;
                }
            }
            None if is_open(path) || is_variable(path, value) => {}
            None => {
                report(path, Problem::Unknown { suggestion: suggest(&path.join(".")) });
                return;
            }
        }
    }
    match value {
        Value::Map(map) => {
            for (key, child) in map.iter() {
                path.push(key);
                walk(child, path, findings);
                path.pop();
            }
        }
        Value::Seq(items) => {
            // Entries of lists have no rows of their own; only leftovers of `${…}` are looked for.
            for item in items {
                if has_unresolved(item) {
                    findings.push(Finding { key: path.join("."), problem: Problem::Unresolved });
                    break;
                }
            }
        }
        _ => {}
    }
}

/// The gateway exports top-level scalars as variables, so a variable's name is a proper key there.
fn is_variable(path: &[&str], value: &Value) -> bool {
    matches!(path, [name] if name.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_'))
        && value.scalar_text().is_some()
}

fn has_unresolved(value: &Value) -> bool {
    match value {
        Value::Str(text) => text.contains("${"),
        Value::Seq(items) => items.iter().any(has_unresolved),
        Value::Map(map) => map.iter().any(|(_, child)| has_unresolved(child)),
        _ => false,
    }
}
