//! The gateway connection: connect, identify or resume, send heartbeats, and reconnect.
//!
//! All events are handled inside this one future, in one queue per channel, so that a slow download does not delay
//! other channels or the heartbeat. Invariant: every event a resume claims to have received has been committed.

use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use hermes_net::{SocketFrame, WebSocket};
use hermes_types::{BoxFuture, Cancel, ChannelError, ConnectionStatus, Intake};
use serde::Deserialize;
use serde_json::{Value, json};

use super::connect::{
    ConnectionEnd, ReconnectMode, broken, broken_by, end_for_close_code, heartbeat_interval, send_frame,
};
use super::inbound::ChannelActivity;
use super::keyed_queues::KeyedQueues;
use super::session::{EventTicket, GatewayProgress, GatewaySession};
use super::wire::{DiscordInteraction, DiscordMessage, GatewayPayload, ReadyEvent};
use super::{DiscordChannel, DiscordIdentity, NAME};
use crate::backoff::Backoff;

pub(super) const FILE: &str = "discord_session.json";
/// The events to receive: servers and channels, messages in servers, direct messages, and message contents.
const INTENTS: u64 = 1 | 1 << 9 | 1 << 12 | 1 << 15;
const READY_TIMEOUT: Duration = Duration::from_secs(30);
/// Limits the time without a frame; heartbeats detect a dead connection long before this.
const SILENCE: Duration = Duration::from_mins(10);
/// Limits the events in memory; Discord keeps further ones for a resume.
const MAX_QUEUED_EVENTS: usize = 1000;
/// The number of finished events after which progress is saved while more are queued.
const SAVE_AFTER: usize = 20;
/// The connection time below which a reconnect is delayed.
const MIN_STABLE_TIME: Duration = Duration::from_secs(5);

/// The action a frame requires.
enum FrameAction {
    Nothing,
    Heartbeat,
    Acknowledged,
    Ready,
    End(ConnectionEnd),
}

type HandledEvent = (EventTicket, Vec<ChannelActivity>);

/// The state of one `listen` call.
pub(super) struct GatewayListener<'a> {
    discord: &'a DiscordChannel,
    intake: &'a dyn Intake,
    cancel: &'a Cancel,
    bot: &'a DiscordIdentity,
    queues: KeyedQueues<'a, HandledEvent>,
    /// Work that nothing waits for.
    background: FuturesUnordered<BoxFuture<'a, ()>>,
    progress: GatewayProgress,
    unsaved: usize,
}

impl<'a> GatewayListener<'a> {
    pub(super) fn new(
        discord: &'a DiscordChannel,
        intake: &'a dyn Intake,
        cancel: &'a Cancel,
        bot: &'a DiscordIdentity,
    ) -> Self {
        let progress = GatewayProgress::from_document(discord.host.load_document(FILE).as_ref());
        let (queues, background) = (KeyedQueues::new(), FuturesUnordered::new());
        Self { discord, intake, cancel, bot, queues, background, progress, unsaved: 0 }
    }

    /// Runs until cancelled, or until a failure that only the user can fix.
    pub(super) async fn run(mut self) -> Result<(), ChannelError> {
        self.background.push(Box::pin(self.discord.register_commands(&self.bot.application_id)));
        let mut pauses = Backoff::new(Duration::from_millis(500), Duration::from_mins(1));
        let clock = self.discord.api.clock.clone();
        loop {
            let began = clock.monotonic();
            let (end, was_up) = self.run_connection(pauses.failures()).await;
            self.save();
            let (reason, sequel, pause) = match end {
                ConnectionEnd::Cancelled => return Ok(()),
                ConnectionEnd::Fatal(error) => return Err(error),
                ConnectionEnd::Broken { reason, reconnect: sequel, pause } => (reason, sequel, pause),
            };
            tracing::info!(reason, "the connection to Discord ended");
            self.intake.report_connection(NAME, ConnectionStatus::Down(reason));
            if sequel == ReconnectMode::NewSession {
                self.progress.lose_session();
            }
            let steady = was_up && clock.monotonic().saturating_sub(began) >= MIN_STABLE_TIME;
            // Discord limits new sessions, so sessions that do not last are started less and less often.
            if steady || was_up && sequel == ReconnectMode::Resume {
                pauses.reset();
            }
            let next = if steady { Duration::ZERO } else { pauses.next() };
            let pause = pause.unwrap_or_default().max(next);
            let cancel = self.cancel;
            let wait = async {
                tokio::select! { () = clock.sleep(pause) => {}, () = cancel.cancelled() => {} }
            };
            self.run_alongside_work(wait).await;
            self.wait_for_capacity().await;
        }
    }

    /// Runs a future while queued events are processed.
    async fn run_alongside_work<T>(&mut self, work: impl Future<Output = T>) -> T {
        let mut work = std::pin::pin!(work);
        loop {
            tokio::select! {
                done = &mut work => return done,
                Some(dealt) = self.queues.next() => self.record_handled(dealt),
                Some(()) = self.background.next() => {}
            }
        }
    }

