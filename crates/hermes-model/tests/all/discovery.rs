//! Discovery of windows and prices: which servers are queried, in which order, what is stored, and that nothing is
//! queried too early.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use hermes_model::client::{
    BackgroundDiscovery, Endpoint, FixedCredential, ModelClient, PresentedCredential, RetryPolicy,
};
use hermes_model::context_window::WindowOrigin;
use hermes_model::discovery::{ListFreshness, ModelDiscovery};
use hermes_model::provider::{LearntWindows, ModelFactsFile};
use hermes_model::wire::{ApiMode, WireOptions};
use hermes_net::{Config, HostResolver, HttpClient, ProxyMode};
use hermes_types::{
    BoxFuture, Cancel, Clock as _, CostStatus, Deadline, Message, Model as _, ModelError, Secret, Timestamp,
};
use serde_json::{Value, json};

use super::issuer_fixture::IssuerFixture;
use super::support::request;

const KEY: &str = "sk-test-0123456789abcdefghij";

fn get(path: &str, body: &Value) -> String {
    format!(
        "  - when: {{path: {path}, method: GET}}\n    repeat: forever\n    http: {{status: 200, body: {body}}}\n"
    )
}

fn post(path: &str, body: &Value) -> String {
    format!(
        "  - when: {{path: {path}, method: POST}}\n    repeat: forever\n    http: {{status: 200, body: {body}}}\n"
    )
}

fn endpoint(stage: &IssuerFixture, provider: &str, mode: ApiMode, model: &str) -> Endpoint {
    let base = if mode == ApiMode::Anthropic { stage.server.url() } else { stage.server.base_url() };
    let key = match mode {
        ApiMode::Anthropic => PresentedCredential::ApiKeyHeader(Secret::new(KEY)),
        _ => PresentedCredential::Bearer(Secret::new(KEY)),
    };
    Endpoint {
        model: model.to_owned(),
        model_choice: hermes_model::provider::ModelChoice::Explicit,
        key_origin: None,
        wire: WireOptions::new(mode, provider, &base),
        credentials: Arc::new(FixedCredential(key)),
        context_window: 128_000,
        window_origin: WindowOrigin::Guessed,
        prices: None,
        stats: Arc::default(),
    }
}

fn lookup(stage: &IssuerFixture) -> ModelDiscovery {
    ModelDiscovery::new(stage.context.clone(), stage.home())
}

#[tokio::test]
async fn an_unknown_host_is_asked_itself_and_nobody_else() {
    async fn check(replies: &str, model: &str, expected: Option<u64>, asked: &[&str]) {
        let stage = IssuerFixture::still(replies, &[]).await;
        let endpoint = endpoint(&stage, "custom", ApiMode::Chat, model);
        assert_eq!(lookup(&stage).discover_window(&endpoint, &Cancel::new()).await, expected, "{replies}");
        assert_eq!(stage.paths(), asked);
        assert!(stage.server.requests().iter().all(|r| r.header("authorization").is_some()));
    }
    let none = get("/v1/models", &json!({"data": [{"id": "other"}, {"id": "another"}]}));
    let listed = get("/v1/models", &json!({"data": [{"id": "m", "max_model_len": 4096}]}));
    check(&listed, "m", Some(4_096), &["GET /v1/models"]).await;
    let props = ["GET /v1/models", "GET /v1/props", "GET /props"];
    let running = get("/props", &json!({"default_generation_settings": {"n_ctx": 2048}}));
    check(&format!("{none}{running}"), "m", Some(2_048), &props).await;
    let studio = get("/api/v1/models", &json!({"models": [{"key": "m", "max_context_length": 8192}]}));
    check(&format!("{none}{studio}"), "m", Some(8_192), &[&props[..], &["GET /api/v1/models"]].concat())
        .await;
    let ollama = get("/api/tags", &json!({"models": []}))
        + &post("/api/show", &json!({"model_info": {"x.context_length": 40960}}));
    let everything = [&props[..], &["GET /api/v1/models", "GET /api/tags"]].concat();
    let shown = [&everything[..], &["POST /api/show"]].concat();
    check(&format!("{none}{ollama}"), "m", Some(40_960), &shown).await;
    // A model's name is meaningless at an unknown host.
    check(&none, "claude-opus-4.6", None, &everything).await;
}

