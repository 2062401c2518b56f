//! Telegram, through its Bot API.
//!
//! `poll` or `webhook` receives updates, `inbound` converts them to envelopes, `outbound` and `files` send.
//! Invariants: an update is confirmed to Telegram only after the intake has accepted it; no pending update is
//! dropped; no error contains the token.

mod api;
mod entity;
mod fallback;
mod files;
mod gate;
mod inbound;
mod keyboard;
mod media;
mod outbound;
mod poll;
mod settings;
mod topics;
mod webhook;
mod wire;

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hermes_net::HttpClient;
use hermes_types::{
    BoxFuture, Cancel, Channel, ChannelCapabilities, ChannelError, ChatAddress, Clock, ConnectionStatus,
    DeliveryReceipt, Intake, LengthUnit, MessageStatus, OutgoingMessage,
};
use serde_json::{Value, json};

use crate::host::{ChannelContext, ChannelHost, MenuCommand};
use crate::options::Options;
use crate::platform::{Platform, PlatformVariable, VariableKind};
use api::{TelegramApi, TelegramError};
use entity::TelegramIdentity;
use gate::AcceptedAlbums;
use keyboard::Keyboard;
use outbound::{LIMIT, MigratedGroups, QuotedMessages};
use settings::TelegramSettings;
use topics::Topics;
use wire::TelegramUser;

const NAME: &str = "telegram";
/// The kinds of updates the bot requests.
const UPDATES: [&str; 3] = ["message", "channel_post", "callback_query"];
/// The delays before further attempts at `getMe`.
const GREETING_PAUSES: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(2)];
/// Limits the commands in a menu.
const MAX_COMMANDS: usize = 100;
const LONGEST_DESCRIPTION: usize = 250;

pub(crate) const PLATFORM: Platform = Platform {
    name: NAME,
    guide: "1. In Telegram, write to @BotFather and send /newbot; choose a name, then a username that ends in bot.\n\
            2. Copy the token it gives you.\n\
            3. Write to @userinfobot to learn your own number; only listed numbers may use the bot.\n\
            4. For groups: send /setprivacy to @BotFather and turn it off, or make the bot an admin.",
    variables: &[
        PlatformVariable {
            name: "TELEGRAM_BOT_TOKEN",
            prompt: "The bot's token, from @BotFather",
            kind: VariableKind::RequiredSecret,
        },
        PlatformVariable {
            name: "TELEGRAM_ALLOWED_USERS",
            prompt: "Numbers of the people who may use it, between commas",
            kind: VariableKind::Optional,
        },
        PlatformVariable {
            name: "TELEGRAM_HOME_CHANNEL",
            prompt: "The chat that scheduled jobs write to (your own number for a direct chat)",
            kind: VariableKind::Optional,
        },
    ],
    other_prefixes: &[],
    lock: Some(("telegram-bot-token", "TELEGRAM_BOT_TOKEN")),
    person_is_chat: true,
    uses_shared_server: Platform::has_no_requests,
    // Markup and escapes do not count, so the whole limit is available for visible text.
    abilities: ChannelCapabilities {
        max_length: LIMIT,
        unit: LengthUnit::Utf16,
        edits: true,
        web_images: true,
        typing_interval: Duration::from_secs(2),
    },
    open,
};

/// The Telegram channel.
struct TelegramChannel {
    settings: TelegramSettings,
    api: TelegramApi,
    /// The client for other hosts.
    client: HttpClient,
    clock: Arc<dyn Clock>,
    host: Arc<dyn ChannelHost>,
    commands: Arc<[MenuCommand]>,
    topics: Topics,
    keyboard: Keyboard,
    migrated_groups: MigratedGroups,
    quoted_messages: QuotedMessages,
    albums: AcceptedAlbums,
    /// The methods the server does not support; each is logged once.
    unknown_methods: Mutex<HashSet<&'static str>>,
}

fn open(options: &Options, around: ChannelContext) -> Result<Arc<dyn Channel>, String> {
    let settings = TelegramSettings::read(options)?;
    let api = TelegramApi::new(&settings, &around.client, around.clock.clone())?;
    Ok(Arc::new(TelegramChannel {
        api,
        topics: Topics::new(around.host.clone()),
        keyboard: Keyboard::new(around.host.clone()),
        settings,
        client: around.client,
        clock: around.clock,
        host: around.host,
        commands: around.commands,
        migrated_groups: MigratedGroups::default(),
        quoted_messages: QuotedMessages::default(),
        albums: AcceptedAlbums::default(),
        unknown_methods: Mutex::default(),
    }))
}

