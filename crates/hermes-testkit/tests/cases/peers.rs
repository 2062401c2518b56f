//! The wires against independent clients. Skipped, with a message, where those are not installed.
#![expect(clippy::disallowed_methods, reason = "the peer is a program, found by an environment variable")]

use std::path::{Path, PathBuf};
use std::process::Command;

use hermes_testkit::dingtalk::{CLIENT_ID, CLIENT_SECRET, FakeDingTalk};
use hermes_testkit::{ModelScript, ModelServer};

const SCRIPT: &str = include_str!("../peers/script.yaml");

fn peers() -> PathBuf {
    std::env::var_os("HERMES_PEERS").map_or_else(
        || PathBuf::from(std::env::var_os("HOME").unwrap_or_default()).join(".cache/hermes-peers"),
        PathBuf::from,
    )
}

/// Runs a peer's script against a server, or prints why not.
fn run(program: &Path, installed: &Path, script: &str) {
    if !installed.exists() {
        hermes_testkit::peer_is_missing(&format!("{} is not installed", installed.display()));
        return;
    }
    let server = ModelServer::start_blocking(ModelScript::from_yaml("script.yaml", SCRIPT).unwrap()).unwrap();
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/peers").join(script);
    let output = Command::new(program)
        .arg(file)
        .arg(server.url())
        .env("HERMES_PEERS", peers())
        .env("NO_PROXY", "127.0.0.1")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}\n{complaint}\n{:?}", server.requests());
    assert!(said.trim_end().ends_with("all well"), "{said}");
}

#[test]
fn peer_openai_python_understands_chat_and_responses() {
    let home = peers().join("openai-py");
    run(&home.join("bin/python"), &home.join("bin/python"), "openai_check.py");
}

#[test]
fn peer_anthropic_python_understands_messages() {
    let home = peers().join("openai-py");
    // The same environment, in which the recipe also installs the second SDK.
    let python = home.join("bin/python");
    let found =
        Command::new(&python).args(["-c", "import anthropic"]).output().is_ok_and(|it| it.status.success());
    let installed = if found { python.clone() } else { home.join("anthropic") };
    run(&python, &installed, "anthropic_check.py");
}

#[test]
fn peer_openai_node_understands_chat_and_responses() {
    run(Path::new("node"), &peers().join("openai-js/node_modules/openai"), "openai_check.mjs");
}

/// Checks that DingTalk's own client understands the emulated platform.
#[test]
fn peer_dingtalk_python_takes_messages_of_the_emulated_platform() {
    let python = peers().join("dingtalk/bin/python");
    if !python.exists() {
        hermes_testkit::peer_is_missing(&format!("{} is not installed", python.display()));
        return;
    }
    let platform = FakeDingTalk::start().unwrap();
    let mut client = Command::new(python)
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/peers/dingtalk_check.py"))
        .args([&platform.base_url(), CLIENT_ID, CLIENT_SECRET])
        .env("NO_PROXY", "127.0.0.1")
        .spawn()
        .unwrap();
    platform.until_opened_blocking(1);
    platform.says("staff1", "cid1", None, "hello");
    let answer = platform.until_sent_blocking("cid1", "heard hello");
    platform.until_acknowledged_blocking(1);
    client.kill().unwrap();
    client.wait().unwrap();
    assert_eq!((answer.way, answer.kind.as_str()), ("session", "text"));
}
