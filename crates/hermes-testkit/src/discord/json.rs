//! Objects in the API's format.

use serde_json::{Value, json};

use super::state::{
    FakeChannelKind, FakeDiscordChannel, FakeDiscordId, FakeDiscordMessage, FakeDiscordState,
};

impl FakeDiscordState {
    pub(super) fn user_json(&self, id: FakeDiscordId) -> Value {
        let Some(person) = self.people.get(&id) else {
            return json!({"id": id.to_string(), "username": "deleted"});
        };
        json!({
            "id": id.to_string(),
            "username": person.username,
            "global_name": person.display,
            "discriminator": "0",
            "avatar": null,
            "bot": person.bot,
        })
    }

    pub(super) fn channel_json(&self, id: FakeDiscordId) -> Value {
        let Some(channel) = self.channels.get(&id) else { return Value::Null };
        let mut object = json!({"id": id.to_string(), "type": channel.kind.number()});
        if let Some(person) = channel.person {
            object["recipients"] = json!([self.user_json(person)]);
            return object;
        }
        object["name"] = json!(channel.name);
        object["guild_id"] = json!(channel.guild.map(|id| id.to_string()));
        object["parent_id"] = json!(channel.parent.map(|id| id.to_string()));
        if channel.kind == FakeChannelKind::Thread {
            object["thread_metadata"] =
                json!({"archived": false, "auto_archive_duration": 1440, "locked": false});
            object["owner_id"] = json!(self.bot.to_string());
        } else {
            object["topic"] = json!(channel.topic);
        }
        object
    }

    pub(super) fn guild_json(&self, id: FakeDiscordId) -> Value {
        let of_kind = |thread: bool| -> Vec<Value> {
            let ours = |channel: &FakeDiscordChannel| {
                channel.guild == Some(id) && (channel.kind == FakeChannelKind::Thread) == thread
            };
            let found = self.channels.iter().filter(|(_, channel)| ours(channel));
            found.map(|(id, _)| self.channel_json(*id)).collect()
        };
        json!({
            "id": id.to_string(),
            "name": self.guilds.get(&id),
            "channels": of_kind(false),
            "threads": of_kind(true),
            "roles": [],
            "unavailable": false,
        })
    }

    pub(super) fn message_json(&self, message: &FakeDiscordMessage) -> Value {
        let mentions: Vec<Value> =
            self.mentioned(&message.content).into_iter().map(|id| self.user_json(id)).collect();
        let mut object = json!({
            "id": message.id.to_string(),
            "channel_id": message.channel.to_string(),
            "author": self.user_json(message.author),
            "content": message.content,
            "type": message.kind,
            "timestamp": "2026-01-02T03:04:05.000000+00:00",
            "edited_timestamp": null,
            "tts": false,
            "mention_everyone": message.content.contains("@everyone"),
            "mentions": mentions,
            "mention_roles": [],
            "attachments": message.attachments,
            "embeds": message.embeds,
            "components": message.components,
            "flags": message.flags,
            "pinned": false,
        });
        if let Some(nonce) = &message.nonce {
            object["nonce"] = json!(nonce);
        }
        if let Some(reference) = message.reply_to {
            object["message_reference"] =
                json!({"message_id": reference.to_string(), "channel_id": message.channel.to_string()});
            object["referenced_message"] = match self.message(message.channel, reference) {
                Some(referenced) => self.message_json(referenced),
                None => Value::Null,
            };
            // A reply mentions the author it answers, unless its sender turned that off.
            if let Some(author) = self.message(message.channel, reference).map(|message| message.author) {
                let named = mentions_contain(&object["mentions"], author);
                if let (false, Some(list)) = (named, object["mentions"].as_array_mut()) {
                    list.push(self.user_json(author));
                }
            }
        }
        object
    }
}

fn mentions_contain(mentions: &Value, id: FakeDiscordId) -> bool {
    let id = id.to_string();
    mentions.as_array().is_some_and(|list| list.iter().any(|user| user["id"] == id.as_str()))
}