impl Channel for TelegramChannel {
    fn platform(&self) -> &str {
        NAME
    }

    fn capabilities(&self) -> ChannelCapabilities {
        PLATFORM.abilities
    }

    fn check(&self) -> BoxFuture<'_, Result<(), ChannelError>> {
        Box::pin(async { self.fetch_bot_user().await.map(drop).map_err(Into::into) })
    }

    fn listen<'a>(
        &'a self,
        intake: &'a dyn Intake,
        cancel: &'a Cancel,
    ) -> BoxFuture<'a, Result<(), ChannelError>> {
        Box::pin(async move {
            let ended = tokio::select! {
                ended = self.run(intake, cancel) => ended,
                () = cancel.cancelled() => Ok(()),
            };
            if let Err(error) = &ended {
                intake.report_connection(NAME, ConnectionStatus::Down(error.to_string()));
            }
            ended
        })
    }

    fn send<'a>(
        &'a self,
        reply: &'a OutgoingMessage,
    ) -> BoxFuture<'a, Result<DeliveryReceipt, ChannelError>> {
        Box::pin(self.send_reply(reply))
    }

    fn post<'a>(
        &'a self,
        place: &'a ChatAddress,
        text: &'a str,
    ) -> BoxFuture<'a, Result<String, ChannelError>> {
        Box::pin(async move {
            let sent = self.send_text(self.target(place)?, text, None).await?;
            Ok(sent.to_string())
        })
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
}

impl TelegramChannel {
    async fn run(&self, intake: &dyn Intake, cancel: &Cancel) -> Result<(), ChannelError> {
        let me = TelegramIdentity::from(&self.fetch_bot_user().await?);
        let prepare = async {
            self.offer_commands().await;
            self.topics.create_missing(&self.api).await;
        };
        let work = async {
            match &self.settings.webhook {
                Some(webhook) => self.serve_webhook(webhook, &me, intake, cancel).await,
                None => self.poll(&me, intake).await,
            }
        };
        // Messages do not wait for the menu.
        tokio::pin!(work);
        tokio::select! {
            ended = &mut work => return ended,
            () = prepare => {}
        }
        work.await
    }

    async fn fetch_bot_user(&self) -> Result<TelegramUser, TelegramError> {
        let mut pauses = GREETING_PAUSES.into_iter();
        loop {
            let error = match self.api.call("getMe", &json!({})).await {
                Ok(user) => return Ok(user),
                // The URL has no bot behind it: the token is wrong.
                Err(TelegramError::Refused { code: 404, .. }) => return Err(TelegramError::Unauthorised),
                Err(error @ (TelegramError::Refused { .. } | TelegramError::Unauthorised)) => {
                    return Err(error);
                }
                Err(error) => error,
            };
            let Some(pause) = pauses.next() else { return Err(error) };
            self.clock.sleep(pause).await;
        }
    }

    async fn offer_commands(&self) {
        let entry = |command: &MenuCommand| {
            let words = hermes_text::head(command.description.trim(), LONGEST_DESCRIPTION);
            json!({"command": menu_word(&command.name), "description": words})
        };
        let fits = |command: &&MenuCommand| {
            let name = menu_word(&command.name);
            let plain = name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
            plain && (1..=32).contains(&name.len()) && !command.description.trim().is_empty()
        };
        let commands: Vec<Value> = self.commands.iter().filter(fits).take(MAX_COMMANDS).map(entry).collect();
        if !commands.is_empty() {
            self.try_call("setMyCommands", &json!({"commands": commands})).await;
        }
    }

    /// Makes an optional call; a server that does not support it is logged once.
    async fn try_call(&self, method: &'static str, parameters: &Value) {
        let Err(error) = self.api.call::<Value>(method, parameters).await else { return };
        let first = self.unknown_methods.lock().unwrap_or_else(PoisonError::into_inner).insert(method);
        if first {
            tracing::warn!(%error, method, "Telegram did not do it; that does no harm");
        } else {
            tracing::debug!(%error, method, "Telegram did not do it");
        }
    }
}

/// Returns a command name in the form the menu allows.
fn menu_word(name: &str) -> String {
    name.to_lowercase().replace('-', "_")
}
