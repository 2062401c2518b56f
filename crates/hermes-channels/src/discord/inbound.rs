//! Incoming messages: sender, place, text and attachments.

use std::time::Duration;

use hermes_types::{ChannelError, ChatAddress, ChatKind, ChatPart, Envelope, Intake, Sender, Timestamp};
use serde_json::{Value, json};

use super::files::DiscordFiles;
use super::gate::{self, MessageLocation};
use super::rest::DiscordError;
use super::wire::{ChannelInfo, DiscordMessage, DiscordUser, GuildMember};
use super::{DiscordChannel, DiscordIdentity, NAME};
use crate::backoff::Backoff;

const LONGEST_THREAD_NAME: usize = 80;
const ARCHIVE_MINUTES: u64 = 1440;
const THREAD_EXISTS: u64 = 160_004;
/// Limits the attempts at a request whose result a message can do without.
pub(super) const MAX_TRIES: u32 = 3;
/// The epoch of Discord's ids, in milliseconds.
const EPOCH_MS: u64 = 1_420_070_400_000;
const PAGE: usize = 100;

/// The effect of a handled event on a channel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ChannelActivity {
    /// A user addressed the bot there with this message.
    Addressed(String, u64),
    /// A message was seen.
    Seen(String, u64),
    /// The channel was deleted, or is not visible any more.
    Removed(String),
}

impl DiscordChannel {
    /// Handles a message: when this returns it is committed, or was not meant for the bot.
    pub(super) async fn handle_message(
        &self,
        intake: &dyn Intake,
        bot: &DiscordIdentity,
        message: DiscordMessage,
    ) -> Vec<ChannelActivity> {
        let Ok(number) = message.id.parse::<u64>() else { return Vec::new() };
        let channel = message.channel_id.clone();
        if self.recent_messages.contains(&message.id) {
            return vec![ChannelActivity::Seen(channel, number)];
        }
        let room = match &message.guild_id {
            Some(guild) => Some(self.channel_info(&channel, guild).await),
            None => None,
        };
        let spot = MessageLocation { channel: room.as_ref(), known_thread: self.threads.contains(&channel) };
        if !gate::is_for_bot(&message, &bot.user_id, spot, &self.settings.rules) {
            return vec![ChannelActivity::Seen(channel, number)];
        }
        let text = text_of(&message, &bot.user_id);
        let parts = DiscordFiles::new(&self.api, &*self.host).message_parts(&message, text.clone()).await;
        let thread = match &room {
            Some(room) => self.thread_for(&message, room, &text).await,
            None => None,
        };
        let place = self.place(thread.as_ref().or(room.as_ref()), &channel, &message.author).await;
        let mut traces = vec![ChannelActivity::Addressed(channel, number)];
        if place.kind == ChatKind::Thread {
            self.threads.insert(&place.chat_id);
            traces.push(ChannelActivity::Addressed(place.chat_id.clone(), number));
        }
        self.submit(intake, envelope(&message, place, parts)).await;
        self.recent_messages.insert(message.id);
        traces
    }

    /// Submits an envelope, retrying until it is accepted: no received message may be dropped.
    pub(super) async fn submit(&self, intake: &dyn Intake, envelope: Envelope) {
        let mut pauses = Backoff::new(Duration::from_millis(500), Duration::from_secs(30));
        loop {
            match intake.accept(envelope.clone()).await {
                Ok(_) => return,
                Err(ChannelError::Retry { after, reason }) => {
                    tracing::warn!(reason, "a Discord message could not be taken in yet");
                    self.api.clock.sleep(after.unwrap_or_else(|| pauses.next())).await;
                }
                Err(error) => return tracing::error!(%error, "a Discord message was not taken in"),
            }
        }
    }

    /// Handles all messages in a channel after a given one, page by page.
    pub(super) async fn catch_up(
        &self,
        intake: &dyn Intake,
        bot: &DiscordIdentity,
        channel: String,
        after: u64,
    ) -> Vec<ChannelActivity> {
        let mut pauses = Backoff::new(Duration::from_secs(1), Duration::from_mins(1));
        let mut traces = Vec::new();
        let mut last = after;
        loop {
            let (guild, page) = match self.fetch_page(&channel, last).await {
                Ok(found) => found,
                Err(DiscordError::Refused { .. }) => return vec![ChannelActivity::Removed(channel)],
                Err(failure) => {
                    tracing::debug!(%failure, "a Discord channel cannot be caught up with yet");
                    self.api.clock.sleep(pauses.next()).await;
                    continue;
                }
            };
            let full = page.as_array().is_some_and(|list| list.len() >= PAGE);
            let mut messages = read_page(page);
            messages.retain(|(number, _)| *number > last);
            messages.sort_by_key(|(number, _)| *number);
            let complete = !full || messages.is_empty();
            for (number, message) in messages {
                let message = DiscordMessage { guild_id: guild.clone(), ..message };
                traces.extend(self.handle_message(intake, bot, message).await);
                last = number;
            }
            // For this channel only the last message is needed.
            traces.retain(
                |trace| !matches!(trace, ChannelActivity::Addressed(of, _) | ChannelActivity::Seen(of, _) if *of == channel),
            );
            if complete {
                traces.push(ChannelActivity::Seen(channel, last));
                return traces;
            }
        }
    }

