//! An emulated Home Assistant: the WebSocket with changes of states, and the REST API for states and services.
//!
//! Written from its developer documentation; it shares no code with the channel and the tools.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use hermes_types::BoxFuture;
use serde_json::{Value, json};

use crate::Error;
use crate::http::{HttpConnection, ReceivedRequest};
use crate::platform::{
    EmulatedPlatform, EmulatedReply, EmulatedSocket, PlatformCall, PlatformFault, PlatformServer,
    PlatformServerState, accept_emulated_socket, run_emulated_socket,
};

pub const TOKEN: &str = "hass-test-token";

/// The phases of a connection.
#[derive(Debug, Default)]
struct FakeHomeConnection {
    signed_in: bool,
    /// The id of the subscription.
    subscribed: Option<u64>,
    frames: VecDeque<Value>,
}

#[derive(Debug, Default)]
struct FakeHomeState {
    token: String,
    entities: BTreeMap<String, (String, Value)>,
    /// The calls of services: domain, service, data.
    services: Vec<(String, String, Value)>,
    notifications: BTreeMap<String, Value>,
    connections: BTreeMap<u64, FakeHomeConnection>,
    count: u64,
}

/// A running server.
#[derive(Debug)]
pub struct FakeHomeAssistant(PlatformServer<FakeHomeState>);

impl FakeHomeAssistant {
    pub fn start() -> Result<Self, Error> {
        let world = FakeHomeState { token: TOKEN.to_owned(), ..FakeHomeState::default() };
        Ok(Self(PlatformServer::start("homeassistant", 0, world)?))
    }

    pub fn base_url(&self) -> String {
        self.0.base_url()
    }

    /// Creates an entity.
    pub fn entity(&self, id: &str, state: &str, attributes: Value) {
        self.0.update(|world| world.entities.insert(id.to_owned(), (state.to_owned(), attributes)));
    }

    /// Changes the state of an entity.
    pub fn changes(&self, id: &str, state: &str) {
        self.0.update(|world| world.change(id, state));
    }

    /// Returns the state of an entity.
    pub fn state(&self, id: &str) -> Option<String> {
        self.0.read(|world| world.entities.get(id).map(|(state, _)| state.clone()))
    }

    /// Returns the services that were called: domain, service, data.
    pub fn services(&self) -> Vec<(String, String, Value)> {
        self.0.read(|world| world.services.clone())
    }

    /// Returns the texts of the notifications that are shown.
    pub fn notifications(&self) -> Vec<String> {
        let text = |value: &Value| value["message"].as_str().unwrap_or_default().to_owned();
        self.0.read(|world| world.notifications.values().map(text).collect())
    }

    #[track_caller]
    pub fn until_notified_blocking(&self, part: &str) -> String {
        self.0.until_blocking(part, |world| {
            let texts = world.notifications.values().filter_map(|value| value["message"].as_str());
            texts.into_iter().find(|text| text.contains(part)).map(str::to_owned)
        })
    }

    /// Tells whether somebody listens to changes.
    pub fn is_subscribed(&self) -> bool {
        let is_open =
            |known: &FakeHomeConnection| known.subscribed.is_some() && !known.frames.contains(&Value::Null);
        self.0.read(|world| world.connections.values().any(is_open))
    }

    #[track_caller]
    pub fn until_subscribed_blocking(&self) {
        self.0.until_blocking("a subscription", |world| {
            world.connections.values().any(|known| known.subscribed.is_some()).then_some(())
        });
    }

    /// Ends every socket.
    pub fn drop_sockets(&self) {
        self.0.update(|world| {
            world.connections.values_mut().for_each(|known| known.frames.push_back(Value::Null));
        });
    }

    pub fn change_token(&self, token: &str) {
        self.0.update(|world| token.clone_into(&mut world.token));
    }

    pub fn fault(&self, method: &str, part: &str, fault: PlatformFault) {
        self.0.fault(method, part, fault);
    }

    pub fn calls(&self, part: &str) -> Vec<PlatformCall> {
        self.0.calls(part)
    }

    pub fn stop(&mut self) {
        self.0.stop();
        self.0.update(|world| world.connections.clear());
    }

    pub fn start_again(&mut self) -> Result<(), Error> {
        self.0.start_again()
    }
}

impl FakeHomeState {
    fn change(&mut self, id: &str, state: &str) {
        self.count += 1;
        let updated = format!("2026-01-02T03:04:05.{:06}+00:00", self.count);
        let Some((known, attributes)) = self.entities.get_mut(id) else { return };
        let before = std::mem::replace(known, state.to_owned());
        let shown = |state: &str| {
            json!({
                "entity_id": id, "state": state, "attributes": attributes,
                "last_changed": updated, "last_updated": updated,
            })
        };
        let data = json!({"entity_id": id, "old_state": shown(&before), "new_state": shown(state)});
        let context = json!({"id": format!("01HX{}", self.count), "parent_id": null, "user_id": null});
        let event = json!({"event_type": "state_changed", "data": data, "origin": "LOCAL", "time_fired": updated, "context": context});
        for connection in self.connections.values_mut() {
            if let Some(id) = connection.subscribed {
                connection.frames.push_back(json!({"id": id, "type": "event", "event": event}));
            }
        }
    }

