//! HTTP/2, negotiated in a TLS handshake. The server implements the minimum, frame by frame.

use std::net::SocketAddr;
use std::sync::Arc;

use hermes_task::TaskGroup;
use hermes_types::Cancel;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use super::support::NetFixture;
use super::tls::{fixture, server_config};

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const END_STREAM: u8 = 1;
const ACK: u8 = 1;
const END_HEADERS: u8 = 4;
/// `:status: 200`, an entry of the static table of HTTP/2.
const STATUS_200: &[u8] = &[0x88];

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let mut bytes = length.get(1..).unwrap().to_vec();
    bytes.extend([kind, flags]);
    bytes.extend(stream.to_be_bytes());
    bytes.extend(payload);
    bytes
}

/// Answers every stream of one connection; each answer contains its stream's number.
async fn serve(mut peer: impl AsyncRead + AsyncWrite + Unpin) -> Option<()> {
    let mut preface = [0; 24];
    peer.read_exact(&mut preface).await.ok()?;
    assert_eq!(preface, PREFACE);
    peer.write_all(&frame(SETTINGS, 0, 0, &[])).await.ok()?;
    loop {
        let mut head = [0; 9];
        peer.read_exact(&mut head).await.ok()?;
        let [a, b, c, kind, flags, s1, s2, s3, s4] = head;
        let stream = u32::from_be_bytes([s1, s2, s3, s4]);
        let mut payload = vec![0; u32::from_be_bytes([0, a, b, c]) as usize];
        peer.read_exact(&mut payload).await.ok()?;
        match kind {
            SETTINGS if flags & ACK == 0 => peer.write_all(&frame(SETTINGS, ACK, 0, &[])).await.ok()?,
            PING if flags & ACK == 0 => peer.write_all(&frame(PING, ACK, 0, &payload)).await.ok()?,
            HEADERS => {
                let mut answer = frame(HEADERS, END_HEADERS, stream, STATUS_200);
                answer.extend(frame(DATA, 0, stream, b"stream "));
                answer.extend(frame(DATA, END_STREAM, stream, stream.to_string().as_bytes()));
                peer.write_all(&answer).await.ok()?;
            }
            _ => {}
        }
    }
}

async fn server() -> (SocketAddr, TaskGroup) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let tasks = TaskGroup::new(&Cancel::new());
    let mut config = server_config();
    config.alpn_protocols = vec![b"h2".to_vec()];
    let acceptor = TlsAcceptor::from(Arc::new(config));
    tasks.spawn("an HTTP/2 server", async move {
        // One connection only: a second would never be answered.
        let (stream, _) = listener.accept().await.unwrap();
        serve(acceptor.accept(stream).await.unwrap()).await;
    });
    (address, tasks)
}

#[tokio::test]
async fn requests_share_a_connection() {
    let (address, _tasks) = server().await;
    let net = NetFixture::with(|config| config.ca_bundle = Some(fixture("ca.pem")));
    let url = format!("https://{address}/");
    assert_eq!(net.get(&url).await.unwrap().text(100).await.unwrap(), "stream 1");
    let at_once = tokio::join!(net.get(&url), net.get(&url));
    let mut texts = Vec::new();
    for response in [at_once.0, at_once.1] {
        texts.push(response.unwrap().text(100).await.unwrap());
    }
    texts.sort();
    assert_eq!(texts, ["stream 3", "stream 5"]);
}
