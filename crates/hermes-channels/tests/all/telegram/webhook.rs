//! Updates by webhook.

use std::net::SocketAddr;
use std::sync::Arc;

use hermes_testkit::telegram::FakeTelegram;
use hermes_types::ChannelError;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::{ALICE, TOKEN, TelegramFixture};
use crate::support::MemoryHost;

const SECRET: &str = "a-secret_1";

/// Creates a bot with a webhook, and returns the webhook's address.
async fn bench() -> (TelegramFixture, SocketAddr) {
    // The port is freed at once, so that the bot can use it.
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = free.local_addr().unwrap();
    drop(free);
    let (url, port) = (format!("http://{address}/hook"), address.port().to_string());
    let variables = [
        ("TELEGRAM_WEBHOOK_URL", url.as_str()),
        ("TELEGRAM_WEBHOOK_PORT", &port),
        ("TELEGRAM_WEBHOOK_SECRET", SECRET),
    ];
    let extra = json!({"webhook_host": "127.0.0.1"});
    let bench = TelegramFixture::with(
        FakeTelegram::start(TOKEN).unwrap(),
        &variables,
        extra,
        &MemoryHost::new(),
        &Arc::default(),
    );
    bench.telegram.until_called("setWebhook", 1).await;
    (bench, address)
}

#[tokio::test]
async fn an_update_is_answered_once_it_is_taken() {
    let (bench, address) = bench().await;
    bench.bot.inbox.refuse_next();
    let alice = bench.telegram.person(ALICE, "Alice");
    alice.says(ALICE, "first");
    alice.says(ALICE, "second");
    bench.bot.inbox.until_taken(2).await;
    bench.telegram.until_confirmed().await;
    assert_eq!(bench.bot.inbox.texts(), ["first", "second"]);
    assert_eq!(bench.telegram.until_delivered(3).await, [503, 200, 200]);
    bench.bot.channel.send(&super::saying(&super::dm(), "answer")).await.unwrap();
    let telegram = bench.telegram;
    bench.bot.stop().await;
    assert_eq!(telegram.webhook(), Some(format!("http://{address}/hook")), "it stays for the next start");
    assert_eq!(telegram.calls("getUpdates").len(), 0);
}

#[tokio::test]
async fn strangers_are_sent_away() {
    let (bench, address) = bench().await;
    let update = json!({"update_id": 1, "message": {"message_id": 1, "chat": {"id": 7, "type": "private"}, "from": {"id": 7}, "text": "let me in"}});
    let update = update.to_string();
    let large = "x".repeat(5 * 1024 * 1024);
    for (method, path, secret, body, expected) in [
        ("POST", "/hook", "wrong", &update, 403),
        ("POST", "/hook", "", &update, 403),
        ("POST", "/hook", "a-secret_", &update, 403),
        ("POST", "/other", SECRET, &update, 404),
        ("GET", "/hook", SECRET, &update, 405),
        ("POST", "/hook", SECRET, &large, 413),
        ("POST", "/hook", SECRET, &"no JSON".to_owned(), 200),
        ("POST", "/hook", SECRET, &update, 200),
    ] {
        assert_eq!(knock(address, method, path, secret, body).await, expected, "{method} {path} {secret}");
    }
    assert_eq!(bench.bot.inbox.texts(), ["let me in"], "only the last one");
}

async fn knock(address: SocketAddr, method: &str, path: &str, secret: &str, body: &str) -> u16 {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let head = format!(
        "{method} {path} HTTP/1.1\r\nhost: x\r\nX-Telegram-Bot-Api-Secret-Token: {secret}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    // A server that rejects the body may close the connection before all is sent.
    let _ = stream.write_all(body.as_bytes()).await;
    let mut answer = [0; 12];
    stream.read_exact(&mut answer).await.unwrap();
    String::from_utf8_lossy(&answer).split(' ').nth(1).unwrap().parse().unwrap()
}

#[tokio::test]
async fn a_port_that_is_taken_is_named() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let variables = [
        ("TELEGRAM_WEBHOOK_URL", "https://me.example/hook"),
        ("TELEGRAM_WEBHOOK_PORT", port.as_str()),
        ("TELEGRAM_WEBHOOK_SECRET", SECRET),
    ];
    let extra = json!({"webhook_host": "127.0.0.1"});
    let bench = TelegramFixture::with(
        FakeTelegram::start(TOKEN).unwrap(),
        &variables,
        extra,
        &MemoryHost::new(),
        &Arc::default(),
    );
    let ended = bench.bot.ended().await;
    assert!(
        matches!(&ended, Err(ChannelError::Retry { reason, .. }) if reason.contains("TELEGRAM_WEBHOOK_PORT")),
        "{ended:?}"
    );
}
