//! The models that a provider serves now.
//!
//! Every provider formats its list differently; the result is one form, in the order in which it is shown to the
//! user.

use hermes_types::{Cancel, JsonFields, RawJson, ReasoningEffort};
use thiserror::Error;

use super::ModelDiscovery;
use super::cache;
use super::query::{DiscoveryQuery, QueryError};
use crate::client::Endpoint;
use crate::wire::fields::JsonFieldsExt as _;
use crate::wire::{ApiMode, CredentialKind, EndpointVendor};

/// A model in a provider's list.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ListedModel {
    pub id: String,
    /// The paths at which it is available; empty where the list does not say.
    pub endpoints: Vec<String>,
    /// The effort levels it supports; empty where the list does not say.
    pub efforts: Vec<ReasoningEffort>,
}

/// The allowed age of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ListFreshness {
    /// Up to an hour old: enough to choose from.
    Recent,
    /// Fetched now, if the server can be reached.
    Current,
}

/// The reason why there is no list. The known models of the provider may be shown instead.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ModelListError {
    #[error("{host} could not be reached")]
    Unreachable { host: String },
    #[error("{host} answered with HTTP {status}")]
    Refused { host: String, status: u16 },
    /// The server answered, but not with a list.
    #[error("{host} publishes no list of models")]
    NoList { host: String },
}

impl ModelDiscovery {
    /// Returns the models of an endpoint. For a user who chooses; a turn never waits for it.
    pub async fn models(
        &self,
        endpoint: &Endpoint,
        age: ListFreshness,
        cancel: &Cancel,
    ) -> Result<Vec<ListedModel>, ModelListError> {
        let host = endpoint.wire.base.host().to_owned();
        if endpoint.wire.vendor == EndpointVendor::Bedrock {
            return Err(ModelListError::NoList { host });
        }
        let body = self.list_body(endpoint, age, cancel).await.map_err(|silence| match silence {
            QueryError::Unreachable => ModelListError::Unreachable { host: host.clone() },
            QueryError::Refused(status) => ModelListError::Refused { host: host.clone(), status },
        })?;
        let models = read(endpoint.wire.vendor, &body);
        if models.is_empty() { Err(ModelListError::NoList { host }) } else { Ok(models) }
    }

    /// Returns the response of `/models`, at the URL with the version and then without, or the other way round.
    pub(super) async fn list_body(
        &self,
        endpoint: &Endpoint,
        age: ListFreshness,
        cancel: &Cancel,
    ) -> Result<Vec<u8>, QueryError> {
        let presented = endpoint.credentials.current(cancel).await.map_err(|_| QueryError::Unreachable)?;
        let mut silence = QueryError::Unreachable;
        for url in addresses(endpoint) {
            let mut question = DiscoveryQuery::get(&url).with_credential(presented.clone());
            if endpoint.wire.mode == ApiMode::Anthropic {
                question = question.header("anthropic-version", "2023-06-01");
                if endpoint.wire.credential == CredentialKind::OAuth {
                    question = question.header("anthropic-beta", "oauth-2025-04-20");
                }
            }
            if endpoint.wire.vendor == EndpointVendor::Copilot {
                question =
                    question.header("editor-version", concat!("HermesAgent/", env!("CARGO_PKG_VERSION")));
            }
            // A local server may serve another model a moment later.
            let kept = cache::list_path(&self.home, &url).filter(|_| !endpoint.wire.base.is_local());
            let answer = match kept {
                Some(path) => self.cache.try_fetch(&self.context, &path, question, age, cancel).await,
                None => question.send(&self.context, cancel).await,
            };
            match answer {
                Ok(body) => return Ok(body),
                // A host that cannot be reached cannot be reached at another path either.
                Err(QueryError::Unreachable) => return Err(QueryError::Unreachable),
                Err(why) => silence = why,
            }
        }
        Err(silence)
    }
}

fn addresses(endpoint: &Endpoint) -> Vec<String> {
    let base = endpoint.wire.base.as_str();
    match endpoint.wire.vendor {
        EndpointVendor::Codex => return vec![format!("{base}/models?client_version=1.0.0")],
        EndpointVendor::Copilot => return vec![format!("{base}/models")],
        _ => {}
    }
    let bare = base.strip_suffix("/v1");
    if endpoint.wire.mode == ApiMode::Anthropic {
        return vec![format!("{}/v1/models?limit=1000", bare.unwrap_or(base))];
    }
    let other = bare.map_or_else(|| format!("{base}/v1"), str::to_owned);
    vec![format!("{base}/models"), format!("{other}/models")]
}

fn read(vendor: EndpointVendor, body: &[u8]) -> Vec<ListedModel> {
    let list: Vec<RawJson> = match serde_json::from_slice::<JsonFields>(body) {
        Ok(fields) => fields.list("data").or_else(|| fields.list("models")).unwrap_or_default(),
        // Some servers send the list without an enclosing object.
        Err(_) => serde_json::from_slice(body).unwrap_or_default(),
    };
    let entries: Vec<JsonFields> = list.iter().filter_map(|raw| raw.read().ok()).collect();
    match vendor {
        EndpointVendor::Codex => read_codex(&entries),
        EndpointVendor::Copilot => entries.iter().filter_map(read_copilot).collect(),
        EndpointVendor::Nous => {
            let mut models: Vec<ListedModel> = entries.iter().filter_map(plain).collect();
            models.retain(|model| !model.id.to_ascii_lowercase().contains("hermes"));
            models.sort_by_key(|model| nous_rank(&model.id));
            models
        }
        _ => entries.iter().filter_map(plain).collect(),
    }
}

