//! API requests with an idempotency key, and a gateway that is killed while it processes them.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use hermes_store::{SessionFilter, Store};
use hermes_testkit::script::ScriptedToolCall;
use hermes_testkit::{ModelScript, ScriptedReply};
use hermes_types::Role;
use rustix::process::Signal;
use serde_json::{Value, json};

use super::gateway::GatewayHome;
use super::support::until;

/// The parts of a response a client reads.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct HttpExchange {
    pub(crate) status: u16,
    pub(crate) body: String,
}

impl HttpExchange {
    /// Returns the events of a stream, or the single JSON object.
    fn objects(&self) -> Vec<Value> {
        let lines = self.body.lines().filter_map(|line| line.strip_prefix("data: "));
        let whole = [self.body.as_str()];
        let texts: Vec<&str> = if self.is_stream() { lines.collect() } else { whole.to_vec() };
        texts.into_iter().filter_map(|text| serde_json::from_str(text).ok()).collect()
    }

    fn is_stream(&self) -> bool {
        self.body.starts_with("data: ") || self.body.starts_with("event: ")
    }

    fn error(&self) -> Option<String> {
        let codes = ["/error/code", "/response/error/code"];
        self.objects().iter().find_map(|object| {
            codes.iter().find_map(|code| object.pointer(code)?.as_str().map(str::to_owned))
        })
    }

    /// Returns the text of the answer, if the response is complete.
    pub(crate) fn text(&self) -> Option<String> {
        let objects = self.objects();
        let finished = !self.is_stream()
            || self.body.contains("data: [DONE]")
            || objects.last()?["type"] == "response.completed";
        if self.status != 200 || !finished || self.error().is_some() {
            return None;
        }
        let said = |object: &Value| -> Option<String> {
            let places = ["/choices/0/delta/content", "/choices/0/message/content", "/delta"];
            if let Some(text) = places.iter().find_map(|place| object.pointer(place)?.as_str()) {
                return Some(text.to_owned());
            }
            let last = object.get("output")?.as_array()?.last()?;
            last.pointer("/content/0/text")?.as_str().map(str::to_owned)
        };
        Some(objects.iter().filter_map(said).collect())
    }
}

/// A request that its client repeats until it is answered.
struct KeyedApiRequest {
    path: &'static str,
    headers: String,
    body: Value,
}

impl KeyedApiRequest {
    fn chat(key: &str, words: &str, stream: bool) -> Self {
        let body = json!({"messages": [{"role": "user", "content": words}], "stream": stream});
        Self { path: "/v1/chat/completions", headers: format!("Idempotency-Key: {key}\r\n"), body }
    }

    fn response(key: &str, words: &str, stream: bool) -> Self {
        let body = json!({"input": words, "stream": stream});
        Self { path: "/v1/responses", headers: format!("Idempotency-Key: {key}\r\n"), body }
    }

    fn run(key: &str, words: &str) -> Self {
        let body = json!({"input": words});
        Self { path: "/v1/runs", headers: format!("Idempotency-Key: {key}\r\n"), body }
    }

    fn in_session(mut self, name: &str) -> Self {
        self.headers = format!("{}X-Hermes-Session-Id: {name}\r\n", self.headers);
        self
    }

    /// Sends the request. Returns `None` when the gateway is not running or stops in the middle.
    fn send(&self, place: &GatewayHome) -> Option<HttpExchange> {
        exchange(place, "POST", self.path, &self.headers, &self.body.to_string())
    }
}

pub(crate) fn exchange(
    place: &GatewayHome,
    method: &str,
    path: &str,
    headers: &str,
    body: &str,
) -> Option<HttpExchange> {
    let mut stream = place.send_with(method, path, headers, body)?;
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).ok()?;
    let text = String::from_utf8(bytes).ok()?;
    let (head, body) = text.split_once("\r\n\r\n")?;
    let status = head.split_whitespace().nth(1)?.parse().ok()?;
    let body = if head.to_lowercase().contains("transfer-encoding: chunked") {
        unchunk(body)?
    } else {
        let length = head.to_lowercase();
        let length = length.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
        (length == Some(body.len())).then(|| body.to_owned())?
    };
    Some(HttpExchange { status, body })
}

