//! What our side of a model call costs: until the request is out, and per piece of the answer.
//!
//! `cargo bench -p hermes-model`. Prints a table beside the budgets and judges nothing: a timing is no test. The server
//! is a bare socket on a thread of its own that notes when the first byte comes, so that no other code is measured.
#![expect(clippy::print_stdout, reason = "the table is what a benchmark is for")]
#![expect(clippy::expect_used, reason = "a benchmark that cannot run says so and ends")]

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use hermes_model::client::{Endpoint, FixedCredential, ModelClient, PresentedCredential, RetryPolicy};
use hermes_model::context_window::WindowOrigin;
use hermes_model::wire::{AnswerDecoder, ApiMode, StreamEnding, StreamingMode, WireOptions, build_body};
use hermes_net::{Config, HttpClient, ProxyMode};
use hermes_testkit::RealClock;
use hermes_types::{Cancel, Clock, Deadline, Delta, Message, Model, ModelRequest, RawJson, Secret, ToolSpec};
use serde_json::{Value, json};

const WARM_UP: usize = 50;
const TURNS: usize = 1_000;
const CHUNKS: usize = 10_000;
const ROUNDS: usize = 20;
const WIRES: [ApiMode; 3] = [ApiMode::Chat, ApiMode::Responses, ApiMode::Anthropic];
const FIRST_BYTE: Duration = Duration::from_millis(1);
const CHUNK: Duration = Duration::from_micros(20);

fn main() {
    // `cargo test --benches` asks for a look, not for numbers.
    if std::env::args().any(|argument| argument == "--test" || argument == "--list") {
        return;
    }
    let clock = Arc::new(RealClock::default());
    println!("{:<70} {:>9} {:>9} {:>9}", "figure", "p50", "p99", "budget");
    for mode in WIRES {
        for (what, messages) in [("1 message", 1), ("200 messages", 200)] {
            let request = request(&*clock, messages);
            let wire = WireOptions::new(mode, "custom", "http://127.0.0.1/v1");
            let size = build_body(&request, &wire, StreamingMode::Streamed).to_bytes().len() / 1024;
            let what = format!("{what}, {size} kB");
            let building = time_body(&*clock, &wire, &request);
            row(mode, &format!("body built ({what})"), building, None);
            let turns = time_turns(&clock, mode, &request);
            row(mode, &format!("call to first request byte ({what})"), turns.out, Some(FIRST_BYTE));
            row(mode, &format!("whole instant turn ({what})"), turns.whole, None);
        }
    }
    for mode in WIRES {
        let stream = stream(mode, CHUNKS);
        row(mode, "decode and sink, per chunk", time_chunks(&*clock, mode, &stream), Some(CHUNK));
        let turns = time_streams(&clock, mode, &stream);
        row(mode, "the same through socket and client, mean per chunk", turns, Some(CHUNK));
    }
}

fn row(mode: ApiMode, figure: &str, mut spans: Vec<Duration>, budget: Option<Duration>) {
    spans.sort_unstable();
    let at = |percent: usize| spans.get(spans.len() * percent / 100).copied().unwrap_or_default();
    let budget = budget.map_or_else(|| "-".to_owned(), shown);
    let figure = format!("{} {figure}", mode.as_str());
    println!("{figure:<70} {:>9} {:>9} {budget:>9}", shown(at(50)), shown(at(99)));
}

fn shown(span: Duration) -> String {
    let tenths = span.as_nanos() / 100;
    format!("{}.{} us", tenths / 10, tenths % 10)
}

fn time_body(clock: &dyn Clock, wire: &WireOptions, request: &ModelRequest) -> Vec<Duration> {
    let once = || {
        let start = clock.monotonic();
        let body = build_body(request, wire, StreamingMode::Streamed).to_bytes();
        std::hint::black_box(body);
        clock.monotonic().saturating_sub(start)
    };
    (0..TURNS).map(|_| once()).collect()
}

struct Turns {
    /// From the call to the first byte at the server.
    out: Vec<Duration>,
    whole: Vec<Duration>,
}

