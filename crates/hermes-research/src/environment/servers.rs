//! The model servers: which one is asked, how often, and how the requests to each kind look.
//!
//! A request waits for a healthy server with a free slot. Invariant: a slot is given back however a request ends; a key is sent only
//! to its own server.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hermes_net::{HttpClient, HttpRequest};
use hermes_task::{Task, spawn_named};
use hermes_types::{Cancel, Clock, Deadline, Secret};
use serde_json::{Map, Value, json};

use super::request::{RequestFailure, random_wait};
use super::sequence::GeneratedTokens;
use super::settings::{InferenceServerSettings, ServerType};

/// How often the health of a server is checked, and how long a check may take.
const HEALTH_INTERVAL: Duration = Duration::from_secs(1);
const HEALTH_LIMIT: Duration = Duration::from_secs(10);
/// The wait before a free slot is looked for again.
const SLOT_WAIT: Duration = Duration::from_millis(50);
/// How often a request is made in all.
const ATTEMPTS: u32 = 3;
/// The largest answer.
const ANSWER_LIMIT: usize = 256 * 1024 * 1024;

/// What a request is for. Evaluations have their own slots.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RequestPurpose {
    Training,
    Evaluation,
}

struct ServerState {
    settings: InferenceServerSettings,
    healthy: AtomicBool,
    in_use: AtomicUsize,
    in_evaluation: AtomicUsize,
}

impl ServerState {
    fn busy(&self, purpose: RequestPurpose) -> &AtomicUsize {
        match purpose {
            RequestPurpose::Training => &self.in_use,
            RequestPurpose::Evaluation => &self.in_evaluation,
        }
    }
}

/// The servers of an environment. Dropping the value ends the checks of their health.
pub struct ModelServers {
    servers: Vec<Arc<ServerState>>,
    net: HttpClient,
    clock: Arc<dyn Clock>,
    /// The share of the slots that training may use, as the bits of a float.
    share: AtomicU64,
    checks: Mutex<Vec<Task<()>>>,
    cancel: Cancel,
}

impl std::fmt::Debug for ModelServers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ModelServers").field("servers", &self.servers.len()).finish_non_exhaustive()
    }
}

impl Drop for ModelServers {
    fn drop(&mut self) {
        self.cancel.cancel();
    }
}

/// A slot of a server, given back when it is dropped.
struct ServerSlot {
    server: Arc<ServerState>,
    purpose: RequestPurpose,
}

impl Drop for ServerSlot {
    fn drop(&mut self) {
        self.server.busy(self.purpose).fetch_sub(1, Relaxed);
    }
}

impl ModelServers {
    /// Takes servers into use. Those whose health is checked are asked from now on.
    pub fn new(servers: Vec<InferenceServerSettings>, net: HttpClient, clock: Arc<dyn Clock>) -> Arc<Self> {
        let servers = servers.into_iter().map(|settings| {
            let healthy = AtomicBool::new(!settings.health_check);
            Arc::new(ServerState {
                settings,
                healthy,
                in_use: AtomicUsize::new(0),
                in_evaluation: AtomicUsize::new(0),
            })
        });
        let pool = Arc::new(Self {
            servers: servers.collect(),
            net,
            clock,
            share: AtomicU64::new(1.0_f64.to_bits()),
            checks: Mutex::default(),
            cancel: Cancel::new(),
        });
        let checks = pool.servers.iter().filter(|server| server.settings.health_check);
        let checks = checks.map(|server| {
            let (server, net, clock) = (server.clone(), pool.net.clone(), pool.clock.clone());
            spawn_named("health of a model server", &pool.cancel, async move {
                loop {
                    let healthy = is_healthy(&server.settings, &net, &clock).await;
                    if server.healthy.swap(healthy, Relaxed) != healthy {
                        tracing::info!(
                            server = server.settings.base_url,
                            healthy,
                            "the health of a model server changed"
                        );
                    }
                    clock.sleep(HEALTH_INTERVAL).await;
                }
            })
        });
        let checks: Vec<Task<()>> = checks.collect();
        *pool.checks.lock().unwrap_or_else(PoisonError::into_inner) = checks;
        pool
    }

