//! Requests through an HTTP proxy.

use hermes_guard::UrlDenialReason;
use hermes_net::{Error, HttpRequest, ProxyMode, Url};

use super::raw_server::{AfterResponse, RawServer, ok};
use super::support::{NetFixture, open_policy};

fn proxied(proxy: &RawServer, bypass: &str) -> NetFixture {
    let url = Url::parse(&format!("http://user:s3cr3t@{}/", proxy.address)).unwrap();
    let proxies = ProxyMode::Fixed { http: Some(url.clone()), https: Some(url), bypass: bypass.to_owned() };
    assert!(!format!("{proxies:?}").contains("s3cr3t"));
    NetFixture::with(|config| config.proxies = proxies)
}

#[tokio::test]
async fn plain_requests_go_to_the_proxy() {
    let proxy = RawServer::answering(&ok("proxied")).await;
    let direct = RawServer::answering(&ok("direct")).await;
    let net = proxied(&proxy, "127.0.0.1");
    assert_eq!(net.get("http://far.test/a").await.unwrap().text(100).await.unwrap(), "proxied");
    let request = proxy.requests().pop().unwrap();
    assert!(request.starts_with("GET http://far.test/a HTTP/1.1\r\n"), "{request}");
    assert!(request.to_ascii_lowercase().contains("proxy-authorization: basic "), "{request}");
    assert_eq!(net.get(&direct.url("/")).await.unwrap().text(100).await.unwrap(), "direct");
}

#[tokio::test]
async fn a_tunnel_that_is_refused() {
    let proxy = RawServer::start(|_| {
        (b"HTTP/1.1 403 No\r\ncontent-length: 0\r\n\r\n".to_vec(), AfterResponse::Close)
    })
    .await;
    let error = proxied(&proxy, "").get("https://far.test/?k=s3cr3t").await.unwrap_err();
    assert!(matches!(error, Error::Proxy { .. }), "{error:?}");
    assert!(!format!("{error} {error:?}").contains("s3cr3t"));
}

#[tokio::test]
async fn a_model_reaches_the_web_through_it_but_nothing_private() {
    let proxy = RawServer::answering(&ok("proxied")).await;
    let net = proxied(&proxy, "");
    net.names.set("public.test", &["93.184.216.34"]);
    net.names.set("inside.test", &["10.0.0.1"]);
    let fetch = async |url: &str| net.send(HttpRequest::get(url)?.untrusted()).await?.text(100).await;
    assert_eq!(fetch("http://public.test/").await.unwrap(), "proxied");
    // Only the proxy can resolve this name, so the proxy decides.
    assert_eq!(fetch("http://elsewhere.test/").await.unwrap(), "proxied");
    assert!(matches!(fetch("http://inside.test/").await, Err(Error::Denied(_))));
    assert!(matches!(fetch("http://10.0.0.1/").await, Err(Error::Denied(_))));
    assert_eq!(proxy.requests().len(), 2);
}

#[tokio::test]
async fn the_proxy_itself_is_not_for_models() {
    let proxy = RawServer::answering(&ok("proxied")).await;
    let url = Url::parse(&proxy.named("proxy.test", "/")).unwrap();
    let net = NetFixture::with(|config| {
        config.proxies = ProxyMode::Fixed { http: Some(url.clone()), https: None, bypass: String::new() };
        config.policy = open_policy();
    });
    net.names.set("proxy.test", &["127.0.0.1"]);
    let error =
        net.send(HttpRequest::new(hermes_net::Method::GET, url.clone()).untrusted()).await.unwrap_err();
    assert!(
        matches!(error, Error::Denied(denied) if matches!(denied.reason, UrlDenialReason::LocalName { .. }))
    );
    net.names.set("public.test", &["93.184.216.34"]);
    let request = HttpRequest::get("http://public.test/").unwrap().untrusted();
    assert_eq!(net.send(request).await.unwrap().text(100).await.unwrap(), "proxied");
}

#[tokio::test]
async fn a_client_can_be_sent_another_way() {
    let proxy = RawServer::answering(&ok("proxied")).await;
    let direct = RawServer::answering(&ok("direct")).await;
    let net = NetFixture::new();
    let url = Url::parse(&proxy.url("/")).unwrap();
    let proxies = ProxyMode::Fixed { http: Some(url.clone()), https: Some(url), bypass: String::new() };
    let through = net.client.with_proxies(proxies).unwrap();
    let request = HttpRequest::get(&direct.url("/x")).unwrap();
    let answer = through.send(request, net.deadline(), &hermes_types::Cancel::new()).await.unwrap();
    assert_eq!(answer.text(100).await.unwrap(), "proxied");
    assert_eq!(net.get(&direct.url("/x")).await.unwrap().text(100).await.unwrap(), "direct");
}
