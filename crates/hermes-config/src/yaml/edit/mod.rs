//! Changes one value in a YAML text and leaves every other byte unchanged.
//!
//! A change is planned as splices on the source text, applied to a copy, and read back. Only a copy that means
//! exactly "the old tree with this one change" is returned, so a plan for an unexpected layout results in an
//! error, never in a damaged file.

mod insert;
mod locate;
mod remove;
mod replace;
mod splice;

use super::construct::ValueConstructor;
use super::node::YamlDocument;
use super::{KeyPath, YamlError, YamlMap, YamlValue, compose, parse};
use locate::EditTarget;
use splice::{EditPlan, apply};

/// The reason why a text could not be changed; the text itself is unchanged.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EditError {
    #[error("not valid YAML: {0}")]
    Unreadable(#[from] YamlError),
    #[error("the top level is not a mapping of keys to values")]
    RootNotMapping,
    #[error("'{0}' is not set")]
    NotFound(String),
    #[error("'{0}' points past the end of a list")]
    IndexOutOfRange(String),
    #[error(
        "'{0}' cannot be changed without touching other lines (shared through a YAML anchor, or an unusual layout)"
    )]
    Unfaithful(String),
}

/// Returns the text with `path` set to `value`. Missing parents are created; a parent that is no mapping is
/// replaced by one.
pub fn set(text: &str, path: &KeyPath, value: &YamlValue) -> Result<String, EditError> {
    let document = compose::compose(text)?;
    let before = read(&document)?;
    if before.get_path(path.segments().iter().map(String::as_str)).is_some_and(|old| old.same_data(value)) {
        return Ok(text.to_owned());
    }
    let mut expected = before;
    if path.segments().is_empty() {
        return Err(EditError::RootNotMapping);
    }
    if !expected.set_path(path.segments(), value.clone()) {
        return Err(EditError::IndexOutOfRange(path.to_string()));
    }
    let plans = match &document.root {
        None => insert::into_blank(&document, &expected),
        Some(root) if root.is_empty() => insert::into_blank(&document, &expected),
        Some(root) => match locate::locate(root, path.segments(), &expected) {
            EditTarget::Replace(spot) => replace::plans(&document, &spot),
            EditTarget::Add(spot) => insert::plans(&document, &spot),
        },
    };
    first_faithful(text, plans, &expected).ok_or_else(|| EditError::Unfaithful(path.to_string()))
}

/// Returns the text without `path`. A mapping or list that loses its last entry stays as an empty one.
pub fn remove(text: &str, path: &KeyPath) -> Result<String, EditError> {
    let document = compose::compose(text)?;
    let mut expected = read(&document)?;
    if !expected.remove_path(path.segments()) {
        return Err(EditError::NotFound(path.to_string()));
    }
    let plans =
        document.root.as_ref().map_or_else(Vec::new, |root| remove::plans(&document, root, path.segments()));
    first_faithful(text, plans, &expected).ok_or_else(|| EditError::Unfaithful(path.to_string()))
}

/// Returns the document's value; an empty document counts as an empty mapping.
fn read(document: &YamlDocument<'_>) -> Result<YamlValue, EditError> {
    let Some(root) = &document.root else {
        return Ok(YamlValue::Map(YamlMap::new()));
    };
    match ValueConstructor::new(root).value(root, 0)? {
        YamlValue::Null => Ok(YamlValue::Map(YamlMap::new())),
        YamlValue::Map(map) => Ok(YamlValue::Map(map)),
        _ => Err(EditError::RootNotMapping),
    }
}

fn first_faithful(text: &str, plans: Vec<EditPlan>, expected: &YamlValue) -> Option<String> {
    plans.into_iter().filter_map(|plan| apply(text, plan)).find(|candidate| match parse(candidate) {
        Ok(YamlValue::Null) => expected.same_data(&YamlValue::Map(YamlMap::new())),
        Ok(value) => value.same_data(expected),
        Err(_) => false,
    })
}

#[cfg(test)]
mod tests;