#[tokio::test]
async fn a_known_provider_is_looked_up() {
    async fn check(replies: &str, provider: &str, model: &str, expected: Option<u64>, asked: &[&str]) {
        let stage = IssuerFixture::still(replies, &[]).await;
        let mode = if provider == "anthropic" { ApiMode::Anthropic } else { ApiMode::Chat };
        let mut endpoint = endpoint(&stage, provider, mode, model);
        if provider != "anthropic" {
            // No server is there, so any request to it would fail.
            endpoint.wire = WireOptions::new(mode, provider, "https://provider.invalid/v1");
        }
        assert_eq!(lookup(&stage).discover_window(&endpoint, &Cancel::new()).await, expected, "{provider}");
        assert_eq!(stage.paths(), asked, "{provider}");
        // A key is sent to its own host only.
        for seen in stage.server.requests() {
            let own = seen.path() == "/v1/models";
            assert_eq!(seen.header("x-api-key").is_some(), own && provider == "anthropic");
            assert!(seen.header("authorization").is_none());
        }
    }
    let dev = get("/dev.json", &json!({"zai": {"models": {"glm-x": {"limit": {"context": 300_000}}}}}));
    let router = get("/router/models", &json!({"data": [{"id": "a/b-1.5", "context_length": 70_000}]}));
    let both = format!("{dev}{router}");
    check(&both, "zai", "glm-x", Some(300_000), &["GET /dev.json"]).await;
    check(&both, "zai", "b-1-5", Some(70_000), &["GET /dev.json", "GET /router/models"]).await;
    check(&both, "zai", "mystery", None, &["GET /dev.json", "GET /router/models"]).await;
    check(&both, "nous", "a/b-1-5", Some(70_000), &["GET /router/models"]).await;
    check(&both, "bedrock", "a/b-1-5", None, &[]).await;
    let claude = get("/v1/models", &json!({"data": [{"id": "claude-x", "max_input_tokens": 500_000}]}));
    check(&claude, "anthropic", "claude-x", Some(500_000), &["GET /v1/models?limit=1000"]).await;
}

#[tokio::test]
async fn registries_are_kept_for_an_hour_and_failures_for_five_minutes() {
    let dev = |size: u64| json!({"zai": {"models": {"m": {"limit": {"context": size}}}}});
    let replies = format!(
        "  - when: {{path: /dev.json}}\n    http: {{status: 200, body: {}}}\n  - when: {{path: /dev.json}}\n    http: {{status: 500, body: {{}}}}\n  - when: {{path: /dev.json}}\n    http: {{status: 200, body: {}}}\n",
        dev(10_000),
        dev(20_000)
    );
    let stage = IssuerFixture::still(&replies, &[]).await;
    let lookup = lookup(&stage);
    let mut endpoint = endpoint(&stage, "zai", ApiMode::Chat, "m");
    endpoint.wire = WireOptions::new(ApiMode::Chat, "zai", "https://provider.invalid/v1");
    let mut at = Duration::ZERO;
    for (minutes, window, asked) in
        [(0, 10_000, 1), (59, 10_000, 1), (61, 10_000, 2), (65, 10_000, 2), (67, 20_000, 3)]
    {
        let then = Duration::from_mins(minutes);
        stage.clock.advance(then.saturating_sub(at));
        at = then;
        let found = lookup.discover_window(&endpoint, &Cancel::new()).await;
        assert_eq!((found, stage.server.request_count()), (Some(window), asked), "after {minutes} min");
    }
    // The file has the name and the format that other releases use.
    assert_eq!(
        serde_json::from_str::<Value>(&stage.home.read("models_dev_cache.json")).unwrap(),
        dev(20_000)
    );
}

