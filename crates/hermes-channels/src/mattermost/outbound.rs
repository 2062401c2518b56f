//! Outgoing messages, reactions, and the list of channels.

use hermes_net::Method;
use hermes_types::{
    ChannelError, ChatAddress, ChatKind, ChatPart, DeliveryCertainty, DeliveryReceipt, MessageStatus,
    OutgoingMessage, Timestamp, WebImage,
};
use serde_json::{Value, json};

use super::MattermostChannel;
use super::api::is_id;
use super::inbound::MattermostPlace;
use crate::choices;
use crate::fetch::fetch_picture;
use crate::incoming_file::read_outgoing;
use crate::media::mime_of;
use crate::multipart::MultipartForm;
use crate::rest::RestError;

/// The property with the key of a reply.
const KEY: &str = "hermes_key";
/// How far the clocks of the server and of this computer may differ.
const CLOCK_DIFFERENCE: std::time::Duration = std::time::Duration::from_mins(5);

impl MattermostChannel {
    /// Sends a reply. After an earlier attempt, parts that have arrived are found by their key.
    pub(super) async fn deliver(
        &self,
        reply: &OutgoingMessage,
        since: Option<Timestamp>,
    ) -> Result<DeliveryReceipt, ChannelError> {
        let sent = match since {
            Some(since) => self.list_sent(&reply.place.chat_id, since).await?,
            None => Vec::new(),
        };
        let reactions = choices::reactions(&reply.choices);
        let legend =
            if reactions.is_empty() { String::new() } else { choices::legend(&reply.choices, &reactions) };
        let mut message_ids = Vec::new();
        for (at, piece) in reply.pieces.iter().enumerate() {
            let key = format!("{}#{at}", reply.idempotency_key);
            let known = sent.iter().find(|(known, _)| *known == key).map(|(_, id)| id.clone());
            message_ids.push(match known {
                Some(id) => id,
                None => self.send_piece(&reply.place, piece, &legend, &key).await?,
            });
        }
        self.questions.remember(reply, &message_ids);
        if let Some(question) = message_ids.last() {
            for (emoji, _) in reactions {
                self.add_reaction(question, shortcode(emoji)).await;
            }
        }
        Ok(DeliveryReceipt { message_ids, certainty: DeliveryCertainty::Once })
    }

    async fn send_piece(
        &self,
        place: &ChatAddress,
        piece: &ChatPart,
        legend: &str,
        key: &str,
    ) -> Result<String, ChannelError> {
        match piece {
            ChatPart::Text { text } => {
                self.create_post(place, &format!("{text}{legend}"), &[], Some(key)).await
            }
            ChatPart::File(file) => {
                let (name, bytes) = read_outgoing(file)?;
                let id = self.upload(place, &name, &bytes).await?;
                self.create_post(place, "", &[id], Some(key)).await
            }
            ChatPart::Picture(picture) => self.send_picture(place, picture, key).await,
        }
    }

    /// Downloads and uploads a picture. If that fails, sends its address.
    async fn send_picture(
        &self,
        place: &ChatAddress,
        picture: &WebImage,
        key: &str,
    ) -> Result<String, ChannelError> {
        let why = match fetch_picture(&self.context.client, &*self.context.clock, &picture.url).await {
            Ok(file) => match self.upload(place, &file.name, &file.bytes).await {
                Ok(id) => {
                    let caption = picture.caption.as_deref().unwrap_or_default();
                    return self.create_post(place, caption, &[id], Some(key)).await;
                }
                Err(ChannelError::Refused(why)) => why,
                Err(error) => return Err(error),
            },
            Err(why) => why,
        };
        tracing::warn!(why, "a picture is sent as its address");
        self.create_post(place, &picture.fallback_text(), &[], Some(key)).await
    }

    async fn upload(&self, place: &ChatAddress, name: &str, bytes: &[u8]) -> Result<String, ChannelError> {
        let form = MultipartForm::new().text("channel_id", &place.chat_id);
        let answer = self.api.upload(form.file("files", name, mime_of(name), bytes)).await?;
        let id = answer.pointer("/file_infos/0/id").and_then(Value::as_str);
        id.map(str::to_owned)
            .ok_or_else(|| ChannelError::Refused("Mattermost: the upload has no id".to_owned()))
    }

    pub(super) async fn post_text(&self, place: &ChatAddress, text: &str) -> Result<String, ChannelError> {
        self.create_post(place, text, &[], None).await
    }

    async fn create_post(
        &self,
        place: &ChatAddress,
        text: &str,
        files: &[String],
        key: Option<&str>,
    ) -> Result<String, ChannelError> {
        let mut body = json!({"channel_id": place.chat_id, "message": rendered(text)});
        if let Some(thread) = &place.thread_id {
            body["root_id"] = json!(thread);
        }
        if !files.is_empty() {
            body["file_ids"] = json!(files);
        }
        if let Some(key) = key {
            body["props"] = json!({KEY: key});
            // The server itself refuses a second post with this id for a short time.
            body["pending_post_id"] = json!(key);
        }
        let answer = self.api.post("posts", &body).await.map_err(RestError::into_send_error)?;
        let id = answer.get("id").and_then(Value::as_str);
        id.map(str::to_owned)
            .ok_or_else(|| ChannelError::DeliveryUnknown("Mattermost returned no id of the post".to_owned()))
    }

