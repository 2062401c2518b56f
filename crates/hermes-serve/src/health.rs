//! Whether the server is there, and how it is.

use axum::Json;
use axum::extract::State;
use serde_json::{Value, json};

use crate::app::App;
use crate::error::ApiError;

pub(crate) async fn plain(State(app): State<App>) -> Json<Value> {
    Json(json!({"status": "ok", "platform": "hermes-agent", "version": app.version}))
}

/// Queues, platforms and the database, for whoever watches over it.
pub(crate) async fn detailed(State(app): State<App>) -> Result<Json<Value>, ApiError> {
    let gateway = &app.gateway;
    let now = gateway.clock.now();
    let (inbox, outbox) = (gateway.store.inbox_depth().await?, gateway.store.outbox_depth().await?);
    let age = |oldest: Option<hermes_types::Timestamp>| oldest.map(|oldest| now.since(oldest).as_secs());
    let active = gateway.active() + app.running();
    Ok(Json(json!({
        "status": "ok",
        "readiness": {"status": "ready", "checks": {"state_db": "ok", "config": "ok", "gateway": "ok"}},
        "platform": "hermes-agent",
        "version": app.version,
        "gateway_state": if gateway.is_draining() { "draining" } else { "running" },
        "platforms": gateway.platforms(),
        "active_agents": active,
        "gateway_busy": active > 0,
        "queues": {
            "inbox": {"waiting": inbox.waiting, "oldest_seconds": age(inbox.oldest)},
            "outbox": {"waiting": outbox.waiting, "oldest_seconds": age(outbox.oldest)},
        },
        "uptime_seconds": now.since(app.started_at).as_secs(),
        "pid": std::process::id(),
    })))
}

pub(crate) async fn models(State(app): State<App>) -> Json<Value> {
    let name = &app.settings.model_name;
    Json(json!({"object": "list", "data": [model(name, app.seconds())]}))
}

pub(crate) async fn one_model(
    State(app): State<App>,
    crate::field::Id(id): crate::field::Id,
) -> Result<Json<Value>, ApiError> {
    if id == app.settings.model_name {
        return Ok(Json(model(&id, app.seconds())));
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
