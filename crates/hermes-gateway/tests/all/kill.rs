//! A gateway that is killed again and again, at any instruction, while people write to it.
//!
//! The parent plays the platform: it sends messages until they are acknowledged, accepts replies, and keeps its
//! state when the child dies. The child is this same test program, running a real gateway on a real home.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use hermes_store::{IntegrityReport, Store};
use hermes_testkit::{ModelStep, TestModel};
use hermes_types::{
    BoxFuture, Cancel, Channel, ChannelCapabilities, ChannelError, ChatAddress, ChatKind, ChatPart,
    DeliveryCertainty, DeliveryReceipt, Envelope, Intake, OutgoingMessage, Role, Sender, Timestamp,
};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::OwnedWriteHalf;
use tokio::sync::{Mutex as AsyncMutex, mpsc, oneshot};

use super::support::start_for_real;

const CHATS: u64 = 4;

/// A deterministic random number generator.
struct Random(u64);

impl Random {
    fn below(&mut self, most: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % most
    }
}

/// The state of the platform.
#[derive(Default)]
struct RecordedPlatform {
    /// Messages sent and not acknowledged, by number.
    open: BTreeMap<u64, Value>,
    acknowledged: BTreeSet<u64>,
    /// The message of each chat that waits for its answer. A chat sends the next one only after that.
    asked: BTreeMap<String, u64>,
    /// The keys of accepted replies.
    taken: BTreeSet<String>,
    /// The outcome of each message: its answers, or the notice that it was given up.
    outcomes: BTreeMap<u64, Vec<String>>,
    given_up: usize,
}

impl RecordedPlatform {
    /// Accepts a reply once; a duplicate has the same key.
    fn take(&mut self, key: &str, chat: &str, text: &str) {
        if !self.taken.insert(key.to_owned()) {
            return;
        }
        let number = if text.contains("cut off twice") {
            self.given_up += 1;
            self.asked.remove(chat)
        } else {
            let number = text.strip_prefix("done: msg").and_then(|number| number.trim().parse().ok());
            if self.asked.get(chat).copied() == number {
                self.asked.remove(chat);
            }
            number
        };
        if let Some(number) = number {
            self.outcomes.entry(number).or_default().push(text.to_owned());
        }
    }

    fn is_done(&self, messages: u64) -> bool {
        self.outcomes.len() as u64 == messages && self.asked.is_empty() && self.open.is_empty()
    }
}

fn chat_of(number: u64) -> String {
    format!("chat{}", number % CHATS)
}

fn envelope(number: u64) -> Envelope {
    let chat = chat_of(number);
    Envelope {
        platform: "fake".into(),
        platform_key: number.to_string(),
        place: ChatAddress::new(ChatKind::Dm, chat),
        sender: Sender { user_id: Some("ann".into()), ..Sender::default() },
        parts: vec![ChatPart::Text { text: format!("msg{number}") }],
        message_id: None,
        reply_to: None,
        reply_to_text: None,
        skill: None,
        quiet_ms: 0,
        received_at: Timestamp(4_000_000_000.0),
    }
}

struct GatewayChildProcess {
    child: Child,
    lines: BufReader<TcpStream>,
    out: TcpStream,
}

impl Drop for GatewayChildProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[expect(clippy::disallowed_methods, reason = "the gateway under test is a process of its own")]
fn start(home: &std::path::Path, listener: &TcpListener) -> GatewayChildProcess {
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "all::kill::the_gateway_that_is_killed", "--nocapture"])
        .env("KILL_TEST_HOME", home)
        .env("KILL_TEST_PORT", listener.local_addr().unwrap().port().to_string())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let (stream, _) = listener.accept().unwrap();
    stream.set_read_timeout(Some(Duration::from_mins(1))).unwrap();
    GatewayChildProcess { child, out: stream.try_clone().unwrap(), lines: BufReader::new(stream) }
}

