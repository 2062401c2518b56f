//! The settings that the client is created with.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use hermes_guard::UrlPolicy;
use hermes_types::Clock;
use url::Url;

use crate::resolve::{HostResolver, SystemResolver};

/// Settings of an [`crate::HttpClient`]. The environment is not read here: `hermes-config` passes its values in.
#[derive(Debug, Clone)]
pub struct Config {
    pub clock: Arc<dyn Clock>,
    pub user_agent: String,
    /// A PEM file with authorities to trust in addition to the system's (`HERMES_CA_BUNDLE`, `SSL_CERT_FILE`,
    /// `REQUESTS_CA_BUNDLE`).
    pub ca_bundle: Option<PathBuf>,
    pub verification: CertificateVerification,
    pub proxies: ProxyMode,
    /// The limit for connecting, in real time and not in the time of `clock`, because the connector measures it.
    pub connect_timeout: Duration,
    /// The policy for requests to untrusted URLs.
    pub policy: UrlPolicy,
    pub resolver: Arc<dyn HostResolver>,
}

impl Config {
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self {
            clock,
            user_agent: concat!("hermes/", env!("CARGO_PKG_VERSION")).to_owned(),
            ca_bundle: None,
            verification: CertificateVerification::default(),
            proxies: ProxyMode::Environment,
            connect_timeout: Duration::from_secs(15),
            policy: UrlPolicy::default(),
            resolver: Arc::new(SystemResolver),
        }
    }
}

/// Tells whether a server's certificate must be signed by a trusted authority.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CertificateVerification {
    #[default]
    Required,
    /// Any certificate is accepted, because the user configured it for one of their servers. An attacker on the
    /// network can then read and change everything.
    Skipped,
}

/// The proxies through which connections leave the machine.
#[derive(Clone, PartialEq, Eq)]
pub enum ProxyMode {
    Direct,
    /// `HTTP_PROXY`, `HTTPS_PROXY`, `ALL_PROXY`, `NO_PROXY` and the system's settings, as reqwest reads them: it
    /// also reads the settings of macOS and Windows, which are not in the environment. Requests to untrusted URLs
    /// then go direct, because a proxy that is unknown here cannot be told apart from an address they must not
    /// reach.
    Environment,
    /// The configured proxies. Requests to untrusted URLs use them too: the proxy resolves the name, so the address
    /// check before sending uses what this machine resolves, where it can.
    Fixed {
        http: Option<Url>,
        https: Option<Url>,
        bypass: String,
    },
}

impl ProxyMode {
    /// Returns the hosts of configured proxies, which untrusted requests must not address directly.
    pub(crate) fn hosts(&self) -> Vec<String> {
        match self {
            Self::Direct | Self::Environment => Vec::new(),
            Self::Fixed { http, https, .. } => [http, https]
                .into_iter()
                .flatten()
                .filter_map(|url| url.host_str().map(str::to_owned))
                .collect(),
        }
    }
}

/// Omits the addresses, which may contain passwords.
impl fmt::Debug for ProxyMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Direct => "Direct",
            Self::Environment => "Environment",
            Self::Fixed { .. } => "Fixed",
        })
    }
}
