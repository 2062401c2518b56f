//! The Web API, method by method, as strict as its documentation.

use serde_json::{Value, json};

use super::state::{FakeSlackMessage, FakeSlackState};
use super::{BOT, BOT_USER};

/// The result of a method: the response, or its error code.
type FakeSlackResult = Result<Value, &'static str>;

const LONGEST_TEXT: usize = 40_000;

/// The arguments of a method, and their encoding: some methods do not accept JSON.
struct Method {
    name: &'static str,
    arguments: &'static [&'static str],
    json: bool,
    run: fn(&mut FakeSlackState, &Value) -> FakeSlackResult,
}

const METHODS: &[Method] = &[
    Method { name: "auth.test", arguments: &[], json: true, run: auth_test },
    Method { name: "apps.connections.open", arguments: &[], json: true, run: connections_open },
    Method {
        name: "chat.postMessage",
        arguments: &[
            "channel",
            "text",
            "thread_ts",
            "reply_broadcast",
            "blocks",
            "metadata",
            "mrkdwn",
            "unfurl_links",
            "unfurl_media",
        ],
        json: true,
        run: post_message,
    },
    Method {
        name: "chat.update",
        arguments: &["channel", "ts", "text", "blocks", "metadata"],
        json: true,
        run: update,
    },
    Method { name: "users.info", arguments: &["user", "include_locale"], json: false, run: users_info },
    Method { name: "conversations.info", arguments: &["channel"], json: false, run: conversations_info },
    Method {
        name: "conversations.history",
        arguments: &["channel", "limit", "oldest", "latest", "inclusive", "cursor", "include_all_metadata"],
        json: false,
        run: history,
    },
    Method {
        name: "conversations.replies",
        arguments: &[
            "channel",
            "ts",
            "limit",
            "oldest",
            "latest",
            "inclusive",
            "cursor",
            "include_all_metadata",
        ],
        json: false,
        run: replies,
    },
    Method {
        name: "files.getUploadURLExternal",
        arguments: &["filename", "length", "alt_txt", "snippet_type"],
        json: false,
        run: upload_url,
    },
    Method {
        name: "files.completeUploadExternal",
        arguments: &["files", "channel_id", "thread_ts", "initial_comment"],
        json: true,
        run: complete_upload,
    },
    Method {
        name: "reactions.add",
        arguments: &["channel", "timestamp", "name"],
        json: true,
        run: add_reaction,
    },
    Method {
        name: "reactions.remove",
        arguments: &["channel", "timestamp", "name"],
        json: true,
        run: remove_reaction,
    },
    Method {
        name: "assistant.threads.setStatus",
        arguments: &["channel_id", "thread_ts", "status", "loading_messages"],
        json: true,
        run: set_status,
    },
];

impl FakeSlackState {
    /// Runs a method for a caller with this token.
    pub(super) fn answer(
        &mut self,
        method: &str,
        token: Option<&str>,
        arguments: &Value,
        as_json: bool,
    ) -> FakeSlackResult {
        let Some(known) = METHODS.iter().find(|known| known.name == method) else {
            return Err("unknown_method");
        };
        let by_app = method == "apps.connections.open";
        match token {
            None => return Err("not_authed"),
            Some(token) if token == self.app_token && by_app => {}
            Some(token) if token == self.bot_token && !by_app => {}
            Some(token) if token == self.app_token || token == self.bot_token => {
                return Err("not_allowed_token_type");
            }
            Some(_) => return Err("invalid_auth"),
        }
        let given = arguments.as_object().ok_or("invalid_arguments")?;
        if (as_json && !known.json && !given.is_empty())
            || given.keys().any(|name| !known.arguments.contains(&name.as_str()))
        {
            return Err("invalid_arguments");
        }
        (known.run)(self, arguments)
    }
}

fn text<'a>(arguments: &'a Value, name: &str) -> Option<&'a str> {
    arguments[name].as_str().filter(|text| !text.is_empty())
}

#[expect(clippy::unnecessary_wraps, reason = "methods are a table of one signature")]
fn auth_test(_: &mut FakeSlackState, _: &Value) -> FakeSlackResult {
    Ok(
        json!({"url": "https://test.slack.com/", "team": "Test", "user": "hermes", "team_id": "T1", "user_id": BOT_USER, "bot_id": BOT}),
    )
}

fn connections_open(world: &mut FakeSlackState, _: &Value) -> FakeSlackResult {
    if world.connections.len() >= 10 {
        return Err("too_many_websockets");
    }
    let ticket = format!("ticket-{}", world.count());
    world.tickets.push(ticket.clone());
    Ok(json!({"url": format!("ws://127.0.0.1:{}/link/?ticket={ticket}&app_id=A1", world.port)}))
}

