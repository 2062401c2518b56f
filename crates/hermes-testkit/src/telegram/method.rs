//! The methods of the API: their parameters and their effects.
//!
//! Written from the published documentation. Undocumented parameters are refused, which the real server does not
//! do: a misspelled one would otherwise never be noticed.

use serde_json::{Value, json};

use super::call::{FakeTelegramCall, FakeTelegramError, Result};
use super::markdown::{FormattedText, parse_markdown_v2};
use super::state::{FakeTelegramButton, FakeTelegramMessage, FakeTelegramState, FakeTelegramWebhook};

const LONGEST_TEXT: usize = 4096;
const LONGEST_CAPTION: usize = 1024;
const LARGEST_DOWNLOAD: usize = 20 * 1024 * 1024;
const LARGEST_UPLOAD: usize = 50 * 1024 * 1024;
const LARGEST_PHOTO: usize = 10 * 1024 * 1024;
/// Limits the photos Telegram downloads from a URL.
const LARGEST_FETCHED_PHOTO: usize = 5 * 1024 * 1024;
const LARGEST_FETCHED: usize = 20 * 1024 * 1024;
const REACTIONS: [&str; 10] = ["👍", "👎", "❤", "🔥", "🥰", "👏", "😁", "🤔", "👀", "💯"];
const ACTIONS: [&str; 6] =
    ["typing", "upload_photo", "record_voice", "upload_voice", "upload_document", "upload_video"];

/// The parameters every message may have.
const SENDING: [&str; 12] = [
    "chat_id",
    "message_thread_id",
    "parse_mode",
    "entities",
    "caption_entities",
    "disable_notification",
    "protect_content",
    "reply_parameters",
    "reply_to_message_id",
    "allow_sending_without_reply",
    "reply_markup",
    "link_preview_options",
];

/// Returns the other parameters of a method, or `None` when there is no such method.
fn parameters(method: &str) -> Option<(&'static [&'static str], bool)> {
    let own: (&[&str], bool) = match method {
        "getMe" | "getWebhookInfo" | "getMyCommands" => (&[], false),
        "getUpdates" => (&["offset", "limit", "timeout", "allowed_updates"], false),
        "setWebhook" => {
            (&["url", "secret_token", "allowed_updates", "drop_pending_updates", "max_connections"], false)
        }
        "deleteWebhook" => (&["drop_pending_updates"], false),
        "setMyCommands" => (&["commands", "scope", "language_code"], false),
        "getChat" => (&["chat_id"], false),
        "getFile" => (&["file_id"], false),
        "sendChatAction" => (&["chat_id", "message_thread_id", "action"], false),
        "setMessageReaction" => (&["chat_id", "message_id", "reaction", "is_big"], false),
        "answerCallbackQuery" => (&["callback_query_id", "text", "show_alert", "cache_time"], false),
        "createForumTopic" => (&["chat_id", "name", "icon_color", "icon_custom_emoji_id"], false),
        "deleteMessage" => (&["chat_id", "message_id"], false),
        "editMessageText" => (
            &[
                "chat_id",
                "message_id",
                "text",
                "parse_mode",
                "entities",
                "reply_markup",
                "link_preview_options",
            ],
            false,
        ),
        "editMessageReplyMarkup" => (&["chat_id", "message_id", "reply_markup"], false),
        "sendMessage" => (&["text"], true),
        "sendPhoto" => (&["photo", "caption", "has_spoiler"], true),
        "sendAnimation" => (&["animation", "caption", "duration", "width", "height"], true),
        "sendVoice" => (&["voice", "caption", "duration"], true),
        "sendAudio" => (&["audio", "caption", "duration", "performer", "title"], true),
        "sendVideo" => (&["video", "caption", "duration", "width", "height", "supports_streaming"], true),
        "sendDocument" => (&["document", "caption", "disable_content_type_detection"], true),
        _ => return None,
    };
    Some(own)
}

