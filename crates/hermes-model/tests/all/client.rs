//! The model client: every mode against the scripted server, every kind of failure.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use hermes_model::client::{
    CredentialProvider, CredentialUnavailable, DumpEcho, DumpScope, Endpoint, FixedCredential, KeyRefusal,
    ModelClient, PresentedCredential, RequestDumper, RetryPolicy,
};
use hermes_model::context_window::WindowOrigin;
use hermes_model::wire::{ApiMode, WireOptions};
use hermes_net::{Config, HttpClient, ProxyMode};
use hermes_testkit::script::{CutKind, ReplyEvent, ScriptedToolCall as ScriptedCall};
use hermes_testkit::{ModelScript, ModelServer, ScriptedReply, TestClock};
use hermes_types::{
    BoxFuture, Cancel, Clock, Completion, Deadline, Delta, Message, Model, ModelError, ModelRequest, RawJson,
    Secret, ToolSpec,
};
use serde_json::json;

const MODES: [ApiMode; 3] = [ApiMode::Chat, ApiMode::Responses, ApiMode::Anthropic];
const KEY: &str = "sk-test-0123456789abcdefghij";

struct ClientFixture {
    server: ModelServer,
    clock: Arc<TestClock>,
    net: HttpClient,
}

impl ClientFixture {
    async fn new(script: ModelScript) -> Self {
        let clock = Arc::new(TestClock::auto_advance_up_to(Duration::from_mins(2)));
        let mut config = Config::new(clock.clone());
        config.proxies = ProxyMode::Direct;
        Self {
            server: ModelServer::start(script).await.unwrap(),
            clock,
            net: HttpClient::new(config).unwrap(),
        }
    }

    fn endpoint(&self, mode: ApiMode, provider: &str) -> Endpoint {
        let base = if mode == ApiMode::Anthropic { self.server.url() } else { self.server.base_url() };
        let presented = match mode {
            ApiMode::Anthropic => PresentedCredential::ApiKeyHeader(Secret::new(KEY)),
            _ => PresentedCredential::Bearer(Secret::new(KEY)),
        };
        Endpoint {
            model: "test-model".into(),
            model_choice: hermes_model::provider::ModelChoice::Explicit,
            key_origin: None,
            wire: WireOptions::new(mode, provider, &base),
            credentials: Arc::new(FixedCredential(presented)),
            context_window: 128_000,
            window_origin: WindowOrigin::Configured,
            prices: None,
            stats: Arc::default(),
        }
    }

    fn client(&self, endpoints: Vec<Endpoint>) -> ModelClient {
        ModelClient::new(self.net.clone(), self.clock.clone(), endpoints, RetryPolicy::default()).unwrap()
    }

    fn request(&self, text: &str) -> ModelRequest {
        let terminal = ToolSpec {
            name: "terminal".into(),
            description: "runs a command".into(),
            parameters: RawJson::from_value(
                &json!({"type": "object", "properties": {"command": {"type": "string"}}}),
            ),
        };
        ModelRequest {
            model: "asked-model".into(),
            system: "You are a test.".into(),
            messages: vec![Message::user(text)],
            tools: [terminal].into(),
            max_tokens: None,
            temperature: None,
            effort: None,
            session: None,
            deadline: Deadline::after(&*self.clock, Duration::from_mins(10)),
            cancel: Cancel::new(),
        }
    }
}

/// The final text of a consumer that honours `Restart`, and every delta it received.
#[derive(Debug, Default)]
struct ConsumedDeltas {
    text: String,
    restarts: usize,
    statuses: Vec<String>,
    tools: Vec<String>,
}

impl ConsumedDeltas {
    fn take(&mut self, delta: Delta) {
        match delta {
            Delta::Text(text) => self.text.push_str(&text),
            Delta::Restart => {
                self.text.clear();
                self.restarts += 1;
            }
            Delta::Status(text) => self.statuses.push(text),
            Delta::ToolStarted { name } => self.tools.push(name),
            Delta::Reasoning(_) => {}
        }
    }
}

