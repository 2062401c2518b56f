//! Health checks of the server.

use axum::Json;
use axum::extract::State;
use hermes_store::QueueDepth;
use serde_json::{Value, json};

use crate::app::App;
use crate::error::ApiError;
use crate::run;

pub(crate) async fn plain(State(app): State<App>) -> Json<Value> {
    Json(json!({"status": "ok", "platform": "hermes-agent", "version": app.version}))
}

/// Reports queues, platforms and the database for monitoring.
///
/// Responds whatever is wrong: a queue that cannot be read is `null`, and the checks say why.
pub(crate) async fn detailed(State(app): State<App>) -> Json<Value> {
    let gateway = &app.gateway;
    let now = app.clock.now();
    let checks = checks(&app).await;
    let sound = checks.iter().all(|(_, problem)| problem.is_none());
    let told: serde_json::Map<String, Value> = checks
        .into_iter()
        .map(|(name, problem)| (name.to_owned(), Value::String(problem.unwrap_or_else(|| "ok".to_owned()))))
        .collect();
    let depth = |depth: Result<QueueDepth, hermes_store::Error>| {
        let depth = depth.ok()?;
        let oldest = depth.oldest.map(|oldest| now.since(oldest).as_secs());
        Some(json!({"waiting": depth.waiting, "oldest_seconds": oldest}))
    };
    let inbox = depth(app.store.inbox_depth().await);
    let outbox = depth(app.store.outbox_depth().await);
    let active = gateway.active_turns() + app.active_turns();
    Json(json!({
        "status": if sound { "ok" } else { "degraded" },
        "readiness": {"status": if sound { "ready" } else { "not_ready" }, "checks": told},
        "platform": "hermes-agent",
        "version": app.version,
        "gateway_state": if gateway.is_draining() { "draining" } else { "running" },
        "platforms": gateway.platforms(),
        "active_agents": active,
        "gateway_busy": active > 0,
        "queues": {"inbox": inbox, "outbox": outbox},
        "uptime_seconds": now.since(app.started_at).as_secs(),
        "pid": std::process::id(),
    }))
}

/// Runs the checks and returns each with its problem, if any.
async fn checks(app: &App) -> Vec<(&'static str, Option<String>)> {
    let warnings = app.live.current().config.warnings().iter().map(ToString::to_string).collect::<Vec<_>>();
    // The files as they are now: if they cannot be used, older settings are in force.
    let config = app.live.problem().or_else(|| (!warnings.is_empty()).then(|| warnings.join("; ")));
    vec![
        ("state_db", app.store.probe().await.err().map(|error| error.to_string())),
        ("config", config),
        ("model", run::build_agent(app, None).err().map(|error| error.message)),
        ("gateway", app.gateway.is_draining().then(|| "the gateway takes no new turns".to_owned())),
    ]
}

pub(crate) async fn models(State(app): State<App>) -> Json<Value> {
    let name = &app.settings.model_name;
    Json(json!({"object": "list", "data": [model(name, app.unix_seconds())]}))
}

pub(crate) async fn one_model(
    State(app): State<App>,
    crate::field::PathId(id): crate::field::PathId,
) -> Result<Json<Value>, ApiError> {
    if id == app.settings.model_name {
        return Ok(Json(model(&id, app.unix_seconds())));
    }
    Err(ApiError::not_found(format!("The model `{id}` does not exist")))
}

fn model(name: &str, created: u64) -> Value {
    json!({
        "id": name, "object": "model", "created": created, "owned_by": "hermes", "permission": [], "root": name,
        "parent": null,
    })
}

pub(crate) async fn capabilities(State(app): State<App>) -> Json<Value> {
    Json(json!({
        "model": app.settings.model_name,
        "version": app.version,
        "endpoints": ["chat.completions", "responses", "runs", "models", "jobs"],
        "streaming": true,
        "session_continuity": true,
    }))
}
