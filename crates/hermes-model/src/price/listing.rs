//! Prices that a provider publishes with its list of models.

use std::collections::HashMap;

use hermes_types::{JsonFields, RawJson};

use super::{ModelPrices, decimal};
use crate::wire::fields::JsonFieldsExt as _;

/// Prices by model id, also found by the bare name and the canonical slug.
#[derive(Debug, Clone, Default)]
pub struct PriceList {
    by_name: HashMap<String, ModelPrices>,
}

impl PriceList {
    pub fn get(&self, model: &str) -> Option<ModelPrices> {
        let model = model.trim().to_ascii_lowercase();
        let bare = model.rsplit('/').next().unwrap_or_default();
        self.by_name.get(&model).or_else(|| self.by_name.get(bare)).copied()
    }

    pub fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }
}

/// Reads the response of `/models`. A model without readable prices is left out.
pub fn read_models(body: &[u8]) -> PriceList {
    let mut list = PriceList::default();
    let fields: JsonFields = serde_json::from_slice(body).unwrap_or_default();
    let models: Vec<RawJson> = fields.list("data").or_else(|| fields.list("models")).unwrap_or_default();
    let models: Vec<(String, Option<String>, ModelPrices)> = models
        .iter()
        .filter_map(|raw| {
            let model: JsonFields = raw.read().ok()?;
            let id = model.text("id")?.to_ascii_lowercase();
            Some((id, model.text("canonical_slug"), prices(&model.object("pricing")?)?))
        })
        .collect();
    for (id, slug, prices) in &models {
        list.by_name.insert(id.clone(), *prices);
        if let Some(slug) = slug {
            list.by_name.entry(slug.to_ascii_lowercase()).or_insert(*prices);
        }
    }
    // Bare names come last, so that they never hide an id.
    for (id, _, prices) in models {
        if let Some((_, bare)) = id.rsplit_once('/') {
            list.by_name.entry(bare.to_owned()).or_insert(prices);
        }
    }
    list
}

/// Reads dollars per token, as text or number; a negative price means that it varies.
fn prices(pricing: &JsonFields) -> Option<ModelPrices> {
    let per_million = |names: &[&str]| -> Option<u64> {
        names.iter().find_map(|name| decimal::scaled(&pricing.scalar(name)?, 12))
    };
    let prices = ModelPrices {
        input: per_million(&["prompt", "input"]),
        output: per_million(&["completion", "output"]),
        cache_read: per_million(&["input_cache_read", "cache_read", "cached_input"]),
        cache_write: per_million(&["input_cache_write", "cache_write"]),
        request: pricing.scalar("request").and_then(|text| decimal::scaled(&text, 6)),
    };
    (prices.input.is_some() || prices.output.is_some()).then_some(prices)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists() {
        let list = read_models(
            br#"{"data":[
                {"id":"anthropic/claude-x","canonical_slug":"anthropic/claude-x-2026","pricing":{"prompt":"0.000003","completion":"0.000015","input_cache_read":"0.0000003","request":"0.01"}},
                {"id":"openrouter/auto","pricing":{"prompt":"-1","completion":"-1"}},
                {"id":"vercel/m","pricing":{"input":0.000001,"output":2e-6}},
                {"id":"free"}, 7]}"#,
        );
        let claude = list.get("anthropic/claude-x").unwrap();
        assert_eq!(
            (claude.input, claude.output, claude.cache_read),
            (Some(3_000_000), Some(15_000_000), Some(300_000))
        );
        assert_eq!((claude.cache_write, claude.request), (None, Some(10_000)));
        assert_eq!(list.get("Claude-X"), Some(claude));
        assert_eq!(list.get("anthropic/claude-x-2026"), Some(claude));
        assert_eq!(list.get("vercel/m").unwrap().output, Some(2_000_000));
        assert_eq!(list.get("openrouter/auto"), None);
        assert!(read_models(b"garbage").is_empty());
    }
}
