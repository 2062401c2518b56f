//! Commands and buttons: registers Discord's menu, and turns interactions into messages.

use futures_util::future::Shared;
use hermes_net::Method;
use hermes_types::{ApprovalDecision, BoxFuture, ChatPart, Envelope, Intake, QuickReply};
use serde_json::{Value, json};

use super::gate;
use super::inbound::{ChannelActivity, sender, snowflake_time, thread_name};
use super::rest::RequestBody;
use super::wire::{ChannelInfo, DiscordInteraction, DiscordUser};
use super::{DiscordChannel, NAME};
use crate::approval::parse_approval;
use crate::host::MenuCommand;

const MAX_COMMANDS: usize = 100;
const LONGEST_NAME: usize = 32;
const LONGEST_DESCRIPTION: usize = 100;
const LONGEST_LABEL: usize = 80;
const LONGEST_ID: usize = 100;
const MAX_BUTTONS: usize = 25;
const ROW: usize = 5;
/// The permission bit to create public threads.
const OPENS_THREADS: u64 = 1 << 35;
/// The times of inactivity after which a thread is archived, in minutes.
const ARCHIVES: [(&str, u64); 4] = [("1 hour", 60), ("1 day", 1440), ("3 days", 4320), ("1 week", 10_080)];

const COMMAND_USED: u64 = 2;
const BUTTON_PRESSED: u64 = 3;

/// Resolves to whether Discord accepted the acknowledgement of an interaction.
pub(super) type AckFuture<'a> = Shared<BoxFuture<'a, bool>>;

impl DiscordChannel {
    /// Registers the commands in Discord's menu. Without them, everything still works by typing.
    pub(super) async fn register_commands(&self, application: &str) {
        let path = format!("/applications/{application}/commands");
        let body = RequestBody::Json(menu_json(&self.commands));
        if let Err(failure) = self.api.call(Method::PUT, &path, body).await {
            tracing::warn!(%failure, "Discord's command menu could not be updated");
        }
    }

    /// Acknowledges the interaction within Discord's three seconds. It promises no result.
    pub(super) async fn acknowledge(&self, interaction: DiscordInteraction) -> bool {
        let answer = match interaction.kind {
            COMMAND_USED => json!({"type": 5, "data": {"flags": 64}}),
            BUTTON_PRESSED => json!({"type": 6}),
            _ => return false,
        };
        let path = format!("/interactions/{}/{}/callback", interaction.id, interaction.token);
        match self.api.post(&path, answer).await {
            Ok(_) => true,
            Err(failure) => {
                tracing::debug!(%failure, "a Discord interaction could not be acknowledged");
                false
            }
        }
    }

    /// Handles a command or a button: it becomes the message the user would have typed.
    pub(super) async fn handle_interaction(
        &self,
        intake: &dyn Intake,
        interaction: DiscordInteraction,
        sign: AckFuture<'_>,
    ) -> Vec<ChannelActivity> {
        let (Some(person), Some(channel)) = (interacting_user(&interaction), interaction.channel_id.clone())
        else {
            return Vec::new();
        };
        let room = match &interaction.guild_id {
            Some(guild) => Some(self.channel_info(&channel, guild).await),
            None => None,
        };
        let rules = &self.settings.rules;
        let elsewhere = |room: &ChannelInfo| {
            gate::is_listed(&rules.ignored_channels, room)
                || !rules.allowed_channels.is_empty() && !gate::is_listed(&rules.allowed_channels, room)
        };
        if room.as_ref().is_some_and(elsewhere) {
            self.update_response(&interaction, &sign, Some("I don't answer in this channel.")).await;
            return Vec::new();
        }
        let words = match interaction.kind {
            COMMAND_USED if interaction.data.name == "thread" => {
                return self.open_thread(intake, &interaction, person, room, &sign).await;
            }
            COMMAND_USED => command_text(&interaction),
            BUTTON_PRESSED => match text_from_custom_id(&interaction.data.custom_id) {
                Some(words) => words,
                None => return Vec::new(),
            },
            _ => return Vec::new(),
        };
        let place = self.place(room.as_ref(), &channel, person).await;
        self.submit(intake, envelope(&interaction, person, place, words)).await;
        match (interaction.kind, &interaction.message) {
            (COMMAND_USED, _) => self.update_response(&interaction, &sign, None).await,
            (_, Some(message)) => self.pressed_buttons.insert(&channel, &message.id),
            _ => {}
        }
        Vec::new()
    }

