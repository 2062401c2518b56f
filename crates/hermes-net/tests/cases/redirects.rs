//! Redirects: returned, followed, and refused.

use hermes_guard::UrlDenialReason;
use hermes_net::header::AUTHORIZATION;
use hermes_net::{Error, HeaderName, HttpRequest};
use hermes_types::Secret;

use super::raw_server::{AfterResponse, RawServer, ok, redirect};
use super::support::NetFixture;

const KEY: HeaderName = HeaderName::from_static("x-key");

/// Starts a server that redirects every path but `/end`.
async fn redirecting(status: u16, location: impl Fn(u16) -> String + Send + Sync + 'static) -> RawServer {
    RawServer::start(move |request| {
        let port = request.split("host: ").nth(1).and_then(|rest| rest.lines().next());
        let port = port.and_then(|host| host.rsplit_once(':')).map_or(0, |(_, port)| port.parse().unwrap());
        let target = request.split(' ').nth(1).unwrap();
        let answer = if target == "/end" { ok("end") } else { redirect(status, &location(port)) };
        (answer.into_bytes(), AfterResponse::Keep)
    })
    .await
}

#[tokio::test]
async fn a_redirect_is_an_answer_by_default() {
    let server = redirecting(302, |_| "/end".into()).await;
    let response = NetFixture::new().get(&server.url("/")).await.unwrap();
    assert_eq!(response.status().as_u16(), 302);
    assert_eq!(server.requests().len(), 1);
}

#[tokio::test]
async fn followed_on_the_same_host_with_everything() {
    let server = redirecting(307, |_| "/end".into()).await;
    let request = HttpRequest::post(&server.url("/"))
        .unwrap()
        .bearer(&Secret::new("s3cr3t"))
        .unwrap()
        .body("body")
        .follow_redirects(3);
    let response = NetFixture::new().send(request).await.unwrap();
    assert_eq!(response.url().path(), "/end");
    assert_eq!(response.text(10).await.unwrap(), "end");
    let last = server.requests().pop().unwrap();
    assert!(
        last.starts_with("POST /end") && last.contains("Bearer s3cr3t") && last.ends_with("body"),
        "{last}"
    );
    assert_eq!(server.connections(), 1);
}

#[tokio::test]
async fn a_post_becomes_a_get_where_it_should() {
    for (status, method) in [(301, "GET"), (302, "GET"), (303, "GET"), (307, "POST"), (308, "POST")] {
        let server = redirecting(status, |_| "/end".into()).await;
        let request = HttpRequest::post(&server.url("/")).unwrap().json(&1).unwrap().follow_redirects(1);
        NetFixture::new().send(request).await.unwrap();
        let last = server.requests().pop().unwrap();
        assert!(last.starts_with(&format!("{method} /end")), "{status}: {last}");
        assert_eq!(last.contains("content-type"), method == "POST", "{status}: {last}");
    }
}

#[tokio::test]
async fn secrets_stay_with_their_host() {
    let server = redirecting(302, |port| format!("http://b.test:{port}/end")).await;
    let net = NetFixture::open();
    net.names.set("a.test", &["127.0.0.1"]);
    net.names.set("b.test", &["127.0.0.1"]);
    let request = HttpRequest::get(&server.named("a.test", "/"))
        .unwrap()
        .header(AUTHORIZATION, "Basic cGxhaW4=")
        .unwrap()
        .secret_header(KEY, &Secret::new("s3cr3t"))
        .unwrap()
        .header(HeaderName::from_static("x-plain"), "kept")
        .unwrap()
        .follow_redirects(3);
    net.send(request).await.unwrap();
    let requests = server.requests();
    assert!(requests[0].contains("s3cr3t") && requests[0].contains("cGxhaW4="));
    assert!(requests[1].contains("host: b.test") && requests[1].contains("x-plain: kept"), "{}", requests[1]);
    assert!(!requests[1].contains("s3cr3t") && !requests[1].contains("cGxhaW4="), "{}", requests[1]);
}

#[tokio::test]
async fn another_port_is_another_server() {
    let end = RawServer::answering(&ok("end")).await;
    let url = end.url("/end");
    let server = redirecting(302, move |_| url.clone()).await;
    let request = HttpRequest::get(&server.url("/"))
        .unwrap()
        .secret_header(KEY, &Secret::new("s3cr3t"))
        .unwrap()
        .follow_redirects(1);
    NetFixture::new().send(request).await.unwrap();
    assert!(!end.requests()[0].contains("s3cr3t"));
}

#[tokio::test]
async fn a_redirect_into_the_private_network_is_denied() {
    let inside = RawServer::answering(&ok("inside")).await;
    let net = NetFixture::new();
    net.names.set("public.test", &["127.0.0.1"]);
    net.names.set("rebound.test", &["127.0.0.1"]);
    for target in [inside.url("/"), inside.named("rebound.test", "/"), inside.named("localhost", "/")] {
        let server = redirecting(302, move |_| target.clone()).await;
        // The user configured this host, so its own address does not matter; the redirect's target does.
        let request = HttpRequest::get(&server.named("public.test", "/")).unwrap().follow_redirects(3);
        let error = net.send(request).await.unwrap_err();
        assert!(matches!(error, Error::Denied(_)), "{error:?}");
    }
    assert_eq!(inside.connections(), 0);
}

#[tokio::test]
async fn other_schemes_are_not_followed() {
    let server = redirecting(302, |_| "file:///etc/passwd".into()).await;
    let error = NetFixture::open()
        .send(HttpRequest::get(&server.url("/")).unwrap().follow_redirects(3))
        .await
        .unwrap_err();
    assert!(matches!(error, Error::Denied(denied) if matches!(denied.reason, UrlDenialReason::Scheme(_))));
}

#[tokio::test]
async fn a_body_is_not_carried_to_another_host() {
    let server = redirecting(307, |port| format!("http://b.test:{port}/end")).await;
    let net = NetFixture::open();
    net.names.set("b.test", &["127.0.0.1"]);
    let error = net
        .send(HttpRequest::post(&server.url("/")).unwrap().body("x").follow_redirects(3))
        .await
        .unwrap_err();
    assert!(
        matches!(error, Error::Denied(denied) if matches!(denied.reason, UrlDenialReason::BodyElsewhere(_)))
    );
}

#[tokio::test]
async fn redirects_end() {
    let server = redirecting(302, |_| "/again".into()).await;
    let error = NetFixture::new()
        .send(HttpRequest::get(&server.url("/")).unwrap().follow_redirects(3))
        .await
        .unwrap_err();
    assert_eq!(error, Error::TooManyRedirects { host: server.address.to_string() });
    assert_eq!(server.requests().len(), 4);
}
