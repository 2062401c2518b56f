//! What the client is told once, at the start.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use hermes_guard::UrlPolicy;
use hermes_types::Clock;
use url::Url;

use crate::resolve::{HostResolver, SystemResolver};

/// Settings of a [`crate::Client`]. The environment is not read here: `hermes-config` hands its values in.
#[derive(Debug, Clone)]
pub struct Config {
    pub clock: Arc<dyn Clock>,
    pub user_agent: String,
    /// A PEM file with authorities to trust beside the system's (`HERMES_CA_BUNDLE`, `SSL_CERT_FILE`,
    /// `REQUESTS_CA_BUNDLE`).
    pub ca_bundle: Option<PathBuf>,
    pub verification: CertificateVerification,
    pub proxies: ProxyMode,
    /// Real time, not the clock's: it is kept inside the connector.
    pub connect_timeout: Duration,
    /// What holds for requests on a model's word.
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

/// Whether certificates are believed only when somebody vouches for them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CertificateVerification {
    #[default]
    Required,
    /// The user insists, for one server of theirs. Anybody in between can then read and change everything.
    Skipped,
}

/// Where connections leave the machine.
#[derive(Clone, PartialEq, Eq)]
pub enum ProxyMode {
    Direct,
    /// `HTTP_PROXY`, `HTTPS_PROXY`, `ALL_PROXY`, `NO_PROXY` and the system's settings, as reqwest reads them: it also
    /// knows the settings of macOS and Windows, which no environment carries. Requests on a model's word then go direct,
    /// because a proxy that is not known here cannot be told apart from an address they may not reach.
    Environment,
    /// As configured. Requests on a model's word use them too: the proxy resolves the name, so the check of addresses
    /// before sending is made on what this machine resolves, where it can.
    Fixed {
        http: Option<Url>,
        https: Option<Url>,
        bypass: String,
    },
}

impl ProxyMode {
    /// The hosts of configured proxies, which a model may not talk to by themselves.
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

/// Without the addresses, which may carry passwords.
impl fmt::Debug for ProxyMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Direct => "Direct",
            Self::Environment => "Environment",
            Self::Fixed { .. } => "Fixed",
        })
    }
}
