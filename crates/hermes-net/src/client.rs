//! The client: connection pools, URL checks, and following redirects.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use hermes_guard::{UrlDenial, UrlDenialReason, UrlPolicy};
use hermes_types::{Cancel, Clock, Deadline};
use reqwest::NoProxy;
use rustls::ClientConfig;
use url::{Host, Url};

use crate::config::{CertificateVerification, Config, ProxyMode};
use crate::error::{Error, TimeoutPhase};
use crate::failure;
use crate::redirect;
use crate::request::{HttpRequest, RedirectPolicy, UrlTrust, host_of};
use crate::request_bounds::RequestBounds;
use crate::resolve::{AddressCheck, CheckedResolver, HostResolveError, HostResolver};
use crate::response::HttpResponse;
use crate::tls;

/// The HTTP client. A process has one; clones share its connections.
#[derive(Clone)]
pub struct HttpClient(Arc<Shared>);

struct Shared {
    clock: Arc<dyn Clock>,
    policy: Arc<UrlPolicy>,
    proxy_hosts: Vec<String>,
    configured: reqwest::Client,
    // Separate from `configured`, so that a connection made without checks is never reused by a request that needs
    // them.
    untrusted: reqwest::Client,
    checked: CheckedResolver,
    unchecked: CheckedResolver,
    tls: ClientConfig,
    config: Config,
}

impl HttpClient {
    pub fn new(config: Config) -> Result<Self, Error> {
        let tls = tls::client_config(config.ca_bundle.as_deref(), config.verification)?;
        let policy = Arc::new(config.policy.clone());
        let proxy_hosts = config.proxies.hosts();
        let unchecked = CheckedResolver { resolver: config.resolver.clone(), check: AddressCheck::Unchecked };
        let check = AddressCheck::Policy { policy: policy.clone(), except: proxy_hosts.clone() };
        let checked = CheckedResolver { resolver: config.resolver.clone(), check };
        let direct =
            if config.proxies == ProxyMode::Environment { &ProxyMode::Direct } else { &config.proxies };
        Ok(Self(Arc::new(Shared {
            configured: build(&config, &tls, &config.proxies, unchecked.clone())?,
            untrusted: build(&config, &tls, direct, checked.clone())?,
            clock: config.clock.clone(),
            policy,
            proxy_hosts,
            checked,
            unchecked,
            tls,
            config,
        })))
    }

    /// Returns a client with other certificate settings; it shares no connections with this one. Without a bundle
    /// the configured one stays.
    pub fn with_verification(
        &self,
        ca_bundle: Option<PathBuf>,
        verification: CertificateVerification,
    ) -> Result<Self, Error> {
        let config = self.0.config.clone();
        Self::new(Config { ca_bundle: ca_bundle.or(config.ca_bundle), verification, ..config })
    }

    /// Returns a client with another name resolver; it shares no connections with this one. Certificates are still
    /// checked against the name.
    pub fn with_resolver(&self, resolver: Arc<dyn HostResolver>) -> Result<Self, Error> {
        Self::new(Config { resolver, ..self.0.config.clone() })
    }

    /// Returns a client with other proxy settings; it shares no connections with this one.
    pub fn with_proxies(&self, proxies: ProxyMode) -> Result<Self, Error> {
        Self::new(Config { proxies, ..self.0.config.clone() })
    }

    /// Returns the addresses that this client's resolver gives for a name.
    pub async fn look_up(&self, name: &str) -> Vec<std::net::IpAddr> {
        self.0.unchecked.addresses(name).await.unwrap_or_default()
    }

    /// Sends the request and waits for the status line; the caller reads the body from the returned response.
    pub async fn send(
        &self,
        request: HttpRequest,
        deadline: Deadline,
        cancel: &Cancel,
    ) -> Result<HttpResponse, Error> {
        let bounds = self.bounds(deadline, cancel);
        let mut request = request;
        let mut hops = match request.redirects {
            RedirectPolicy::Return => return self.exchange(request, bounds).await,
            RedirectPolicy::Follow { most } => most,
        };
        loop {
            let next = request.clone();
            let response = self.exchange(request, bounds.clone()).await?;
            let Some(next) = redirect::next(&next, response.status(), response.headers())? else {
                return Ok(response);
            };
            if hops == 0 {
                return Err(Error::TooManyRedirects { host: host_of(&next.url) });
            }
            hops -= 1;
            request = next;
        }
    }

