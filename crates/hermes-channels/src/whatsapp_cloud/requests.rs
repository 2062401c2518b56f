//! Meta's requests: the verification of the address, and signed messages.

use data_encoding::HEXLOWER;
use hermes_types::{BoxFuture, ChannelError, Intake, PlatformRequest, PlatformResponse, Secret};
use hmac::{Hmac, KeyInit as _, Mac as _};
use serde_json::Value;
use sha2::Sha256;
use subtle::ConstantTimeEq as _;

use super::{WhatsAppCloudChannel, inbound};
use crate::http_listener::RequestHandler;
use crate::rest::decode_form;

pub(super) struct WhatsAppRequests<'a> {
    pub(super) whatsapp: &'a WhatsAppCloudChannel,
    pub(super) intake: &'a dyn Intake,
}

impl RequestHandler for WhatsAppRequests<'_> {
    fn handle(&self, request: PlatformRequest) -> BoxFuture<'_, PlatformResponse> {
        Box::pin(async move {
            match request.method.as_str() {
                "GET" => self.verify(&request.query),
                "POST" => self.take(&request).await,
                _ => PlatformResponse::status(405),
            }
        })
    }
}

impl WhatsAppRequests<'_> {
    /// Answers the challenge with which Meta verifies the address.
    fn verify(&self, query: &str) -> PlatformResponse {
        let Some(expected) = &self.whatsapp.settings.verify_token else {
            return PlatformResponse::text(503, "WHATSAPP_CLOUD_VERIFY_TOKEN is not set");
        };
        let fields = decode_form(query);
        let field =
            |name: &str| fields.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str());
        let (Some("subscribe"), Some(challenge)) = (field("hub.mode"), field("hub.challenge")) else {
            return PlatformResponse::status(400);
        };
        let given = field("hub.verify_token").unwrap_or_default();
        if bool::from(given.as_bytes().ct_eq(expected.expose().as_bytes())) {
            PlatformResponse::text(200, challenge)
        } else {
            PlatformResponse::status(403)
        }
    }

    async fn take(&self, request: &PlatformRequest) -> PlatformResponse {
        let Some(secret) = &self.whatsapp.settings.app_secret else {
            return PlatformResponse::text(503, "WHATSAPP_CLOUD_APP_SECRET is not set");
        };
        if !is_genuine(&request.body, request.header("x-hub-signature-256"), secret) {
            tracing::warn!("a request that Meta did not sign was refused");
            return PlatformResponse::status(401);
        }
        let Ok(body) = serde_json::from_slice::<Value>(&request.body) else {
            return PlatformResponse::status(400);
        };
        match self.take_messages(&body).await {
            Ok(()) => PlatformResponse::status(200),
            Err(error) => {
                tracing::warn!(%error, "a message could not be taken; WhatsApp will send it again");
                PlatformResponse::status(503)
            }
        }
    }

    /// Submits the messages in their order. A repeated request finds those that were taken in the inbox.
    async fn take_messages(&self, body: &Value) -> Result<(), ChannelError> {
        for status in inbound::failed_statuses(body) {
            tracing::warn!("{status}");
        }
        for message in inbound::messages(body, &self.whatsapp.settings.phone_number_id) {
            let now = self.whatsapp.context.clock.now();
            if let Some(reaction) = message.reaction(now) {
                if let Some(answer) = self.whatsapp.questions.answer(reaction) {
                    self.intake.accept(answer).await?;
                }
                continue;
            }
            let mut parts = message.parts.clone();
            if let Some(file) = &message.file {
                parts.push(self.whatsapp.fetch_media(file).await);
            }
            if parts.is_empty() {
                continue;
            }
            self.whatsapp.remember(&message.from, &message.id);
            self.intake.accept(message.envelope(parts, now)).await?;
        }
        Ok(())
    }
}

/// Tells whether the sender of a body knows the app secret.
fn is_genuine(body: &[u8], signature: Option<&str>, secret: &Secret) -> bool {
    // HMAC accepts a key of any length, so this cannot fail.
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(secret.expose().as_bytes()) else { return false };
    mac.update(body);
    let expected = format!("sha256={}", HEXLOWER.encode(&mac.finalize().into_bytes()));
    bool::from(signature.unwrap_or_default().as_bytes().ct_eq(expected.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_right_signature_counts() {
        let secret = Secret::new("It's a Secret to Everybody");
        let right = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17";
        assert!(is_genuine(b"Hello, World!", Some(right), &secret));
        assert!(!is_genuine(b"Hello, World?", Some(right), &secret));
        assert!(!is_genuine(b"Hello, World!", None, &secret));
        assert!(!is_genuine(b"Hello, World!", Some("sha256="), &secret));
    }
}
