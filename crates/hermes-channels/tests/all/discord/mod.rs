//! The Discord channel against an emulated Discord.

mod inbound;
mod interactions;
mod outbound;
mod socket;

use std::sync::Arc;
use std::time::Duration;

use hermes_task::SystemClock;
use hermes_testkit::TestClock;
use hermes_testkit::discord::{Discord, Id, TOKEN};
use hermes_types::{Clock, Connection};
use serde_json::{Value, json};

use super::bench::{self, Inbox, Memory, Running};

/// A server with a channel, and Ann.
struct Stage {
    discord: Discord,
    guild: Id,
    channel: Id,
    ann: Id,
    dm: Id,
    clock: Arc<dyn Clock>,
}

impl Stage {
    fn new() -> Self {
        Self::on(Discord::start().unwrap(), Arc::new(SystemClock::new()))
    }

    /// Short pauses pass at once; time limits stay quiet.
    fn quick() -> Self {
        Self::with_clock(Arc::new(TestClock::auto_advance_up_to(Duration::from_secs(6))))
    }

    /// The emulator and the channel go by the same clock.
    fn with_clock(clock: Arc<dyn Clock>) -> Self {
        Self::on(Discord::builder().clock(clock.clone()).start().unwrap(), clock)
    }

    fn on(discord: Discord, clock: Arc<dyn Clock>) -> Self {
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
        bench::options(&all, self.extra())
    }

    fn start(&self, variables: &[(&str, &str)], host: &Arc<Memory>, inbox: &Arc<Inbox>) -> Running {
        bench::listen("discord", &self.options(variables), host, inbox, &self.clock)
    }

    /// Starts and waits until messages come in.
    async fn up(&self, variables: &[(&str, &str)]) -> Running {
        let running = self.start(variables, &Memory::new(), &Arc::default());
        until_up(&running, 1).await;
        running
    }

    /// A message that names the bot.
    fn mention(&self, text: &str) -> String {
        format!("<@{}> {text}", self.discord.bot())
    }
}

/// Waits until the connection has stood so many times.
async fn until_up(running: &Running, times: usize) {
    let mut count = 1;
    loop {
        let connections = running.inbox.until_connections(count).await;
        if connections.iter().filter(|connection| **connection == Connection::Up).count() >= times {
            return;
        }
        count = connections.len() + 1;
    }
}
