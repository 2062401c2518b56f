//! The client of the trainer's API server, which takes scored groups.
//!
//! The server keeps its state in memory: what it forgets in a restart is registered again. Invariant: no group is sent before the
//! server has registered the environment.

use std::io::Write as _;
use std::sync::Arc;
use std::time::Duration;

use flate2::Compression;
use flate2::write::GzEncoder;
use hermes_net::header::{CONTENT_ENCODING, CONTENT_TYPE};
use hermes_net::{HttpClient, HttpRequest, Method};
use hermes_types::{Cancel, Clock, Deadline};
use serde_json::{Value, json};

use super::request::{RequestFailure, random_wait};
use super::settings::EnvironmentSettings;

/// Bodies of this size are compressed.
const COMPRESSED: usize = 1024;
const ATTEMPTS: u32 = 3;
const LIMIT: Duration = Duration::from_mins(2);
const ANSWER_LIMIT: usize = 64 * 1024 * 1024;
/// The wait between two attempts to register.
const REGISTER_WAIT: Duration = Duration::from_secs(1);

/// What the server knows of this environment.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Registration {
    pub(crate) env_id: i64,
    pub(crate) wandb_name: String,
    pub(crate) checkpoint_dir: String,
    pub(crate) starting_step: i64,
    pub(crate) checkpoint_interval: i64,
    pub(crate) num_steps: i64,
}

/// How far training is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct TrainerStatus {
    pub(crate) current_step: i64,
    /// Groups in the queue, and those of this environment among them.
    pub(crate) queue_size: i64,
    pub(crate) self_queue_size: i64,
    pub(crate) max_group_size: i64,
    pub(crate) unallocated_fraction: f64,
    pub(crate) env_weight: f64,
}

/// What the trainer asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TrainerInfo {
    pub(crate) batch_size: i64,
    pub(crate) max_token_len: i64,
}

/// A client of one server.
#[derive(Clone)]
pub(crate) struct AtroposClient {
    net: HttpClient,
    clock: Arc<dyn Clock>,
    url: String,
}

impl AtroposClient {
    pub(crate) fn new(net: HttpClient, clock: Arc<dyn Clock>, url: &str) -> Self {
        Self { net, clock, url: url.trim_end_matches('/').to_owned() }
    }

    async fn once(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
        cancel: &Cancel,
    ) -> Result<Value, RequestFailure> {
        let url = format!("{}{path}", self.url);
        let url = url.parse().map_err(|_| RequestFailure::from(hermes_net::Error::InvalidUrl))?;
        let mut request = HttpRequest::new(method, url).header(CONTENT_TYPE, "application/json")?;
        if let Some(body) = body {
            let bytes = body.to_string().into_bytes();
            let packed = (bytes.len() >= COMPRESSED).then(|| compress(&bytes)).flatten();
            request = match packed.filter(|packed| packed.len() < bytes.len()) {
                Some(packed) => request.header(CONTENT_ENCODING, "gzip")?.body(packed),
                None => request.body(bytes),
            };
        }
        let request = request.response_timeout(LIMIT).stall_timeout(LIMIT);
        let answer = self.net.send(request, Deadline::after(&*self.clock, LIMIT), cancel).await?;
        RequestFailure::check(answer, ANSWER_LIMIT).await
    }

    async fn request(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
        cancel: &Cancel,
    ) -> Result<Value, RequestFailure> {
        let mut attempt = 0;
        loop {
            attempt += 1;
            match self.once(method.clone(), path, body, cancel).await {
                Ok(answer) => return Ok(answer),
                Err(failure) if attempt >= ATTEMPTS || !failure.may_pass || cancel.is_cancelled() => {
                    return Err(failure);
                }
                Err(_) => {}
            }
            tokio::select! {
                () = self.clock.sleep(random_wait(attempt)) => {}
                () = cancel.cancelled() => return Err(RequestFailure::from(hermes_net::Error::Cancelled)),
            }
        }
    }

    /// Waits until the trainer has named its project.
    pub(crate) async fn wait_for_project(&self, cancel: &Cancel) {
        while !cancel.is_cancelled() {
            let info = self.once(Method::GET, "/wandb_info", None, cancel).await;
            if info.is_ok_and(|info| info.get("project").is_some_and(|project| !project.is_null())) {
                return;
            }
            self.clock.sleep(REGISTER_WAIT).await;
        }
    }

