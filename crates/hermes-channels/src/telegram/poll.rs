//! Polls Telegram for updates, and confirms them once they are stored.
//!
//! Invariant: an update is confirmed, by requesting those after it, only when the intake has accepted it or it can
//! never be read.

use std::time::Duration;

use futures_util::future::join_all;
use hermes_types::{ChannelError, ConnectionStatus, Envelope, Intake, IntakeOutcome};
use serde_json::{Value, json};

use super::TelegramChannel;
use super::api::TelegramError;
use super::entity::TelegramIdentity;
use super::wire::TelegramUpdate;
use crate::backoff::Backoff;

/// The time Telegram keeps a poll open when there is no update; the client waits somewhat longer for the response.
const LONG_POLL: Duration = Duration::from_secs(30);
const POLL_TIMEOUT: Duration = Duration::from_secs(45);
/// The delay before the next poll of a server that returns an empty response at once.
const BETWEEN_EMPTY: Duration = Duration::from_secs(1);
const MAX_CONFLICTS: u32 = 3;
const AFTER_CONFLICT: Duration = Duration::from_secs(10);
const MAX_NETWORK_TRIES: u32 = 10;
/// Limits the messages whose files are downloaded at the same time.
const MAX_CONCURRENT_UPDATES: usize = 8;

impl TelegramChannel {
    pub(super) async fn poll(&self, me: &TelegramIdentity, intake: &dyn Intake) -> Result<(), ChannelError> {
        // Pending updates must not be dropped.
        self.api
            .call::<Value>("deleteWebhook", &json!({"drop_pending_updates": false}))
            .await
            .or_else(tolerate_unsupported)?;
        let mut offset: Option<i64> = None;
        let mut pauses = Backoff::new(Duration::from_secs(5), Duration::from_mins(1));
        let mut conflicts = 0;
        // The first poll returns at once, so that the connection state is known.
        let mut timeout = 0;
        loop {
            let asked_at = self.clock.monotonic();
            let mut asked = json!({"timeout": timeout, "allowed_updates": super::UPDATES});
            if let (Value::Object(asked), Some(offset)) = (&mut asked, offset) {
                asked.insert("offset".to_owned(), json!(offset));
            }
            match self.api.call_with_timeout::<Vec<Value>>("getUpdates", &asked, POLL_TIMEOUT).await {
                Ok(updates) => {
                    intake.report_connection(super::NAME, ConnectionStatus::Up);
                    pauses.reset();
                    conflicts = 0;
                    let next = self.accept_updates(updates, me, intake).await;
                    let idle = next.is_none()
                        && timeout > 0
                        && self.clock.monotonic().saturating_sub(asked_at) < BETWEEN_EMPTY;
                    timeout = LONG_POLL.as_secs();
                    offset = next.or(offset);
                    if idle {
                        self.clock.sleep(BETWEEN_EMPTY).await;
                    }
                }
                Err(error @ TelegramError::Unauthorised) => return Err(error.into()),
                Err(TelegramError::Refused { code: 409, description, .. }) => {
                    conflicts += 1;
                    intake.report_connection(super::NAME, ConnectionStatus::Down(description.clone()));
                    if conflicts > MAX_CONFLICTS {
                        return Err(conflict_error(&description));
                    }
                    self.clock.sleep(AFTER_CONFLICT).await;
                }
                Err(TelegramError::Flood(after)) => self.clock.sleep(after).await,
                Err(error) => {
                    intake.report_connection(super::NAME, ConnectionStatus::Down(error.to_string()));
                    tracing::warn!(%error, "Telegram cannot be asked for messages; trying again");
                    let pause = pauses.next();
                    if pauses.failures() > MAX_NETWORK_TRIES {
                        let reason = error.to_string();
                        return Err(ChannelError::Retry { after: Some(pause), reason });
                    }
                    self.clock.sleep(pause).await;
                }
            }
        }
    }

    /// Accepts updates in their order. Returns the next offset, unless there were none.
    async fn accept_updates(
        &self,
        updates: Vec<Value>,
        me: &TelegramIdentity,
        intake: &dyn Intake,
    ) -> Option<i64> {
        let mut numbered: Vec<(i64, Value)> = updates
            .into_iter()
            .filter_map(|update| Some((update.get("update_id")?.as_i64()?, update)))
            .collect();
        numbered.sort_by_key(|(id, _)| *id);
        let last = numbered.last().map(|(id, _)| id.saturating_add(1));
        let updates: Vec<TelegramUpdate> =
            numbered.into_iter().filter_map(|(_, update)| parse_update(update)).collect();
        for some in updates.chunks(MAX_CONCURRENT_UPDATES) {
            let envelopes = join_all(some.iter().map(|update| self.read_update(update, me))).await;
            for (update, envelope) in some.iter().zip(envelopes) {
                self.accept_with_retry(update, envelope, intake).await;
            }
        }
        last
    }

    /// Accepts an update, retrying until it succeeds: none is skipped.
    async fn accept_with_retry(
        &self,
        update: &TelegramUpdate,
        envelope: Option<Envelope>,
        intake: &dyn Intake,
    ) {
        let mut pauses = Backoff::new(Duration::from_secs(1), Duration::from_mins(1));
        while let Err(ChannelError::Retry { after, reason }) =
            self.accept_update(update, envelope.clone(), intake).await
        {
            tracing::warn!(reason, "a message could not be taken; trying again");
            self.clock.sleep(after.unwrap_or_else(|| pauses.next())).await;
        }
    }

    /// Submits the envelope, then acknowledges the button press to its user.
    pub(super) async fn accept_update(
        &self,
        update: &TelegramUpdate,
        envelope: Option<Envelope>,
        intake: &dyn Intake,
    ) -> Result<(), ChannelError> {
        let known = envelope.is_some();
        if let Some(envelope) = envelope {
            match intake.accept(envelope).await {
                Ok(IntakeOutcome::New | IntakeOutcome::Duplicate) => {}
                Err(error @ ChannelError::Retry { .. }) => return Err(error),
                Err(error) => tracing::warn!(%error, "a message was not taken"),
            }
        }
        if let Some(query) = &update.callback_query {
            let text = if known { "" } else { "This button is too old." };
            self.try_call("answerCallbackQuery", &json!({"callback_query_id": query.id, "text": text})).await;
        }
        Ok(())
    }
}

/// Parses an update; an unreadable one is logged by its id and skipped.
pub(super) fn parse_update(update: Value) -> Option<TelegramUpdate> {
    let id = update.get("update_id").and_then(Value::as_i64);
    match serde_json::from_value(update) {
        Ok(update) => Some(update),
        Err(error) => {
            // The parser's own message would quote the message text.
            tracing::warn!(
                id,
                line = error.line(),
                column = error.column(),
                "an update cannot be read and is passed over"
            );
            None
        }
    }
}

/// Ignores that a server does not support a call; a server that cannot be reached is an error.
fn tolerate_unsupported(error: TelegramError) -> Result<Value, ChannelError> {
    if error.is_unknown_method() {
        tracing::warn!(%error, "the webhook could not be taken away");
        return Ok(Value::Null);
    }
    Err(error.into())
}

fn conflict_error(description: &str) -> ChannelError {
    ChannelError::Conflict(format!(
        "another program uses the same bot ({description}). Stop it, or give this one a bot of its own"
    ))
}