fn post_message(world: &mut FakeSlackState, arguments: &Value) -> FakeSlackResult {
    let channel = text(arguments, "channel").ok_or("channel_not_found")?.to_owned();
    let blocks = checked_blocks(&arguments["blocks"])?;
    let words = checked_text(arguments, &blocks)?;
    let thread = match arguments.get("thread_ts") {
        None => None,
        Some(thread) => Some(thread.as_str().ok_or("invalid_thread_ts")?.to_owned()),
    };
    let metadata = &arguments["metadata"];
    let complete = metadata["event_type"].is_string() && metadata["event_payload"].is_object();
    if !metadata.is_null() && !complete {
        return Err("invalid_metadata_format");
    }
    if !world.channels.contains_key(&channel) {
        return Err("channel_not_found");
    }
    if let Some(thread) = &thread
        && world.message(&channel, thread).is_none()
    {
        return Err("thread_not_found");
    }
    let ts = world.next_ts();
    let message = FakeSlackMessage {
        ts: ts.clone(),
        user: BOT_USER.to_owned(),
        text: words,
        thread_ts: thread,
        blocks,
        metadata: arguments["metadata"].clone(),
        broadcast: arguments["reply_broadcast"] == true,
        ..FakeSlackMessage::default()
    };
    let shown = shown(&message);
    // The app also gets events for its own messages.
    world.event(&json!({
        "type": "message", "channel": channel, "user": BOT_USER, "bot_id": BOT, "text": message.text, "ts": ts,
        "thread_ts": message.thread_ts,
    }));
    if let Some(known) = world.channels.get_mut(&channel) {
        known.messages.push(message);
    }
    Ok(json!({"channel": channel, "ts": ts, "message": shown}))
}

fn checked_text(arguments: &Value, blocks: &[Value]) -> Result<String, &'static str> {
    let words = arguments["text"].as_str().unwrap_or_default();
    if words.trim().is_empty() && blocks.is_empty() {
        return Err("no_text");
    }
    if words.chars().count() > LONGEST_TEXT {
        return Err("msg_too_long");
    }
    Ok(words.to_owned())
}

fn checked_blocks(blocks: &Value) -> Result<Vec<Value>, &'static str> {
    if blocks.is_null() {
        return Ok(Vec::new());
    }
    let blocks = blocks.as_array().filter(|blocks| blocks.len() <= 50).ok_or("invalid_blocks")?;
    for block in blocks {
        let good = match block["type"].as_str() {
            Some("section") => within(&block["text"]["text"], 3000) && block["text"]["type"] == "mrkdwn",
            Some("actions") => {
                let elements =
                    block["elements"].as_array().filter(|list| !list.is_empty() && list.len() <= 25);
                elements.is_some_and(|list| list.iter().all(is_button) && all_differ(list))
            }
            _ => false,
        };
        if !good {
            return Err("invalid_blocks");
        }
    }
    Ok(blocks.clone())
}

fn is_button(element: &Value) -> bool {
    let style = element.get("style").is_none_or(|style| style == "primary" || style == "danger");
    element["type"] == "button"
        && style
        && element["text"]["type"] == "plain_text"
        && within(&element["text"]["text"], 75)
        && within(&element["action_id"], 255)
        && within(&element["value"], 2000)
}

fn all_differ(elements: &[Value]) -> bool {
    let mut ids: Vec<&str> = elements.iter().filter_map(|element| element["action_id"].as_str()).collect();
    let count = ids.len();
    ids.sort_unstable();
    ids.dedup();
    ids.len() == count
}

fn within(text: &Value, most: usize) -> bool {
    text.as_str().is_some_and(|text| !text.is_empty() && text.chars().count() <= most)
}

fn update(world: &mut FakeSlackState, arguments: &Value) -> FakeSlackResult {
    let (channel, ts) = (
        text(arguments, "channel").ok_or("channel_not_found")?,
        text(arguments, "ts").ok_or("message_not_found")?,
    );
    let blocks = checked_blocks(&arguments["blocks"])?;
    let words = checked_text(arguments, &blocks)?;
    let message = world.message(channel, ts).ok_or("message_not_found")?;
    if message.user != BOT_USER {
        return Err("cant_update_message");
    }
    let before = std::mem::replace(&mut message.text, words);
    message.earlier.push(before);
    message.blocks = blocks;
    Ok(json!({"channel": channel, "ts": ts, "text": message.text}))
}

fn users_info(world: &mut FakeSlackState, arguments: &Value) -> FakeSlackResult {
    let id = text(arguments, "user").ok_or("user_not_found")?;
    let name = world.people.get(id).ok_or("user_not_found")?;
    let profile = json!({"display_name": name, "real_name": format!("{name} Real")});
    Ok(
        json!({"user": {"id": id, "name": name.to_lowercase(), "real_name": format!("{name} Real"), "profile": profile}}),
    )
}

fn conversations_info(world: &mut FakeSlackState, arguments: &Value) -> FakeSlackResult {
    let id = text(arguments, "channel").ok_or("channel_not_found")?;
    let channel = world.channels.get(id).ok_or("channel_not_found")?;
    Ok(json!({"channel": {"id": id, "name": channel.name, "is_im": channel.kind == "im"}}))
}

