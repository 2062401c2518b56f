//! Fallback IP addresses of Telegram, for networks in which the usual ones cannot be reached.
//!
//! Only the IP address changes: host name, certificate and requests stay the same.

use std::collections::BTreeSet;
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;

use hermes_net::header::ACCEPT;
use hermes_net::{HostResolver, HttpClient, HttpRequest, SystemResolver, Url};
use hermes_types::{BoxFuture, Cancel, Clock, Deadline};
use serde::Deserialize;

use super::settings::TelegramSettings;

/// The public resolvers for DNS over HTTPS.
const RESOLVERS: [&str; 2] = ["https://dns.google/resolve", "https://cloudflare-dns.com/dns-query"];
const TIMEOUT: Duration = Duration::from_secs(4);
/// An IP address at which Telegram has been reachable for years.
const LAST_RESORT: Ipv4Addr = Ipv4Addr::new(149, 154, 167, 220);

#[derive(Debug)]
pub(super) struct FallbackAddresses {
    host: String,
    listed: Vec<Ipv4Addr>,
    discovery: Discovery,
    client: HttpClient,
    clock: Arc<dyn Clock>,
}

/// Says whether other addresses are looked up when none are configured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Discovery {
    Ask,
    /// No lookup: the host is not Telegram's, or a proxy connects.
    Never,
}

impl FallbackAddresses {
    pub(super) fn new(settings: &TelegramSettings, client: HttpClient, clock: Arc<dyn Clock>) -> Self {
        let host = Url::parse(&settings.base).ok().and_then(|url| url.host_str().map(str::to_owned));
        let discovery = if settings.is_official_server && settings.proxies.is_none() {
            Discovery::Ask
        } else {
            Discovery::Never
        };
        let host = host.unwrap_or_default();
        Self { host, listed: settings.fallbacks.clone(), discovery, client, clock }
    }

    /// Returns clients for the fallback addresses, in the order to try them.
    pub(super) async fn clients(&self) -> Vec<HttpClient> {
        let addresses = match (&*self.listed, self.discovery) {
            ([], Discovery::Never) => Vec::new(),
            ([], Discovery::Ask) => self.discover().await,
            (listed, _) => listed.to_vec(),
        };
        let pinned = |address| {
            self.client
                .with_resolver(Arc::new(PinnedResolver {
                    host: self.host.clone(),
                    address: IpAddr::V4(address),
                }))
                .ok()
        };
        addresses.into_iter().filter_map(pinned).collect()
    }

    /// Returns the addresses that public resolvers know and this machine's resolver does not.
    async fn discover(&self) -> Vec<Ipv4Addr> {
        let known = self.client.look_up(&self.host).await;
        let mut found = BTreeSet::new();
        for said in futures_util::future::join_all(RESOLVERS.map(|resolver| self.ask(resolver))).await {
            found.extend(said.into_iter().filter(|address| !known.contains(&IpAddr::V4(*address))));
        }
        let mut addresses: Vec<Ipv4Addr> =
            found.into_iter().filter(|address| *address != LAST_RESORT).collect();
        addresses.push(LAST_RESORT);
        addresses
    }

    async fn ask(&self, resolver: &str) -> Vec<Ipv4Addr> {
        let asked = async {
            let request = HttpRequest::get(&format!("{resolver}?name={}&type=A", self.host)).ok()?;
            let request = request.header(ACCEPT, "application/dns-json").ok()?.response_timeout(TIMEOUT);
            let deadline = Deadline::after(&*self.clock, TIMEOUT);
            let response = self.client.send(request, deadline, &Cancel::new()).await.ok()?;
            response.json::<DnsAnswer>(64 * 1024).await.ok()
        };
        asked.await.map(DnsAnswer::addresses).unwrap_or_default()
    }
}

/// A resolver's response.
#[derive(Debug, Deserialize)]
struct DnsAnswer {
    #[serde(rename = "Answer", default)]
    answer: Vec<DnsRecord>,
}

#[derive(Debug, Deserialize)]
struct DnsRecord {
    #[serde(rename = "type", default)]
    kind: u16,
    #[serde(default)]
    data: String,
}

impl DnsAnswer {
    fn addresses(self) -> Vec<Ipv4Addr> {
        const ADDRESS: u16 = 1;
        self.answer
            .iter()
            .filter(|record| record.kind == ADDRESS)
            .filter_map(|record| record.data.parse().ok())
            .collect()
    }
}

/// Resolves one name to a fixed address, and others as usual.
#[derive(Debug)]
struct PinnedResolver {
    host: String,
    address: IpAddr,
}

impl HostResolver for PinnedResolver {
    fn resolve<'a>(&'a self, name: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>> {
        if name.eq_ignore_ascii_case(&self.host) {
            return Box::pin(std::future::ready(Ok(vec![self.address])));
        }
        SystemResolver.resolve(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_count() {
        let said = r#"{"Status":0,"Answer":[{"name":"x","type":5,"data":"y."},{"type":1,"data":"149.154.166.110"},{"type":1,"data":"?"}]}"#;
        let looked: DnsAnswer = serde_json::from_str(said).unwrap();
        assert_eq!(looked.addresses(), [Ipv4Addr::new(149, 154, 166, 110)]);
        assert!(serde_json::from_str::<DnsAnswer>(r#"{"Status":3}"#).unwrap().addresses().is_empty());
    }
}
