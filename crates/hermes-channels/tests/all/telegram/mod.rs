//! The Telegram channel against an emulated Bot API.

mod inbound;
mod outbound;
mod peer;
mod polling;
mod webhook;

use std::sync::Arc;
use std::time::Duration;

use hermes_testkit::TestClock;
use hermes_testkit::telegram::Telegram;
use hermes_types::{ChatKind, Clock, Piece, Place, Reply};
use serde_json::{Value, json};

use crate::bench::{self, Inbox, Memory, Running};

const TOKEN: &str = "42:secret-token_0";
const ALICE: i64 = 7;
const GROUP: i64 = -100_500;

/// A bot under test and the Telegram it talks to.
struct Bench {
    telegram: Telegram,
    clock: TestClock,
    bot: Running,
}

impl Bench {
    /// A bot with these settings, and Alice.
    fn new(variables: &[(&str, &str)]) -> Self {
        Self::with(Telegram::start(TOKEN).unwrap(), variables, json!({}), &Memory::new(), &Arc::default())
    }

    fn with(
        telegram: Telegram,
        variables: &[(&str, &str)],
        extra: Value,
        host: &Arc<Memory>,
        inbox: &Arc<Inbox>,
    ) -> Self {
        telegram.person(ALICE, "Alice");
        let clock = patient_clock();
        let bot = listen(&telegram, variables, extra, host, inbox, &clock);
        Self { telegram, clock, bot }
    }
}

/// Pauses between attempts pass at once; the limits of calls do not.
fn patient_clock() -> TestClock {
    TestClock::auto_advance_up_to(Duration::from_secs(25))
}

fn listen(
    telegram: &Telegram,
    variables: &[(&str, &str)],
    extra: Value,
    host: &Arc<Memory>,
    inbox: &Arc<Inbox>,
    clock: &TestClock,
) -> Running {
    let clock: Arc<dyn Clock> = Arc::new(clock.clone());
    bench::listen("telegram", &options(&telegram.base_url(), variables, extra), host, inbox, &clock)
}

fn options(base: &str, variables: &[(&str, &str)], mut extra: Value) -> hermes_channels::Options {
    let mut all = vec![("TELEGRAM_BOT_TOKEN", TOKEN)];
    all.extend(variables);
    if let Value::Object(extra) = &mut extra {
        extra.entry("base_url").or_insert_with(|| json!(base));
    }
    bench::options(&all, extra)
}

fn dm() -> Place {
    Place::new(ChatKind::Dm, ALICE.to_string())
}

fn saying(place: &Place, text: &str) -> Reply {
    bench::reply("telegram", place, text)
}

fn sending(place: &Place, pieces: Vec<Piece>) -> Reply {
    Reply { pieces, ..saying(place, "") }
}