/// Decodes a chunked body, if its end has arrived.
fn unchunk(mut text: &str) -> Option<String> {
    let mut whole = String::new();
    loop {
        let (size, rest) = text.split_once("\r\n")?;
        let size = usize::from_str_radix(size.trim(), 16).ok()?;
        if size == 0 {
            return Some(whole);
        }
        whole.push_str(rest.get(..size)?);
        text = rest.get(size + 2..)?;
    }
}

/// Returns the user messages of all sessions, with how often each was stored.
fn written(place: &GatewayHome) -> BTreeMap<String, usize> {
    let store = Store::open(&place.home.state_db()).unwrap();
    let health = store.check().wait().unwrap();
    assert!(health.is_sound(), "{health:?}");
    let mut words = BTreeMap::new();
    for session in store.list_sessions(SessionFilter::default(), 100_000).wait().unwrap() {
        for row in store.transcript(&session.id).wait().unwrap() {
            if row.message.role == Role::User {
                *words.entry(row.message.content.text().into_owned()).or_default() += 1;
            }
        }
    }
    store.close().wait().unwrap();
    words
}

#[test]
fn an_answer_outlives_the_gateway_that_gave_it() {
    let place = GatewayHome::with(ModelScript::new().echo());
    let requests = [
        KeyedApiRequest::chat("a", "plain words", false),
        KeyedApiRequest::chat("b", "streamed words", true),
        KeyedApiRequest::response("c", "answered words", false),
        KeyedApiRequest::response("d", "answered in a stream", true),
    ];
    let running = place.start();
    let before: Vec<String> = requests.iter().map(|r| r.send(&place).unwrap().text().unwrap()).collect();
    assert_eq!(before, ["plain words", "streamed words", "answered words", "answered in a stream"]);
    running.kill();
    let _running = place.start();
    let after: Vec<String> = requests.iter().map(|r| r.send(&place).unwrap().text().unwrap()).collect();
    assert_eq!(after, before);
    place.server.assert_requests(4);
    let other = KeyedApiRequest::chat("a", "other words", false).send(&place).unwrap();
    assert_eq!(other.text().unwrap(), "other words", "another request under the same key is run");
}

/// Kills the gateway while the request waits at the gate, `times` times.
fn cut_off(place: &GatewayHome, request: &KeyedApiRequest, gate: &str, times: usize) {
    for time in 1..=times {
        let running = place.start();
        std::thread::scope(|scope| {
            let client = scope.spawn(|| request.send(place));
            place.server.wait_for_requests_blocking(time);
            place.server.wait_until_at_blocking(gate, 1);
            running.kill();
            assert!(client.join().unwrap().is_none_or(|heard| heard.text().is_none()));
        });
    }
}

#[test]
fn a_turn_that_was_cut_off_is_gone_on_with_once_by_its_repeat() {
    let gated = |words: &str| {
        let gate = ScriptedReply::new().wait("gate").then_text("too late").when_user_contains(words);
        [gate, ScriptedReply::text(format!("done: {words}")).when_user_contains(words)]
    };
    for make in [
        |key: &str, words: &str| KeyedApiRequest::chat(key, words, false),
        |key: &str, words: &str| KeyedApiRequest::chat(key, words, true),
        |key: &str, words: &str| KeyedApiRequest::chat(key, words, false).in_session("talk"),
        |key: &str, words: &str| KeyedApiRequest::response(key, words, true),
    ] {
        let script = gated("once").into_iter().fold(ModelScript::new(), ModelScript::reply);
        let place = GatewayHome::with(script);
        let request = make("k", "once");
        cut_off(&place, &request, "gate", 1);
        let _running = place.start();
        assert_eq!(request.send(&place).unwrap().text().as_deref(), Some("done: once"));
        assert_eq!(request.send(&place).unwrap().text().as_deref(), Some("done: once"), "and again");
        place.server.assert_requests(2);
        assert_eq!(written(&place), BTreeMap::from([("once".to_owned(), 1)]));
    }
}

