//! The Telegram channel against an emulated Bot API.

mod inbound;
mod outbound;
mod peer;
mod polling;
mod webhook;

use std::sync::Arc;
use std::time::Duration;

use hermes_testkit::TestClock;
use hermes_testkit::telegram::FakeTelegram;
use hermes_types::{ChatAddress, ChatKind, ChatPart, Clock, OutgoingMessage};
use serde_json::{Value, json};

use crate::support::{self, ListeningChannel, MemoryHost, RecordingIntake};

const TOKEN: &str = "42:secret-token_0";
const ALICE: i64 = 7;
const GROUP: i64 = -100_500;

/// A bot under test and the emulated Telegram.
struct TelegramFixture {
    telegram: FakeTelegram,
    clock: TestClock,
    bot: ListeningChannel,
}

impl TelegramFixture {
    /// Creates a bot with these settings, and the user Alice.
    fn new(variables: &[(&str, &str)]) -> Self {
        Self::with(
            FakeTelegram::start(TOKEN).unwrap(),
            variables,
            json!({}),
            &MemoryHost::new(),
            &Arc::default(),
        )
    }

    fn with(
        telegram: FakeTelegram,
        variables: &[(&str, &str)],
        extra: Value,
        host: &Arc<MemoryHost>,
        inbox: &Arc<RecordingIntake>,
    ) -> Self {
        telegram.person(ALICE, "Alice");
        let clock = patient_clock();
        let bot = listen(&telegram, variables, extra, host, inbox, &clock);
        Self { telegram, clock, bot }
    }
}

/// Returns a clock that skips delays between attempts but not the time limits of calls.
fn patient_clock() -> TestClock {
    TestClock::auto_advance_up_to(Duration::from_secs(25))
}

fn listen(
    telegram: &FakeTelegram,
    variables: &[(&str, &str)],
    extra: Value,
    host: &Arc<MemoryHost>,
    inbox: &Arc<RecordingIntake>,
    clock: &TestClock,
) -> ListeningChannel {
    let clock: Arc<dyn Clock> = Arc::new(clock.clone());
    support::listen("telegram", &options(&telegram.base_url(), variables, extra), host, inbox, &clock)
}

fn options(base: &str, variables: &[(&str, &str)], mut extra: Value) -> hermes_channels::Options {
    let mut all = vec![("TELEGRAM_BOT_TOKEN", TOKEN)];
    all.extend(variables);
    if let Value::Object(extra) = &mut extra {
        extra.entry("base_url").or_insert_with(|| json!(base));
    }
    support::options(&all, extra)
}

fn dm() -> ChatAddress {
    ChatAddress::new(ChatKind::Dm, ALICE.to_string())
}

fn saying(place: &ChatAddress, text: &str) -> OutgoingMessage {
    support::reply("telegram", place, text)
}

fn sending(place: &ChatAddress, pieces: Vec<ChatPart>) -> OutgoingMessage {
    OutgoingMessage { pieces, ..saying(place, "") }
}