/// Turns of a running session: the connection is open and everything has been used before.
fn time_turns(clock: &Arc<RealClock>, mode: ApiMode, request: &ModelRequest) -> Turns {
    let server = Server::start(clock, &stream(mode, 1));
    let client = client(clock, mode, server.address);
    let mut turns = Turns { out: Vec::with_capacity(TURNS), whole: Vec::with_capacity(TURNS) };
    runtime().block_on(async {
        for turn in 0..WARM_UP + TURNS {
            let start = clock.monotonic();
            client.complete(request, &mut |delta| drop(std::hint::black_box(delta))).await.expect("a turn");
            let end = clock.monotonic();
            let arrived = server.arrivals.recv().expect("the server saw it");
            if turn >= WARM_UP {
                turns.out.push(arrived.saturating_sub(start));
                turns.whole.push(end.saturating_sub(start));
            }
        }
    });
    turns
}

/// Every chunk by itself, as if each came alone.
fn time_chunks(clock: &dyn Clock, mode: ApiMode, stream: &[Vec<u8>]) -> Vec<Duration> {
    let wire = WireOptions::new(mode, "custom", "http://127.0.0.1/v1");
    let mut spans = Vec::with_capacity(ROUNDS * stream.len());
    for _ in 0..ROUNDS {
        let mut shown = String::new();
        let sink: &mut (dyn FnMut(Delta) + Send) = &mut |delta| {
            if let Delta::Text(text) = delta {
                shown.push_str(&text);
            }
        };
        let mut decoder = AnswerDecoder::new(&wire);
        let mut deltas = Vec::new();
        for chunk in stream {
            let start = clock.monotonic();
            decoder.push(chunk, &mut deltas).expect("the stream is sound");
            deltas.drain(..).for_each(&mut *sink);
            spans.push(clock.monotonic().saturating_sub(start));
        }
        let ending = decoder.finish(&mut deltas).expect("the stream is whole");
        assert!(matches!(ending, StreamEnding::Complete(_)), "{ending:?}");
    }
    spans
}

/// A long answer that arrives as fast as the loopback lets it.
fn time_streams(clock: &Arc<RealClock>, mode: ApiMode, stream: &[Vec<u8>]) -> Vec<Duration> {
    let chunks = u32::try_from(stream.len()).unwrap_or(u32::MAX);
    let server = Server::start(clock, stream);
    let client = client(clock, mode, server.address);
    let request = request(&**clock, 1);
    runtime().block_on(async {
        let mut spans = Vec::new();
        for _ in 0..ROUNDS {
            let start = clock.monotonic();
            client.complete(&request, &mut |delta| drop(std::hint::black_box(delta))).await.expect("a turn");
            spans.push(clock.monotonic().saturating_sub(start) / chunks);
        }
        spans
    })
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime")
}

fn client(clock: &Arc<RealClock>, mode: ApiMode, server: SocketAddr) -> ModelClient {
    let mut config = Config::new(clock.clone());
    config.proxies = ProxyMode::Direct;
    let net = HttpClient::new(config).expect("a client");
    let base =
        if mode == ApiMode::Anthropic { format!("http://{server}") } else { format!("http://{server}/v1") };
    let endpoint = Endpoint {
        model: "test-model".into(),
        model_choice: hermes_model::provider::ModelChoice::Explicit,
        key_origin: None,
        wire: WireOptions::new(mode, "custom", &base),
        credentials: Arc::new(FixedCredential(PresentedCredential::Bearer(Secret::new(
            "sk-bench-0123456789abcdef",
        )))),
        context_window: 128_000,
        window_origin: WindowOrigin::Configured,
        prices: None,
        stats: Arc::default(),
    };
    ModelClient::new(net, clock.clone(), vec![endpoint], RetryPolicy::default()).expect("an endpoint")
}

fn request(clock: &dyn Clock, messages: usize) -> ModelRequest {
    let said = "Please look at the build once more and tell me what is left to do. ".repeat(7);
    let message = |at: usize| match at % 2 {
        0 => Message::user(format!("{at}: {said}")),
        _ => Message::assistant(format!("{at}: {said}")),
    };
    ModelRequest {
        model: "test-model".into(),
        system: "You are a careful assistant.".into(),
        messages: (0..messages).map(message).collect(),
        tools: (0..20).map(|at| tool(format!("tool_{at}"))).collect(),
        max_tokens: Some(4096),
        temperature: None,
        effort: None,
        session: Some("bench".into()),
        deadline: Deadline::after(clock, Duration::from_hours(1)),
        cancel: Cancel::new(),
    }
}

fn tool(name: String) -> ToolSpec {
    let command = json!({"type": "string", "description": "What to run."});
    ToolSpec {
        name,
        description: "Runs a command in the workspace and gives back what it printed.".into(),
        parameters: RawJson::from_value(&json!({"type": "object", "properties": {"command": command}})),
    }
}

