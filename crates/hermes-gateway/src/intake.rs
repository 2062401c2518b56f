//! Takes messages in: checks the sender, finds the conversation, and stores the message before it is
//! acknowledged.

use std::sync::Arc;

use hermes_store::{InboxInsertion, Store, WaitingMessage};
use hermes_types::{
    BoxFuture, ChannelError, ChatKind, Clock, Envelope, Intake, IntakeOutcome, InvitationDecision,
};

use crate::authorise::{self, AccessDecision};
use crate::deliver::{Outbox, ReplyTarget};
use crate::pairing::CodeRefusal;
use crate::resources::GatewayResources;
use crate::sender_access::SenderAccess;
use crate::session::session_key;
use crate::settings::{LiveSettings, UnknownSenderPolicy};
use crate::worker::ConversationWorkers;

/// Accepts messages of channels. Clones refer to the same intake.
#[derive(Clone)]
#[expect(missing_debug_implementations, reason = "it holds ports")]
pub struct MessageIntake {
    store: Store,
    clock: Arc<dyn Clock>,
    settings: LiveSettings,
    access: SenderAccess,
    outbox: Outbox,
    workers: Arc<ConversationWorkers>,
}

impl Intake for MessageIntake {
    fn accept(&self, envelope: Envelope) -> BoxFuture<'_, Result<IntakeOutcome, ChannelError>> {
        Box::pin(self.accept_envelope(envelope))
    }

    fn decide_invitation(&self, platform: &str, user: &str, kind: ChatKind) -> InvitationDecision {
        let settings = self.settings.current();
        // Who is not known gets a pairing code in a direct chat, unless the owner has listed who may come.
        let may_pair = kind == ChatKind::Dm
            && settings.unknown_sender_policy(platform) == UnknownSenderPolicy::Pair
            && !authorise::has_allowlist(platform, &settings.env);
        if may_pair || self.access.allows(platform, user) {
            InvitationDecision::Accept
        } else {
            InvitationDecision::Decline
        }
    }
}

impl MessageIntake {
    pub(crate) fn new(
        resources: &GatewayResources,
        access: SenderAccess,
        outbox: Outbox,
        workers: Arc<ConversationWorkers>,
    ) -> Self {
        Self {
            store: resources.store.clone(),
            clock: resources.clock.clone(),
            settings: resources.settings.clone(),
            access,
            outbox,
            workers,
        }
    }

    async fn accept_envelope(&self, envelope: Envelope) -> Result<IntakeOutcome, ChannelError> {
        if self.access.decide(&envelope) == AccessDecision::Denied {
            self.handle_unknown_sender(&envelope).await?;
            return Ok(IntakeOutcome::New);
        }
        let isolation = self.settings.current().isolation;
        let key = session_key(&envelope.platform, &envelope.place, &envelope.sender, isolation);
        let stored = self.store.accept(&key, envelope.clone()).await;
        let InboxInsertion::New(id) = stored.map_err(|error| retryable_error(&error))? else {
            return Ok(IntakeOutcome::Duplicate);
        };
        self.workers.dispatch(WaitingMessage { id, conversation: key, envelope, turn: None });
        Ok(IntakeOutcome::New)
    }

    /// Answers an unknown sender with a pairing code in a direct message, and with nothing elsewhere.
    async fn handle_unknown_sender(&self, envelope: &Envelope) -> Result<(), ChannelError> {
        let platform = envelope.platform.as_str();
        tracing::warn!(platform, kind = envelope.place.kind.as_str(), "a stranger was turned away");
        let Some(user) = envelope.sender.user_id.as_deref() else { return Ok(()) };
        if envelope.place.kind != ChatKind::Dm
            || self.settings.current().unknown_sender_policy(platform) == UnknownSenderPolicy::Ignore
        {
            return Ok(());
        }
        let code = match self.access.pairing_code(envelope, user, self.clock.now()) {
            Ok(code) => code,
            Err(error) => {
                tracing::warn!(%error, "no pairing code could be made");
                return Ok(());
            }
        };
        let text = match code {
            Ok(code) => format!(
                "Hi! I don't know you yet. Your pairing code is `{code}`, good for one hour.\n\nMy owner lets you in with:\n\
                 `hermes pairing approve {platform} {code}`"
            ),
            // A repeated request gets no answer: the first code is still valid, and an answer each time could be
            // used to make the bot write to somebody.
            Err(CodeRefusal::TooSoon) => return Ok(()),
            Err(CodeRefusal::LockedOut) => {
                "Too many pairing requests right now. Please try again later.".to_owned()
            }
        };
        let conversation = format!("stranger:{platform}:{}", envelope.place.chat_id);
        let key = format!("pair:{platform}:{}", envelope.platform_key);
        let reply = ReplyTarget::of(envelope).reply(text, key);
        self.outbox.store_parts(&conversation, vec![reply]).await.map_err(|error| retryable_error(&error))?;
        self.outbox.wake(platform);
        Ok(())
    }
}

fn retryable_error(error: &hermes_store::Error) -> ChannelError {
    ChannelError::Retry { after: None, reason: error.to_string() }
}
