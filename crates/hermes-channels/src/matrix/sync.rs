//! The sync: what is new, one response after the other.
//!
//! Invariant: the point up to which the server is read moves only past events that the intake has accepted, or that are not for the
//! bot; keys that came with a sync, and events that wait for theirs, are on disk before it moves.

use std::sync::Arc;
use std::time::Duration;

use hermes_types::{Cancel, ChannelError, ChatKind, ConnectionStatus, Intake, InvitationDecision, Timestamp};
use serde_json::{Value, json};

use super::MatrixChannel;
use super::encryption::RoomEncryption;
use super::rooms::joined_rooms;
use super::sign_in::MatrixSession;
use crate::backoff::Backoff;

const DOCUMENT: &str = "matrix_sync.json";
/// How long the server may hold a sync that has nothing new.
const HOLD: Duration = Duration::from_secs(30);
/// The same while a person compares emoji, whose answer is looked for in between.
const VERIFYING_HOLD: Duration = Duration::from_secs(1);
/// How long a response may take, so that a connection that fell silent is given up.
const PATIENCE: Duration = Duration::from_secs(50);
/// The first sync of an account collects a lot.
const FIRST_PATIENCE: Duration = Duration::from_mins(3);
/// Messages written this long before the first start are still taken.
const BEFORE_START: Duration = Duration::from_secs(5);
/// Only what is used. The rest of an account would be most of the response.
const FILTER: &str = r#"{"presence":{"types":[]},"account_data":{"types":["m.direct"]},"room":{"account_data":{"types":[]},"ephemeral":{"types":[]},"state":{"lazy_load_members":true},"timeline":{"limit":50}}}"#;

/// What the connections of one `listen` share.
pub(super) struct MatrixListener<'a> {
    pub(super) channel: &'a MatrixChannel,
    pub(super) intake: &'a dyn Intake,
    pub(super) cancel: &'a Cancel,
}

/// What is used while one session lasts.
pub(super) struct SyncScope {
    pub(super) session: MatrixSession,
    pub(super) encryption: Option<Arc<RoomEncryption>>,
    /// Events from before this time are not taken; absent where a point to read from is known.
    pub(super) begin: Option<Timestamp>,
}

impl MatrixChannel {
    pub(super) async fn run(&self, intake: &dyn Intake, cancel: &Cancel) -> Result<(), ChannelError> {
        let listener = MatrixListener { channel: self, intake, cancel };
        let begin = self.context.clock.now().minus(BEFORE_START);
        let mut pauses = Backoff::new(Duration::from_secs(2), Duration::from_mins(1));
        loop {
            let ended = tokio::select! {
                ended = listener.serve(begin, &mut pauses) => ended,
                () = cancel.cancelled() => return Ok(()),
            };
            let error = match ended {
                Ok(()) => return Ok(()),
                Err(error @ ChannelError::Reauthorise(_)) => self.refused_session(error).await,
                Err(error) => error,
            };
            let (after, reason) = match error {
                ChannelError::Retry { after, reason } => (after, reason),
                ChannelError::DeliveryUnknown(reason) => (None, reason),
                error => return Err(error),
            };
            intake.report_connection(super::NAME, ConnectionStatus::Down(reason));
            let pause = after.unwrap_or_default().max(pauses.next_with_jitter());
            tokio::select! {
                () = self.context.clock.sleep(pause) => {}
                () = cancel.cancelled() => return Ok(()),
            }
        }
    }
}

