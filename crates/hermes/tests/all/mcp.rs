//! MCP servers in whole turns of the built binary: real servers, and the commands about them.

use std::path::PathBuf;

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Command, Stdio};

use hermes_store::{ChatBinding, NewMessage, NewSession, NewToolCall, Store, TurnOpening};
use hermes_testkit::{ModelScript, ModelServer, ScriptedReply, TempHome};
use hermes_types::{
    CallId, ContentPart, HolderId, Message, MessageContent, SessionId, SpendingCap, Timestamp, Turn, TurnId,
    TurnState,
};
use serde_json::{Value, json};

use super::support::{hermes, program, run, until};

/// Returns the folder of the real servers, or tells that they are not installed.
fn installed(program: &str) -> Option<PathBuf> {
    let peers = std::env::var_os("HERMES_PEERS").map_or_else(
        || PathBuf::from(std::env::var_os("HOME").unwrap_or_default()).join(".cache/hermes-peers"),
        PathBuf::from,
    );
    let found = ["mcp/node_modules/.bin", "mcp-py/bin"].map(|folder| peers.join(folder).join(program));
    let found = found.into_iter().find(|path| path.exists());
    if found.is_none() {
        hermes_testkit::peer_is_missing(&format!("{program} is not installed"));
    }
    found
}

/// Runs one turn in which the model calls the given tools, and returns their results.
fn results(servers: &Value, calls: &[(&str, Value)]) -> Vec<String> {
    let mut script = ModelScript::new();
    for (name, arguments) in calls {
        script = script.reply(ScriptedReply::tool(*name, arguments.clone()));
    }
    let server = ModelServer::start_blocking(script.echo()).unwrap();
    let config = json!({
        "model": {"provider": "custom", "base_url": server.base_url(), "default": "m"},
        "mcp_servers": servers,
        "tools": {"tool_search": {"enabled": "off"}},
    });
    let home = TempHome::builder().config_yaml(&config.to_string()).build().unwrap();
    std::fs::create_dir_all(home.join("user")).unwrap();
    let seen = run(home.path(), &["chat", "-Q", "-q", "go on"]);
    assert!(seen.starts_with("exit 0"), "{seen}");
    let requests = server.requests();
    let length = |body: &Value| body["messages"].as_array().map_or(0, Vec::len);
    let last = requests.iter().map(|request| request.json()).max_by_key(|body| length(body)).unwrap();
    let messages = last["messages"].as_array().unwrap();
    messages
        .iter()
        .filter(|message| message["role"] == "tool")
        .map(|message| message["content"].as_str().unwrap_or_default().to_owned())
        .collect()
}

#[test]
fn peer_everything_is_used_in_a_turn() {
    let Some(everything) = installed("mcp-server-everything") else { return };
    let servers = json!({"ev": {"command": everything, "args": ["stdio"], "env": {"MINE": "shown"}}});
    let said = results(
        &servers,
        &[
            ("mcp_ev_echo", json!({"message": "hi"})),
            ("mcp_ev_get_sum", json!({"a": "2", "b": 3})),
            ("mcp_ev_list_resources", json!({})),
            ("mcp_ev_read_resource", json!({"uri": "demo://resource/static/document/features.md"})),
            ("mcp_ev_list_prompts", json!({})),
            ("mcp_ev_get_prompt", json!({"name": "args-prompt", "arguments": {"city": "Oslo"}})),
            ("mcp_ev_get_structured_content", json!({"location": "New York"})),
            ("mcp_ev_trigger_long_running_operation", json!({"duration": 1, "steps": 2})),
            ("mcp_ev_get_env", json!({})),
            // Last, because it also takes an answer of the script.
            ("mcp_ev_trigger_sampling_request", json!({"prompt": "sample this", "maxTokens": 10})),
        ],
    );
    for (at, part) in [
        (0, "Echo: hi"),
        (1, "The sum of 2 and 3 is 5."),
        (2, "demo://resource/static/document/features.md"),
        (3, "Features"),
        (4, "args-prompt"),
        (5, "Oslo"),
        (6, "temperature"),
        (7, "Long running operation completed"),
        (8, "MINE"),
        (9, "LLM sampling result"),
    ] {
        assert!(said[at].contains(part), "{part}: {}", said[at]);
    }
    assert!(!said[8].contains("HERMES_HOME"), "only its own variables: {}", said[8]);
}

