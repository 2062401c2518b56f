//! Slack through Socket Mode and the Web API.
//!
//! A client of our own on `hermes-net`: the libraries there are acknowledge an envelope before anybody could have written
//! it down, and bring an HTTP stack of their own.

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
    Abilities, BoxFuture, Cancel, Channel, ChannelError, Intake, LengthUnit, Mark, Place, Receipt, Reply,
    Timestamp,
};
use serde_json::{Value, json};
use tokio::sync::mpsc::unbounded_channel;

use self::api::{Api, Arguments};
use self::inbound::Own;
use self::names::Names;
use self::settings::Settings;
use self::socket::Line;
use self::spool::{Spool, Threads};
use crate::host::Surroundings;
use crate::options::Options;
use crate::platform::{Platform, Variable, VariableKind};

pub(crate) const PLATFORM: Platform = Platform {
    name: "slack",
    label: "Slack",
    guide: include_str!("guide.txt"),
    variables: &[
        Variable {
            name: "SLACK_BOT_TOKEN", words: "Bot token (xoxb-…)", kind: VariableKind::RequiredSecret
        },
        Variable {
            name: "SLACK_APP_TOKEN", words: "App token (xapp-…)", kind: VariableKind::RequiredSecret
        },
        Variable {
            name: "SLACK_ALLOWED_USERS",
            words: "Member ids that may talk to it, comma separated",
            kind: VariableKind::Optional,
        },
        Variable {
            name: "SLACK_HOME_CHANNEL",
            words: "Channel id for what comes unasked",
            kind: VariableKind::Optional,
        },
    ],
    lock: Some(("slack-app-token", "SLACK_APP_TOKEN")),
    person_is_chat: false,
    abilities: Abilities {
        limit: 39_000,
        unit: LengthUnit::Scalars,
        edits: true,
        pictures: true,
        typing_every: Duration::from_secs(20),
    },
    open,
};

fn open(options: &Options, around: Surroundings) -> Result<Arc<dyn Channel>, String> {
    Ok(Arc::new(Slack::new(Settings::read(options)?, around)))
}

pub(crate) struct Slack {
    settings: Settings,
    api: Api,
    around: Surroundings,
    /// Names of commands, for those typed with `!`.
    commands: Vec<String>,
    names: Names,
    threads: Threads,
    spool: Spool,
}

impl Slack {
    fn new(settings: Settings, around: Surroundings) -> Self {
        let api = Api {
            client: around.client.clone(),
            clock: around.clock.clone(),
            base: settings.base.clone(),
            token: settings.bot_token.clone(),
        };
        let mut commands: Vec<String> = around.commands.iter().map(|command| command.name.clone()).collect();
        commands.extend(["compact", "reset"].map(str::to_owned));
        Self {
            settings,
            api,
            around,
            commands,
            names: Names::default(),
            threads: Threads::default(),
            spool: Spool::default(),
        }
    }

    /// Who we are; the first call also tells whether the token is good.
    async fn who(&self) -> Result<Own, ChannelError> {
        let answer = self.api.call("auth.test", Arguments::Json(&json!({}))).await?;
        let text = |key: &str| answer.get(key).and_then(Value::as_str).map(str::to_owned);
        let user =
            text("user_id").ok_or_else(|| ChannelError::Refused("auth.test: no user came".to_owned()))?;
        Ok(Own { user, bot: text("bot_id") })
    }

    async fn attend(&self, intake: &dyn Intake, cancel: &Cancel) -> Result<(), ChannelError> {
        let own = self.who().await?;
        self.threads.load(&*self.around.host);
        let (deferred, queue) = unbounded_channel();
        for left in self.spool.left_over(&*self.around.host) {
            // The other end is still here.
            deferred.send(left).ok();
        }
        let line = Line { slack: self, own, intake, cancel, deferred, open: AtomicUsize::new(0) };
        let connections = try_join_all((0..self.settings.connections).map(|_| line.keep_open()));
        tokio::select! {
            ended = connections => ended.map(|_| ()),
            // Ends only when cancelled.
            () = line.work_off(queue) => Ok(()),
        }
    }

    async fn react(&self, place: &Place, message: &str, method: &str, name: &str) {
        let body = json!({"channel": place.chat_id, "timestamp": message, "name": name});
        if let Err(failure) = self.api.call(method, Arguments::Json(&body)).await {
            tracing::debug!(code = failure.code, method, "a reaction was not set");
        }
    }
}

impl Channel for Slack {
    fn platform(&self) -> &str {
        PLATFORM.name
    }

    fn abilities(&self) -> Abilities {
        PLATFORM.abilities
    }

    fn listen<'a>(
        &'a self,
        intake: &'a dyn Intake,
        cancel: &'a Cancel,
    ) -> BoxFuture<'a, Result<(), ChannelError>> {
        Box::pin(self.attend(intake, cancel))
    }

    fn send<'a>(&'a self, reply: &'a Reply) -> BoxFuture<'a, Result<Receipt, ChannelError>> {
        Box::pin(self.deliver(reply))
    }

    fn send_again<'a>(
        &'a self,
        reply: &'a Reply,
        _: Timestamp,
    ) -> BoxFuture<'a, Result<Receipt, ChannelError>> {
        Box::pin(self.deliver_again(reply))
    }

    fn post<'a>(&'a self, place: &'a Place, text: &'a str) -> BoxFuture<'a, Result<String, ChannelError>> {
        Box::pin(self.post_text(place, text))
    }

    fn edit<'a>(
        &'a self,
        place: &'a Place,
        message: &'a str,
        text: &'a str,
    ) -> BoxFuture<'a, Result<(), ChannelError>> {
        Box::pin(self.change(place, message, text))
    }

    fn show_typing<'a>(&'a self, place: &'a Place) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            let Some(thread) = &place.thread_id else { return };
            let body = json!({"channel_id": place.chat_id, "thread_ts": thread, "status": "is thinking..."});
            // A courtesy: apps without the scope go without it.
            self.api.call("assistant.threads.setStatus", Arguments::Json(&body)).await.ok();
        })
    }

    fn mark<'a>(&'a self, place: &'a Place, message: &'a str, mark: Mark) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            if !self.settings.reactions {
                return;
            }
            let done = match mark {
                Mark::Seen => return self.react(place, message, "reactions.add", "eyes").await,
                Mark::Answered => "white_check_mark",
                Mark::Failed => "x",
            };
            self.react(place, message, "reactions.remove", "eyes").await;
            self.react(place, message, "reactions.add", done).await;
        })
    }
}
