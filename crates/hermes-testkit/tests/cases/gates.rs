//! Waiting without sleeping: gates, stalls, delays on a test clock, disconnects.

use std::io::Write as _;
use std::sync::Arc;
use std::time::Duration;

use hermes_testkit::{ModelScript, ModelServer, RequestOutcome, ScriptedReply, TestClock};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::{CHAT, ask_stream, post};

async fn connect(server: &ModelServer) -> TcpStream {
    let body = ask_stream("hi").to_string();
    let head = format!(
        "POST {CHAT} HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        body.len()
    );
    let mut stream = TcpStream::connect(server.address()).await.unwrap();
    stream.write_all(head.as_bytes()).await.unwrap();
    stream.write_all(body.as_bytes()).await.unwrap();
    stream
}

async fn read_until(stream: &mut TcpStream, wanted: &str) -> String {
    let mut text = String::new();
    let mut buffer = [0; 4096];
    while !text.contains(wanted) {
        let read = stream.read(&mut buffer).await.unwrap();
        assert!(read > 0, "ended without {wanted}: {text}");
        text.push_str(&String::from_utf8_lossy(&buffer[..read]));
    }
    text
}

#[tokio::test]
async fn a_gate_holds_a_stream_in_its_middle() {
    let script = ModelScript::new().reply(ScriptedReply::text("before").wait("go").then_text("after"));
    let server = ModelServer::start(script).await.unwrap();
    let mut client = connect(&server).await;
    server.wait_until_at("go", 1).await;
    let seen = read_until(&mut client, "before").await;
    assert!(!seen.contains("after"));
    assert_eq!(server.request(0).outcome(), RequestOutcome::Open);
    server.release("go");
    read_until(&mut client, "[DONE]").await;
    assert_eq!(server.wait_for_end(0).await, RequestOutcome::Complete);
}

#[tokio::test]
async fn an_early_release_is_kept_and_serves_once() {
    let script = ModelScript::new().reply(ScriptedReply::text("x").wait("go").repeat(2));
    let server = ModelServer::start(script).await.unwrap();
    server.release("go");
    let mut first = connect(&server).await;
    read_until(&mut first, "[DONE]").await;
    let mut second = connect(&server).await;
    server.wait_for_requests(2).await;
    server.wait_until_at("go", 1).await;
    server.open("go");
    read_until(&mut second, "[DONE]").await;
}

#[tokio::test]
async fn a_stall_ends_with_the_client_or_by_release() {
    let script = ModelScript::new()
        .reply(ScriptedReply::text("x").stall().repeat(2))
        .reply(ScriptedReply::new().stall().then_text("late"));
    let server = ModelServer::start(script).await.unwrap();
    let mut gone = connect(&server).await;
    read_until(&mut gone, "\"x\"").await;
    drop(gone);
    assert_eq!(server.wait_for_end(0).await, RequestOutcome::Disconnected);
    assert!(server.request(0).disconnected());
    let mut patient = connect(&server).await;
    server.wait_until_at("stall", 1).await;
    server.release_stall();
    read_until(&mut patient, "[DONE]").await;
    // A stall before any output holds back even the status line.
    let mut silent = connect(&server).await;
    server.wait_until_at("stall", 1).await;
    let mut buffer = [0; 16];
    assert!(silent.try_read(&mut buffer).is_err(), "nothing has been sent");
    server.release_stall();
    assert!(read_until(&mut silent, "late").await.starts_with("HTTP/1.1 200 OK"));
}

#[tokio::test]
async fn delays_pass_on_the_clock_of_the_test() {
    let clock = TestClock::new();
    let reply = ScriptedReply::text("a").delay(Duration::from_secs(90)).then_text("b");
    let server = ModelServer::builder(ModelScript::new().reply(reply))
        .clock(Arc::new(clock.clone()))
        .start()
        .await
        .unwrap();
    let mut client = connect(&server).await;
    read_until(&mut client, "\"a\"").await;
    clock.wait_for_sleepers(1).await;
    clock.advance(Duration::from_secs(90));
    read_until(&mut client, "[DONE]").await;
    assert_eq!(clock.slept(), [Duration::from_secs(90)]);
}

#[test]
fn delays_take_no_time_without_a_clock() {
    let script =
        ModelScript::new().reply(ScriptedReply::new().delay(Duration::from_hours(1)).then_text("at once"));
    let server = ModelServer::start_blocking(script).unwrap();
    assert!(post(&server, CHAT, &ask_stream("hi")).text().contains("at once"));
}

#[test]
fn dropping_the_server_ends_its_connections() {
    let server = ModelServer::start_blocking(ModelScript::new().reply(ScriptedReply::new().stall())).unwrap();
    let mut client = std::net::TcpStream::connect(server.address()).unwrap();
    let body = ask_stream("hi").to_string();
    write!(client, "POST {CHAT} HTTP/1.1\r\ncontent-length: {}\r\n\r\n{body}", body.len()).unwrap();
    server.wait_for_requests_blocking(1);
    drop(server);
    let mut rest = Vec::new();
    // The connection is closed or reset, but not left hanging.
    std::io::Read::read_to_end(&mut client, &mut rest).ok();
    assert!(rest.is_empty());
}

#[tokio::test]
async fn a_server_on_its_own_thread_may_be_started_inside_a_runtime() {
    let server = ModelServer::start_blocking(ModelScript::always("ok")).unwrap();
    let mut client = connect(&server).await;
    read_until(&mut client, "[DONE]").await;
    server.wait_for_requests(1).await;
}
