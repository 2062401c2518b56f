//! WebSockets, against a server of the same library and against raw responses.

use std::net::SocketAddr;
use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use hermes_net::{
    Bytes, Error, HeaderMap, HeaderValue, SocketFrame, SocketLimits, TimeoutPhase, Url, WebSocket,
};
use hermes_task::TaskGroup;
use hermes_types::Cancel;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio_tungstenite::accept_async;
use tokio_tungstenite::tungstenite::Message;

use super::raw_server::RawServer;
use super::support::{MINUTE, NetFixture};
use super::tls::{acceptor, fixture};

/// Echoes messages; `close` ends the connection with a close frame, `drop` without one, and `hush` gets no reply.
async fn echo(stream: impl AsyncRead + AsyncWrite + Unpin) {
    let mut socket = accept_async(stream).await.unwrap();
    while let Some(Ok(message)) = socket.next().await {
        match &message {
            Message::Text(text) if text.as_str() == "close" => drop(socket.close(None).await),
            Message::Text(text) if text.as_str() == "drop" => return,
            Message::Text(text) if text.as_str() == "hush" => {}
            Message::Text(_) | Message::Binary(_) => socket.send(message).await.unwrap(),
            _ => {}
        }
    }
}

async fn server(secure: bool) -> (SocketAddr, TaskGroup) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let tasks = TaskGroup::new(&Cancel::new());
    tasks.spawn("echo server", async move {
        while let Ok((stream, _)) = listener.accept().await {
            if secure {
                echo(acceptor().accept(stream).await.unwrap()).await;
            } else {
                echo(stream).await;
            }
        }
    });
    (address, tasks)
}

async fn connect(net: &NetFixture, url: &str, cancel: &Cancel) -> Result<WebSocket, Error> {
    let limits = SocketLimits { max_message: 1000, ..SocketLimits::default() };
    let url = Url::parse(url).unwrap();
    net.client.connect(&url, HeaderMap::new(), limits, net.deadline(), cancel).await
}

#[tokio::test]
async fn frames_go_both_ways() {
    for secure in [false, true] {
        let (address, _tasks) = server(secure).await;
        let net = NetFixture::with(|config| config.ca_bundle = Some(fixture("ca.pem")));
        let scheme = if secure { "wss" } else { "ws" };
        let mut socket = connect(&net, &format!("{scheme}://{address}/x"), &Cancel::new()).await.unwrap();
        for frame in [SocketFrame::Text("grüezi".into()), SocketFrame::Binary(Bytes::from_static(b"\0\xff"))]
        {
            socket.send(frame.clone(), MINUTE).await.unwrap();
            assert_eq!(socket.recv(MINUTE).await.unwrap(), Some(frame));
        }
        socket.send(SocketFrame::Ping(Bytes::from_static(b"p")), MINUTE).await.unwrap();
        assert_eq!(socket.recv(MINUTE).await.unwrap(), Some(SocketFrame::Pong(Bytes::from_static(b"p"))));
        socket.close(MINUTE).await.unwrap();
        while socket.recv(MINUTE).await.unwrap().is_some() {}
    }
}

#[tokio::test]
async fn a_goodbye_and_a_slammed_door_differ() {
    let (address, _tasks) = server(false).await;
    let net = NetFixture::new();
    let url = format!("ws://{address}/");
    let mut socket = connect(&net, &url, &Cancel::new()).await.unwrap();
    socket.send(SocketFrame::Text("close".into()), MINUTE).await.unwrap();
    assert_eq!(socket.recv(MINUTE).await.unwrap(), Some(SocketFrame::Close(None)));
    assert_eq!(socket.recv(MINUTE).await.unwrap(), None);
    drop(socket);
    let mut socket = connect(&net, &url, &Cancel::new()).await.unwrap();
    socket.send(SocketFrame::Text("drop".into()), MINUTE).await.unwrap();
    assert_eq!(socket.recv(MINUTE).await.unwrap_err(), Error::ConnectionLost { host: address.to_string() });
}

#[tokio::test]
async fn silence_cancel_and_size_have_limits() {
    let (address, _tasks) = server(false).await;
    let net = NetFixture::new();
    let cancel = Cancel::new();
    let mut socket = connect(&net, &format!("ws://{address}/"), &cancel).await.unwrap();
    socket.send(SocketFrame::Text("hush".into()), MINUTE).await.unwrap();
    let error = net.after(MINUTE, socket.recv(MINUTE)).await.unwrap_err();
    assert!(matches!(error, Error::Stalled { after: MINUTE, .. }));
    // The socket is still usable after that.
    socket.send(SocketFrame::Text("x".into()), MINUTE).await.unwrap();
    assert_eq!(socket.recv(MINUTE).await.unwrap(), Some(SocketFrame::Text("x".into())));
    socket.send(SocketFrame::Text("x".repeat(1001)), MINUTE).await.unwrap();
    assert_eq!(
        socket.recv(MINUTE).await.unwrap_err(),
        Error::TooLarge { host: address.to_string(), limit: 1000 }
    );
    cancel.cancel();
    assert_eq!(socket.recv(MINUTE).await.unwrap_err(), Error::Cancelled);
}

#[tokio::test]
async fn refusals_before_the_socket_opens() {
    let net = NetFixture::new();
    let refusing = RawServer::answering("HTTP/1.1 401 No\r\ncontent-length: 0\r\n\r\n").await;
    let url = format!("ws://{}/?token=s3cr3t", refusing.address);
    let mut headers = HeaderMap::new();
    headers.insert("authorization", HeaderValue::from_static("Bot s3cr3t"));
    let error = net
        .client
        .connect(&Url::parse(&url).unwrap(), headers, SocketLimits::default(), net.deadline(), &Cancel::new())
        .await
        .unwrap_err();
    assert_eq!(error, Error::Refused { host: refusing.address.to_string(), status: 401 });
    assert!(refusing.requests()[0].contains("Bot s3cr3t"));
    let silent = RawServer::answering("").await;
    let (url, cancel) = (format!("ws://{}/", silent.address), Cancel::new());
    let error = net.after(Duration::from_secs(30), connect(&net, &url, &cancel)).await.unwrap_err();
    assert_eq!(error, Error::TimedOut { host: silent.address.to_string(), wait: TimeoutPhase::Connection });
    assert_eq!(connect(&net, &silent.url("/"), &cancel).await.unwrap_err(), Error::InvalidUrl);
    let error = connect(&net, "wss://nowhere.test/?t=s3cr3t", &Cancel::new()).await.unwrap_err();
    assert!(matches!(error, Error::Connect { .. }));
    assert!(!format!("{error:?}").contains("s3cr3t"));
}
