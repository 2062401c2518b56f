//! Turns through an independent server, the LiteLLM proxy. Reported as missing where it is not installed.
//!
//! It answers by itself (canned texts, canned failures) and as a translator: it fetches the answer from the
//! scripted server on one wire and returns it on another, in its own format.
#![expect(clippy::disallowed_methods, reason = "the peer is a program, found by an environment variable")]

use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use hermes_model::client::{Endpoint, FixedCredential, ModelClient, PresentedCredential, RetryPolicy};
use hermes_model::context_window::WindowOrigin;
use hermes_model::wire::{ApiMode, WireOptions};
use hermes_net::{Config, HttpClient, ProxyMode};
use hermes_testkit::script::ScriptedToolCall as ScriptedCall;
use hermes_testkit::{ModelScript, ModelServer, ScriptedReply, TestClock};
use hermes_types::{
    Cancel, Completion, Deadline, Delta, FinishReason, Message, Model, ModelError, ModelRequest, Secret,
};
use serde_json::{Value, json};

use super::support::tool;

const WIRES: [ApiMode; 3] = [ApiMode::Chat, ApiMode::Responses, ApiMode::Anthropic];
const KEY: &str = "sk-peer-0123456789abcdefghij";
const WORDS: &str = "A server nobody here wrote says: größer, 日本.";
/// The longest wait for the proxy to start, which takes seconds on an idle machine.
const PATIENCE: Duration = Duration::from_mins(3);

/// The running proxy; it is stopped when this value is dropped.
struct Proxy {
    process: Child,
    port: u16,
}

impl Proxy {
    fn start(program: &Path, upstream: &str) -> Self {
        let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = free.local_addr().unwrap().port();
        drop(free);
        let config = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/peers/litellm.yaml");
        let mut process = Command::new(program)
            .arg("--config")
            .arg(config)
            .args(["--host", "127.0.0.1", "--port", &port.to_string()])
            .env("HERMES_UPSTREAM", upstream)
            .env("LITELLM_LOCAL_MODEL_COST_MAP", "True")
            .env("NO_PROXY", "127.0.0.1")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = read_lines(process.stderr.take().unwrap());
        let proxy = Self { process, port };
        let mut said = Vec::new();
        // The proxy prints a line when it listens; if it ends before that, the lines end too.
        while !said.last().is_some_and(|line: &String| line.contains("Uvicorn running on")) {
            match lines.recv_timeout(PATIENCE) {
                Ok(line) => said.push(line),
                Err(why) => panic!("the proxy did not start: {why}\n{}", said.join("\n")),
            }
        }
        proxy
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        // Both calls fail only if it has ended already.
        self.process.kill().ok();
        self.process.wait().ok();
    }
}

/// Reads to the end even if the receiver is dropped, so that the writer never blocks.
fn read_lines(from: impl std::io::Read + Send + 'static) -> Receiver<String> {
    let (tell, lines) = channel();
    std::thread::spawn(move || {
        for line in BufReader::new(from).lines().map_while(Result::ok) {
            tell.send(line).ok();
        }
    });
    lines
}

fn installed() -> Option<PathBuf> {
    let peers = std::env::var_os("HERMES_PEERS").map_or_else(
        || PathBuf::from(std::env::var_os("HOME").unwrap_or_default()).join(".cache/hermes-peers"),
        PathBuf::from,
    );
    let program = peers.join("litellm/bin/litellm");
    if program.exists() {
        return Some(program);
    }
    hermes_testkit::peer_is_missing(&format!("{} is not installed", program.display()));
    None
}

/// Returns the script that the proxy fetches from; one reply per kind of turn, selected by the user's text.
fn upstream() -> ModelScript {
    let call = || ScriptedCall::new("terminal", json!({"command": "ls \"größer\""})).id("call_1").every(3);
    ModelScript::new()
        .reply(
            ScriptedReply::deltas(["Trans", "lated: ", "größer, 日本."])
                .usage(12, 3)
                .when_user_contains("speak")
                .forever(),
        )
        .reply(ScriptedReply::text("Three files.").when_tool_result("call_1").forever())
        .reply(ScriptedReply::tools([call()]).usage(12, 3).when_user_contains("list").forever())
}

struct Peer {
    proxy: Proxy,
    upstream: ModelServer,
    clock: Arc<TestClock>,
    net: HttpClient,
}

impl Peer {
    fn client(&self, mode: ApiMode, model: &str, key: &str) -> ModelClient {
        let root = format!("http://127.0.0.1:{}", self.proxy.port);
        let base = if mode == ApiMode::Anthropic { root } else { format!("{root}/v1") };
        let secret = Secret::new(key);
        let endpoint = Endpoint {
            model: model.to_owned(),
            model_choice: hermes_model::provider::ModelChoice::Explicit,
            key_origin: None,
            wire: WireOptions::new(mode, "custom", &base),
            credentials: Arc::new(FixedCredential(match mode {
                ApiMode::Anthropic => PresentedCredential::ApiKeyHeader(secret),
                _ => PresentedCredential::Bearer(secret),
            })),
            context_window: 128_000,
            window_origin: WindowOrigin::Configured,
            prices: None,
            stats: Arc::default(),
        };
        ModelClient::new(self.net.clone(), self.clock.clone(), vec![endpoint], RetryPolicy::default())
            .unwrap()
    }

    fn request(&self, messages: Vec<Message>) -> ModelRequest {
        ModelRequest {
            model: "set by the endpoint".to_owned(),
            system: "Be brief.".to_owned(),
            messages,
            tools: [tool()].into(),
            max_tokens: Some(1000),
            temperature: None,
            effort: None,
            session: None,
            deadline: Deadline::after(&*self.clock, Duration::from_mins(10)),
            cancel: Cancel::new(),
        }
    }

