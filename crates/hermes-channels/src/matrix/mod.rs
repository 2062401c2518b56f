//! Matrix, through the client-server API, with end-to-end encryption.
//!
//! Matrix is acknowledged by the point from which the next sync is read: it moves only past messages that the intake has accepted. The
//! cryptography is in `hermes-matrix`; here are its requests.

#![cfg_attr(
    not(feature = "matrix-encryption"),
    expect(dead_code, reason = "what only the encryption uses is described in one place all the same")
)]

mod api;
#[cfg(feature = "matrix-encryption")]
mod encryption;
#[cfg(not(feature = "matrix-encryption"))]
#[path = "no_encryption.rs"]
mod encryption;
mod event;
mod files;
mod inbound;
#[cfg(feature = "matrix-encryption")]
mod key_exchange;
mod outbound;
mod rooms;
mod settings;
mod sign_in;
mod sync;
mod take;
#[cfg(feature = "matrix-encryption")]
mod verification;

use std::sync::Arc;
use std::time::Duration;

use hermes_types::{
    BoxFuture, Cancel, Channel, ChannelCapabilities, ChannelError, ChatAddress, DeliveryReceipt, Intake,
    LengthUnit, MessageStatus, OutgoingMessage, Timestamp,
};

use self::api::MatrixApi;
use self::encryption::RoomEncryption;
use self::rooms::MatrixRooms;
use self::settings::MatrixSettings;
use crate::host::ChannelContext;
use crate::options::Options;
use crate::platform::{Platform, PlatformVariable, VariableKind};

const NAME: &str = "matrix";

pub(crate) const PLATFORM: Platform = Platform {
    name: NAME,
    guide: include_str!("guide.txt"),
    variables: &[
        PlatformVariable {
            name: "MATRIX_HOMESERVER",
            prompt: "Address of the homeserver (https://matrix.example.org)",
            kind: VariableKind::Required,
        },
        PlatformVariable {
            name: "MATRIX_USER_ID",
            prompt: "User id of the bot (@bot:example.org); not needed with an access token",
            kind: VariableKind::Optional,
        },
        PlatformVariable {
            name: "MATRIX_PASSWORD",
            prompt: "Password of the bot, or nothing to give an access token",
            kind: VariableKind::SecretUnless("MATRIX_ACCESS_TOKEN"),
        },
        PlatformVariable {
            name: "MATRIX_ACCESS_TOKEN",
            prompt: "Access token, where there is no password",
            kind: VariableKind::SecretUnless("MATRIX_PASSWORD"),
        },
        PlatformVariable {
            name: "MATRIX_ENCRYPTION",
            prompt: "Use encrypted rooms (true or false)",
            kind: VariableKind::Optional,
        },
        PlatformVariable {
            name: "MATRIX_ALLOWED_USERS",
            prompt: "User ids that may talk to it (@ann:example.org), comma separated",
            kind: VariableKind::Optional,
        },
        PlatformVariable {
            name: "MATRIX_HOME_ROOM",
            prompt: "Room id for what comes unasked (!id:example.org)",
            kind: VariableKind::Optional,
        },
    ],
    other_prefixes: &[],
    lock: Some(("matrix-token", "MATRIX_ACCESS_TOKEN")),
    person_is_chat: false,
    uses_shared_server: Platform::has_no_requests,
    abilities: ChannelCapabilities {
        max_length: 4000,
        unit: LengthUnit::Scalars,
        edits: true,
        web_images: true,
        typing_interval: Duration::from_secs(20),
    },
    open,
};

struct MatrixChannel {
    settings: MatrixSettings,
    api: MatrixApi,
    rooms: MatrixRooms,
    context: ChannelContext,
    /// The command names, for those typed with `!`: programs keep those with `/` for themselves.
    commands: Vec<String>,
    open_encryption: tokio::sync::Mutex<Option<Arc<RoomEncryption>>>,
}

fn open(options: &Options, context: ChannelContext) -> Result<Arc<dyn Channel>, String> {
    let settings = MatrixSettings::read(options)?;
    let api = MatrixApi::new(&settings, &context);
    let mut commands: Vec<String> = context.commands.iter().map(|command| command.name.clone()).collect();
    commands.extend(["compact", "reset"].map(str::to_owned));
    let (rooms, open_encryption) = (MatrixRooms::default(), tokio::sync::Mutex::default());
    Ok(Arc::new(MatrixChannel { settings, api, rooms, context, commands, open_encryption }))
}

impl Channel for MatrixChannel {
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
        Box::pin(self.deliver(reply, None))
    }

    fn send_again<'a>(
        &'a self,
        reply: &'a OutgoingMessage,
        since: Timestamp,
    ) -> BoxFuture<'a, Result<DeliveryReceipt, ChannelError>> {
        Box::pin(self.deliver(reply, Some(since)))
    }

    fn post<'a>(
        &'a self,
        place: &'a ChatAddress,
        text: &'a str,
    ) -> BoxFuture<'a, Result<String, ChannelError>> {
        Box::pin(self.post_text(place, text))
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
        Box::pin(self.send_typing(place))
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
        Box::pin(self.list_chats())
    }
}
