//! A message sender for tools, which are built before the gateway that sends for them.

use std::sync::OnceLock;

use hermes_gateway::Gateway;
use hermes_types::{BoxFuture, ChannelError, MessageSender, SendOutcome, SessionId};

/// Sends messages once the gateway is set.
#[derive(Default)]
pub(crate) struct DeferredMessageSender(OnceLock<Gateway>);

impl DeferredMessageSender {
    /// Sets the gateway. Only the first call has an effect.
    pub(crate) fn set_gateway(&self, gateway: Gateway) {
        let _ = self.0.set(gateway);
    }
}

impl MessageSender for DeferredMessageSender {
    fn deliver<'a>(
        &'a self,
        target: &'a str,
        text: &'a str,
        from: Option<&'a SessionId>,
    ) -> BoxFuture<'a, Result<SendOutcome, ChannelError>> {
        match self.0.get() {
            Some(gateway) => gateway.deliver(target, text, from),
            None => Box::pin(std::future::ready(Err(ChannelError::Refused(
                "the gateway is not running".to_owned(),
            )))),
        }
    }

    fn targets(&self) -> BoxFuture<'_, Vec<String>> {
        match self.0.get() {
            Some(gateway) => gateway.targets(),
            None => Box::pin(std::future::ready(Vec::new())),
        }
    }
}
