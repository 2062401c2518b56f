//! WhatsApp through a linked phone: a bridge program holds the connection, this module talks to it over HTTP.
//!
//! Invariants: a message is acknowledged to the bridge after the intake has accepted it; a reply has the same ids in every
//! attempt, so that phones show it once; the bridge ends with the channel.

mod bridge;
mod inbound;
mod listen;
mod outbound;
mod settings;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use hermes_types::{
    BoxFuture, Cancel, Channel, ChannelCapabilities, ChannelError, ChatAddress, DeliveryReceipt, Intake,
    LengthUnit, OutgoingMessage, Timestamp,
};
use serde_json::json;

use crate::choices::AskedQuestions;
use crate::host::ChannelContext;
use crate::options::Options;
use crate::platform::{Platform, PlatformVariable, VariableKind};
use bridge::Bridge;
use settings::WhatsAppSettings;

const NAME: &str = "whatsapp";

pub(crate) const PLATFORM: Platform = Platform {
    name: NAME,
    guide: include_str!("guide.txt"),
    variables: &[
        PlatformVariable {
            name: "WHATSAPP_ENABLED",
            prompt: "Turn it on (true)",
            kind: VariableKind::Switch,
        },
        PlatformVariable {
            name: "WHATSAPP_MODE",
            prompt: "self-chat (the agent shares your number) or bot (it has its own)",
            kind: VariableKind::Optional,
        },
        PlatformVariable {
            name: "WHATSAPP_ALLOWED_USERS",
            prompt: "Numbers that may talk to it: country code and digits, no +, comma separated",
            kind: VariableKind::Optional,
        },
        PlatformVariable {
            name: "WHATSAPP_HOME_CHANNEL",
            prompt: "Number for what comes unasked",
            kind: VariableKind::Optional,
        },
    ],
    other_prefixes: &[],
    lock: None,
    person_is_chat: true,
    uses_shared_server: Platform::has_no_requests,
    abilities: ChannelCapabilities {
        max_length: 4096,
        unit: LengthUnit::Scalars,
        edits: true,
        web_images: true,
        typing_interval: Duration::from_secs(10),
    },
    open,
};

struct WhatsAppChannel {
    settings: WhatsAppSettings,
    bridge: Bridge,
    /// Set while messages are received: then the bridge is started there.
    listens: AtomicBool,
    /// The questions that reactions may answer.
    questions: AskedQuestions,
    context: ChannelContext,
}

fn open(options: &Options, context: ChannelContext) -> Result<Arc<dyn Channel>, String> {
    if !WhatsAppSettings::is_enabled(options) {
        return Err("WHATSAPP_ENABLED is not true".to_owned());
    }
    let settings = WhatsAppSettings::read(options)?;
    let bridge = Bridge::new(&context)?;
    let questions = AskedQuestions::new(NAME, context.host.clone());
    Ok(Arc::new(WhatsAppChannel { settings, bridge, listens: AtomicBool::new(false), questions, context }))
}

impl Channel for WhatsAppChannel {
    fn platform(&self) -> &str {
        NAME
    }

    fn capabilities(&self) -> ChannelCapabilities {
        PLATFORM.abilities
    }

    fn listen<'a>(
        &'a self,
        intake: &'a dyn Intake,
        cancel: &'a Cancel,
    ) -> BoxFuture<'a, Result<(), ChannelError>> {
        Box::pin(async move {
            self.listens.store(true, Ordering::SeqCst);
            let ended = self.run(intake, cancel).await;
            self.listens.store(false, Ordering::SeqCst);
            ended
        })
    }

    fn send<'a>(
        &'a self,
        reply: &'a OutgoingMessage,
    ) -> BoxFuture<'a, Result<DeliveryReceipt, ChannelError>> {
        Box::pin(self.deliver(reply))
    }

    /// The bridge and the phones know a message by its id, which is the same again.
    fn send_again<'a>(
        &'a self,
        reply: &'a OutgoingMessage,
        _: Timestamp,
    ) -> BoxFuture<'a, Result<DeliveryReceipt, ChannelError>> {
        Box::pin(self.deliver(reply))
    }

    fn post<'a>(
        &'a self,
        place: &'a ChatAddress,
        text: &'a str,
    ) -> BoxFuture<'a, Result<String, ChannelError>> {
        Box::pin(self.send_text(place, text, None, None))
    }

    fn edit<'a>(
        &'a self,
        place: &'a ChatAddress,
        message: &'a str,
        text: &'a str,
    ) -> BoxFuture<'a, Result<(), ChannelError>> {
        Box::pin(self.edit_text(place, message, text))
    }

    fn show_typing<'a>(&'a self, place: &'a ChatAddress) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            // Nobody misses it.
            self.bridge.post("typing", &json!({"chatId": place.chat_id})).await.ok();
        })
    }
}
