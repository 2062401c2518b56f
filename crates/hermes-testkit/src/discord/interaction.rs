//! Commands and buttons: their registration, their use, and the responses to them.

use std::time::Duration;

use serde_json::{Value, json};

use super::message::content_of;
use super::rest::{FakeDiscordError, FakeDiscordResult, invalid, only, trouble};
use super::state::{EventTime, FakeDiscordId, FakeDiscordState, FakeInteraction, FakeInteractionResponse};

/// Limits the time for the first response to an interaction.
const PATIENCE: Duration = Duration::from_secs(3);
/// The lifetime of an interaction's token.
const TOKEN_FOR: Duration = Duration::from_mins(15);

impl FakeDiscordState {
    pub(super) fn put_commands(&mut self, application: &str, body: &Value) -> FakeDiscordResult {
        if application != self.application.to_string() {
            return Err(trouble(
                403,
                20012,
                "You are not authorized to perform this action on this application",
            ));
        }
        let commands = body.as_array().filter(|list| list.len() <= 100);
        let commands = commands
            .ok_or_else(|| trouble(400, 30032, "Maximum number of application commands reached (100)"))?;
        let mut names = Vec::new();
        for command in commands {
            check_command(command)?;
            if names.contains(&&command["name"]) {
                return Err(invalid("name", "APPLICATION_COMMANDS_DUPLICATE_NAME", "names must be unique"));
            }
            names.push(&command["name"]);
        }
        self.commands.clone_from(commands);
        Ok((200, body.clone()))
    }

    /// Starts an interaction, a command or a button press, and publishes its event.
    pub(super) fn begin_interaction(
        &mut self,
        person: FakeDiscordId,
        channel: FakeDiscordId,
        kind: u64,
        more: Value,
        at: EventTime,
    ) -> FakeDiscordId {
        let id = self.next_id(at);
        let token = format!("interaction-token-{id}");
        let guild = self.channels.get(&channel).and_then(|channel| channel.guild);
        let mut event = json!({
            "id": id.to_string(),
            "application_id": self.application.to_string(),
            "type": kind,
            "token": token,
            "version": 1,
            "channel_id": channel.to_string(),
            "channel": self.channel_json(channel),
        });
        if let Some(guild) = guild {
            event["guild_id"] = json!(guild.to_string());
            event["member"] = json!({"user": self.user_json(person), "nick": null, "roles": [], "permissions": "2251799813685247"});
        } else {
            event["user"] = self.user_json(person);
        }
        if let (Some(event), Value::Object(more)) = (event.as_object_mut(), more) {
            event.extend(more);
        }
        let interaction = FakeInteraction {
            token,
            since: at.monotonic,
            answered: None,
            response: FakeInteractionResponse::None,
        };
        self.interactions.insert(id, interaction);
        self.publish("INTERACTION_CREATE", &event, guild, true);
        id
    }

    pub(super) fn answer_interaction(
        &mut self,
        id: FakeDiscordId,
        token: &str,
        body: &Value,
        at: EventTime,
    ) -> FakeDiscordResult {
        only(body, &["type", "data"])?;
        let unknown = || trouble(404, 10062, "Unknown interaction");
        let interaction =
            self.interactions.get_mut(&id).filter(|known| known.token == token).ok_or_else(unknown)?;
        if interaction.answered.is_some() {
            return Err(trouble(400, 40060, "Interaction has already been acknowledged."));
        }
        if at.monotonic.saturating_sub(interaction.since) > PATIENCE {
            return Err(unknown());
        }
        let kind = body["type"].as_u64().filter(|kind| (4..=7).contains(kind));
        let kind = kind.ok_or_else(|| invalid("type", "BASE_TYPE_CHOICES", "type is 4, 5, 6 or 7"))?;
        interaction.answered = Some(kind);
        interaction.response = match kind {
            4 | 7 => FakeInteractionResponse::Text(content_of(&body["data"])?),
            5 => FakeInteractionResponse::Thinking,
            _ => FakeInteractionResponse::None,
        };
        Ok((204, Value::Null))
    }

    pub(super) fn change_response(
        &mut self,
        method: &str,
        application: &str,
        token: &str,
        body: &Value,
        at: EventTime,
    ) -> FakeDiscordResult {
        let unknown = || trouble(404, 10015, "Unknown Webhook");
        if application != self.application.to_string() {
            return Err(unknown());
        }
        let found = self.interactions.values_mut().find(|known| known.token == token);
        let interaction =
            found.filter(|known| at.monotonic.saturating_sub(known.since) < TOKEN_FOR).ok_or_else(unknown)?;
        if interaction.answered.is_none() || interaction.response == FakeInteractionResponse::Deleted {
            return Err(trouble(404, 10008, "Unknown Message"));
        }
        match method {
            "PATCH" => {
                only(body, &["content", "embeds", "components", "allowed_mentions", "flags", "attachments"])?;
                let content = content_of(body)?;
                if content.is_empty() {
                    return Err(trouble(400, 50006, "Cannot send an empty message"));
                }
                interaction.response = FakeInteractionResponse::Text(content);
                Ok((200, json!({"id": "1"})))
            }
            "DELETE" => {
                interaction.response = FakeInteractionResponse::Deleted;
                Ok((204, Value::Null))
            }
            _ => Err(trouble(405, 0, "405: Method Not Allowed")),
        }
    }
}

fn check_command(command: &Value) -> Result<(), FakeDiscordError> {
    only(
        command,
        &[
            "name",
            "description",
            "type",
            "options",
            "default_member_permissions",
            "dm_permission",
            "contexts",
            "nsfw",
        ],
    )?;
    check_named(command)?;
    let none = Vec::new();
    let options = command["options"].as_array().unwrap_or(&none);
    if options.len() > 25 {
        return Err(invalid("options", "BASE_TYPE_BAD_LENGTH", "Must be 25 or fewer in length."));
    }
    let mut optional = false;
    for option in options {
        only(
            option,
            &["name", "description", "type", "required", "choices", "max_length", "min_value", "max_value"],
        )?;
        check_named(option)?;
        if !option["type"].as_u64().is_some_and(|kind| (3..=11).contains(&kind)) {
            return Err(invalid("type", "BASE_TYPE_CHOICES", "no such type of option"));
        }
        let required = option["required"].as_bool().unwrap_or(false);
        if required && optional {
            return Err(invalid(
                "options",
                "APPLICATION_COMMAND_OPTIONS_REQUIRED_INVALID",
                "Required options must be placed before non-required options",
            ));
        }
        optional |= !required;
        for choice in option["choices"].as_array().unwrap_or(&none) {
            only(choice, &["name", "value"])?;
        }
    }
    Ok(())
}

fn check_named(object: &Value) -> Result<(), FakeDiscordError> {
    let name = object["name"].as_str().unwrap_or_default();
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-' || byte == b'_';
    if !(1..=32).contains(&name.len()) || !name.bytes().all(plain) {
        return Err(invalid("name", "APPLICATION_COMMAND_INVALID_NAME", "Command name is invalid"));
    }
    let length = object["description"].as_str().map_or(0, |text| text.chars().count());
    if (1..=100).contains(&length) {
        return Ok(());
    }
    Err(invalid("description", "BASE_TYPE_BAD_LENGTH", "Must be between 1 and 100 in length."))
}
