//! MCP servers in whole turns of the built binary: real servers, and the commands about them.

use std::path::PathBuf;

use hermes_testkit::{ModelScript, ModelServer, ScriptedReply, TempHome};
use serde_json::{Value, json};

use super::support::{hermes, run};

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
