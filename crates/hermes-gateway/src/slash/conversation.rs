//! Commands about a chat's current conversation.

use hermes_agent::CompressionReport;
use hermes_store::{NewSession, SessionFilter, WaitingMessage};
use hermes_text::{Title, head, single_line, with_commas};
use hermes_types::{Cancel, SessionId, TaskId};

use super::{ChatCommands, SlashCommandOutcome};
use crate::chat_sessions::{LoadError, LoadedChat};
use crate::silent_frontend::SilentFrontend;
use crate::turn::GRACE;

/// The outcome of a command, or the error that kept it from running.
pub(super) type SlashCommandResult = Result<SlashCommandOutcome, LoadError>;

const MAX_LISTED: usize = 10;
const MIN_TO_COMPRESS: usize = 4;
const NOTHING_TO_RETRY: &str = "No previous message to retry.";
const TOO_LITTLE: &str = "There is too little to compress; at least 4 messages are needed.";

impl ChatCommands {
    pub(super) async fn start_new_session(&self, row: &WaitingMessage) -> SlashCommandResult {
        let had_one = self.sessions.replace(&row.conversation, &row.envelope).await?;
        let first = if had_one { "✨ Session reset! Starting fresh." } else { "✨ New session started!" };
        Ok(SlashCommandOutcome::reply(format!("{first}{}", self.agents.describe_model(&row.envelope))))
    }

    pub(super) async fn undo(&self, row: &WaitingMessage) -> SlashCommandResult {
        let Some(LoadedChat { agent, mut conversation, .. }) = self.load_current(row).await? else {
            return Ok(SlashCommandOutcome::reply("Nothing to undo."));
        };
        let before = conversation.messages().len();
        let Some(taken) = agent.undo_last_exchange(&mut conversation).await? else {
            return Ok(SlashCommandOutcome::reply("Nothing to undo."));
        };
        let count = before - conversation.messages().len();
        let short = single_line(&taken);
        let more = if short.chars().count() > 40 { "..." } else { "" };
        Ok(SlashCommandOutcome::reply(format!(
            "↩️ Undid {count} message(s).\nRemoved: \"{}{more}\"",
            head(&short, 40)
        )))
    }

    pub(super) async fn retry(&self, row: &WaitingMessage) -> SlashCommandResult {
        let Some(LoadedChat { agent, mut conversation, .. }) = self.load_current(row).await? else {
            return Ok(SlashCommandOutcome::reply(NOTHING_TO_RETRY));
        };
        match agent.undo_last_exchange(&mut conversation).await? {
            Some(words) => Ok(SlashCommandOutcome::Prompt(words)),
            None => Ok(SlashCommandOutcome::reply(NOTHING_TO_RETRY)),
        }
    }

    pub(super) async fn title(&self, row: &WaitingMessage, name: &str) -> SlashCommandResult {
        let Some(entry) = self.sessions.find(&row.conversation).await? else {
            return Ok(SlashCommandOutcome::reply("There is no conversation yet; say something first."));
        };
        let session = SessionId::new(entry.session_id);
        if name.is_empty() {
            let title = self.store.session(&session).await?.and_then(|row| row.title);
            return Ok(SlashCommandOutcome::reply(match title {
                Some(title) => format!("📌 Session: **{title}**"),
                None => "This conversation has no name yet. `/title NAME` gives it one.".to_owned(),
            }));
        }
        let title = match Title::sanitise(name) {
            Ok(Some(title)) => title,
            Ok(None) => {
                return Ok(SlashCommandOutcome::reply("A name needs at least one visible character."));
            }
            Err(error) => return Ok(SlashCommandOutcome::reply(error.to_string())),
        };
        if self.store.session(&session).await?.is_none() {
            let new = NewSession::new(session.clone(), row.envelope.platform.clone(), self.clock.now());
            self.store.create_session(new).await?;
        }
        match self.store.set_title(&session, Some(title.clone())).await {
            Ok(()) => Ok(SlashCommandOutcome::reply(format!("✏️ Session title set: **{}**", title.as_str()))),
            Err(error) => Ok(SlashCommandOutcome::reply(error.to_string())),
        }
    }

    pub(super) async fn resume(&self, row: &WaitingMessage, name: &str) -> SlashCommandResult {
        if name.is_empty() {
            return self.list_resumable(row).await;
        }
        let Some(session) = self.store.resolve(name).await? else {
            return Ok(SlashCommandOutcome::reply(format!(
                "No session named '{name}' was found. /resume lists them."
            )));
        };
        let stored = self.store.session(&session).await?;
        // A user must not read another person's conversation.
        let theirs = stored.as_ref().is_some_and(|stored| {
            stored.source == row.envelope.platform && stored.user_id == row.envelope.sender.user_id
        });
        if !theirs {
            return Ok(SlashCommandOutcome::reply(format!(
                "No session named '{name}' was found. /resume lists them."
            )));
        }
        let agent = self.agents.agent_for(&row.envelope).map_err(LoadError::NoAgent)?;
        let taken = agent.load_conversation_as(&session, TaskId::new(row.conversation.clone())).await?;
        if let Some(cut_off) = &taken.unfinished_turn {
            agent.drop_turn(cut_off).await?;
        }
        self.sessions.switch(&row.conversation, &row.envelope, &session).await?;
        let name = taken.title.unwrap_or_else(|| session.as_str().to_owned());
        Ok(SlashCommandOutcome::reply(format!(
            "↻ Resumed session **{name}** ({} messages). Conversation restored.",
            taken.conversation.messages().len()
        )))
    }

