//! Commands about the gateway: how it is, where it sends to, work beside the conversation.

use std::fmt::Write as _;

use hermes_agent::Said;
use hermes_config::yaml::{Path as Key, Value};
use hermes_config::{Management, set};
use hermes_store::{QueueDepth, Waiting};
use hermes_text::{head, single_line};
use hermes_types::{SessionId, SessionKind, Timestamp, random_hex};

use super::Done;
use super::conversation::{Ran, Silent};
use crate::deliver::{self, Spoken};
use crate::gateway::Gateway;
use crate::intake::answer_to;
use crate::ports::Wish;

impl Gateway {
    pub(super) async fn status(&self, row: &Waiting) -> Ran {
        let entry = self.index.find(&row.conversation).await?;
        let mut text = String::from("📊 **Hermes Gateway Status**\n\n");
        if let Some(entry) = &entry {
            let _ = writeln!(text, "**Session ID:** `{}...`", head(&entry.session_id, 12));
            let _ = writeln!(text, "**Created:** {}", short_time(&entry.created_at));
            let _ = writeln!(text, "**Last activity:** {}", short_time(&entry.updated_at));
            let _ = writeln!(text, "**Tokens:** {}", hermes_text::with_commas(entry.total_tokens));
        }
        let running =
            self.desk.busy(&row.conversation).is_some_and(|busy| busy.phase == crate::desk::Phase::Running);
        let _ = writeln!(text, "**Agent running:** {}", if running { "Yes ⚡" } else { "No" });
        let now = self.clock.now();
        let mut waiting = self.store.inbox_depth().await?;
        // The question itself is among them.
        waiting.waiting = waiting.waiting.saturating_sub(1);
        let _ = writeln!(text, "**Waiting:** {}", depth(waiting, now));
        let _ = writeln!(text, "**On the way out:** {}", depth(self.store.outbox_depth().await?, now));
        let _ = write!(text, "\n**Connected platforms:** {}", self.platforms().join(", "));
        Ok(Done::said(text))
    }

    /// This chat gets what comes unasked. It is written where existing installations look for it.
    pub(super) fn set_home(&self, row: &Waiting) -> String {
        let envelope = &row.envelope;
        let name = format!("{}_HOME_CHANNEL", envelope.platform.to_uppercase());
        let id = envelope.place.chat_id.clone();
        let Some(key) = Key::parse(&name) else { return "This platform has no home channel.".to_owned() };
        let settings = self.live.now();
        let management = Management::of(self.live.home(), &settings.env);
        let value = Value::Str(id.clone());
        let topic = envelope.place.thread_id.clone();
        let kept = set::update_value(self.live.home(), management, &key, |_| Some(value)).and_then(|()| {
            let Some(key) = Key::parse(&format!("{name}_THREAD_ID")) else { return Ok(()) };
            match topic {
                Some(topic) => {
                    set::update_value(self.live.home(), management, &key, |_| Some(Value::Str(topic)))
                }
                // That of another chat is not this one's.
                None if settings.config.is_user_set(&format!("{name}_THREAD_ID")) => {
                    set::remove_value(self.live.home(), management, &key)
                }
                None => Ok(()),
            }
        });
        match kept {
            Ok(()) => {
                let chat = envelope.place.chat_name.clone().or_else(|| envelope.sender.user_name.clone());
                format!("✅ Home channel set to **{}** (ID: {id}).", chat.unwrap_or_else(|| id.clone()))
            }
            Err(error) => format!("⚠️ The home channel could not be kept: {error}"),
        }
    }

    /// Works on something beside the conversation, in a session of its own.
    pub(super) fn background(&self, row: &Waiting, prompt: &str) -> Done {
        if prompt.is_empty() {
            return Done::said("Usage: /background <prompt>");
        }
        let civil = (self.calendar)(self.clock.now());
        let id = format!("bg_{:02}{:02}{:02}_{}", civil.hour, civil.minute, civil.second, random_hex(6));
        let (gateway, row, prompt, task) = (self.clone(), row.clone(), prompt.to_owned(), id.clone());
        let shown = shortened(&prompt);
        drop(self.turns.spawn(format!("background task {id}"), async move {
            gateway.work_in_background(&row, &prompt, &task).await;
        }));
        Done::said(format!(
            "🔄 Background task started: \"{shown}\"\nTask ID: {id}\nYou can keep chatting; the result comes here when it is done."
        ))
    }

    async fn work_in_background(&self, row: &Waiting, prompt: &str, id: &str) {
        let text = match self.run_background(row, prompt, id).await {
            Ok(answer) => {
                format!("✅ Background task complete\nPrompt: \"{}\"\n\n{answer}", shortened(prompt))
            }
            Err(error) => format!("❌ Background task {id} failed: {error}"),
        };
        let replies = deliver::plan(&Spoken {
            text: &text,
            envelope: &row.envelope,
            abilities: self.delivery.abilities(&row.envelope.platform),
            drafts: Vec::new(),
            key: id,
        });
        for reply in replies {
            self.say(&row.conversation, reply).await;
        }
    }

    async fn run_background(&self, row: &Waiting, prompt: &str, id: &str) -> Result<String, String> {
        let envelope = &row.envelope;
        let agent = self.ports.agents.agent(&Wish { platform: &envelope.platform, ..Wish::default() })?;
        let mut conversation = agent
            .begin_as(SessionId::new(id), envelope.platform.clone(), SessionKind::Gateway)
            .with_user(envelope.sender.user_id.clone());
        let cancel = self.turns.cancel_token().child_token();
        let ran = agent.run(&mut conversation, Said::text(prompt), &Silent, &cancel).await;
        let result = ran.map_err(|error| error.to_string())?;
        let failed = result.failed();
        let answer = result.response.filter(|text| !text.trim().is_empty());
        match (answer, result.error) {
            (Some(words), Some(error)) if failed => Err(format!("{error}\n\n{words}")),
            (Some(answer), _) => Ok(answer),
            (None, Some(error)) => Err(error),
            (None, None) => Ok("(No response generated)".to_owned()),
        }
    }

    /// Says something in a chat, whoever asked for it.
    pub async fn tell(
        &self,
        envelope: &hermes_types::Envelope,
        key: &str,
        text: String,
        idempotency_key: String,
    ) {
        self.say(key, answer_to(envelope, text, idempotency_key)).await;
    }
}

fn shortened(prompt: &str) -> String {
    let line = single_line(prompt);
    let more = if line.chars().count() > 60 { "..." } else { "" };
    format!("{}{more}", head(&line, 60))
}

fn short_time(iso: &str) -> String {
    head(iso, 16).replace('T', " ")
}

fn depth(depth: QueueDepth, now: Timestamp) -> String {
    match depth.oldest {
        Some(oldest) if depth.waiting > 0 => {
            format!("{} (oldest {} s)", depth.waiting, now.since(oldest).as_secs())
        }
        _ => "nothing".to_owned(),
    }
}
