//! Slack through Socket Mode and the Web API.
//!
//! The client is built on `hermes-net`: existing libraries acknowledge an envelope before it can be stored, and
//! bring their own HTTP stack.

mod api;
mod files;
mod inbound;
mod names;
mod outbound;
mod settings;
mod socket;
mod spool;

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use futures_util::future::try_join_all;
use hermes_types::{
    BoxFuture, Cancel, Channel, ChannelCapabilities, ChannelError, ChatAddress, DeliveryReceipt, Intake,
    LengthUnit, MessageStatus, OutgoingMessage, Timestamp,
};
use serde_json::{Value, json};
use tokio::sync::mpsc::unbounded_channel;

use self::api::{MethodArguments, SlackApi};
use self::inbound::SlackIdentity;
use self::names::SlackNames;
use self::settings::SlackSettings;
use self::socket::SocketContext;
use self::spool::{SlackThreads, Spool};
use crate::host::ChannelContext;
use crate::options::Options;
use crate::platform::{Platform, PlatformVariable, VariableKind};

pub(crate) const PLATFORM: Platform = Platform {
    name: "slack",
    guide: include_str!("guide.txt"),
    variables: &[
        PlatformVariable {
            name: "SLACK_BOT_TOKEN",
            prompt: "Bot token (xoxb-…)",
            kind: VariableKind::RequiredSecret,
        },
        PlatformVariable {
            name: "SLACK_APP_TOKEN",
            prompt: "App token (xapp-…)",
            kind: VariableKind::RequiredSecret,
        },
        PlatformVariable {
            name: "SLACK_ALLOWED_USERS",
            prompt: "Member ids that may talk to it, comma separated",
            kind: VariableKind::Optional,
        },
        PlatformVariable {
            name: "SLACK_HOME_CHANNEL",
            prompt: "Channel id for what comes unasked",
            kind: VariableKind::Optional,
        },
    ],
    other_prefixes: &[],
    lock: Some(("slack-app-token", "SLACK_APP_TOKEN")),
    person_is_chat: false,
    uses_shared_server: Platform::has_no_requests,
    abilities: ChannelCapabilities {
        max_length: 39_000,
        unit: LengthUnit::Scalars,
        edits: true,
        web_images: true,
        typing_interval: Duration::from_secs(20),
    },
    open,
};

fn open(options: &Options, around: ChannelContext) -> Result<Arc<dyn Channel>, String> {
    Ok(Arc::new(SlackChannel::new(SlackSettings::read(options)?, around)))
}

pub(crate) struct SlackChannel {
    settings: SlackSettings,
    api: SlackApi,
    context: ChannelContext,
    /// The command names, for those typed with `!`.
    commands: Vec<String>,
    names: SlackNames,
    threads: SlackThreads,
    spool: Spool,
}

impl SlackChannel {
    fn new(settings: SlackSettings, context: ChannelContext) -> Self {
        let api = SlackApi {
            client: context.client.clone(),
            clock: context.clock.clone(),
            base: settings.base.clone(),
            token: settings.bot_token.clone(),
        };
        let mut commands: Vec<String> = context.commands.iter().map(|command| command.name.clone()).collect();
        commands.extend(["compact", "reset"].map(str::to_owned));
        Self {
            settings,
            api,
            context,
            commands,
            names: SlackNames::default(),
            threads: SlackThreads::default(),
            spool: Spool::default(),
        }
    }

    /// Requests the bot's ids; the first call also checks the token.
    async fn fetch_identity(&self) -> Result<SlackIdentity, ChannelError> {
        let answer = self.api.call("auth.test", MethodArguments::Json(&json!({}))).await?;
        let text = |key: &str| answer.get(key).and_then(Value::as_str).map(str::to_owned);
        let user =
            text("user_id").ok_or_else(|| ChannelError::Refused("auth.test: no user came".to_owned()))?;
        Ok(SlackIdentity { user, bot: text("bot_id") })
    }

    async fn run(&self, intake: &dyn Intake, cancel: &Cancel) -> Result<(), ChannelError> {
        let own = self.fetch_identity().await?;
        self.threads.load(&*self.context.host);
        let (deferred, queue) = unbounded_channel();
        for left in self.spool.left_over(&*self.context.host) {
            // The receiver still exists.
            deferred.send(left).ok();
        }
        let line =
            SocketContext { slack: self, identity: own, intake, cancel, deferred, open: AtomicUsize::new(0) };
        let connections = try_join_all((0..self.settings.connections).map(|_| line.keep_open()));
        tokio::select! {
            ended = connections => ended.map(|_| ()),
            // Ends only when cancelled.
            () = line.process_deferred(queue) => Ok(()),
        }
    }

    async fn react(&self, place: &ChatAddress, message: &str, method: &str, name: &str) {
        let body = json!({"channel": place.chat_id, "timestamp": message, "name": name});
        if let Err(failure) = self.api.call(method, MethodArguments::Json(&body)).await {
            tracing::debug!(code = failure.code, method, "a reaction was not set");
        }
    }
}

impl Channel for SlackChannel {
    fn platform(&self) -> &str {
        PLATFORM.name
    }

    fn capabilities(&self) -> ChannelCapabilities {
        PLATFORM.abilities
    }

    fn check(&self) -> BoxFuture<'_, Result<(), ChannelError>> {
        Box::pin(async { self.fetch_identity().await.map(drop) })
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
        _: Timestamp,
    ) -> BoxFuture<'a, Result<DeliveryReceipt, ChannelError>> {
        Box::pin(self.deliver_again(reply))
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
            let Some(thread) = &place.thread_id else { return };
            let body = json!({"channel_id": place.chat_id, "thread_ts": thread, "status": "is thinking..."});
            // The status is optional: apps without the scope cannot set it.
            self.api.call("assistant.threads.setStatus", MethodArguments::Json(&body)).await.ok();
        })
    }

    fn show_message_status<'a>(
        &'a self,
        place: &'a ChatAddress,
        message: &'a str,
        mark: MessageStatus,
    ) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            if !self.settings.reactions {
                return;
            }
            let done = match mark {
                MessageStatus::Processing => {
                    return self.react(place, message, "reactions.add", "eyes").await;
                }
                MessageStatus::Answered => "white_check_mark",
                MessageStatus::Failed => "x",
            };
            self.react(place, message, "reactions.remove", "eyes").await;
            self.react(place, message, "reactions.add", done).await;
        })
    }
}
