//! `hermes mcp serve`: what the tools of the server do.
//!
//! Everything is read from the database, which the gateway writes; the two processes share nothing else. Approvals are
//! only shown: whoever talks to this server is a program, and an approval is a person's decision.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::Result;
use hermes_config::Env;
use hermes_config::settings::SecuritySettings;
use hermes_gateway::{LiveSettings, NoServices};
use hermes_guard::{Assignments, PhoneNumbers, Redaction, redact};
use hermes_mcp::{ServedConversations, ServedTool, serve_stdio};
use hermes_store::{ChatBinding, Store, StoredMessage};
use hermes_task::SystemClock;
use hermes_text::ellipsize;
use hermes_types::{BoxFuture, Clock, ContentPart, MessageContent, MessageId, MessageSender as _, Role};
use serde_json::{Map, Value, json};

use super::{McpCommands, runtime};
use crate::wiring::temporary_delivery::OutboxMessageSender;

/// The longest text of a message, in characters.
const LONGEST_TEXT: usize = 2_000;
const USUAL_LIMIT: usize = 50;
const MOST: usize = 200;
const USUAL_EVENTS: usize = 20;
/// The messages that are looked at for one answer.
const MOST_SCANNED: usize = 1_000;
const POLL_INTERVAL: Duration = Duration::from_millis(200);
const USUAL_WAIT: u64 = 30_000;
const LONGEST_WAIT: u64 = 300_000;

pub(super) fn run(commands: &McpCommands<'_>) -> Result<ExitCode> {
    let McpCommands { context, config, output } = commands;
    context.register_secrets(config);
    context.set_time_zone(config);
    let store = context.store(output)?;
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let live = LiveSettings::new(context.home.clone(), Env::process(), context.home.path().to_owned());
    let sender = OutboxMessageSender::new(live, store.clone(), clock.clone(), Arc::new(NoServices));
    let served = HomeConversations {
        sender,
        clock,
        masking: SecuritySettings::resolve(config, &context.env).redact_secrets,
        start: store.newest_message().wait()?,
        reported: Mutex::default(),
        store: store.clone(),
    };
    let runtime = runtime()?;
    let ended = runtime.block_on(serve_stdio(Arc::new(served), tokio::io::stdin(), tokio::io::stdout()));
    // A read of standard input cannot be interrupted.
    runtime.shutdown_background();
    store.close().wait()?;
    match ended {
        Ok(()) => Ok(ExitCode::SUCCESS),
        Err(error) => {
            output.error(&error.to_string());
            Ok(ExitCode::FAILURE)
        }
    }
}

/// The conversations of a home.
struct HomeConversations {
    store: Store,
    sender: OutboxMessageSender,
    clock: Arc<dyn Clock>,
    /// Whether secrets are masked.
    masking: bool,
    /// The newest message when the server started.
    start: MessageId,
    /// The open approvals that the client was told about, by their id. There is one client, and each is reported once.
    reported: Mutex<BTreeMap<String, OpenApproval>>,
}

/// An approval that waits for a person.
#[derive(Debug, Clone, PartialEq)]
struct OpenApproval {
    id: String,
    session_key: Option<String>,
    tool: String,
    since: f64,
}

impl OpenApproval {
    fn to_json(&self) -> Value {
        json!({"id": self.id, "session_key": self.session_key, "tool": self.tool, "since": self.since})
    }

    fn event(&self, kind: &str, cursor: i64) -> Value {
        json!({"cursor": cursor, "type": kind, "session_key": self.session_key, "approval": self.to_json()})
    }
}

/// The arguments of a call.
struct Arguments(Map<String, Value>);

impl Arguments {
    fn text(&self, name: &str) -> Option<String> {
        let text = match self.0.get(name)? {
            Value::String(text) => text.trim().to_owned(),
            Value::Number(number) => number.to_string(),
            _ => return None,
        };
        Some(text).filter(|text| !text.is_empty())
    }