#[tokio::test]
async fn what_is_worth_a_question() {
    let stage = IssuerFixture::still("", &[]).await;
    let lookup = lookup(&stage);
    let ago = |span| WindowOrigin::Asked(stage.clock.now().minus(span));
    let check = |origin: WindowOrigin, base: &str, expected: bool| {
        let mut endpoint = endpoint(&stage, "custom", ApiMode::Chat, "m");
        endpoint.wire = WireOptions::new(ApiMode::Chat, "custom", base);
        endpoint.window_origin = origin;
        assert_eq!(lookup.should_ask_window(&endpoint), expected, "{origin:?} {base}");
    };
    let (near, far) = ("http://127.0.0.1:1/v1", "https://h.example/v1");
    check(WindowOrigin::Guessed, far, true);
    check(WindowOrigin::Configured, far, false);
    check(WindowOrigin::Refusal, near, false);
    check(ago(Duration::from_hours(2)), far, false);
    check(ago(Duration::from_hours(25)), far, true);
    check(ago(Duration::from_hours(2)), near, true);
    check(ago(Duration::from_mins(2)), near, false);
}

fn client(stage: &IssuerFixture, endpoint: &Endpoint) -> ModelClient {
    let persistence = RetryPolicy { attempts: 1, ..RetryPolicy::default() };
    ModelClient::new(
        stage.context.net.clone(),
        stage.context.clock.clone(),
        vec![endpoint.clone()],
        persistence,
    )
    .unwrap()
    .with_discovery(BackgroundDiscovery::new(lookup(stage), Cancel::new()))
}

async fn ask(stage: &IssuerFixture, client: &ModelClient) -> Result<hermes_types::Completion, ModelError> {
    let mut asked = request("m", vec![Message::user("hi")]);
    asked.deadline = Deadline::after(&stage.clock, Duration::from_mins(5));
    client.complete(&asked, &mut |_| ()).await
}

/// Yields to background work until a condition holds.
async fn until(mut done: impl FnMut() -> bool) {
    while !done() {
        tokio::task::yield_now().await;
    }
}

fn answer(input: u64) -> String {
    format!(
        "  - when: {{path: /v1/chat/completions}}\n    text: ok\n    usage: {{input: {input}, output: 1}}\n"
    )
}

#[tokio::test]
async fn a_window_is_asked_for_when_a_session_grows() {
    let replies = answer(60_000)
        + &answer(65_000)
        + &get("/v1/models", &json!({"data": [{"id": "m", "n_ctx": 90_000}]}));
    let stage = IssuerFixture::still(&replies, &[]).await;
    let endpoint = endpoint(&stage, "custom", ApiMode::Chat, "m");
    let client = client(&stage, &endpoint);
    ask(&stage, &client).await.unwrap();
    assert_eq!((stage.paths().len(), client.context_window("m")), (1, 128_000));
    ask(&stage, &client).await.unwrap();
    until(|| client.context_window("m") == 90_000).await;
    let known = || ModelFactsFile::read(&stage.home()).get("m", &stage.server.base_url());
    until(|| known().is_some()).await;
    assert_eq!(known().unwrap().window, Some((90_000, stage.clock.now())));
}

#[tokio::test]
async fn a_limit_is_remembered_only_when_a_success_has_proven_it() {
    let refusal = "  - http: {status: 400, body: {error: {message: 'This model has a maximum context length of 16384 tokens.'}}}\n";
    let guessed = "  - http: {status: 400, body: {error: {message: 'prompt is too long'}}}\n";
    let stage = IssuerFixture::still(&format!("{guessed}{refusal}{}{}", answer(5), answer(5)), &[]).await;
    let other = "context_lengths:\n  x@y: 5 # mine\nnote: kept\n";
    std::fs::write(stage.home.join("context_length_cache.yaml"), other).unwrap();
    let client = client(&stage, &endpoint(&stage, "custom", ApiMode::Chat, "m"));
    assert_eq!(ask(&stage, &client).await, Err(ModelError::Compress { limit: None }));
    assert_eq!(ask(&stage, &client).await, Err(ModelError::Compress { limit: Some(16_384) }));
    assert_eq!(client.context_window("m"), 16_384);
    assert_eq!(stage.home.read("context_length_cache.yaml"), other);
    ask(&stage, &client).await.unwrap();
    let learnt = || LearntWindows::read(&stage.home()).get("m", &stage.server.base_url());
    until(|| learnt().is_some()).await;
    let text = stage.home.read("context_length_cache.yaml");
    assert_eq!(
        (learnt(), text.contains("x@y: 5 # mine"), text.contains("note: kept")),
        (Some(16_384), true, true)
    );
}