impl MatrixListener<'_> {
    /// Reads syncs until one fails or the channel is cancelled.
    async fn serve(&self, begin: Timestamp, pauses: &mut Backoff) -> Result<(), ChannelError> {
        let channel = self.channel;
        let session = channel.session().await?;
        let encryption = channel.encryption(&session).await?;
        let mut since = self.load_point(&session);
        let mut scope = SyncScope { session, encryption, begin: since.is_none().then_some(begin) };
        let mut is_up = false;
        while !self.cancel.is_cancelled() {
            let is_verifying = scope.encryption.as_ref().is_some_and(|encryption| encryption.is_verifying());
            let hold = match (is_up, is_verifying) {
                // The first response comes at once and shows that the connection works.
                (false, _) => Duration::ZERO,
                (true, false) => HOLD,
                (true, true) => VERIFYING_HOLD,
            };
            let sync = self.fetch(&scope.session, since.as_deref(), hold).await?;
            if !self.take_sync(&scope, &sync, since.as_deref()).await? {
                return Ok(());
            }
            let next = sync.get("next_batch").and_then(Value::as_str).unwrap_or_default();
            if next.is_empty() {
                let reason = "Matrix answered a sync without a point to continue from".to_owned();
                return Err(ChannelError::Retry { after: None, reason });
            }
            if since.as_deref() != Some(next) {
                self.save_point(&scope.session, next);
            }
            since = Some(next.to_owned());
            scope.begin = None;
            if !is_up {
                is_up = true;
                pauses.reset();
                self.intake.report_connection(super::NAME, ConnectionStatus::Up);
            }
        }
        Ok(())
    }

    async fn fetch(
        &self,
        session: &MatrixSession,
        since: Option<&str>,
        hold: Duration,
    ) -> Result<Value, ChannelError> {
        let hold = hold.as_millis().to_string();
        let mut query = vec![("filter", FILTER), ("timeout", hold.as_str())];
        query.extend(since.map(|since| ("since", since)));
        let patience = if since.is_some() { PATIENCE } else { FIRST_PATIENCE };
        Ok(self.channel.api.sync(&session.token, &query, patience).await?)
    }

    /// Takes what a sync says. Returns false if the channel was cancelled before everything was taken.
    async fn take_sync(
        &self,
        scope: &SyncScope,
        sync: &Value,
        since: Option<&str>,
    ) -> Result<bool, ChannelError> {
        let channel = self.channel;
        channel.rooms.note_changes(sync);
        if let Some(encryption) = &scope.encryption {
            self.prepare_verifications(scope, encryption, sync).await?;
            encryption.take_sync(sync).await?;
            if let Err(error) = channel.pump(&scope.session, encryption).await {
                if matches!(error, ChannelError::Reauthorise(_)) {
                    return Err(error);
                }
                tracing::warn!(%error, "the server was not told of new keys; it is tried again");
            }
            if !self.retry_undecrypted(scope, encryption).await? {
                return Ok(false);
            }
        }
        self.answer_invitations(scope, sync).await?;
        for (room, update) in joined_rooms(sync) {
            let timeline = update.get("timeline").unwrap_or(&Value::Null);
            let events = timeline.get("events").and_then(Value::as_array).cloned().unwrap_or_default();
            let is_cut = timeline.get("limited").and_then(Value::as_bool).unwrap_or_default();
            let mut earlier = Vec::new();
            if let (true, Some(since), Some(from)) =
                (is_cut, since, timeline.get("prev_batch").and_then(Value::as_str))
            {
                earlier = self.fetch_gap(&scope.session, room, from, since).await?;
            }
            for event in earlier.iter().chain(&events) {
                if !self.take_event(scope, room, event).await? {
                    return Ok(false);
                }
            }
        }
        if let Some(encryption) = scope.encryption.as_ref().filter(|encryption| encryption.is_verifying())
            && let Err(error) = self.advance_verifications(scope, encryption).await
        {
            if matches!(error, ChannelError::Reauthorise(_)) {
                return Err(error);
            }
            tracing::warn!(%error, "a verification could not go on; it is tried again");
        }
        Ok(true)
    }

    /// Answers invitations: those of users who may use the agent are accepted.
    async fn answer_invitations(&self, scope: &SyncScope, sync: &Value) -> Result<(), ChannelError> {
        let invitations = sync.pointer("/rooms/invite").and_then(Value::as_object);
        for (room, update) in invitations.into_iter().flatten() {
            let events = update.pointer("/invite_state/events").and_then(Value::as_array);
            let own = events.into_iter().flatten().find(|event| {
                event["type"] == "m.room.member" && event["state_key"] == scope.session.user.as_str()
            });
            let Some(inviter) = own.and_then(|event| event.get("sender")?.as_str()) else { continue };
            let is_direct =
                own.and_then(|event| event.pointer("/content/is_direct")?.as_bool()).unwrap_or_default();
            let kind = if is_direct { ChatKind::Dm } else { ChatKind::Group };
            let target = match self.intake.decide_invitation(super::NAME, inviter, kind) {
                InvitationDecision::Accept => "join",
                InvitationDecision::Decline => {
                    tracing::warn!(inviter, "an invitation of an unknown user was declined");
                    "leave"
                }
            };
            let target = format!("v3/rooms/{}", super::api::path(&[room, target]));
            let token = &scope.session.token;
            match self.channel.api.call(token, hermes_net::Method::POST, &target, Some(&json!({}))).await {
                Ok(_) => {}
                // A room that is gone does not stop the others.
                Err(failure) if matches!(failure.error, ChannelError::Refused(_)) => {
                    tracing::warn!(error = %failure.error, "an invitation could not be answered");
                }
                Err(failure) => return Err(failure.error),
            }
        }
        Ok(())
    }

    fn load_point(&self, session: &MatrixSession) -> Option<String> {
        let stored = self.channel.context.host.load_document(DOCUMENT)?;
        // What one device has read says nothing about another.
        let is_own = stored.get("user").and_then(Value::as_str) == Some(&session.user)
            && stored.get("device").and_then(Value::as_str) == session.device.as_deref();
        stored.get("since").and_then(Value::as_str).filter(|_| is_own).map(str::to_owned)
    }

    fn save_point(&self, session: &MatrixSession, since: &str) {
        let document = json!({"user": session.user, "device": session.device, "since": since});
        self.channel.context.host.save_document(DOCUMENT, &document);
    }
}
