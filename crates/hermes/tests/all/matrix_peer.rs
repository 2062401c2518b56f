//! Chats over a real Synapse with a user of matrix-nio, encrypted and not. Neither shares code with the program.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Mutex;

use hermes_testkit::{ModelScript, ModelServer, TempHome, fixture};
use serde_json::{Value, json};

use super::life::{GatewayChild, PlatformDriver, command_of, live, start_gateway};
use super::support::{program, until, until_found};

const BOT: &str = "@bot:localhost";

/// Ends a program, however the test ends.
struct PeerProgram(Child);

impl Drop for PeerProgram {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[expect(clippy::disallowed_methods, reason = "the peers are programs, found by an environment variable")]
fn peers() -> PathBuf {
    std::env::var_os("HERMES_PEERS").map_or_else(
        || PathBuf::from(std::env::var_os("HOME").unwrap_or_default()).join(".cache/hermes-peers"),
        PathBuf::from,
    )
}

fn script() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/peers/matrix.py")
}

/// A homeserver of one test.
struct Synapse {
    url: String,
    folder: tempfile::TempDir,
    _program: PeerProgram,
}

impl Synapse {
    /// Starts a server. `pace` is `slow` for one with narrow limits.
    fn start(pace: &str) -> Option<Self> {
        let python = peers().join("synapse/bin/python");
        let (synapse, nio) =
            (peers().join("synapse/bin/register_new_matrix_user"), peers().join("nio/bin/python"));
        if !synapse.exists() || !nio.exists() {
            hermes_testkit::peer_is_missing(&format!("{} has no synapse and nio", peers().display()));
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        let port = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().port();
        let log = std::fs::File::create(folder.path().join("log")).unwrap();
        let program = Command::new(python)
            .arg(script())
            .args(["server", &folder.path().to_string_lossy(), &port.to_string(), pace])
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap();
        let program = PeerProgram(program);
        until("Synapse listens", || std::net::TcpStream::connect(("127.0.0.1", port)).is_ok());
        Some(Self { url: format!("http://127.0.0.1:{port}"), folder, _program: program })
    }

    fn register(&self, name: &str) {
        let password = format!("pw-{name}");
        let arguments = ["-u", name, "-p", &password, "--no-admin", "-k", "testsecret", &self.url];
        let program = peers().join("synapse/bin/register_new_matrix_user");
        let output = Command::new(program).args(arguments).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    }

    /// Makes an account, and signs in with matrix-nio.
    fn user(&self, name: &str) -> MatrixUser {
        self.register(name);
        let mut program = Command::new(peers().join("nio/bin/python"))
            .arg(script())
            .args(["user", &self.folder.path().to_string_lossy(), &self.url, name])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(std::fs::File::create(self.folder.path().join(format!("{name}.log"))).unwrap())
            .spawn()
            .unwrap();
        let (input, output) = (program.stdin.take().unwrap(), BufReader::new(program.stdout.take().unwrap()));
        let mut pipe = UserPipe { input, output };
        assert_eq!(pipe.read()["ready"], true);
        MatrixUser { pipe: Mutex::new(pipe), _program: PeerProgram(program) }
    }

    fn env(&self, more: &str) -> String {
        let url = &self.url;
        format!("MATRIX_HOMESERVER={url}\nMATRIX_USER_ID={BOT}\nMATRIX_PASSWORD=pw-bot\n{more}")
    }
}

struct UserPipe {
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl UserPipe {
    fn read(&mut self) -> Value {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap_or_else(|_| panic!("the user has ended: {line}"))
    }
}

/// A user of another program.
struct MatrixUser {
    pipe: Mutex<UserPipe>,
    _program: PeerProgram,
}

/// A message of the bot as the other program shows it, with its edits.
#[derive(Debug, Clone, Default)]
struct SeenMessage {
    id: String,
    text: String,
    content: Value,
    encrypted: bool,
    edits: usize,
}

impl MatrixUser {
    fn ask(&self, command: &Value) -> Value {
        let mut pipe = self.pipe.lock().unwrap();
        writeln!(pipe.input, "{command}").unwrap();
        let answer = pipe.read();
        assert!(answer.get("error").is_none(), "{command}: {answer}");
        answer
    }

