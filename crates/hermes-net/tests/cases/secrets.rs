//! Secrets must not be in any text that is shown or logged.

use hermes_net::{Error, HeaderName, HttpRequest};
use hermes_types::Secret;
use tokio::net::TcpListener;

use super::raw_server::{AfterResponse, RawServer, ok, redirect};
use super::support::NetFixture;

const SECRET: &str = "s3cr3t-v4lue";

fn loaded(url: &str) -> HttpRequest {
    HttpRequest::post(url)
        .unwrap()
        .bearer(&Secret::new(SECRET))
        .unwrap()
        .secret_header(HeaderName::from_static("x-key"), &Secret::new(SECRET))
        .unwrap()
        .body(SECRET)
}

/// Returns a URL with the secret in every place that can hold one.
fn everywhere(address: &str) -> String {
    format!("http://{SECRET}:{SECRET}@{address}/bot{SECRET}/x?key={SECRET}#{SECRET}")
}

#[track_caller]
fn check(shown: &str) {
    assert!(!shown.contains(SECRET) && !shown.contains("v4lue"), "{shown}");
}

#[tokio::test]
async fn errors_and_debug_forms_are_clean() {
    let closed = {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        listener.local_addr().unwrap()
    };
    let dead = RawServer::start(|_| (Vec::new(), AfterResponse::Close)).await;
    let noise = RawServer::start(|_| (b"not http at all\r\n\r\n".to_vec(), AfterResponse::Close)).await;
    let short = RawServer::start(|_| {
        (b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nx".to_vec(), AfterResponse::Close)
    })
    .await;
    let body = RawServer::answering(&ok(&format!("{{\"a\": \"{SECRET}\"}}"))).await;
    let bounce = RawServer::answering(&redirect(302, &format!("http://10.0.0.1/?key={SECRET}"))).await;
    let wrong = RawServer::answering(&redirect(302, &format!("http://[{SECRET}/"))).await;
    let addresses = [
        closed.to_string(),
        dead.address.to_string(),
        noise.address.to_string(),
        short.address.to_string(),
        body.address.to_string(),
        bounce.address.to_string(),
        wrong.address.to_string(),
        "nowhere.test".to_owned(),
    ];
    let net = NetFixture::new();
    for address in addresses {
        for request in [
            loaded(&everywhere(&address)),
            loaded(&everywhere(&address)).follow_redirects(2),
            loaded(&everywhere(&address)).untrusted(),
        ] {
            check(&format!("{request:?}"));
            let error = match net.send(request).await {
                Ok(response) => {
                    check(&format!("{response:?}"));
                    match response.json::<Vec<u8>>(1000).await {
                        Ok(_) => panic!("{address} answered a list"),
                        Err(error) => error,
                    }
                }
                Err(error) => error,
            };
            check(&format!("{error} {error:?}"));
        }
    }
}

#[test]
fn a_value_that_cannot_be_sent_is_not_repeated() {
    let request = HttpRequest::get("http://example.com/").unwrap();
    let error = request.clone().bearer(&Secret::new(format!("{SECRET}\n"))).unwrap_err();
    check(&format!("{error} {error:?}"));
    assert!(matches!(error, Error::Other { .. }));
    check(&format!(
        "{:?}",
        request.header(HeaderName::from_static("x-a"), &format!("{SECRET}\0")).unwrap_err()
    ));
}