/// Sends messages until the gateway has died `kills` times, and checks the results.
fn survive(seed: u64, kills: u64) {
    let folder = tempfile::tempdir().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut random = Random(seed);
    let mut platform = RecordedPlatform::default();
    let mut next = 0;
    let mut died = 0;
    loop {
        let mut running = start(folder.path(), &listener);
        // The last process is not killed, so that everything gets answered.
        let lives_for = if died < kills { 1 + random.below(14) } else { u64::MAX };
        let mut heard = 0;
        let open: Vec<Value> = platform.open.values().cloned().collect();
        for envelope in open {
            let _ = writeln!(running.out, "{}", json!({"deliver": envelope}));
        }
        loop {
            while died < kills && !platform.asked.contains_key(&chat_of(next)) {
                platform.asked.insert(chat_of(next), next);
                let value = serde_json::to_value(envelope(next)).unwrap();
                let _ = writeln!(running.out, "{}", json!({"deliver": value}));
                platform.open.insert(next, value);
                next += 1;
            }
            if died == kills && platform.is_done(next) {
                break;
            }
            let mut line = String::new();
            let read = running.lines.read_line(&mut line).unwrap_or(0);
            assert_ne!(read, 0, "seed {seed}: the gateway fell silent; waiting for {:?}", platform.asked);
            let said: Value = serde_json::from_str(&line).unwrap();
            take(&mut platform, &said, &mut running.out);
            heard += 1;
            if heard >= lives_for {
                // The kill happens somewhere between this step and the next.
                let pause = random.below(2_000);
                std::thread::sleep(Duration::from_micros(pause));
                break;
            }
        }
        drop(running);
        if died == kills {
            break;
        }
        died += 1;
    }
    check(seed, folder.path(), &platform, next);
}

/// Handles one line of the child as the platform.
fn take(platform: &mut RecordedPlatform, said: &Value, out: &mut TcpStream) {
    if let Some(number) = said["ack"].as_str().and_then(|key| key.parse().ok()) {
        platform.open.remove(&number);
        platform.acknowledged.insert(number);
    }
    if let Some(reply) = said.get("send") {
        let field = |name: &str| reply[name].as_str().unwrap_or_default();
        platform.take(field("key"), field("chat"), field("text"));
        let _ = writeln!(out, "{}", json!({"sent": reply["key"]}));
    }
}

fn check(seed: u64, home: &std::path::Path, platform: &RecordedPlatform, messages: u64) {
    println!("seed {seed}: {messages} messages, {} given up after two deaths", platform.given_up);
    assert_eq!(platform.acknowledged.len() as u64, messages, "seed {seed}");
    for number in 0..messages {
        let outcomes = platform.outcomes.get(&number).map(Vec::as_slice).unwrap_or_default();
        assert_eq!(outcomes.len(), 1, "seed {seed}: msg{number} came to {outcomes:?}");
    }
    // The database is sound, each message is in it once, and nothing is left open.
    let store = Store::open(&home.join("state.db")).unwrap();
    let health: IntegrityReport = store.check().wait().unwrap();
    assert!(health.is_sound(), "seed {seed}: {health:?}");
    assert_eq!(store.inbox_depth().wait().unwrap().waiting, 0, "seed {seed}");
    let mut said: BTreeMap<String, usize> = BTreeMap::new();
    for binding in store.bindings().wait().unwrap() {
        for row in store.transcript(&binding.session).wait().unwrap() {
            if row.message.role == Role::User {
                for word in row.message.content.text().split_whitespace() {
                    *said.entry(word.to_owned()).or_default() += 1;
                }
            }
        }
    }
    for number in 0..messages {
        assert_eq!(
            said.get(&format!("msg{number}")),
            Some(&1),
            "seed {seed}: msg{number} in the transcripts"
        );
    }
}

#[test]
fn nothing_is_lost_or_doubled_by_killing() {
    for seed in [11, 4242] {
        survive(seed, 20);
    }
}

/// Kills the gateway a thousand times; started by hand.
#[test]
#[ignore = "takes minutes; run by hand"]
fn a_thousand_kills() {
    for seed in 1..=25 {
        survive(seed * 7919, 40);
    }
}