    /// Returns the settings of the first server, which stand for all.
    pub(crate) fn first(&self) -> InferenceServerSettings {
        self.servers.first().map(|server| server.settings.clone()).unwrap_or_default()
    }

    pub(crate) fn count(&self) -> usize {
        self.servers.len()
    }

    /// Lets training use only a share of the slots.
    pub(crate) fn set_share(&self, share: f64) {
        self.share.store(share.clamp(0.01, 1.0).to_bits(), Relaxed);
    }

    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "numbers of slots"
    )]
    fn slots(&self, server: &ServerState, purpose: RequestPurpose) -> usize {
        match purpose {
            RequestPurpose::Evaluation => server.settings.num_requests_for_eval.max(1),
            RequestPurpose::Training => {
                let share = f64::from_bits(self.share.load(Relaxed));
                ((server.settings.num_max_requests_at_once as f64 * share) as usize).max(1)
            }
        }
    }

    /// Waits for a healthy server with a free slot.
    async fn slot(&self, purpose: RequestPurpose) -> ServerSlot {
        loop {
            let free =
                self.servers.iter().filter(|server| server.healthy.load(Relaxed)).filter_map(|server| {
                    let free = self.slots(server, purpose).checked_sub(server.busy(purpose).load(Relaxed))?;
                    (free > 0).then_some((free, server))
                });
            if let Some((_, server)) = free.max_by_key(|(free, _)| *free) {
                server.busy(purpose).fetch_add(1, Relaxed);
                return ServerSlot { server: server.clone(), purpose };
            }
            self.clock.sleep(SLOT_WAIT).await;
        }
    }

    /// Sends a request to a server, again after a failure that may pass.
    pub(crate) async fn ask(
        &self,
        purpose: RequestPurpose,
        request: impl Fn(&InferenceServerSettings) -> (String, Value),
        cancel: &Cancel,
    ) -> Result<(ServerType, Value), String> {
        let mut attempt = 0;
        loop {
            attempt += 1;
            let slot = tokio::select! {
                slot = self.slot(purpose) => slot,
                () = cancel.cancelled() => return Err("cancelled".to_owned()),
            };
            let settings = &slot.server.settings;
            let (url, body) = request(settings);
            let answer = post(&self.net, &self.clock, settings, &url, &body, cancel).await;
            let failure = match answer {
                Ok(answer) => return Ok((settings.server_type, answer)),
                Err(failure) => failure,
            };
            drop(slot);
            if attempt >= ATTEMPTS || !failure.may_pass || cancel.is_cancelled() {
                return Err(failure.reason);
            }
            tracing::warn!(reason = failure.reason, "a model server failed; the request is repeated");
            tokio::select! {
                () = self.clock.sleep(random_wait(attempt)) => {}
                () = cancel.cancelled() => return Err("cancelled".to_owned()),
            }
        }
    }

    /// Asks for an answer of a chat. Returns the message.
    pub(crate) async fn chat(
        &self,
        purpose: RequestPurpose,
        body: &Map<String, Value>,
        cancel: &Cancel,
    ) -> Result<Value, String> {
        let request = |settings: &InferenceServerSettings| {
            let mut body = body.clone();
            body.insert("model".to_owned(), json!(settings.model_name));
            (format!("{}/chat/completions", settings.base_url.trim_end_matches('/')), Value::Object(body))
        };
        let (_, answer) = self.ask(purpose, request, cancel).await?;
        let message = answer.pointer("/choices/0/message").filter(|message| message.is_object());
        message.cloned().ok_or_else(|| "the answer of the model server has no message".to_owned())
    }

    /// Asks for the tokens that follow others.
    pub(crate) async fn generate(
        &self,
        purpose: RequestPurpose,
        tokens: &[u32],
        max_tokens: u64,
        temperature: f64,
        cancel: &Cancel,
    ) -> Result<GeneratedTokens, String> {
        let request = |settings: &InferenceServerSettings| {
            let url = format!("{}/generate", without_version(&settings.base_url));
            let body = match settings.server_type {
                ServerType::Sglang => json!({
                    "input_ids": tokens,
                    "sampling_params": {"n": 1, "max_new_tokens": max_tokens, "temperature": temperature},
                    "return_logprob": true,
                    "return_text_in_logprobs": false,
                }),
                _ => json!({
                    "prompt": {"prompt_token_ids": tokens},
                    "logprobs": 0,
                    "n": 1,
                    "max_tokens": max_tokens,
                    "temperature": temperature,
                }),
            };
            (url, body)
        };
        let (kind, answer) = self.ask(purpose, request, cancel).await?;
        let read = if kind == ServerType::Sglang { read_sglang(&answer) } else { read_vllm(&answer) };
        read.ok_or_else(|| "the answer of the model server has no tokens with log probabilities".to_owned())
    }
}

