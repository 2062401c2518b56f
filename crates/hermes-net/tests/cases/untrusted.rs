//! Requests on a model's word.

use hermes_guard::{AddressKind, Blocklist, Reason, UrlPolicy};
use hermes_net::{Error, Request};

use super::raw::{Raw, ok};
use super::support::Net;

async fn fetch(net: &Net, url: &str) -> Result<String, Error> {
    net.send(Request::get(url)?.untrusted().follow(3)).await?.text(1000).await
}

#[track_caller]
fn reason(result: Result<String, Error>) -> Reason {
    match result {
        Err(Error::Denied(denied)) => denied.reason,
        other => panic!("not denied: {other:?}"),
    }
}

#[tokio::test]
async fn private_addresses_are_denied_before_anything_is_sent() {
    let server = Raw::saying(&ok("inside")).await;
    let net = Net::new();
    let loopback = |reason| matches!(reason, Reason::Address { kind: AddressKind::Loopback, .. });
    assert!(loopback(reason(fetch(&net, &server.url("/")).await)));
    assert!(loopback(reason(fetch(&net, &format!("http://2130706433:{}/", server.address.port())).await)));
    assert!(matches!(reason(fetch(&net, &server.named("localhost", "/")).await), Reason::LocalName { .. }));
    assert!(matches!(reason(fetch(&net, "http://169.254.169.254/").await), Reason::Metadata(_)));
    assert_eq!(server.connections(), 0);
    assert!(net.names.asked().is_empty());
}

#[tokio::test]
async fn names_are_judged_by_what_they_resolve_to() {
    let server = Raw::saying(&ok("inside")).await;
    let net = Net::new();
    net.names.set("rebound.test", &["127.0.0.1"]);
    // One bad address spoils the good one.
    net.names.set("mixed.test", &["93.184.216.34", "10.0.0.1"]);
    net.names.set("mapped.test", &["::ffff:127.0.0.1"]);
    for name in ["rebound.test", "mixed.test", "mapped.test"] {
        assert!(
            matches!(reason(fetch(&net, &server.named(name, "/")).await), Reason::Address { .. }),
            "{name}"
        );
    }
    assert_eq!(server.connections(), 0);
    let error = fetch(&net, "http://nowhere.test/").await.unwrap_err();
    assert!(matches!(error, Error::Connect { .. }), "{error:?}");
}

#[tokio::test]
async fn the_address_that_was_judged_is_the_one_connected_to() {
    let server = Raw::saying(&ok("inside")).await;
    let net = Net::open();
    net.names.set("once.test", &["127.0.0.1"]);
    assert_eq!(fetch(&net, &server.named("once.test", "/")).await.unwrap(), "inside");
    // There was no second look-up that could have answered otherwise.
    assert_eq!(net.names.asked(), ["once.test"]);
    net.names.set("meta.test", &["169.254.169.254"]);
    assert!(matches!(reason(fetch(&net, &server.named("meta.test", "/")).await), Reason::Metadata(_)));
}

#[tokio::test]
async fn the_blocklist_holds() {
    let mut blocklist = Blocklist::new();
    blocklist.add(["example.com"], "config");
    let net = Net::with(|config| config.policy = UrlPolicy { blocklist, ..UrlPolicy::default() });
    let error = fetch(&net, "https://www.example.com/").await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "Blocked by website policy: 'www.example.com' matched rule 'example.com' from config"
    );
}

#[tokio::test]
async fn answers_are_capped_by_themselves() {
    let server = Raw::saying("HTTP/1.1 200 OK\r\ncontent-length: 900000000\r\n\r\n").await;
    let net = Net::open();
    let response = net.send(Request::get(&server.url("/")).unwrap().untrusted()).await.unwrap();
    assert!(matches!(response.bytes(usize::MAX).await, Err(Error::TooLarge { .. })));
}
