//! A pool of browsers whose network has a public site, which is this machine.

use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use hermes_browser::{
    BrowserNetwork, BrowserOptions, BrowserPlace, BrowserPool, DialogPolicy, DialogRules, HostNameResolution,
    LocalBrowserOptions, PageSnapshot, SessionInUse, SnapshotDetail, WindowMode,
};
use hermes_exec::Variables;
use hermes_net::{Config as NetConfig, HttpClient, UrlPolicy};
use hermes_task::SystemClock;
use hermes_testkit::{BrowserSite, peer_is_missing};
use hermes_types::{BoxFuture, Cancel, Clock};
use tempfile::TempDir;
use tokio::net::TcpStream;

/// Names of the public web; every address of it leads to this machine.
#[derive(Debug)]
struct PublicNetwork;

impl BrowserNetwork for PublicNetwork {
    fn look_up<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Vec<IpAddr>> {
        let addresses = match name {
            "site.example" => vec!["93.184.216.34".parse().unwrap()],
            "other.example" => vec!["93.184.216.35".parse().unwrap()],
            "inside.example" => vec!["93.184.216.36".parse().unwrap(), "10.0.0.7".parse().unwrap()],
            _ => Vec::new(),
        };
        Box::pin(std::future::ready(addresses))
    }

    fn connect(&self, addresses: Vec<IpAddr>, port: u16) -> BoxFuture<'_, io::Result<TcpStream>> {
        assert!(
            addresses.iter().all(|address| address.to_string().starts_with("93.184.216.")),
            "{addresses:?}"
        );
        Box::pin(TcpStream::connect((Ipv4Addr::LOCALHOST, port)))
    }
}

pub(crate) struct BrowserFixture {
    pub(crate) site: BrowserSite,
    pub(crate) folder: TempDir,
    pub(crate) pool: BrowserPool,
    pub(crate) options: BrowserOptions,
    pub(crate) clock: Arc<dyn Clock>,
}

impl BrowserFixture {
    /// Returns the fixture, or nothing where no browser is installed.
    pub(crate) fn new() -> Option<Self> {
        let fixture = Self::without_browser();
        if fixture.options.local.find(&fixture.clock).is_none() {
            peer_is_missing("chromium");
            return None;
        }
        Some(fixture)
    }

    #[expect(clippy::disallowed_methods, reason = "the browser is on the path of whoever runs the tests")]
    pub(crate) fn without_browser() -> Self {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        let folder = tempfile::tempdir().unwrap();
        let pairs: Vec<(String, String)> = std::env::vars().collect();
        let pairs = pairs.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        let net = NetConfig::new(clock.clone());
        let policy = Arc::new(UrlPolicy::default());
        let local = LocalBrowserOptions {
            program: None,
            window: WindowMode::Headless,
            variables: Variables::exactly(pairs),
            temp: folder.path().to_owned(),
            proxy: None,
        };
        let options = BrowserOptions {
            place: BrowserPlace::Local,
            local,
            http: Arc::new(move || HttpClient::new(net.clone()).map_err(|error| error.to_string())),
            policy: Arc::new(move || policy.clone()),
            network: Some(Arc::new(PublicNetwork)),
            resolution: HostNameResolution::Here,
            dialogs: DialogRules { policy: DialogPolicy::AskModel, timeout: Duration::from_mins(5) },
            recordings: None,
            downloads: folder.path().join("downloads"),
            command_timeout: Duration::from_secs(30),
            idle_timeout: Duration::from_mins(5),
        };
        let site = BrowserSite::start("site.example", "other.example").unwrap();
        Self { site, folder, pool: BrowserPool::new(clock.clone()), options, clock }
    }

    pub(crate) async fn session(&self, task: &str) -> SessionInUse {
        self.pool.session(&task.into(), &self.options, &Cancel::new()).await.unwrap()
    }

    /// Returns why no session is opened.
    pub(crate) async fn refusal(&self) -> String {
        self.pool.session(&"t".into(), &self.options, &Cancel::new()).await.unwrap_err().to_string()
    }

    /// Returns a session with a page of the site.
    pub(crate) async fn at(&self, path: &str) -> SessionInUse {
        let mut session = self.session("t").await;
        session.session().unwrap().navigate(&self.site.url(path)).await.unwrap();
        session
    }
}

pub(crate) async fn text(session: &mut SessionInUse) -> PageSnapshot {
    session.session().unwrap().snapshot(SnapshotDetail::Compact).await.unwrap()
}

/// Returns the reference of the first element with this beginning of a line, such as `button "Save"`.
pub(crate) fn reference(snapshot: &PageSnapshot, beginning: &str) -> String {
    let line =
        snapshot.text.lines().find(|line| line.trim_start().trim_start_matches("- ").starts_with(beginning));
    let line = line.unwrap_or_else(|| panic!("no {beginning} in\n{}", snapshot.text));
    let (_, rest) = line.split_once("ref=").unwrap_or_else(|| panic!("no reference in {line}"));
    format!("@{}", rest.split([',', ']']).next().unwrap())
}

pub(crate) fn files(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}