impl FakeTelegramState {
    /// Performs a call, except `getUpdates`, which may have to wait.
    pub(super) fn perform(&mut self, call: &FakeTelegramCall) -> Result<Value> {
        self.check(call)?;
        match call.method.as_str() {
            "getMe" => Ok(self.bot.clone()),
            "setWebhook" => self.set_webhook(call),
            "deleteWebhook" => {
                self.hook = None;
                Ok(self.dropped_if_asked(call))
            }
            "getWebhookInfo" => {
                let url = self.hook.as_ref().map_or("", |hook| hook.url.as_str());
                Ok(
                    json!({"url": url, "pending_update_count": self.pending.len(), "has_custom_certificate": false}),
                )
            }
            "setMyCommands" => self.set_commands(call),
            "getMyCommands" => Ok(self.commands.clone()),
            "getChat" => self.writable(call).map(super::state::FakeTelegramChat::to_json),
            "getFile" => self.find_file(call),
            "sendChatAction" => self.act(call),
            "setMessageReaction" => self.react(call),
            "answerCallbackQuery" => self.answer_query(call),
            "createForumTopic" => self.create_topic(call),
            "deleteMessage" => self.delete(call),
            "editMessageText" => self.edit(call),
            "editMessageReplyMarkup" => self.edit_buttons(call),
            _ => self.send(call),
        }
    }

    /// Refuses undocumented methods and parameters.
    pub(super) fn check(&mut self, call: &FakeTelegramCall) -> Result<()> {
        let known = parameters(&call.method).filter(|_| !self.unknown_methods.contains(&call.method));
        let Some((own, sends)) = known else { return Err(FakeTelegramError::new(404, "Not Found")) };
        let is_known = |name: &str| own.contains(&name) || sends && SENDING.contains(&name);
        let names = call.fields.keys().chain(call.files.iter().map(|part| &part.name));
        match names.into_iter().find(|name| !is_known(name)) {
            Some(name) => Err(FakeTelegramError::bad(format!("unknown parameter \"{name}\""))),
            None => Ok(()),
        }
    }

    fn dropped_if_asked(&mut self, call: &FakeTelegramCall) -> Value {
        if call.flag("drop_pending_updates") {
            self.pending.clear();
        }
        Value::Bool(true)
    }

    fn set_webhook(&mut self, call: &FakeTelegramCall) -> Result<Value> {
        let secret = call.text("secret_token").map(str::to_owned);
        if secret.as_ref().is_some_and(|secret| {
            secret.len() > 256 || !secret.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-')
        }) {
            return Err(FakeTelegramError::bad("secret token contains unallowed characters"));
        }
        self.hook = call.text("url").map(|url| FakeTelegramWebhook { url: url.to_owned(), secret });
        Ok(self.dropped_if_asked(call))
    }

    fn set_commands(&mut self, call: &FakeTelegramCall) -> Result<Value> {
        let commands =
            call.document("commands")?.ok_or_else(|| FakeTelegramError::bad("commands are empty"))?;
        let list = commands.as_array().ok_or_else(|| FakeTelegramError::bad("commands must be an Array"))?;
        if list.len() > 100 {
            return Err(FakeTelegramError::bad("BOT_COMMANDS_TOO_MUCH"));
        }
        for command in list {
            let name = command.get("command").and_then(Value::as_str).unwrap_or_default();
            let words = command.get("description").and_then(Value::as_str).unwrap_or_default();
            let plain = name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
            if name.is_empty() || name.len() > 32 || !plain {
                return Err(FakeTelegramError::bad("BOT_COMMAND_INVALID"));
            }
            if words.is_empty() || words.encode_utf16().count() > 256 {
                return Err(FakeTelegramError::bad("BOT_COMMAND_DESCRIPTION_INVALID"));
            }
        }
        self.commands = commands;
        Ok(Value::Bool(true))
    }