#[tokio::test]
async fn prices_are_fetched_after_a_reply_and_kept() {
    let list = json!({"data": [{"id": "m", "pricing": {"prompt": "0.000001", "completion": "0.000002"}}]});
    let stage =
        IssuerFixture::still(&(answer(1_000) + &answer(1_000) + &get("/v1/models", &list)), &[]).await;
    let mut endpoint = endpoint(&stage, "kilocode", ApiMode::Chat, "m");
    endpoint.window_origin = WindowOrigin::Configured;
    let first = client(&stage, &endpoint);
    assert_eq!(ask(&stage, &first).await.unwrap().cost.status, CostStatus::Unknown);
    until(|| endpoint.current_prices().is_some()).await;
    let cost = ask(&stage, &first).await.unwrap().cost;
    assert_eq!((cost.micro_usd, cost.status), (Some(1_002), CostStatus::Estimated));
    let known = || ModelFactsFile::read(&stage.home()).get("m", &stage.server.base_url());
    until(|| known().is_some()).await;
    assert_eq!(
        (known().unwrap().prices, known().unwrap().prices_at),
        (endpoint.prices.or(endpoint.current_prices()), Some(stage.clock.now()))
    );
    let asked = stage.paths();
    assert_eq!(asked.iter().filter(|path| path.contains("models")).count(), 1, "{asked:?}");
}

#[tokio::test]
async fn prices_first_and_the_window_later() {
    let list = json!({"data": [{"id": "m", "pricing": {"prompt": "0.000001", "completion": "0.000002"}}]});
    let dev = json!({"kilo": {"models": {"m": {"limit": {"context": 90_000}}}}});
    let replies = answer(1_000)
        + &answer(70_000)
        + &answer(80_000)
        + &get("/v1/models", &list)
        + &get("/dev.json", &dev);
    let stage = IssuerFixture::still(&replies, &[]).await;
    let endpoint = endpoint(&stage, "kilocode", ApiMode::Chat, "m");
    let client = client(&stage, &endpoint);
    ask(&stage, &client).await.unwrap();
    until(|| endpoint.current_prices().is_some()).await;
    ask(&stage, &client).await.unwrap();
    until(|| client.context_window("m") == 90_000).await;
    // A topic that was queried a moment ago is not queried again.
    ask(&stage, &client).await.unwrap();
    let asked = stage.paths();
    assert_eq!(asked.iter().filter(|path| path.starts_with("GET")).count(), 2, "{asked:?}");
}

#[tokio::test]
async fn a_providers_own_word_is_not_asked_about() {
    let refusal =
        "  - http: {status: 400, body: {error: {message: 'maximum context length is 16384 tokens'}}}\n";
    let stage = IssuerFixture::still(&format!("{refusal}{}", answer(12_000)), &[]).await;
    let client = client(&stage, &endpoint(&stage, "custom", ApiMode::Chat, "m"));
    assert_eq!(ask(&stage, &client).await, Err(ModelError::Compress { limit: Some(16_384) }));
    ask(&stage, &client).await.unwrap();
    until(|| LearntWindows::read(&stage.home()).get("m", &stage.server.base_url()).is_some()).await;
    assert_eq!((stage.paths().len(), client.context_window("m")), (2, 16_384));
}

/// A resolver that resolves every name to this machine.
#[derive(Debug)]
struct LoopbackResolver;