async fn ask(
    client: &ModelClient,
    request: &ModelRequest,
) -> (Result<Completion, ModelError>, ConsumedDeltas) {
    let mut heard = ConsumedDeltas::default();
    let result = client.complete(request, &mut |delta| heard.take(delta)).await;
    (result, heard)
}

/// Checks one endpoint with one script: the received text, the shown text, and the number of requests.
async fn check(mode: ApiMode, script: ModelScript, expected: &str, requests: usize) -> ConsumedDeltas {
    let bench = ClientFixture::new(script).await;
    let client = bench.client(vec![bench.endpoint(mode, "custom")]);
    let (result, heard) = ask(&client, &bench.request("hi")).await;
    let completion = result.unwrap_or_else(|error| panic!("{mode:?}: {error}"));
    assert_eq!(completion.message.content.text(), expected, "{mode:?}");
    assert_eq!(heard.text, expected, "{mode:?}: what was shown is what was said");
    assert_eq!(bench.server.request_count(), requests, "{mode:?}");
    heard
}

#[tokio::test]
async fn text_arrives_on_every_wire() {
    for mode in MODES {
        check(
            mode,
            ModelScript::new().reply(ScriptedReply::deltas(["Hel", "lo ", "wörld"]).usage(12, 3)),
            "Hello wörld",
            1,
        )
        .await;
    }
}

#[tokio::test]
async fn tool_calls_arrive_whole() {
    for mode in MODES {
        let calls = [
            ScriptedCall::new("terminal", json!({"command": "ls"})),
            ScriptedCall::new("terminal", json!({"command": "pwd"})),
        ];
        let bench =
            ClientFixture::new(ModelScript::new().reply(ScriptedReply::tools(calls)).write_size(7)).await;
        let client = bench.client(vec![bench.endpoint(mode, "custom")]);
        let (result, heard) = ask(&client, &bench.request("hi")).await;
        let arguments: Vec<_> =
            result.unwrap().message.tool_calls.into_iter().map(|call| call.arguments).collect();
        let parsed: Vec<serde_json::Value> =
            arguments.iter().map(|text| serde_json::from_str(text).unwrap()).collect();
        assert_eq!(parsed, [json!({"command": "ls"}), json!({"command": "pwd"})], "{mode:?}");
        assert_eq!(heard.tools, ["terminal", "terminal"], "{mode:?}");
    }
}

#[tokio::test]
async fn passing_failures_are_waited_out() {
    for mode in MODES {
        for status in [429, 500, 502, 503, 529] {
            let script = ModelScript::new()
                .reply(ScriptedReply::fail(status, "try later").repeat(2))
                .reply(ScriptedReply::text("fine"));
            let heard = check(mode, script, "fine", 3).await;
            assert_eq!(heard.statuses.len(), 2, "{mode:?} {status}: the user sees a sign of life: {heard:?}");
        }
    }
}

#[tokio::test]
async fn a_named_wait_is_kept() {
    let bench = ClientFixture::new(
        ModelScript::new()
            .reply(ScriptedReply::fail(429, "slow down").retry_after(37))
            .reply(ScriptedReply::text("ok")),
    )
    .await;
    let client = bench.client(vec![bench.endpoint(ApiMode::Chat, "custom")]);
    ask(&client, &bench.request("hi")).await.0.unwrap();
    assert!(bench.clock.slept().contains(&Duration::from_secs(37)), "{:?}", bench.clock.slept());
}

#[tokio::test]
async fn giving_up_has_words_and_a_status() {
    for (status, message, words) in [
        (401, "invalid api key", "invalid api key"),
        (404, "model not found", "model not found"),
        (500, "the house is on fire", "API call failed after 3 attempts"),
    ] {
        let bench =
            ClientFixture::new(ModelScript::new().reply(ScriptedReply::fail(status, message).forever()))
                .await;
        let client = bench.client(vec![bench.endpoint(ApiMode::Chat, "custom")]);
        let (result, _) = ask(&client, &bench.request("hi")).await;
        let error = result.unwrap_err();
        assert!(error.to_string().to_lowercase().contains(&words.to_lowercase()), "{status}: {error}");
        assert!(
            matches!(error, ModelError::GiveUp { status: Some(said), .. } if said == status),
            "{error:?}"
        );
    }
}