    fn find_file(&self, call: &FakeTelegramCall) -> Result<Value> {
        let id = call.text("file_id").ok_or_else(|| FakeTelegramError::bad("file_id not specified"))?;
        let file = self
            .files
            .get(id)
            .ok_or_else(|| FakeTelegramError::bad("wrong file_id or the file is temporarily unavailable"))?;
        if file.size > LARGEST_DOWNLOAD {
            return Err(FakeTelegramError::bad("file is too big"));
        }
        Ok(json!({"file_id": id, "file_unique_id": id, "file_size": file.size, "file_path": file.path}))
    }

    fn act(&mut self, call: &FakeTelegramCall) -> Result<Value> {
        let chat = self.writable(call)?.id;
        let action = call.text("action").filter(|action| ACTIONS.contains(action));
        let action = action.ok_or_else(|| FakeTelegramError::bad("wrong parameter action in request"))?;
        self.actions.push((chat, call.number("message_thread_id"), action.to_owned()));
        Ok(Value::Bool(true))
    }

    fn react(&mut self, call: &FakeTelegramCall) -> Result<Value> {
        let chat = self.writable(call)?.id;
        let message = call.number("message_id").unwrap_or_default();
        if !self.messages.contains_key(&(chat, message)) {
            return Err(FakeTelegramError::bad("message to react not found"));
        }
        let reaction = call.document("reaction")?.unwrap_or_default();
        let emoji = reaction.pointer("/0/emoji").and_then(Value::as_str).unwrap_or_default();
        if !emoji.is_empty() && !REACTIONS.contains(&emoji) {
            return Err(FakeTelegramError::bad("REACTION_INVALID"));
        }
        self.reactions.insert((chat, message), emoji.to_owned());
        Ok(Value::Bool(true))
    }

    fn answer_query(&mut self, call: &FakeTelegramCall) -> Result<Value> {
        let known = call.text("callback_query_id").and_then(|id| self.queries.get_mut(id));
        let known = known.ok_or_else(|| {
            FakeTelegramError::bad("query is too old and response timeout expired or query ID is invalid")
        })?;
        *known = Some(call.text("text").unwrap_or_default().to_owned());
        Ok(Value::Bool(true))
    }

    fn create_topic(&mut self, call: &FakeTelegramCall) -> Result<Value> {
        let chat = self.writable(call)?.id;
        let name = call.text("name").ok_or_else(|| FakeTelegramError::bad("TOPIC_TITLE_EMPTY"))?.to_owned();
        let thread = self.message_id();
        if let Some(chat) = self.chats.get_mut(&chat) {
            chat.topics.insert(thread, name.clone());
        }
        Ok(json!({"message_thread_id": thread, "name": name, "icon_color": 7_322_096}))
    }

    fn delete(&mut self, call: &FakeTelegramCall) -> Result<Value> {
        let (chat, message) = (self.writable(call)?.id, call.number("message_id").unwrap_or_default());
        if self.messages.remove(&(chat, message)).is_none() {
            return Err(FakeTelegramError::bad("message to delete not found"));
        }
        self.posted.retain(|posted| (posted.chat, posted.id) != (chat, message));
        Ok(Value::Bool(true))
    }

    fn edit(&mut self, call: &FakeTelegramCall) -> Result<Value> {
        let (chat, message) = (self.writable(call)?.id, call.number("message_id").unwrap_or_default());
        let formatted = formatted(call, "text", LONGEST_TEXT, "message is too long")?;
        if formatted.text.trim().is_empty() {
            return Err(FakeTelegramError::bad("message text is empty"));
        }
        let buttons = buttons(call)?;
        let posted = self.posted.iter_mut().find(|posted| (posted.chat, posted.id) == (chat, message));
        let posted = posted.ok_or_else(|| FakeTelegramError::bad("message to edit not found"))?;
        let same = posted.text == formatted.text
            && posted.entities == formatted.entities
            && posted.buttons == buttons;
        if same {
            return Err(FakeTelegramError::bad(
                "message is not modified: specified new message content and reply markup are exactly the same as a \
                 current content and reply markup of the message",
            ));
        }
        posted.earlier.push(std::mem::replace(&mut posted.text, formatted.text));
        posted.entities = formatted.entities;
        posted.buttons = buttons;
        let text = json!(posted.text);
        let known = self.messages.get_mut(&(chat, message)).and_then(Value::as_object_mut);
        let known = known.ok_or_else(|| FakeTelegramError::bad("message to edit not found"))?;
        known.insert("text".to_owned(), text);
        Ok(Value::Object(known.clone()))
    }

