//! The channel against independent programs: another emulator, and the markup parser of Telegram's own library.
//! Skipped, with a message, where they are not installed.

use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use hermes_testkit::telegram::parse_markdown_v2;
use hermes_testkit::{RealClock, http_post};
use hermes_types::Clock;
use proptest::strategy::{Strategy as _, ValueTree as _};
use proptest::test_runner::TestRunner;
use serde_json::{Value, json};

use super::{TOKEN, dm, options, saying};
use crate::support::{self, MemoryHost};

/// The process of the peer; it is killed when dropped.
struct PeerProcess(Child);

impl Drop for PeerProcess {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Returns the path of a peer, if it is installed.
fn installed(name: &str, within: &str) -> Option<PathBuf> {
    let peers = std::env::var_os("HERMES_PEERS").map_or_else(
        || PathBuf::from(std::env::var_os("HOME").unwrap_or_default()).join(".cache/hermes-peers"),
        PathBuf::from,
    );
    let home = peers.join(name);
    if home.join(within).exists() {
        return Some(home);
    }
    hermes_testkit::peer_is_missing(&format!("there is no {within} in {}", home.display()));
    None
}

fn start() -> Option<(PeerProcess, SocketAddr)> {
    let home = installed("telegram", "node_modules/telegram-test-api")?;
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/peers/telegram_serve.cjs");
    let mut child = Command::new("node")
        .arg(script)
        .env("NODE_PATH", home.join("node_modules"))
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let address = line.trim().parse().unwrap_or_else(|_| panic!("the peer said {line:?}"));
    Some((PeerProcess(child), address))
}

/// Parses texts with Telegram's own library; returns the visible text or the error of each.
fn read_by_tdlib(texts: &[String]) -> Option<Vec<Result<String, String>>> {
    let python = installed("tdlib", "bin/python")?.join("bin/python");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/peers/tdlib_parse.py");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("texts.json");
    std::fs::write(&file, json!(texts).to_string()).unwrap();
    let output = Command::new(python).arg(script).arg(&file).output().unwrap();
    let complaint = String::from_utf8_lossy(&output.stderr);
    let answers: Vec<Value> =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{complaint}"));
    let read = |answer: &Value| match answer.get("text").and_then(Value::as_str) {
        Some(text) => Ok(text.to_owned()),
        None => Err(answer.get("error").and_then(Value::as_str).unwrap_or_default().to_owned()),
    };
    Some(answers.iter().map(read).collect())
}

/// Returns texts that combine every kind of markup with every other.
fn texts() -> Vec<String> {
    let pieces = [
        "*",
        "**",
        "***",
        "_",
        "__",
        "~",
        "~~",
        "||",
        "|",
        "`",
        "```",
        "\n",
        " ",
        ">",
        "> ",
        "# ",
        "- ",
        "[",
        "](",
        ")",
        "(",
        "![",
        "https://e.org/a_b",
        "\\",
        "\\.",
        "word",
        "é",
        "𝄞",
        "中",
        "\n```\n",
        ".",
        "{",
        "=",
        "```rust\n",
    ];
    let some = proptest::collection::vec(proptest::sample::select(pieces.to_vec()), 0..14);
    let mut runner = TestRunner::deterministic();
    (0..4000).map(|_| some.new_tree(&mut runner).unwrap().current().concat()).collect()
}

#[test]
fn peer_telegram_itself_reads_every_rendering() {
    let sources = texts();
    let rendered: Vec<String> = sources.iter().map(|text| hermes_text::dialect::telegram(text)).collect();
    let Some(read) = read_by_tdlib(&rendered) else { return };
    for (source, (rendered, read)) in sources.iter().zip(rendered.iter().zip(read)) {
        let ours = parse_markdown_v2(rendered).map(|read| read.text);
        assert!(read.is_ok() && read == ours, "{source:?} as {rendered:?}: {read:?}, {ours:?}");
    }
}

#[test]
fn peer_the_emulator_takes_no_text_that_telegram_does_not() {
    let sources = texts();
    let Some(theirs) = read_by_tdlib(&sources) else { return };
    for (source, theirs) in sources.iter().zip(theirs) {
        let ours = parse_markdown_v2(source).map(|read| read.text);
        match (ours, theirs) {
            (Ok(ours), theirs) => assert_eq!(Ok(ours), theirs, "{source:?}"),
            // Telegram accepts some undocumented forms of quotes; the emulator is stricter.
            (Err(why), Ok(_)) => assert!(source.contains('>'), "{source:?}: {why}"),
            (Err(_), Err(_)) => {}
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn peer_a_plain_chat_through_telegram_test_api() {
    let Some((_peer, address)) = start() else { return };
    let clock: Arc<dyn Clock> = Arc::new(RealClock::default());
    let (host, inbox) = (MemoryHost::new(), Arc::default());
    let base = format!("http://{address}");
    let bot = support::listen("telegram", &options(&base, &[], json!({})), &host, &inbox, &clock);
    let person = json!({"id": 7, "first_name": "Alice"});
    let chat = json!({"id": 7, "type": "private", "first_name": "Alice"});
    let said = json!({"botToken": TOKEN, "text": "hello", "date": 1, "from": person, "chat": chat});
    assert_eq!(http_post(address, "/sendMessage", &said).unwrap().status, 200);
    let taken = inbox.until_taken(1).await;
    assert_eq!((taken[0].text().as_str(), taken[0].sender.user_id.as_deref()), ("hello", Some("7")));
    bot.channel.show_typing(&dm()).await;
    let mut reply = saying(&dm(), "**pong** 1.5");
    reply.reply_to.clone_from(&taken[0].message_id);
    bot.channel.send(&reply).await.unwrap();
    let heard = http_post(address, "/getUpdates", &json!({"token": TOKEN, "chatId": 7})).unwrap().json();
    let message = heard.pointer("/result/0/message").cloned().unwrap_or_default();
    assert_eq!(message.get("text").and_then(Value::as_str), Some("*pong* 1\\.5"), "{heard}");
    bot.stop().await;
}
