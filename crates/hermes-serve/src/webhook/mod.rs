//! Incoming webhooks: an event of another service becomes a message, and the answer goes where its route says.
//!
//! Invariants: nothing is parsed before the signature is verified; an event is on disk before it is accepted; the
//! same delivery is processed once.

mod channel;
mod platforms;
mod route;
mod signature;
mod template;

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use hermes_config::Home;
use hermes_gateway::{HelperPrograms, Outbox, SkillPrompts};
use hermes_types::{
    Cancel, ChatAddress, ChatKind, ChatPart, Clock, Envelope, Intake, IntakeOutcome, OutgoingMessage,
    PlatformRequests, Sender,
};
use http_body_util::{BodyExt as _, Limited};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::error::StartError;
use crate::server::{ServerHandle, listen};
use platforms::{PlatformPassage, pass_to_platforms};

pub use channel::WebhookChannel;
pub use route::{WebhookRoute, WebhookSettings, WebhookSubscriptions, is_valid_route_name};
pub use signature::sign;

const BODY_TIMEOUT: Duration = Duration::from_secs(30);
const MINUTE: Duration = Duration::from_mins(1);

/// A route and the digest of an event's body.
type SeenEvent = (String, [u8; 32]);

/// The webhook server. Clones refer to the same server.
#[derive(Clone)]
struct WebhookServer {
    intake: Arc<dyn Intake>,
    clock: Arc<dyn Clock>,
    skills: Arc<dyn SkillPrompts>,
    programs: Arc<dyn HelperPrograms>,
    outbox: Outbox,
    settings: Arc<WebhookSettings>,
    subscriptions: Arc<WebhookSubscriptions>,
    /// The times at which each route was used in the last minute.
    used: Arc<Mutex<HashMap<String, Vec<Duration>>>>,
    /// Events of the last hours by route and content, each with its delivery id.
    seen: Arc<Mutex<HashMap<SeenEvent, (String, Duration)>>>,
}

/// What events become messages with.
#[expect(missing_debug_implementations, reason = "it holds ports")]
pub struct WebhookParts {
    pub intake: Arc<dyn Intake>,
    pub clock: Arc<dyn Clock>,
    pub skills: Arc<dyn SkillPrompts>,
    /// Runs the scripts of routes.
    pub programs: Arc<dyn HelperPrograms>,
    /// Sends what is delivered without the agent.
    pub outbox: Outbox,
    pub home: Home,
    /// Takes the requests for chat platforms.
    pub platforms: Arc<dyn PlatformRequests>,
}

/// Listens for webhooks until it is stopped.
pub async fn start_webhooks(
    parts: WebhookParts,
    settings: WebhookSettings,
    cancel: &Cancel,
) -> Result<ServerHandle, StartError> {
    settings.check()?;
    let address = format!("{}:{}", settings.host, settings.port);
    let WebhookParts { intake, clock, skills, programs, outbox, home, platforms } = parts;
    let subscriptions = WebhookSubscriptions::new(home.join("webhook_subscriptions.json"));
    let webhooks = WebhookServer {
        intake,
        clock: clock.clone(),
        skills,
        programs,
        outbox,
        settings: Arc::new(settings),
        subscriptions: Arc::new(subscriptions),
        used: Arc::default(),
        seen: Arc::default(),
    };
    let router = Router::new()
        .route("/health", get(|| async { Json(json!({"status": "ok", "platform": "webhook"})) }))
        .route("/webhooks/{route}", post(handle_webhook))
        .with_state(webhooks);
    let passing = PlatformPassage { platforms, clock: clock.clone() };
    let router = router.layer(from_fn_with_state(passing, pass_to_platforms));
    let listening = listen(&address, router, clock, cancel).await?;
    let local: SocketAddr = listening.address;
    tracing::info!(target: "hermes::life", "webhooks are taken at http://{local}/webhooks/…");
    Ok(listening)
}

/// The response to a request that was not accepted.
type WebhookResponse = (StatusCode, Json<Value>);

fn error_response(status: StatusCode, text: impl Into<String>) -> WebhookResponse {
    (status, Json(json!({"error": text.into()})))
}