    async fn ask(
        &self,
        mode: ApiMode,
        model: &str,
        messages: Vec<Message>,
    ) -> (Result<Completion, ModelError>, String) {
        let mut shown = String::new();
        let client = self.client(mode, model, KEY);
        let mut sink = |delta| match delta {
            Delta::Text(text) => shown.push_str(&text),
            Delta::Restart => shown.clear(),
            _ => {}
        };
        let result = client.complete(&self.request(messages), &mut sink).await;
        (result, shown)
    }
}

/// Runs every case in one test, because loading the proxy takes longer than all its requests.
#[tokio::test]
async fn peer_turns_through_a_proxy_that_nobody_here_wrote() {
    let Some(program) = installed() else { return };
    let clock = Arc::new(TestClock::auto_advance_up_to(Duration::from_mins(2)));
    let mut config = Config::new(clock.clone());
    config.proxies = ProxyMode::Direct;
    let upstream = ModelServer::start_blocking(upstream()).unwrap();
    let proxy = Proxy::start(&program, &upstream.base_url());
    let peer = Peer { proxy, upstream, clock, net: HttpClient::new(config).unwrap() };
    it_speaks_for_itself(&peer).await;
    it_translates(&peer).await;
    it_refuses(&peer).await;
}

async fn it_speaks_for_itself(peer: &Peer) {
    // Its canned answers cannot be streamed as Responses: it fails at its own first event.
    for mode in [ApiMode::Chat, ApiMode::Anthropic] {
        let (result, shown) = peer.ask(mode, "spoken", vec![Message::user("hi")]).await;
        let completion = result.unwrap_or_else(|error| panic!("{mode:?}: {error:?}"));
        assert_eq!(completion.message.content.text(), WORDS, "{mode:?}");
        assert_eq!(shown, WORDS, "{mode:?}: what was shown is what was said");
        assert_eq!(completion.message.finish_reason, Some(FinishReason::Stop), "{mode:?}");
        assert!(completion.usage.is_some_and(|usage| usage.output > 0), "{mode:?}: {completion:?}");
    }
}

async fn it_translates(peer: &Peer) {
    for mode in WIRES {
        let (result, shown) = peer.ask(mode, "translated", vec![Message::user("speak")]).await;
        let completion = result.unwrap_or_else(|error| panic!("{mode:?}: {error:?}"));
        assert_eq!(completion.message.content.text(), "Translated: größer, 日本.", "{mode:?}");
        assert_eq!(shown, "Translated: größer, 日本.", "{mode:?}");
        let usage = completion.usage.unwrap();
        assert_eq!((usage.prompt(), usage.output), (12, 3), "{mode:?}");

        let asked = Message::user("list the files");
        let (result, _) = peer.ask(mode, "translated", vec![asked.clone()]).await;
        let called = result.unwrap_or_else(|error| panic!("{mode:?}: {error:?}")).message;
        assert_eq!(called.finish_reason, Some(FinishReason::ToolCalls), "{mode:?}: {called:?}");
        let [call] = called.tool_calls.as_slice() else { panic!("{mode:?}: one call: {called:?}") };
        let arguments: Value = serde_json::from_str(&call.arguments).unwrap();
        assert_eq!(
            (call.name.as_str(), arguments),
            ("terminal", json!({"command": "ls \"größer\""})),
            "{mode:?}"
        );

        // Its call is sent back with the result, and it passes both on.
        let result = Message::tool(call, "a.txt b.txt c.txt");
        let (result, _) = peer.ask(mode, "translated", vec![asked, called.clone(), result]).await;
        let completion = result.unwrap_or_else(|error| panic!("{mode:?}: {error:?}"));
        assert_eq!(completion.message.content.text(), "Three files.", "{mode:?}");
        let last = peer.upstream.requests().pop().unwrap();
        assert_eq!(last.tool_result("call_1"), "a.txt b.txt c.txt", "{mode:?}");
    }
}

async fn it_refuses(peer: &Peer) {
    for mode in WIRES {
        let (result, _) = peer.ask(mode, "no-such-model", vec![Message::user("hi")]).await;
        let error = result.unwrap_err();
        assert!(matches!(error, ModelError::GiveUp { status: Some(400..=499), .. }), "{mode:?}: {error:?}");
        assert!(error.to_string().contains("no-such-model"), "{mode:?}: the model is named: {error}");

        let client = peer.client(mode, "spoken", "sk-wrong-0123456789abcdefghij");
        let error = client.complete(&peer.request(vec![Message::user("hi")]), &mut |_| {}).await.unwrap_err();
        assert!(matches!(error, ModelError::GiveUp { status: Some(400..=499), .. }), "{mode:?}: {error:?}");
        assert!(!format!("{error} {error:?}").contains("sk-wrong-0123456789"), "{mode:?}: {error}");
    }
    for (model, words) in
        [("limited", "API call failed after 3 attempts"), ("failing", "API call failed after 3 attempts")]
    {
        let (result, _) = peer.ask(ApiMode::Chat, model, vec![Message::user("hi")]).await;
        let error = result.unwrap_err();
        assert!(error.to_string().contains(words), "{model}: {error:?}");
    }
    let (result, _) = peer.ask(ApiMode::Chat, "overflowing", vec![Message::user("hi")]).await;
    assert!(matches!(result, Err(ModelError::Compress { .. })), "{result:?}");
}
