//! Discord: its gateway for what comes in, its REST API for what goes out.
//!
//! Translates between Discord's wire and envelopes. Does not decide who may speak, and does not hold voice calls.
//! Invariants: an event counts as received only when what it said is committed; a reply has the same nonce at each
//! attempt, so that a second one does not become a second message.

mod commands;
mod connect;
mod directory;
mod files;
mod gate;
mod gateway;
mod inbound;
mod lanes;
mod limits;
mod memory;
mod outbound;
mod rest;
mod session;
mod settings;
mod table;
mod threads;
mod wire;

use std::sync::Arc;
use std::time::Duration;

use hermes_types::{
    Abilities, BoxFuture, Cancel, Channel, ChannelError, Connection, Intake, LengthUnit, Mark, Place,
    Receipt, Reply, Timestamp,
};
use serde_json::{Value, json};

use crate::host::{Host, MenuCommand, Surroundings};
use crate::options::Options;
use crate::pause::Pauses;
use crate::platform::{Platform, Variable, VariableKind};
use directory::Directory;
use gateway::Life;
use memory::{Pressed, Recent};
use rest::{Failure, Rest};
use settings::Settings;
use threads::Threads;

const NAME: &str = "discord";
/// Fences around two tables, which are put in after a text was split.
const ROOM_FOR_FENCES: usize = 16;

pub(crate) const PLATFORM: Platform = Platform {
    name: NAME,
    label: "Discord",
    guide: include_str!("guide.md"),
    variables: &[
        Variable { name: "DISCORD_BOT_TOKEN", words: "The bot's token", kind: VariableKind::RequiredSecret },
        Variable {
            name: "DISCORD_ALLOWED_USERS",
            words: "Who may talk to it: user ids or names, with commas between them",
            kind: VariableKind::Optional,
        },
        Variable {
            name: "DISCORD_HOME_CHANNEL",
            words: "The id of the channel for what comes unasked",
            kind: VariableKind::Optional,
        },
    ],
    lock: Some(("discord-bot-token", "DISCORD_BOT_TOKEN")),
    person_is_chat: false,
    abilities: Abilities {
        limit: outbound::LONGEST - ROOM_FOR_FENCES,
        unit: LengthUnit::Scalars,
        edits: true,
        pictures: true,
        typing_every: Duration::from_secs(8),
    },
    open,
};

fn open(options: &Options, surroundings: Surroundings) -> Result<Arc<dyn Channel>, String> {
    let settings = Settings::read(options)?;
    let Surroundings { client, clock, host, commands } = surroundings;
    let rest = Rest::new(client, clock, settings.api.clone(), &settings.token);
    let threads = Threads::load(host.clone());
    Ok(Arc::new(Discord {
        settings,
        rest,
        threads,
        host,
        commands,
        directory: Directory::default(),
        recent: Recent::default(),
        pressed: Pressed::default(),
    }))
}

struct Discord {
    settings: Settings,
    rest: Rest,
    host: Arc<dyn Host>,
    commands: Arc<[MenuCommand]>,
    directory: Directory,
    threads: Threads,
    recent: Recent,
    pressed: Pressed,
}

/// Who the bot is to Discord.
struct Identity {
    user_id: String,
    application_id: String,
}

impl Discord {
    /// Asks who this is, which also shows whether the token is good. Trouble on the way is waited out.
    async fn sign_in(&self, intake: &dyn Intake) -> Result<Identity, ChannelError> {
        let mut pauses = Pauses::new(Duration::from_secs(1), Duration::from_mins(1));
        loop {
            match self.identity().await {
                Ok(identity) => return Ok(identity),
                Err(Failure::Later { after, reason, .. }) => {
                    intake.connection(NAME, Connection::Down(reason));
                    self.rest.clock.sleep(after.unwrap_or_else(|| pauses.next())).await;
                }
                Err(failure) => return Err(failure.into()),
            }
        }
    }

    async fn identity(&self) -> Result<Identity, Failure> {
        let id = |object: &Value| object.get("id").and_then(Value::as_str).unwrap_or_default().to_owned();
        let user_id = id(&self.rest.get("/users/@me").await?);
        let application = match self.rest.get("/applications/@me").await {
            Err(Failure::Refused { .. }) => self.rest.get("/oauth2/applications/@me").await,
            other => other,
        };
        Ok(Identity { user_id, application_id: id(&application?) })
    }
}

impl Channel for Discord {
    fn platform(&self) -> &str {
        NAME
    }

    fn abilities(&self) -> Abilities {
        PLATFORM.abilities
    }

    fn listen<'a>(
        &'a self,
        intake: &'a dyn Intake,
        cancel: &'a Cancel,
    ) -> BoxFuture<'a, Result<(), ChannelError>> {
        Box::pin(async move {
            let identity = tokio::select! {
                identity = self.sign_in(intake) => identity?,
                () = cancel.cancelled() => return Ok(()),
            };
            Life::new(self, intake, cancel, &identity).run().await
        })
    }

    fn send<'a>(&'a self, reply: &'a Reply) -> BoxFuture<'a, Result<Receipt, ChannelError>> {
        Box::pin(self.send_reply(reply))
    }

    fn send_again<'a>(
        &'a self,
        reply: &'a Reply,
        since: Timestamp,
    ) -> BoxFuture<'a, Result<Receipt, ChannelError>> {
        Box::pin(self.send_reply_again(reply, since))
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
        Box::pin(self.edit_text(place, message, text))
    }

    fn show_typing<'a>(&'a self, place: &'a Place) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            let Ok(channel) = outbound::target(place) else { return };
            if let Err(failure) = self.rest.post(&format!("/channels/{channel}/typing"), json!({})).await {
                tracing::debug!(%failure, "nobody sees that the bot is busy");
            }
        })
    }

    fn mark<'a>(&'a self, place: &'a Place, message: &'a str, mark: Mark) -> BoxFuture<'a, ()> {
        Box::pin(self.put_mark(place, message, mark))
    }

    fn chats(&self) -> BoxFuture<'_, Vec<Place>> {
        Box::pin(async move {
            self.visible_chats().await.unwrap_or_else(|failure| {
                tracing::debug!(%failure, "Discord's channels could not be listed");
                Vec::new()
            })
        })
    }
}
