//! Requests to untrusted URLs.

use hermes_guard::{AddressKind, Blocklist, UrlDenialReason, UrlPolicy};
use hermes_net::{Error, HttpRequest};

use super::raw_server::{RawServer, ok};
use super::support::NetFixture;

async fn fetch(net: &NetFixture, url: &str) -> Result<String, Error> {
    net.send(HttpRequest::get(url)?.untrusted().follow_redirects(3)).await?.text(1000).await
}

#[track_caller]
fn reason(result: Result<String, Error>) -> UrlDenialReason {
    match result {
        Err(Error::Denied(denied)) => denied.reason,
        other => panic!("not denied: {other:?}"),
    }
}

#[tokio::test]
async fn private_addresses_are_denied_before_anything_is_sent() {
    let server = RawServer::answering(&ok("inside")).await;
    let net = NetFixture::new();
    let loopback = |reason| matches!(reason, UrlDenialReason::Address { kind: AddressKind::Loopback, .. });
    assert!(loopback(reason(fetch(&net, &server.url("/")).await)));
    assert!(loopback(reason(fetch(&net, &format!("http://2130706433:{}/", server.address.port())).await)));
    assert!(matches!(
        reason(fetch(&net, &server.named("localhost", "/")).await),
        UrlDenialReason::LocalName { .. }
    ));
    assert!(matches!(reason(fetch(&net, "http://169.254.169.254/").await), UrlDenialReason::Metadata(_)));
    assert_eq!(server.connections(), 0);
    assert!(net.names.asked().is_empty());
}

#[tokio::test]
async fn names_are_judged_by_what_they_resolve_to() {
    let server = RawServer::answering(&ok("inside")).await;
    let net = NetFixture::new();
    net.names.set("rebound.test", &["127.0.0.1"]);
    // One forbidden address rejects the allowed one too.
    net.names.set("mixed.test", &["93.184.216.34", "10.0.0.1"]);
    net.names.set("mapped.test", &["::ffff:127.0.0.1"]);
    for name in ["rebound.test", "mixed.test", "mapped.test"] {
        assert!(
            matches!(reason(fetch(&net, &server.named(name, "/")).await), UrlDenialReason::Address { .. }),
            "{name}"
        );
    }
    assert_eq!(server.connections(), 0);
    let error = fetch(&net, "http://nowhere.test/").await.unwrap_err();
    assert!(matches!(error, Error::Connect { .. }), "{error:?}");
}

#[tokio::test]
async fn the_address_that_was_judged_is_the_one_connected_to() {
    let server = RawServer::answering(&ok("inside")).await;
    let net = NetFixture::open();
    net.names.set("once.test", &["127.0.0.1"]);
    assert_eq!(fetch(&net, &server.named("once.test", "/")).await.unwrap(), "inside");
    // There was no second look-up that could have returned another address.
    assert_eq!(net.names.asked(), ["once.test"]);
    net.names.set("meta.test", &["169.254.169.254"]);
    assert!(matches!(
        reason(fetch(&net, &server.named("meta.test", "/")).await),
        UrlDenialReason::Metadata(_)
    ));
}

#[tokio::test]
async fn the_blocklist_holds() {
    let mut blocklist = Blocklist::new();
    blocklist.add(["example.com"], "config");
    let net = NetFixture::with(|config| config.policy = UrlPolicy { blocklist, ..UrlPolicy::default() });
    let error = fetch(&net, "https://www.example.com/").await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "Blocked by website policy: 'www.example.com' matched rule 'example.com' from config"
    );
}

#[tokio::test]
async fn answers_are_capped_by_themselves() {
    let server = RawServer::answering("HTTP/1.1 200 OK\r\ncontent-length: 900000000\r\n\r\n").await;
    let net = NetFixture::open();
    let response = net.send(HttpRequest::get(&server.url("/")).unwrap().untrusted()).await.unwrap();
    assert!(matches!(response.bytes(usize::MAX).await, Err(Error::TooLarge { .. })));
}
