//! Which addresses the browser may open.
//!
//! Every address is judged when it is requested: by its name and the website policy, then by every address its name
//! resolves to. Invariant: where nothing can be decided, the request is refused.

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hermes_guard::{UrlDenial, UrlDenialReason, UrlPolicy};
use hermes_net::{HttpClient, Url};
use hermes_types::{BoxFuture, Clock};
use tokio::net::TcpStream;
use url::Host;

/// How long the addresses of a name count.
const KEPT: Duration = Duration::from_secs(20);
/// The most names that are remembered.
const MOST_NAMES: usize = 2_000;

/// Resolves names and opens connections for the browser.
pub trait BrowserNetwork: Send + Sync + fmt::Debug {
    fn look_up<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Vec<IpAddr>>;

    /// Connects to one of the addresses, all of which were checked.
    fn connect(&self, addresses: Vec<IpAddr>, port: u16) -> BoxFuture<'_, io::Result<TcpStream>>;
}

impl BrowserNetwork for HttpClient {
    fn look_up<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Vec<IpAddr>> {
        Box::pin(HttpClient::look_up(self, name))
    }

    fn connect(&self, addresses: Vec<IpAddr>, port: u16) -> BoxFuture<'_, io::Result<TcpStream>> {
        Box::pin(async move {
            let mut last = io::Error::from(io::ErrorKind::AddrNotAvailable);
            for address in addresses {
                match TcpStream::connect((address, port)).await {
                    Ok(stream) => return Ok(stream),
                    Err(error) => last = error,
                }
            }
            Err(last)
        })
    }
}

/// Returns the present policy for addresses.
pub type PolicySource = Arc<dyn Fn() -> Arc<UrlPolicy> + Send + Sync>;

/// Says who resolves a name that this machine cannot resolve.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HostNameResolution {
    /// This machine; what it cannot resolve is refused.
    Here,
    /// The configured proxy, which decides where this machine knows no address.
    Proxy,
}

/// Judges the requests of a browser. Clones share what was resolved.
#[derive(Clone)]
pub(crate) struct RequestGuard(Arc<GuardState>);

struct GuardState {
    network: Arc<dyn BrowserNetwork>,
    policy: PolicySource,
    resolution: HostNameResolution,
    clock: Arc<dyn Clock>,
    known: Mutex<HashMap<String, KnownName>>,
}

struct KnownName {
    at: Duration,
    addresses: Vec<IpAddr>,
}

impl RequestGuard {
    pub(crate) fn new(
        network: Arc<dyn BrowserNetwork>,
        policy: PolicySource,
        resolution: HostNameResolution,
        clock: Arc<dyn Clock>,
    ) -> Self {
        Self(Arc::new(GuardState { network, policy, resolution, clock, known: Mutex::default() }))
    }

    pub(crate) fn network(&self) -> &dyn BrowserNetwork {
        &*self.0.network
    }

    /// Parses and judges an address that a model wrote.
    pub(crate) async fn parse(&self, text: &str) -> Result<Url, UrlDenial> {
        let url = (self.0.policy)().parse(text)?;
        self.check_addresses(&url).await?;
        Ok(url)
    }

    /// Judges the address of a request that a page makes.
    pub(crate) async fn check(&self, text: &str) -> Result<(), UrlDenial> {
        // These carry their contents in themselves or lead nowhere.
        let scheme = text.split(':').next().unwrap_or_default();
        if matches!(scheme, "data" | "blob" | "about") {
            return Ok(());
        }
        let url = self.parse_request(text)?;
        self.check_addresses(&url).await
    }

    /// Judges a request as far as it needs no look-up; `None` says that it needs one.
    pub(crate) fn check_now(&self, text: &str) -> Option<Result<(), UrlDenial>> {
        let scheme = text.split(':').next().unwrap_or_default();
        if matches!(scheme, "data" | "blob" | "about") {
            return Some(Ok(()));
        }
        let url = match self.parse_request(text) {
            Ok(url) => url,
            Err(denial) => return Some(Err(denial)),
        };
        let Some(name) = url.domain() else { return Some(Ok(())) };
        let addresses = self.remembered(name)?;
        Some(self.judge(name, &addresses))
    }

    /// Judges a connection, and returns the addresses it may go to.
    pub(crate) async fn check_host(&self, host: &str, port: u16) -> Result<Vec<IpAddr>, UrlDenial> {
        let bracketed = if host.contains(':') { format!("[{host}]") } else { host.to_owned() };
        let url = (self.0.policy)().parse(&format!("http://{bracketed}:{port}/"))?;
        match url.host() {
            Some(Host::Ipv4(address)) => Ok(vec![address.into()]),
            Some(Host::Ipv6(address)) => Ok(vec![address.into()]),
            Some(Host::Domain(name)) => {
                let addresses = self.addresses(name).await;
                self.judge(name, &addresses)?;
                Ok(addresses)
            }
            None => Err(UrlDenialReason::NoHost.into()),
        }
    }

    /// Parses an address of a page. A user name in it is the page's own affair.
    fn parse_request(&self, text: &str) -> Result<Url, UrlDenial> {
        let mut url = Url::parse(text).map_err(|_| UrlDenialReason::NotAUrl)?;
        let plain = match url.scheme() {
            "ws" => Some("http"),
            "wss" => Some("https"),
            _ => None,
        };
        if let Some(plain) = plain {
            url = Url::parse(&format!("{plain}{}", text.trim_start_matches(url.scheme())))
                .map_err(|_| UrlDenialReason::NotAUrl)?;
        }
        // Neither can fail on an address with a host.
        let _ = (url.set_username(""), url.set_password(None));
        (self.0.policy)().check_url(&url)?;
        Ok(url)
    }

    async fn check_addresses(&self, url: &Url) -> Result<(), UrlDenial> {
        let Some(name) = url.domain() else { return Ok(()) };
        let addresses = self.addresses(name).await;
        self.judge(name, &addresses)
    }

    async fn addresses(&self, name: &str) -> Vec<IpAddr> {
        if let Some(addresses) = self.remembered(name) {
            return addresses;
        }
        let addresses = self.0.network.look_up(name).await;
        let mut known = self.known();
        if known.len() >= MOST_NAMES {
            known.clear();
        }
        let at = self.0.clock.monotonic();
        known.insert(name.to_owned(), KnownName { at, addresses: addresses.clone() });
        addresses
    }

    fn judge(&self, name: &str, addresses: &[IpAddr]) -> Result<(), UrlDenial> {
        if addresses.is_empty() && self.0.resolution == HostNameResolution::Here {
            return Err(UrlDenialReason::Unresolved(name.to_owned()).into());
        }
        let policy = (self.0.policy)();
        addresses.iter().try_for_each(|address| policy.check_address(*address))
    }

    fn remembered(&self, name: &str) -> Option<Vec<IpAddr>> {
        let now = self.0.clock.monotonic();
        let known = self.known();
        let entry = known.get(name).filter(|entry| now.saturating_sub(entry.at) < KEPT)?;
        Some(entry.addresses.clone())
    }

    fn known(&self) -> std::sync::MutexGuard<'_, HashMap<String, KnownName>> {
        self.0.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for RequestGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RequestGuard")
    }
}