#[tokio::test]
async fn a_conversation_that_is_too_long_asks_for_compression() {
    let body = json!({"error": {"message": "This model's maximum context length is 8192 tokens. However, your messages resulted in 9000 tokens.", "code": "context_length_exceeded"}});
    let bench = ClientFixture::new(ModelScript::new().reply(ScriptedReply::http(400, body))).await;
    let client = bench.client(vec![bench.endpoint(ApiMode::Chat, "custom")]);
    let (result, _) = ask(&client, &bench.request("hi")).await;
    assert_eq!(result.unwrap_err(), ModelError::Compress { limit: Some(8192) });
}

#[tokio::test]
async fn a_stream_cut_before_anything_was_shown_is_asked_for_again_at_once() {
    for how in [CutKind::Fin, CutKind::Rst] {
        for mode in MODES {
            let script = ModelScript::new()
                .reply(ScriptedReply::new().cut(how).repeat(2))
                .reply(ScriptedReply::text("whole"));
            check(mode, script, "whole", 3).await;
        }
    }
}

#[tokio::test]
async fn a_stream_cut_in_the_middle_shows_nothing_twice() {
    for mode in MODES {
        let cut = || ScriptedReply::deltas(["One ", "two "]).cut(CutKind::Rst);
        let heard = check(
            mode,
            ModelScript::new().reply(cut()).reply(ScriptedReply::text("One two three")),
            "One two three",
            2,
        )
        .await;
        assert_eq!(heard.restarts, 0, "{mode:?}");
        let heard = check(
            mode,
            ModelScript::new().reply(cut()).reply(ScriptedReply::text("Something else")),
            "Something else",
            2,
        )
        .await;
        assert_eq!(heard.restarts, 1, "{mode:?}");
    }
}

#[tokio::test]
async fn a_half_tool_call_is_never_handed_on() {
    for mode in MODES {
        let half =
            ScriptedReply::tool("terminal", json!({"command": "rm -rf build && make everything again"}))
                .cut_after(CutKind::Rst, 420);
        let bench =
            ClientFixture::new(ModelScript::new().reply(half).reply(ScriptedReply::text("done"))).await;
        let client = bench.client(vec![bench.endpoint(mode, "custom")]);
        let (result, _) = ask(&client, &bench.request("hi")).await;
        let message = result.unwrap().message;
        let whole = message
            .tool_calls
            .iter()
            .all(|call| serde_json::from_str::<serde_json::Value>(&call.arguments).is_ok());
        assert!(whole, "{mode:?}: {message:?}");
    }
}

#[tokio::test]
async fn a_server_that_cannot_stream_is_asked_plainly() {
    let script = ModelScript::new()
        .reply(ScriptedReply::new().cut(CutKind::Rst).repeat(3))
        .reply(ScriptedReply::text("plain"));
    let bench = ClientFixture::new(script).await;
    let client = bench.client(vec![bench.endpoint(ApiMode::Chat, "custom")]);
    let (result, heard) = ask(&client, &bench.request("hi")).await;
    assert_eq!(result.unwrap().message.content.text(), "plain");
    assert_eq!(heard.text, "plain");
    let streamed: Vec<bool> =
        bench.server.requests().iter().map(hermes_testkit::RecordedRequest::wants_stream).collect();
    assert_eq!(streamed, [true, true, true, false]);
}

#[tokio::test]
async fn an_error_inside_a_stream_is_an_error() {
    for mode in MODES {
        let script = ModelScript::new()
            .reply(ScriptedReply::new().stream_error("overloaded"))
            .reply(ScriptedReply::text("better"));
        check(mode, script, "better", 2).await;
    }
}

#[tokio::test]
async fn malformed_chunks_are_asked_for_again() {
    for mode in MODES {
        let script = ModelScript::new()
            .reply(ScriptedReply::new().event(ReplyEvent::Malformed))
            .reply(ScriptedReply::text("clean"));
        check(mode, script, "clean", 2).await;
    }
}