impl HostResolver for LoopbackResolver {
    fn resolve<'a>(&'a self, _: &'a str) -> BoxFuture<'a, std::io::Result<Vec<IpAddr>>> {
        Box::pin(async { Ok(vec![IpAddr::from([127, 0, 0, 1])]) })
    }
}

#[tokio::test]
async fn the_list_of_a_hosted_endpoint_is_kept() {
    let list = |id: &str| json!({"data": [{"id": id, "pricing": {"prompt": "0.000001", "completion": "0"}}]});
    let replies = format!(
        "  - when: {{path: /v1/models}}\n    http: {{status: 200, body: {}}}\n  - when: {{path: /v1/models}}\n    http: {{status: 200, body: {}}}\n",
        list("one"),
        list("two")
    ) + "  - when: {path: '*'}\n    repeat: forever\n    http: {status: 500, body: {}}\n";
    let mut stage = IssuerFixture::still(&replies, &[]).await;
    let clock = stage.context.clock.clone();
    let config =
        Config { proxies: ProxyMode::Direct, resolver: Arc::new(LoopbackResolver), ..Config::new(clock) };
    stage.context.net = HttpClient::new(config).unwrap();
    let mut endpoint = endpoint(&stage, "custom", ApiMode::Chat, "one");
    let base = format!("http://hosted.example:{}/v1", stage.server.address().port());
    endpoint.wire = WireOptions::new(ApiMode::Chat, "custom", &base);
    let lookup = lookup(&stage);
    let cancel = Cancel::new();
    let ids = async |age| {
        let listed = lookup.models(&endpoint, age, &cancel).await;
        listed.map(|models| models.into_iter().map(|model| model.id).collect::<Vec<_>>().join(" "))
    };
    assert_eq!(ids(ListFreshness::Recent).await.as_deref(), Ok("one"));
    // The same response also contains the price.
    assert!(lookup.has_prices(&endpoint));
    assert_eq!(lookup.prices(&endpoint, &cancel).await.unwrap().input, Some(1_000_000));
    assert_eq!((ids(ListFreshness::Recent).await.as_deref(), stage.server.request_count()), (Ok("one"), 1));
    assert_eq!((ids(ListFreshness::Current).await.as_deref(), stage.server.request_count()), (Ok("two"), 2));
    // Both URLs fail, so the cached copy is used.
    stage.clock.advance(Duration::from_hours(2));
    assert_eq!(ids(ListFreshness::Recent).await.as_deref(), Ok("two"));
    // No file name contains a part of the URL.
    let folder = stage.home.join("cache/models");
    let names: Vec<String> = std::fs::read_dir(folder)
        .unwrap()
        .map(|e| e.unwrap().file_name().to_string_lossy().into_owned())
        .collect();
    assert!(names.iter().all(|name| !name.contains("hosted")), "{names:?}");
}