    fn number(&self, name: &str, default: u64) -> u64 {
        self.text(name).and_then(|text| text.parse().ok()).unwrap_or(default)
    }

    fn count(&self, name: &str, default: usize) -> usize {
        self.text(name).and_then(|text| text.parse().ok()).unwrap_or(default).clamp(1, MOST)
    }

    fn required(&self, name: &str) -> Result<String, String> {
        self.text(name).ok_or_else(|| format!("Missing required parameter '{name}'"))
    }
}

type Answer = Result<Value, String>;

impl HomeConversations {
    async fn answer(&self, tool: ServedTool, arguments: &Arguments) -> Answer {
        match tool {
            ServedTool::ConversationsList => self.list(arguments).await,
            ServedTool::ConversationGet => Ok(entry(&self.find(arguments).await?)),
            ServedTool::MessagesRead => self.read(arguments).await,
            ServedTool::AttachmentsFetch => self.attachments(arguments).await,
            ServedTool::EventsPoll => self.poll(arguments).await,
            ServedTool::EventsWait => self.wait(arguments).await,
            ServedTool::MessagesSend => self.send(arguments).await,
            ServedTool::ChannelsList => self.channels(arguments).await,
            ServedTool::PermissionsListOpen => self.list_approvals().await,
        }
    }

    async fn list(&self, arguments: &Arguments) -> Answer {
        let (platform, search) = (arguments.text("platform"), arguments.text("search"));
        let search = search.map(|text| text.to_lowercase());
        let fits = |entry: &Value| {
            let text = |name: &str| entry[name].as_str().unwrap_or_default();
            let names = || ["session_key", "display_name"].map(|name| text(name).to_lowercase());
            platform.as_ref().is_none_or(|platform| text("platform") == platform)
                && search.as_ref().is_none_or(|word| names().iter().any(|name| name.contains(word)))
        };
        let bindings = self.store.bindings().await.map_err(text_of)?;
        let entries = bindings.iter().map(entry).filter(fits).take(arguments.count("limit", USUAL_LIMIT));
        let shown = ["session_key", "session_id", "platform", "chat_type", "display_name", "updated_at"];
        let summary = |entry: Value| {
            Value::Object(shown.map(|name| (name.to_owned(), entry[name].clone())).into_iter().collect())
        };
        let conversations: Vec<Value> = entries.map(summary).collect();
        Ok(json!({"count": conversations.len(), "conversations": conversations}))
    }

    async fn find(&self, arguments: &Arguments) -> Result<ChatBinding, String> {
        let key = arguments.required("session_key")?;
        let found = self.store.binding(&key).await.map_err(text_of)?;
        found.ok_or_else(|| format!("Conversation not found: {key}"))
    }

    async fn transcript(&self, arguments: &Arguments) -> Result<Vec<StoredMessage>, String> {
        let binding = self.find(arguments).await?;
        self.store.transcript(&binding.session).await.map_err(text_of)
    }

    async fn read(&self, arguments: &Arguments) -> Answer {
        let limit = arguments.count("limit", USUAL_LIMIT);
        let transcript = self.transcript(arguments).await?;
        let shown: Vec<Value> = transcript.iter().filter_map(|stored| self.message(stored)).collect();
        let latest = shown.get(shown.len().saturating_sub(limit)..).unwrap_or_default();
        Ok(json!({"count": latest.len(), "messages": latest}))
    }

    /// Describes a message of a person or the agent; others are not shown.
    fn message(&self, stored: &StoredMessage) -> Option<Value> {
        if !matches!(stored.message.role, Role::User | Role::Assistant) {
            return None;
        }
        let (text, attachments) = (stored.message.content.text(), attachments(stored).len());
        if text.trim().is_empty() && attachments == 0 {
            return None;
        }
        let what = Redaction { assignments: Assignments::AnyCase, phone_numbers: PhoneNumbers::Keep };
        let shown = if self.masking { redact(&text, what) } else { text.as_ref().into() };
        Some(json!({
            "id": stored.id.0.to_string(),
            "role": stored.message.role.as_str(),
            "content": ellipsize(&shown, LONGEST_TEXT),
            "timestamp": stored.at.seconds(),
            "attachments": attachments,
        }))
    }

