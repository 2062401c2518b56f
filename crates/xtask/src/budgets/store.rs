//! The store under load: 100,000 messages in 2,000 sessions, of words as frequent as in real talk.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use hermes_store::{NewMessage, NewSession, SearchScope, SessionFilter, Store};
use hermes_text::SearchQuery;
use hermes_types::{Message, SessionId, Timestamp, WallClock};

use super::Measurement;

const SESSIONS: u32 = 2_000;
const MESSAGES: u32 = 100_000;
const ONE_BY_ONE: u32 = 5_000;
const ASKED: u32 = 300;

pub(crate) fn measure() -> Result<Vec<Measurement>> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("state.db");
    let store = Store::open(&path)?;
    let mut words = TextGenerator::new();
    let clock = WallClock::default();

    for session in 0..SESSIONS {
        let new = NewSession::new(session_id(session), "cli", Timestamp(f64::from(session)));
        store.create_session(new).wait()?;
    }
    let began = clock.monotonic();
    for number in 0..ONE_BY_ONE {
        store.append(&session_id(number % SESSIONS), message(&mut words, number)).wait()?;
    }
    let one_by_one = rate(ONE_BY_ONE, clock.monotonic().saturating_sub(began));

    // Many callers waiting at once, as in a busy gateway: each append is answered on its own.
    let batch: Vec<_> = (ONE_BY_ONE..MESSAGES).map(|number| (number, message(&mut words, number))).collect();
    let began = clock.monotonic();
    let waiting: Vec<_> = batch
        .into_iter()
        .map(|(number, message)| store.append(&session_id(number % SESSIONS), message))
        .collect();
    for pending in waiting {
        pending.wait()?;
    }
    let many = rate(MESSAGES - ONE_BY_ONE, clock.monotonic().saturating_sub(began));

    let mut all = Vec::new();
    let mut ask = |query: &dyn Fn(u32) -> String| -> Result<f64> {
        let mut times = Vec::new();
        for number in 0..ASKED {
            let query = SearchQuery::sanitise(&query(number)).context("empty query")?;
            let scope =
                SearchScope { exclude_sources: vec!["tool".into()], limit: 50, ..SearchScope::default() };
            let began = clock.monotonic();
            store.search(query, scope).wait()?;
            times.push(milliseconds(clock.monotonic().saturating_sub(began)));
        }
        all.extend_from_slice(&times);
        Ok(percentile(&mut times, 0.5))
    };
    let rare = ask(&|number| format!("unique{number}"))?;
    // Words that stand in about a tenth and a twentieth of all messages; the ten below in a third to almost all.
    let common = ask(&|number| {
        format!("{} {}", TextGenerator::nth(50 + number % 20), TextGenerator::nth(120 + number % 20))
    })?;
    let most_common = ask(&|number| TextGenerator::nth(number % 10))?;
    let p99 = percentile(&mut all, 0.99);

    store.close().wait()?;
    let megabytes = megabytes(&path)?;
    let listing = measure_listing(folder.path())?;
    Ok(vec![
        Measurement { name: "search p50, rare word", value: rare },
        Measurement { name: "search p50, two common words", value: common },
        Measurement { name: "search p50, most common word", value: most_common },
        Measurement { name: "search p99, all kinds", value: p99 },
        Measurement { name: "appends, one by one", value: one_by_one },
        Measurement { name: "appends, many waiting", value: many },
        Measurement { name: "database, 100000 messages", value: megabytes },
        Measurement { name: "list 20 of 50000 sessions, p99", value: listing },
    ])
}

fn measure_listing(folder: &Path) -> Result<f64> {
    let store = Store::open(&folder.join("many.db"))?;
    let clock = WallClock::default();
    let waiting: Vec<_> = (0..50_000)
        .map(|number| {
            store.create_session(NewSession::new(session_id(number), "cli", Timestamp(f64::from(number))))
        })
        .collect();
    for pending in waiting {
        pending.wait()?;
    }
    let mut times = Vec::new();
    for _ in 0..ASKED {
        let began = clock.monotonic();
        store.list_sessions(SessionFilter::default(), 20).wait()?;
        times.push(milliseconds(clock.monotonic().saturating_sub(began)));
    }
    Ok(percentile(&mut times, 0.99))
}

fn session_id(number: u32) -> SessionId {
    SessionId::new(format!("20260101_000000_{number:06x}"))
}

fn message(words: &mut TextGenerator, number: u32) -> NewMessage {
    let mut text = format!("unique{number} ");
    text.push_str(&words.sentence(60));
    NewMessage::new(Message::user(text), Timestamp(f64::from(number)))
}

/// Words by Zipf's law from a fixed seed: the tenth most common is a tenth as common as the first.
struct TextGenerator(u64);

impl TextGenerator {
    const KNOWN: u32 = 20_000;

    fn new() -> Self {
        Self(0x9e37_79b9_7f4a_7c15)
    }

    fn nth(rank: u32) -> String {
        format!("w{rank}")
    }

    fn sentence(&mut self, length: usize) -> String {
        (0..length).map(|_| self.next_word()).collect::<Vec<_>>().join(" ")
    }

    fn next_word(&mut self) -> String {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        #[expect(clippy::cast_precision_loss, reason = "32 random bits fit")]
        let uniform = (self.0 >> 32) as f64 / f64::from(u32::MAX);
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "between 0 and the vocabulary"
        )]
        let rank = (f64::from(Self::KNOWN).powf(uniform) - 1.0) as u32;
        Self::nth(rank)
    }
}

fn rate(count: u32, span: Duration) -> f64 {
    f64::from(count) / span.as_secs_f64().max(1e-9)
}

fn milliseconds(span: Duration) -> f64 {
    span.as_secs_f64() * 1e3
}

fn percentile(values: &mut [f64], share: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "an index"
    )]
    let at = ((values.len() as f64 - 1.0) * share).round() as usize;
    values.get(at).copied().unwrap_or_default()
}

fn megabytes(path: &Path) -> Result<f64> {
    #[expect(clippy::cast_precision_loss, reason = "a file size for people")]
    let bytes = std::fs::metadata(path)?.len() as f64;
    Ok(bytes / 1e6)
}