#[test]
fn a_turn_that_was_cut_off_twice_is_not_tried_again() {
    let place = GatewayHome::with(
        ModelScript::new().reply(ScriptedReply::new().wait("gate").then_text("late").forever()),
    );
    let request = KeyedApiRequest::chat("k", "again and again", false);
    cut_off(&place, &request, "gate", 2);
    let _running = place.start();
    for _ in 0..2 {
        let heard = request.send(&place).unwrap();
        assert_eq!((heard.status, heard.error().as_deref()), (410, Some("cut_off_twice")));
    }
    place.server.assert_requests(2);
    place.server.open("gate");
    let anew = KeyedApiRequest::chat("another key", "again and again", false);
    assert_eq!(anew.send(&place).unwrap().text().as_deref(), Some("late"));
}

#[test]
fn a_run_keeps_its_name_and_its_end() {
    let place = GatewayHome::with(
        ModelScript::new()
            .reply(ScriptedReply::new().wait("gate").then_text("late"))
            .reply(ScriptedReply::text("in the end")),
    );
    let request = KeyedApiRequest::run("k", "work");
    let id_of = |heard: &HttpExchange| heard.objects()[0]["run_id"].as_str().unwrap().to_owned();
    let status = |id: &str| {
        let heard = exchange(&place, "GET", &format!("/v1/runs/{id}"), "", "");
        heard.map(|heard| heard.objects()[0].clone()).unwrap_or_default()
    };
    let running = place.start();
    let id = id_of(&request.send(&place).unwrap());
    place.server.wait_until_at_blocking("gate", 1);
    assert_eq!(id_of(&request.send(&place).unwrap()), id, "the same run while it goes on");
    running.kill();
    let running = place.start();
    assert_eq!(id_of(&request.send(&place).unwrap()), id);
    until("the run has ended", || status(&id)["status"] == "completed");
    assert_eq!(status(&id)["output"], "in the end");
    running.kill();
    let _running = place.start();
    assert_eq!(id_of(&request.send(&place).unwrap()), id);
    assert_eq!(status(&id)["output"], "in the end");
    place.server.assert_requests(2);
}

const CLIENTS: usize = 4;

/// A reproducible sequence of numbers.
struct Random(u64);

impl Random {
    fn below(&mut self, most: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % most
    }
}

/// The results the clients received.
#[derive(Debug, Default)]
struct Outcomes {
    answered: BTreeMap<usize, String>,
    given_up: Vec<usize>,
    repeats: usize,
}

fn words(number: usize) -> String {
    format!("message {number}.")
}

/// Returns a script in which each message appends a line to a file by a command, then is answered with its number.
fn marking(messages: usize) -> ModelScript {
    (0..messages).fold(ModelScript::new(), |script, number| {
        let command = format!("echo {number} >> marks.txt");
        let mut call = ScriptedToolCall::new("terminal", json!({"command": command}));
        call.id = Some(format!("call_{number}"));
        let done = ScriptedReply::text(format!("done {number}")).when_tool_result(format!("call_{number}"));
        let mark = ScriptedReply::new().then_tool(call);
        script
            .reply(done.when_user_contains(words(number)).forever())
            .reply(mark.when_user_contains(words(number)).forever())
    })
}

fn request(number: usize, client: usize) -> KeyedApiRequest {
    let (key, words) = (format!("key-{number}"), words(number));
    match number % 5 {
        0 => KeyedApiRequest::chat(&key, &words, false),
        1 => KeyedApiRequest::chat(&key, &words, true),
        2 => KeyedApiRequest::chat(&key, &words, number.is_multiple_of(2))
            .in_session(&format!("talk-{client}")),
        3 => KeyedApiRequest::response(&key, &words, number.is_multiple_of(2)),
        _ => KeyedApiRequest::run(&key, &words),
    }
}

/// The result of one attempt: an answer, a final failure, or nothing yet.
enum Attempt {
    Answer(String),
    GivenUp,
    Nothing,
}

