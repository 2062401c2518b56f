//! Signal, through the HTTP interface of a signal-cli daemon: server-sent events in, JSON-RPC out.
//!
//! The daemon has no acknowledgements: an event that it has written to the connection is gone. Each is therefore passed
//! to the intake before the next one is read. Phone numbers are masked in logs.

mod inbound;
mod listen;
mod outbound;
mod rpc;
mod settings;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use hermes_types::{
    BoxFuture, Cancel, Channel, ChannelCapabilities, ChannelError, ChatAddress, DeliveryReceipt, Intake,
    LengthUnit, MessageStatus, OutgoingMessage,
};

use self::rpc::SignalRpc;
use self::settings::SignalSettings;
use crate::choices::AskedQuestions;
use crate::host::ChannelContext;
use crate::options::Options;
use crate::platform::{Platform, PlatformVariable, VariableKind};

const NAME: &str = "signal";
/// What the chat id of a group begins with.
const GROUP: &str = "group:";

pub(crate) const PLATFORM: Platform = Platform {
    name: NAME,
    guide: include_str!("guide.txt"),
    variables: &[
        PlatformVariable {
            name: "SIGNAL_HTTP_URL",
            prompt: "Address of the daemon (http://127.0.0.1:8080)",
            kind: VariableKind::Required,
        },
        PlatformVariable {
            name: "SIGNAL_ACCOUNT",
            prompt: "Number of the account, as +15551234567",
            kind: VariableKind::Required,
        },
        PlatformVariable {
            name: "SIGNAL_ALLOWED_USERS",
            prompt: "Numbers or UUIDs that may talk to it, comma separated",
            kind: VariableKind::Optional,
        },
        PlatformVariable {
            name: "SIGNAL_GROUP_ALLOWED_USERS",
            prompt: "Ids of groups it listens to, comma separated; * for all, nothing for none",
            kind: VariableKind::Optional,
        },
        PlatformVariable {
            name: "SIGNAL_HOME_CHANNEL",
            prompt: "Number, or group:ID, for what comes unasked",
            kind: VariableKind::Optional,
        },
    ],
    other_prefixes: &[],
    lock: Some(("signal-phone", "SIGNAL_ACCOUNT")),
    person_is_chat: true,
    uses_shared_server: Platform::has_no_requests,
    abilities: ChannelCapabilities {
        max_length: 8000,
        unit: LengthUnit::Utf16,
        edits: false,
        web_images: true,
        typing_interval: Duration::from_secs(8),
    },
    open,
};

struct SignalChannel {
    settings: SignalSettings,
    rpc: SignalRpc,
    context: ChannelContext,
    /// The times of the newest messages the bot sent, which come back when it writes to itself.
    sent: Mutex<VecDeque<u64>>,
    /// The other id of the account.
    uuid: Mutex<Option<String>>,
    /// The questions that reactions may answer.
    questions: AskedQuestions,
}

fn open(options: &Options, context: ChannelContext) -> Result<Arc<dyn Channel>, String> {
    let settings = SignalSettings::read(options)?;
    let rpc = SignalRpc::new(&settings, &context);
    let questions = AskedQuestions::new(NAME, context.host.clone());
    Ok(Arc::new(SignalChannel {
        settings,
        rpc,
        context,
        sent: Mutex::default(),
        uuid: Mutex::default(),
        questions,
    }))
}

impl Channel for SignalChannel {
    fn platform(&self) -> &str {
        NAME
    }

    fn capabilities(&self) -> ChannelCapabilities {
        PLATFORM.abilities
    }

    fn check(&self) -> BoxFuture<'_, Result<(), ChannelError>> {
        Box::pin(async { Ok(self.rpc.check().await?) })
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
        Box::pin(self.send_text(place, text, None))
    }

    fn show_typing<'a>(&'a self, place: &'a ChatAddress) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            // It does no harm if it is lost.
            self.rpc.call("sendTyping", outbound::recipient(place)).await.ok();
        })
    }

    fn show_message_status<'a>(
        &'a self,
        place: &'a ChatAddress,
        message: &'a str,
        mark: MessageStatus,
    ) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            if self.settings.reactions {
                self.set_reaction(place, message, mark).await;
            }
        })
    }

    fn chats(&self) -> BoxFuture<'_, Vec<ChatAddress>> {
        Box::pin(self.list_groups())
    }
}

/// Returns a number for logs: `+155****4567`.
fn masked(id: &str) -> String {
    let tail = id.len().saturating_sub(4);
    format!("{}****{}", hermes_text::head(id, 4), id.get(tail..).unwrap_or_default())
}
