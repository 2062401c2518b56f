//! Tests of malicious or mistaken requests.

use std::time::Duration;

use serde_json::{Value, json};

use super::support::{KEY, ModelStep, ServerFixture, TestModel};

#[tokio::test]
async fn only_the_key_opens_the_door_and_health_needs_none() {
    let bench = ServerFixture::with(TestModel::echo()).await;
    for path in ["/health", "/v1/health"] {
        let answer = bench.send("GET", path, &[("Authorization", "")], b"").await;
        assert_eq!((answer.status, answer.json()["status"].as_str()), (200, Some("ok")));
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
    }
    let wrong =
        ["", "Bearer", "Bearer ", "Bearer wrong", &format!("Basic {KEY}"), &format!("Bearer {KEY}x"), KEY];
    for given in wrong {
        for path in [
            "/v1/models",
            "/health/detailed",
            "/v1/responses/x",
            "/nowhere",
            "/v1/../v1/models",
            "//v1/models",
        ] {
            let answer = bench.send("GET", path, &[("Authorization", given)], b"").await;
            assert_eq!(answer.status, 401, "{given:?} {path}");
            assert_eq!(answer.json()["error"]["code"], "invalid_api_key");
            assert!(!answer.body.contains(KEY));
        }
    }
    let answer = bench.send("GET", "/v1/models", &[("Authorization", &format!("bearer {KEY}"))], b"").await;
    assert_eq!(answer.json()["data"][0]["id"], "hermes-agent");
    assert_eq!(bench.get("/v1/models/hermes-agent").await.status, 200);
    assert_eq!(bench.get("/v1/models/gpt-9").await.status, 404);
    let detailed = bench.get("/health/detailed").await.json();
    assert_eq!(detailed["queues"]["inbox"]["waiting"], 0);
}

/// Checks that the settings read before stay in force and that the problem is reported.
#[tokio::test]
async fn a_configuration_that_breaks_while_the_server_runs_is_told() {
    let bench = ServerFixture::with(TestModel::echo()).await;
    let config = |answer: &serde_json::Value| answer["readiness"]["checks"]["config"].to_string();
    assert_eq!(config(&bench.get("/health/detailed").await.json()), "\"ok\"");
    std::fs::write(bench.folder.path().join("config.yaml"), "terminal:\n  backend: docker\n bad: [1\n")
        .unwrap();
    let broken = bench.get("/health/detailed").await.json();
    assert_eq!(broken["status"], "degraded");
    assert!(config(&broken).contains("line 3"), "{broken}");
    std::fs::write(bench.folder.path().join("config.yaml"), "{}\n").unwrap();
    assert_eq!(config(&bench.get("/health/detailed").await.json()), "\"ok\"");
}

#[tokio::test]
async fn other_origins_stay_outside() {
    let bench = ServerFixture::configured(
        TestModel::echo(),
        "",
        &[
            ("API_SERVER_KEY", KEY),
            ("API_SERVER_CORS_ORIGINS", "https://good.example, http://localhost:3000"),
        ],
    )
    .await;
    let hostile = bench.send("GET", "/v1/models", &[("Origin", "https://evil.example")], b"").await;
    assert_eq!((hostile.status, hostile.body.as_str()), (403, ""));
    let preflight = bench
        .send(
            "OPTIONS",
            "/v1/chat/completions",
            &[
                ("Origin", "https://good.example"),
                ("Access-Control-Request-Headers", "x-stainless-lang, authorization"),
                ("Authorization", ""),
            ],
            b"",
        )
        .await;
    assert_eq!(preflight.status, 200);
    assert_eq!(preflight.header("access-control-allow-origin"), Some("https://good.example"));
    assert_eq!(preflight.header("vary"), Some("Origin"));
    assert_eq!(preflight.header("access-control-allow-headers"), Some("x-stainless-lang, authorization"));
    let evil = bench.send("OPTIONS", "/v1/models", &[("Origin", "null")], b"").await;
    assert_eq!(evil.status, 403);
    let good = bench.send("GET", "/v1/models", &[("Origin", "http://localhost:3000")], b"").await;
    assert_eq!(good.status, 200);
}

#[tokio::test]
async fn bodies_that_are_too_large_are_refused_however_they_come() {
    let bench = ServerFixture::with(TestModel::echo()).await;
    let large = vec![b' '; 1_000_001];
    let answer = bench.send("POST", "/v1/chat/completions", &[], &large).await;
    assert_eq!((answer.status, answer.json()["error"]["code"].as_str()), (413, Some("body_too_large")));
    let mut chunked = Vec::new();
    for _ in 0..300 {
        chunked.extend_from_slice(b"1000\r\n");
        chunked.extend_from_slice(&[b' '; 4096]);
        chunked.extend_from_slice(b"\r\n");
    }
    chunked.extend_from_slice(b"0\r\n\r\n");
    let answer =
        bench.send("POST", "/v1/chat/completions", &[("Transfer-Encoding", "chunked")], &chunked).await;
    assert_eq!(answer.status, 413);
}