    async fn list_resumable(&self, row: &WaitingMessage) -> SlashCommandResult {
        let filter = SessionFilter { source: Some(row.envelope.platform.clone()) };
        let found = self.store.list_sessions(filter, 100).await?;
        let own = row.envelope.sender.user_id.as_deref();
        let mut lines: Vec<String> = Vec::new();
        for summary in found {
            let Some(title) = summary.title.clone() else { continue };
            let stored = self.store.session(&summary.id).await?;
            if stored.is_some_and(|stored| stored.user_id.as_deref() == own) {
                lines.push(format!("• **{title}** — {}", head(&single_line(&summary.preview), 40)));
            }
            if lines.len() == MAX_LISTED {
                break;
            }
        }
        if lines.is_empty() {
            return Ok(SlashCommandOutcome::reply("No named sessions yet. `/title NAME` names this one."));
        }
        lines.insert(0, "📋 **Named sessions**".to_owned());
        lines.push("\n`/resume NAME` goes on with one.".to_owned());
        Ok(SlashCommandOutcome::reply(lines.join("\n")))
    }

    pub(super) async fn compress(&self, row: &WaitingMessage, focus: &str) -> SlashCommandResult {
        let Some(LoadedChat { agent, mut conversation, mut entry }) = self.load_current(row).await? else {
            return Ok(SlashCommandOutcome::reply(TOO_LITTLE));
        };
        if conversation.messages().len() < MIN_TO_COMPRESS {
            return Ok(SlashCommandOutcome::reply(TOO_LITTLE));
        }
        let focus = (!focus.is_empty()).then_some(focus);
        // Registered as a turn, so that `/stop` ends it.
        let cancel = Cancel::new();
        self.conversations.start_turn(&row.conversation, cancel.clone(), None);
        let overdue = async {
            cancel.cancelled().await;
            self.clock.sleep(GRACE).await;
        };
        let done = tokio::select! {
            biased;
            done = agent.compress(&mut conversation, focus, &SilentFrontend, &cancel) => Some(done),
            // A compression that does not stop in time is abandoned; the step that would have changed the
            // conversation does not run.
            () = overdue => None,
        };
        self.conversations.end_turn(&row.conversation);
        let done = done.transpose()?.flatten();
        if cancel.is_cancelled() && done.is_none() {
            return Ok(SlashCommandOutcome::reply("Compression was stopped; nothing was changed."));
        }
        let Some(CompressionReport { messages_before, messages_after, tokens_before, tokens_after }) = done
        else {
            return Ok(SlashCommandOutcome::reply("The conversation could not be made shorter."));
        };
        entry.session_id = conversation.session().as_str().to_owned();
        self.sessions.persist_used(entry).await?;
        let late = if cancel.is_cancelled() { "It was too late to stop the compression. " } else { "" };
        Ok(SlashCommandOutcome::reply(format!(
            "{late}🗜️ Compressed: {messages_before} → {messages_after} messages, ~{} → ~{} tokens",
            with_commas(tokens_before),
            with_commas(tokens_after)
        )))
    }

    pub(super) async fn usage(&self, row: &WaitingMessage) -> SlashCommandResult {
        let Some(entry) = self.sessions.find(&row.conversation).await? else {
            return Ok(SlashCommandOutcome::reply("Nothing was used yet in this conversation."));
        };
        let Some(stored) = self.store.session(&SessionId::new(entry.session_id)).await? else {
            return Ok(SlashCommandOutcome::reply("Nothing was used yet in this conversation."));
        };
        let usage = stored.usage;
        let cost = match (stored.estimated_cost_usd, stored.cost_status.as_deref()) {
            (Some(dollars), Some("unknown")) => {
                format!("${dollars:.4} and more: the price of some calls is not known")
            }
            (Some(dollars), status) => format!("${dollars:.4} ({})", status.unwrap_or("estimated")),
            (None, _) => "not known: there is no price for this model".to_owned(),
        };
        Ok(SlashCommandOutcome::reply(format!(
            "📊 **Session Token Usage**\nInput: {}\nOutput: {}\nCache read: {}\nTotal: {}\nMessages: {}\nCost: {cost}",
            with_commas(usage.input),
            with_commas(usage.output),
            with_commas(usage.cache_read),
            with_commas(usage.total()),
            stored.message_count
        )))
    }

    async fn load_current(&self, row: &WaitingMessage) -> Result<Option<LoadedChat>, LoadError> {
        self.sessions.load_current(&row.conversation, &row.envelope).await
    }
}
