//! Discovered facts about models in use: window and prices, each with its date.
//!
//! Stored in a small file, `cache/model_facts.json`, so that a start reads a few lines instead of a provider's
//! whole catalogue. It is only a cache: a missing or broken file means that nothing is known, and an entry lost to
//! another process is discovered again.

use std::collections::BTreeMap;

use hermes_config::{Home, write};
use hermes_types::Timestamp;
use serde_json::{Map, Value};

use crate::context_window::cache_key;
use crate::price::ModelPrices;

const FOLDER: &str = "cache";
const FILE: &str = "model_facts.json";
/// The limit of stored entries; the oldest are removed first.
const MAX_ENTRIES: usize = 200;

/// The known facts about one model at one address.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct ModelFacts {
    /// The size, and when a server returned it.
    pub window: Option<(u64, Timestamp)>,
    pub prices: Option<ModelPrices>,
    /// The time when the prices were read.
    pub prices_at: Option<Timestamp>,
}

/// All known facts, by model and address.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ModelFactsFile(BTreeMap<String, ModelFacts>);

impl ModelFactsFile {
    pub fn read(home: &Home) -> Self {
        let bytes = std::fs::read(home.join(FOLDER).join(FILE)).unwrap_or_default();
        Self::parse(&bytes)
    }

    pub fn parse(bytes: &[u8]) -> Self {
        let entries: Map<String, Value> = serde_json::from_slice(bytes).unwrap_or_default();
        Self(entries.iter().map(|(key, entry)| (key.clone(), ModelFacts::read(entry))).collect())
    }

    pub fn get(&self, model: &str, base_url: &str) -> Option<ModelFacts> {
        self.0.get(&cache_key(model, base_url)).copied()
    }

    /// Changes the stored facts of a model. Blocks on the disk.
    pub fn update(
        home: &Home,
        model: &str,
        base_url: &str,
        change: impl FnOnce(&mut ModelFacts),
    ) -> hermes_config::Result<()> {
        let mut known = Self::read(home);
        change(known.0.entry(cache_key(model, base_url)).or_default());
        while known.0.len() > MAX_ENTRIES {
            let oldest = known.0.iter().min_by(|a, b| a.1.last_checked().total_cmp(&b.1.last_checked()));
            let Some(key) = oldest.map(|(key, _)| key.clone()) else { break };
            known.0.remove(&key);
        }
        let document: Map<String, Value> =
            known.0.iter().map(|(key, known)| (key.clone(), known.write())).collect();
        let mut text = serde_json::to_vec_pretty(&document).unwrap_or_default();
        text.push(b'\n');
        write::replace(&home.folder(FOLDER)?.join(FILE), &text)
    }
}

impl ModelFacts {
    fn read(entry: &Value) -> Self {
        let time = |name: &str| entry.get(name).and_then(Value::as_f64).map(Timestamp);
        let price = |name: &str| entry.get("prices").and_then(|prices| prices.get(name)?.as_u64());
        let prices = ModelPrices {
            input: price("input"),
            output: price("output"),
            cache_read: price("cache_read"),
            cache_write: price("cache_write"),
            request: price("request"),
        };
        let window = entry.get("window").and_then(Value::as_u64).filter(|window| *window > 0);
        Self {
            window: window.zip(time("window_at")),
            prices: (prices != ModelPrices::default()).then_some(prices),
            prices_at: time("prices_at"),
        }
    }

    fn write(&self) -> Value {
        let mut entry = Map::new();
        if let Some((window, at)) = self.window {
            entry.insert("window".to_owned(), Value::from(window));
            entry.insert("window_at".to_owned(), Value::from(at.seconds()));
        }
        if let Some(prices) = self.prices {
            let named = [
                ("input", prices.input),
                ("output", prices.output),
                ("cache_read", prices.cache_read),
                ("cache_write", prices.cache_write),
                ("request", prices.request),
            ];
            let known = named.into_iter().filter_map(|(name, price)| Some((name.to_owned(), price?.into())));
            entry.insert("prices".to_owned(), Value::Object(known.collect()));
        }
        if let Some(at) = self.prices_at {
            entry.insert("prices_at".to_owned(), Value::from(at.seconds()));
        }
        Value::Object(entry)
    }

    fn last_checked(&self) -> f64 {
        let dates = [self.window.map(|(_, at)| at), self.prices_at];
        dates.into_iter().flatten().map(Timestamp::seconds).fold(0.0, f64::max)
    }
}
