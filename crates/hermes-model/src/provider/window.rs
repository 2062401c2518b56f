//! The context window that is assumed before any server was queried.

use std::collections::BTreeMap;

use hermes_config::lock::{FileLock, LockTimeout};
use hermes_config::yaml::{KeyPath, YamlValue, edit, parse};
use hermes_config::{Home, write};

use super::registry::ProviderKind;
use crate::context_window::{DEFAULT, bedrock_window, cache_key, family_window};

/// The sizes that providers named in errors, stored in `context_length_cache.yaml`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LearntWindows(BTreeMap<String, u64>);

impl LearntWindows {
    /// Reads the file; empty when it is missing or unreadable, since it is only a cache.
    pub fn read(home: &Home) -> Self {
        std::fs::read_to_string(home.context_length_cache())
            .map(|text| Self::parse(&text))
            .unwrap_or_default()
    }

    pub fn parse(text: &str) -> Self {
        let tree = parse(text).unwrap_or_default();
        let entries = tree.get("context_lengths").and_then(YamlValue::as_map);
        let sizes = entries.into_iter().flat_map(hermes_config::yaml::YamlMap::iter);
        Self(sizes.filter_map(|(key, size)| Some((key.to_owned(), positive(size)?))).collect())
    }

    /// Adds one size to the file and leaves everything else in it unchanged. Blocks on the disk.
    pub fn save(home: &Home, model: &str, base_url: &str, size: u64) -> hermes_config::Result<()> {
        let path = home.context_length_cache();
        let _lock = FileLock::acquire(&path.with_extension("yaml.lock"), LockTimeout::SETTINGS)?;
        let text = match std::fs::read_to_string(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                tracing::warn!(path = %path.display(), %error, "not text; a context length is not remembered");
                return Ok(());
            }
            text => text.unwrap_or_default(),
        };
        let place = KeyPath::from_segments(["context_lengths".to_owned(), cache_key(model, base_url)]);
        let size = YamlValue::Int(i128::from(size));
        match edit::set(&text, &place, &size) {
            Ok(text) => write::replace(&path, text.as_bytes()),
            Err(error) => {
                tracing::warn!(path = %path.display(), %error, "a context length is not remembered");
                Ok(())
            }
        }
    }

    pub fn get(&self, model: &str, base_url: &str) -> Option<u64> {
        self.0.get(&cache_key(model, base_url)).copied()
    }
}

fn positive(value: &YamlValue) -> Option<u64> {
    u64::try_from(value.as_int()?).ok().filter(|size| *size > 0)
}

/// Tells whether a model's name is meaningful at a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NameSignificance {
    Meaningful,
    /// A custom host may serve any model under any name.
    Meaningless,
}

/// Returns the window when neither the user nor the provider has stated it.
pub(super) fn guess(kind: ProviderKind, names: NameSignificance, model: &str) -> u64 {
    match (kind, names) {
        (ProviderKind::Aws, _) => bedrock_window(model),
        (_, NameSignificance::Meaningful) => family_window(model).unwrap_or(DEFAULT),
        (_, NameSignificance::Meaningless) => DEFAULT,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn learnt_sizes() {
        let learnt =
            LearntWindows::parse("context_lengths:\n  m@http://h/v1: 8192\n  n@x: -4\n  o@x: many\n");
        assert_eq!(learnt.get("m", "http://h/v1"), Some(8_192));
        assert_eq!((learnt.get("n", "x"), learnt.get("o", "x")), (None, None));
        assert_eq!(LearntWindows::parse("- no\n- map"), LearntWindows::default());
        assert_eq!(LearntWindows::parse(": ["), LearntWindows::default());
    }
}