#[tokio::test]
async fn the_next_endpoint_is_used_and_kept() {
    let script = ModelScript::new()
        .reply(ScriptedReply::fail(429, "rate limit").when_model("first").forever())
        .reply(ScriptedReply::text("from the second").when_model("second").forever());
    let bench = ClientFixture::new(script).await;
    let mut endpoints =
        vec![bench.endpoint(ApiMode::Chat, "custom"), bench.endpoint(ApiMode::Chat, "custom")];
    endpoints[0].model = "first".into();
    endpoints[1].model = "second".into();
    let client = bench.client(endpoints);
    let (result, heard) = ask(&client, &bench.request("hi")).await;
    assert_eq!(result.unwrap().message.content.text(), "from the second");
    assert!(heard.statuses.iter().any(|status| status.contains("Switching to second")), "{heard:?}");
    ask(&client, &bench.request("again")).await.0.unwrap();
    let models: Vec<_> = bench.server.requests().iter().map(|request| request.model().to_owned()).collect();
    assert_eq!(models, ["first", "second", "second"]);
}

#[tokio::test]
async fn cancelling_ends_a_stalled_stream_and_closes_the_connection() {
    let bench =
        ClientFixture::new(ModelScript::new().reply(ScriptedReply::deltas(["thinking"]).stall())).await;
    let client = bench.client(vec![bench.endpoint(ApiMode::Chat, "custom")]);
    let request = bench.request("hi");
    let mut heard = ConsumedDeltas::default();
    let mut sink = |delta| {
        heard.take(delta);
        request.cancel.cancel();
    };
    let result = client.complete(&request, &mut sink).await;
    assert_eq!(result.unwrap_err(), ModelError::Cancelled);
    assert_eq!(bench.server.wait_for_end(0).await, hermes_testkit::RequestOutcome::Disconnected);
}

#[tokio::test]
async fn cancelling_ends_a_wait_between_attempts() {
    let bench = ClientFixture::new(
        ModelScript::new().reply(ScriptedReply::fail(429, "later").retry_after(200).forever()),
    )
    .await;
    let client = bench.client(vec![bench.endpoint(ApiMode::Chat, "custom")]);
    let request = bench.request("hi");
    let mut sink = |delta| {
        if matches!(delta, Delta::Status(_)) {
            request.cancel.cancel();
        }
    };
    assert_eq!(client.complete(&request, &mut sink).await.unwrap_err(), ModelError::Cancelled);
    bench.server.assert_requests(1);
}

/// An interactive user does not wait for an hour: a long wait is reported, and so is a failure that no wait can
/// fix.
#[tokio::test]
async fn long_waits_and_used_up_quotas_are_not_waited_for() {
    let quota =
        json!({"error": {"message": "You exceeded your current quota", "code": "insufficient_quota"}});
    let replies = [
        (ScriptedReply::fail(429, "later").retry_after(3600), "asks to wait 60 minutes"),
        (ScriptedReply::http(429, quota), "quota is used up"),
    ];
    for (reply, words) in replies {
        let bench = ClientFixture::new(ModelScript::new().reply(reply.forever())).await;
        let client = bench.client(vec![bench.endpoint(ApiMode::Chat, "custom")]);
        let (result, _) = ask(&client, &bench.request("hi")).await;
        let error = result.unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
        bench.server.assert_requests(1);
    }
}

#[tokio::test]
async fn the_key_goes_in_the_right_header_and_into_no_error() {
    for mode in MODES {
        let body = json!({"error": {"message": format!("Incorrect API key provided: {KEY}.")}});
        let bench =
            ClientFixture::new(ModelScript::new().reply(ScriptedReply::http(401, body).forever())).await;
        let client = bench.client(vec![bench.endpoint(mode, "custom")]);
        let (result, heard) = ask(&client, &bench.request("hi")).await;
        let sent = bench.server.request(0);
        let shown = match mode {
            ApiMode::Anthropic => sent.header("x-api-key").unwrap_or_default().to_owned(),
            _ => sent.header("authorization").unwrap_or_default().replace("Bearer ", ""),
        };
        assert_eq!(shown, KEY, "{mode:?}");
        let error = result.unwrap_err();
        let told = format!("{error} {error:?} {heard:?} {client:?}");
        assert!(!told.contains(KEY), "{mode:?}: {told}");
        assert!(told.contains("Incorrect API key"), "the rest is said: {told}");
    }
}