#[tokio::test]
async fn a_photo_of_a_phone_is_taken_and_other_bodies_keep_their_limit() {
    let bench = ServerFixture::with(TestModel::echo()).await;
    let url = |bytes: usize| format!("data:image/jpeg;base64,{}", "A".repeat(bytes));
    let chat = |url: &str| {
        json!({"messages": [{"role": "user", "content": [
            {"type": "text", "text": "what is this?"}, {"type": "image_url", "image_url": {"url": url}},
        ]}]})
    };
    let respond = |url: &str| {
        json!({"input": [{"role": "user", "content": [
            {"type": "input_text", "text": "what is this?"}, {"type": "input_image", "image_url": url},
        ]}]})
    };
    for (path, body, status) in [
        ("/v1/chat/completions", chat(&url(12_000_000)), 200),
        ("/v1/responses", respond(&url(12_000_000)), 200),
        ("/v1/chat/completions", chat(&url(20_000_000)), 413),
        ("/v1/responses", respond(&url(20_000_000)), 413),
        (
            "/v1/chat/completions",
            json!({"messages": [{"role": "user", "content": "x".repeat(1_100_000)}]}),
            413,
        ),
    ] {
        let asked = bench.model.requests.lock().unwrap().len();
        let answer = bench.send("POST", path, &[], body.to_string().as_bytes()).await;
        assert_eq!(answer.status, status, "{path}: {}", answer.body.chars().take(300).collect::<String>());
        if status == 200 {
            let request = bench.model.requests.lock().unwrap()[asked].clone();
            let content = format!("{:?}", request.messages.last().map(|message| &message.content));
            assert!(content.len() > 12_000_000, "the picture reaches the model");
        }
    }
}

