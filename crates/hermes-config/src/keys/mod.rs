//! Every documented key of config.yaml, in one table: type, default, meaning.
//!
//! The default tree, the checks, the conversions and the reference page are all derived from it, so they cannot
//! disagree. A value in the user's file always overrides a default.

mod agent;
mod check;
mod display;
mod fit;
mod markdown;
mod messaging;
mod models;
mod spec;
mod suggest;
mod tools;

use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

pub use check::{KeyFinding, KeyProblem, check};
pub use fit::{ValueFit, fit};
pub use markdown::markdown;
pub use spec::{KeyKind, KeyRelease, KeySpec, Support};

use crate::yaml::{YamlMap, YamlValue, parse};

/// The layout version of the baseline.
pub const CONFIG_VERSION: i128 = 10;
/// The model when none is named.
pub const DEFAULT_MODEL: &str = "anthropic/claude-opus-4.6";
/// The names of the personalities that exist without configuration.
pub const PERSONALITIES: &[&str] = &[
    "helpful",
    "concise",
    "technical",
    "creative",
    "teacher",
    "kawaii",
    "catgirl",
    "pirate",
    "shakespeare",
    "surfer",
    "noir",
    "uwu",
    "philosopher",
    "hype",
];

/// Returns every row, in documentation order.
pub fn all() -> impl Iterator<Item = &'static KeySpec> {
    [models::KEYS, agent::KEYS, tools::KEYS, display::KEYS, messaging::KEYS].into_iter().flatten()
}

/// The table by path, because a load looks up every key of the file.
struct Index {
    literal: HashMap<&'static str, &'static KeySpec>,
    /// The rows with a wildcard, few enough to try one by one.
    wild: Vec<&'static KeySpec>,
    /// Every proper prefix of a literal path.
    sections: HashSet<&'static str>,
}

static INDEX: LazyLock<Index> = LazyLock::new(|| {
    let (wild, literal): (Vec<&KeySpec>, Vec<&KeySpec>) = all().partition(|spec| spec.path.contains('*'));
    let sections = literal
        .iter()
        .flat_map(|spec| spec.path.match_indices('.').filter_map(|(at, _)| spec.path.get(..at)))
        .collect();
    Index { literal: literal.into_iter().map(|spec| (spec.path, spec)).collect(), wild, sections }
});

/// Returns the row for a path; a literal one takes precedence over one with a wildcard.
pub fn find(dotted: &str) -> Option<&'static KeySpec> {
    let segments: Vec<&str> = dotted.split('.').collect();
    find_at(&segments)
}

/// Does the same as [`find`] for segments that may contain dots themselves.
pub fn find_at(segments: &[&str]) -> Option<&'static KeySpec> {
    let literal =
        INDEX.literal.get(segments.join(".").as_str()).filter(|spec| spec.matches(segments.iter().copied()));
    literal.or_else(|| INDEX.wild.iter().find(|spec| spec.matches(segments.iter().copied()))).copied()
}

/// Tells whether the path is documented, is a section, or lies inside an open mapping.
pub fn is_known(segments: &[&str]) -> bool {
    find_at(segments).is_some() || is_section(segments) || is_open_mapping(segments)
}

/// Tells whether the path is a section: some key lies below it.
pub(crate) fn is_section(segments: &[&str]) -> bool {
    let below = |spec: &KeySpec| {
        let mut own = spec.path.split('.');
        segments.iter().all(|given| own.next().is_some_and(|own| own == "*" || own == *given))
            && own.next().is_some()
    };
    let literal = !segments.iter().any(|segment| segment.contains('.'));
    literal && INDEX.sections.contains(segments.join(".").as_str())
        || INDEX.wild.iter().any(|spec| below(spec))
}

/// Tells whether the path lies inside a mapping whose keys the user chooses.
pub(crate) fn is_open_mapping(segments: &[&str]) -> bool {
    (1..segments.len()).any(|length| {
        segments.get(..length).and_then(find_at).is_some_and(|spec| {
            matches!(spec.kind, KeyKind::Map | KeyKind::List | KeyKind::Any) && spec.path != "model"
        })
    })
}

/// Returns the documented default of a path, when it has one.
pub fn default_of(dotted: &str) -> Option<YamlValue> {
    find(dotted).and_then(default_value)
}

/// Returns the documented default of a number.
pub fn default_number(dotted: &str) -> f64 {
    default_of(dotted).and_then(|value| value.as_float()).unwrap_or_default()
}

/// Returns the documented default of a count.
pub fn default_count(dotted: &str) -> usize {
    default_of(dotted).and_then(|value| usize::try_from(value.as_int()?).ok()).unwrap_or_default()
}

pub(crate) fn default_value(spec: &KeySpec) -> Option<YamlValue> {
    if spec.default.is_empty() {
        return None;
    }
    // A test parses every default, so this never fails.
    parse(spec.default).ok()
}

/// The set of defaults in a tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DefaultsScope {
    /// Everything in force when nothing is configured.
    Effective,
    /// The defaults a full save writes into the user's file.
    Saved,
}

/// Returns the default tree.
pub fn default_tree(which: DefaultsScope) -> &'static YamlValue {
    static EFFECTIVE: LazyLock<YamlValue> = LazyLock::new(|| build(DefaultsScope::Effective));
    static SAVED: LazyLock<YamlValue> = LazyLock::new(|| build(DefaultsScope::Saved));
    match which {
        DefaultsScope::Effective => &EFFECTIVE,
        DefaultsScope::Saved => &SAVED,
    }
}

fn build(which: DefaultsScope) -> YamlValue {
    let mut tree = YamlValue::Map(YamlMap::new());
    for spec in all() {
        // `model` is a text by default; its parts have no place in the tree until the user makes it a mapping.
        let fits = !spec.path.contains('*') && !spec.path.starts_with("model.");
        if fits
            && (which == DefaultsScope::Effective || spec.in_full_save)
            && let Some(value) = default_value(spec)
        {
            let path: Vec<String> = spec.path.split('.').map(str::to_owned).collect();
            tree.set_path(&path, value);
        }
    }
    tree
}

#[cfg(test)]
mod tests;
