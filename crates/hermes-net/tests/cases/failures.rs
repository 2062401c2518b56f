//! Failures and the errors they are reported as.

use hermes_net::{Error, HttpRequest};
use tokio::net::TcpListener;

use super::raw_server::{AfterResponse, RawServer, ok};
use super::support::{NetFixture, chat, model};

#[tokio::test]
async fn a_body_that_breaks_off_is_cut() {
    let short = "HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nabc";
    let chunked = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n";
    for answer in [short, chunked] {
        let server = RawServer::start(move |_| (answer.into(), AfterResponse::Close)).await;
        let error = NetFixture::new().get(&server.url("/")).await.unwrap().bytes(1000).await.unwrap_err();
        assert_eq!(error, Error::ConnectionLost { host: server.address.to_string() });
        assert!(error.is_transient());
    }
    for how in ["rst", "fin"] {
        let yaml = format!(
            "replies: [{{events: [{{text: one}}, {{cut: {how}}}], transport: {{framing: {{chunked: {{}}}}}}}}]"
        );
        let server = model(&yaml).await;
        let error = NetFixture::new().send(chat(&server)).await.unwrap().bytes(10_000).await.unwrap_err();
        assert_eq!(error, Error::ConnectionLost { host: server.address().to_string() }, "{how}");
    }
}

#[tokio::test]
async fn a_connection_that_ends_without_an_answer_is_cut() {
    for answer in ["", "HTTP/1.1 200"] {
        let server = RawServer::start(move |_| (answer.into(), AfterResponse::Close)).await;
        let error = NetFixture::new().get(&server.url("/")).await.unwrap_err();
        assert_eq!(error, Error::ConnectionLost { host: server.address.to_string() });
    }
}

#[tokio::test]
async fn nobody_there() {
    let free = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = free.local_addr().unwrap();
    drop(free);
    let net = NetFixture::new();
    let error = net.get(&format!("http://{address}/")).await.unwrap_err();
    assert!(matches!(error, Error::Connect { retryable: true, .. }), "{error:?}");
    assert_eq!(error.to_string(), format!("could not connect to {address}: nothing answers at that port"));
    let error = net.get("http://nowhere.test/").await.unwrap_err();
    assert!(matches!(error, Error::Connect { retryable: false, .. }), "{error:?}");
    assert_eq!(error.to_string(), "could not connect to nowhere.test: there is no such host");
    assert!(!error.is_transient());
}

#[tokio::test]
async fn what_is_no_address() {
    let net = NetFixture::new();
    assert_eq!(HttpRequest::get("nothing").unwrap_err(), Error::InvalidUrl);
    for url in ["ftp://example.com/", "data:text/plain,x", "ws://example.com/"] {
        assert_eq!(net.get(url).await.unwrap_err(), Error::InvalidUrl, "{url}");
    }
}

#[tokio::test]
async fn statuses_are_answers() {
    let server =
        RawServer::answering("HTTP/1.1 503 Busy\r\nretry-after: 7\r\ncontent-length: 4\r\n\r\nbusy").await;
    let response = NetFixture::new().get(&server.url("/")).await.unwrap();
    assert_eq!(response.status().as_u16(), 503);
    assert_eq!(response.headers().get("retry-after").unwrap(), "7");
    assert_eq!(response.text(10).await.unwrap(), "busy");
    let server = RawServer::answering(&ok("")).await;
    assert_eq!(NetFixture::new().get(&server.url("/")).await.unwrap().text(0).await.unwrap(), "");
}