/// Credentials that are refused until they are renewed, or until another key is used.
#[derive(Debug, Default)]
struct RenewableCredentials {
    renewals: AtomicUsize,
    rotations: AtomicUsize,
    spare_keys: usize,
}

impl CredentialProvider for RenewableCredentials {
    fn current<'a>(
        &'a self,
        _: &'a Cancel,
    ) -> BoxFuture<'a, Result<PresentedCredential, CredentialUnavailable>> {
        let number = self.renewals.load(Ordering::Relaxed) + self.rotations.load(Ordering::Relaxed);
        Box::pin(std::future::ready(Ok(PresentedCredential::Bearer(Secret::new(format!("token-{number}"))))))
    }

    fn renew<'a>(&'a self, _: &'a Cancel) -> BoxFuture<'a, Result<(), CredentialUnavailable>> {
        self.renewals.fetch_add(1, Ordering::Relaxed);
        Box::pin(std::future::ready(Ok(())))
    }

    fn rotate(&self, _: &KeyRefusal) -> bool {
        self.rotations.fetch_add(1, Ordering::Relaxed) < self.spare_keys
    }

    fn can_renew(&self) -> bool {
        self.spare_keys == 0
    }

    fn has_another(&self) -> bool {
        self.rotations.load(Ordering::Relaxed) < self.spare_keys
    }
}

async fn tokens_used(
    credentials: RenewableCredentials,
    script: ModelScript,
) -> (Result<Completion, ModelError>, Vec<String>) {
    let bench = ClientFixture::new(script).await;
    let mut endpoint = bench.endpoint(ApiMode::Chat, "nous");
    endpoint.credentials = Arc::new(credentials);
    let (result, _) = ask(&bench.client(vec![endpoint]), &bench.request("hi")).await;
    let used = bench.server.requests();
    let used =
        used.iter().map(|request| request.header("authorization").unwrap_or_default().to_owned()).collect();
    (result, used)
}

#[tokio::test]
async fn a_refused_token_is_renewed_once() {
    let script =
        ModelScript::new().reply(ScriptedReply::fail(401, "expired")).reply(ScriptedReply::text("ok"));
    let (result, used) = tokens_used(RenewableCredentials::default(), script).await;
    assert_eq!(result.unwrap().message.content.text(), "ok");
    assert_eq!(used, ["Bearer token-0", "Bearer token-1"]);
    let (result, used) = tokens_used(
        RenewableCredentials::default(),
        ModelScript::new().reply(ScriptedReply::fail(401, "expired").forever()),
    )
    .await;
    assert!(result.is_err());
    assert_eq!(used.len(), 2, "not again and again: {used:?}");
}

#[tokio::test]
async fn a_used_up_key_gives_way_to_the_next() {
    let script = ModelScript::new().reply(ScriptedReply::fail(429, "quota")).reply(ScriptedReply::text("ok"));
    let (result, used) =
        tokens_used(RenewableCredentials { spare_keys: 1, ..RenewableCredentials::default() }, script).await;
    assert_eq!(result.unwrap().message.content.text(), "ok");
    assert_eq!(used, ["Bearer token-0", "Bearer token-1"]);
}

#[tokio::test]
async fn usage_and_cost_come_with_the_answer() {
    let bench = ClientFixture::new(ModelScript::new().reply(ScriptedReply::text("x").usage(1000, 500))).await;
    let client = bench.client(vec![bench.endpoint(ApiMode::Chat, "custom")]);
    let completion = ask(&client, &bench.request("hi")).await.0.unwrap();
    let usage = completion.usage.unwrap();
    assert_eq!((usage.input, usage.output), (1000, 500));
    assert_eq!(completion.cost.micro_usd, None, "a private host has no known price");
    assert_eq!(completion.provider, "custom");
}

#[tokio::test]
async fn an_endless_answer_is_refused_within_its_cap() {
    let big = "x".repeat(1 << 20);
    let script = ModelScript::new().reply(ScriptedReply::deltas([&big; 80]).forever());
    let bench = ClientFixture::new(script).await;
    let client = bench.client(vec![bench.endpoint(ApiMode::Chat, "custom")]);
    let (result, _) = ask(&client, &bench.request("hi")).await;
    let error = result.unwrap_err().to_string();
    assert!(error.contains("larger than"), "{error}");
}

