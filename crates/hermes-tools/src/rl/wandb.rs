//! The figures of a run, from the public API of Weights & Biases. What cannot be reached is said and fails nothing.

use std::sync::Arc;
use std::time::Duration;

use hermes_net::HttpRequest;
use hermes_net::header::AUTHORIZATION;
use hermes_types::{Cancel, Clock, Deadline, Secret};
use serde_json::{Map, Value, json};

use crate::web::LazyHttpClient;

const LIMIT: Duration = Duration::from_secs(30);
const ANSWER_LIMIT: usize = 8 * 1024 * 1024;
const QUERY: &str = "query Runs($entity: String!, $project: String!, $filters: JSONString) { project(name: $project, entityName: $entity) \
    { runs(filters: $filters, first: 1) { edges { node { name displayName state summaryMetrics history(samples: 10) } } } } }";
/// The figures, by their names in the service.
const FIGURES: [(&str, &str); 4] = [
    ("step", "_step"),
    ("reward_mean", "train/reward_mean"),
    ("percent_correct", "train/percent_correct"),
    ("eval_percent_correct", "eval/percent_correct"),
];

/// The access to the service.
#[derive(Debug, Clone)]
pub struct MetricsService {
    /// The address of the API.
    pub url: String,
    pub key: Secret,
    pub entity: String,
    pub http: LazyHttpClient,
    pub clock: Arc<dyn Clock>,
}

/// What the service knows of a run.
pub(super) struct RunMetrics {
    pub(super) url: String,
    pub(super) figures: Map<String, Value>,
    pub(super) history: Vec<Value>,
}

impl MetricsService {
    /// Returns the figures of a run, which is found by the name people see.
    pub(super) async fn run(&self, project: &str, name: &str, cancel: &Cancel) -> Result<RunMetrics, String> {
        let filters = json!({"displayName": name}).to_string();
        let body = json!({"query": QUERY, "variables": {"entity": self.entity, "project": project, "filters": filters}});
        let token = data_encoding::BASE64.encode(format!("api:{}", self.key.expose()).as_bytes());
        let request = HttpRequest::post(&format!("{}/graphql", self.url.trim_end_matches('/')))
            .and_then(|request| request.json(&body))
            .and_then(|request| request.secret_header(AUTHORIZATION, &Secret::new(format!("Basic {token}"))));
        let request = request.map_err(|error| error.to_string())?.response_timeout(LIMIT);
        let client = self.http.get()?;
        let answer = client.send(request, Deadline::after(&*self.clock, LIMIT), cancel).await;
        let answer = answer.map_err(|error| error.to_string())?;
        if !answer.status().is_success() {
            return Err(format!("the service answered with status {}", answer.status().as_u16()));
        }
        let answer: Value = answer.json(ANSWER_LIMIT).await.map_err(|error| error.to_string())?;
        let node = answer.pointer("/data/project/runs/edges/0/node");
        let node = node.filter(|node| node.is_object()).ok_or("the service does not know the run yet")?;
        let text = |name: &str| node.get(name).and_then(Value::as_str).unwrap_or_default();
        let summary: Value = serde_json::from_str(text("summaryMetrics")).unwrap_or_default();
        let history = node.get("history").and_then(Value::as_array).into_iter().flatten();
        let history = history.filter_map(|row| {
            let row: Value = serde_json::from_str(row.as_str()?).ok()?;
            Some(Value::Object(figures(&row)))
        });
        Ok(RunMetrics {
            url: format!("https://wandb.ai/{}/{project}/runs/{}", self.entity, text("name")),
            figures: figures(&summary),
            history: history.take(10).collect(),
        })
    }
}

fn figures(of: &Value) -> Map<String, Value> {
    let found = FIGURES.iter().filter_map(|(name, key)| Some(((*name).to_owned(), of.get(*key)?.clone())));
    found.collect()
}