    fn edit_buttons(&mut self, call: &FakeTelegramCall) -> Result<Value> {
        let (chat, message) = (self.writable(call)?.id, call.number("message_id").unwrap_or_default());
        let buttons = buttons(call)?;
        let posted = self.posted.iter_mut().find(|posted| (posted.chat, posted.id) == (chat, message));
        let posted = posted.ok_or_else(|| FakeTelegramError::bad("message to edit not found"))?;
        posted.buttons = buttons;
        Ok(Value::Bool(true))
    }

    fn send(&mut self, call: &FakeTelegramCall) -> Result<Value> {
        let chat = self.writable(call)?.clone();
        let kind = call.method.trim_start_matches("send").to_lowercase();
        let kind = if kind == "message" { "text".to_owned() } else { kind };
        let formatted = match kind.as_str() {
            "text" => formatted(call, "text", LONGEST_TEXT, "message is too long")?,
            _ => formatted(call, "caption", LONGEST_CAPTION, "message caption is too long")?,
        };
        if kind == "text" && formatted.text.trim().is_empty() {
            return Err(FakeTelegramError::bad("message text is empty"));
        }
        let file = if kind == "text" { None } else { Some(self.sent_file(call, &kind)?) };
        let buttons = buttons(call)?;
        let reply_to = self.replied(call, chat.id)?;
        self.admit(chat.id)?;
        let id = self.message_id();
        let thread = call.number("message_thread_id");
        let mut message =
            json!({"message_id": id, "from": self.bot, "chat": chat.to_json(), "date": self.date()});
        if let Value::Object(message) = &mut message {
            message.insert(if kind == "text" { "text" } else { "caption" }.to_owned(), json!(formatted.text));
            message.extend(thread.map(|thread| ("message_thread_id".to_owned(), json!(thread))));
        }
        self.messages.insert((chat.id, id), message.clone());
        self.posted.push(FakeTelegramMessage {
            id,
            chat: chat.id,
            thread,
            kind,
            text: formatted.text,
            entities: formatted.entities,
            reply_to,
            buttons,
            file,
            earlier: Vec::new(),
            fields: call.fields.clone(),
        });
        Ok(message)
    }

    fn replied(&self, call: &FakeTelegramCall, chat: i64) -> Result<Option<i64>> {
        let parameters = call.document("reply_parameters")?.unwrap_or_default();
        let number =
            parameters.get("message_id").and_then(Value::as_i64).or(call.number("reply_to_message_id"));
        let lenient = call.flag("allow_sending_without_reply")
            || parameters.get("allow_sending_without_reply").and_then(Value::as_bool) == Some(true);
        match number {
            Some(number) if self.messages.contains_key(&(chat, number)) => Ok(Some(number)),
            Some(_) if !lenient => Err(FakeTelegramError::bad("message to be replied not found")),
            _ => Ok(None),
        }
    }
}

impl FakeTelegramState {
    fn sent_file(&self, call: &FakeTelegramCall, kind: &str) -> Result<(String, Vec<u8>)> {
        if let Some(part) = call.file(kind) {
            let (name, size) = (part.file_name.clone().unwrap_or_default(), part.bytes.len());
            if size > LARGEST_UPLOAD {
                return Err(FakeTelegramError::new(413, "Request Entity Too Large"));
            }
            if kind == "photo" && size > LARGEST_PHOTO {
                let why = format!(
                    "file of size {size} bytes is too big for a photo; the maximum size is {LARGEST_PHOTO} bytes"
                );
                return Err(FakeTelegramError::bad(why));
            }
            if kind == "photo" && !is_picture(&part.bytes) {
                return Err(FakeTelegramError::bad("IMAGE_PROCESS_FAILED"));
            }
            return Ok((name, part.bytes.clone()));
        }
        match call.text(kind) {
            Some(address) => self.fetched(address, kind),
            None => Err(FakeTelegramError::bad(format!("there is no {kind} in the request"))),
        }
    }