    /// Waits until the queues have room for more.
    async fn wait_for_capacity(&mut self) {
        while self.queues.len() > MAX_QUEUED_EVENTS / 2 {
            tokio::select! {
                Some(dealt) = self.queues.next() => self.record_handled(dealt),
                () = self.cancel.cancelled() => return,
            }
        }
    }

    /// Runs one connection; returns how it ended and whether it was ever ready.
    async fn run_connection(&mut self, failures: u32) -> (ConnectionEnd, bool) {
        let (discord, cancel) = (self.discord, self.cancel);
        let session = self.progress.session().cloned();
        let opening = discord.open_socket(session.as_ref().filter(|_| failures < 3), cancel);
        let socket = tokio::select! {
            opened = self.run_alongside_work(opening) => opened,
            () = cancel.cancelled() => return (ConnectionEnd::Cancelled, false),
        };
        match socket {
            Ok(socket) => self.run_socket(socket).await,
            Err(end) => (end, false),
        }
    }

    async fn run_socket(&mut self, mut socket: WebSocket) -> (ConnectionEnd, bool) {
        let clock = self.discord.api.clock.clone();
        let mut ready_by = clock.sleep(READY_TIMEOUT);
        let hello = self.run_alongside_work(socket.recv(READY_TIMEOUT)).await;
        let interval = match hello.map(heartbeat_interval) {
            Ok(Some(interval)) => interval,
            Ok(None) => return (broken("Discord does not say hello", ReconnectMode::Resume), false),
            Err(error) => return (broken_by(&error), false),
        };
        let (op, data) = self.identify_or_resume();
        if let Err(error) = send_frame(&mut socket, op, &data).await {
            return (broken_by(&error), false);
        }
        let mut beat = clock.sleep(interval.mul_f64(random_fraction()));
        let (mut up, mut acknowledged) = (false, true);
        loop {
            let step = tokio::select! {
                frame = socket.recv(SILENCE) => match frame {
                    Ok(Some(frame)) => self.handle_frame(frame),
                    Ok(None) => FrameAction::End(broken("Discord closed the connection", ReconnectMode::Resume)),
                    Err(error) => FrameAction::End(broken_by(&error)),
                },
                () = &mut beat => {
                    beat = clock.sleep(interval);
                    self.save_if_changed();
                    if std::mem::replace(&mut acknowledged, false) {
                        FrameAction::Heartbeat
                    } else {
                        FrameAction::End(broken("Discord did not answer a heartbeat", ReconnectMode::Resume))
                    }
                }
                () = &mut ready_by, if !up => FrameAction::End(broken("Discord was not ready in time", ReconnectMode::Resume)),
                Some(dealt) = self.queues.next() => {
                    self.record_handled(dealt);
                    FrameAction::Nothing
                }
                Some(()) = self.background.next() => FrameAction::Nothing,
            };
            match step {
                FrameAction::Nothing => {}
                FrameAction::Acknowledged => acknowledged = true,
                FrameAction::Ready => {
                    up = true;
                    self.intake.report_connection(NAME, ConnectionStatus::Up);
                }
                FrameAction::Heartbeat => {
                    let position = Some(self.progress.position()).filter(|position| *position > 0);
                    if let Err(error) = send_frame(&mut socket, 1, &json!(position)).await {
                        return (broken_by(&error), up);
                    }
                }
                FrameAction::End(end) => return (end, up),
            }
            if self.queues.len() >= MAX_QUEUED_EVENTS {
                return (broken("more messages wait than can be taken in", ReconnectMode::Resume), up);
            }
        }
    }

    /// Builds the identify or resume message.
    fn identify_or_resume(&self) -> (u64, Value) {
        let token = self.discord.settings.token.expose();
        if let Some(session) = self.progress.session() {
            let seq = self.progress.position();
            return (6, json!({"token": token, "session_id": session.id, "seq": seq}));
        }
        let properties = json!({"os": std::env::consts::OS, "browser": "hermes", "device": "hermes"});
        (2, json!({"token": token, "intents": INTENTS, "properties": properties}))
    }

    fn handle_frame(&mut self, frame: SocketFrame) -> FrameAction {
        let text = match frame {
            SocketFrame::Text(text) => text,
            SocketFrame::Close(code) => {
                return FrameAction::End(end_for_close_code(code.map_or(0, |(code, _)| code)));
            }
            _ => return FrameAction::Nothing,
        };
        let Ok(payload) = serde_json::from_str::<GatewayPayload>(&text) else {
            tracing::debug!("Discord said something that is no event");
            return FrameAction::Nothing;
        };
        match payload.op {
            0 => self.handle_event(payload),
            1 => FrameAction::Heartbeat,
            7 => FrameAction::End(broken("Discord asks to connect again", ReconnectMode::Resume)),
            9 if payload.d == Value::Bool(true) => {
                FrameAction::End(broken("Discord asks to resume", ReconnectMode::Resume))
            }
            9 => {
                // Discord asks for a pause of one to five seconds.
                let pause = Some(Duration::from_secs(1) + Duration::from_secs(4).mul_f64(random_fraction()));
                let reason = "Discord has forgotten the session".to_owned();
                FrameAction::End(ConnectionEnd::Broken {
                    reason,
                    reconnect: ReconnectMode::NewSession,
                    pause,
                })
            }
            11 => FrameAction::Acknowledged,
            _ => FrameAction::Nothing,
        }
    }