    /// Handles `/thread`: creates a thread, and optionally sends the first message in it.
    async fn open_thread(
        &self,
        intake: &dyn Intake,
        interaction: &DiscordInteraction,
        person: &DiscordUser,
        room: Option<ChannelInfo>,
        sign: &AckFuture<'_>,
    ) -> Vec<ChannelActivity> {
        let option = |name: &str| interaction.data.options.iter().find(|option| option.name == name);
        let text =
            |name: &str| option(name).and_then(|option| option.value.as_str()).unwrap_or_default().trim();
        let (name, message) = (thread_name(text("name")), text("message").to_owned());
        let minutes =
            option("auto_archive_duration").and_then(|option| option.value.as_u64()).unwrap_or(1440);
        let Some(room) = room else {
            self.update_response(interaction, sign, Some("Threads exist only in servers.")).await;
            return Vec::new();
        };
        // Discord says who may create threads there. A second delivery is acknowledged already, and must not create
        // a second thread.
        let thread = match (sign.clone().await, may_open_threads(interaction)) {
            (true, true) => self.new_thread(&room, &name, minutes, &interaction.id).await,
            _ => None,
        };
        let mut traces = Vec::new();
        if let Some(thread) = &thread {
            self.threads.insert(&thread.id);
            traces.push(ChannelActivity::Addressed(thread.id.clone(), thread.id.parse().unwrap_or(0)));
        }
        if !message.is_empty() {
            let place = self.place(thread.as_ref().or(Some(&room)), &room.id, person).await;
            self.submit(intake, envelope(interaction, person, place, message)).await;
        }
        let word = match &thread {
            Some(thread) => format!("Opened <#{}>.", thread.id),
            None => "The thread could not be opened: you or I lack the permission here.".to_owned(),
        };
        self.update_response(interaction, sign, Some(&word)).await;
        traces
    }

    /// Creates a thread without a message, or, where the channel requires one, from a message of the bot.
    async fn new_thread(
        &self,
        room: &ChannelInfo,
        name: &str,
        minutes: u64,
        key: &str,
    ) -> Option<ChannelInfo> {
        let body = json!({"name": name, "auto_archive_duration": minutes, "type": 11});
        let made = match self.api.post(&format!("/channels/{}/threads", room.id), body).await {
            Ok(made) => made,
            Err(failure) => {
                tracing::debug!(%failure, "a thread needs a message to begin with");
                let seed = json!({"content": format!("🧵 {name}"), "nonce": key, "enforce_nonce": true});
                let seed = self.api.post(&format!("/channels/{}/messages", room.id), seed).await.ok()?;
                let path = format!("/channels/{}/messages/{}/threads", room.id, seed.get("id")?.as_str()?);
                self.api.post(&path, json!({"name": name, "auto_archive_duration": minutes})).await.ok()?
            }
        };
        let id = made.get("id")?.as_str()?.to_owned();
        let (guild_id, parent_id) = (room.guild_id.clone(), Some(room.id.clone()));
        let thread =
            ChannelInfo { id, kind: 11, name: Some(name.to_owned()), topic: None, guild_id, parent_id };
        self.directory.add(thread.clone());
        Some(thread)
    }