fn attempt(place: &GatewayHome, request: &KeyedApiRequest) -> Attempt {
    let Some(heard) = request.send(place) else { return Attempt::Nothing };
    if heard.error().as_deref() == Some("cut_off_twice") {
        return Attempt::GivenUp;
    }
    if heard.status == 202 {
        return follow_run(place, heard.objects()[0]["run_id"].as_str().unwrap());
    }
    heard.text().map_or(Attempt::Nothing, Attempt::Answer)
}

fn follow_run(place: &GatewayHome, id: &str) -> Attempt {
    loop {
        let heard = exchange(place, "GET", &format!("/v1/runs/{id}"), "", "");
        let Some(run) = heard.filter(|heard| heard.status == 200) else { return Attempt::Nothing };
        let run = run.objects()[0].clone();
        match run["status"].as_str() {
            Some("completed") => return Attempt::Answer(run["output"].as_str().unwrap().to_owned()),
            Some("failed") if run["error"].as_str().unwrap().contains("cut off twice") => {
                return Attempt::GivenUp;
            }
            Some("failed") => return Attempt::Nothing,
            _ => std::thread::sleep(Duration::from_millis(2)),
        }
    }
}

/// Runs several clients that repeat their messages until they are answered, while the gateway is killed `kills`
/// times.
fn run_with_kills(seed: u64, kills: usize) {
    // The test counts how often a command runs; the sandbox does not matter here.
    let place = GatewayHome::configured(marking(kills * 20 + 100), json!({"terminal": {"sandbox": "off"}}));
    let (next, over) = (AtomicUsize::new(0), AtomicBool::new(false));
    let outcomes = Mutex::new(Outcomes::default());
    let broken = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _release = ReleaseClients(&broken);
        for client in 0..CLIENTS {
            let (place, next, over, outcomes, broken) = (&place, &next, &over, &outcomes, &broken);
            scope.spawn(move || {
                while !over.load(Ordering::Relaxed) {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    repeat_until_answered(place, number, client, outcomes, broken);
                }
            });
        }
        let mut random = Random(seed);
        for _ in 0..kills {
            let running = place.start();
            let asked = place.server.request_count() + usize::try_from(1 + random.below(30)).unwrap();
            place.server.wait_for_requests_blocking(asked);
            // Kills at a random point between this step and the next.
            std::thread::sleep(Duration::from_micros(random.below(12_000)));
            running.kill();
        }
        // The last gateway runs until everything is answered.
        over.store(true, Ordering::Relaxed);
        let _running = place.start();
        let all = || {
            let known = outcomes.lock().unwrap();
            known.answered.len() + known.given_up.len()
        };
        until("everything is answered", || all() == next.load(Ordering::Relaxed));
        repeat_all(&place, &outcomes.lock().unwrap());
    });
    check(seed, kills, &place, &outcomes.into_inner().unwrap());
}

/// Releases the clients when a test fails, or it would never end.
struct ReleaseClients<'a>(&'a AtomicBool);

impl Drop for ReleaseClients<'_> {
    fn drop(&mut self) {
        self.0.store(std::thread::panicking(), Ordering::Relaxed);
    }
}

fn repeat_until_answered(
    place: &GatewayHome,
    number: usize,
    client: usize,
    outcomes: &Mutex<Outcomes>,
    broken: &AtomicBool,
) {
    let request = request(number, client);
    while !broken.load(Ordering::Relaxed) {
        match attempt(place, &request) {
            Attempt::Answer(text) => {
                outcomes.lock().unwrap().answered.insert(number, text);
                return;
            }
            Attempt::GivenUp => return outcomes.lock().unwrap().given_up.push(number),
            Attempt::Nothing => {
                outcomes.lock().unwrap().repeats += 1;
                std::thread::sleep(Duration::from_millis(3));
            }
        }
    }
}

/// Checks that a repeated request gets the same answer without another model request.
fn repeat_all(place: &GatewayHome, outcomes: &Outcomes) {
    let asked = place.server.request_count();
    for (number, answer) in outcomes.answered.iter().rev().take(200) {
        let again = attempt(place, &request(*number, 0));
        assert!(
            matches!(again, Attempt::Answer(text) if text == *answer),
            "message {number} the second time"
        );
    }
    assert_eq!(place.server.request_count(), asked, "a repeat asked the model");
}

