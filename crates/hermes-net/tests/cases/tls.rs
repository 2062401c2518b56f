//! TLS connections to a server whose authority only the test knows.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hermes_net::{CertificateVerification, Config, Error, HttpClient};
use hermes_task::TaskGroup;
use hermes_testkit::TestClock;
use hermes_types::Cancel;
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use super::raw_server::ok;
use super::support::NetFixture;

pub(crate) fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name)
}

pub(crate) fn acceptor() -> TlsAcceptor {
    TlsAcceptor::from(Arc::new(server_config()))
}

pub(crate) fn server_config() -> ServerConfig {
    let certificate = CertificateDer::from_pem_file(fixture("server.pem")).unwrap();
    let key = PrivateKeyDer::from_pem_file(fixture("server-key.pem")).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .unwrap()
}

async fn secure_server() -> (SocketAddr, TaskGroup) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let tasks = TaskGroup::new(&Cancel::new());
    tasks.spawn("secure server", async move {
        while let Ok((stream, _)) = listener.accept().await {
            let Ok(mut stream) = acceptor().accept(stream).await else { continue };
            let mut request = [0; 1024];
            if stream.read(&mut request).await.is_ok() {
                stream.write_all(ok("secure").as_bytes()).await.ok();
                stream.shutdown().await.ok();
            }
        }
    });
    (address, tasks)
}

fn trusting() -> NetFixture {
    let net = NetFixture::with(|config| config.ca_bundle = Some(fixture("ca.pem")));
    net.names.set("secure.test", &["127.0.0.1"]);
    net.names.set("other.test", &["127.0.0.1"]);
    net
}

#[tokio::test]
async fn an_own_authority_is_believed() {
    let (address, _tasks) = secure_server().await;
    let url = format!("https://secure.test:{}/", address.port());
    assert_eq!(trusting().get(&url).await.unwrap().text(100).await.unwrap(), "secure");
    assert_eq!(
        trusting().get(&format!("https://{address}/")).await.unwrap().text(100).await.unwrap(),
        "secure"
    );
}

#[tokio::test]
async fn an_unknown_authority_is_not() {
    let (address, _tasks) = secure_server().await;
    let error = NetFixture::new().get(&format!("https://{address}/")).await.unwrap_err();
    assert!(matches!(&error, Error::Tls { why, .. } if why.contains("unknown authority")), "{error:?}");
    assert!(!error.is_transient());
}

#[tokio::test]
async fn nor_is_a_certificate_for_another_name() {
    let (address, _tasks) = secure_server().await;
    let error = trusting().get(&format!("https://other.test:{}/", address.port())).await.unwrap_err();
    assert!(matches!(&error, Error::Tls { why, .. } if why.contains("another name")), "{error:?}");
}

#[tokio::test]
async fn nor_a_server_that_does_not_speak_it() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let tasks = TaskGroup::new(&Cancel::new());
    tasks.spawn("plain server", async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        stream.read_exact(&mut [0; 16]).await.unwrap();
        stream.write_all(ok("plain").as_bytes()).await.unwrap();
    });
    let error = NetFixture::new().get(&format!("https://{address}/")).await.unwrap_err();
    assert!(matches!(error, Error::Tls { .. } | Error::Connect { .. }), "{error:?}");
}

#[test]
fn a_bundle_that_cannot_be_used_is_named() {
    for (file, words) in [("missing.pem", "missing.pem"), ("server-key.pem", "it holds no certificate")] {
        let mut config = Config::new(Arc::new(TestClock::new()));
        config.ca_bundle = Some(fixture(file));
        let error = HttpClient::new(config).unwrap_err();
        assert!(matches!(&error, Error::Settings { why } if why.contains(words)), "{error:?}");
    }
}

#[tokio::test]
async fn a_client_can_be_told_whom_else_to_believe() {
    let (address, _tasks) = secure_server().await;
    let net = NetFixture::new();
    let url = format!("https://{address}/");
    let fetch = async |client: &HttpClient| {
        let request = hermes_net::HttpRequest::get(&url).unwrap();
        client.send(request, net.deadline(), &Cancel::new()).await?.text(100).await
    };
    let refused = fetch(&net.client).await.unwrap_err();
    assert!(matches!(refused, Error::Tls { .. }), "{refused:?}");
    let bundled =
        net.client.with_verification(Some(fixture("ca.pem")), CertificateVerification::Required).unwrap();
    assert_eq!(fetch(&bundled).await.unwrap(), "secure");
    let careless = net.client.with_verification(None, CertificateVerification::Skipped).unwrap();
    assert_eq!(fetch(&careless).await.unwrap(), "secure");
    // Skipped verification also accepts a certificate for another name; that is what was configured.
    assert!(fetch(&net.client).await.is_err(), "the first client is as it was");
    assert!(
        net.client.with_verification(Some(fixture("none.pem")), CertificateVerification::Required).is_err()
    );
}

#[tokio::test]
async fn a_name_can_be_led_elsewhere_and_is_still_checked() {
    let (address, _tasks) = secure_server().await;
    let net = NetFixture::with(|config| config.ca_bundle = Some(fixture("ca.pem")));
    let url = format!("https://secure.test:{}/", address.port());
    assert!(matches!(net.get(&url).await, Err(Error::Connect { .. })), "nobody knows the name");
    let names = Arc::new(super::support::FakeResolver::default());
    names.set("secure.test", &["127.0.0.1"]);
    names.set("other.test", &["127.0.0.1"]);
    let led = net.client.with_resolver(names).unwrap();
    let fetch = async |url: &str| {
        let request = hermes_net::HttpRequest::get(url)?;
        led.send(request, net.deadline(), &Cancel::new()).await?.text(100).await
    };
    assert_eq!(fetch(&url).await.unwrap(), "secure");
    let other = fetch(&format!("https://other.test:{}/", address.port())).await;
    assert!(matches!(other, Err(Error::Tls { .. })), "{other:?}");
    assert_eq!(led.look_up("secure.test").await.len(), 1);
    assert_eq!(led.look_up("unknown.test").await.len(), 0);
}