    fn shown(&self, id: &str) -> Option<Value> {
        let (state, attributes) = self.entities.get(id)?;
        let time = "2026-01-02T03:04:05+00:00";
        Some(json!({
            "entity_id": id, "state": state, "attributes": attributes, "last_changed": time, "last_updated": time,
            "context": {"id": "01HX"},
        }))
    }

    fn call_service(&mut self, domain: &str, service: &str, data: &Value) -> EmulatedReply {
        self.services.push((domain.to_owned(), service.to_owned(), data.clone()));
        if (domain, service) == ("persistent_notification", "create") {
            let Some(message) = data["message"].as_str() else {
                return refusal(400, "required key not provided");
            };
            self.count += 1;
            let id =
                data["notification_id"].as_str().map_or_else(|| format!("n{}", self.count), str::to_owned);
            self.notifications.insert(id, json!({"message": message, "title": data["title"]}));
            return EmulatedReply::json(200, &json!([]));
        }
        let state = match service {
            "turn_on" => "on",
            "turn_off" => "off",
            _ => return refusal(400, "Service not found"),
        };
        let ids: Vec<String> = match &data["entity_id"] {
            Value::String(id) => vec![id.clone()],
            Value::Array(ids) => ids.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
            _ => Vec::new(),
        };
        let mut changed = Vec::new();
        for id in ids.iter().filter(|id| id.starts_with(&format!("{domain}."))) {
            self.change(id, state);
            changed.extend(self.shown(id));
        }
        EmulatedReply::json(200, &json!(changed))
    }
}

impl EmulatedPlatform for FakeHomeState {
    fn respond(&mut self, request: &ReceivedRequest) -> EmulatedReply {
        if request.header("authorization") != Some(format!("Bearer {}", self.token).as_str()) {
            return EmulatedReply::bytes(401, "text/plain", b"401: Unauthorized");
        }
        let body: Value = serde_json::from_slice(&request.body).unwrap_or_else(|_| json!({}));
        let parts: Vec<&str> = request.target.trim_start_matches('/').split('/').collect();
        match (request.method.as_str(), parts.as_slice()) {
            ("GET", ["api", "states"]) => {
                EmulatedReply::json(200, &self.entities.keys().filter_map(|id| self.shown(id)).collect())
            }
            ("GET", ["api", "states", id]) => match self.shown(id) {
                Some(state) => EmulatedReply::json(200, &state),
                None => refusal(404, "Entity not found."),
            },
            ("GET", ["api", "services"]) => {
                let fields = json!({"brightness": {"description": "How bright.", "selector": {}}});
                let services = json!({
                    "turn_on": {"name": "Turn on", "description": "Turns lights on.", "fields": fields},
                    "turn_off": {"name": "Turn off", "description": "Turns lights off.", "fields": {}},
                });
                let others = json!({"lock": {"name": "Lock", "description": "Locks a lock.", "fields": {}}});
                EmulatedReply::json(
                    200,
                    &json!([{"domain": "light", "services": services}, {"domain": "lock", "services": others}]),
                )
            }
            ("POST", ["api", "services", domain, service]) => self.call_service(domain, service, &body),
            _ => refusal(404, "Not found"),
        }
    }

    fn is_stream(&self, request: &ReceivedRequest) -> bool {
        request.target == "/api/websocket" && request.header("upgrade").is_some()
    }

    fn stream(
        shared: Arc<PlatformServerState<Self>>,
        connection: HttpConnection,
        request: ReceivedRequest,
    ) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            let Some(socket) = accept_emulated_socket(connection, &request).await else { return };
            let id = shared.world.update(|world| {
                world.count += 1;
                let mut known = FakeHomeConnection::default();
                known.frames.push_back(json!({"type": "auth_required", "ha_version": "2024.3.3"}));
                world.connections.insert(world.count, known);
                world.count
            });
            run_emulated_socket(socket, id, shared).await;
        })
    }
}

impl EmulatedSocket for FakeHomeState {
    fn receive(&mut self, connection: u64, frame: &Value) {
        let right = frame["access_token"] == self.token.as_str();
        let Some(known) = self.connections.get_mut(&connection) else { return };
        match frame["type"].as_str() {
            Some("auth") if right => {
                known.signed_in = true;
                known.frames.push_back(json!({"type": "auth_ok", "ha_version": "2024.3.3"}));
            }
            Some("auth") => {
                known.frames.push_back(
                    json!({"type": "auth_invalid", "message": "Invalid access token or password"}),
                );
                known.frames.push_back(Value::Null);
            }
            Some("subscribe_events") if known.signed_in => {
                known.subscribed = frame["id"].as_u64();
                known
                    .frames
                    .push_back(json!({"id": frame["id"], "type": "result", "success": true, "result": null}));
            }
            _ => known.frames.push_back(Value::Null),
        }
    }

    fn next_frame(&mut self, connection: u64) -> Option<Value> {
        let known = self.connections.get_mut(&connection)?;
        let frame = known.frames.pop_front();
        if frame == Some(Value::Null) {
            known.subscribed = None;
        }
        frame
    }

    fn disconnected(&mut self, connection: u64) {
        self.connections.remove(&connection);
    }
}

fn refusal(status: u16, message: &str) -> EmulatedReply {
    EmulatedReply::json(status, &json!({"message": message}))
}
