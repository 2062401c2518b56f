//! Bodies, and the reuse of connections.

use hermes_net::{Error, HeaderName, HttpRequest, StatusCode};
use hermes_types::Secret;
use serde_json::{Value, json};

use super::raw_server::{AfterResponse, RawServer, ok};
use super::support::{NetFixture, chat, model};

#[tokio::test]
async fn a_stream_arrives_piece_by_piece() {
    let server = model("replies: [{events: [{text: one}, {wait: go}, {text: two}]}]").await;
    let net = NetFixture::new();
    let mut response = net.send(chat(&server).bearer(&Secret::new("key-1")).unwrap()).await.unwrap();
    assert_eq!(response.status(), StatusCode::OK);
    let mut text = String::new();
    while !text.contains("one") {
        text += &String::from_utf8_lossy(&response.next_chunk().await.unwrap().unwrap());
    }
    assert!(!text.contains("two"));
    server.release("go");
    while let Some(chunk) = response.next_chunk().await.unwrap() {
        text += &String::from_utf8_lossy(&chunk);
    }
    assert!(text.contains("two") && text.contains("[DONE]"));
    let request = server.request(0);
    assert_eq!(request.header("authorization"), Some("Bearer key-1"));
    assert_eq!(request.header("content-type"), Some("application/json"));
    assert!(request.header("user-agent").unwrap().starts_with("hermes/"));
    assert_eq!(request.at("/model"), &json!("m"));
}

#[tokio::test]
async fn whole_bodies() {
    let server = RawServer::answering(&ok(r#"{"a": 1}"#)).await;
    let net = NetFixture::new();
    let value: Value = net.get(&server.url("/")).await.unwrap().json(100).await.unwrap();
    assert_eq!(value, json!({"a": 1}));
    assert_eq!(net.get(&server.url("/")).await.unwrap().text(100).await.unwrap(), r#"{"a": 1}"#);
    let request = HttpRequest::post(&server.url("/p?q=1"))
        .unwrap()
        .header(HeaderName::from_static("x-a"), "b")
        .unwrap();
    net.send(request.body("hello")).await.unwrap().bytes(100).await.unwrap();
    let sent = server.requests().pop().unwrap();
    assert!(sent.starts_with("POST /p?q=1 HTTP/1.1\r\n") && sent.contains("x-a: b\r\n"), "{sent}");
    assert!(sent.ends_with("\r\n\r\nhello"), "{sent}");
}

#[tokio::test]
async fn compressed_bodies_are_unpacked() {
    let packed: &[u8] = &[
        31, 139, 8, 0, 0, 0, 0, 0, 2, 3, 43, 205, 43, 72, 76, 206, 78, 77, 81, 40, 73, 173, 40, 1, 0, 227,
        115, 65, 208, 13, 0, 0, 0,
    ];
    let answer = |body: &[u8]| {
        let head =
            format!("HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: {}\r\n\r\n", body.len());
        [head.as_bytes(), body].concat()
    };
    let (good, bad) = (answer(packed), answer(b"this is not gzip at all"));
    let server = RawServer::start(move |request| {
        (if request.starts_with("GET /good") { good.clone() } else { bad.clone() }, AfterResponse::Keep)
    })
    .await;
    let net = NetFixture::new();
    assert_eq!(net.get(&server.url("/good")).await.unwrap().text(100).await.unwrap(), "unpacked text");
    let error = net.get(&server.url("/bad")).await.unwrap().text(100).await.unwrap_err();
    assert!(matches!(error, Error::Malformed { .. }), "{error:?}");
}

#[tokio::test]
async fn a_connection_is_used_again() {
    let server = RawServer::answering(&ok("x")).await;
    let net = NetFixture::open();
    for _ in 0..3 {
        net.get(&server.url("/")).await.unwrap().bytes(10).await.unwrap();
    }
    assert_eq!(server.connections(), 1);
    // Untrusted requests never reuse a connection that was made without checks.
    let request = HttpRequest::get(&server.url("/")).unwrap().untrusted();
    net.send(request).await.unwrap().bytes(10).await.unwrap();
    assert_eq!(server.connections(), 2);
    let clone = net.client.clone();
    clone
        .send(HttpRequest::get(&server.url("/")).unwrap(), net.deadline(), &hermes_types::Cancel::new())
        .await
        .unwrap()
        .bytes(10)
        .await
        .unwrap();
    assert_eq!(server.connections(), 2);
}

#[tokio::test]
async fn bodies_are_capped() {
    let chunks = "4\r\nabcd\r\n4\r\nefgh\r\n4\r\nijkl\r\n0\r\n\r\n";
    let chunked =
        RawServer::answering(&format!("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n{chunks}")).await;
    let announced = RawServer::answering("HTTP/1.1 200 OK\r\ncontent-length: 1000000\r\n\r\n").await;
    let net = NetFixture::open();
    let too_large = |error: Error| matches!(error, Error::TooLarge { limit: 10, .. });
    assert!(too_large(net.get(&chunked.url("/")).await.unwrap().bytes(10).await.unwrap_err()));
    assert!(too_large(net.get(&announced.url("/")).await.unwrap().bytes(10).await.unwrap_err()));
    assert_eq!(net.get(&chunked.url("/")).await.unwrap().bytes(12).await.unwrap().len(), 12);
    let request = HttpRequest::get(&chunked.url("/")).unwrap().body_limit(10);
    let mut response = net.send(request.clone()).await.unwrap();
    let error = loop {
        match response.next_chunk().await {
            Ok(chunk) => assert!(chunk.is_some()),
            Err(error) => break error,
        }
    };
    assert!(too_large(error));
    assert!(too_large(net.send(request).await.unwrap().bytes(100).await.unwrap_err()));
}

#[tokio::test]
async fn a_body_of_another_kind_is_not_quoted() {
    let server = RawServer::answering(&ok(r#"{"token": "s3cr3t"}"#)).await;
    let net = NetFixture::new();
    let error = net.get(&server.url("/")).await.unwrap().json::<Vec<u8>>(100).await.unwrap_err();
    assert!(matches!(error, Error::Malformed { .. }));
    assert!(error.to_string().ends_with("it has other fields (line 1, column 0)"), "{error}");
    let server = RawServer::answering(&ok("<html>")).await;
    let error = net.get(&server.url("/")).await.unwrap().json::<Value>(100).await.unwrap_err();
    assert!(error.to_string().ends_with("it is not JSON (line 1, column 1)"), "{error}");
}