    fn room(&self, more: &Value) -> String {
        let mut command = json!({"do": "room", "invite": [BOT]});
        for (key, value) in more.as_object().unwrap() {
            command[key] = value.clone();
        }
        self.ask(&command)["room"].as_str().unwrap().to_owned()
    }

    fn has_bot(&self, room: &str) -> bool {
        let answer = self.ask(&json!({"do": "members", "room": room}));
        answer["members"].as_array().unwrap().iter().any(|member| member == BOT)
    }

    fn send(&self, room: &str, content: &Value) -> String {
        self.ask(&json!({"do": "send", "room": room, "content": content}))["id"].as_str().unwrap().to_owned()
    }

    fn says(&self, room: &str, text: &str) -> String {
        self.send(room, &json!({"msgtype": "m.text", "body": text}))
    }

    fn shares(&self, room: &str, text: &str, kind: &str, file: (&str, &str, &[u8])) {
        let (name, mime, bytes) = file;
        let bytes = data_encoding::HEXLOWER.encode(bytes);
        self.ask(&json!({
            "do": "share", "room": room, "text": text, "msgtype": kind, "name": name, "mime": mime, "bytes": bytes,
        }));
    }

    /// Returns the bot's messages in a room, oldest first.
    fn seen(&self, room: &str) -> Vec<SeenMessage> {
        let answer = self.ask(&json!({"do": "look"}));
        let mut seen: Vec<SeenMessage> = Vec::new();
        for event in answer["events"].as_array().unwrap() {
            if event["room"] != room || event["sender"] != BOT || event["type"] != "m.room.message" {
                continue;
            }
            let content = event["content"].clone();
            let relation = &content["m.relates_to"];
            let text = |content: &Value| content["body"].as_str().unwrap_or_default().to_owned();
            if relation["rel_type"] == "m.replace" {
                if let Some(message) =
                    seen.iter_mut().find(|message| relation["event_id"] == message.id.as_str())
                {
                    message.text = text(&content["m.new_content"]);
                    message.edits += 1;
                }
            } else {
                seen.push(SeenMessage {
                    id: event["id"].as_str().unwrap().to_owned(),
                    text: text(&content),
                    content,
                    encrypted: event["encrypted"] == true,
                    edits: 0,
                });
            }
        }
        seen
    }

    fn until_seen(&self, room: &str, part: &str) -> SeenMessage {
        let what = || format!("{part}; there is {:#?}", self.seen(room));
        until_found(what, || self.seen(room).into_iter().rfind(|message| message.text.contains(part)))
    }

    /// Downloads the file of a message, decrypted.
    fn fetch(&self, message: &SeenMessage) -> Vec<u8> {
        let mut command = json!({"do": "fetch", "url": message.content["url"]});
        if message.content["file"].is_object() {
            command["file"] = message.content["file"].clone();
        }
        let answer = self.ask(&command);
        data_encoding::HEXLOWER.decode(answer["bytes"].as_str().unwrap().as_bytes()).unwrap()
    }

    fn request(&self, method: &str, path: &str, token: Option<&str>, body: &Value) -> Value {
        self.ask(&json!({"do": "request", "method": method, "path": path, "token": token, "body": body}))
    }
}

fn home(model: &ModelServer, env: &str) -> TempHome {
    let config = json!({
        "model": {"provider": "custom", "base_url": model.base_url(), "default": "m"}, "terminal": {"sandbox": "off"},
    });
    let home = TempHome::builder().config_yaml(&config.to_string()).env_file(env).build().unwrap();
    std::fs::create_dir_all(home.join("user")).unwrap();
    home
}

fn state(home: &TempHome) -> Value {
    let text = std::fs::read_to_string(home.join("gateway_state.json")).unwrap_or_default();
    let state: Value = serde_json::from_str(&text).unwrap_or_default();
    state["platforms"]["matrix"].clone()
}

fn connected(home: &TempHome) -> GatewayChild {
    let gateway = start_gateway(home);
    let log = || std::fs::read_to_string(home.join("gateway.out")).unwrap_or_default();
    until_found(
        || format!("connected: {}\n{}", state(home), log()),
        || (state(home)["state"] == "connected").then_some(()),
    );
    gateway
}

fn model(replies: &Value) -> ModelServer {
    let script = json!({"default": "echo", "replies": replies});
    ModelServer::start_blocking(ModelScript::from_yaml("matrix", &script.to_string()).unwrap()).unwrap()
}

struct MatrixDriver {
    server: Synapse,
    ann: MatrixUser,
    room: String,
}

impl PlatformDriver for MatrixDriver {
    fn platform(&self) -> &'static str {
        "matrix"
    }

