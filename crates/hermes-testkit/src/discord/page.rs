//! A page for people, to chat with a bot by hand.

use serde_json::{Value, json};

use super::serve::{Sent, Shared};
use super::world::{Id, Message, World};
use crate::http;

pub(super) fn respond(path: &str, message: &http::Message, shared: &Shared) -> Sent {
    match (message.method.as_str(), path) {
        ("GET", "/") => Sent::new(200, "text/html; charset=utf-8", include_bytes!("page.html").to_vec()),
        ("GET", "/_/chats") => Sent::json(200, &shared.world.read(World::chats)),
        ("POST", "/_/say") => {
            let said: Value = serde_json::from_slice(&message.body).unwrap_or_default();
            let done = shared.world.update(|world| {
                let id = |field: &str| said[field].as_str().and_then(Id::parse);
                let (person, channel) = (id("person")?, id("channel")?);
                let (text, new) = (said["text"].as_str()?, world.next_id(shared.moment()));
                world.channels.get(&channel)?;
                world.people.get(&person)?;
                world.post(Message::new(new, channel, person, text));
                Some(())
            });
            Sent::json(if done.is_some() { 200 } else { 400 }, &json!({}))
        }
        _ => Sent::json(404, &json!({})),
    }
}

impl World {
    fn chats(&self) -> Value {
        let name = |id: Id| self.people.get(&id).map(|person| person.username.clone());
        let people: Vec<Value> = self
            .people
            .iter()
            .filter(|(_, person)| !person.bot)
            .map(|(id, person)| json!({"id": id.to_string(), "name": person.username}))
            .collect();
        let line = |message: &Message| {
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
        let chat = |(id, channel): (&Id, &super::world::Channel)| {
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
