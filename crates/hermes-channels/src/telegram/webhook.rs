//! Receives updates by webhook.
//!
//! Invariant: the response is 200 only after the intake has accepted the update; until then Telegram keeps it.

use hermes_net::{HttpListener, StatusCode};
use hermes_types::{
    BoxFuture, Cancel, ChannelError, ConnectionStatus, Intake, PlatformRequest, PlatformResponse,
};
use serde_json::{Value, json};
use subtle::ConstantTimeEq as _;

use super::TelegramChannel;
use super::entity::TelegramIdentity;
use super::poll::parse_update;
use super::settings::WebhookConfig;
use crate::http_listener::{RequestHandler, serve};

const SECRET: &str = "x-telegram-bot-api-secret-token";
const LARGEST: usize = 4 * 1024 * 1024;

impl TelegramChannel {
    pub(super) async fn serve_webhook(
        &self,
        webhook: &WebhookConfig,
        me: &TelegramIdentity,
        intake: &dyn Intake,
        cancel: &Cancel,
    ) -> Result<(), ChannelError> {
        let listener = HttpListener::bind(&webhook.address).await.map_err(|error| ChannelError::Retry {
            after: None,
            reason: format!("TELEGRAM_WEBHOOK_PORT: cannot listen on {}: {error}", webhook.address),
        })?;
        let registration = json!({
            "url": webhook.url.as_str(),
            "secret_token": webhook.secret.expose(),
            "allowed_updates": super::UPDATES,
            // One connection keeps messages in their order.
            "max_connections": 1,
        });
        self.api.call::<Value>("setWebhook", &registration).await?;
        intake.report_connection(super::NAME, ConnectionStatus::Up);
        let entrance = WebhookHandler { telegram: self, webhook, me, intake };
        serve(listener, LARGEST, &*self.clock, cancel, &entrance).await;
        Ok(())
    }
}

/// Handles webhook requests.
struct WebhookHandler<'a> {
    telegram: &'a TelegramChannel,
    webhook: &'a WebhookConfig,
    me: &'a TelegramIdentity,
    intake: &'a dyn Intake,
}

impl RequestHandler for WebhookHandler<'_> {
    fn handle(&self, delivered: PlatformRequest) -> BoxFuture<'_, PlatformResponse> {
        Box::pin(async move {
            let status = match self.check(&delivered) {
                Ok(()) => self.accept_update(&delivered.body).await,
                Err(status) => status,
            };
            PlatformResponse::status(status.as_u16())
        })
    }
}

impl WebhookHandler<'_> {
    fn check(&self, delivered: &PlatformRequest) -> Result<(), StatusCode> {
        if delivered.path != self.webhook.url.path() {
            return Err(StatusCode::NOT_FOUND);
        }
        if delivered.method != "POST" {
            return Err(StatusCode::METHOD_NOT_ALLOWED);
        }
        let given = delivered.header(SECRET).unwrap_or_default();
        let right = bool::from(given.as_bytes().ct_eq(self.webhook.secret.expose().as_bytes()));
        if right { Ok(()) } else { Err(StatusCode::FORBIDDEN) }
    }

    async fn accept_update(&self, body: &[u8]) -> StatusCode {
        // An unreadable update will not be readable later either.
        let Some(update) = serde_json::from_slice(body).ok().and_then(parse_update) else {
            return StatusCode::OK;
        };
        let envelope = self.telegram.read_update(&update, self.me).await;
        match self.telegram.accept_update(&update, envelope, self.intake).await {
            Ok(()) => StatusCode::OK,
            Err(error) => {
                tracing::warn!(%error, "a message could not be taken; Telegram will send it again");
                StatusCode::SERVICE_UNAVAILABLE
            }
        }
    }
}
