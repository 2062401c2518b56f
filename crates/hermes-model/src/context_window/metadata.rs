//! Parses context windows from the metadata that servers publish about their models.
//!
//! Every function takes the body of one kind of response; the caller fetches it. A size outside 1,024 to 10,000,000
//! is an error and counts as absent.

use hermes_types::{JsonFields, RawJson};
use serde_json::Value;

use crate::wire::fields::{JsonFieldsExt as _, whole_number};

/// The field names under which servers publish the size, the most reliable first.
const KEYS: [&str; 10] = [
    "context_length",
    "context_window",
    "max_context_length",
    "max_position_embeddings",
    "max_model_len",
    "max_input_tokens",
    "max_sequence_length",
    "max_seq_len",
    "n_ctx_train",
    "n_ctx",
];

/// Returns the size of a model in the response of `/models`: the model of that id, the only model, or one whose id
/// contains the name or is contained in it.
pub fn from_models(body: &[u8], model: &str) -> Option<u64> {
    let fields: JsonFields = serde_json::from_slice(body).ok()?;
    let list: Vec<RawJson> = fields.list("data").or_else(|| fields.list("models"))?;
    let models: Vec<(String, Value)> = list
        .iter()
        .map(|raw| {
            let entry: JsonFields = raw.read().unwrap_or_default();
            let id = ["id", "key", "name", "model"].into_iter().find_map(|name| entry.text(name));
            (id.unwrap_or_default().to_ascii_lowercase(), raw.to_value())
        })
        .collect();
    let wanted = model.trim().to_ascii_lowercase();
    let alike = |id: &str| !id.is_empty() && (id.contains(&wanted) || wanted.contains(id));
    let found = models
        .iter()
        .find(|(id, _)| *id == wanted)
        .or_else(|| models.first().filter(|_| models.len() == 1))
        .or_else(|| {
            models.iter().filter(|(id, _)| !wanted.is_empty() && alike(id)).max_by_key(|(id, _)| id.len())
        })?;
    find_size(&found.1)
}

/// Returns the size in a provider's catalogue: by id, canonical slug or bare name, with dots and hyphens treated
/// alike. No other similarity counts, since `claude-sonnet-4` is not `claude-sonnet-4-6`.
pub fn from_catalogue(body: &[u8], model: &str) -> Option<u64> {
    let fields: JsonFields = serde_json::from_slice(body).ok()?;
    let entries: Vec<RawJson> = fields.list("data").or_else(|| fields.list("models"))?;
    let plain = |name: &str| name.trim().to_ascii_lowercase().replace('.', "-");
    let bare = |name: &str| plain(name.rsplit('/').next().unwrap_or_default());
    let names = |raw: &RawJson| -> Vec<String> {
        let entry: JsonFields = raw.read().unwrap_or_default();
        ["id", "canonical_slug"].into_iter().filter_map(|name| entry.text(name)).collect()
    };
    let wanted = plain(model);
    let found = entries
        .iter()
        .find(|raw| names(raw).iter().any(|name| plain(name) == wanted))
        .or_else(|| entries.iter().find(|raw| names(raw).iter().any(|name| bare(name) == bare(model))))?;
    find_size(&found.to_value())
}

/// Returns the size in one model's metadata, at any depth; a more reliable field name wins over a shallower place.
fn find_size(value: &Value) -> Option<u64> {
    KEYS.into_iter().find_map(|key| find_key(value, key, 0))
}

fn find_key(value: &Value, key: &str, depth: usize) -> Option<u64> {
    if depth > 6 {
        return None;
    }
    match value {
        Value::Object(map) => {
            let here = map.get(key).and_then(whole_number).filter(|size| is_window(*size));
            here.or_else(|| map.values().find_map(|inner| find_key(inner, key, depth + 1)))
        }
        Value::Array(list) => list.iter().find_map(|inner| find_key(inner, key, depth + 1)),
        _ => None,
    }
}

fn is_window(size: u64) -> bool {
    (1_024..=10_000_000).contains(&size)
}

/// Reads llama.cpp's `/props`: the size the server was started with.
pub fn from_props(body: &[u8]) -> Option<u64> {
    let fields: JsonFields = serde_json::from_slice(body).ok()?;
    let settings = fields.object("default_generation_settings")?;
    settings.number("n_ctx").filter(|size| is_window(*size))
}

/// Reads Ollama's `/api/show`: the model's own size, else the configured window.
pub fn from_ollama(body: &[u8]) -> Option<u64> {
    let fields: JsonFields = serde_json::from_slice(body).ok()?;
    let info = fields.object("model_info").unwrap_or_default();
    let trained = info
        .iter()
        .filter(|(name, _)| name.contains("context_length"))
        .find_map(|(_, raw)| whole_number(&raw.to_value()))
        .filter(|size| is_window(*size));
    trained.or_else(|| ollama_num_ctx(body))
}