#[test]
fn known_models_survive_strangers() {
    let check = |text: &str, window: Option<(u64, Timestamp)>| {
        let known = ModelFactsFile::parse(text.as_bytes());
        assert_eq!(known.get("m", "b").and_then(|known| known.window), window, "{text}");
    };
    check(r#"{"m@b": {"window": 5, "window_at": 7.0, "more": []}}"#, Some((5, Timestamp(7.0))));
    check(r#"{"m@b": {"window": 5}}"#, None);
    check(r#"{"m@b": {"window": -5, "window_at": 7}}"#, None);
    check(r#"{"m@b": 3}"#, None);
    check("[]", None);
    check("", None);
}

#[tokio::test]
async fn ollama_is_asked_for_the_window_it_is_given() {
    let show = json!({
        "model_info": {"qwen3.context_length": 40_960},
        "parameters": "num_ctx 16384",
        "capabilities": ["completion", "tools"],
    });
    let stage = IssuerFixture::still(&(answer(10) + &answer(10) + &post("/api/show", &show)), &[]).await;
    let endpoint = endpoint(&stage, "custom", ApiMode::Chat, "m");
    let client = client(&stage, &endpoint);
    ask(&stage, &client).await.unwrap();
    ask(&stage, &client).await.unwrap();
    // Once per process, before the first request; every request states the window.
    assert_eq!(stage.paths(), ["POST /api/show", "POST /v1/chat/completions", "POST /v1/chat/completions"]);
    for at in [1, 2] {
        assert_eq!(stage.server.request(at).json()["options"], json!({"num_ctx": 16_384}));
    }
    assert_eq!(client.context_window("m"), 16_384);
}

#[tokio::test]
async fn a_model_without_tools_is_said_to_be_one() {
    let show = json!({"model_info": {"x.context_length": 8_192}, "capabilities": ["completion"]});
    let stage = IssuerFixture::still(&(answer(10) + &post("/api/show", &show)), &[]).await;
    let endpoint = endpoint(&stage, "custom", ApiMode::Chat, "m");
    let mut told = Vec::new();
    let mut asked = request("m", vec![Message::user("hi")]);
    asked.deadline = Deadline::after(&stage.clock, Duration::from_mins(5));
    let mut sink = |delta| {
        if let hermes_types::Delta::Status(text) = delta {
            told.push(text);
        }
    };
    client(&stage, &endpoint).complete(&asked, &mut sink).await.unwrap();
    assert_eq!(told, ["m cannot use tools; it can only talk. Choose another with: hermes model"]);
}

#[tokio::test]
async fn a_local_server_names_its_only_model() {
    async fn check(models: &[&str]) -> (Result<(), String>, Option<String>) {
        let data: Vec<_> = models.iter().map(|id| json!({"id": id})).collect();
        let stage =
            IssuerFixture::still(&(answer(10) + &get("/v1/models", &json!({"data": data}))), &[]).await;
        let mut endpoint = endpoint(&stage, "custom", ApiMode::Chat, "anthropic/claude-opus-4.6");
        endpoint.model_choice = hermes_model::provider::ModelChoice::Default;
        let done = ask(&stage, &client(&stage, &endpoint)).await.map(drop).map_err(|error| error.to_string());
        let sent = stage.server.requests().into_iter().find(|sent| sent.path().ends_with("/completions"));
        (done, sent.map(|sent| sent.json()["model"].as_str().unwrap_or_default().to_owned()))
    }
    assert_eq!(check(&["only"]).await, (Ok(()), Some("only".to_owned())));
    let (several, sent) = check(&["one", "two"]).await;
    let several = several.unwrap_err();
    assert!(several.contains("serves one, two") && several.contains("hermes model custom:one"), "{several}");
    assert_eq!(sent, None, "no name of another vendor is sent");
}

/// Checks that a refusal's message names who refused, what, and what to do.
#[tokio::test]
async fn refusals_are_told_in_words_that_help() {
    async fn check(reply: &str, expected: &[&str]) {
        let replies = format!("  - when: {{path: /v1/chat/completions}}\n    {reply}\n")
            + &get("/v1/models", &json!({"data": [{"id": "llama3.2:latest"}, {"id": "qwen3:8b"}]}));
        let stage = IssuerFixture::still(&replies, &[]).await;
        let mut endpoint = endpoint(&stage, "custom", ApiMode::Chat, "llama3.2");
        endpoint.key_origin = Some("OPENROUTER_API_KEY".to_owned());
        let told = ask(&stage, &client(&stage, &endpoint)).await.unwrap_err().to_string();
        for words in expected {
            assert!(told.contains(words), "{words}: {told}");
        }
        assert!(!told.contains(KEY), "{told}");
    }
    check(
        "http: {status: 401, body: {error: {message: 'no'}}}",
        &["127.0.0.1 rejected OPENROUTER_API_KEY", "hermes config set OPENROUTER_API_KEY KEY"],
    )
    .await;
    check(
        "http: {status: 404, body: {error: {message: 'model not found'}}}",
        &["127.0.0.1 has no model \"llama3.2\"; it has llama3.2:latest, qwen3:8b"],
    )
    .await;
    check(
        "http: {status: 403, body: '<!doctype html><title>Sign in to Wi-Fi</title>'}",
        &["answered with a web page", "Wi-Fi login"],
    )
    .await;
}