    /// Requests messages after another one, and their server: requested messages do not include it, and without a
    /// server a message counts as a direct one.
    async fn fetch_page(&self, channel: &str, after: u64) -> Result<(Option<String>, Value), DiscordError> {
        let room = self.directory.channel(&self.api, channel).await?;
        let path = format!("/channels/{channel}/messages?after={after}&limit={PAGE}");
        let guild = room.guild_id.clone().or_else(|| (!room.is_direct()).then(String::new));
        Ok((guild, self.api.get(&path).await?))
    }

    /// Returns what is known about a channel of a server; only the ids if Discord refuses the request.
    pub(super) async fn channel_info(&self, channel: &str, guild: &str) -> ChannelInfo {
        let room = self.retry_transient(|| self.directory.channel(&self.api, channel)).await;
        let mut room =
            room.unwrap_or_else(|_| ChannelInfo { id: channel.to_owned(), ..ChannelInfo::default() });
        room.guild_id.get_or_insert_with(|| guild.to_owned());
        room
    }

    /// Retries a request a few times after a transient failure.
    async fn retry_transient<T, F: Future<Output = Result<T, DiscordError>>>(
        &self,
        ask: impl Fn() -> F,
    ) -> Result<T, DiscordError> {
        let mut pauses = Backoff::new(Duration::from_millis(500), Duration::from_secs(5));
        loop {
            match ask().await {
                Err(DiscordError::Later { reason, .. }) if pauses.failures() + 1 < MAX_TRIES => {
                    tracing::debug!(reason, "Discord is asked once more");
                    self.api.clock.sleep(pauses.next()).await;
                }
                other => return other,
            }
        }
    }

    /// Returns the thread for a conversation. A second call for the same message returns the same thread.
    async fn thread_for(
        &self,
        message: &DiscordMessage,
        room: &ChannelInfo,
        text: &str,
    ) -> Option<ChannelInfo> {
        if !self.settings.auto_thread
            || !room.supports_threads()
            || gate::is_listed(&self.settings.no_thread_channels, room)
        {
            return None;
        }
        let path = format!("/channels/{}/messages/{}/threads", room.id, message.id);
        let body = json!({"name": thread_name(text), "auto_archive_duration": ARCHIVE_MINUTES});
        match self.retry_transient(|| self.api.post(&path, body.clone())).await {
            Ok(_) => {}
            Err(failure) if failure.code() == Some(THREAD_EXISTS) => {}
            Err(failure) => {
                tracing::warn!(%failure, "no thread was opened; the conversation stays in the channel");
                return None;
            }
        }
        let thread = ChannelInfo {
            // A thread has the id of the message it began with.
            id: message.id.clone(),
            kind: 11,
            name: Some(thread_name(text)),
            topic: None,
            guild_id: room.guild_id.clone(),
            parent_id: Some(room.id.clone()),
        };
        self.directory.add(thread.clone());
        Some(thread)
    }

    /// Returns the address of a conversation; without a channel it is a direct chat.
    pub(super) async fn place(
        &self,
        room: Option<&ChannelInfo>,
        channel: &str,
        person: &DiscordUser,
    ) -> ChatAddress {
        let Some(room) = room else {
            let name = Some(person.display_name(None)).filter(|name| !name.is_empty());
            return ChatAddress { chat_name: name, ..ChatAddress::new(ChatKind::Dm, channel) };
        };
        let parent = match room.parent_id.as_deref().filter(|_| room.is_thread()) {
            Some(parent) => self.directory.channel(&self.api, parent).await.ok(),
            None => None,
        };
        let guild = match &room.guild_id {
            Some(guild) => self.directory.guild_name(&self.api, guild).await,
            None => None,
        };
        let topic = room.topic.clone().or_else(|| parent.as_ref().and_then(|parent| parent.topic.clone()));
        ChatAddress {
            chat_name: chat_name(guild, parent.as_ref(), room),
            thread_id: room.is_thread().then(|| room.id.clone()),
            topic: topic.filter(|topic| !topic.trim().is_empty()),
            ..ChatAddress::new(
                if room.is_thread() { ChatKind::Thread } else { ChatKind::Group },
                room.id.as_str(),
            )
        }
    }
}

fn read_page(page: Value) -> Vec<(u64, DiscordMessage)> {
    let list = if let Value::Array(list) = page { list } else { Vec::new() };
    let messages = list.into_iter().filter_map(|value| serde_json::from_value::<DiscordMessage>(value).ok());
    messages.filter_map(|message| Some((message.id.parse().ok()?, message))).collect()
}

