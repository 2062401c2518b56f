//! The Discord channel against an emulated Discord.

mod inbound;
mod interactions;
mod outbound;
mod socket;

use std::sync::Arc;
use std::time::Duration;

use hermes_task::SystemClock;
use hermes_testkit::TestClock;
use hermes_testkit::discord::{FakeDiscord, FakeDiscordId, TOKEN};
use hermes_types::{Clock, ConnectionStatus};
use serde_json::{Value, json};

use super::support::{self, ListeningChannel, MemoryHost, RecordingIntake};

/// An emulated server with a channel, and the user Ann.
struct DiscordFixture {
    discord: FakeDiscord,
    guild: FakeDiscordId,
    channel: FakeDiscordId,
    ann: FakeDiscordId,
    dm: FakeDiscordId,
    clock: Arc<dyn Clock>,
}

impl DiscordFixture {
    fn new() -> Self {
        Self::on(FakeDiscord::start().unwrap(), Arc::new(SystemClock::new()))
    }

    /// Creates a fixture whose clock skips short delays but lets time limits wait.
    fn quick() -> Self {
        Self::with_clock(Arc::new(TestClock::auto_advance_up_to(Duration::from_secs(6))))
    }

    /// Creates a fixture in which emulator and channel share a clock.
    fn with_clock(clock: Arc<dyn Clock>) -> Self {
        Self::on(FakeDiscord::builder().clock(clock.clone()).start().unwrap(), clock)
    }

    fn on(discord: FakeDiscord, clock: Arc<dyn Clock>) -> Self {
        let guild = discord.guild("Home");
        let channel = discord.channel(guild, "general");
        let ann = discord.person("ann", Some("Ann Droid"));
        let dm = discord.dm(ann);
        Self { discord, guild, channel, ann, dm, clock }
    }

    fn extra(&self) -> Value {
        json!({"base_url": self.discord.base_url()})
    }

    fn options(&self, variables: &[(&str, &str)]) -> hermes_channels::Options {
        let all: Vec<(&str, &str)> =
            [("DISCORD_BOT_TOKEN", TOKEN)].into_iter().chain(variables.iter().copied()).collect();
        support::options(&all, self.extra())
    }

    fn start(
        &self,
        variables: &[(&str, &str)],
        host: &Arc<MemoryHost>,
        inbox: &Arc<RecordingIntake>,
    ) -> ListeningChannel {
        support::listen("discord", &self.options(variables), host, inbox, &self.clock)
    }

    /// Starts the channel and waits until it is connected.
    async fn up(&self, variables: &[(&str, &str)]) -> ListeningChannel {
        let running = self.start(variables, &MemoryHost::new(), &Arc::default());
        until_up(&running, 1).await;
        running
    }

    /// Returns a message that mentions the bot.
    fn mention(&self, text: &str) -> String {
        format!("<@{}> {text}", self.discord.bot())
    }
}

/// Waits until the connection has been established this many times.
async fn until_up(running: &ListeningChannel, times: usize) {
    let mut count = 1;
    loop {
        let connections = running.inbox.until_connections(count).await;
        if connections.iter().filter(|connection| **connection == ConnectionStatus::Up).count() >= times {
            return;
        }
        count = connections.len() + 1;
    }
}
