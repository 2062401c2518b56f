//! Resolves names to addresses and checks every address before anything connects to it.
//!
//! The connector gets exactly the addresses that were checked and does not resolve again, so a name that changes
//! its answer between the check and the connection gains nothing.

use std::error::Error as StdError;
use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use hermes_guard::{UrlDenial, UrlPolicy};
use hermes_types::{BoxFuture, OUT_OF_DESCRIPTORS, is_out_of_descriptors};

/// Resolves host names. The program has one implementation; tests use their own.
pub trait HostResolver: Send + Sync + fmt::Debug {
    fn resolve<'a>(&'a self, name: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>>;
}

/// The resolver of the operating system.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemResolver;

impl HostResolver for SystemResolver {
    fn resolve<'a>(&'a self, name: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>> {
        Box::pin(async move {
            let found = tokio::net::lookup_host((name, 0)).await?;
            Ok(found.map(|address| address.ip()).collect())
        })
    }
}

/// The error for a name that has no address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{}", self.words())]
pub(crate) struct UnresolvedHost {
    pub(crate) temporary: bool,
    /// The name was not looked up, because the process has no file descriptors left.
    pub(crate) out_of_descriptors: bool,
}

/// The check that a resolved address must pass.
#[derive(Debug, Clone)]
pub(crate) enum AddressCheck {
    Unchecked,
    /// The policy applies, except to the hosts of configured proxies.
    Policy {
        policy: Arc<UrlPolicy>,
        except: Vec<String>,
    },
}

/// Resolves names and checks the addresses; reqwest and the WebSocket client connect through it.
#[derive(Debug, Clone)]
pub(crate) struct CheckedResolver {
    pub(crate) resolver: Arc<dyn HostResolver>,
    pub(crate) check: AddressCheck,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum HostResolveError {
    #[error(transparent)]
    Denied(#[from] UrlDenial),
    #[error(transparent)]
    Unresolved(#[from] UnresolvedHost),
}

impl CheckedResolver {
    /// Returns every address of the name. One forbidden address rejects them all: the owner of the name decides
    /// which of them a later look-up would return first.
    pub(crate) async fn addresses(&self, name: &str) -> Result<Vec<IpAddr>, HostResolveError> {
        let addresses =
            self.resolver.resolve(name).await.map_err(|error| UnresolvedHost::from_lookup(&error))?;
        if addresses.is_empty() {
            return Err(UnresolvedHost { temporary: false, out_of_descriptors: false }.into());
        }
        if let AddressCheck::Policy { policy, except } = &self.check
            && !except.iter().any(|host| host.eq_ignore_ascii_case(name))
        {
            for address in &addresses {
                policy.check_address(*address)?;
            }
        }
        Ok(addresses)
    }
}

impl UnresolvedHost {
    /// Classifies a look-up error; the operating system tells the two cases apart only in the error text.
    fn from_lookup(error: &io::Error) -> Self {
        let text = error.to_string().to_ascii_lowercase();
        let permanent = ["not known", "no address", "nodename", "no such host", "not found"];
        let out_of_descriptors = is_out_of_descriptors(error);
        Self { temporary: !permanent.iter().any(|words| text.contains(words)), out_of_descriptors }
    }

    fn words(self) -> &'static str {
        match self {
            Self { out_of_descriptors: true, .. } => OUT_OF_DESCRIPTORS,
            Self { temporary: true, .. } => "its name cannot be looked up right now",
            Self { temporary: false, .. } => "there is no such host",
        }
    }
}

impl reqwest::dns::Resolve for CheckedResolver {
    fn resolve(&self, name: reqwest::dns::Name) -> reqwest::dns::Resolving {
        let resolver = self.clone();
        Box::pin(async move {
            match resolver.addresses(name.as_str()).await {
                Ok(addresses) => {
                    let addresses = addresses.into_iter().map(|address| SocketAddr::new(address, 0));
                    Ok(Box::new(addresses) as reqwest::dns::Addrs)
                }
                Err(HostResolveError::Denied(denied)) => {
                    Err(Box::new(denied) as Box<dyn StdError + Send + Sync>)
                }
                Err(HostResolveError::Unresolved(unresolved)) => {
                    Err(Box::new(unresolved) as Box<dyn StdError + Send + Sync>)
                }
            }
        })
    }
}
