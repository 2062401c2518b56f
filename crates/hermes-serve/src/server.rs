//! The listening socket: connections, routes, and shutdown.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::middleware::{from_fn, from_fn_with_state};
use axum::routing::{get, post};
use hermes_net::{HttpListener, serve_connection};
use hermes_task::TaskGroup;
use hermes_types::{Cancel, Clock};
use hyper_util::service::TowerToHyperService;
use tokio::sync::Semaphore;

use crate::app::App;
use crate::error::{ApiError, StartError};
use crate::guard::guard;
use crate::unread::close_unread;
use crate::{chat, health, idle, jobs, responses, runs};

/// The most open connections; more wait to be accepted.
const CONNECTIONS: usize = 8192;
/// The time running responses get when the server stops.
const GRACE: Duration = Duration::from_secs(5);

/// A running server.
#[derive(Debug)]
pub struct ServerHandle {
    pub address: SocketAddr,
    tasks: Arc<TaskGroup>,
}

impl ServerHandle {
    /// Stops the turns of the API, then the connections.
    pub async fn stop(self, app: &App) {
        app.tasks.shut_down().await;
        self.close(&*app.clock).await;
    }

    /// Accepts no more requests, gives running responses a grace period, and closes.
    pub async fn close(self, clock: &dyn Clock) {
        tokio::select! {
            () = self.tasks.shut_down() => {}
            () = clock.sleep(GRACE) => {}
        }
    }
}

/// Listens and serves until it is stopped.
pub async fn start(app: App, cancel: &Cancel) -> Result<ServerHandle, StartError> {
    let address = format!("{}:{}", app.settings.host, app.settings.port);
    let clock = app.clock.clone();
    idle::start_idle_cleanup(&app);
    let listening = listen(&address, router(app), clock, cancel).await?;
    tracing::info!(target: "hermes::life", "API server listening on http://{}", listening.address);
    Ok(listening)
}

/// Accepts connections for these routes.
pub(crate) async fn listen(
    address: &str,
    router: Router,
    clock: Arc<dyn Clock>,
    cancel: &Cancel,
) -> Result<ServerHandle, StartError> {
    let refused = |error: std::io::Error| StartError::Address {
        address: address.to_owned(),
        reason: error.to_string(),
    };
    let listener = HttpListener::bind(address).await.map_err(refused)?;
    let local = listener.local_addr().map_err(refused)?;
    let tasks = Arc::new(TaskGroup::new(cancel));
    let connections = tasks.clone();
    let router = router.layer(from_fn(close_unread));
    drop(tasks.spawn("accepting", async move { accept(listener, router, &connections, &*clock).await }));
    Ok(ServerHandle { address: local, tasks })
}

async fn accept(mut listener: HttpListener, router: Router, tasks: &TaskGroup, clock: &dyn Clock) {
    let room = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        let Ok(permit) = room.clone().acquire_owned().await else { return };
        let stream = listener.accept(clock).await;
        let service = TowerToHyperService::new(router.clone());
        drop(tasks.spawn_cooperative("a connection", move |cancel| async move {
            serve_connection(stream, service, &cancel).await;
            drop(permit);
        }));
    }
}

fn router(app: App) -> Router {
    Router::new()
        .route("/health", get(health::plain))
        .route("/v1/health", get(health::plain))
        .route("/health/detailed", get(health::detailed))
        .route("/v1/models", get(health::models))
        .route("/v1/models/{id}", get(health::one_model))
        .route("/v1/capabilities", get(health::capabilities))
        .route("/v1/chat/completions", post(chat::completions))
        .route("/v1/responses", post(responses::create))
        .route("/v1/responses/{id}", get(responses::find).delete(responses::remove))
        .route("/v1/runs", post(runs::create))
        .route("/v1/runs/{id}", get(runs::find))
        .route("/v1/runs/{id}/events", get(runs::events))
        .route("/v1/runs/{id}/approval", post(runs::approve))
        .route("/v1/runs/{id}/stop", post(runs::stop))
        .route("/api/jobs", get(jobs::list).post(jobs::create))
        .route("/api/jobs/{id}", get(jobs::find).patch(jobs::change).delete(jobs::remove))
        .route("/api/jobs/{id}/pause", post(jobs::pause))
        .route("/api/jobs/{id}/resume", post(jobs::resume))
        .route("/api/jobs/{id}/run", post(jobs::run))
        .fallback(|| async { ApiError::not_found("There is nothing at this path") })
        .method_not_allowed_fallback(|| async {
            ApiError::new(
                axum::http::StatusCode::METHOD_NOT_ALLOWED,
                "method_not_allowed",
                "This path does not take this method",
            )
        })
        .layer(from_fn_with_state(app.clone(), guard))
        .with_state(app)
}
