//! Decides about the senders of messages by the settings and the pairing store.

use hermes_types::{Envelope, Timestamp};

use crate::authorise::{self, AccessDecision, AccessRequest};
use crate::pairing::{CodeRefusal, PairingStore};
use crate::settings::LiveSettings;

/// Says who may talk to the agent, and who is an owner.
#[derive(Debug, Clone)]
pub(crate) struct SenderAccess {
    pairing: PairingStore,
    settings: LiveSettings,
}

impl SenderAccess {
    pub(crate) fn new(settings: LiveSettings) -> Self {
        Self { pairing: PairingStore::new(settings.home()), settings }
    }

    /// Decides whether a message is accepted.
    pub(crate) fn decide(&self, envelope: &Envelope) -> AccessDecision {
        authorise::decide(self.request(envelope), &self.settings.current().env)
    }

    /// Tells whether a user may use the agent on a platform.
    pub(crate) fn allows(&self, platform: &str, user: &str) -> bool {
        let paired = self.pairing.is_approved(platform, user);
        let request = AccessRequest { platform, user_id: Some(user), handle: None, alt_id: None, paired };
        authorise::decide(request, &self.settings.current().env) == AccessDecision::Granted
    }

    /// Tells whether a message is from a user who is allowed individually.
    pub(crate) fn is_from_owner(&self, envelope: &Envelope) -> bool {
        authorise::is_owner(self.request(envelope), &self.settings.current().env)
    }

    /// Issues a pairing code for the sender of a message, or returns why there is none.
    pub(crate) fn pairing_code(
        &self,
        envelope: &Envelope,
        user: &str,
        now: Timestamp,
    ) -> hermes_config::Result<Result<String, CodeRefusal>> {
        self.pairing.request(&envelope.platform, user, envelope.sender.user_name.as_deref(), now)
    }

    fn request<'a>(&self, envelope: &'a Envelope) -> AccessRequest<'a> {
        let user_id = envelope.sender.user_id.as_deref();
        let paired = user_id.is_some_and(|id| self.pairing.is_approved(&envelope.platform, id));
        let handle = envelope.sender.handle.as_deref();
        let alt_id = envelope.sender.alt_id.as_deref();
        AccessRequest { platform: &envelope.platform, user_id, handle, alt_id, paired }
    }
}