#[test]
fn peer_filesystem_git_and_time_are_used_in_a_turn() {
    let (Some(files), Some(time), Some(git)) =
        (installed("mcp-server-filesystem"), installed("mcp-server-time"), installed("mcp-server-git"))
    else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    std::fs::write(root.join("a.txt"), "from the file\n").unwrap();
    let servers = json!({
        "files": {"command": files, "args": [root]},
        "time": {"command": time},
        "git": {"command": git},
        "dead": {"command": "no-such-program-here"},
    });
    let said = results(
        &servers,
        &[
            ("mcp_files_read_text_file", json!({"path": root.join("a.txt")})),
            ("mcp_files_read_text_file", json!({"path": "/etc/passwd"})),
            ("mcp_time_get_current_time", json!({"timezone": "UTC"})),
            ("mcp_git_git_status", json!({"repo_path": root})),
        ],
    );
    assert!(said[0].contains("from the file"), "{}", said[0]);
    assert!(said[1].contains("error") && said[1].contains("denied"), "{}", said[1]);
    assert!(said[2].contains("timezone"), "{}", said[2]);
    assert!(said[3].contains("error"), "no repository: {}", said[3]);
}

#[test]
fn peer_fetch_reads_a_page() {
    let Some(fetch) = installed("mcp-server-fetch") else { return };
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for mut connection in listener.incoming().map_while(Result::ok) {
            let mut line = String::new();
            let mut request = BufReader::new(connection.try_clone().unwrap());
            while request.read_line(&mut line).is_ok_and(|count| count > 2) {
                line.clear();
            }
            let page = "<html><body><h1>Tides</h1><p>High water at noon.</p></body></html>";
            let head =
                format!("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {}", page.len());
            let _ = write!(connection, "{head}\r\nConnection: close\r\n\r\n{page}");
        }
    });
    let servers = json!({"web": {"command": fetch, "args": ["--ignore-robots-txt", "--allow-private-ips"]}});
    let said =
        results(&servers, &[("mcp_web_fetch", json!({"url": format!("http://{address}/"), "raw": true}))]);
    assert!(said[0].contains("High water at noon."), "{}", said[0]);
}

/// A server in shell, with one tool.
const SMALL_SERVER: &str = r#"
while IFS= read -r line; do
    id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
    case $line in
    *'"initialize"'*) result='{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"small","version":"1"}}' ;;
    *'"tools/list"'*) result='{"tools":[{"name":"ping","description":"Answers","inputSchema":{"type":"object"}}]}' ;;
    *'"tools/call"'*) result='{"content":[{"type":"text","text":"pong"}]}' ;;
    *) continue ;;
    esac
    printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$result"
done
"#;

#[test]
fn a_server_is_added_listed_tested_and_removed() {
    let home = TempHome::builder().config_yaml("# mine\nmodel: {provider: offline}\n").build().unwrap();
    let script = home.join("server.sh");
    std::fs::write(&script, SMALL_SERVER).unwrap();
    let script = script.display().to_string();
    assert!(hermes(&home, &["mcp"]).contains("No MCP servers are configured."));
    assert!(hermes(&home, &["mcp", "add", "x"]).contains("name an address with --url, or a program"));
    let seen = hermes(
        &home,
        &["mcp", "add", "small", "--command", "sh", "--env", "A=1", "--args", script.as_str(), "-c", "x"],
    );
    assert!(seen.starts_with("exit 0") && seen.contains("✓ Connected"), "{seen}");
    let config = std::fs::read_to_string(home.join("config.yaml")).unwrap();
    assert!(config.starts_with("# mine\n") && config.contains("-c"), "{config}");
    let seen = hermes(&home, &["mcp", "ls"]);
    assert!(seen.contains("small") && seen.contains("stdio: sh") && seen.contains("✓ enabled"), "{seen}");
    let seen = hermes(&home, &["mcp", "test", "small"]);
    assert!(seen.contains("✓ Connected (") && seen.contains("ping") && seen.contains("small 1"), "{seen}");
    assert!(hermes(&home, &["mcp", "test", "other"]).contains("there is no MCP server `other`"));
    assert!(std::fs::read_to_string(home.join("mcp_approved_tools.json")).unwrap().contains("ping"));
    let seen = hermes(&home, &["mcp", "rm", "small", "--yes"]);
    assert!(seen.contains("✓ Removed small"), "{seen}");
    assert!(!std::fs::read_to_string(home.join("mcp_approved_tools.json")).unwrap().contains("ping"));
    assert!(hermes(&home, &["mcp", "list"]).contains("No MCP servers are configured."));
}

