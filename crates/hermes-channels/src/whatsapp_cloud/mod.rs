//! WhatsApp through Meta's Cloud API: webhooks in, the Graph API out.
//!
//! Invariants: nothing of a request is read before its signature is verified; Meta is answered after the intake has
//! accepted every message of the request; the token goes only to the configured host and to Meta's media hosts.

mod inbound;
mod media;
mod outbound;
mod requests;
mod settings;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hermes_net::{HttpRequest, Method};
use hermes_types::{
    BoxFuture, Cancel, Channel, ChannelCapabilities, ChannelError, ChatAddress, ConnectionStatus,
    DeliveryReceipt, Intake, LengthUnit, OutgoingMessage,
};
use serde_json::{Value, json};

use crate::choices::AskedQuestions;
use crate::host::ChannelContext;
use crate::options::Options;
use crate::platform::{Platform, PlatformVariable, VariableKind};
use crate::rest::{RestClient, RestError};
use crate::webhook_mounts::RequestEntrance;
use requests::WhatsAppRequests;
use settings::WhatsAppCloudSettings;

const NAME: &str = "whatsapp_cloud";
const LARGEST_BODY: usize = 3 * 1024 * 1024;
/// Limits the chats whose newest message is remembered, for the typing indicator.
const MAX_CHATS: usize = 5000;

pub(crate) const PLATFORM: Platform = Platform {
    name: NAME,
    guide: include_str!("guide.txt"),
    variables: &[
        PlatformVariable {
            name: "WHATSAPP_CLOUD_PHONE_NUMBER_ID",
            prompt: "Phone number ID (of the number, not the number itself)",
            kind: VariableKind::Required,
        },
        PlatformVariable {
            name: "WHATSAPP_CLOUD_ACCESS_TOKEN",
            prompt: "Access token",
            kind: VariableKind::RequiredSecret,
        },
        PlatformVariable {
            name: "WHATSAPP_CLOUD_APP_SECRET",
            prompt: "App secret; without it no messages come in",
            kind: VariableKind::Optional,
        },
        PlatformVariable {
            name: "WHATSAPP_CLOUD_VERIFY_TOKEN",
            prompt: "Verify token: any word, the same as in Meta's console",
            kind: VariableKind::Optional,
        },
        PlatformVariable {
            name: "WHATSAPP_CLOUD_ALLOWED_USERS",
            prompt: "Numbers that may talk to it, comma separated",
            kind: VariableKind::Optional,
        },
        PlatformVariable {
            name: "WHATSAPP_CLOUD_HOME_CHANNEL",
            prompt: "Number for what comes unasked",
            kind: VariableKind::Optional,
        },
    ],
    other_prefixes: &[],
    lock: Some(("whatsapp-cloud-phone", "WHATSAPP_CLOUD_PHONE_NUMBER_ID")),
    person_is_chat: true,
    uses_shared_server: settings::uses_shared_server,
    abilities: ChannelCapabilities {
        max_length: 4096,
        unit: LengthUnit::Scalars,
        edits: false,
        web_images: true,
        // WhatsApp shows the indicator for 25 seconds.
        typing_interval: Duration::from_secs(20),
    },
    open,
};

struct WhatsAppCloudChannel {
    settings: WhatsAppCloudSettings,
    rest: RestClient,
    context: ChannelContext,
    /// The newest message of each chat, which the typing indicator refers to.
    newest: Mutex<HashMap<String, String>>,
    /// The questions that reactions may answer.
    questions: AskedQuestions,
}

fn open(options: &Options, context: ChannelContext) -> Result<Arc<dyn Channel>, String> {
    let settings = WhatsAppCloudSettings::read(options)?;
    let (client, clock) = (context.client.clone(), context.clock.clone());
    let rest = RestClient { client, clock, label: "WhatsApp", reason: outbound::reason };
    let questions = AskedQuestions::new(NAME, context.host.clone());
    Ok(Arc::new(WhatsAppCloudChannel { settings, rest, context, newest: Mutex::default(), questions }))
}

impl WhatsAppCloudChannel {
    async fn run(&self, intake: &dyn Intake, cancel: &Cancel) -> Result<(), ChannelError> {
        if self.settings.app_secret.is_none() {
            tracing::warn!(
                "WHATSAPP_CLOUD_APP_SECRET is not set: no messages come in, because anybody could send them"
            );
        }
        self.fetch_number().await?;
        let handler = WhatsAppRequests { whatsapp: self, intake };
        let entrance = RequestEntrance {
            source: &self.settings.source,
            path: &self.settings.path,
            body_limit: LARGEST_BODY,
            handler: &handler,
        };
        let ready = || intake.report_connection(NAME, ConnectionStatus::Up);
        self.context.mounts.receive(entrance, &*self.context.clock, cancel, ready).await
    }

    /// Asks for the number, which also checks the token.
    async fn fetch_number(&self) -> Result<(), ChannelError> {
        let fields = format!("{}?fields=display_phone_number", self.settings.phone_number_id);
        Ok(self.call(Method::GET, &fields, None).await.map(drop)?)
    }

    /// Calls the Graph API below its version.
    async fn call(&self, method: Method, path: &str, body: Option<&Value>) -> Result<Value, RestError> {
        let invalid = |error: hermes_net::Error| RestError::network(&error);
        let url = self.settings.endpoint(path).map_err(invalid)?;
        let request = HttpRequest::new(method, url).bearer(&self.settings.token).map_err(invalid)?;
        let request = match body {
            Some(body) => request.json(body).map_err(invalid)?,
            None => request,
        };
        self.rest.call(request).await.map_err(outbound::explain)
    }

    /// Posts to the messages of the number.
    async fn post_message(&self, body: &Value) -> Result<Value, RestError> {
        self.call(Method::POST, &format!("{}/messages", self.settings.phone_number_id), Some(body)).await
    }

    /// Remembers the newest message of a chat.
    fn remember(&self, chat: &str, message: &str) {
        let mut newest = self.newest.lock().unwrap_or_else(PoisonError::into_inner);
        if newest.len() >= MAX_CHATS {
            newest.clear();
        }
        newest.insert(chat.to_owned(), message.to_owned());
    }
}

impl Channel for WhatsAppCloudChannel {
    fn platform(&self) -> &str {
        NAME
    }

    fn capabilities(&self) -> ChannelCapabilities {
        PLATFORM.abilities
    }

    fn check(&self) -> BoxFuture<'_, Result<(), ChannelError>> {
        Box::pin(async { self.fetch_number().await })
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

    fn post<'a>(
        &'a self,
        place: &'a ChatAddress,
        text: &'a str,
    ) -> BoxFuture<'a, Result<String, ChannelError>> {
        Box::pin(self.send_text(&place.chat_id, text, None))
    }

    /// Shows the indicator, which also marks the message as read.
    fn show_typing<'a>(&'a self, place: &'a ChatAddress) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            let newest =
                self.newest.lock().unwrap_or_else(PoisonError::into_inner).get(&place.chat_id).cloned();
            let Some(message) = newest else { return };
            let body = json!({
                "messaging_product": "whatsapp", "status": "read", "message_id": message,
                "typing_indicator": {"type": "text"},
            });
            if let Err(failure) = self.post_message(&body).await {
                tracing::debug!(error = %failure.error, "the typing indicator was not shown");
            }
        })
    }
}
