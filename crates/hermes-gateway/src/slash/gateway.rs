//! Commands about the gateway: its status, its home channel, background work.

use std::fmt::Write as _;

use hermes_config::yaml::{KeyPath as Key, YamlValue};
use hermes_config::{ManagedMode, set};
use hermes_store::{QueueDepth, WaitingMessage};
use hermes_text::head;
use hermes_types::{Timestamp, random_hex};

use super::conversation::SlashCommandResult;
use super::{ChatCommands, SlashCommandOutcome};
use crate::active_conversations::WorkerPhase;
use crate::turn;

impl ChatCommands {
    pub(super) async fn status(&self, row: &WaitingMessage) -> SlashCommandResult {
        let entry = self.sessions.find(&row.conversation).await?;
        let mut text = String::from("📊 **Hermes Gateway Status**\n\n");
        if let Some(entry) = &entry {
            let _ = writeln!(text, "**Session ID:** `{}...`", head(&entry.session_id, 12));
            let _ = writeln!(text, "**Created:** {}", short_time(&entry.created_at));
            let _ = writeln!(text, "**Last activity:** {}", short_time(&entry.updated_at));
            let _ = writeln!(text, "**Tokens:** {}", hermes_text::with_commas(entry.total_tokens));
        }
        let running = self
            .conversations
            .busy_state(&row.conversation)
            .is_some_and(|busy| busy.phase == WorkerPhase::Running);
        let _ = writeln!(text, "**Agent running:** {}", if running { "Yes ⚡" } else { "No" });
        let now = self.clock.now();
        let mut waiting = self.store.inbox_depth().await?;
        // The command itself is among the waiting messages.
        waiting.waiting = waiting.waiting.saturating_sub(1);
        let _ = writeln!(text, "**Waiting:** {}", describe_depth(waiting, now));
        let _ =
            writeln!(text, "**On the way out:** {}", describe_depth(self.store.outbox_depth().await?, now));
        let _ = write!(text, "\n**Connected platforms:** {}", self.delivery.platforms().join(", "));
        Ok(SlashCommandOutcome::reply(text))
    }

    /// Makes this chat the home channel. It is stored where existing installations expect it.
    pub(super) fn set_home(&self, row: &WaitingMessage) -> String {
        let envelope = &row.envelope;
        let name = format!("{}_HOME_CHANNEL", envelope.platform.to_uppercase());
        let id = envelope.place.chat_id.clone();
        let Some(key) = Key::parse(&name) else { return "This platform has no home channel.".to_owned() };
        let settings = self.settings.current();
        let management = ManagedMode::detect(self.settings.home(), &settings.env);
        let value = YamlValue::Str(id.clone());
        let topic = envelope.place.thread_id.clone();
        let kept =
            set::update_value(self.settings.home(), management, &key, |_| Some(value)).and_then(|()| {
                let Some(key) = Key::parse(&format!("{name}_THREAD_ID")) else { return Ok(()) };
                match topic {
                    Some(topic) => set::update_value(self.settings.home(), management, &key, |_| {
                        Some(YamlValue::Str(topic))
                    }),
                    // The thread id of another chat does not apply to this one.
                    None if settings.config.is_user_set(&format!("{name}_THREAD_ID")) => {
                        set::remove_value(self.settings.home(), management, &key)
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

    /// Starts background work in a session of its own.
    pub(super) fn start_background_work(&self, row: &WaitingMessage, prompt: &str) -> SlashCommandOutcome {
        if prompt.is_empty() {
            return SlashCommandOutcome::reply("Usage: /background <prompt>");
        }
        let civil = self.sessions.local_time();
        let id = format!("bg_{:02}{:02}{:02}_{}", civil.hour, civil.minute, civil.second, random_hex(6));
        let work = turn::background_message(&row.envelope, prompt, &id, self.clock.now());
        let text = format!(
            "🔄 Background task started: \"{}\"\nTask ID: {id}\nYou can keep chatting; the result comes here when it is done.",
            turn::shortened(prompt)
        );
        SlashCommandOutcome::Start(text, Box::new(work))
    }
}

fn short_time(iso: &str) -> String {
    head(iso, 16).replace('T', " ")
}

fn describe_depth(depth: QueueDepth, now: Timestamp) -> String {
    match depth.oldest {
        Some(oldest) if depth.waiting > 0 => {
            format!("{} (oldest {} s)", depth.waiting, now.since(oldest).as_secs())
        }
        _ => "nothing".to_owned(),
    }
}