#[test]
fn a_server_of_the_catalog_is_installed() {
    let home = TempHome::builder().config_yaml("model: {provider: offline}\n").build().unwrap();
    let seen = hermes(&home, &["mcp", "catalog"]);
    assert!(
        seen.contains("filesystem") && seen.contains("Node.js (npx)") && seen.contains("a sign-in"),
        "{seen}"
    );
    assert!(!hermes(&home, &["mcp", "catalog", "linear"]).contains("filesystem"));
    assert!(hermes(&home, &["mcp", "catalog", "--json"]).contains("\"needs\": \"uv (uvx)\""));
    let seen = hermes(&home, &["mcp", "install", "filesytem"]);
    assert!(seen.starts_with("exit 1") && seen.contains("did you mean filesystem?"), "{seen}");
    assert!(hermes(&home, &["mcp", "install", "filesystem"]).contains("wants a FOLDER"));
    let npx = home.join("node/bin/npx");
    std::fs::create_dir_all(npx.parent().unwrap()).unwrap();
    let script = format!("#!/bin/sh\necho \"$@\" >\"$0.called\"\n{SMALL_SERVER}");
    std::fs::write(&npx, script).unwrap();
    std::fs::set_permissions(&npx, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
    let output = Command::new(program())
        .args(["mcp", "install", "filesystem", "--as", "notes", "/srv/notes"])
        .env("HERMES_HOME", home.path())
        .env("HOME", home.path())
        // The stand-in comes before a real one.
        .env("PATH", format!("{}:/usr/bin:/bin", npx.parent().unwrap().display()))
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let seen = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && seen.contains("✓ Saved notes"), "{seen}");
    let called = home.read("node/bin/npx.called");
    assert_eq!(called.trim(), "-y @modelcontextprotocol/server-filesystem /srv/notes");
    assert!(hermes(&home, &["mcp"]).contains("notes"));
    assert!(
        hermes(&home, &["mcp", "picker"]).contains("To add one: hermes mcp install NAME"),
        "nobody can choose"
    );
}

