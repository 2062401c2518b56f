//! Selects which of the user's variables are passed to a remote environment: none, unless they are named.

use std::collections::BTreeMap;
use std::fmt;

/// The variables for commands in a remote environment.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct ForwardedVariables(BTreeMap<String, String>);

impl ForwardedVariables {
    /// Selects the named variables. A currently set value takes precedence over the `.env` file; invalid
    /// names and variables that are not set are left out.
    pub fn select<'a>(
        names: impl IntoIterator<Item = &'a str>,
        live: impl Fn(&str) -> Option<String>,
        file: impl Fn(&str) -> Option<String>,
    ) -> Self {
        let value = |name: &str| live(name).or_else(|| file(name)).filter(|value| !value.contains('\0'));
        let names = names.into_iter().filter(|name| is_variable(name));
        Self(names.filter_map(|name| Some((name.to_owned(), value(name)?))).collect())
    }

    pub(crate) fn pairs(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }
}

/// Shows only the names, because values may be private.
impl fmt::Debug for ForwardedVariables {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

/// Tells whether a shell accepts the text as the name of a variable.
fn is_variable(name: &str) -> bool {
    !name.is_empty()
        && name
            .chars()
            .enumerate()
            .all(|(at, c)| c == '_' || c.is_ascii_alphabetic() || at > 0 && c.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn live_wins_over_the_file_and_nothing_goes_unnamed() {
        let live = |name: &str| (name == "A").then(|| "live".to_owned());
        let file = |name: &str| matches!(name, "A" | "B").then(|| "file".to_owned());
        let picked = ForwardedVariables::select(["B", "A", "C", "A", "1x", "a-b", ""], live, file);
        assert_eq!(picked.pairs().collect::<Vec<_>>(), [("A", "live"), ("B", "file")]);
        assert_eq!(format!("{picked:?}"), r#"{"A", "B"}"#);
        assert_eq!(ForwardedVariables::select([], live, file), ForwardedVariables::default());
    }
}