    pub(crate) fn bounds(&self, deadline: Deadline, cancel: &Cancel) -> RequestBounds {
        RequestBounds { clock: self.0.clock.clone(), deadline, cancel: cancel.clone() }
    }

    pub(crate) fn tls(&self) -> ClientConfig {
        self.0.tls.clone()
    }

    pub(crate) fn resolver(&self) -> &CheckedResolver {
        &self.0.unchecked
    }

    async fn exchange(&self, request: HttpRequest, bounds: RequestBounds) -> Result<HttpResponse, Error> {
        let host = host_of(&request.url);
        let client = match request.trust {
            UrlTrust::Configured => {
                check_shape(&request.url)?;
                &self.0.configured
            }
            UrlTrust::Untrusted => {
                self.check_untrusted(&request.url, &bounds).await?;
                &self.0.untrusted
            }
        };
        let outgoing = client
            .request(request.method, request.url.clone())
            .headers(request.headers)
            .body(reqwest::Body::from(request.body));
        let work = async { outgoing.send().await.map_err(|error| failure::request_error(&host, error)) };
        let late = || Error::TimedOut { host: host.clone(), wait: TimeoutPhase::Answer };
        let inner = bounds.run(request.response_timeout, late, work).await?;
        Ok(HttpResponse {
            inner,
            url: request.url,
            bounds,
            stall_timeout: request.stall_timeout,
            body_limit: request.body_limit,
            read: 0,
        })
    }

    async fn check_untrusted(&self, url: &Url, bounds: &RequestBounds) -> Result<(), Error> {
        self.0.policy.check_url(url)?;
        let Some(Host::Domain(name)) = url.host() else { return Ok(()) };
        if self.0.proxy_hosts.is_empty() {
            return Ok(());
        }
        // Through a proxy the connector never sees the name, so its check would not happen.
        if self.0.proxy_hosts.iter().any(|host| host == name) {
            return Err(UrlDenial::from(UrlDenialReason::LocalName { host: name.to_owned() }).into());
        }
        let late = || Error::TimedOut { host: host_of(url), wait: TimeoutPhase::Connection };
        let look_up = async { Ok(self.0.checked.addresses(name).await) };
        match bounds.run(std::time::Duration::from_secs(15), late, look_up).await? {
            Err(HostResolveError::Denied(denied)) => Err(denied.into()),
            // Where only the proxy can resolve names, the proxy decides.
            Ok(_) | Err(HostResolveError::Unresolved(_)) => Ok(()),
        }
    }
}

/// Limits the idle connections kept per host; `IDLE_TIMEOUT` limits how long.
const MAX_IDLE_CONNECTIONS: usize = 16;
const IDLE_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(10);

fn check_shape(url: &Url) -> Result<(), Error> {
    let web = matches!(url.scheme(), "http" | "https") && url.has_host();
    if web { Ok(()) } else { Err(Error::InvalidUrl) }
}

fn build(
    config: &Config,
    tls: &ClientConfig,
    proxies: &ProxyMode,
    resolver: CheckedResolver,
) -> Result<reqwest::Client, Error> {
    #[expect(clippy::disallowed_methods, reason = "this is the crate that builds HTTP clients")]
    let mut builder = reqwest::Client::builder()
        .tls_backend_preconfigured(tls.clone())
        .dns_resolver(Arc::new(resolver))
        .redirect(reqwest::redirect::Policy::none())
        .connect_timeout(config.connect_timeout)
        // Idle connections use memory, so after a burst only a few are kept, and only briefly.
        .pool_max_idle_per_host(MAX_IDLE_CONNECTIONS)
        .pool_idle_timeout(IDLE_TIMEOUT)
        .user_agent(config.user_agent.as_str())
        .referer(false);
    let unusable = |error: reqwest::Error| Error::Settings {
        why: failure::sanitize_text(&error.without_url().to_string()),
    };
    match proxies {
        ProxyMode::Environment => {}
        ProxyMode::Direct => builder = builder.no_proxy(),
        ProxyMode::Fixed { http, https, bypass } => {
            builder = builder.no_proxy();
            let bypass = NoProxy::from_string(bypass);
            if let Some(url) = http {
                builder = builder
                    .proxy(reqwest::Proxy::http(url.clone()).map_err(unusable)?.no_proxy(bypass.clone()));
            }
            if let Some(url) = https {
                builder =
                    builder.proxy(reqwest::Proxy::https(url.clone()).map_err(unusable)?.no_proxy(bypass));
            }
        }
    }
    builder.build().map_err(unusable)
}

impl fmt::Debug for HttpClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Client")
    }
}
