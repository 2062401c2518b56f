//! The endpoints the user named, the fallbacks, and the routing of aggregators.

use crate::yaml::{YamlMap, YamlValue};
use crate::{Config, custom_slug};
use hermes_types::Secret;

fn text(map: &YamlMap, key: &str) -> Option<String> {
    map.get(key)
        .and_then(YamlValue::scalar_text)
        .map(|text| text.trim().to_owned())
        .filter(|text| !text.is_empty())
}

/// An endpoint the user named.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CustomProvider {
    pub name: String,
    pub base_url: String,
    pub api_key: Option<Secret>,
    /// The variable that holds the key; only the newer mapping form has it.
    pub api_key_env: Option<String>,
    pub api_mode: Option<String>,
    pub model: Option<String>,
    /// The context windows by model id.
    pub context_lengths: Vec<(String, u64)>,
}

impl CustomProvider {
    /// Returns the providers of both forms: the `providers` mapping first, then the `custom_providers` list; the
    /// first of a name counts.
    pub fn all(config: &Config) -> Vec<Self> {
        let mapped = config.map("providers");
        let listed = config.get("custom_providers").unwrap_or_default();
        let from_map = mapped.iter().filter_map(|(name, value)| Self::read(Some(name), value.as_map()?));
        let from_list =
            listed.as_seq().unwrap_or_default().iter().filter_map(|value| Self::read(None, value.as_map()?));
        let mut found: Vec<Self> = Vec::new();
        for provider in from_map.chain(from_list) {
            if !found.iter().any(|other| custom_slug(&other.name) == custom_slug(&provider.name)) {
                found.push(provider);
            }
        }
        found
    }

    fn read(name: Option<&str>, map: &YamlMap) -> Option<Self> {
        let base_url = text(map, "base_url").or_else(|| text(map, "api")).or_else(|| text(map, "url"))?;
        let models = map.get("models").and_then(YamlValue::as_map);
        let context_lengths = models
            .into_iter()
            .flat_map(YamlMap::iter)
            .filter_map(|(id, value)| {
                let length = value.get("context_length")?.scalar_text()?.parse().ok()?;
                Some((id.to_owned(), length))
            })
            .collect();
        Some(Self {
            name: text(map, "name").or_else(|| name.map(str::to_owned))?,
            base_url: base_url.trim_end_matches('/').to_owned(),
            api_key: text(map, "api_key").map(Secret::new),
            api_key_env: text(map, "key_env").or_else(|| text(map, "api_key_env")),
            api_mode: text(map, "api_mode"),
            model: text(map, "model").or_else(|| text(map, "default_model")),
            context_lengths,
        })
    }
}

/// A model to use when the main one fails.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FallbackModel {
    pub provider: String,
    pub model: String,
    pub base_url: Option<String>,
    pub api_key_env: Option<String>,
}

impl FallbackModel {
    /// Returns `fallback_providers` first, then `fallback_model`; entries without provider or model, and repeats,
    /// are left out.
    pub fn chain(config: &Config) -> Vec<Self> {
        let mut found: Vec<Self> = Vec::new();
        for dotted in ["fallback_providers", "fallback_model"] {
            let entries = match config.get(dotted) {
                Some(YamlValue::Seq(items)) => items,
                Some(value @ YamlValue::Map(_)) => vec![value],
                _ => Vec::new(),
            };
            for entry in entries.iter().filter_map(|value| Self::read(value.as_map()?)) {
                let same = |other: &Self| {
                    (&other.provider, &other.model, &other.base_url)
                        == (&entry.provider, &entry.model, &entry.base_url)
                };
                if !found.iter().any(same) {
                    found.push(entry);
                }
            }
        }
        found
    }

    fn read(map: &YamlMap) -> Option<Self> {
        Some(Self {
            provider: text(map, "provider")?,
            model: text(map, "model")?,
            base_url: text(map, "base_url"),
            api_key_env: text(map, "api_key_env"),
        })
    }
}

/// The provider preferences sent to OpenRouter.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProviderRouting {
    pub sort: Option<String>,
    pub only: Vec<String>,
    pub ignore: Vec<String>,
    pub order: Vec<String>,
    pub require_parameters: Option<bool>,
    pub data_collection: Option<String>,
}

impl ProviderRouting {
    pub fn from_config(config: &Config) -> Self {
        Self {
            sort: config.non_empty_text("provider_routing.sort"),
            only: config.list("provider_routing.only"),
            ignore: config.list("provider_routing.ignore"),
            order: config.list("provider_routing.order"),
            require_parameters: config
                .get("provider_routing.require_parameters")
                .and_then(|value| value.as_bool()),
            data_collection: config.non_empty_text("provider_routing.data_collection"),
        }
    }
}