fn envelope(message: &DiscordMessage, place: ChatAddress, parts: Vec<ChatPart>) -> Envelope {
    let reference = message.message_reference.as_ref().filter(|reference| reference.kind == 0);
    Envelope {
        platform: NAME.to_owned(),
        platform_key: message.id.clone(),
        place,
        sender: sender(&message.author, message.member.as_ref()),
        parts,
        message_id: Some(message.id.clone()),
        reply_to: reference.and_then(|reference| reference.message_id.clone()),
        reply_to_text: message
            .referenced_message
            .as_ref()
            .map(|referenced| replace_mentions(&referenced.content, &referenced.mentions))
            .filter(|text| !text.is_empty()),
        skill: None,
        quiet_ms: 0,
        received_at: snowflake_time(&message.id).unwrap_or(Timestamp(0.0)),
    }
}

pub(super) fn sender(user: &DiscordUser, member: Option<&GuildMember>) -> Sender {
    let some = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
    Sender {
        user_id: some(&user.id),
        user_name: some(&user.display_name(member)),
        alt_id: None,
        handle: some(&user.username),
    }
}

/// Returns the time at which an id was created.
pub(super) fn snowflake_time(id: &str) -> Option<Timestamp> {
    let ms = (id.parse::<u64>().ok()? >> 22).saturating_add(EPOCH_MS);
    Some(Timestamp(Duration::from_millis(ms).as_secs_f64()))
}

/// Returns the text without the bot's mention, and with names in place of other users' ids.
fn text_of(message: &DiscordMessage, bot: &str) -> String {
    let own = message.content.replace(&format!("<@{bot}>"), "").replace(&format!("<@!{bot}>"), "");
    let mut texts = vec![replace_mentions(&own, &message.mentions).trim().to_owned()];
    for snapshot in &message.message_snapshots {
        if !snapshot.message.content.is_empty() {
            texts.push(format!("[Forwarded message]\n{}", snapshot.message.content));
        }
    }
    texts.extend(
        message.sticker_items.iter().map(|sticker| format!("[The user sent a sticker: {}]", sticker.name)),
    );
    texts.retain(|text| !text.is_empty());
    texts.join("\n\n")
}

fn replace_mentions(text: &str, named: &[DiscordUser]) -> String {
    let mut text = text.to_owned();
    for user in named.iter().filter(|user| !user.id.is_empty()) {
        let shown = format!("@{}", user.display_name(None));
        text = text.replace(&format!("<@{}>", user.id), &shown).replace(&format!("<@!{}>", user.id), &shown);
    }
    text
}

pub(super) fn thread_name(text: &str) -> String {
    let line = hermes_text::single_line(text);
    let name = hermes_text::head(line.trim(), LONGEST_THREAD_NAME).trim();
    if name.is_empty() { "Hermes".to_owned() } else { name.to_owned() }
}

/// Formats the name as `Guild / #channel / thread`.
fn chat_name(guild: Option<String>, parent: Option<&ChannelInfo>, room: &ChannelInfo) -> Option<String> {
    let channel = |room: &ChannelInfo| {
        let name = room.name.clone()?;
        Some(if room.is_forum() { name } else { format!("#{name}") })
    };
    let own = if room.is_thread() { room.name.clone() } else { channel(room) };
    let parts: Vec<String> = [guild, parent.and_then(channel), own].into_iter().flatten().collect();
    (!parts.is_empty()).then(|| parts.join(" / "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(id: &str, name: &str) -> DiscordUser {
        DiscordUser { id: id.into(), username: name.into(), ..DiscordUser::default() }
    }

    #[test]
    fn texts_as_the_bot_reads_them() {
        let mentions = vec![user("1", "hermes"), user("2", "bob")];
        let message = |content: &str| DiscordMessage {
            content: content.into(),
            mentions: mentions.clone(),
            ..DiscordMessage::default()
        };
        for (written, read) in [
            ("<@1> hello", "hello"),
            ("hello <@!1>", "hello"),
            ("<@1> ask <@2> and <@!2>", "ask @bob and @bob"),
            ("<@1>", ""),
            ("mail a<@9>b", "mail a<@9>b"),
        ] {
            assert_eq!(text_of(&message(written), "1"), read, "{written}");
        }
    }

    #[test]
    fn names_of_chats_and_threads() {
        let room = |kind, name: &str| ChannelInfo { kind, name: Some(name.into()), ..ChannelInfo::default() };
        let (channel, forum, thread) = (room(0, "general"), room(15, "help"), room(11, "printer"));
        let guild = || Some("Home".to_owned());
        assert_eq!(chat_name(guild(), None, &channel).unwrap(), "Home / #general");
        assert_eq!(chat_name(guild(), Some(&channel), &thread).unwrap(), "Home / #general / printer");
        assert_eq!(chat_name(guild(), Some(&forum), &thread).unwrap(), "Home / help / printer");
        assert_eq!(thread_name("  a\nb  "), "a b");
        assert_eq!(thread_name(" \n"), "Hermes");
        assert_eq!(thread_name(&"é".repeat(200)).chars().count(), 80);
    }

    #[test]
    fn ids_tell_the_time() {
        // The example in Discord's documentation.
        assert_eq!(snowflake_time("175928847299117063"), Some(Timestamp(1_462_015_105.796)));
        assert_eq!(snowflake_time("x"), None);
        assert!(snowflake_time(&u64::MAX.to_string()).is_some());
    }
}