fn shown(message: &FakeSlackMessage) -> Value {
    let mut shown = json!({"type": "message", "user": message.user, "text": message.text, "ts": message.ts});
    if let Some(thread) = &message.thread_ts {
        shown["thread_ts"] = json!(thread);
    }
    if !message.metadata.is_null() {
        shown["metadata"] = message.metadata.clone();
    }
    if message.user == BOT_USER {
        shown["bot_id"] = json!(BOT);
    }
    shown
}

fn listed(
    world: &FakeSlackState,
    arguments: &Value,
    wanted: impl Fn(&FakeSlackMessage) -> bool,
    newest_first: bool,
) -> FakeSlackResult {
    let id = text(arguments, "channel").ok_or("channel_not_found")?;
    let channel = world.channels.get(id).ok_or("channel_not_found")?;
    let limit = arguments["limit"].as_str().and_then(|limit| limit.parse().ok()).unwrap_or(100);
    let mut found: Vec<Value> =
        channel.messages.iter().filter(|message| wanted(message)).map(shown).collect();
    if newest_first {
        found.reverse();
    }
    found.truncate(limit);
    Ok(json!({"messages": found, "has_more": false}))
}

fn history(world: &mut FakeSlackState, arguments: &Value) -> FakeSlackResult {
    listed(world, arguments, |message| message.thread_ts.is_none() || message.broadcast, true)
}

fn replies(world: &mut FakeSlackState, arguments: &Value) -> FakeSlackResult {
    let ts = text(arguments, "ts").ok_or("thread_not_found")?;
    listed(world, arguments, |message| message.ts == ts || message.thread_ts.as_deref() == Some(ts), false)
}

fn upload_url(world: &mut FakeSlackState, arguments: &Value) -> FakeSlackResult {
    let name = text(arguments, "filename").ok_or("invalid_arguments")?.to_owned();
    let length = arguments["length"].as_str().and_then(|length| length.parse::<u64>().ok());
    if length.is_none_or(|length| length == 0) {
        return Err("invalid_arguments");
    }
    let id = format!("F{}", world.count());
    world.uploads.insert(id.clone(), (name, None));
    Ok(json!({"upload_url": format!("http://127.0.0.1:{}/upload/{id}", world.port), "file_id": id}))
}

fn complete_upload(world: &mut FakeSlackState, arguments: &Value) -> FakeSlackResult {
    let channel = text(arguments, "channel_id").ok_or("channel_not_found")?.to_owned();
    let listed =
        arguments["files"].as_array().filter(|files| !files.is_empty()).ok_or("invalid_arguments")?;
    let mut files = Vec::new();
    for file in listed {
        let id = file["id"].as_str().ok_or("file_not_found")?;
        match world.uploads.remove(id) {
            Some((name, Some(bytes))) => files.push((name, bytes)),
            _ => return Err("file_not_found"),
        }
    }
    let ts = world.next_ts();
    let known = world.channels.get_mut(&channel).ok_or("channel_not_found")?;
    known.messages.push(FakeSlackMessage {
        ts,
        user: BOT_USER.to_owned(),
        text: arguments["initial_comment"].as_str().unwrap_or_default().to_owned(),
        thread_ts: arguments["thread_ts"].as_str().map(str::to_owned),
        files,
        ..FakeSlackMessage::default()
    });
    Ok(json!({"files": listed}))
}

fn reacted<'a>(
    world: &'a mut FakeSlackState,
    arguments: &Value,
) -> Result<(&'a mut FakeSlackMessage, String), &'static str> {
    let name = text(arguments, "name").ok_or("invalid_name")?.to_owned();
    let (channel, ts) = (
        text(arguments, "channel").ok_or("channel_not_found")?,
        text(arguments, "timestamp").ok_or("no_item_specified")?,
    );
    Ok((world.message(channel, ts).ok_or("message_not_found")?, name))
}

fn add_reaction(world: &mut FakeSlackState, arguments: &Value) -> FakeSlackResult {
    let (message, name) = reacted(world, arguments)?;
    if message.reactions.contains(&name) {
        return Err("already_reacted");
    }
    message.reactions.push(name);
    Ok(json!({}))
}

fn remove_reaction(world: &mut FakeSlackState, arguments: &Value) -> FakeSlackResult {
    let (message, name) = reacted(world, arguments)?;
    let at = message.reactions.iter().position(|known| *known == name).ok_or("no_reaction")?;
    message.reactions.remove(at);
    Ok(json!({}))
}

fn set_status(world: &mut FakeSlackState, arguments: &Value) -> FakeSlackResult {
    let channel = text(arguments, "channel_id").ok_or("channel_not_found")?.to_owned();
    let thread = text(arguments, "thread_ts").ok_or("invalid_thread_ts")?.to_owned();
    if !arguments["status"].is_string() {
        return Err("invalid_arguments");
    }
    world.statuses.push((channel, thread));
    Ok(json!({}))
}