fn check(seed: u64, kills: usize, place: &GatewayHome, outcomes: &Outcomes) {
    let messages = outcomes.answered.len() + outcomes.given_up.len();
    println!(
        "seed {seed}: {kills} kills, {messages} requests, {} repeats, {} given up after two deaths",
        outcomes.repeats,
        outcomes.given_up.len()
    );
    for (number, answer) in &outcomes.answered {
        assert_eq!(answer, &format!("done {number}"), "seed {seed}");
    }
    let written = written(place);
    for number in 0..messages {
        assert_eq!(written.get(&words(number)), Some(&1), "seed {seed}: message {number} in the transcripts");
    }
    let marks = std::fs::read_to_string(place.home.join("user/marks.txt")).unwrap_or_default();
    let mut marks: Vec<&str> = marks.lines().collect();
    let all = marks.len();
    marks.sort_unstable();
    marks.dedup();
    assert_eq!(marks.len(), all, "seed {seed}: a command was run twice");
    let (code, text) = place.output(&["db", "check"]);
    assert_eq!(code, 0, "seed {seed}: {text}");
}

#[test]
fn nothing_with_a_key_is_lost_or_doubled_by_killing() {
    run_with_kills(20_261, 80);
}

/// Runs by hand: the number of kills is `API_KILLS`, 300 by default.
#[test]
#[ignore = "takes minutes; run by hand"]
fn hundreds_of_kills() {
    let kills: u64 = std::env::var("API_KILLS").ok().and_then(|count| count.parse().ok()).unwrap_or(300);
    for part in 0..kills / 50 {
        run_with_kills(7919 * (part + 1), 50);
    }
}

/// Returns a script that appends a line by a command and then waits at the gate; when asked again, it says so.
fn marks_then_waits() -> ModelScript {
    let mut call = ScriptedToolCall::new("terminal", json!({"command": "echo mark >> marks.txt"}));
    call.id = Some("call_mark".to_owned());
    ModelScript::new()
        .reply(ScriptedReply::new().then_tool(call).when_user_contains("pay"))
        .reply(ScriptedReply::new().wait("gate").then_text("too late").when_tool_result("call_mark"))
        .reply(ScriptedReply::text("another answer").when_user_contains("hello").forever())
        .reply(ScriptedReply::text("paid").when_tool_result("call_mark").forever())
}

fn marks(place: &GatewayHome) -> usize {
    std::fs::read_to_string(place.home.join("user/marks.txt")).unwrap_or_default().lines().count()
}

/// Sends the request and ends the gateway once the command has run and the model is asked again.
fn end_after_the_command(place: &GatewayHome, request: &KeyedApiRequest, signal: Signal) {
    let running = place.start();
    std::thread::scope(|scope| {
        let client = scope.spawn(|| request.send(place));
        place.server.wait_until_at_blocking("gate", 1);
        running.signal(signal);
        let _ = running.wait();
        let heard = client.join().unwrap();
        assert!(heard.as_ref().is_none_or(|heard| heard.text().is_none()), "{heard:?}");
    });
    assert_eq!(marks(place), 1);
}

#[test]
fn a_request_whose_turn_gave_way_to_another_is_told_what_happened_and_not_run_again() {
    let place = GatewayHome::with(marks_then_waits());
    let request = KeyedApiRequest::chat("k", "pay", false).in_session("talk");
    end_after_the_command(&place, &request, Signal::KILL);
    let _running = place.start();
    let other = KeyedApiRequest::chat("other", "hello", false).in_session("talk").send(&place).unwrap();
    assert_eq!(other.text().as_deref(), Some("another answer"));
    for _ in 0..2 {
        let heard = request.send(&place).unwrap();
        assert_eq!((heard.status, heard.error().as_deref()), (424, Some("already_acted")), "{heard:?}");
        assert!(heard.body.contains("terminal (done)"), "{heard:?}");
    }
    assert_eq!(marks(&place), 1, "the command ran once");
}

