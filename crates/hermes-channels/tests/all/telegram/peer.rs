//! The channel against an emulator that nobody here wrote. Skipped, saying so, where it is not installed.
#![expect(clippy::print_stdout, reason = "a skipped test says why")]

use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use hermes_testkit::{RealClock, http_post};
use hermes_types::Clock;
use serde_json::{Value, json};

use super::{TOKEN, dm, options, saying};
use crate::bench::{self, Memory};

/// The peer's process; it ends with this.
struct Peer(Child);

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn start() -> Option<(Peer, SocketAddr)> {
    let peers = std::env::var_os("HERMES_PEERS").map_or_else(
        || PathBuf::from(std::env::var_os("HOME").unwrap_or_default()).join(".cache/hermes-peers"),
        PathBuf::from,
    );
    let home = peers.join("telegram");
    if !home.join("node_modules/telegram-test-api").exists() {
        assert!(std::env::var_os("CI").is_none(), "telegram-test-api must be installed on CI");
        println!("skipped: telegram-test-api is not installed in {}", home.display());
        return None;
    }
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
    Some((Peer(child), address))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plain_chat_through_telegram_test_api() {
    let Some((_peer, address)) = start() else { return };
    let clock: Arc<dyn Clock> = Arc::new(RealClock::default());
    let (host, inbox) = (Memory::new(), Arc::default());
    let base = format!("http://{address}");
    let bot = bench::listen("telegram", &options(&base, &[], json!({})), &host, &inbox, &clock);
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