fn plain(entry: &JsonFields) -> Option<ListedModel> {
    let id = ["id", "slug", "key", "name", "model"].into_iter().find_map(|name| entry.text(name))?;
    // Google prefixes the ids in its list with `models/`, and nowhere else.
    let id = id.trim();
    let id = id.strip_prefix("models/").unwrap_or(id);
    (!id.is_empty()).then(|| ListedModel { id: id.to_owned(), ..ListedModel::default() })
}

/// Returns the sort rank: Opus, then Pro models, then the rest, then Sonnet.
fn nous_rank(id: &str) -> u8 {
    let id = id.to_ascii_lowercase();
    if id.contains("opus") {
        0
    } else if id.contains("pro") && !id.contains("sonnet") {
        1
    } else if id.contains("sonnet") {
        3
    } else {
        2
    }
}

fn read_codex(entries: &[JsonFields]) -> Vec<ListedModel> {
    let mut models: Vec<(u64, ListedModel)> = entries
        .iter()
        .filter(|entry| {
            let hidden =
                entry.text("visibility").is_some_and(|how| matches!(how.as_str(), "hide" | "hidden"));
            !hidden && !has_flag(entry, "supported_in_api", false)
        })
        .filter_map(|entry| Some((entry.number("priority").unwrap_or(u64::MAX), plain(entry)?)))
        .collect();
    models.sort_by_key(|(priority, _)| *priority);
    models.into_iter().map(|(_, model)| model).collect()
}

fn has_flag(entry: &JsonFields, name: &str, value: bool) -> bool {
    entry.get(name).and_then(|raw| raw.read::<bool>().ok()) == Some(value)
}

fn read_copilot(entry: &JsonFields) -> Option<ListedModel> {
    const USABLE: [&str; 3] = ["/chat/completions", "/responses", "/v1/messages"];
    if has_flag(entry, "model_picker_enabled", false) {
        return None;
    }
    let capabilities = entry.object("capabilities").unwrap_or_default();
    if capabilities.text("type").is_some_and(|kind| kind != "chat") {
        return None;
    }
    let endpoints: Vec<String> =
        entry.get("supported_endpoints").and_then(|raw| raw.read().ok()).unwrap_or_default();
    if !endpoints.is_empty() && !endpoints.iter().any(|path| USABLE.contains(&path.as_str())) {
        return None;
    }
    let supports = capabilities.object("supports").unwrap_or_default();
    let efforts: Vec<String> =
        supports.get("reasoning_effort").and_then(|raw| raw.read().ok()).unwrap_or_default();
    let efforts = efforts.iter().filter_map(|level| ReasoningEffort::parse(level)).collect();
    Some(ListedModel { endpoints, efforts, ..plain(entry)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(vendor: EndpointVendor, body: &str, expected: &[&str]) {
        let ids: Vec<String> = read(vendor, body.as_bytes()).into_iter().map(|model| model.id).collect();
        assert_eq!(ids, expected, "{body}");
    }

    #[test]
    fn lists() {
        check(EndpointVendor::Other, r#"{"data":[{"id":"b"},{"id":" "},{"x":1},7,{"id":"a"}]}"#, &["b", "a"]);
        check(EndpointVendor::Other, r#"[{"id":"bare"}]"#, &["bare"]);
        check(EndpointVendor::Other, r#"{"data":[{"id":"models/gemini-x"}]}"#, &["gemini-x"]);
        check(EndpointVendor::Other, "<html>", &[]);
        check(
            EndpointVendor::Nous,
            r#"{"data":[{"id":"x/sonnet-pro"},{"id":"z/other"},{"id":"Hermes-4"},{"id":"g/gemini-pro"},{"id":"a/opus"}]}"#,
            &["a/opus", "g/gemini-pro", "z/other", "x/sonnet-pro"],
        );
        check(
            EndpointVendor::Codex,
            r#"{"models":[{"slug":"c","priority":3},{"slug":"a","priority":1,"visibility":"list"},{"slug":"h","visibility":"hide","priority":0},{"slug":"n","supported_in_api":false},{"slug":"last"}]}"#,
            &["a", "c", "last"],
        );
    }

    #[test]
    fn copilots_catalogue() {
        let body = r#"{"data":[
            {"id":"claude","capabilities":{"type":"chat","supports":{"reasoning_effort":["low","high","odd"]}},"supported_endpoints":["/v1/messages"]},
            {"id":"hidden","model_picker_enabled":false,"capabilities":{"type":"chat"}},
            {"id":"embed","capabilities":{"type":"embeddings"}},
            {"id":"ws","capabilities":{"type":"chat"},"supported_endpoints":["/ws"]},
            {"id":"plain","model_picker_enabled":true}]}"#;
        let models = read(EndpointVendor::Copilot, body.as_bytes());
        let ids: Vec<&str> = models.iter().map(|model| model.id.as_str()).collect();
        assert_eq!(ids, ["claude", "plain"]);
        assert_eq!(models[0].endpoints, ["/v1/messages"]);
        assert_eq!(models[0].efforts, [ReasoningEffort::Low, ReasoningEffort::High]);
    }
}