/// Returns an address without the version of its API.
pub(crate) fn without_version(url: &str) -> &str {
    let url = url.trim_end_matches('/');
    url.strip_suffix("/v1").unwrap_or(url)
}

async fn is_healthy(settings: &InferenceServerSettings, net: &HttpClient, clock: &Arc<dyn Clock>) -> bool {
    let cancel = Cancel::new();
    let deadline = Deadline::after(&**clock, HEALTH_LIMIT);
    if settings.server_type == ServerType::Vllm {
        let Ok(request) = HttpRequest::get(&format!("{}/health", without_version(&settings.base_url))) else {
            return false;
        };
        let answer = net.send(request.response_timeout(HEALTH_LIMIT), deadline, &cancel).await;
        return answer.is_ok_and(|answer| answer.status().is_success());
    }
    let url = format!("{}/completions", settings.base_url.trim_end_matches('/'));
    let body = json!({"model": settings.model_name, "prompt": "hi", "max_tokens": 1});
    let limited = InferenceServerSettings { timeout: HEALTH_LIMIT.as_secs_f64(), ..settings.clone() };
    post(net, clock, &limited, &url, &body, &cancel).await.is_ok()
}

async fn post(
    net: &HttpClient,
    clock: &Arc<dyn Clock>,
    settings: &InferenceServerSettings,
    url: &str,
    body: &Value,
    cancel: &Cancel,
) -> Result<Value, RequestFailure> {
    let limit = Duration::try_from_secs_f64(settings.timeout).unwrap_or(Duration::from_mins(20));
    let mut request = HttpRequest::post(url)?.json(body)?.response_timeout(limit).stall_timeout(limit);
    if !settings.api_key.is_empty() {
        request = request.bearer(&Secret::new(&settings.api_key))?;
    }
    let answer = net.send(request, Deadline::after(&**clock, limit), cancel).await?;
    RequestFailure::check(answer, ANSWER_LIMIT).await
}

/// Reads tokens where each position maps the token's id to its log probability.
fn read_vllm(answer: &Value) -> Option<GeneratedTokens> {
    let positions = answer.pointer("/logprobs/0")?.as_array()?;
    let mut generated = GeneratedTokens { tokens: Vec::new(), logprobs: Vec::new() };
    for position in positions {
        let (token, logprob) = match position.get(0).unwrap_or(position) {
            Value::Object(entry) => entry.iter().next()?,
            _ => return None,
        };
        generated.tokens.push(token.parse().ok()?);
        let logprob = logprob.as_f64().or_else(|| logprob.get("logprob").and_then(Value::as_f64));
        generated.logprobs.push(logprob?);
    }
    Some(generated)
}

/// Reads tokens where each position is a log probability, an id and perhaps a text.
fn read_sglang(answer: &Value) -> Option<GeneratedTokens> {
    let answer = if answer.is_array() { answer.get(0)? } else { answer };
    let positions = answer.pointer("/meta_info/output_token_logprobs")?.as_array()?;
    let mut generated = GeneratedTokens { tokens: Vec::new(), logprobs: Vec::new() };
    for position in positions {
        generated.logprobs.push(position.get(0)?.as_f64()?);
        generated.tokens.push(u32::try_from(position.get(1)?.as_u64()?).ok()?);
    }
    Some(generated)
}