/// An answer of that many pieces of text, with what each wire puts around it; one entry per chunk.
fn stream(mode: ApiMode, chunks: usize) -> Vec<Vec<u8>> {
    let piece = |at: usize| format!(" word{at}");
    let (mut before, mut after): (Vec<Value>, Vec<Value>) = Default::default();
    let delta: &dyn Fn(usize) -> Value = match mode {
        ApiMode::Chat | ApiMode::Converse => {
            after.push(json!({"id": "c", "model": "m", "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}));
            after.push(json!({"id": "c", "model": "m", "choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": chunks}}));
            &|at| {
                json!({"id": "chatcmpl-0123456789", "object": "chat.completion.chunk", "created": 1_794_740_223, "model": "test-model",
                    "choices": [{"index": 0, "delta": {"role": "assistant", "content": piece(at)}, "logprobs": null, "finish_reason": null}]})
            }
        }
        ApiMode::Responses => {
            let text: String = (0..chunks).map(piece).collect();
            let item = json!({"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [{"type": "output_text", "text": text}]});
            before.push(json!({"type": "response.created", "response": {"id": "resp_1", "model": "m"}}));
            after.push(json!({"type": "response.completed", "response": {"id": "resp_1", "status": "completed", "output": [item]}}));
            &|at| json!({"type": "response.output_text.delta", "item_id": "msg_1", "output_index": 0, "content_index": 0, "sequence_number": at, "delta": piece(at)})
        }
        ApiMode::Anthropic => {
            before.push(json!({"type": "message_start", "message": {"id": "msg_1", "model": "m", "usage": {"input_tokens": 9}}}));
            before.push(json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}));
            after.push(json!({"type": "content_block_stop", "index": 0}));
            after.push(json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": chunks}}));
            after.push(json!({"type": "message_stop"}));
            &|at| json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": piece(at)}})
        }
    };
    let deltas = (0..chunks).map(delta);
    let event = |value: Value| match value.get("type").and_then(Value::as_str) {
        Some(kind) => format!("event: {kind}\ndata: {value}\n\n").into_bytes(),
        None => format!("data: {value}\n\n").into_bytes(),
    };
    before.into_iter().chain(deltas).chain(after).map(event).collect()
}

/// Answers every request on one kept-alive connection with the same stream.
struct Server {
    address: SocketAddr,
    /// When the first byte of each request came.
    arrivals: Receiver<Duration>,
}

impl Server {
    fn start(clock: &Arc<RealClock>, stream: &[Vec<u8>]) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let address = listener.local_addr().expect("an address");
        let (tell, arrivals) = channel();
        let body = stream.concat();
        let mut answer = format!(
            "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: {}\r\n\r\n",
            body.len()
        )
        .into_bytes();
        answer.extend(body);
        let clock = clock.clone();
        // It ends with the process, or when the client hangs up.
        std::thread::spawn(move || {
            while let Ok((connection, _)) = listener.accept() {
                attend(&*clock, connection, &answer, &tell);
            }
        });
        Self { address, arrivals }
    }
}

/// Serves until the client hangs up.
fn attend(
    clock: &dyn Clock,
    mut connection: TcpStream,
    answer: &[u8],
    tell: &Sender<Duration>,
) -> Option<()> {
    connection.set_nodelay(true).ok()?;
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let mut count = connection.read(&mut buffer).ok().filter(|count| *count > 0)?;
        let arrived = clock.monotonic();
        let mut held = Vec::new();
        let mut wanted = None;
        loop {
            held.extend_from_slice(buffer.get(..count)?);
            wanted = wanted.or_else(|| length(&held));
            if wanted.is_some_and(|wanted| held.len() >= wanted) {
                break;
            }
            count = connection.read(&mut buffer).ok().filter(|count| *count > 0)?;
        }
        connection.write_all(answer).ok()?;
        tell.send(arrived).ok()?;
    }
}

/// Bytes of head and body together, once the head is there.
fn length(held: &[u8]) -> Option<usize> {
    let head = held.windows(4).position(|window| window == b"\r\n\r\n")? + 4;
    let text = std::str::from_utf8(held.get(..head)?).ok()?.to_ascii_lowercase();
    let body: usize = text.split_once("content-length:")?.1.lines().next()?.trim().parse().ok()?;
    Some(head + body)
}