    /// Returns the keys and ids of the bot's posts since the first attempt.
    async fn list_sent(&self, chat: &str, since: Timestamp) -> Result<Vec<(String, String)>, ChannelError> {
        if !is_id(chat) {
            return Ok(Vec::new());
        }
        #[expect(clippy::cast_possible_truncation, reason = "milliseconds since the epoch fit 64 bits")]
        let since = (since.minus(CLOCK_DIFFERENCE).seconds() * 1000.0) as i64;
        let answer = match self.api.get(&format!("channels/{chat}/posts?since={since}")).await {
            Ok(answer) => answer,
            Err(failure) if matches!(failure.error, ChannelError::Refused(_)) => return Ok(Vec::new()),
            Err(failure) => return Err(failure.error),
        };
        let posts = answer.get("posts").and_then(Value::as_object).into_iter().flatten();
        let pair = |(id, post): (&String, &Value)| {
            let key = post.get("props")?.get(KEY)?.as_str()?;
            Some((key.to_owned(), id.clone()))
        };
        Ok(posts.filter_map(pair).collect())
    }

    pub(super) async fn edit_text(&self, message: &str, text: &str) -> Result<(), ChannelError> {
        if !is_id(message) {
            return Err(ChannelError::Refused("no such message".to_owned()));
        }
        let body = json!({"message": rendered(text)});
        self.api.call(Method::PUT, &format!("posts/{message}/patch"), Some(&body)).await?;
        Ok(())
    }

    pub(super) async fn set_reaction(&self, message: &str, mark: MessageStatus) {
        let Ok(me) = self.api.identity().await else { return };
        if !is_id(message) {
            return;
        }
        let done = match mark {
            MessageStatus::Processing => "eyes",
            MessageStatus::Answered => "white_check_mark",
            MessageStatus::Failed => "x",
        };
        if mark != MessageStatus::Processing {
            let path = format!("users/{}/posts/{message}/reactions/eyes", me.id);
            self.api.call(Method::DELETE, &path, None).await.ok();
        }
        self.add_reaction(message, done).await;
    }

    /// Adds a reaction of the bot to a post.
    async fn add_reaction(&self, message: &str, name: &str) {
        let Ok(me) = self.api.identity().await else { return };
        let body = json!({"user_id": me.id, "post_id": message, "emoji_name": name});
        if let Err(failure) = self.api.post("reactions", &body).await {
            tracing::debug!(error = %failure.error, "a reaction was not set");
        }
    }

    /// Lists the channels the bot is in; those with one person have no name.
    pub(super) async fn list_chats(&self) -> Vec<ChatAddress> {
        let Ok(me) = self.api.identity().await else { return Vec::new() };
        let answer = self.api.get(&format!("users/{}/channels", me.id)).await.unwrap_or_default();
        let chat = |channel: &Value| {
            let text = |key: &str| channel.get(key).and_then(Value::as_str);
            let place = MattermostPlace::new(text("type")?, text("name"));
            let mut address = ChatAddress::new(place.kind, text("id")?);
            address.chat_name = place.name;
            (address.kind != ChatKind::Dm).then_some(address)
        };
        answer.as_array().into_iter().flatten().filter_map(chat).collect()
    }
}

/// The names that Mattermost gives the reactions that stand for choices.
const SHORTCODES: [(&str, &str); 13] = [
    ("✅", "white_check_mark"),
    ("🕒", "clock3"),
    ("♾️", "infinity"),
    ("❌", "x"),
    ("1️⃣", "one"),
    ("2️⃣", "two"),
    ("3️⃣", "three"),
    ("4️⃣", "four"),
    ("5️⃣", "five"),
    ("6️⃣", "six"),
    ("7️⃣", "seven"),
    ("8️⃣", "eight"),
    ("9️⃣", "nine"),
];

fn shortcode(emoji: &'static str) -> &'static str {
    SHORTCODES.iter().find(|(known, _)| *known == emoji).map_or(emoji, |(_, name)| name)
}

/// Returns the emoji with a name of Mattermost's.
pub(super) fn emoji(name: &str) -> &str {
    SHORTCODES.iter().find(|(_, known)| *known == name).map_or(name, |(emoji, _)| emoji)
}

/// Renders an answer: Mattermost shows Markdown. Pictures by address become links, and nobody calls a whole channel.
fn rendered(markdown: &str) -> String {
    let mut text = String::with_capacity(markdown.len());
    let mut rest = markdown;
    while let Some((before, tail)) = rest.split_once("![") {
        text.push_str(before);
        let link = tail.split_once("](").and_then(|(label, tail)| {
            let (url, after) = tail.split_once(')')?;
            (!label.contains(['[', ']', '\n']) && url.starts_with("http")).then_some((url, after))
        });
        if let Some((url, after)) = link {
            text.push_str(url);
            rest = after;
        } else {
            text.push_str("![");
            rest = tail;
        }
    }
    text.push_str(rest);
    without_calls(&text)
}

/// Separates the sign from the words that call everybody.
fn without_calls(text: &str) -> String {
    let in_word = |c: char| c.is_alphanumeric() || c == '_' || c == '-';
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, tail)) = rest.split_once('@') {
        out.push_str(before);
        out.push('@');
        let name = tail.split(|c| !in_word(c)).next().unwrap_or_default().to_ascii_lowercase();
        if ["all", "channel", "here"].contains(&name.as_str()) {
            out.push('\u{200B}');
        }
        rest = tail;
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pictures_become_links_and_nobody_is_called() {
        assert_eq!(rendered("a ![b](https://e.org/c.png) d ![x"), "a https://e.org/c.png d ![x");
        assert_eq!(
            rendered("**b** @channel @ann a@hereford.org @Here!"),
            "**b** @\u{200B}channel @ann a@hereford.org @\u{200B}Here!"
        );
    }
}
