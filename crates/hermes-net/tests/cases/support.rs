//! Shared helpers: a client on a test clock, names that resolve as a test says, a model server from YAML.

use std::collections::HashMap;
use std::io;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use hermes_guard::{PrivateAddresses, UrlPolicy};
use hermes_net::{Config, Error, HostResolver, HttpClient, HttpRequest, HttpResponse, ProxyMode};
use hermes_testkit::{ModelScript, ModelServer, TestClock};
use hermes_types::{BoxFuture, Cancel, Clock, Deadline};

pub(crate) const HOUR: Duration = Duration::from_hours(1);
pub(crate) const MINUTE: Duration = Duration::from_mins(1);

/// A client, the clock it waits on, and the resolver that records look-ups.
pub(crate) struct NetFixture {
    pub(crate) client: HttpClient,
    pub(crate) clock: TestClock,
    pub(crate) names: Arc<FakeResolver>,
}

impl NetFixture {
    pub(crate) fn new() -> Self {
        Self::with(|_| {})
    }

    /// Creates a client with private addresses allowed, so that untrusted requests can reach the test's own
    /// servers.
    pub(crate) fn open() -> Self {
        Self::with(|config| config.policy = open_policy())
    }

    pub(crate) fn with(change: impl FnOnce(&mut Config)) -> Self {
        let clock = TestClock::new();
        let names = Arc::new(FakeResolver::default());
        let mut config = Config::new(Arc::new(clock.clone()));
        config.proxies = ProxyMode::Direct;
        config.resolver = names.clone();
        change(&mut config);
        Self { client: HttpClient::new(config).unwrap(), clock, names }
    }

    pub(crate) fn deadline(&self) -> Deadline {
        self.deadline_in(HOUR)
    }

    pub(crate) fn deadline_in(&self, span: Duration) -> Deadline {
        Deadline::after(&self.clock as &dyn Clock, span)
    }

    pub(crate) async fn send(&self, request: HttpRequest) -> Result<HttpResponse, Error> {
        self.client.send(request, self.deadline(), &Cancel::new()).await
    }

    pub(crate) async fn get(&self, url: &str) -> Result<HttpResponse, Error> {
        self.send(HttpRequest::get(url)?).await
    }

    /// Runs the work while the clock advances by `span` each time the work waits.
    pub(crate) async fn after<T>(&self, span: Duration, work: impl Future<Output = T>) -> T {
        let pass = async {
            loop {
                self.clock.wait_for_sleepers(1).await;
                self.clock.advance(span);
                tokio::task::yield_now().await;
            }
        };
        tokio::select! {
            biased;
            done = work => done,
            () = pass => unreachable!("the clock goes on for ever"),
        }
    }
}

pub(crate) fn open_policy() -> UrlPolicy {
    UrlPolicy { private: PrivateAddresses::Allow, ..UrlPolicy::default() }
}

/// A resolver that knows the names a test has set and records the look-ups.
#[derive(Debug, Default)]
pub(crate) struct FakeResolver {
    known: Mutex<HashMap<String, Vec<IpAddr>>>,
    asked: Mutex<Vec<String>>,
}

impl FakeResolver {
    pub(crate) fn set(&self, name: &str, addresses: &[&str]) {
        let addresses = addresses.iter().map(|address| address.parse().unwrap()).collect();
        self.known.lock().unwrap().insert(name.to_owned(), addresses);
    }

    pub(crate) fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }
}

impl HostResolver for FakeResolver {
    fn resolve<'a>(&'a self, name: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>> {
        self.asked.lock().unwrap().push(name.to_owned());
        let found = self.known.lock().unwrap().get(name).cloned();
        Box::pin(async move { found.ok_or_else(|| io::Error::other("Name or service not known")) })
    }
}

pub(crate) async fn model(yaml: &str) -> ModelServer {
    ModelServer::start(ModelScript::from_yaml("test", yaml).unwrap()).await.unwrap()
}

pub(crate) fn chat(server: &ModelServer) -> HttpRequest {
    let body =
        serde_json::json!({"model": "m", "stream": true, "messages": [{"role": "user", "content": "hi"}]});
    HttpRequest::post(&format!("{}/chat/completions", server.base_url())).unwrap().json(&body).unwrap()
}
