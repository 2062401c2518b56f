//! A web page to chat with an app by hand.

use serde_json::{Value, json};

use super::serve::{FakeSlackServer, answer, json_answer};
use super::state::{FakeSlackMessage, FakeSlackState};
use crate::http;

pub(super) fn respond(path: &str, message: &http::ReceivedRequest, shared: &FakeSlackServer) -> Vec<u8> {
    match (message.method.as_str(), path) {
        ("GET", "/") => answer(200, "text/html; charset=utf-8", &[], include_bytes!("page.html")),
        ("GET", "/_/chats") => json_answer(200, &shared.world.read(FakeSlackState::chats)),
        ("POST", "/_/say") => {
            let said: Value = serde_json::from_slice(&message.body).unwrap_or_default();
            let done = shared.world.update(|world| {
                let (person, channel) = (said["person"].as_str()?, said["channel"].as_str()?);
                world.people.get(person)?;
                world.channels.get(channel)?;
                let ts = world.next_ts();
                let thread_ts =
                    said["thread"].as_str().filter(|thread| !thread.is_empty()).map(str::to_owned);
                let (user, text) = (person.to_owned(), said["text"].as_str()?.to_owned());
                world.post(
                    channel,
                    FakeSlackMessage { ts, user, text, thread_ts, ..FakeSlackMessage::default() },
                    &[],
                );
                Some(())
            });
            json_answer(if done.is_some() { 200 } else { 400 }, &json!({}))
        }
        _ => json_answer(404, &json!({})),
    }
}

impl FakeSlackState {
    fn chats(&self) -> Value {
        let people: Vec<Value> =
            self.people.iter().map(|(id, name)| json!({"id": id, "title": name})).collect();
        let line = |message: &FakeSlackMessage| {
            json!({
                "ts": message.ts, "thread": message.thread_ts, "text": message.text, "buttons": message.buttons(),
                "author": self.people.get(&message.user).map_or("hermes", String::as_str),
                "files": message.files.iter().map(|(name, _)| name).collect::<Vec<_>>(), "reactions": message.reactions,
            })
        };
        let chats = self.channels.iter().map(|(id, channel)| {
            let lines: Vec<Value> = channel.messages.iter().map(line).collect();
            json!({"id": id, "title": channel.name, "messages": lines})
        });
        json!({"people": people, "chats": chats.collect::<Vec<_>>()})
    }
}