#[test]
fn a_turn_uses_a_server_and_a_dead_one_does_not_matter() {
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("server.sh");
    std::fs::write(&script, SMALL_SERVER).unwrap();
    let servers = json!({
        "small": {"command": "sh", "args": [script]},
        "dead": {"command": "no-such-program-here"},
    });
    assert_eq!(results(&servers, &[("mcp_small_ping", json!({}))]), [r#"{"result":"pong"}"#]);
}

/// A home with one conversation.
fn home_with_a_conversation() -> TempHome {
    let home = TempHome::builder().config_yaml("model: {provider: offline}\n").build().unwrap();
    let store = Store::open(&home.join("state.db")).unwrap();
    let session = SessionId::new("20260101_100000_abcdef");
    let at = Timestamp(1_700_000_000.0);
    let picture = ContentPart::Image { url: "data:image/png;base64,AAAA".to_owned() };
    let parts = MessageContent::Parts(vec![ContentPart::Text("look".to_owned()), picture]);
    let long = "x".repeat(3_000);
    let messages = [Message::user(parts), Message::assistant(long.as_str()), Message::user("bye")];
    let messages = messages.map(|message| NewMessage::new(message, at)).to_vec();
    store.append_creating(NewSession::new(session.clone(), "telegram", at), messages).wait().unwrap();
    let entry = json!({"platform": "telegram", "display_name": "Ann", "updated_at": "2026-01-01T10:00:00"});
    let key = "agent:main:telegram:dm:7".to_owned();
    store.bind(ChatBinding { key, session, entry: entry.to_string(), updated_at: at }).wait().unwrap();
    store.close().wait().unwrap();
    home
}

/// A client of `hermes mcp serve`.
struct ServeClient {
    child: std::process::Child,
    output: BufReader<std::process::ChildStdout>,
    next_id: u64,
}

impl ServeClient {
    fn start(home: &TempHome) -> Self {
        let mut child = Command::new(program())
            .args(["mcp", "serve", "-v"])
            .env("HERMES_HOME", home.path())
            .env("HOME", home.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let mut client = Self { child, output, next_id: 0 };
        let greeting = json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "0"}});
        assert_eq!(client.ask("initialize", &greeting)["serverInfo"]["name"], "hermes");
        client.write(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        client
    }

    fn write(&mut self, message: &Value) {
        writeln!(self.child.stdin.as_mut().unwrap(), "{message}").unwrap();
    }

    /// Sends a request and returns its result. Every line of the output has to be a message.
    fn ask(&mut self, method: &str, params: &Value) -> Value {
        self.next_id += 1;
        let id = self.next_id;
        self.write(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        let answer: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(answer["id"], id, "{answer}");
        answer["result"].clone()
    }

    fn call(&mut self, tool: &str, arguments: &Value) -> Value {
        let result = self.ask("tools/call", &json!({"name": tool, "arguments": arguments}));
        serde_json::from_str(result["content"][0]["text"].as_str().unwrap()).unwrap()
    }
}

#[test]
fn other_agents_read_conversations() {
    let home = home_with_a_conversation();
    let mut client = ServeClient::start(&home);
    let tools = client.ask("tools/list", &json!({}));
    assert_eq!(tools["tools"].as_array().unwrap().len(), 9);
    let key = "agent:main:telegram:dm:7";
    let listed = client.call("conversations_list", &json!({"search": "ann"}));
    assert_eq!((&listed["count"], &listed["conversations"][0]["session_key"]), (&json!(1), &json!(key)));
    assert_eq!(client.call("conversations_list", &json!({"platform": "slack"}))["count"], 0);
    assert_eq!(client.call("conversation_get", &json!({"session_key": key}))["platform"], "telegram");
    let unknown = client.call("conversation_get", &json!({"session_key": "other"}));
    assert_eq!(unknown["error"], "Conversation not found: other");
    let read = client.call("messages_read", &json!({"session_key": key, "limit": 2}));
    assert_eq!((&read["count"], &read["messages"][1]["content"]), (&json!(2), &json!("bye")));
    assert_eq!(read["messages"][0]["content"].as_str().unwrap().len(), 2_003, "cut, with dots");
    let all = client.call("messages_read", &json!({"session_key": key}));
    let id = all["messages"][0]["id"].clone();
    let found = client.call("attachments_fetch", &json!({"session_key": key, "message_id": id}));
    assert_eq!(found["attachments"][0]["media_type"], "image/png");
    assert_eq!(client.call("permissions_list_open", &json!({}))["count"], 0);
    let sent = client.call("messages_send", &json!({"target": "nowhere:1", "message": "x"}));
    assert!(sent["error"].is_string(), "{sent}");
    drop(client.child.stdin.take());
    assert!(client.child.wait().unwrap().success());
}

#[test]
fn other_agents_learn_of_new_messages() {
    let home = home_with_a_conversation();
    let mut client = ServeClient::start(&home);
    assert_eq!(client.call("events_poll", &json!({}))["events"], json!([]), "what is older is no event");
    assert_eq!(client.call("events_wait", &json!({"timeout_ms": 1}))["reason"], "timeout");
    let store = Store::open(&home.join("state.db")).unwrap();
    let session = SessionId::new("20260101_100000_abcdef");
    let message = NewMessage::new(Message::user("new"), Timestamp(1_700_000_001.0));
    store.append(&session, message).wait().unwrap();
    let event = client.call("events_wait", &json!({"after_cursor": 0}))["event"].clone();
    assert_eq!((&event["type"], &event["message"]["content"]), (&json!("message"), &json!("new")));
    let polled = client.call("events_poll", &json!({"after_cursor": 1, "limit": 2}));
    assert_eq!(polled["events"].as_array().unwrap().len(), 2);
    let rest = client.call("events_poll", &json!({"after_cursor": polled["next_cursor"]}));
    assert_eq!(rest["events"].as_array().unwrap().len(), 1, "{rest}");
    let other = client.call("events_poll", &json!({"after_cursor": 1, "session_key": "other"}));
    assert_eq!((&other["events"], &other["next_cursor"]), (&json!([]), &rest["next_cursor"]));
    store.close().wait().unwrap();
    drop(client.child.stdin.take());
    assert!(client.child.wait().unwrap().success());
}

#[test]
fn other_agents_learn_of_approvals_and_cannot_give_them() {
    let home = home_with_a_conversation();
    let store = Store::open(&home.join("state.db")).unwrap();
    let (session, at) = (SessionId::new("20260101_100000_abcdef"), Timestamp(1_700_000_002.0));
    let mut client = ServeClient::start(&home);
    let turn = Turn {
        id: TurnId::new("t1"),
        session: session.clone(),
        inbox: None,
        state: TurnState::Running,
        started_at: at,
        deadline_at: None,
        cap: SpendingCap::default(),
        cut_offs: 0,
    };
    let opening = TurnOpening {
        session: NewSession::new(session, "telegram", at),
        messages: Vec::new(),
        turn: turn.clone(),
        inbox: Vec::new(),
        speaker: None,
    };
    store.begin_turn(opening, &HolderId::new("here"), std::time::Duration::from_mins(10)).wait().unwrap();
    let call = NewToolCall { id: CallId::new("c1"), name: "terminal".to_owned(), arguments: "{}".to_owned() };
    store.begin_call(&turn.id, call, at).wait().unwrap();
    store.begin_asking(&turn.id, &CallId::new("c1")).wait().unwrap();
    let other = client.call("events_poll", &json!({"session_key": "other"}));
    assert_eq!(other["events"], json!([]), "nobody else is told");
    let event = client.call("events_wait", &json!({}))["event"].clone();
    assert_eq!(
        (&event["type"], &event["approval"]["tool"]),
        (&json!("approval_requested"), &json!("terminal"))
    );
    assert_eq!(event["session_key"], "agent:main:telegram:dm:7");
    assert_eq!(client.call("events_poll", &json!({}))["events"], json!([]), "it is told once");
    assert_eq!(client.call("permissions_list_open", &json!({}))["permissions"][0]["id"], "c1");
    let tools = client.ask("tools/list", &json!({}));
    assert!(!tools.to_string().contains("permissions_respond"), "{tools}");
    store.end_asking(&turn.id, &CallId::new("c1")).wait().unwrap();
    let event = client.call("events_wait", &json!({}))["event"].clone();
    assert_eq!((&event["type"], &event["approval"]["id"]), (&json!("approval_resolved"), &json!("c1")));
    assert_eq!(client.call("events_poll", &json!({}))["events"], json!([]));
    assert_eq!(client.call("permissions_list_open", &json!({}))["count"], 0);
    store.close().wait().unwrap();
    drop(client.child.stdin.take());
    assert!(client.child.wait().unwrap().success());
}

#[test]
fn peer_the_python_client_is_served() {
    let Some(python) = installed("python") else { return };
    let home = home_with_a_conversation();
    let script = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/peers/mcp_serve.py");
    let output = Command::new(python).arg(script).arg(program()).arg(home.path()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.trim_end().ends_with("all well"), "{said}{}", String::from_utf8_lossy(&output.stderr));
}

/// A server in shell that never answers a call. It writes its process id, and that of a program it started.
const STUCK_SERVER: &str = r#"
sleep 1000 &
printf '%s\n%s\n' $$ $! >"$1.new" && mv "$1.new" "$1"
while IFS= read -r line; do
    id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
    case $line in
    *'"initialize"'*) result='{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"stuck","version":"1"}}' ;;
    *'"tools/list"'*) result='{"tools":[{"name":"wait","inputSchema":{"type":"object"}}]}' ;;
    *'"tools/call"'*) touch "$1.called"; continue ;;
    *) continue ;;
    esac
    printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$result"