#[tokio::test]
async fn every_body_that_cannot_be_used_names_the_field() {
    let bench = ServerFixture::with(TestModel::echo()).await;
    let user = json!({"role": "user", "content": "x"});
    for (param, body) in [
        ("body", json!([])),
        ("body", json!("text")),
        ("body", json!(null)),
        ("body", json!(7)),
        ("messages", json!({})),
        ("messages", json!({"messages": []})),
        ("messages", json!({"messages": {}})),
        ("messages", json!({"messages": "hi"})),
        ("messages[0]", json!({"messages": [1]})),
        ("messages[0].role", json!({"messages": [{"content": "x"}]})),
        ("messages[0].role", json!({"messages": [{"role": 5, "content": "x"}]})),
        ("messages[0].content", json!({"messages": [{"role": "user", "content": 5}]})),
        ("messages[0].content[0]", json!({"messages": [{"role": "user", "content": [5]}]})),
        ("messages[0].content[0].type", json!({"messages": [{"role": "user", "content": [{"text": "x"}]}]})),
        (
            "messages[0].content[0].type",
            json!({"messages": [{"role": "user", "content": [{"type": "file"}]}]}),
        ),
        (
            "messages[0].content[0].text",
            json!({"messages": [{"role": "user", "content": [{"type": "text"}]}]}),
        ),
        (
            "messages[0].content[0].image_url",
            json!({"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "file:///etc/passwd"}}]}]}),
        ),
        ("messages", json!({"messages": [{"role": "user", "content": "  "}]})),
        ("messages", json!({"messages": [{"role": "system", "content": "x"}]})),
        ("messages", json!({"messages": [user, {"role": "assistant", "content": "x"}]})),
        ("stream", json!({"messages": [user], "stream": 7})),
        ("model", json!({"messages": [user], "model": {}})),
    ] {
        let answer = bench.post("/v1/chat/completions", &body).await;
        assert_eq!(answer.status, 400, "{body}: {answer:?}");
        let error = &answer.json()["error"];
        assert_eq!(error["param"], param, "{body}");
        assert_eq!(error["type"], "invalid_request_error");
    }
    for raw in [&b"{"[..], b"", b"\xff\xfe", br#"{"messages":[{"role":"user","content":"\ud800"}]}"#, b"{}{}"]
    {
        let answer = bench.send("POST", "/v1/chat/completions", &[], raw).await;
        assert_eq!(
            (answer.status, answer.json()["error"]["param"].as_str().unwrap_or("")),
            (
                400,
                if raw == b"{}{}" || raw == b"{" || raw.is_empty() || raw[0] == 0xff || raw.len() > 5 {
                    "body"
                } else {
                    ""
                }
            ),
            "{raw:?}"
        );
    }
    assert!(bench.model.questions().is_empty());
}

/// Sends mutations of valid bodies. None may cause a 500, and the server keeps running.
#[tokio::test]
async fn thousands_of_mangled_bodies_do_no_harm() {
    let bench = ServerFixture::with(TestModel::new(|_, _| ModelStep::Say("ok".into()))).await;
    let seeds = [
        json!({"model": "m", "messages": [{"role": "user", "content": "x"}], "stream": false}).to_string(),
        json!({"input": [{"role": "user", "content": [{"type": "input_text", "text": "x"}]}], "store": true})
            .to_string(),
        json!({"input": "x", "conversation": "c", "truncation": "auto", "previous_response_id": null})
            .to_string(),
    ];
    let pieces: [&[u8]; 12] = [
        b"null",
        b"[]",
        b"{}",
        b"\"\"",
        b"1e999",
        b"-0",
        b"\\ud800",
        b"true",
        b"\x00",
        b"[[[[",
        b"9999999999999999999",
        b"\xc3\x28",
    ];
    let mut random = Random(0x5eed);
    for round in 0..1500 {
        let mut body = seeds[round % seeds.len()].clone().into_bytes();
        for _ in 0..=random.below(3) {
            let at = random.below(body.len().max(1));
            match random.below(4) {
                0 if !body.is_empty() => {
                    body.remove(at.min(body.len() - 1));
                }
                1 => body.truncate(at),
                2 => {
                    let piece = pieces[random.below(pieces.len())];
                    let at = at.min(body.len());
                    body.splice(at..at, piece.iter().copied());
                }
                _ => {
                    if let Some(byte) = body.get_mut(at) {
                        *byte = u8::try_from(random.below(256)).unwrap();
                    }
                }
            }
        }
        let path = if round % 3 == 0 { "/v1/chat/completions" } else { "/v1/responses" };
        let answer = bench.send("POST", path, &[], &body).await;
        assert!(
            matches!(answer.status, 200 | 400 | 404 | 409),
            "{path} {}: {answer:?}",
            String::from_utf8_lossy(&body)
        );
        if answer.status != 200 {
            assert!(answer.json()["error"]["message"].as_str().is_some_and(|text| !text.is_empty()));
        }
    }
    assert_eq!(bench.get("/health").await.status, 200);
    bench.until_idle().await;
}

struct Random(u64);

impl Random {
    fn below(&mut self, most: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % most as u64).unwrap()
    }
}

#[test]
fn without_a_key_nobody_is_served() {
    use hermes_config::{Config, Env, Home};
    use hermes_serve::ServerSettings;
    let folder = tempfile::tempdir().unwrap();
    let settings = |pairs: &[(&str, &str)]| {
        let env = Env::from_pairs(pairs.iter().copied());
        ServerSettings::resolve(&Config::load(&Home::new(folder.path()), &env), &env)
    };
    assert!(settings(&[]).is_none(), "off by default");
    for host in ["127.0.0.1", "localhost", "0.0.0.0", "192.168.1.4", "example.com", "::"] {
        let open = settings(&[("API_SERVER_ENABLED", "1"), ("API_SERVER_HOST", host)]).unwrap();
        let refused = open.check().unwrap_err().to_string();
        assert!(refused.contains("hermes gateway setup") && refused.contains("API_SERVER_KEY"), "{refused}");
        let blank =
            settings(&[("API_SERVER_ENABLED", "1"), ("API_SERVER_KEY", " "), ("API_SERVER_HOST", host)]);
        assert!(blank.unwrap().check().is_err(), "{host}");
        let keyed = settings(&[("API_SERVER_KEY", "k"), ("API_SERVER_HOST", host)]).unwrap();
        assert!(keyed.check().is_ok(), "a key alone turns it on");
    }
    let odd = settings(&[("API_SERVER_ENABLED", "1"), ("API_SERVER_PORT", "many")]).unwrap();
    assert_eq!((odd.host.as_str(), odd.port), ("127.0.0.1", 8642));
    let _: Value = Value::Null;
}

#[tokio::test]
async fn an_id_that_is_no_text_is_refused_in_the_usual_shape() {
    let bench = ServerFixture::with(TestModel::echo()).await;
    for path in ["/v1/responses/%00%ff", "/v1/runs/%ff", "/v1/models/%ff"] {
        let answer = bench.get(path).await;
        assert_eq!(
            (answer.status, answer.json()["error"]["param"].as_str()),
            (400, Some("id")),
            "{answer:?}"
        );
    }
}

/// Sends a request on a keep-alive connection and reads the head of the response.
async fn kept(
    stream: &mut tokio::net::TcpStream,
    method: &str,
    path: &str,
    key: &str,
    body: &str,
) -> Option<String> {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let request = format!(
        "{method} {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {key}\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let _ = stream.write_all(request.as_bytes()).await;
    let mut answer = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        let count = stream.read(&mut buffer).await.unwrap_or(0);
        if count == 0 {
            break;
        }
        answer.extend_from_slice(&buffer[..count]);
        let text = String::from_utf8_lossy(&answer).to_lowercase();
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
        if length.is_some_and(|length: usize| body.len() >= length) {
            break;
        }
    }
    (!answer.is_empty()).then(|| String::from_utf8_lossy(&answer).to_lowercase())
}

/// Checks that no route waits for a body without limit.
#[tokio::test]
async fn a_body_that_does_not_come_is_not_waited_for() {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let clock = hermes_testkit::TestClock::new();
    let bench = ServerFixture::with_clock(&clock, TestModel::echo()).await;
    for (method, path) in [
        ("POST", "/v1/chat/completions"),
        ("POST", "/v1/responses"),
        ("POST", "/v1/runs"),
        ("POST", "/api/jobs"),
        ("PATCH", "/api/jobs/0123456789ab"),
    ] {
        let mut stream = tokio::net::TcpStream::connect(bench.address).await.unwrap();
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {KEY}\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n{{"
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        let waits = || clock.slept().iter().filter(|slept| **slept == Duration::from_secs(30)).count();
        let before = waits();
        while waits() == before {
            tokio::task::yield_now().await;
        }
        clock.advance(Duration::from_secs(31));
        let mut answer = vec![0; 200];
        let count = stream.read(&mut answer).await.unwrap();
        let answer = String::from_utf8_lossy(&answer[..count]).into_owned();
        assert!(answer.starts_with("HTTP/1.1 408"), "{method} {path}: {answer}");
    }
}

#[tokio::test]
async fn a_kept_connection_goes_on_or_says_that_it_ends() {
    let bench = ServerFixture::with(TestModel::echo()).await;
    let long = "x".repeat(600_000);
    for (method, path, key, body, status) in [
        ("GET", "/v1/models", "wrong", "", 401),
        ("GET", "/nowhere", KEY, "", 404),
        ("GET", "/v1/chat/completions", KEY, "", 405),
        ("POST", "/v1/chat/completions", "wrong", "{}", 401),
        ("POST", "/v1/chat/completions", "wrong", long.as_str(), 401),
        ("POST", "/nowhere", KEY, long.as_str(), 404),
        ("POST", "/v1/models", KEY, long.as_str(), 405),
        ("POST", "/v1/runs/run_x/stop", KEY, long.as_str(), 404),
        ("POST", "/v1/chat/completions", KEY, "{}", 400),
    ] {
        let mut stream = tokio::net::TcpStream::connect(bench.address).await.unwrap();
        let what = format!("{method} {path} with {} bytes", body.len());
        let Some(answer) = kept(&mut stream, method, path, key, body).await else {
            panic!("{what}: no answer")
        };
        assert!(answer.starts_with(&format!("http/1.1 {status}")), "{what}: {answer}");
        if answer.contains("\r\nconnection: close\r\n") {
            assert!(!body.is_empty(), "{what}: there is no reason to close");
            continue;
        }
        let next = kept(&mut stream, "GET", "/health", KEY, "").await;
        assert!(next.is_some_and(|next| next.starts_with("http/1.1 200")), "{what}: closed without a word");
    }
}

#[tokio::test]
async fn every_check_of_the_health_page_really_checks() {
    let bench = ServerFixture::with(TestModel::echo()).await;
    let check = |page: &Value, name: &str| page["readiness"]["checks"][name].to_string();
    let page = bench.get("/health/detailed").await.json();
    for name in ["state_db", "config", "model", "gateway"] {
        assert_eq!(check(&page, name), "\"ok\"", "{page}");
    }
    std::fs::remove_file(bench.folder.path().join("state.db")).unwrap();
    let page = bench.get("/health/detailed").await.json();
    assert!(check(&page, "state_db") != "\"ok\"" && page["status"] != "ok", "{page}");
    bench.gateway.drain();
    let page = bench.get("/health/detailed").await.json();
    assert!(check(&page, "gateway").contains("no new turns"), "{page}");
}