#[tokio::test]
async fn one_event_of_ten_megabytes_is_refused() {
    for mode in MODES {
        let huge = "x".repeat(10 << 20);
        let bench =
            ClientFixture::new(ModelScript::new().reply(ScriptedReply::deltas([&huge]).forever())).await;
        let client = bench.client(vec![bench.endpoint(mode, "custom")]);
        let (result, heard) = ask(&client, &bench.request("hi")).await;
        // A plain answer of that size is within bounds; as an event of a stream it is not.
        if let Err(error) = result {
            assert!(error.to_string().len() < 1000, "{mode:?}: {error}");
        }
        let streamed = bench.server.requests().iter().filter(|request| request.wants_stream()).count();
        assert!(streamed > 1, "{mode:?}: the stream was refused and tried again: {}", heard.statuses.len());
    }
}

/// Searches every file that a failing turn writes, with every request dumped, for the key.
#[tokio::test]
async fn no_key_is_in_any_file_a_failing_turn_writes() {
    for mode in MODES {
        let home = hermes_testkit::TempHome::builder().file("sessions/.keep", "").build().unwrap();
        let body = json!({"error": {"message": format!("Incorrect API key provided: {KEY}.")}});
        let bench = ClientFixture::new(
            ModelScript::new()
                .reply(ScriptedReply::fail(503, "busy"))
                .reply(ScriptedReply::http(401, body).forever()),
        )
        .await;
        let dumps = RequestDumper { folder: home.join("sessions"), scope: DumpScope::All, mask: None };
        let client = bench.client(vec![bench.endpoint(mode, "custom")]).with_dumps(Some(dumps));
        let mut request = bench.request(&format!("my key is {KEY}"));
        request.session = Some("20260305_091507_abcdef".into());
        ask(&client, &request).await.0.unwrap_err();
        let mut files: Vec<_> =
            std::fs::read_dir(home.join("sessions")).unwrap().map(|entry| entry.unwrap().path()).collect();
        files.retain(|path| path.extension().is_some());
        assert_eq!(files.len(), 3, "{mode:?}: two requests and the refusal: {files:?}");
        let mut reasons = Vec::new();
        for file in files {
            let text = std::fs::read_to_string(&file).unwrap();
            assert!(!text.contains(KEY) && !text.contains("0123456789abcdefgh"), "{mode:?}: {text}");
            let dump: serde_json::Value = serde_json::from_str(&text).unwrap();
            assert_eq!(dump["session_id"], "20260305_091507_abcdef");
            assert!(dump["request"]["body"]["model"].is_string(), "{mode:?}: {text}");
            reasons.push(dump["reason"].as_str().unwrap().to_owned());
        }
        reasons.sort();
        assert_eq!(reasons, ["non_retryable_client_error", "preflight", "preflight"]);
    }
}

#[test]
fn the_clock_of_these_tests_does_not_pass_by_itself() {
    let clock = TestClock::auto_advance_up_to(Duration::from_mins(2));
    assert_eq!(clock.monotonic(), clock.monotonic());
}

/// Creates a client whose clock stands still until the test moves it.
async fn still(script: ModelScript, persistence: RetryPolicy) -> (ClientFixture, ModelClient) {
    let mut bench = ClientFixture::new(script).await;
    bench.clock = Arc::new(TestClock::new());
    bench.net =
        HttpClient::new(Config { proxies: ProxyMode::Direct, ..Config::new(bench.clock.clone()) }).unwrap();
    let endpoints = vec![bench.endpoint(ApiMode::Chat, "custom")];
    let client = ModelClient::new(bench.net.clone(), bench.clock.clone(), endpoints, persistence).unwrap();
    (bench, client)
}