    /// Replaces the acknowledgement with a text, or deletes it: the answer itself is a message.
    async fn update_response(
        &self,
        interaction: &DiscordInteraction,
        sign: &AckFuture<'_>,
        word: Option<&str>,
    ) {
        if interaction.kind != COMMAND_USED || !sign.clone().await {
            return;
        }
        let path =
            format!("/webhooks/{}/{}/messages/@original", interaction.application_id, interaction.token);
        let done = match word {
            Some(word) => {
                self.api.call(Method::PATCH, &path, RequestBody::Json(json!({"content": word}))).await
            }
            None => self.api.call(Method::DELETE, &path, RequestBody::Nothing).await,
        };
        if let Err(failure) = done {
            tracing::debug!(%failure, "a sign stays in a Discord chat");
        }
    }
}

fn interacting_user(interaction: &DiscordInteraction) -> Option<&DiscordUser> {
    let member = interaction.member.as_ref().and_then(|member| member.user.as_deref());
    member.or(interaction.user.as_ref()).filter(|user| !user.id.is_empty())
}

fn may_open_threads(interaction: &DiscordInteraction) -> bool {
    let permissions = interaction.member.as_ref().and_then(|member| member.permissions.as_ref());
    permissions
        .and_then(|number| number.parse::<u64>().ok())
        .is_some_and(|number| number & OPENS_THREADS != 0)
}

fn envelope(
    interaction: &DiscordInteraction,
    person: &DiscordUser,
    place: hermes_types::ChatAddress,
    text: String,
) -> Envelope {
    Envelope {
        platform: NAME.to_owned(),
        platform_key: format!("interaction:{}", interaction.id),
        place,
        sender: sender(person, interaction.member.as_ref()),
        parts: vec![ChatPart::Text { text }],
        message_id: None,
        reply_to: None,
        reply_to_text: None,
        skill: None,
        quiet_ms: 0,
        received_at: snowflake_time(&interaction.id).unwrap_or(hermes_types::Timestamp(0.0)),
    }
}

/// Returns a command as a user would type it.
fn command_text(interaction: &DiscordInteraction) -> String {
    let mut text = format!("/{}", interaction.data.name);
    for option in &interaction.data.options {
        let value = match &option.value {
            Value::String(text) => text.clone(),
            Value::Null => continue,
            other => other.to_string(),
        };
        text.push(' ');
        text.push_str(value.trim());
    }
    text.trim_end().to_owned()
}

/// Builds the menu in the API's format.
fn menu_json(commands: &[MenuCommand]) -> Value {
    let mut entries: Vec<Value> = Vec::new();
    for command in commands {
        let name = command.name.to_lowercase();
        let known = entries.iter().any(|entry| entry["name"] == name.as_str());
        if is_name(&name) && !known && name != "thread" && entries.len() + 1 < MAX_COMMANDS {
            let description = description_or(&command.description, &name);
            entries.push(
                json!({"name": name, "description": description, "type": 1, "options": options(command)}),
            );
        }
    }
    entries.push(thread_entry());
    Value::Array(entries)
}

fn is_name(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'_');
    (1..=LONGEST_NAME).contains(&name.len()) && name.bytes().all(plain)
}

fn description_or(words: &str, otherwise: &str) -> String {
    let words = if words.trim().is_empty() { otherwise } else { words.trim() };
    hermes_text::head(words, LONGEST_DESCRIPTION).to_owned()
}

/// Builds the option for a command's arguments, which are one text; a few commands have a specific name for it.
fn options(command: &MenuCommand) -> Vec<Value> {
    if command.arguments.trim().is_empty() {
        return Vec::new();
    }
    let name = match command.name.as_str() {
        "model" | "personality" | "title" | "resume" => "name",
        "reasoning" => "effort",
        "insights" => "days",
        "voice" => "mode",
        _ => "args",
    };
    let description = description_or(&command.arguments, name);
    vec![json!({"name": name, "description": description, "type": 3, "required": false})]
}

