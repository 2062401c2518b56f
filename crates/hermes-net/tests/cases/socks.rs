//! Requests through a SOCKS proxy.

use std::net::SocketAddr;

use hermes_net::{ProxyMode, Url};
use hermes_task::{Task, spawn_named};
use hermes_types::Cancel;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::raw_server::ok;
use super::support::NetFixture;

/// The request of one client to the proxy.
#[derive(Debug, PartialEq)]
struct SocksRequest {
    user: String,
    password: String,
    name: String,
    port: u16,
    request: String,
}

/// Starts a proxy for one connection, which also plays the server behind it.
async fn proxy() -> (SocketAddr, Task<SocksRequest>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let task = spawn_named("a SOCKS proxy", &Cancel::new(), async move {
        let (mut peer, _) = listener.accept().await.unwrap();
        let methods = counted(&mut peer, 1).await;
        assert!(methods.contains(&2), "the client offers no password: {methods:?}");
        peer.write_all(&[5, 2]).await.unwrap();
        let user = String::from_utf8(counted(&mut peer, 1).await).unwrap();
        let password = String::from_utf8(counted(&mut peer, 0).await).unwrap();
        peer.write_all(&[1, 0]).await.unwrap();
        let mut head = [0; 4];
        peer.read_exact(&mut head).await.unwrap();
        // The command is "connect" with a name: the client does not resolve it.
        assert_eq!(head, [5, 1, 0, 3]);
        let name = String::from_utf8(counted(&mut peer, 0).await).unwrap();
        let port = peer.read_u16().await.unwrap();
        peer.write_all(&[5, 0, 0, 1, 0, 0, 0, 0, 0, 0]).await.unwrap();
        let mut request = [0; 1024];
        let read = peer.read(&mut request).await.unwrap();
        peer.write_all(ok("through").as_bytes()).await.unwrap();
        let request = String::from_utf8_lossy(request.get(..read).unwrap()).into_owned();
        SocksRequest { user, password, name, port, request }
    });
    (address, task)
}

/// Skips some bytes, then reads a field with a length prefix.
async fn counted(peer: &mut TcpStream, skip: usize) -> Vec<u8> {
    for _ in 0..skip {
        peer.read_u8().await.unwrap();
    }
    let mut field = vec![0; usize::from(peer.read_u8().await.unwrap())];
    peer.read_exact(&mut field).await.unwrap();
    field
}

#[tokio::test]
async fn names_are_left_to_the_proxy() {
    let (address, task) = proxy().await;
    let url = Url::parse(&format!("socks5h://me:s3cr3t@{address}")).unwrap();
    let net = NetFixture::with(|config| {
        config.proxies = ProxyMode::Fixed { http: Some(url), https: None, bypass: String::new() };
    });
    assert_eq!(net.get("http://far.test:8080/a").await.unwrap().text(100).await.unwrap(), "through");
    let asked = task.await.unwrap();
    assert_eq!(
        (asked.user.as_str(), asked.password.as_str(), asked.name.as_str(), asked.port),
        ("me", "s3cr3t", "far.test", 8080)
    );
    assert!(asked.request.starts_with("GET /a HTTP/1.1\r\n"), "{}", asked.request);
    assert!(!asked.request.contains("s3cr3t"));
    assert!(!net.names.asked().contains(&"far.test".to_owned()));
}