#[test]
fn an_orderly_stop_leaves_requests_with_a_key_to_their_repeats() {
    type Make = fn() -> KeyedApiRequest;
    let kinds: [Make; 4] = [
        || KeyedApiRequest::chat("k", "pay", false),
        || KeyedApiRequest::chat("k", "pay", true),
        || KeyedApiRequest::chat("k", "pay", false).in_session("talk"),
        || KeyedApiRequest::response("k", "pay", false),
    ];
    for make in kinds {
        let place =
            GatewayHome::configured(marks_then_waits(), json!({"agent": {"restart_drain_timeout": 0}}));
        let request = make();
        end_after_the_command(&place, &request, Signal::TERM);
        let _running = place.start();
        assert_eq!(request.send(&place).unwrap().text().as_deref(), Some("paid"));
        assert_eq!(request.send(&place).unwrap().text().as_deref(), Some("paid"), "and again");
        assert_eq!(marks(&place), 1, "the command ran once");
    }
}

#[test]
fn a_stop_waits_for_turns_that_come_to_their_end() {
    let place = GatewayHome::with(marks_then_waits());
    let request = KeyedApiRequest::chat("k", "pay", false);
    let running = place.start();
    std::thread::scope(|scope| {
        let client = scope.spawn(|| request.send(&place));
        place.server.wait_until_at_blocking("gate", 1);
        running.signal(Signal::TERM);
        until("it takes no new turns", || {
            let refused = KeyedApiRequest::chat("other", "hello", false).send(&place);
            refused.is_some_and(|heard| heard.error().as_deref() == Some("gateway_draining"))
        });
        place.server.open("gate");
        assert_eq!(client.join().unwrap().unwrap().text().as_deref(), Some("too late"));
        assert_eq!(running.wait(), 0);
    });
}

#[test]
fn stopping_in_good_order_again_and_again_does_not_park_a_turn() {
    let script = ModelScript::new()
        .reply(ScriptedReply::new().wait("gate").then_text("late").repeat(4))
        .reply(ScriptedReply::text("in the end").forever());
    let place = GatewayHome::configured(script, json!({"agent": {"restart_drain_timeout": 0}}));
    let request = KeyedApiRequest::chat("k", "take your time", false);
    for time in 1..=4 {
        let running = place.start();
        std::thread::scope(|scope| {
            let client = scope.spawn(|| request.send(&place));
            place.server.wait_for_requests_blocking(time);
            place.server.wait_until_at_blocking("gate", 1);
            running.signal(Signal::TERM);
            let _ = running.wait();
            assert!(client.join().unwrap().is_none_or(|heard| heard.text().is_none()));
        });
    }
    let _running = place.start();
    assert_eq!(request.send(&place).unwrap().text().as_deref(), Some("in the end"));
}

#[test]
fn a_failure_after_tools_ran_is_not_one_that_clients_repeat() {
    let mut call = ScriptedToolCall::new("terminal", json!({"command": "echo mark >> marks.txt"}));
    call.id = Some("call_mark".to_owned());
    let script = ModelScript::new()
        .reply(ScriptedReply::fail(400, "refused for good").when_tool_result("call_mark").forever())
        .reply(ScriptedReply::new().then_tool(call).forever());
    let place = GatewayHome::with(script);
    let _running = place.start();
    for (keyed, times) in [(true, 2), (false, 2)] {
        let before = marks(&place);
        let mut request = KeyedApiRequest::chat("k", if keyed { "pay" } else { "pay without a key" }, false);
        if !keyed {
            request.headers.clear();
        }
        for time in 0..times {
            let mut stream =
                place.send_with("POST", request.path, &request.headers, &request.body.to_string()).unwrap();
            let mut text = String::new();
            stream.read_to_string(&mut text).unwrap();
            let head = text.split_once("\r\n\r\n").unwrap().0.to_lowercase();
            assert!(head.starts_with("http/1.1 424 "), "{time}: {text}");
            assert!(head.contains("x-should-retry: false"), "{head}");
            assert!(text.contains("terminal (done)"), "{text}");
        }
        assert_eq!(marks(&place), before + 1, "keyed: {keyed}");
    }
}
