//! Servers with an address, and the sign-in to them.

use std::os::unix::fs::PermissionsExt as _;
use std::sync::{Arc, Mutex};

use hermes_mcp::{Error, LoginSurface, McpServerState, probe, sign_in};
use hermes_types::BoxFuture;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use url::Url;

use super::support::{Fixture, json_of, servers};

/// A request to the scripted server.
#[derive(Debug, Clone)]
struct Request {
    line: String,
    head: String,
    body: String,
}

impl Request {
    fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| {
            let (key, value) = line.split_once(':')?;
            key.eq_ignore_ascii_case(name).then(|| value.trim())
        })
    }

    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or(Value::Null)
    }

    fn form(&self, name: &str) -> Option<String> {
        url::form_urlencoded::parse(self.body.as_bytes())
            .find(|(key, _)| key == name)
            .map(|(_, value)| value.into_owned())
    }
}

/// An answer: status, further header lines, body.
struct Reply(u16, String, String);

fn json_reply(value: &Value) -> Reply {
    Reply(200, "content-type: application/json\r\n".to_owned(), value.to_string())
}

/// An HTTP server that answers each request with a function.
struct HttpServer {
    base: String,
    requests: Arc<Mutex<Vec<Request>>>,
}

impl HttpServer {
    async fn start(answer: impl Fn(&Request) -> Reply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base = format!("http://{}", listener.local_addr().unwrap());
        let requests = Arc::new(Mutex::new(Vec::new()));
        let (log, answer) = (requests.clone(), Arc::new(answer));
        drop(hermes_task::spawn_named("http server", &hermes_types::Cancel::new(), async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (log, answer) = (log.clone(), answer.clone());
                drop(hermes_task::spawn_named("connection", &hermes_types::Cancel::new(), async move {
                    serve(stream, &log, &*answer).await;
                }));
            }
        }));
        Self { base, requests }
    }

    fn requests(&self, part: &str) -> Vec<Request> {
        let all = self.requests.lock().unwrap();
        all.iter()
            .filter(|request| request.line.contains(part) || request.body.contains(part))
            .cloned()
            .collect()
    }
}

async fn serve(
    mut stream: TcpStream,
    log: &Mutex<Vec<Request>>,
    answer: &(dyn Fn(&Request) -> Reply + Send + Sync),
) {
    let mut bytes = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let request = Request {
                line: head.lines().next().unwrap_or_default().to_owned(),
                head: head.to_owned(),
                body: body.to_owned(),
            };
            let length = request.header("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
            if body.len() >= length {
                log.lock().unwrap().push(request.clone());
                let Reply(status, headers, body) = answer(&request);
                let reply = format!(
                    "HTTP/1.1 {status} X\r\n{headers}content-length: {}\r\nconnection: close\r\n\r\n{body}",
                    body.len()
                );
                let _ = stream.write_all(reply.as_bytes()).await;
                return;
            }
        }
        match stream.read(&mut buffer).await {
            Ok(count) if count > 0 => bytes.extend_from_slice(&buffer[..count]),
            _ => return,
        }
    }
}

/// Answers as an MCP server with one tool.
fn mcp(request: &Request) -> Reply {
    let message = request.json();
    let id = &message["id"];
    let result = |value: Value| json!({"jsonrpc": "2.0", "id": id, "result": value});
    match message["method"].as_str() {
        Some("initialize") => {
            let Reply(status, headers, body) = json_reply(&result(json!({
                "protocolVersion": "2025-06-18",
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "web", "version": "1"},
            })));
            Reply(status, format!("{headers}mcp-session-id: session-1\r\n"), body)
        }
        Some("tools/list") => json_reply(&result(json!({"tools": [{"name": "t", "inputSchema": {}}]}))),
        Some("tools/call") => {
            let log = json!({"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": 1}});
            let answer = result(json!({"content": [{"type": "text", "text": "over http"}]}));
            let events = format!("data: {log}\n\nevent: message\ndata: {answer}\n\n");
            Reply(200, "content-type: text/event-stream\r\n".to_owned(), events)
        }
        Some(_) => Reply(202, String::new(), String::new()),
        None => Reply(405, String::new(), String::new()),
    }
}

