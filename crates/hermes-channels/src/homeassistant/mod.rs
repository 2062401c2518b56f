//! Home Assistant: changes of entities come in as events, answers go out as persistent notifications.
//!
//! Events are data that anything in the house may have caused, never commands. Nothing is taken unless the user names
//! entities or domains. Home Assistant does not repeat events: those of a time without a connection are not known.

mod event;
mod filter;
mod settings;
mod socket;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use hermes_net::{HttpRequest, Method};
use hermes_types::{
    BoxFuture, Cancel, Channel, ChannelCapabilities, ChannelError, ChatAddress, ChatPart, DeliveryCertainty,
    DeliveryReceipt, Intake, LengthUnit, OutgoingMessage,
};
use serde_json::{Value, json};

use self::filter::EventFilter;
use self::settings::HomeAssistantSettings;
use crate::host::ChannelContext;
use crate::incoming_file::file_note;
use crate::options::Options;
use crate::platform::{Platform, PlatformVariable, VariableKind};
use crate::rest::{RestClient, RestError};

const NAME: &str = "homeassistant";
/// The chat of all events.
const CHAT: &str = "ha_events";
const TITLE: &str = "Hermes Agent";

pub(crate) const PLATFORM: Platform = Platform {
    name: NAME,
    guide: include_str!("guide.txt"),
    variables: &[
        PlatformVariable {
            name: "HASS_TOKEN",
            prompt: "Long-lived access token",
            kind: VariableKind::RequiredSecret,
        },
        PlatformVariable {
            name: "HASS_URL",
            prompt: "Address (http://homeassistant.local:8123)",
            kind: VariableKind::Optional,
        },
    ],
    other_prefixes: &["HASS_"],
    lock: Some(("homeassistant-token", "HASS_TOKEN")),
    person_is_chat: false,
    uses_shared_server: Platform::has_no_requests,
    abilities: ChannelCapabilities {
        max_length: 4096,
        unit: LengthUnit::Scalars,
        edits: false,
        web_images: false,
        typing_interval: Duration::from_mins(1),
    },
    open,
};

struct HomeAssistantChannel {
    settings: HomeAssistantSettings,
    rest: RestClient,
    context: ChannelContext,
    filter: EventFilter,
    /// Set once the warning about a missing selection was given.
    warned: AtomicBool,
}

fn open(options: &Options, context: ChannelContext) -> Result<Arc<dyn Channel>, String> {
    let settings = HomeAssistantSettings::read(options)?;
    let (client, clock) = (context.client.clone(), context.clock.clone());
    let reason = |body: &Value| body.get("message").and_then(Value::as_str).map(str::to_owned);
    let rest = RestClient { client, clock, label: "Home Assistant", reason };
    let filter = EventFilter::new(&settings);
    Ok(Arc::new(HomeAssistantChannel { settings, rest, context, filter, warned: AtomicBool::default() }))
}

impl HomeAssistantChannel {
    async fn deliver(&self, reply: &OutgoingMessage) -> Result<DeliveryReceipt, ChannelError> {
        for (at, piece) in reply.pieces.iter().enumerate() {
            let text = match piece {
                ChatPart::Text { text } => text.clone(),
                ChatPart::Picture(picture) => picture.fallback_text(),
                ChatPart::File(file) => file_note(file, "Home Assistant takes no files"),
            };
            self.notify(&text, &format!("hermes_{}_{at}", id_of(&reply.idempotency_key))).await?;
        }
        Ok(DeliveryReceipt { message_ids: Vec::new(), certainty: DeliveryCertainty::Once })
    }

    async fn check_token(&self) -> Result<(), ChannelError> {
        let url = self.settings.base.join("api/");
        let url = url.map_err(|_| ChannelError::Refused("HASS_URL is not a web address".to_owned()))?;
        let request = HttpRequest::new(Method::GET, url)
            .bearer(&self.settings.token)
            .map_err(|error| RestError::network(&error).error)?;
        self.call(request).await
    }

    async fn call(&self, request: HttpRequest) -> Result<(), ChannelError> {
        self.rest.call(request).await.map(drop).map_err(|failure| match failure.error {
            ChannelError::Reauthorise(_) => ChannelError::Reauthorise(settings::REVOKED.to_owned()),
            error => error,
        })
    }

    /// Creates a notification. A second one with the same id takes the place of the first.
    async fn notify(&self, text: &str, id: &str) -> Result<(), ChannelError> {
        let body = json!({"title": TITLE, "message": text, "notification_id": id});
        let url = self.settings.base.join("api/services/persistent_notification/create");
        let url = url.map_err(|_| ChannelError::Refused("HASS_URL is not a web address".to_owned()))?;
        let request = HttpRequest::new(Method::POST, url)
            .bearer(&self.settings.token)
            .and_then(|request| request.json(&body))
            .map_err(|error| RestError::network(&error).error)?;
        // A repeated notification has the same id, so that nothing can be said twice.
        self.call(request).await
    }
}

/// Returns an id for a notification: the key of the message, in letters, digits and underscores.
fn id_of(key: &str) -> String {
    key.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect()
}

impl Channel for HomeAssistantChannel {
    fn platform(&self) -> &str {
        NAME
    }

    fn capabilities(&self) -> ChannelCapabilities {
        PLATFORM.abilities
    }

    fn check(&self) -> BoxFuture<'_, Result<(), ChannelError>> {
        Box::pin(self.check_token())
    }

    fn listen<'a>(
        &'a self,
        intake: &'a dyn Intake,
        cancel: &'a Cancel,
    ) -> BoxFuture<'a, Result<(), ChannelError>> {
        Box::pin(self.run(intake, cancel))
    }

    fn send<'a>(
        &'a self,
        reply: &'a OutgoingMessage,
    ) -> BoxFuture<'a, Result<DeliveryReceipt, ChannelError>> {
        Box::pin(self.deliver(reply))
    }

    fn send_again<'a>(
        &'a self,
        reply: &'a OutgoingMessage,
        _: hermes_types::Timestamp,
    ) -> BoxFuture<'a, Result<DeliveryReceipt, ChannelError>> {
        Box::pin(self.deliver(reply))
    }

    fn show_typing<'a>(&'a self, _: &'a ChatAddress) -> BoxFuture<'a, ()> {
        Box::pin(std::future::ready(()))
    }
}
