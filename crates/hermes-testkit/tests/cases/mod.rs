mod clock;
mod discord;
mod fixture;
mod gates;
mod home;
mod load;
mod peers;
mod playing;
mod scripts;
mod standalone;
mod telegram;
mod transport;
mod wires;

use hermes_testkit::{HttpReply, ModelServer, http_post};
use serde_json::{Value, json};

pub(crate) const CHAT: &str = "/v1/chat/completions";
pub(crate) const RESPONSES: &str = "/v1/responses";
pub(crate) const MESSAGES: &str = "/v1/messages";

/// Builds a chat request with that user text.
pub(crate) fn ask(text: &str) -> Value {
    json!({"model": "m", "messages": [{"role": "user", "content": text}]})
}

pub(crate) fn ask_stream(text: &str) -> Value {
    json!({"model": "m", "stream": true, "messages": [{"role": "user", "content": text}]})
}

pub(crate) fn post(server: &ModelServer, path: &str, body: &Value) -> HttpReply {
    http_post(server.address(), path, body).expect("the server answers")
}

/// Returns the data of every event of a stream.
pub(crate) fn data_lines(body: &str) -> Vec<String> {
    body.lines().filter_map(|line| line.strip_prefix("data: ")).map(str::to_owned).collect()
}

/// Returns the events of a stream as JSON, without `[DONE]`.
pub(crate) fn events(body: &str) -> Vec<Value> {
    let lines = data_lines(body);
    lines
        .iter()
        .filter(|line| *line != "[DONE]")
        .map(|line| serde_json::from_str(line).expect(line))
        .collect()
}