/// Runs in the child: a gateway whose platform is the parent.
#[tokio::test]
#[ignore = "the child of the tests above"]
#[expect(clippy::disallowed_methods, reason = "the parent says where by environment")]
async fn the_gateway_that_is_killed() {
    let Ok(home) = std::env::var("KILL_TEST_HOME") else { return };
    let port: u16 = std::env::var("KILL_TEST_PORT").unwrap().parse().unwrap();
    // Each turn calls one tool, so that it can be killed midway.
    let model = TestModel::new(|_, request| {
        let asked = request.messages.iter().rposition(|message| message.role == Role::User).unwrap_or(0);
        let since = &request.messages[asked..];
        let words = since[0].content.text().into_owned();
        if since.iter().any(|message| message.role == Role::Tool) {
            ModelStep::Say(format!("done: {}", words.replace('\n', " ")))
        } else {
            ModelStep::Call("plain", "{}")
        }
    });
    let stream = tokio::net::TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    let (read, write) = stream.into_split();
    let wire = Arc::new(LineConnection { out: AsyncMutex::new(write), waiting: Mutex::default() });
    let (envelopes, incoming) = mpsc::unbounded_channel();
    let channel = Arc::new(WireChannel { wire: wire.clone(), incoming: AsyncMutex::new(incoming) });
    let gateway = start_for_real(home.as_ref(), model, channel).await;
    let mut lines = tokio::io::BufReader::new(read).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        let said: Value = serde_json::from_str(&line).unwrap();
        if let Some(envelope) = said.get("deliver") {
            let _ = envelopes.send(serde_json::from_value::<Envelope>(envelope.clone()).unwrap());
        }
        if let Some(key) = said["sent"].as_str()
            && let Some(waiting) = wire.waiting.lock().unwrap().remove(key)
        {
            let _ = waiting.send(());
        }
    }
    drop(gateway);
}

struct LineConnection {
    out: AsyncMutex<OwnedWriteHalf>,
    waiting: Mutex<BTreeMap<String, oneshot::Sender<()>>>,
}

impl LineConnection {
    async fn say(&self, value: Value) {
        let line = format!("{value}\n");
        let _ = self.out.lock().await.write_all(line.as_bytes()).await;
    }
}

struct WireChannel {
    wire: Arc<LineConnection>,
    incoming: AsyncMutex<mpsc::UnboundedReceiver<Envelope>>,
}

impl Channel for WireChannel {
    fn platform(&self) -> &'static str {
        "fake"
    }

    fn capabilities(&self) -> ChannelCapabilities {
        ChannelCapabilities::default()
    }

    fn listen<'a>(
        &'a self,
        intake: &'a dyn Intake,
        _: &'a Cancel,
    ) -> BoxFuture<'a, Result<(), ChannelError>> {
        Box::pin(async move {
            while let Some(envelope) = self.incoming.lock().await.recv().await {
                let key = envelope.platform_key.clone();
                if intake.accept(envelope).await.is_ok() {
                    self.wire.say(json!({"ack": key})).await;
                }
            }
            Ok(())
        })
    }

    fn send<'a>(
        &'a self,
        reply: &'a OutgoingMessage,
    ) -> BoxFuture<'a, Result<DeliveryReceipt, ChannelError>> {
        Box::pin(async move {
            let text = match reply.pieces.first() {
                Some(ChatPart::Text { text }) => text.clone(),
                _ => String::new(),
            };
            let (taken, done) = oneshot::channel();
            self.wire.waiting.lock().unwrap().insert(reply.idempotency_key.clone(), taken);
            let chat = &reply.place.chat_id;
            self.wire.say(json!({"send": {"key": reply.idempotency_key, "chat": chat, "text": text}})).await;
            let _ = done.await;
            Ok(DeliveryReceipt { message_ids: Vec::new(), certainty: DeliveryCertainty::Once })
        })
    }

    fn show_typing<'a>(&'a self, _: &'a ChatAddress) -> BoxFuture<'a, ()> {
        Box::pin(std::future::ready(()))
    }
}