#[tokio::test]
async fn a_server_is_called_over_http() {
    let server = HttpServer::start(mcp).await;
    let fixture = Fixture::new();
    let entry = format!(
        "mcp_servers:\n  web: {{url: '{}/mcp', headers: {{Authorization: Bearer secret-1, X-Mine: mine}}}}\n",
        server.base
    );
    fixture.connect(servers(&entry)).await;
    assert_eq!(fixture.names(), ["mcp_web_t"]);
    let outcome = fixture.call("mcp_web_t", json!({})).await;
    assert_eq!(json_of(&outcome)["result"], "over http");
    for request in server.requests("tools/") {
        assert_eq!(request.header("authorization"), Some("Bearer secret-1"));
        assert_eq!(
            (request.header("x-mine"), request.header("mcp-session-id")),
            (Some("mine"), Some("session-1"))
        );
    }
}

#[tokio::test]
async fn a_redirect_to_a_private_address_is_not_followed() {
    let inner = HttpServer::start(mcp).await;
    let target = inner.base.replace("127.0.0.1", "localhost");
    let server =
        HttpServer::start(move |_| Reply(307, format!("location: {target}/mcp\r\n"), String::new())).await;
    let fixture = Fixture::new();
    let entry = format!("mcp_servers:\n  web: {{url: '{}/mcp'}}\n", server.base);
    fixture.connect(servers(&entry)).await;
    assert!(matches!(fixture.state(), McpServerState::Failed(_)), "{:?}", fixture.state());
    assert!(inner.requests.lock().unwrap().is_empty());
}

/// A person whose browser signs in at once.
struct Browser {
    code: &'static str,
    address: Mutex<Option<Url>>,
}

impl LoginSurface for Browser {
    fn show_address(&self, address: &str) {
        let address = Url::parse(address).unwrap();
        let value = |name: &str| address.query_pairs().find(|(key, _)| key == name).unwrap().1.into_owned();
        let back = format!("{}?code={}&state={}", value("redirect_uri"), self.code, value("state"));
        *self.address.lock().unwrap() = Some(address.clone());
        // The listener accepts while the caller waits, so the browser needs a thread of its own.
        std::thread::spawn(move || {
            use std::io::{Read as _, Write as _};
            let back = Url::parse(&back).unwrap();
            let place = format!("127.0.0.1:{}", back.port().unwrap());
            for target in
                ["/favicon.ico", "/callback?code=forged&state=wrong", &back[url::Position::BeforePath..]]
            {
                let mut stream = std::net::TcpStream::connect(&place).unwrap();
                write!(stream, "GET {target} HTTP/1.1\r\nhost: x\r\n\r\n").unwrap();
                let mut page = String::new();
                let _ = stream.read_to_string(&mut page);
            }
        });
    }

    fn ask_code(&self) -> BoxFuture<'_, Option<String>> {
        Box::pin(std::future::pending())
    }
}

/// Answers as an MCP server that wants a token, and as its authorization server. The token is valid for as many
/// seconds as given.
fn guarded(request: &Request, base: &str, expires_in: u64) -> Reply {
    let path = request.line.split(' ').nth(1).unwrap_or_default();
    match path {
        "/.well-known/oauth-protected-resource/mcp" => {
            json_reply(&json!({"resource": format!("{base}/mcp"), "authorization_servers": [base]}))
        }
        "/.well-known/oauth-authorization-server" => json_reply(&json!({
            "issuer": base,
            "authorization_endpoint": format!("{base}/authorize"),
            "token_endpoint": format!("{base}/token"),
            "registration_endpoint": format!("{base}/register"),
            "code_challenge_methods_supported": ["S256"],
        })),
        "/register" => json_reply(&json!({"client_id": "client-1", "client_name": "Hermes Agent"})),
        "/token" if request.form("grant_type").as_deref() == Some("refresh_token") => {
            json_reply(&json!({"access_token": "token-2", "token_type": "Bearer", "expires_in": 3600}))
        }
        "/token" if request.form("code").as_deref() == Some("good") => json_reply(&json!({
            "access_token": "token-1", "token_type": "Bearer", "expires_in": expires_in, "refresh_token": "refresh-1",
        })),
        "/token" => Reply(400, String::new(), json!({"error": "invalid_grant"}).to_string()),
        _ => match request.header("authorization") {
            Some("Bearer token-1" | "Bearer token-2") => mcp(request),
            _ => Reply(401, "www-authenticate: Bearer\r\n".to_owned(), String::new()),
        },
    }
}