    async fn attachments(&self, arguments: &Arguments) -> Answer {
        let id = arguments.required("message_id")?;
        let transcript = self.transcript(arguments).await?;
        let stored = transcript.iter().find(|stored| stored.id.0.to_string() == id);
        let found = attachments(stored.ok_or_else(|| format!("Message not found: {id}"))?);
        Ok(json!({"count": found.len(), "attachments": found}))
    }

    /// Returns what is new about approvals and the new messages after a cursor, which is the id of a message; and the
    /// cursor after them.
    async fn events(&self, arguments: &Arguments, limit: usize) -> Result<(Vec<Value>, i64), String> {
        let after = match arguments.number("after_cursor", 0) {
            0 => self.start,
            cursor => MessageId(i64::try_from(cursor).unwrap_or(i64::MAX)),
        };
        let wanted = arguments.text("session_key");
        let mut events = self.approval_events(wanted.as_ref(), after.0, limit).await?;
        let messages = self.store.messages_after(after, MOST_SCANNED).await.map_err(text_of)?;
        let mut cursor = after.0;
        if messages.is_empty() || events.len() >= limit {
            return Ok((events, cursor));
        }
        let bindings = self.store.bindings().await.map_err(text_of)?;
        for (session, stored) in messages {
            if events.len() == limit {
                break;
            }
            cursor = stored.id.0;
            let binding = bindings.iter().find(|binding| binding.session == session);
            let is_wanted = |key: &&String| wanted.as_ref().is_none_or(|wanted| wanted == *key);
            let Some(key) = binding.map(|binding| &binding.key).filter(is_wanted) else { continue };
            if let Some(message) = self.message(&stored) {
                events.push(
                    json!({"cursor": cursor, "type": "message", "session_key": key, "message": message}),
                );
            }
        }
        Ok((events, cursor))
    }

    async fn poll(&self, arguments: &Arguments) -> Answer {
        let (events, cursor) = self.events(arguments, arguments.count("limit", USUAL_EVENTS)).await?;
        Ok(json!({"events": events, "next_cursor": cursor}))
    }

    async fn wait(&self, arguments: &Arguments) -> Answer {
        let limit = Duration::from_millis(arguments.number("timeout_ms", USUAL_WAIT).min(LONGEST_WAIT));
        let began = self.clock.monotonic();
        loop {
            let (mut events, _) = self.events(arguments, 1).await?;
            if let Some(event) = events.pop() {
                return Ok(json!({ "event": event }));
            }
            let left = limit.saturating_sub(self.clock.monotonic().saturating_sub(began));
            if left.is_zero() {
                return Ok(json!({"event": null, "reason": "timeout"}));
            }
            self.clock.sleep(POLL_INTERVAL.min(left)).await;
        }
    }

    async fn send(&self, arguments: &Arguments) -> Answer {
        let (target, message) = (arguments.required("target")?, arguments.required("message")?);
        let sent = self.sender.deliver(&target, &message, None).await.map_err(text_of)?;
        Ok(json!({
            "success": true,
            "queued": sent.receipt.message_ids.is_empty(),
            "platform": sent.platform,
            "chat_id": sent.chat_id,
            "message_ids": sent.receipt.message_ids,
            "note": sent.note,
        }))
    }

    async fn channels(&self, arguments: &Arguments) -> Answer {
        let platform = arguments.text("platform");
        let targets = self.sender.targets().await;
        let is_wanted =
            |target: &String| platform.as_ref().is_none_or(|start| target.trim().starts_with(start.as_str()));
        let channels: Vec<String> = targets.into_iter().filter(is_wanted).collect();
        Ok(json!({"count": channels.len(), "channels": channels}))
    }

