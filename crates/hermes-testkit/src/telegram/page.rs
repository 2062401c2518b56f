//! A web page to chat with the bot by hand, and the two routes behind it.

use serde_json::{Value, json};

use super::FakeTelegramServer;
use super::serve::FakeTelegramAnswer;
use crate::http::ReceivedRequest;

const PAGE: &str = include_str!("page.html");

pub(super) fn answer(
    stage: &FakeTelegramServer,
    path: &str,
    query: &str,
    message: &ReceivedRequest,
) -> FakeTelegramAnswer {
    match path {
        "/" => FakeTelegramAnswer::Body {
            status: 200,
            kind: "text/html; charset=utf-8",
            bytes: PAGE.as_bytes().to_vec(),
        },
        "/chat.json" => FakeTelegramAnswer::json(200, &chat(stage, number(query))),
        "/say" => say(stage, message),
        _ => FakeTelegramAnswer::json(
            404,
            &json!({"ok": false, "error_code": 404, "description": "Not Found"}),
        ),
    }
}

fn number(query: &str) -> i64 {
    query.split('&').find_map(|pair| pair.strip_prefix("person=")?.parse().ok()).unwrap_or(1)
}

fn chat(stage: &FakeTelegramServer, person: i64) -> Value {
    stage.world.read(|world| {
        let lines = world.messages.iter().filter(|((chat, _), _)| *chat == person).map(|((_, id), message)| {
            let posted = world.posted.iter().find(|posted| (posted.chat, posted.id) == (person, *id));
            let text = message.get("text").and_then(Value::as_str).unwrap_or("(no text)");
            let buttons: Vec<&str> =
                posted.map(|posted| posted.buttons.iter().map(|button| button.text.as_str()).collect()).unwrap_or_default();
            json!({"id": id, "bot": posted.is_some(), "buttons": buttons, "file": posted.and_then(|p| p.file.as_ref()).map(|f| &f.0),
                "text": posted.map_or(text, |posted| posted.text.as_str())})
        });
        Value::Array(lines.collect())
    })
}

/// Handles `{"person": 1, "text": "hello"}`, or `"press"` instead of a text.
fn say(stage: &FakeTelegramServer, message: &ReceivedRequest) -> FakeTelegramAnswer {
    let said: Value = serde_json::from_slice(&message.body).unwrap_or_default();
    let id = said.get("person").and_then(Value::as_i64).unwrap_or(1);
    let field = |name: &str| said.get(name).and_then(Value::as_str).map(str::to_owned);
    let person = stage.person(id, &format!("Person {id}"));
    match (field("text"), field("press")) {
        (Some(text), _) => drop(person.says(id, &text)),
        (None, Some(words)) => drop(person.presses(id, &words)),
        (None, None) => return FakeTelegramAnswer::json(400, &json!({"error": "text or press is missing"})),
    }
    FakeTelegramAnswer::json(200, &json!({"ok": true}))
}