    /// Registers, again and again until the trainer has begun. `None` when it was cancelled. The error is one that no repetition
    /// changes.
    pub(crate) async fn register(
        &self,
        settings: &EnvironmentSettings,
        name: &str,
        cancel: &Cancel,
    ) -> Result<Option<Registration>, String> {
        let body = json!({
            "max_token_length": settings.max_token_length,
            "desired_name": name,
            "weight": settings.inference_weight,
            "group_size": settings.group_size,
            "min_batch_allocation": settings.min_batch_allocation,
        });
        let mut told = false;
        loop {
            match self.once(Method::POST, "/register-env", Some(&body), cancel).await {
                Ok(answer) => {
                    if let Some(registration) = read_registration(&answer) {
                        return Ok(Some(registration));
                    }
                }
                Err(_) if cancel.is_cancelled() => return Ok(None),
                Err(failure) if failure.status.is_some() && !failure.may_pass => return Err(failure.reason),
                Err(failure) => {
                    if !std::mem::replace(&mut told, true) {
                        tracing::warn!(
                            reason = failure.reason,
                            "the trainer's API server does not answer; Hermes asks again every second"
                        );
                    }
                }
            }
            tokio::select! {
                () = self.clock.sleep(REGISTER_WAIT) => {}
                () = cancel.cancelled() => return Ok(None),
            }
        }
    }

    pub(crate) async fn info(&self, cancel: &Cancel) -> Result<TrainerInfo, RequestFailure> {
        let info = self.request(Method::GET, "/info", None, cancel).await?;
        let number = |name: &str| info.get(name).and_then(Value::as_i64).unwrap_or(-1);
        Ok(TrainerInfo { batch_size: number("batch_size"), max_token_len: number("max_token_len") })
    }

    /// Asks how far training is. `None` where the server does not know this environment (any more).
    pub(crate) async fn status(
        &self,
        env_id: i64,
        cancel: &Cancel,
    ) -> Result<Option<TrainerStatus>, RequestFailure> {
        let body = json!({"env_id": env_id});
        // Not repeated: the next look is soon.
        let status = match self.once(Method::GET, "/status-env", Some(&body), cancel).await {
            Ok(status) => status,
            Err(failure) if failure.status == Some(500) => return Ok(None),
            Err(failure) => return Err(failure),
        };
        let number = |name: &str| status.get(name).and_then(Value::as_i64);
        let share = |name: &str, usual: f64| status.get(name).and_then(Value::as_f64).unwrap_or(usual);
        let Some(current_step) = number("current_step") else { return Ok(None) };
        Ok(Some(TrainerStatus {
            current_step,
            queue_size: number("queue_size").unwrap_or_default(),
            self_queue_size: number("self_queue_size").unwrap_or_default(),
            max_group_size: number("max_group_size").unwrap_or(1),
            unallocated_fraction: share("unallocated_fraction", 1.0),
            env_weight: share("env_weight", 1.0),
        }))
    }

    /// Sends a group.
    pub(crate) async fn send(
        &self,
        env_id: i64,
        mut group: Value,
        cancel: &Cancel,
    ) -> Result<(), RequestFailure> {
        if let Value::Object(members) = &mut group {
            members.insert("env_id".to_owned(), json!(env_id));
        }
        self.request(Method::POST, "/scored_data", Some(&group), cancel).await.map(drop)
    }

    /// Tells the server that this environment ends.
    pub(crate) async fn disconnect(&self, env_id: i64) {
        let body = json!({"env_id": env_id});
        if let Err(failure) = self.once(Method::POST, "/disconnect-env", Some(&body), &Cancel::new()).await {
            tracing::info!(reason = failure.reason, "the trainer's API server was not told of the end");
        }
    }
}

fn compress(bytes: &[u8]) -> Option<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::with_capacity(bytes.len() / 4), Compression::fast());
    encoder.write_all(bytes).ok()?;
    encoder.finish().ok()
}

fn read_registration(answer: &Value) -> Option<Registration> {
    if answer.get("status").and_then(Value::as_str) != Some("success") {
        return None;
    }
    let number = |name: &str| answer.get(name).and_then(Value::as_i64);
    let text = |name: &str| answer.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    Some(Registration {
        env_id: number("env_id")?,
        wandb_name: text("wandb_name"),
        checkpoint_dir: text("checkpoint_dir"),
        starting_step: number("starting_step").unwrap_or_default(),
        checkpoint_interval: number("checkpoint_interval").unwrap_or_default(),
        num_steps: number("num_steps").unwrap_or(-1),
    })
}
