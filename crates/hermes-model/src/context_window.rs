//! The size of a model's context: what is known without a query, and how the answers of queried servers are parsed.
//!
//! Guesses from a model's name only where names are meaningful: a custom endpoint without metadata gets the
//! default.

mod metadata;

use hermes_types::Timestamp;

pub use metadata::{
    from_catalogue, from_lm_studio, from_models, from_models_dev, from_ollama, from_props, ollama_num_ctx,
};

/// The source of an endpoint's context window.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub enum WindowOrigin {
    /// The user configured it.
    Configured,
    /// A provider named it in a refusal.
    Refusal,
    /// A server returned it at that time.
    Asked(Timestamp),
    /// Guessed from the model's name, or the default.
    #[default]
    Guessed,
}

/// The window assumed for an unknown model.
pub const DEFAULT: u64 = 128_000;
/// Windows by family; the longest key contained in the name wins, never a name contained in a key.
const FAMILIES: [(&str, u64); 15] = [
    ("claude-opus-4-6", 1_000_000),
    ("claude-opus-4.6", 1_000_000),
    ("claude-sonnet-4-6", 1_000_000),
    ("claude-sonnet-4.6", 1_000_000),
    ("claude", 200_000),
    ("gpt-4.1", 1_047_576),
    ("gpt-5", 128_000),
    ("gpt-4", 128_000),
    ("gemini", 1_048_576),
    ("deepseek", 128_000),
    ("llama", 131_072),
    ("qwen", 131_072),
    ("minimax", 204_800),
    ("glm", 202_752),
    ("kimi", 262_144),
];

/// Returns the family's window. Only for hosts of known providers.
pub fn family_window(model: &str) -> Option<u64> {
    let name = model.to_ascii_lowercase();
    FAMILIES
        .iter()
        .filter(|(key, _)| name.contains(key))
        .max_by_key(|(key, _)| key.len())
        .map(|(_, window)| *window)
}

/// Returns the window on AWS, where names carry no other hint.
pub fn bedrock_window(model: &str) -> u64 {
    let name = model.to_ascii_lowercase();
    if name.contains("claude") {
        return family_window(&name).unwrap_or(200_000);
    }
    if ["nova-pro", "nova-lite"].into_iter().any(|family| name.contains(family)) { 300_000 } else { DEFAULT }
}

/// Returns the key of an entry in `context_length_cache.yaml`.
pub fn cache_key(model: &str, base_url: &str) -> String {
    format!("{model}@{base_url}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families() {
        let check = |model: &str, window: Option<u64>| assert_eq!(family_window(model), window, "{model}");
        check("anthropic/claude-opus-4.6", Some(1_000_000));
        check("claude-sonnet-4-6-20260101", Some(1_000_000));
        check("claude-sonnet-4", Some(200_000));
        check("gpt-4.1-mini", Some(1_047_576));
        check("gpt-4-1106-preview", Some(128_000));
        check("openai/gpt-5.2", Some(128_000));
        check("qwen3.5:27b", Some(131_072));
        check("deepseek:latest", Some(128_000));
        check("claud", None);
        check("mystery", None);
    }

    #[test]
    fn aws() {
        let check = |model: &str, window: u64| assert_eq!(bedrock_window(model), window, "{model}");
        check("us.anthropic.claude-sonnet-4-6", 1_000_000);
        check("anthropic.claude-3-haiku-20240307-v1:0", 200_000);
        check("amazon.nova-pro-v1:0", 300_000);
        check("meta.llama3-70b", 128_000);
    }

    #[test]
    fn keys_of_the_cache() {
        assert_eq!(cache_key("m", "http://h/v1"), "m@http://h/v1");
    }
}