    fn handle_event(&mut self, payload: GatewayPayload) -> FrameAction {
        let (Some(name), Some(sequence)) = (payload.t, payload.s) else { return FrameAction::Nothing };
        if name == "READY" {
            return self.start_session(&payload.d, sequence);
        }
        let Some(ticket) = self.progress.start_event(sequence) else {
            return if name == "RESUMED" { FrameAction::Ready } else { FrameAction::Nothing };
        };
        match name.as_str() {
            "MESSAGE_CREATE" => {
                if let Ok(message) = DiscordMessage::deserialize(&payload.d) {
                    self.queue_message(message, ticket);
                    return FrameAction::Nothing;
                }
                tracing::warn!("a Discord message could not be read");
            }
            "INTERACTION_CREATE" => {
                if let Ok(interaction) = DiscordInteraction::deserialize(&payload.d) {
                    self.queue_interaction(interaction, ticket);
                    return FrameAction::Nothing;
                }
                tracing::warn!("a Discord interaction could not be read");
            }
            other => self.discord.directory.apply_event(other, &payload.d),
        }
        self.progress.finish(ticket);
        self.unsaved += 1;
        if name == "RESUMED" { FrameAction::Ready } else { FrameAction::Nothing }
    }

    /// Starts a new session. Messages written while there was none are requested before new ones are handled.
    fn start_session(&mut self, data: &Value, sequence: u64) -> FrameAction {
        let Ok(ready) = ReadyEvent::deserialize(data) else {
            return FrameAction::End(broken(
                "Discord's greeting could not be read",
                ReconnectMode::NewSession,
            ));
        };
        let session = GatewaySession { id: ready.session_id, url: ready.resume_gateway_url };
        self.progress.start_session(session, sequence);
        let (discord, intake, bot) = (self.discord, self.intake, self.bot);
        for (channel, last) in self.progress.channels().to_vec() {
            let ticket = self.progress.start_catch_up();
            let lane = channel.clone();
            let work = async move { (ticket, discord.catch_up(intake, bot, channel, last).await) };
            self.queues.push(lane, Box::pin(work));
        }
        // From here on a killed process can resume; without it, the first messages would be lost.
        self.save();
        FrameAction::Ready
    }

    fn queue_message(&mut self, message: DiscordMessage, ticket: EventTicket) {
        let (discord, intake, bot) = (self.discord, self.intake, self.bot);
        let lane = message.channel_id.clone();
        let work = async move { (ticket, discord.handle_message(intake, bot, message).await) };
        self.queues.push(lane, Box::pin(work));
    }

    /// Queues an interaction. It is acknowledged at once, within Discord's three seconds; the queue may take
    /// longer.
    fn queue_interaction(&mut self, interaction: DiscordInteraction, ticket: EventTicket) {
        let (discord, intake) = (self.discord, self.intake);
        let sign = discord.acknowledge(interaction.clone()).boxed().shared();
        self.background.push(Box::pin(sign.clone().map(drop)));
        let lane = interaction.channel_id.clone().unwrap_or_default();
        let work = async move { (ticket, discord.handle_interaction(intake, interaction, sign).await) };
        self.queues.push(lane, Box::pin(work));
    }

    fn record_handled(&mut self, (ticket, traces): HandledEvent) {
        self.progress.finish(ticket);
        for trace in traces {
            match trace {
                ChannelActivity::Addressed(channel, message) => {
                    self.progress.record_message(&channel, message);
                }
                ChannelActivity::Seen(channel, message) if self.progress.is_known_channel(&channel) => {
                    self.progress.record_message(&channel, message);
                }
                ChannelActivity::Seen(..) => {}
                ChannelActivity::Removed(channel) => self.progress.forget_channel(&channel),
            }
        }
        self.unsaved += 1;
        if self.queues.len() == 0 || self.unsaved >= SAVE_AFTER {
            self.save();
        }
    }

    fn save_if_changed(&mut self) {
        if self.unsaved > 0 {
            self.save();
        }
    }

    fn save(&mut self) {
        self.discord.host.save_document(FILE, &self.progress.document());
        self.unsaved = 0;
    }
}

/// Returns a random number from zero up to one.
fn random_fraction() -> f64 {
    let number = u32::from_str_radix(&hermes_types::random_hex(8), 16).unwrap_or(0);
    f64::from(number) / f64::from(u32::MAX)
}
