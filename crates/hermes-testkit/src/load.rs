//! A load test with many clients of an API server: turns per second, and the duration of each.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use hermes_types::{Clock, WallClock};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;

use crate::RealClock;

/// The parameters of a load test.
#[derive(Debug, Clone)]
pub struct LoadTest {
    pub address: SocketAddr,
    pub key: String,
    /// The number of concurrent clients, each with its own connection.
    pub clients: usize,
    /// The total number of turns.
    pub turns: usize,
    /// The number of conversations, each with its own session; each client cycles through its share of them.
    pub conversations: usize,
    pub stream: bool,
}

/// The result of a load test.
#[derive(Debug, Clone)]
pub struct LoadReport {
    pub elapsed: Duration,
    pub failed: usize,
    /// The duration of each turn, shortest first.
    pub times: Vec<Duration>,
    /// The time to the first byte of each answer, shortest first.
    pub first_bytes: Vec<Duration>,
}

impl LoadReport {
    pub fn per_second(&self) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "a count of requests")]
        let turns = self.times.len() as f64;
        turns / self.elapsed.as_secs_f64().max(1e-9)
    }
}

/// Returns the value below which this part of the list lies.
pub fn percentile(sorted: &[Duration], part: usize) -> Duration {
    let at = (sorted.len() * part / 100).min(sorted.len().saturating_sub(1));
    sorted.get(at).copied().unwrap_or_default()
}

impl LoadTest {
    /// Runs the load test.
    pub async fn run(&self) -> LoadReport {
        let (next, clock) = (Arc::new(AtomicUsize::new(0)), WallClock::default());
        let began = clock.monotonic();
        let mut clients = tokio::task::JoinSet::new();
        for number in 0..self.clients {
            let (load, next) = (self.clone(), next.clone());
            clients.spawn(async move { client(&load, number, &next).await });
        }
        let mut loaded =
            LoadReport { elapsed: Duration::ZERO, failed: 0, times: Vec::new(), first_bytes: Vec::new() };
        while let Some(ended) = clients.join_next().await {
            let (times, firsts, failed) = ended.unwrap_or_default();
            loaded.times.extend(times);
            loaded.first_bytes.extend(firsts);
            loaded.failed += failed;
        }
        loaded.elapsed = clock.monotonic().saturating_sub(began);
        loaded.times.sort_unstable();
        loaded.first_bytes.sort_unstable();
        loaded
    }
}

/// Runs one client. Its conversations are its own, so none has two turns at once.
async fn client(load: &LoadTest, own: usize, next: &AtomicUsize) -> (Vec<Duration>, Vec<Duration>, usize) {
    let clock = RealClock::default();
    let (mut times, mut firsts, mut failed) = (Vec::new(), Vec::new(), 0);
    let mut connection = None;
    let each = load.conversations.div_ceil(load.clients.max(1)).max(1);
    for round in 0.. {
        let number = next.fetch_add(1, Ordering::Relaxed);
        if number >= load.turns {
            break;
        }
        let session = own + (round % each) * load.clients;
        let began = clock.monotonic();
        if let Some(first) = turn(load, (number, session), &mut connection, &clock).await {
            times.push(clock.monotonic().saturating_sub(began));
            firsts.push(first.saturating_sub(began));
        } else {
            failed += 1;
            connection = None;
        }
    }
    (times, firsts, failed)
}

/// Runs one turn. Returns the time of the first byte of its answer; `None` when it failed.
async fn turn(
    load: &LoadTest,
    (number, session): (usize, usize),
    connection: &mut Option<BufReader<TcpStream>>,
    clock: &RealClock,
) -> Option<Duration> {
    let stream = if let Some(stream) = connection {
        stream
    } else {
        let stream = TcpStream::connect(load.address).await.ok()?;
        let _ = stream.set_nodelay(true);
        connection.insert(BufReader::new(stream))
    };
    let body =
        format!(r#"{{"messages":[{{"role":"user","content":"turn {number}"}}],"stream":{}}}"#, load.stream);
    let request = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {}\r\nX-Hermes-Session-Id: load-{session}\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        load.key,
        body.len()
    );
    stream.write_all(request.as_bytes()).await.ok()?;
    let mut line = String::new();
    stream.read_line(&mut line).await.ok()?;
    let first = clock.monotonic();
    let good = line.contains(" 200 ");
    let (mut length, mut chunked) = (0, false);
    loop {
        line.clear();
        stream.read_line(&mut line).await.ok()?;
        let lower = line.trim().to_lowercase();
        if lower.is_empty() {
            break;
        }
        if let Some(value) = lower.strip_prefix("content-length:") {
            length = value.trim().parse().ok()?;
        }
        chunked |= lower == "transfer-encoding: chunked";
    }
    if chunked {
        read_chunks(stream).await?;
    } else {
        let mut rest = vec![0; length];
        stream.read_exact(&mut rest).await.ok()?;
    }
    good.then_some(first)
}

async fn read_chunks(stream: &mut BufReader<TcpStream>) -> Option<()> {
    let (mut line, mut failed) = (String::new(), false);
    loop {
        line.clear();
        stream.read_line(&mut line).await.ok()?;
        let size = usize::from_str_radix(line.trim(), 16).ok()?;
        let mut chunk = vec![0; size + 2];
        stream.read_exact(&mut chunk).await.ok()?;
        // A stream sends its status 200 first; later failures are events.
        failed |= chunk.starts_with(b"data: {\"error\"");
        if size == 0 {
            return (!failed).then_some(());
        }
    }
}