/// Returns the window that a Modelfile sets, from the `parameters` of `/api/show`.
pub fn ollama_num_ctx(body: &[u8]) -> Option<u64> {
    let fields: JsonFields = serde_json::from_slice(body).ok()?;
    let parameters = fields.text("parameters")?;
    parameters.lines().find_map(|line| {
        let mut words = line.split_whitespace();
        (words.next() == Some("num_ctx")).then(|| words.next()?.parse().ok()).flatten()
    })
}

/// Reads LM Studio's `/api/v1/models`: the size of a loaded instance, else the model's maximum.
pub fn from_lm_studio(body: &[u8], model: &str) -> Option<u64> {
    let fields: JsonFields = serde_json::from_slice(body).ok()?;
    let models: Vec<JsonFields> = fields
        .list("models")
        .or_else(|| fields.list("data"))?
        .iter()
        .filter_map(|raw| raw.read().ok())
        .collect();
    let wanted = model.to_ascii_lowercase();
    let named = |entry: &&JsonFields| {
        ["key", "id"]
            .into_iter()
            .filter_map(|name| entry.text(name))
            .any(|id| id.to_ascii_lowercase() == wanted)
    };
    let entry = models.iter().find(named).or_else(|| models.first().filter(|_| models.len() == 1))?;
    let instances = entry.list("loaded_instances").unwrap_or_default();
    let loaded = instances.iter().find_map(|raw| {
        let instance: JsonFields = raw.read().ok()?;
        instance
            .object("config")
            .and_then(|config| config.number("context_length"))
            .or_else(|| instance.number("context_length"))
    });
    loaded
        .or_else(|| entry.number("loaded_context_length"))
        .or_else(|| entry.number("max_context_length"))
        .filter(|size| is_window(*size))
}

/// Reads the registry of models.dev: `{provider: {models: {id: {limit: {context}}}}}`.
pub fn from_models_dev(body: &[u8], provider: &str, model: &str) -> Option<u64> {
    let registry: JsonFields = serde_json::from_slice(body).ok()?;
    let models = registry.object(provider)?.object("models")?;
    let wanted = model.to_ascii_lowercase();
    let (_, raw) = models.iter().find(|(id, _)| id.to_ascii_lowercase() == wanted)?;
    let entry: JsonFields = raw.read().ok()?;
    entry.object("limit")?.number("context").filter(|size| is_window(*size))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn models() {
        let check = |body: &str, model: &str, expected: Option<u64>| {
            assert_eq!(from_models(body.as_bytes(), model), expected, "{model} in {body}");
        };
        let two = r#"{"data":[{"id":"org/alpha-7b","meta":{"n_ctx_train":32768}},{"id":"alpha","context_length":"8192","max_model_len":4096}]}"#;
        check(two, "alpha", Some(8_192));
        check(two, "alpha-7b", Some(32_768));
        check(two, "beta", None);
        check(r#"{"data":[{"id":"x","max_model_len":16384.0}]}"#, "anything", Some(16_384));
        check(r#"{"data":[{"id":"x","context_length":5}]}"#, "x", None);
        check(r#"{"data":[{"id":"claude","max_input_tokens":200000}]}"#, "claude", Some(200_000));
        check(r#"{"data":[]}"#, "x", None);
        check("<html>", "x", None);
    }

    #[test]
    fn catalogues() {
        let body = br#"{"data":[{"id":"anthropic/claude-sonnet-4.6","canonical_slug":"anthropic/claude-4.6-sonnet-2026","context_length":1000000},{"id":"anthropic/claude-sonnet-4","context_length":200000}]}"#;
        let check =
            |model: &str, expected: Option<u64>| assert_eq!(from_catalogue(body, model), expected, "{model}");
        check("anthropic/claude-sonnet-4", Some(200_000));
        check("claude-sonnet-4-6", Some(1_000_000));
        check("anthropic/claude-4.6-sonnet-2026", Some(1_000_000));
        check("claude-sonnet", None);
    }

    #[test]
    fn local_servers() {
        assert_eq!(from_props(br#"{"default_generation_settings":{"n_ctx":4096}}"#), Some(4_096));
        let show =
            br#"{"model_info":{"qwen3.context_length":40960},"parameters":"stop \"x\"\nnum_ctx   16384"}"#;
        assert_eq!((from_ollama(show), ollama_num_ctx(show)), (Some(40_960), Some(16_384)));
        assert_eq!(from_ollama(br#"{"parameters":"num_ctx 2048"}"#), Some(2_048));
        let studio = br#"{"models":[{"key":"a","max_context_length":32768,"loaded_instances":[{"config":{"context_length":8192}}]},{"key":"b","max_context_length":65536,"loaded_instances":[]}]}"#;
        assert_eq!((from_lm_studio(studio, "a"), from_lm_studio(studio, "b")), (Some(8_192), Some(65_536)));
        assert_eq!(from_lm_studio(studio, "c"), None);
        let dev = br#"{"anthropic":{"models":{"claude-x":{"limit":{"context":200000,"output":64000}}}}}"#;
        assert_eq!(from_models_dev(dev, "anthropic", "Claude-X"), Some(200_000));
    }
}
