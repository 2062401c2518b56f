//! Decides whether an untrusted URL may be requested.
//!
//! Holds the rules for names and for addresses. A name alone proves nothing, so the caller checks twice: the URL
//! before the name is resolved, and every resolved address before it connects, to exactly the address it checked.
//! The URL parser normalises spellings (decimal, octal, hexadecimal, full-width, upper case) before anything is
//! compared.

mod address;
mod blocklist;

use std::net::IpAddr;

use thiserror::Error;
use url::{Host, Url};

pub use address::AddressKind;
pub use blocklist::Blocklist;

/// The names of the metadata services by which clouds give credentials to their machines.
const METADATA_NAMES: [&str; 5] =
    ["metadata.google.internal", "metadata.goog", "metadata", "instance-data", "instance-data.ec2.internal"];

const LOCAL_NAMES: [&str; 3] = ["localhost", "ip6-localhost", "ip6-loopback"];
const LOCAL_ENDINGS: [&str; 5] = [".localhost", ".local", ".internal", ".localdomain", ".home.arpa"];

/// Names of query parameters that carry a credential.
const CREDENTIAL_PARAMETERS: [&str; 14] = [
    "api_key",
    "apikey",
    "api-key",
    "access_token",
    "refresh_token",
    "id_token",
    "auth_token",
    "token",
    "secret",
    "client_secret",
    "password",
    "passwd",
    "x-amz-signature",
    "x-goog-signature",
];

/// Tells whether the user's own network may be reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PrivateAddresses {
    #[default]
    Refuse,
    /// `security.allow_private_urls`. Metadata services stay refused.
    Allow,
}

/// The policy for every request to an untrusted URL.
#[derive(Debug, Clone, Default)]
pub struct UrlPolicy {
    pub private: PrivateAddresses,
    pub blocklist: Blocklist,
}

/// A refusal, in words for the user.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{reason}")]
pub struct UrlDenial {
    pub reason: UrlDenialReason,
}

#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum UrlDenialReason {
    #[error("this is not a web address")]
    NotAUrl,
    #[error("only http and https addresses can be opened, not {0}:")]
    Scheme(String),
    #[error("the address names no host")]
    NoHost,
    #[error("the address carries a user name or password; leave it out")]
    Credentials,
    #[error("the address carries a credential in its parameter '{0}'; it is not passed on")]
    CredentialParameter(String),
    #[error("{0} is a cloud metadata service, which hands out credentials; it is never opened")]
    Metadata(String),
    #[error("{host} is {kind}{}", remedy(*.kind))]
    Address { host: String, kind: AddressKind },
    #[error("{host} is a name on this machine or its own network{}", remedy(AddressKind::Private))]
    LocalName { host: String },
    // The wording of the original program, because skills and prompts search for it.
    #[error("Blocked by website policy: '{host}' matched rule '{rule}' from {source_name}")]
    Blocklist { host: String, rule: String, source_name: String },
    #[error("{0} could not be resolved")]
    Unresolved(String),
    #[error("a redirect would send the request's body to another host, {0}")]
    BodyElsewhere(String),
}

fn remedy(kind: AddressKind) -> &'static str {
    if kind.can_be_allowed() {
        "; set security.allow_private_urls: true to open such addresses"
    } else {
        "; it is never opened"
    }
}

impl From<UrlDenialReason> for UrlDenial {
    fn from(reason: UrlDenialReason) -> Self {
        Self { reason }
    }
}

impl UrlPolicy {
    /// Parses and checks a URL as a model wrote it.
    pub fn parse(&self, text: &str) -> Result<Url, UrlDenial> {
        let url = Url::parse(text.trim()).map_err(|_| UrlDenialReason::NotAUrl)?;
        self.check_url(&url)?;
        Ok(url)
    }

    /// Checks everything that can be judged before the name is resolved.
    pub fn check_url(&self, url: &Url) -> Result<(), UrlDenial> {
        if !matches!(url.scheme(), "http" | "https") {
            return Err(UrlDenialReason::Scheme(url.scheme().to_owned()).into());
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(UrlDenialReason::Credentials.into());
        }
        match url.host() {
            None => Err(UrlDenialReason::NoHost.into()),
            Some(Host::Ipv4(address)) => self.check_address(address.into()),
            Some(Host::Ipv6(address)) => self.check_address(address.into()),
            Some(Host::Domain(name)) => self.check_name(name),
        }?;
        let host = url.host_str().unwrap_or_default();
        match self.blocklist.find(host) {
            Some((rule, source_name)) => Err(UrlDenialReason::Blocklist {
                host: bare(host),
                rule,
                source_name: source_name.to_owned(),
            }
            .into()),
            None => Ok(()),
        }
    }

    /// Checks an address that is about to be connected to.
    pub fn check_address(&self, address: IpAddr) -> Result<(), UrlDenial> {
        let host = || address.to_string();
        match address::classify(address) {
            AddressKind::Public => Ok(()),
            AddressKind::Metadata => Err(UrlDenialReason::Metadata(host()).into()),
            kind if self.private == PrivateAddresses::Allow && kind.can_be_allowed() => Ok(()),
            kind => Err(UrlDenialReason::Address { host: host(), kind }.into()),
        }
    }

    /// Does [`UrlPolicy::check_url`], and checks that nothing in the query is a credential which a third party,
    /// such as a search or extraction service, would then receive.
    pub fn check_shareable(&self, url: &Url) -> Result<(), UrlDenial> {
        self.check_url(url)?;
        for (name, value) in url.query_pairs() {
            let name = name.to_ascii_lowercase();
            if !value.is_empty() && CREDENTIAL_PARAMETERS.contains(&name.as_str()) {
                return Err(UrlDenialReason::CredentialParameter(name).into());
            }
        }
        Ok(())
    }

    fn check_name(&self, name: &str) -> Result<(), UrlDenial> {
        let name = bare(name);
        if name.is_empty() {
            return Err(UrlDenialReason::NoHost.into());
        }
        if METADATA_NAMES.contains(&name.as_str()) {
            return Err(UrlDenialReason::Metadata(name).into());
        }
        let local =
            LOCAL_NAMES.contains(&name.as_str()) || LOCAL_ENDINGS.iter().any(|end| name.ends_with(end));
        if local && self.private == PrivateAddresses::Refuse {
            return Err(UrlDenialReason::LocalName { host: name }.into());
        }
        Ok(())
    }
}

/// Returns a host name without its trailing dots, in lower case.
fn bare(host: &str) -> String {
    host.trim_end_matches('.').to_ascii_lowercase()
}