/// Sends a request and advances the clock in steps, each once the client has received the server's previous output.
async fn ask_slowly(
    bench: &ClientFixture,
    client: &ModelClient,
    gates: &[&str],
    step: Duration,
) -> (Result<Completion, ModelError>, ConsumedDeltas) {
    let (mut heard, request) = (ConsumedDeltas::default(), bench.request("hi"));
    let told = Cancel::new();
    let mut sink = |delta: Delta| {
        if matches!(delta, Delta::Text(_)) {
            told.cancel();
        }
        heard.take(delta);
    };
    let steps = async {
        told.cancelled().await;
        for gate in gates {
            bench.server.wait_until_at(gate, 1).await;
            let waits = bench.clock.slept().len();
            bench.clock.advance(step);
            bench.server.release(gate);
            while bench.clock.slept().len() == waits {
                tokio::task::yield_now().await;
            }
        }
    };
    let (result, ()) = tokio::join!(client.complete(&request, &mut sink), steps);
    (result, heard)
}

#[tokio::test]
async fn a_stream_of_keep_alives_is_given_up() {
    let comment = |text: &str| ReplyEvent::Comment(text.into());
    let script = ModelScript::new()
        .reply(
            ScriptedReply::deltas(["so "])
                .event(ReplyEvent::Wait("one".into()))
                .event(comment("b"))
                .event(ReplyEvent::Wait("two".into()))
                .event(comment("c"))
                .stall(),
        )
        .reply(ScriptedReply::text("so it is"));
    let (bench, client) = still(script, RetryPolicy { attempts: 2, ..RetryPolicy::default() }).await;
    let waited = async {
        // The wait before the second attempt.
        bench.server.wait_for_requests(1).await;
        while !bench.clock.slept().contains(&Duration::from_secs(2)) {
            tokio::task::yield_now().await;
        }
        bench.clock.advance(Duration::from_secs(2));
    };
    // Each pause is below the limit; their sum is above it.
    let asked = ask_slowly(&bench, &client, &["one", "two"], Duration::from_secs(100));
    let ((result, heard), ()) = tokio::join!(asked, waited);
    assert_eq!(
        (result.unwrap().message.content.text().as_ref(), heard.text.as_str()),
        ("so it is", "so it is")
    );
    assert!(heard.statuses.iter().any(|status| status.contains("kept its connection alive")), "{heard:?}");
}

#[tokio::test]
async fn a_silent_stream_can_be_given_up_sooner() {
    let script = ModelScript::new().reply(ScriptedReply::deltas(["so "]).stall());
    let sooner =
        RetryPolicy { attempts: 1, read_timeout: Some(Duration::from_mins(1)), ..RetryPolicy::default() };
    let (bench, client) = still(script, sooner).await;
    let request = bench.request("hi");
    let told = Cancel::new();
    let mut sink = |_| told.cancel();
    let steps = async {
        told.cancelled().await;
        while !bench.clock.slept().contains(&Duration::from_mins(1)) {
            tokio::task::yield_now().await;
        }
        bench.clock.advance(Duration::from_mins(1));
    };
    let (result, ()) = tokio::join!(client.complete(&request, &mut sink), steps);
    let told = result.unwrap_err().to_string();
    assert!(told.contains("sent nothing for 60 s"), "{told}");
}

#[tokio::test]
async fn what_is_written_down_can_be_shown() {
    let home = hermes_testkit::TempHome::new().unwrap();
    std::fs::create_dir(home.join("sessions")).unwrap();
    let bench = ClientFixture::new(ModelScript::new().reply(ScriptedReply::text("ok"))).await;
    let shown = Arc::new(std::sync::Mutex::new(Vec::new()));
    let kept = shown.clone();
    let echo = DumpEcho::new(move |text| kept.lock().unwrap().push(text.to_owned()));
    let dumps = RequestDumper { folder: home.join("sessions"), scope: DumpScope::All, mask: None };
    let client = bench
        .client(vec![bench.endpoint(ApiMode::Chat, "custom")])
        .with_dumps(Some(dumps))
        .with_echo(Some(echo));
    ask(&client, &bench.request("hi")).await.0.unwrap();
    let shown = shown.lock().unwrap();
    let dump: serde_json::Value = serde_json::from_str(&shown[0]).unwrap();
    assert_eq!((shown.len(), dump["reason"].as_str()), (1, Some("preflight")));
    assert!(!shown[0].contains(KEY));
}
