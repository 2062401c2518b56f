//! Mattermost, through its WebSocket and REST API v4.
//!
//! Mattermost has no acknowledgements. What arrived while the connection was down is read from the channels after
//! each connection, from a moment that advances only with messages that the intake has accepted.

mod api;
mod catch_up;
mod inbound;
mod outbound;
mod settings;
mod socket;

use std::sync::Arc;
use std::time::Duration;

use hermes_types::{
    BoxFuture, Cancel, Channel, ChannelCapabilities, ChannelError, ChatAddress, DeliveryReceipt, Intake,
    LengthUnit, MessageStatus, OutgoingMessage, Timestamp,
};
use serde_json::json;

use self::api::MattermostApi;
use self::settings::MattermostSettings;
use crate::choices::AskedQuestions;
use crate::host::ChannelContext;
use crate::options::Options;
use crate::platform::{Platform, PlatformVariable, VariableKind};

const NAME: &str = "mattermost";

pub(crate) const PLATFORM: Platform = Platform {
    name: NAME,
    guide: include_str!("guide.txt"),
    variables: &[
        PlatformVariable {
            name: "MATTERMOST_URL",
            prompt: "Address of the server (https://chat.example.org)",
            kind: VariableKind::Required,
        },
        PlatformVariable {
            name: "MATTERMOST_TOKEN",
            prompt: "Token of the bot",
            kind: VariableKind::RequiredSecret,
        },
        PlatformVariable {
            name: "MATTERMOST_ALLOWED_USERS",
            prompt: "User ids or @names that may talk to it, comma separated",
            kind: VariableKind::Optional,
        },
        PlatformVariable {
            name: "MATTERMOST_HOME_CHANNEL",
            prompt: "Channel id for what comes unasked",
            kind: VariableKind::Optional,
        },
    ],
    other_prefixes: &[],
    lock: Some(("mattermost-token", "MATTERMOST_TOKEN")),
    person_is_chat: false,
    uses_shared_server: Platform::has_no_requests,
    abilities: ChannelCapabilities {
        max_length: 4000,
        unit: LengthUnit::Scalars,
        edits: true,
        web_images: true,
        typing_interval: Duration::from_secs(4),
    },
    open,
};

struct MattermostChannel {
    settings: MattermostSettings,
    api: MattermostApi,
    context: ChannelContext,
    /// The questions that reactions may answer.
    questions: AskedQuestions,
    /// The command names, for those typed with `!`: the server keeps those with `/` for itself.
    commands: Vec<String>,
}

fn open(options: &Options, context: ChannelContext) -> Result<Arc<dyn Channel>, String> {
    let settings = MattermostSettings::read(options)?;
    let api = MattermostApi::new(&settings, &context);
    let mut commands: Vec<String> = context.commands.iter().map(|command| command.name.clone()).collect();
    commands.extend(["compact", "reset"].map(str::to_owned));
    let questions = AskedQuestions::new(NAME, context.host.clone());
    Ok(Arc::new(MattermostChannel { settings, api, context, questions, commands }))
}

impl Channel for MattermostChannel {
    fn platform(&self) -> &str {
        NAME
    }

    fn capabilities(&self) -> ChannelCapabilities {
        PLATFORM.abilities
    }

    fn check(&self) -> BoxFuture<'_, Result<(), ChannelError>> {
        Box::pin(async { Ok(self.api.fetch_identity().await.map(drop)?) })
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
        _: &'a ChatAddress,
        message: &'a str,
        text: &'a str,
    ) -> BoxFuture<'a, Result<(), ChannelError>> {
        Box::pin(self.edit_text(message, text))
    }

    fn show_typing<'a>(&'a self, place: &'a ChatAddress) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            let Ok(me) = self.api.identity().await else { return };
            let mut body = json!({"channel_id": place.chat_id});
            if let Some(thread) = &place.thread_id {
                body["parent_id"] = json!(thread);
            }
            self.api.post(&format!("users/{}/typing", me.id), &body).await.ok();
        })
    }

    fn show_message_status<'a>(
        &'a self,
        _: &'a ChatAddress,
        message: &'a str,
        mark: MessageStatus,
    ) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            if self.settings.reactions {
                self.set_reaction(message, mark).await;
            }
        })
    }

    fn chats(&self) -> BoxFuture<'_, Vec<ChatAddress>> {
        Box::pin(self.list_chats())
    }
}
