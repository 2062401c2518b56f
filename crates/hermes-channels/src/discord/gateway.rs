//! The life of the socket: connect, identify or resume, keep alive, and connect again.
//!
//! Everything that comes in is dealt with inside this one future: in lanes, one per channel, so that a slow file does not
//! hold up other channels or the heartbeat. Invariant: what a resume claims to have received has been committed.

use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use hermes_net::{Frame, Socket};
use hermes_types::{BoxFuture, Cancel, ChannelError, Connection, Intake};
use serde::Deserialize;
use serde_json::{Value, json};

use super::connect::{End, Sequel, broken, closed, interval_of, lost, say};
use super::inbound::Trace;
use super::lanes::Lanes;
use super::session::{Progress, Session, Ticket};
use super::wire::{Interaction, Message, Payload, Ready};
use super::{Discord, Identity, NAME};
use crate::pause::Pauses;

pub(super) const FILE: &str = "discord_session.json";
/// Servers and their channels, messages in servers, direct messages, and what they say.
const INTENTS: u64 = 1 | 1 << 9 | 1 << 12 | 1 << 15;
const READY_WITHIN: Duration = Duration::from_secs(30);
/// Heartbeats notice a dead connection long before this.
const SILENCE: Duration = Duration::from_mins(10);
/// More than this is not kept in memory: Discord keeps it for a resume.
const FULL: usize = 1000;
/// How often progress is written down while there is more to do.
const SAVE_AFTER: usize = 20;
/// A connection that broke sooner is not followed by another at once.
const STEADY: Duration = Duration::from_secs(5);

/// What a frame asks for.
enum Step {
    Nothing,
    Heartbeat,
    Acknowledged,
    Up,
    End(End),
}

type Dealt = (Ticket, Vec<Trace>);

/// One `listen`.
pub(super) struct Life<'a> {
    discord: &'a Discord,
    intake: &'a dyn Intake,
    cancel: &'a Cancel,
    bot: &'a Identity,
    lanes: Lanes<'a, Dealt>,
    /// What nobody waits for.
    errands: FuturesUnordered<BoxFuture<'a, ()>>,
    progress: Progress,
    unsaved: usize,
}

impl<'a> Life<'a> {
    pub(super) fn new(
        discord: &'a Discord,
        intake: &'a dyn Intake,
        cancel: &'a Cancel,
        bot: &'a Identity,
    ) -> Self {
        let progress = Progress::read(discord.host.recall(FILE).as_ref());
        let (lanes, errands) = (Lanes::new(), FuturesUnordered::new());
        Self { discord, intake, cancel, bot, lanes, errands, progress, unsaved: 0 }
    }

    /// Runs until cancelled, or until only a person can help.
    pub(super) async fn run(mut self) -> Result<(), ChannelError> {
        self.errands.push(Box::pin(self.discord.register_commands(&self.bot.application_id)));
        let mut pauses = Pauses::new(Duration::from_millis(500), Duration::from_mins(1));
        let clock = self.discord.rest.clock.clone();
        loop {
            let began = clock.monotonic();
            let (end, was_up) = self.connection(pauses.failures()).await;
            self.save();
            let (reason, sequel, pause) = match end {
                End::Cancelled => return Ok(()),
                End::Fatal(error) => return Err(error),
                End::Broken { reason, sequel, pause } => (reason, sequel, pause),
            };
            tracing::info!(reason, "the connection to Discord ended");
            self.intake.connection(NAME, Connection::Down(reason));
            if sequel == Sequel::Anew {
                self.progress.lose_session();
            }
            let steady = was_up && clock.monotonic().saturating_sub(began) >= STEADY;
            // New sessions are counted by Discord, so those that do not last come ever more seldom.
            if steady || was_up && sequel == Sequel::Resume {
                pauses.reset();
            }
            let next = if steady { Duration::ZERO } else { pauses.next() };
            let pause = pause.unwrap_or_default().max(next);
            let cancel = self.cancel;
            let wait = async {
                tokio::select! { () = clock.sleep(pause) => {}, () = cancel.cancelled() => {} }
            };
            self.alongside(wait).await;
            self.make_room().await;
        }
    }

    /// Does something while what has come in is being dealt with.
    async fn alongside<T>(&mut self, work: impl Future<Output = T>) -> T {
        let mut work = std::pin::pin!(work);
        loop {
            tokio::select! {
                done = &mut work => return done,
                Some(dealt) = self.lanes.next() => self.settle(dealt),
                Some(()) = self.errands.next() => {}
            }
        }
    }