async fn handle_webhook(
    State(webhooks): State<WebhookServer>,
    Path(name): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Response {
    match webhooks.accept_event(&name, &headers, body).await {
        Ok(answer) => answer.into_response(),
        Err(refused) => refused.into_response(),
    }
}

impl WebhookServer {
    async fn accept_event(
        &self,
        name: &str,
        headers: &HeaderMap,
        body: Body,
    ) -> Result<WebhookResponse, WebhookResponse> {
        let unknown = || error_response(StatusCode::NOT_FOUND, format!("Unknown route: {name}"));
        let subscribed = || self.subscriptions.find(name).filter(|_| self.settings.takes_events);
        let route = self.settings.routes.get(name).cloned().or_else(subscribed);
        let route = route.ok_or_else(unknown)?;
        if !route.enabled {
            return Err(error_response(StatusCode::FORBIDDEN, format!("The route {name} is turned off")));
        }
        let body = self.read_body(headers, body).await?;
        let secret = route.secret.as_deref().or(self.settings.secret.as_deref()).unwrap_or_default();
        let now = self.clock.now().seconds();
        if !signature::is_valid_signature(headers, &body, secret, now, self.settings.is_loopback()) {
            tracing::warn!(route = name, "a webhook with a wrong signature was refused");
            return Err(error_response(StatusCode::UNAUTHORIZED, "Invalid signature"));
        }
        if !self.is_within_rate_limit(name) {
            return Err(error_response(
                StatusCode::TOO_MANY_REQUESTS,
                "Too many events on this route; try again in a minute",
            ));
        }
        let payload = parse(&body)
            .ok_or_else(|| error_response(StatusCode::BAD_REQUEST, "The body is neither JSON nor a form"))?;
        let event = event_of(headers, &payload);
        if !route.accepts_event(&event, &payload) {
            return Ok((StatusCode::OK, Json(json!({"status": "ignored", "event": event}))));
        }
        let delivery = delivery_of(headers, now);
        if let Some(span) = signature::replay_window(headers)
            && self.is_replay(name, &delivery, &body, span)
        {
            return Ok((StatusCode::OK, Json(json!({"status": "duplicate", "delivery_id": delivery}))));
        }
        let payload = match &route.script {
            None => payload,
            Some(script) => match self.filter_event(name, script, &payload).await {
                Some(changed) => changed,
                None => return Ok((StatusCode::OK, Json(json!({"status": "ignored", "event": event})))),
            },
        };
        let envelope = self.envelope(name, &route, &event, &delivery, &payload);
        if route.deliver_only {
            return self.deliver(name, envelope, &event, &delivery).await;
        }
        match self.intake.accept(envelope).await {
            Ok(IntakeOutcome::New) => Ok((
                StatusCode::ACCEPTED,
                Json(json!({"status": "accepted", "route": name, "event": event, "delivery_id": delivery})),
            )),
            Ok(IntakeOutcome::Duplicate) => {
                Ok((StatusCode::OK, Json(json!({"status": "duplicate", "delivery_id": delivery}))))
            }
            Err(error) => Err(error_response(StatusCode::SERVICE_UNAVAILABLE, error.to_string())),
        }
    }

    /// Passes an event to the route's script. Returns what takes the event's place; `None` drops the event.
    async fn filter_event(&self, route: &str, script: &str, payload: &Value) -> Option<Value> {
        match self.programs.event_script(script, &payload.to_string()).await {
            Ok(end) if end.code == Some(0) => match end.stdout.trim() {
                "" | "[SILENT]" => None,
                text => serde_json::from_str(text).ok().or_else(|| {
                    tracing::warn!(route, script, "a script printed no JSON; the event is dropped");
                    None
                }),
            },
            Ok(end) => {
                tracing::info!(route, script, code = end.code, "a script dropped an event");
                None
            }
            Err(error) => {
                tracing::warn!(route, script, error, "a script could not be run; the event is dropped");
                None
            }
        }
    }

    /// Delivers the text of an event itself. The same delivery is sent once.
    async fn deliver(
        &self,
        name: &str,
        envelope: Envelope,
        event: &str,
        delivery: &str,
    ) -> Result<WebhookResponse, WebhookResponse> {
        let message = OutgoingMessage {
            platform: envelope.platform,
            place: envelope.place,
            pieces: envelope.parts,
            reply_to: None,
            choices: Vec::new(),
            draft: None,
            idempotency_key: format!("event:{}", envelope.platform_key),
        };
        match self.outbox.enqueue(message).await {
            Ok(()) => Ok((
                StatusCode::ACCEPTED,
                Json(json!({"status": "delivered", "route": name, "event": event, "delivery_id": delivery})),
            )),
            Err(error) => Err(error_response(StatusCode::SERVICE_UNAVAILABLE, error.to_string())),
        }
    }

    async fn read_body(&self, headers: &HeaderMap, body: Body) -> Result<Bytes, WebhookResponse> {
        let limit = self.settings.max_body_bytes;
        let too_large = || {
            error_response(StatusCode::PAYLOAD_TOO_LARGE, format!("The body is larger than {limit} bytes"))
        };
        let length = headers.get("content-length").and_then(|value| value.to_str().ok());
        if length.and_then(|text| text.parse::<usize>().ok()).is_some_and(|length| length > limit) {
            return Err(too_large());
        }
        tokio::select! {
            read = Limited::new(body, limit).collect() => read.map(http_body_util::Collected::to_bytes).map_err(|_| too_large()),
            () = self.clock.sleep(BODY_TIMEOUT) => {
                Err(error_response(StatusCode::REQUEST_TIMEOUT, "The body took too long to arrive"))
            }
        }
    }

    /// Tells whether a body repeats under another delivery id, which no signature covers: then somebody replays a
    /// recorded request.
    fn is_replay(&self, name: &str, delivery: &str, body: &Bytes, span: Duration) -> bool {
        let digest: [u8; 32] = Sha256::digest(body).into();
        let now = self.clock.monotonic();
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.retain(|_, (_, at)| now.saturating_sub(*at) < signature::SIGNED_REPLAY_WINDOW);
        let known = seen.entry((name.to_owned(), digest)).or_insert_with(|| (delivery.to_owned(), now));
        let is_replay = known.0 != delivery && now.saturating_sub(known.1) < span;
        if !is_replay {
            *known = (delivery.to_owned(), now);
        }
        is_replay
    }

    /// Tells whether a route is within its limit. Only requests with a valid signature count, so that others
    /// cannot use up a route.
    fn is_within_rate_limit(&self, name: &str) -> bool {
        let now = self.clock.monotonic();
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        let times = used.entry(name.to_owned()).or_default();
        times.retain(|at| now.saturating_sub(*at) < MINUTE);
        if times.len() >= self.settings.max_per_minute {
            return false;
        }
        times.push(now);
        true
    }

    fn envelope(
        &self,
        name: &str,
        route: &WebhookRoute,
        event: &str,
        delivery: &str,
        payload: &Value,
    ) -> Envelope {
        let prompt = match &route.prompt {
            Some(prompt) => template::fill(prompt, event, payload),
            None => template::default_prompt(name, event, payload),
        };
        let skill = route.skills.first().filter(|_| !route.deliver_only);
        let text = match skill.and_then(|skill| self.skills.prompt(skill, &prompt)) {
            Some(text) => text,
            None => prompt,
        };
        let target = channel::WebhookTarget {
            deliver: route.deliver.clone(),
            extra: template::fill_all(&route.deliver_extra, event, payload),
        };
        let mut place = ChatAddress::new(ChatKind::Webhook, format!("webhook:{name}:{delivery}"));
        place.alt_id = serde_json::to_string(&target).ok();
        Envelope {
            platform: "webhook".to_owned(),
            platform_key: format!("{name}:{delivery}"),
            place,
            sender: Sender {
                user_id: Some(format!("webhook:{name}")),
                user_name: Some(name.to_owned()),
                alt_id: None,
                handle: None,
            },
            parts: vec![ChatPart::Text { text }],
            message_id: None,
            reply_to: None,
            reply_to_text: None,
            skill: None,
            quiet_ms: 0,
            received_at: self.clock.now(),
        }
    }
}

/// Parses a body as JSON, otherwise as a form.
fn parse(body: &Bytes) -> Option<Value> {
    if let Ok(value) = serde_json::from_slice::<Value>(body) {
        return Some(value);
    }
    let text = std::str::from_utf8(body).ok().filter(|text| text.contains('='))?;
    let mut form = serde_json::Map::new();
    for pair in text.split('&') {
        let (name, value) = pair.split_once('=')?;
        form.insert(template::unescape(name), Value::String(template::unescape(value)));
    }
    Some(Value::Object(form))
}

fn header<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name).and_then(|value| value.to_str().ok()).filter(|text| !text.is_empty())
}

fn event_of(headers: &HeaderMap, payload: &Value) -> String {
    let named = |key: &str| payload.get(key).and_then(Value::as_str);
    header(headers, "x-github-event")
        .or_else(|| header(headers, "x-gitlab-event"))
        .or_else(|| named("event_type"))
        .or_else(|| named("type"))
        .unwrap_or("unknown")
        .to_owned()
}

fn delivery_of(headers: &HeaderMap, now: f64) -> String {
    ["x-github-delivery", "svix-id", "x-request-id"]
        .into_iter()
        .find_map(|name| header(headers, name))
        .map_or_else(|| format!("{:.0}-{}", now * 1000.0, hermes_types::random_hex(6)), str::to_owned)
}
