//! The services' own clients, as judges of our requests: both do the same things at the emulator, and ours may send
//! nothing that theirs does not.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::Command;

use hermes_testkit::{MEMORY_KEY, PlatformCall, peer_is_missing};
use hermes_types::ExternalMemory as _;
use serde_json::{Value, json};

use super::support::{Bench, Talk};

/// Returns the Python with the clients, if it is installed.
fn python() -> Option<PathBuf> {
    let peers = std::env::var_os("HERMES_PEERS").map_or_else(
        || PathBuf::from(std::env::var_os("HOME").unwrap_or_default()).join(".cache/hermes-peers"),
        PathBuf::from,
    );
    let python = peers.join("memory-clients/bin/python");
    if python.exists() {
        return Some(python);
    }
    peer_is_missing("the clients of memory services (scripts/test installs them)");
    None
}

fn run(python: &PathBuf, script: &str, base: &str) {
    let output = Command::new(python)
        .args(["-c", script, base, MEMORY_KEY])
        .env("MEM0_TELEMETRY", "False")
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Returns what was requested: method, path, and the names of the fields.
fn requested(calls: &[PlatformCall]) -> BTreeSet<(String, String, String)> {
    let fields = |call: &PlatformCall| -> Vec<String> {
        match call.json() {
            Value::Object(body) => body.keys().cloned().collect(),
            _ => Vec::new(),
        }
    };
    let path = |call: &PlatformCall| call.target.split('?').next().unwrap_or_default().to_owned();
    calls
        .iter()
        .flat_map(|call| {
            let (method, path, fields) = (call.method.clone(), path(call), fields(call));
            let whole = std::iter::once(String::new());
            whole.chain(fields).map(move |field| (method.clone(), path.clone(), field))
        })
        .collect()
}

const HONCHO: &str = r#"
import sys
from honcho import Honcho
from honcho.api_types import SessionPeerConfig
c = Honcho(workspace_id="hermes", base_url=sys.argv[1], api_key=sys.argv[2])
user, ai = c.peer("user", metadata={}), c.peer("hermes", metadata={})
config = SessionPeerConfig(observe_me=True, observe_others=True)
s = c.session("s1", metadata={}, peers=[(user, config), (ai, config)])
s.add_messages([user.message("My dentist is called Doctor Weber."), ai.message("Noted.")])
ai.context(target=user, search_query="dentist")
ai.chat("Who?", target=user, reasoning_level="low")
ai.get_card(target=user)
ai.representation(target=user, search_query="dentist")
ai.conclusions_of(user).create([{"content": "Likes figs.", "session_id": "s1"}])
"#;

#[tokio::test]
async fn peer_the_client_of_honcho_sends_what_we_send() {
    let Some(python) = python() else { return };
    let theirs = Bench::new("honcho");
    run(&python, HONCHO, &theirs.servers.base("honcho"));
    let ours = Bench::new("honcho");
    let service = ours.service("honcho");
    let talk = Talk::new(&service, None, "s1");
    talk.say("My dentist is called Doctor Weber.", "Noted.");
    service.shut_down().await;
    talk.recall("Which dentist?").await.unwrap();
    for (tool, arguments) in [
        ("honcho_profile", json!({})),
        ("honcho_search", json!({"query": "dentist"})),
        ("honcho_conclude", json!({"conclusion": "Likes figs."})),
    ] {
        assert!(talk.call(tool, arguments).await.contains("result"));
    }
    let known = requested(&theirs.servers.calls(""));
    let extra: Vec<_> = requested(&ours.servers.calls("")).difference(&known).cloned().collect();
    assert_eq!(extra, [], "our requests differ from those of the client");
}

const MEM0: &str = r#"
import sys
from mem0 import MemoryClient
c = MemoryClient(host=sys.argv[1], api_key=sys.argv[2])
c.add([{"role": "user", "content": "My dentist is called Doctor Weber."}], user_id="hermes-user", agent_id="hermes", infer=False)
c.search("Which dentist?", filters={"user_id": "hermes-user"}, top_k=10, rerank=True)
c.update("id-0", text="x")
c.delete("id-0")
"#;

#[tokio::test]
async fn peer_the_client_of_mem0_sends_what_we_send() {
    let Some(python) = python() else { return };
    let theirs = Bench::new("mem0");
    run(&python, MEM0, &theirs.servers.base("mem0"));
    let calls = theirs.servers.calls("/v3/memories/add/");
    assert_eq!(calls.len(), 1);
    assert_eq!(theirs.servers.stored("mem0", "hermes-user"), ["My dentist is called Doctor Weber."]);
    let refused: Vec<String> = theirs
        .servers
        .calls("")
        .into_iter()
        .filter(|call| call.status >= 400)
        .map(|call| format!("{} {}", call.method, call.target))
        .collect();
    assert_eq!(refused, Vec::<String>::new(), "the emulator refuses what the client sends");
}

const HINDSIGHT: &str = r#"
import sys
from hindsight_client import Hindsight
c = Hindsight(base_url=sys.argv[1], api_key=sys.argv[2])
c.retain(bank_id="hermes", content="My dentist is called Doctor Weber.", context="test")
found = c.recall(bank_id="hermes", query="Which dentist?", budget="mid", max_tokens=2048)
assert "Weber" in found.results[0].text, found
c.reflect(bank_id="hermes", query="dentist", budget="mid")
"#;

#[tokio::test]
async fn peer_the_client_of_hindsight_sends_what_we_send() {
    let Some(python) = python() else { return };
    let theirs = Bench::new("hindsight");
    run(&python, HINDSIGHT, &theirs.servers.base("hindsight"));
    let ours = Bench::new("hindsight");
    let service = ours.service("hindsight");
    let talk = Talk::new(&service, None, "s1");
    talk.call("hindsight_retain", json!({"content": "My dentist is called Doctor Weber."})).await;
    talk.recall("Which dentist?").await.unwrap();
    talk.call("hindsight_reflect", json!({"query": "dentist"})).await;
    assert_eq!(talk.memory.take_notice(), None);
    let known = requested(&theirs.servers.calls(""));
    let extra: Vec<_> = requested(&ours.servers.calls("")).difference(&known).cloned().collect();
    assert_eq!(extra, [], "our requests differ from those of the client");
}