    /// Waits until the lanes have room for more.
    async fn make_room(&mut self) {
        while self.lanes.len() > FULL / 2 {
            tokio::select! {
                Some(dealt) = self.lanes.next() => self.settle(dealt),
                () = self.cancel.cancelled() => return,
            }
        }
    }

    /// One connection, from its beginning to its end, and whether it ever stood.
    async fn connection(&mut self, failures: u32) -> (End, bool) {
        let (discord, cancel) = (self.discord, self.cancel);
        let session = self.progress.session().cloned();
        let opening = discord.open_socket(session.as_ref().filter(|_| failures < 3), cancel);
        let socket = tokio::select! {
            opened = self.alongside(opening) => opened,
            () = cancel.cancelled() => return (End::Cancelled, false),
        };
        match socket {
            Ok(socket) => self.converse(socket).await,
            Err(end) => (end, false),
        }
    }

    async fn converse(&mut self, mut socket: Socket) -> (End, bool) {
        let clock = self.discord.rest.clock.clone();
        let mut ready_by = clock.sleep(READY_WITHIN);
        let hello = self.alongside(socket.recv(READY_WITHIN)).await;
        let interval = match hello.map(interval_of) {
            Ok(Some(interval)) => interval,
            Ok(None) => return (broken("Discord does not say hello", Sequel::Resume), false),
            Err(error) => return (lost(&error), false),
        };
        let (op, data) = self.introduction();
        if let Err(error) = say(&mut socket, op, &data).await {
            return (lost(&error), false);
        }
        let mut beat = clock.sleep(interval.mul_f64(fraction()));
        let (mut up, mut acknowledged) = (false, true);
        loop {
            let step = tokio::select! {
                frame = socket.recv(SILENCE) => match frame {
                    Ok(Some(frame)) => self.hear(frame),
                    Ok(None) => Step::End(broken("Discord closed the connection", Sequel::Resume)),
                    Err(error) => Step::End(lost(&error)),
                },
                () = &mut beat => {
                    beat = clock.sleep(interval);
                    self.save_if_changed();
                    if std::mem::replace(&mut acknowledged, false) {
                        Step::Heartbeat
                    } else {
                        Step::End(broken("Discord did not answer a heartbeat", Sequel::Resume))
                    }
                }
                () = &mut ready_by, if !up => Step::End(broken("Discord was not ready in time", Sequel::Resume)),
                Some(dealt) = self.lanes.next() => {
                    self.settle(dealt);
                    Step::Nothing
                }
                Some(()) = self.errands.next() => Step::Nothing,
            };
            match step {
                Step::Nothing => {}
                Step::Acknowledged => acknowledged = true,
                Step::Up => {
                    up = true;
                    self.intake.connection(NAME, Connection::Up);
                }
                Step::Heartbeat => {
                    let position = Some(self.progress.position()).filter(|position| *position > 0);
                    if let Err(error) = say(&mut socket, 1, &json!(position)).await {
                        return (lost(&error), up);
                    }
                }
                Step::End(end) => return (end, up),
            }
            if self.lanes.len() >= FULL {
                return (broken("more messages wait than can be taken in", Sequel::Resume), up);
            }
        }
    }

    /// Says who this is, or where it was.
    fn introduction(&self) -> (u64, Value) {
        let token = self.discord.settings.token.expose();
        if let Some(session) = self.progress.session() {
            let seq = self.progress.position();
            return (6, json!({"token": token, "session_id": session.id, "seq": seq}));
        }
        let properties = json!({"os": std::env::consts::OS, "browser": "hermes", "device": "hermes"});
        (2, json!({"token": token, "intents": INTENTS, "properties": properties}))
    }

    fn hear(&mut self, frame: Frame) -> Step {
        let text = match frame {
            Frame::Text(text) => text,
            Frame::Close(code) => return Step::End(closed(code.map_or(0, |(code, _)| code))),
            _ => return Step::Nothing,
        };
        let Ok(payload) = serde_json::from_str::<Payload>(&text) else {
            tracing::debug!("Discord said something that is no event");
            return Step::Nothing;
        };
        match payload.op {
            0 => self.take_event(payload),
            1 => Step::Heartbeat,
            7 => Step::End(broken("Discord asks to connect again", Sequel::Resume)),
            9 if payload.d == Value::Bool(true) => {
                Step::End(broken("Discord asks to resume", Sequel::Resume))
            }
            9 => {
                // Discord asks for a pause of one to five seconds.
                let pause = Some(Duration::from_secs(1) + Duration::from_secs(4).mul_f64(fraction()));
                let reason = "Discord has forgotten the session".to_owned();
                Step::End(End::Broken { reason, sequel: Sequel::Anew, pause })
            }
            11 => Step::Acknowledged,
            _ => Step::Nothing,
        }
    }