    /// Returns the contents of a URL as Telegram's servers see it: addresses of this machine are unreachable. A
    /// public URL without registered contents is accepted.
    fn fetched(&self, address: &str, kind: &str) -> Result<(String, Vec<u8>)> {
        let rest = address.strip_prefix("https://").or_else(|| address.strip_prefix("http://"));
        let host = rest.and_then(|rest| rest.split(['/', ':', '?', '#']).next()).unwrap_or_default();
        if host.is_empty() || address.chars().any(char::is_whitespace) {
            return Err(FakeTelegramError::bad("wrong file identifier/HTTP URL specified"));
        }
        let Some((mime, bytes)) = self.web.get(address) else {
            let local = matches!(host, "localhost" | "127.0.0.1") || host.ends_with(".invalid");
            if local || !host.contains('.') {
                return Err(FakeTelegramError::bad("failed to get HTTP URL content"));
            }
            return Ok((address.to_owned(), Vec::new()));
        };
        let (wanted, largest) = match kind {
            "photo" => ("image/", LARGEST_FETCHED_PHOTO),
            "animation" => ("image/gif", LARGEST_FETCHED),
            _ => ("", LARGEST_FETCHED),
        };
        if !mime.starts_with(wanted) {
            return Err(FakeTelegramError::bad("wrong type of the web page content"));
        }
        if bytes.len() > largest {
            return Err(FakeTelegramError::bad("failed to get HTTP URL content"));
        }
        Ok((address.to_owned(), bytes.clone()))
    }
}

/// Returns a text or caption, parsed if the call names a parse mode.
fn formatted(call: &FakeTelegramCall, name: &str, longest: usize, too_long: &str) -> Result<FormattedText> {
    let text = call.text(name).unwrap_or_default();
    let mut formatted = match call.text("parse_mode") {
        None => FormattedText { text: text.to_owned(), entities: Vec::new() },
        Some("MarkdownV2") => parse_markdown_v2(text)
            .map_err(|why| FakeTelegramError::bad(format!("can't parse entities: {why}")))?,
        Some(_) => return Err(FakeTelegramError::bad("unsupported parse_mode")),
    };
    if formatted.text.encode_utf16().count() > longest {
        return Err(FakeTelegramError::bad(too_long));
    }
    formatted.text.truncate(formatted.text.trim_end().len());
    Ok(formatted)
}

fn buttons(call: &FakeTelegramCall) -> Result<Vec<FakeTelegramButton>> {
    let markup = call.document("reply_markup")?.unwrap_or_default();
    let rows = markup.get("inline_keyboard").and_then(Value::as_array).cloned().unwrap_or_default();
    let mut buttons = Vec::new();
    for button in rows.iter().filter_map(Value::as_array).flatten() {
        let field = |name: &str| button.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        let (text, data) = (field("text"), field("callback_data"));
        if text.is_empty() {
            return Err(FakeTelegramError::bad(
                "can't parse inline keyboard button: Text buttons are unallowed in the inline keyboard",
            ));
        }
        if data.is_empty() || data.len() > 64 {
            return Err(FakeTelegramError::bad("BUTTON_DATA_INVALID"));
        }
        buttons.push(FakeTelegramButton { text, data });
    }
    Ok(buttons)
}

fn is_picture(bytes: &[u8]) -> bool {
    let starts: [&[u8]; 4] = [b"\x89PNG", b"\xFF\xD8\xFF", b"GIF8", b"RIFF"];
    starts.iter().any(|start| bytes.starts_with(start))
}
