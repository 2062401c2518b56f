//! A web page to chat with a bot by hand.

use serde_json::{Value, json};

use super::serve::{FakeDiscordServer, RawHttpResponse};
use super::state::{FakeDiscordId, FakeDiscordMessage, FakeDiscordState};
use crate::http;

pub(super) fn respond(
    path: &str,
    message: &http::ReceivedRequest,
    shared: &FakeDiscordServer,
) -> RawHttpResponse {
    match (message.method.as_str(), path) {
        ("GET", "/") => {
            RawHttpResponse::new(200, "text/html; charset=utf-8", include_bytes!("page.html").to_vec())
        }
        ("GET", "/_/chats") => RawHttpResponse::json(200, &shared.world.read(FakeDiscordState::chats)),
        ("POST", "/_/say") => {
            let said: Value = serde_json::from_slice(&message.body).unwrap_or_default();
            let done = shared.world.update(|world| {
                let id = |field: &str| said[field].as_str().and_then(FakeDiscordId::parse);
                let (person, channel) = (id("person")?, id("channel")?);
                let (text, new) = (said["text"].as_str()?, world.next_id(shared.moment()));
                world.channels.get(&channel)?;
                world.people.get(&person)?;
                world.post(FakeDiscordMessage::new(new, channel, person, text));
                Some(())
            });
            RawHttpResponse::json(if done.is_some() { 200 } else { 400 }, &json!({}))
        }
        _ => RawHttpResponse::json(404, &json!({})),
    }
}

impl FakeDiscordState {
    fn chats(&self) -> Value {
        let name = |id: FakeDiscordId| self.people.get(&id).map(|person| person.username.clone());
        let people: Vec<Value> = self
            .people
            .iter()
            .filter(|(_, person)| !person.bot)
            .map(|(id, person)| json!({"id": id.to_string(), "name": person.username}))
            .collect();
        let line = |message: &FakeDiscordMessage| {
            json!({
                "id": message.id.to_string(),
                "author": name(message.author),
                "content": message.content,
                "buttons": message.buttons(),
                "files": message.attachments,
                "reactions": message.reactions,
            })
        };
        let none = Vec::new();
        let chat = |(id, channel): (&FakeDiscordId, &super::state::FakeDiscordChannel)| {
            let title = match channel.person {
                Some(person) => format!("DM with {}", name(person).unwrap_or_default()),
                None => format!("#{}", channel.name),
            };
            let lines: Vec<Value> = self.messages.get(id).unwrap_or(&none).iter().map(line).collect();
            json!({"id": id.to_string(), "title": title, "messages": lines})
        };
        json!({
            "bot": self.bot.to_string(),
            "people": people,
            "chats": self.channels.iter().map(chat).collect::<Vec<_>>(),
        })
    }
}