    fn extra(&self) -> Value {
        json!({})
    }

    fn env(&self) -> String {
        self.server.env("MATRIX_ENCRYPTION=true\n")
    }

    fn says(&self, text: &str) {
        until("the bot has joined", || self.ann.has_bot(&self.room));
        // Programs keep what begins with a slash for themselves.
        self.ann.says(&self.room, &text.replacen('/', "!", usize::from(text.starts_with('/'))));
    }

    fn sends(&self, text: &str, name: &str, mime: &str, bytes: &[u8]) {
        self.ann.shares(&self.room, text, "m.file", (name, mime, bytes));
    }

    fn presses(&self, label: &str) {
        let seen = self.ann.seen(&self.room);
        let question = seen.iter().rfind(|message| message.text.contains(&format!("✅ {label}"))).unwrap();
        let content =
            json!({"m.relates_to": {"rel_type": "m.annotation", "event_id": question.id, "key": "✅"}});
        self.ann.ask(&json!({"do": "send", "type": "m.reaction", "room": self.room, "content": content}));
    }

    fn said(&self) -> Vec<String> {
        let seen = self.ann.seen(&self.room);
        assert!(seen.iter().all(|message| message.encrypted), "{seen:#?}");
        seen.into_iter().map(|message| message.text).collect()
    }

    fn files(&self) -> Vec<(String, Vec<u8>)> {
        let seen = self.ann.seen(&self.room);
        let files = seen.iter().filter(|message| message.content["file"].is_object());
        files
            .map(|message| {
                (message.content["filename"].as_str().unwrap().to_owned(), self.ann.fetch(message))
            })
            .collect()
    }