    fn take_event(&mut self, payload: Payload) -> Step {
        let (Some(name), Some(sequence)) = (payload.t, payload.s) else { return Step::Nothing };
        if name == "READY" {
            return self.begin(&payload.d, sequence);
        }
        let Some(ticket) = self.progress.open(sequence) else {
            return if name == "RESUMED" { Step::Up } else { Step::Nothing };
        };
        match name.as_str() {
            "MESSAGE_CREATE" => {
                if let Ok(message) = Message::deserialize(&payload.d) {
                    self.queue_message(message, ticket);
                    return Step::Nothing;
                }
                tracing::warn!("a Discord message could not be read");
            }
            "INTERACTION_CREATE" => {
                if let Ok(interaction) = Interaction::deserialize(&payload.d) {
                    self.queue_interaction(interaction, ticket);
                    return Step::Nothing;
                }
                tracing::warn!("a Discord interaction could not be read");
            }
            other => self.discord.directory.learn(other, &payload.d),
        }
        self.progress.finish(ticket);
        self.unsaved += 1;
        if name == "RESUMED" { Step::Up } else { Step::Nothing }
    }

    /// A new session. What was written while there was none is asked for before anything that comes now.
    fn begin(&mut self, data: &Value, sequence: u64) -> Step {
        let Ok(ready) = Ready::deserialize(data) else {
            return Step::End(broken("Discord's greeting could not be read", Sequel::Anew));
        };
        let session = Session { id: ready.session_id, url: ready.resume_gateway_url };
        self.progress.begin(session, sequence);
        let (discord, intake, bot) = (self.discord, self.intake, self.bot);
        for (channel, last) in self.progress.channels().to_vec() {
            let ticket = self.progress.owe();
            let lane = channel.clone();
            let work = async move { (ticket, discord.catch_up(intake, bot, channel, last).await) };
            self.lanes.push(lane, Box::pin(work));
        }
        // From here on a killed process can resume; before, its first messages would be lost with it.
        self.save();
        Step::Up
    }

    fn queue_message(&mut self, message: Message, ticket: Ticket) {
        let (discord, intake, bot) = (self.discord, self.intake, self.bot);
        let lane = message.channel_id.clone();
        let work = async move { (ticket, discord.take_message(intake, bot, message).await) };
        self.lanes.push(lane, Box::pin(work));
    }

    /// Discord waits three seconds for a sign; the lane may take longer.
    fn queue_interaction(&mut self, interaction: Interaction, ticket: Ticket) {
        let (discord, intake) = (self.discord, self.intake);
        let sign = discord.acknowledge(interaction.clone()).boxed().shared();
        self.errands.push(Box::pin(sign.clone().map(drop)));
        let lane = interaction.channel_id.clone().unwrap_or_default();
        let work = async move { (ticket, discord.take_interaction(intake, interaction, sign).await) };
        self.lanes.push(lane, Box::pin(work));
    }

    fn settle(&mut self, (ticket, traces): Dealt) {
        self.progress.finish(ticket);
        for trace in traces {
            match trace {
                Trace::Talked(channel, message) => self.progress.saw(&channel, message),
                Trace::Passed(channel, message) if self.progress.knows(&channel) => {
                    self.progress.saw(&channel, message);
                }
                Trace::Passed(..) => {}
                Trace::Gone(channel) => self.progress.forget(&channel),
            }
        }
        self.unsaved += 1;
        if self.lanes.len() == 0 || self.unsaved >= SAVE_AFTER {
            self.save();
        }
    }

    fn save_if_changed(&mut self) {
        if self.unsaved > 0 {
            self.save();
        }
    }

    fn save(&mut self) {
        self.discord.host.remember(FILE, &self.progress.document());
        self.unsaved = 0;
    }
}

/// Some number from zero up to one.
fn fraction() -> f64 {
    let number = u32::from_str_radix(&hermes_types::random_hex(8), 16).unwrap_or(0);
    f64::from(number) / f64::from(u32::MAX)
}
