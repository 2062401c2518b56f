//! The user's settings of a platform: its variables, and `platforms.<p>.extra`.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use hermes_types::Secret;
use serde_json::Value;

/// The settings of a platform as written, with typed accessors. Its `Debug` form shows names only.
#[derive(Clone, Default)]
pub struct Options {
    variables: BTreeMap<String, String>,
    extra: Value,
}

impl Options {
    pub fn new(variables: BTreeMap<String, String>, extra: Value) -> Self {
        Self { variables, extra }
    }

    /// Returns a variable that is set and not blank.
    pub fn text(&self, variable: &str) -> Option<&str> {
        self.variables.get(variable).map(|text| text.trim()).filter(|text| !text.is_empty())
    }

    pub fn secret(&self, variable: &str) -> Option<Secret> {
        self.text(variable).map(Secret::new)
    }

    /// Returns a boolean; any other value is the default.
    pub fn flag(&self, variable: &str, default: bool) -> bool {
        match self.text(variable).map(str::to_lowercase).as_deref() {
            Some("true" | "1" | "yes" | "on") => true,
            Some("false" | "0" | "no" | "off") => false,
            _ => default,
        }
    }

    /// Returns the values of a comma-separated or JSON list.
    pub fn list(&self, variable: &str) -> Vec<String> {
        let text = self.text(variable).unwrap_or_default();
        if let Ok(list) = serde_json::from_str::<Vec<String>>(text) {
            return list;
        }
        let parts = text.split(',');
        parts.map(str::trim).filter(|part| !part.is_empty()).map(str::to_owned).collect()
    }

    /// Returns a number of seconds; an invalid value is the default.
    pub fn seconds(&self, variable: &str, default: f64) -> Duration {
        let said = self.text(variable).and_then(|text| text.parse::<f64>().ok());
        let seconds = said.filter(|seconds| seconds.is_finite() && *seconds >= 0.0).unwrap_or(default);
        Duration::try_from_secs_f64(seconds).unwrap_or_default()
    }

    /// Returns a value of `platforms.<p>.extra`.
    pub fn extra(&self, key: &str) -> Option<&Value> {
        self.extra.get(key).filter(|value| !value.is_null())
    }

    pub fn extra_text(&self, key: &str) -> Option<&str> {
        self.extra(key).and_then(Value::as_str).map(str::trim).filter(|text| !text.is_empty())
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options").field("variables", &self.variables.keys()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readings() {
        let variables = [
            ("A", " x "),
            ("B", "Yes"),
            ("C", "a, b ,,c"),
            ("D", "0.25"),
            ("E", "-1"),
            ("F", " "),
            ("G", r#"["a,b", "c"]"#),
        ];
        let variables =
            variables.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        let options = Options::new(variables, serde_json::json!({"url": " http://x ", "none": null}));
        assert_eq!(options.text("A"), Some("x"));
        assert_eq!(options.text("F"), None);
        assert!(options.flag("B", false));
        assert!(options.flag("A", true), "what is neither is the default");
        assert_eq!(options.list("C"), ["a", "b", "c"]);
        assert_eq!(options.list("G"), ["a,b", "c"]);
        assert_eq!(options.seconds("D", 9.0), Duration::from_millis(250));
        assert_eq!(options.seconds("E", 9.0), Duration::from_secs(9));
        assert_eq!(options.extra_text("url"), Some("http://x"));
        assert_eq!(options.extra("none"), None);
        assert!(!format!("{options:?}").contains('x'), "values are not shown");
    }
}