    async fn list_approvals(&self) -> Answer {
        let permissions: Vec<Value> =
            self.open_approvals().await?.iter().map(OpenApproval::to_json).collect();
        Ok(json!({"count": permissions.len(), "permissions": permissions}))
    }

    async fn open_approvals(&self) -> Result<Vec<OpenApproval>, String> {
        let turns = self.store.running_turns().await.map_err(text_of)?;
        if turns.is_empty() {
            return Ok(Vec::new());
        }
        let bindings = self.store.bindings().await.map_err(text_of)?;
        let mut open = Vec::new();
        for turn in turns {
            let binding = bindings.iter().find(|binding| binding.session == turn.session);
            for call in self.store.tool_calls(&turn.id).await.map_err(text_of)? {
                if call.asking {
                    open.push(OpenApproval {
                        id: call.id.as_str().to_owned(),
                        session_key: binding.map(|binding| binding.key.clone()),
                        tool: call.name,
                        since: call.started_at.seconds(),
                    });
                }
            }
        }
        Ok(open)
    }

    /// Returns the approvals that were asked for or settled since the client was told last.
    async fn approval_events(
        &self,
        wanted: Option<&String>,
        cursor: i64,
        limit: usize,
    ) -> Result<Vec<Value>, String> {
        let open = self.open_approvals().await?;
        let is_wanted = |approval: &OpenApproval| wanted.is_none() || approval.session_key.as_ref() == wanted;
        let mut reported = self.reported.lock().unwrap_or_else(PoisonError::into_inner);
        let mut events = Vec::new();
        let settled: Vec<String> =
            reported.keys().filter(|id| !open.iter().any(|approval| approval.id == **id)).cloned().collect();
        for id in settled {
            if events.len() < limit
                && reported.get(&id).is_some_and(is_wanted)
                && let Some(approval) = reported.remove(&id)
            {
                events.push(approval.event("approval_resolved", cursor));
            }
        }
        for approval in open.into_iter().filter(is_wanted) {
            if events.len() < limit && !reported.contains_key(&approval.id) {
                events.push(approval.event("approval_requested", cursor));
                reported.insert(approval.id.clone(), approval);
            }
        }
        Ok(events)
    }
}

impl ServedConversations for HomeConversations {
    fn call(&self, tool: ServedTool, arguments: Map<String, Value>) -> BoxFuture<'_, Value> {
        Box::pin(async move {
            let answer = self.answer(tool, &Arguments(arguments)).await;
            answer.unwrap_or_else(|error| json!({ "error": error }))
        })
    }
}

/// Returns the entry of a conversation as `sessions.json` has it.
fn entry(binding: &ChatBinding) -> Value {
    let mut entry: Map<String, Value> = serde_json::from_str(&binding.entry).unwrap_or_default();
    entry.insert("session_key".to_owned(), binding.key.clone().into());
    entry.insert("session_id".to_owned(), binding.session.as_str().into());
    Value::Object(entry)
}

/// Lists the parts of a message that are not text. The bytes of a picture in the message are not repeated.
fn attachments(stored: &StoredMessage) -> Vec<Value> {
    let MessageContent::Parts(parts) = &stored.message.content else { return Vec::new() };
    let describe = |part: &ContentPart| match part {
        ContentPart::Text(_) => None,
        ContentPart::Image { url } if url.starts_with("data:") => {
            let kind = url.trim_start_matches("data:").split([';', ',']).next().unwrap_or_default();
            Some(json!({"type": "image", "media_type": kind, "bytes": url.len() / 4 * 3}))
        }
        ContentPart::Image { url } => Some(json!({"type": "image", "url": url})),
        ContentPart::Other(raw) => {
            let kind = raw.to_value().get("type").cloned().unwrap_or(Value::Null);
            Some(json!({ "type": kind }))
        }
    };
    parts.iter().filter_map(describe).collect()
}

fn text_of(error: impl std::fmt::Display) -> String {
    error.to_string()
}
