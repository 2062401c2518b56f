//! `/update`: runs the update beside the gateway, and reports the result to the chat that requested it.
//!
//! The gateway restarts in between, so the requesting chat, the output and the exit code are kept in files. The
//! report has a unique key; if two processes send it, it arrives once.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use hermes_config::{Home, write};
use hermes_exec::{Variables, start_detached};
use hermes_gateway::Outbox;
use hermes_store::WaitingMessage;
use hermes_text::tail;
use hermes_types::{ChatAddress, ChatPart, OutgoingMessage, Timestamp};
use serde_json::{Value, json};

use crate::command::update::Installation;

/// The time after which an update that has not ended counts as failed.
const LONGEST: Duration = Duration::from_mins(30);
const TOO_LONG: i32 = 124;
const LONGEST_TOLD: usize = 3500;

/// The files shared by the requesting and the reporting process.
struct UpdateFiles {
    pending: PathBuf,
    claimed: PathBuf,
    output: PathBuf,
    exit_code: PathBuf,
}

impl UpdateFiles {
    fn in_home(home: &Home) -> Self {
        Self {
            pending: home.join(".update_pending.json"),
            claimed: home.join(".update_pending.claimed.json"),
            output: home.join(".update_output.txt"),
            exit_code: home.join(".update_exit_code"),
        }
    }

    fn remove(&self) {
        for file in [&self.claimed, &self.output, &self.exit_code] {
            // It does not exist, or the next report removes it.
            let _ = fs::remove_file(file);
        }
    }
}

/// Starts the update, and returns a message that says so.
pub(super) fn begin(home: &Home, variables: &Variables, from: &WaitingMessage, now: Timestamp) -> String {
    let files = UpdateFiles::in_home(home);
    if files.pending.exists() {
        return "⚕ An update is under way already.".to_owned();
    }
    let own = match Installation::own() {
        Ok(own) => own,
        Err(error) => return format!("⚠️ {error:#}"),
    };
    files.remove();
    let place = &from.envelope.place;
    let pending = json!({
        "platform": from.envelope.platform,
        "chat_id": place.chat_id,
        "thread_id": place.thread_id,
        "user_id": from.envelope.sender.user_id,
        "timestamp": now.seconds(),
        "place": place,
    });
    let started = write::replace(&files.pending, pending.to_string().as_bytes())
        .map_err(|error| error.to_string())
        .and_then(|()| {
            start_detached(&own.program, "update", variables, (&files.output, &files.exit_code))
                .map_err(|error| error.to_string())
        });
    match started {
        Ok(()) => "⚕ Starting Hermes update… I'll notify you when it's done.".to_owned(),
        Err(error) => {
            let _ = fs::remove_file(&files.pending);
            format!("⚠️ The update could not be started: {error}")
        }
    }
}

/// Reports the result to the requesting chat. Does nothing until the update has ended.
pub(super) async fn report(home: &Home, outbox: &Outbox, now: Timestamp) {
    let files = UpdateFiles::in_home(home);
    if !files.claimed.exists() {
        let Some(asked) = read(&files.pending) else { return };
        let since = Timestamp(asked["timestamp"].as_f64().unwrap_or_default());
        let overdue = now.since(since) > LONGEST;
        if !files.exit_code.exists() && !overdue {
            return;
        }
        if fs::rename(&files.pending, &files.claimed).is_err() {
            return;
        }
    }
    let Some(asked) = read(&files.claimed) else { return files.remove() };
    let Some(reply) = report_reply(&asked, &files) else { return files.remove() };
    match outbox.enqueue(reply).await {
        Ok(()) => files.remove(),
        Err(error) => tracing::warn!(%error, "how the update went could not be told yet"),
    }
}

fn read(file: &PathBuf) -> Option<Value> {
    serde_json::from_str(&fs::read_to_string(file).ok()?).ok()
}

fn report_reply(asked: &Value, files: &UpdateFiles) -> Option<OutgoingMessage> {
    let code = fs::read_to_string(&files.exit_code).ok().and_then(|text| text.trim().parse::<i32>().ok());
    let said = fs::read(&files.output).unwrap_or_default();
    let said = hermes_exec::strip_ansi(&String::from_utf8_lossy(&said)).trim().to_owned();
    let headline = match code.unwrap_or(TOO_LONG) {
        0 => "✅ Hermes update finished.".to_owned(),
        TOO_LONG => "❌ Hermes update failed: it took longer than half an hour.".to_owned(),
        code => format!("❌ Hermes update failed ({code})."),
    };
    let text = if said.is_empty() {
        headline
    } else {
        format!("{headline}\n\n```\n{}\n```", tail(&said, LONGEST_TOLD))
    };
    Some(OutgoingMessage {
        platform: asked["platform"].as_str()?.to_owned(),
        place: place_of(asked)?,
        pieces: vec![ChatPart::Text { text }],
        reply_to: None,
        choices: Vec::new(),
        draft: None,
        idempotency_key: format!("update:{}", asked["timestamp"]),
    })
}

/// Returns the chat of the request. Another release may have written only its first two fields.
fn place_of(asked: &Value) -> Option<ChatAddress> {
    let plain = || {
        let place =
            json!({"chat_id": asked["chat_id"].as_str()?, "kind": "dm", "thread_id": asked["thread_id"]});
        serde_json::from_value(place).ok()
    };
    serde_json::from_value(asked["place"].clone()).ok().or_else(plain)
}
