//! A home, a clock and a server on the loopback interface that plays every issuer. No test waits on real time.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use hermes_config::{Env, Home};
use hermes_model::client::{CredentialProvider, PresentedCredential};
use hermes_model::credential::{
    CredentialContext, ServiceUrls, SignInError, SignInProgress, SignInProvider, login,
};
use hermes_net::{Config, HttpClient, ProxyMode};
use hermes_testkit::{ModelScript, ModelServer, TempHome, TestClock};
use hermes_types::Cancel;
use serde_json::Value;

/// A home, a clock and a server that plays every issuer.
pub(crate) struct IssuerFixture {
    pub(crate) home: TempHome,
    pub(crate) server: ModelServer,
    pub(crate) clock: TestClock,
    pub(crate) context: CredentialContext,
}

impl IssuerFixture {
    /// Creates the fixture; `replies` is the list of a model script.
    pub(crate) async fn new(replies: &str, auth: &Value, env: &[(&str, &str)]) -> Self {
        let script =
            ModelScript::from_yaml("issuer", &format!("order: first_match\nreplies:\n{replies}")).unwrap();
        let server = ModelServer::start(script).await.unwrap();
        let home = TempHome::builder().file("auth.json", auth.to_string()).build().unwrap();
        // Polls pass at once; the timeouts of requests do not.
        let clock = TestClock::auto_advance_up_to(Duration::from_secs(10));
        let shared = Arc::new(clock.clone());
        let net =
            HttpClient::new(Config { proxies: ProxyMode::Direct, ..Config::new(shared.clone()) }).unwrap();
        let user = home.path().to_string_lossy().into_owned();
        let env = Env::from_pairs([("HOME", user.as_str())].into_iter().chain(env.iter().copied()));
        let mut means = CredentialContext::new(net, shared, &Home::new(home.path()), env);
        means.urls = ServiceUrls {
            nous_portal: server.url(),
            codex_issuer: server.url(),
            anthropic_token: vec![format!("{}/first", server.url()), format!("{}/second", server.url())],
            github: server.url(),
            models_dev: format!("{}/dev.json", server.url()),
            openrouter: format!("{}/router", server.url()),
            aws_metadata: format!("{}/metadata", server.url()),
            aws_container: format!("{}/container", server.url()),
            aws_sts: format!("{}/sts-{{region}}", server.url()),
            aws_sso: format!("{}/sso-{{region}}", server.url()),
            zai: ["one", "two", "three"]
                .map(|site| (format!("{}/{site}", server.url()), format!("model-{site}")))
                .to_vec(),
        };
        Self { home, server, clock, context: means }
    }

    /// Creates a fixture with a clock that stands still until the test moves it, so that no timeout passes by
    /// itself.
    pub(crate) async fn still(replies: &str, env: &[(&str, &str)]) -> Self {
        let mut stage = Self::new(replies, &Value::Object(serde_json::Map::new()), env).await;
        stage.clock = TestClock::new();
        let shared = Arc::new(stage.clock.clone());
        stage.context.net =
            HttpClient::new(Config { proxies: ProxyMode::Direct, ..Config::new(shared.clone()) }).unwrap();
        stage.context.clock = shared;
        stage
    }

    pub(crate) fn paths(&self) -> Vec<String> {
        self.server.requests().iter().map(|r| format!("{} {}", r.method(), r.target())).collect()
    }

    pub(crate) fn home(&self) -> Home {
        Home::new(self.home.path())
    }

    pub(crate) fn auth(&self) -> Value {
        serde_json::from_str(&self.home.read("auth.json")).unwrap()
    }

    pub(crate) fn nous(&self) -> Value {
        self.auth()["providers"]["nous"].clone()
    }

    pub(crate) fn bodies(&self) -> Vec<String> {
        self.server.requests().iter().map(|r| format!("{} {}", r.path(), r.body_text())).collect()
    }

    pub(crate) async fn login(
        &self,
        provider: &str,
    ) -> (Result<SignInProvider, SignInError>, Vec<SignInProgress>) {
        let seen = Mutex::new(Vec::new());
        let listener = |step: SignInProgress| seen.lock().unwrap().push(step);
        let result = login(&self.context, provider, &listener, &Cancel::new()).await;
        (result, seen.into_inner().unwrap())
    }
}

pub(crate) async fn current(credentials: &dyn CredentialProvider) -> Result<String, String> {
    match credentials.current(&Cancel::new()).await {
        Ok(PresentedCredential::Bearer(key)) => Ok(key.expose().to_owned()),
        Ok(PresentedCredential::ApiKeyHeader(key)) => Ok(format!("x {}", key.expose())),
        Ok(other) => Ok(format!("{other:?}")),
        Err(error) => Err(error.to_string()),
    }
}

pub(crate) async fn renew(credentials: &dyn CredentialProvider) -> Result<(), String> {
    credentials.renew(&Cancel::new()).await.map_err(|error| error.to_string())
}