    fn limit(&self) -> usize {
        4000
    }
}

#[test]
fn peer_matrix_a_whole_chat_in_an_encrypted_room() {
    let Some(server) = Synapse::start("") else { return };
    server.register("bot");
    let ann = server.user("ann");
    let room = ann.room(&json!({"encrypted": true, "direct": true}));
    let driver = MatrixDriver { server, ann, room };
    live(&driver);
    // The program was started twice and is one device, signed by its user's identity.
    let body = json!({"device_keys": {BOT: []}});
    let answer = driver.ann.request("POST", "/_matrix/client/v3/keys/query", None, &body);
    let devices = answer["body"]["device_keys"][BOT].as_object().unwrap();
    assert_eq!(devices.len(), 1, "{answer}");
    let signatures = &devices.values().next().unwrap()["signatures"][BOT];
    assert_eq!(signatures.as_object().unwrap().len(), 2, "{answer}");
}

#[test]
fn peer_matrix_rooms_threads_pictures_and_strangers() {
    let Some(server) = Synapse::start("") else { return };
    server.register("bot");
    let (ann, mallory) = (server.user("ann"), server.user("mallory"));
    let model = model(&json!([
        {"when": {"user_contains": "draw a dot"}, "repeat": "forever", "text": "Here. MEDIA:~/dot.png"},
        {"when": {"user_contains": "use a tool", "tool_result": "call_1"}, "text": "the tool is done"},
        {"when": {"user_contains": "use a tool", "tool_result": "call_0"},
         "tool": {"name": "terminal", "id": "call_1", "arguments": {"command": "echo second"}}},
        {"when": {"user_contains": "use a tool"},
         "tool": {"name": "terminal", "id": "call_0", "arguments": {"command": "echo first"}}},
    ]));
    let home = home(&model, &server.env("MATRIX_ENCRYPTION=true\nMATRIX_ALLOWED_USERS=@ann:localhost\n"));
    std::fs::write(home.join("user/dot.png"), b"\x89PNG\r\n\x1a\ndot").unwrap();
    let open = ann.room(&json!({"name": "Open", "invite": [BOT, "@mallory:localhost"]}));
    let closed =
        ann.room(&json!({"name": "Closed", "encrypted": true, "invite": [BOT, "@mallory:localhost"]}));
    mallory.ask(&json!({"do": "look"}));
    let gateway = connected(&home);
    until("it has joined", || ann.has_bot(&open) && ann.has_bot(&closed));

    ann.says(&open, "not for you");
    ann.says(&open, "@bot:localhost plain words");
    let plain = ann.until_seen(&open, "plain words");
    assert!(!plain.encrypted);
    for (room, text) in [(&open, "@bot draw a dot"), (&closed, "bot: draw a dot")] {
        ann.says(room, text);
        let picture = until_found(
            || "a picture".to_owned(),
            || ann.seen(room).into_iter().find(|message| message.content["msgtype"] == "m.image"),
        );
        assert_eq!(picture.encrypted, *room == closed);
        assert_eq!(ann.fetch(&picture), b"\x89PNG\r\n\x1a\ndot");
    }
    // Inside a thread the answer stays there, and the other member can read it.
    let question = ann.says(&closed, "@bot:localhost first of a thread");
    ann.until_seen(&closed, "first of a thread");
    let relation = json!({"rel_type": "m.thread", "event_id": question});
    let within = json!({"msgtype": "m.text", "body": "@bot:localhost within it", "m.relates_to": relation});
    ann.send(&closed, &within);
    let answer = ann.until_seen(&closed, "within it");
    assert_eq!(answer.content["m.relates_to"]["rel_type"], "m.thread");
    assert_eq!(answer.content["m.relates_to"]["event_id"], question.as_str());
    assert!(mallory.until_seen(&closed, "within it").encrypted);
    // Which tools run is one message that is edited.
    ann.says(&closed, "@bot:localhost use a tool");
    ann.until_seen(&closed, "the tool is done");
    until("the progress was edited", || {
        ann.seen(&closed).iter().any(|message| message.text.contains("terminal") && message.edits > 0)
    });
    ann.shares(&closed, "@bot:localhost look", "m.image", ("cat.png", "image/png", b"\x89PNG\r\n\x1a\ncat"));
    until("the picture is there", || {
        let folder = std::fs::read_dir(home.join("cache/images")).into_iter().flatten().flatten();
        folder.map(|entry| std::fs::read(entry.path()).unwrap()).any(|bytes| bytes == b"\x89PNG\r\n\x1a\ncat")
    });
    assert!(!ann.seen(&open).iter().any(|message| message.text.contains("not for you")));

    // Somebody unknown gets no answer, and the bot does not follow them.
    mallory.says(&open, "@bot:localhost let me in");
    let trap = mallory.room(&json!({"encrypted": true, "direct": true}));
    let joined = "/_matrix/client/v3/rooms/";
    until("the invitation was declined", || {
        let path = format!("{joined}{trap}/members");
        let answer = mallory.request("GET", &path, None, &Value::Null);
        answer["body"]["chunk"]
            .as_array()
            .unwrap()
            .iter()
            .any(|event| event["state_key"] == BOT && event["content"]["membership"] == "leave")
    });
    ann.says(&open, "@bot:localhost last words");
    ann.until_seen(&open, "last words");
    assert!(!ann.seen(&open).iter().any(|message| message.text.contains("let me in")));
    drop(gateway);
}

#[test]
fn peer_matrix_a_device_is_verified_by_emoji() {
    let Some(server) = Synapse::start("") else { return };
    server.register("bot");
    let ann = server.user("ann");
    let model = model(&json!([]));
    let home = home(&model, &server.env("MATRIX_ENCRYPTION=true\nMATRIX_ALLOWED_USERS=@ann:localhost\n"));
    let room = ann.room(&json!({"encrypted": true, "direct": true}));
    let gateway = connected(&home);
    until("it has joined", || ann.has_bot(&room));
    ann.says(&room, "hello");
    ann.until_seen(&room, "hello");
    let shown = || -> Value {
        let text = std::fs::read_to_string(home.join("matrix_verification.json")).unwrap_or_default();
        serde_json::from_str(&text).unwrap_or_default()
    };
    let seen =
        |id: &Value, confirm: bool| ann.ask(&json!({"do": "verification", "id": id, "confirm": confirm}));
    let begin = || {
        let id = ann.ask(&json!({"do": "verify", "user": BOT}))["id"].clone();
        let theirs = until_found(
            || "the emoji of the other side".to_owned(),
            || seen(&id, false)["emoji"].as_array().filter(|emoji| emoji.len() == 7).cloned(),
        );
        until("the emoji of this side", || shown()["id"] == id);
        let ours: Vec<Value> =
            shown()["emoji"].as_array().unwrap().iter().map(|emoji| emoji["symbol"].clone()).collect();
        assert_eq!(ours, theirs);
        assert_eq!(shown()["numbers"], seen(&id, false)["numbers"]);
        id
    };
    let verify = |flag: &str| {
        let output = command_of(&program(), &home, &["matrix", "verify", flag]).output().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    // What differs ends it on both sides.
    let id = begin();
    assert!(verify("--no").contains("The verification is ended"));
    until("it is ended", || seen(&id, false)["canceled"] == true);
    until("it is forgotten", || shown()["id"].is_null());
    let id = begin();
    let name = shown()["emoji"][0]["name"].as_str().unwrap().to_owned();
    let printed = verify("--yes");
    assert!(printed.contains(&name) && printed.contains("@ann:localhost"), "{printed}");
    assert_eq!(seen(&id, true)["verified"], false);
    until("it is verified there", || seen(&id, false)["verified"] == true);
    until("it is verified here", || {
        let log = std::fs::read_to_string(home.join("logs/gateway.log")).unwrap_or_default();
        log.contains("a Matrix device was verified")
    });
    drop(gateway);
    // Without a gateway there is nothing to compare.
    let output = command_of(&program(), &home, &["matrix", "verify"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("no Matrix device waits"));
}

#[test]
fn peer_matrix_a_revoked_token_is_said_once() {
    let Some(server) = Synapse::start("") else { return };
    server.register("bot");
    let ann = server.user("ann");
    let body = json!({"type": "m.login.password", "identifier": {"type": "m.id.user", "user": "bot"}, "password": "pw-bot"});
    let answer = ann.request("POST", "/_matrix/client/v3/login", None, &body);
    let token = answer["body"]["access_token"].as_str().unwrap();
    let model = model(&json!([]));
    let env = format!(
        "MATRIX_HOMESERVER={}\nMATRIX_ACCESS_TOKEN={token}\nMATRIX_E2EE_MODE=optional\nMATRIX_ALLOWED_USERS=@ann:localhost\n",
        server.url
    );
    let home = home(&model, &env);
    let room = ann.room(&json!({"encrypted": true, "direct": true}));
    let gateway = connected(&home);
    until("it has joined", || ann.has_bot(&room));
    ann.says(&room, "with a token");
    ann.until_seen(&room, "with a token");
    let answer = ann.request("POST", "/_matrix/client/v3/logout", Some(token), &json!({}));
    assert_eq!(answer["status"], 200);
    until("it says so", || state(&home).to_string().contains("MATRIX_ACCESS_TOKEN"));
    assert_ne!(state(&home)["state"], "connected");
    drop(gateway);
    let log = std::fs::read_to_string(home.join("logs/gateway.log")).unwrap_or_default();
    assert_eq!(log.matches("does not take MATRIX_ACCESS_TOKEN").count(), 1, "{log}");
    assert!(!log.contains(token), "the token is in the log");
}

#[test]
fn peer_matrix_limits_of_the_server_are_obeyed() {
    let Some(server) = Synapse::start("slow") else { return };
    server.register("bot");
    let ann = server.user("ann");
    let model = model(&json!([]));
    let home = home(&model, &server.env("MATRIX_ENCRYPTION=true\nMATRIX_ALLOWED_USERS=@ann:localhost\n"));
    let room = ann.room(&json!({"encrypted": true, "direct": true}));
    let gateway = connected(&home);
    until("it has joined", || ann.has_bot(&room));
    for number in 0..6 {
        let limited = json!({"do": "send", "room": room, "content": {"msgtype": "m.text", "body": format!("ping {number}.")}});
        until("it is sent", || {
            let mut pipe = ann.pipe.lock().unwrap();
            writeln!(pipe.input, "{limited}").unwrap();
            pipe.read().get("id").is_some()
        });
    }
    for number in 0..6 {
        ann.until_seen(&room, &format!("ping {number}."));
    }
    let seen = ann.seen(&room);
    for number in 0..6 {
        let answers = seen.iter().filter(|message| message.text.contains(&format!("ping {number}."))).count();
        assert_eq!(answers, 1, "{seen:#?}");
    }
    drop(gateway);
}

/// More by hand: `MATRIX_MESSAGES=200 cargo nextest run -p hermes --ignore-default-filter peer_matrix_kill`.
#[test]
#[expect(clippy::disallowed_methods, reason = "whoever runs the test says there how long")]
fn peer_matrix_kills_lose_and_repeat_nothing() {
    let Some(server) = Synapse::start("") else { return };
    server.register("bot");
    let ann = server.user("ann");
    let messages =
        std::env::var("MATRIX_MESSAGES").ok().and_then(|count| count.parse().ok()).unwrap_or(24_usize);
    let model = model(&json!([]));
    let home = home(&model, &server.env("MATRIX_ENCRYPTION=true\nMATRIX_ALLOWED_USERS=@ann:localhost\n"));
    let rooms: Vec<String> =
        (0..2).map(|at| ann.room(&json!({"encrypted": at == 0, "direct": true}))).collect();
    let mut gateway = Some(connected(&home));
    for room in &rooms {
        until("it has joined", || ann.has_bot(room));
    }
    let answered = || {
        let all: Vec<SeenMessage> = rooms.iter().flat_map(|room| ann.seen(room)).collect();
        let count = |number: &usize| {
            all.iter().filter(|message| message.text.contains(&format!("ping {number}."))).count()
        };
        (0..messages).map(|number| count(&number)).collect::<Vec<_>>()
    };
    let mut kills = 0;
    for number in 0..messages {
        ann.says(&rooms[number % 2], &format!("ping {number}."));
        // One kill at a time in the life of a message: one that was cut off twice would be reported instead.
        if number % 5 == 4 {
            drop(gateway.take());
            kills += 1;
            let before: usize = answered().iter().sum();
            gateway = Some(start_gateway(&home));
            until("it goes on", || answered().iter().sum::<usize>() > before.min(number));
            if number % 10 == 4 {
                until("all are answered", || answered().iter().take(number + 1).all(|count| *count > 0));
            }
        }
    }
    let what = || format!("all answers: {:?}\n{}", answered(), state(&home));
    until_found(what, || answered().iter().all(|count| *count > 0).then_some(()));
    assert!(answered().iter().all(|count| *count == 1), "{kills} kills: {:?}", answered());
    drop(gateway);
    let sent = "SELECT COUNT(*) FROM hx_outbox WHERE state != 'sent'";
    assert_eq!(fixture::texts(&home.join("state.db"), sent), ["0"]);
}

/// Runs by hand: `cargo nextest run -p hermes --ignore-default-filter --run-ignored all --no-capture peer_matrix_memory`.
#[test]
#[ignore = "a measurement, read by a person"]
fn peer_matrix_memory_of_an_idle_gateway() {
    let Some(server) = Synapse::start("") else { return };
    server.register("bot");
    let ann = server.user("ann");
    let model = model(&json!([]));
    let allowed = "MATRIX_ALLOWED_USERS=@ann:localhost\n";
    let with = |more: &str| {
        let home = home(&model, &server.env(&format!("{allowed}{more}")));
        let room = ann.room(&json!({"encrypted": more.contains("ENCRYPTION=true"), "direct": true}));
        let gateway = connected(&home);
        until("it has joined", || ann.has_bot(&room));
        ann.says(&room, "hello");
        ann.until_seen(&room, "hello");
        super::thousand::memory(&gateway)
    };
    println!("MB after one turn, without encryption: {:.1}", with("MATRIX_ENCRYPTION=false\n"));
    println!("MB after one turn, with encryption: {:.1}", with("MATRIX_ENCRYPTION=true\n"));
}