async fn guarded_server(expires_in: u64) -> HttpServer {
    HttpServer::start(move |request| {
        let base = format!("http://{}", request.header("host").unwrap_or_default());
        guarded(request, &base, expires_in)
    })
    .await
}

#[tokio::test]
async fn a_sign_in_stores_tokens_that_connect_the_server() {
    let server = guarded_server(3600).await;
    let fixture = Fixture::new();
    let entry = servers(&format!("mcp_servers:\n  My.Web: {{url: '{}/mcp', auth: oauth}}\n", server.base));
    let refused = probe(&entry[0], fixture.options()).await.unwrap_err();
    assert_eq!(refused, Error::SignInNeeded { server: "My.Web".to_owned() });
    let browser = Browser { code: "good", address: Mutex::default() };
    sign_in(&entry[0], &fixture.options(), &browser).await.unwrap();
    let address = browser.address.lock().unwrap().clone().unwrap();
    let asked = |name: &str| address.query_pairs().find(|(key, _)| key == name).unwrap().1.into_owned();
    assert_eq!((asked("code_challenge_method").as_str(), asked("client_id").as_str()), ("S256", "client-1"));
    let exchange = &server.requests("grant_type=authorization_code")[0];
    let verifier = exchange.form("code_verifier").unwrap();
    let challenge = data_encoding::BASE64URL_NOPAD.encode(&Sha256::digest(verifier.as_bytes()));
    assert_eq!(challenge, asked("code_challenge"));
    for name in ["mcp-tokens/my-web.json", "mcp-tokens/my-web.client.json"] {
        let mode = std::fs::metadata(fixture.path(name)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{name}");
    }
    fixture.connect(entry).await;
    assert_eq!(fixture.state(), McpServerState::Connected);
}

#[tokio::test]
async fn a_refused_key_is_told_from_a_missing_sign_in() {
    let server = guarded_server(3600).await;
    let fixture = Fixture::new();
    let entry = servers(&format!("mcp_servers:\n  web: {{url: '{}/mcp'}}\n", server.base));
    let refused = probe(&entry[0], fixture.options()).await.unwrap_err();
    assert!(refused.to_string().contains("HTTP 401"), "{refused}");
}

#[tokio::test]
async fn an_expired_token_is_renewed() {
    let server = guarded_server(1).await;
    let fixture = Fixture::new();
    let entry = servers(&format!("mcp_servers:\n  web: {{url: '{}/mcp', auth: oauth}}\n", server.base));
    let browser = Browser { code: "good", address: Mutex::default() };
    sign_in(&entry[0], &fixture.options(), &browser).await.unwrap();
    fixture.connect(entry).await;
    assert_eq!(json_of(&fixture.call("mcp_web_t", json!({})).await)["result"], "over http");
    assert_eq!(server.requests("grant_type=refresh_token").len(), 1, "it is renewed once");
    let stored: Value = serde_json::from_str(&fixture.read("mcp-tokens/web.json")).unwrap();
    assert_eq!((&stored["access_token"], &stored["refresh_token"]), (&json!("token-2"), &json!("refresh-1")));
}

#[tokio::test]
async fn a_code_that_is_refused_stores_nothing() {
    let server = guarded_server(3600).await;
    let fixture = Fixture::new();
    let entry = servers(&format!("mcp_servers:\n  web: {{url: '{}/mcp', auth: oauth}}\n", server.base));
    let browser = Browser { code: "bad", address: Mutex::default() };
    let error = sign_in(&entry[0], &fixture.options(), &browser).await.unwrap_err();
    assert!(error.to_string().contains("invalid_grant"), "{error}");
    assert!(!fixture.path("mcp-tokens").exists());
    fixture.connect(entry).await;
    let McpServerState::Failed(reason) = fixture.state() else { panic!("{:?}", fixture.state()) };
    assert_eq!(reason, "web wants a sign-in; run: hermes mcp login web");
    assert!(fixture.names().is_empty());
}
