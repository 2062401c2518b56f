//! DingTalk in stream mode: callbacks over a WebSocket, answers through the webhook of a conversation or the robot API.
//!
//! Invariants: a callback is acknowledged after the intake has accepted its message; DingTalk sends it again otherwise.
//! Answers go only to DingTalk's own hosts. The webhooks of conversations carry a token and are stored with the home.

mod api;
mod chats;
mod inbound;
mod outbound;
mod settings;
mod stream;

use std::sync::Arc;
use std::time::Duration;

use hermes_types::{
    BoxFuture, Cancel, Channel, ChannelCapabilities, ChannelError, ChatAddress, DeliveryReceipt, Intake,
    LengthUnit, OutgoingMessage,
};

use self::api::DingTalkApi;
use self::chats::KnownChats;
use self::settings::DingTalkSettings;
use crate::host::ChannelContext;
use crate::options::Options;
use crate::platform::{Platform, PlatformVariable, VariableKind};

const NAME: &str = "dingtalk";

pub(crate) const PLATFORM: Platform = Platform {
    name: NAME,
    guide: include_str!("guide.txt"),
    variables: &[
        PlatformVariable {
            name: "DINGTALK_CLIENT_ID",
            prompt: "Client ID (AppKey)",
            kind: VariableKind::Required,
        },
        PlatformVariable {
            name: "DINGTALK_CLIENT_SECRET",
            prompt: "Client secret (AppSecret)",
            kind: VariableKind::RequiredSecret,
        },
        PlatformVariable {
            name: "DINGTALK_ALLOWED_USERS",
            prompt: "Staff ids that may talk to it, comma separated",
            kind: VariableKind::Optional,
        },
        PlatformVariable {
            name: "DINGTALK_HOME_CHANNEL",
            prompt: "Conversation id or staff id for what comes unasked",
            kind: VariableKind::Optional,
        },
    ],
    other_prefixes: &[],
    lock: Some(("dingtalk-client", "DINGTALK_CLIENT_ID")),
    person_is_chat: true,
    uses_shared_server: Platform::has_no_requests,
    abilities: ChannelCapabilities {
        max_length: 20_000,
        unit: LengthUnit::Scalars,
        edits: false,
        web_images: true,
        typing_interval: Duration::from_mins(1),
    },
    open,
};

struct DingTalkChannel {
    settings: DingTalkSettings,
    api: DingTalkApi,
    context: ChannelContext,
    chats: KnownChats,
}

fn open(options: &Options, context: ChannelContext) -> Result<Arc<dyn Channel>, String> {
    let settings = DingTalkSettings::read(options)?;
    let api = DingTalkApi::new(&settings, &context);
    let chats = KnownChats::load(&*context.host);
    Ok(Arc::new(DingTalkChannel { settings, api, context, chats }))
}

impl Channel for DingTalkChannel {
    fn platform(&self) -> &str {
        NAME
    }

    fn capabilities(&self) -> ChannelCapabilities {
        PLATFORM.abilities
    }

    fn check(&self) -> BoxFuture<'_, Result<(), ChannelError>> {
        Box::pin(async { self.api.check_credentials().await })
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
        Box::pin(self.send_text(&place.chat_id, text))
    }

    fn show_typing<'a>(&'a self, _: &'a ChatAddress) -> BoxFuture<'a, ()> {
        Box::pin(std::future::ready(()))
    }
}
