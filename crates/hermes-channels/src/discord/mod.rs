//! Discord: its gateway for incoming events, its REST API for outgoing messages.
//!
//! Translates between Discord's protocol and envelopes. Does not decide who may use the bot, and does not support
//! voice calls. Invariants: an event counts as received only when its message is committed; a reply has the same
//! nonce at each attempt, so that a retry does not create a second message.

mod commands;
mod connect;
mod directory;
mod files;
mod gate;
mod gateway;
mod inbound;
mod keyed_queues;
mod outbound;
mod rate_limits;
mod recent;
mod rest;
mod session;
mod settings;
mod table;
mod threads;
mod wire;

use std::sync::Arc;
use std::time::Duration;

use hermes_types::{
    BoxFuture, Cancel, Channel, ChannelCapabilities, ChannelError, ChatAddress, ConnectionStatus,
    DeliveryReceipt, Intake, LengthUnit, MessageStatus, OutgoingMessage, Timestamp,
};
use serde_json::{Value, json};

use crate::backoff::Backoff;
use crate::host::{ChannelContext, ChannelHost, MenuCommand};
use crate::options::Options;
use crate::platform::{Platform, PlatformVariable, VariableKind};
use directory::GuildDirectory;
use gateway::GatewayListener;
use recent::{PressedButtons, RecentMessages};
use rest::{DiscordApi, DiscordError};
use settings::DiscordSettings;
use threads::DiscordThreads;

const NAME: &str = "discord";
/// Space for code fences around two tables, which are added after a text was split.
const ROOM_FOR_FENCES: usize = 16;

pub(crate) const PLATFORM: Platform = Platform {
    name: NAME,
    guide: include_str!("guide.md"),
    variables: &[
        PlatformVariable {
            name: "DISCORD_BOT_TOKEN",
            prompt: "The bot's token",
            kind: VariableKind::RequiredSecret,
        },
        PlatformVariable {
            name: "DISCORD_ALLOWED_USERS",
            prompt: "Who may talk to it: user ids or names, with commas between them",
            kind: VariableKind::Optional,
        },
        PlatformVariable {
            name: "DISCORD_HOME_CHANNEL",
            prompt: "The id of the channel for what comes unasked",
            kind: VariableKind::Optional,
        },
    ],
    other_prefixes: &[],
    lock: Some(("discord-bot-token", "DISCORD_BOT_TOKEN")),
    person_is_chat: false,
    uses_shared_server: Platform::has_no_requests,
    abilities: ChannelCapabilities {
        max_length: outbound::LONGEST - ROOM_FOR_FENCES,
        unit: LengthUnit::Scalars,
        edits: true,
        web_images: true,
        typing_interval: Duration::from_secs(8),
    },
    open,
};

fn open(options: &Options, surroundings: ChannelContext) -> Result<Arc<dyn Channel>, String> {
    let settings = DiscordSettings::read(options)?;
    let ChannelContext { client, clock, host, commands, .. } = surroundings;
    let rest = DiscordApi::new(client, clock, settings.api.clone(), &settings.token);
    let threads = DiscordThreads::load(host.clone());
    Ok(Arc::new(DiscordChannel {
        settings,
        api: rest,
        threads,
        host,
        commands,
        directory: GuildDirectory::default(),
        recent_messages: RecentMessages::default(),
        pressed_buttons: PressedButtons::default(),
    }))
}

struct DiscordChannel {
    settings: DiscordSettings,
    api: DiscordApi,
    host: Arc<dyn ChannelHost>,
    commands: Arc<[MenuCommand]>,
    directory: GuildDirectory,
    threads: DiscordThreads,
    recent_messages: RecentMessages,
    pressed_buttons: PressedButtons,
}

/// The bot's account at Discord.
struct DiscordIdentity {
    user_id: String,
    application_id: String,
}

impl DiscordApi {
    /// Requests the bot's account, which also checks the token. Retries transient failures.
    async fn sign_in(&self, intake: &dyn Intake) -> Result<DiscordIdentity, ChannelError> {
        let mut pauses = Backoff::new(Duration::from_secs(1), Duration::from_mins(1));
        loop {
            match self.identity().await {
                Ok(identity) => return Ok(identity),
                Err(DiscordError::Later { after, reason, .. }) => {
                    intake.report_connection(NAME, ConnectionStatus::Down(reason));
                    self.clock.sleep(after.unwrap_or_else(|| pauses.next())).await;
                }
                Err(failure) => return Err(failure.into()),
            }
        }
    }

    async fn identity(&self) -> Result<DiscordIdentity, DiscordError> {
        let id = |object: &Value| object.get("id").and_then(Value::as_str).unwrap_or_default().to_owned();
        let user_id = id(&self.get("/users/@me").await?);
        let application = match self.get("/applications/@me").await {
            Err(DiscordError::Refused { .. }) => self.get("/oauth2/applications/@me").await,
            other => other,
        };
        Ok(DiscordIdentity { user_id, application_id: id(&application?) })
    }
}

impl Channel for DiscordChannel {
    fn platform(&self) -> &str {
        NAME
    }

    fn capabilities(&self) -> ChannelCapabilities {
        PLATFORM.abilities
    }

    fn check(&self) -> BoxFuture<'_, Result<(), ChannelError>> {
        Box::pin(async { Ok(self.api.get("/users/@me").await.map(drop)?) })
    }

    fn listen<'a>(
        &'a self,
        intake: &'a dyn Intake,
        cancel: &'a Cancel,
    ) -> BoxFuture<'a, Result<(), ChannelError>> {
        Box::pin(async move {
            let identity = tokio::select! {
                identity = self.api.sign_in(intake) => identity?,
                () = cancel.cancelled() => return Ok(()),
            };
            GatewayListener::new(self, intake, cancel, &identity).run().await
        })
    }

    fn send<'a>(
        &'a self,
        reply: &'a OutgoingMessage,
    ) -> BoxFuture<'a, Result<DeliveryReceipt, ChannelError>> {
        Box::pin(self.send_reply(reply))
    }

    fn send_again<'a>(
        &'a self,
        reply: &'a OutgoingMessage,
        since: Timestamp,
    ) -> BoxFuture<'a, Result<DeliveryReceipt, ChannelError>> {
        Box::pin(self.send_reply_again(reply, since))
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
        Box::pin(async move {
            let Ok(channel) = outbound::target_channel(place) else { return };
            if let Err(failure) = self.api.post(&format!("/channels/{channel}/typing"), json!({})).await {
                tracing::debug!(%failure, "the typing indicator could not be shown");
            }
        })
    }

    fn show_message_status<'a>(
        &'a self,
        place: &'a ChatAddress,
        message: &'a str,
        mark: MessageStatus,
    ) -> BoxFuture<'a, ()> {
        Box::pin(self.set_reaction(place, message, mark))
    }

    fn chats(&self) -> BoxFuture<'_, Vec<ChatAddress>> {
        Box::pin(async move {
            self.visible_chats().await.unwrap_or_else(|failure| {
                tracing::debug!(%failure, "Discord's channels could not be listed");
                Vec::new()
            })
        })
    }
}