fn thread_entry() -> Value {
    let archives = ARCHIVES.map(|(name, minutes)| json!({"name": name, "value": minutes}));
    json!({
        "name": "thread",
        "description": "open a thread and talk with me there",
        "type": 1,
        "contexts": [0],
        "default_member_permissions": OPENS_THREADS.to_string(),
        "options": [
            {"name": "name", "description": "what it is called", "type": 3, "required": true},
            {"name": "message", "description": "what to begin with", "type": 3, "required": false},
            {"name": "auto_archive_duration", "description": "how long it rests before it is archived", "type": 4,
             "required": false, "choices": archives},
        ],
    })
}

/// Builds the choices as rows of buttons. Choices that do not fit can still be typed.
pub(super) fn buttons(choices: &[QuickReply]) -> Vec<Value> {
    let button = |(at, choice): (usize, &QuickReply)| {
        let label = choice.label.trim();
        let label = if label.is_empty() { "…" } else { hermes_text::head(label, LONGEST_LABEL) };
        json!({"type": 2, "style": style(&choice.text), "label": label, "custom_id": custom_id(at, &choice.text)})
    };
    let buttons: Vec<Value> = choices.iter().take(MAX_BUTTONS).enumerate().map(button).collect();
    buttons.chunks(ROW).map(|row| json!({"type": 1, "components": row})).collect()
}

fn style(says: &str) -> u64 {
    match parse_approval(says) {
        Some((ApprovalDecision::Once, _)) => 3,
        Some((ApprovalDecision::Session | ApprovalDecision::Always, _)) => 1,
        Some((ApprovalDecision::Deny, _)) => 4,
        None => 2,
    }
}

/// Returns a button's id, which holds its text, so that it works after a restart. A long text is cut and begins
/// with its number, which the question shows too.
fn custom_id(at: usize, says: &str) -> String {
    let id = format!("say:{at}:{says}");
    if id.chars().count() <= LONGEST_ID {
        return id;
    }
    let short = format!("say:{at}:{}. {says}", at + 1);
    format!("{}…", hermes_text::head(&short, LONGEST_ID - 1))
}

fn text_from_custom_id(custom_id: &str) -> Option<String> {
    let (_, says) = custom_id.strip_prefix("say:")?.split_once(':')?;
    (!says.trim().is_empty()).then(|| says.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buttons_say_what_was_to_be_chosen() {
        let choice = |label: &str, says: &str| QuickReply { label: label.into(), text: says.into() };
        let long = "x".repeat(300);
        let choices: Vec<QuickReply> =
            ["/approve", "/deny", "same", "same", "", &long].map(|says| choice(says, says)).into();
        let rows = buttons(&choices);
        assert_eq!(rows.len(), 2);
        let all: Vec<&Value> = rows.iter().flat_map(|row| row["components"].as_array().unwrap()).collect();
        let said: Vec<Option<String>> =
            all.iter().map(|b| text_from_custom_id(b["custom_id"].as_str().unwrap())).collect();
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(said[..5], [some("/approve"), some("/deny"), some("same"), some("same"), None]);
        assert!(said[5].as_ref().unwrap().starts_with("6. xxx"), "{:?}", said[5]);
        assert_eq!(buttons(&vec![choice("a", "a"); 40]).len(), 5);
        assert_eq!((&all[0]["style"], &all[1]["style"], &all[2]["style"]), (&json!(3), &json!(4), &json!(2)));
        assert_eq!(text_from_custom_id("other:1"), None);
    }

    #[test]
    fn a_menu_takes_only_what_discord_takes() {
        let command = |name: &str, arguments: &str| MenuCommand {
            name: name.into(),
            description: "d".repeat(200),
            arguments: arguments.into(),
        };
        let menu = menu_json(&[
            command("new", ""),
            command("new", ""),
            command("Ünfit", ""),
            command("model", "[name]"),
        ]);
        let names: Vec<&str> =
            menu.as_array().unwrap().iter().map(|entry| entry["name"].as_str().unwrap()).collect();
        assert_eq!(names, ["new", "model", "thread"]);
        assert_eq!(menu[0]["description"].as_str().unwrap().len(), 100);
        assert_eq!(menu[1]["options"][0]["name"], "name");
    }
}