done
"#;

#[test]
fn servers_end_when_hermes_is_killed_in_a_call() {
    let folder = tempfile::tempdir().unwrap();
    let (script, pids) = (folder.path().join("server.sh"), folder.path().join("pids"));
    std::fs::write(&script, STUCK_SERVER).unwrap();
    let server = ModelServer::start_blocking(
        ModelScript::new().reply(ScriptedReply::tool("mcp_stuck_wait", json!({}))).echo(),
    )
    .unwrap();
    let config = json!({
        "model": {"provider": "custom", "base_url": server.base_url(), "default": "m"},
        "mcp_servers": {"stuck": {"command": "sh", "args": [script, pids]}},
    });
    let home = TempHome::builder().config_yaml(&config.to_string()).build().unwrap();
    let mut child = Command::new(program())
        .args(["chat", "-Q", "-q", "go on"])
        .env("HERMES_HOME", home.path())
        .env("HOME", home.path())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    until("the call arrives", || folder.path().join("pids.called").exists());
    child.kill().unwrap();
    child.wait().unwrap();
    let pids = std::fs::read_to_string(&pids).unwrap();
    let lives = |pid: &str| {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        !status.is_empty() && !status.contains("State:\tZ")
    };
    until("the server and its child have ended", || !pids.lines().any(lives));
}
