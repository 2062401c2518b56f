//! Model providers: the table, and how users spell their names.

pub mod registry;

use crate::{Error, Result};

/// Returns the canonical id of a built-in provider, `auto` included. Names are compared trimmed and lower-cased.
pub fn canonical_provider(name: &str) -> Result<&'static str> {
    if name.trim().eq_ignore_ascii_case("auto") {
        return Ok("auto");
    }
    registry::find_named(name)
        .map(|provider| provider.id)
        .ok_or_else(|| Error::UnknownProvider { name: name.trim().to_owned() })
}

/// Returns the normalised name of a custom provider: lower case, spaces as dashes, without the prefix `custom:`.
pub fn custom_slug(name: &str) -> String {
    let name = name.trim();
    name.strip_prefix("custom:").unwrap_or(name).trim().to_lowercase().replace(' ', "-")
}

/// Tells whether a text can be a key, rather than a placeholder of a template.
pub fn is_usable_key(key: &str) -> bool {
    const FILLERS: [&str; 12] = [
        "*",
        "**",
        "***",
        "changeme",
        "your_api_key",
        "your-api-key",
        "placeholder",
        "example",
        "dummy",
        "null",
        "none",
        "",
    ];
    let key = key.trim();
    key.len() >= 4 && !FILLERS.contains(&key.to_lowercase().as_str())
}
