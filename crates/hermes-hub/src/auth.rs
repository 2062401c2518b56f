//! How requests to GitHub are signed: a token, the GitHub client's token, a GitHub App, or not at all.
//!
//! Invariant: each way is tried once in a process; a failure leads to the next one and is logged without a secret.

use std::fmt;
use std::fs;
use std::sync::{Arc, Mutex, PoisonError};

use data_encoding::{BASE64, BASE64URL_NOPAD};
use hermes_config::Env;
use hermes_net::HttpRequest;
use hermes_net::header::ACCEPT;
use hermes_types::{BoxFuture, Secret, Timestamp};
use ring::rand::SystemRandom;
use ring::signature::{RSA_PKCS1_SHA256, RsaKeyPair};
use serde_json::{Value, json};

use crate::http::{HubClient, SkillHub};

/// How long a token of a GitHub App is used; it is valid for an hour.
const APP_TOKEN_SECONDS: f64 = 58.0 * 60.0;
const MAX_ANSWER: usize = 64 * 1024;

/// Asks the GitHub client for its token.
type ClientToken = Arc<dyn Fn() -> BoxFuture<'static, Option<Secret>> + Send + Sync>;

/// The ways to a token, in order.
pub struct GithubAuth {
    token: Option<Secret>,
    client: Option<ClientToken>,
    app: Option<GithubApp>,
    found: Mutex<FoundToken>,
}

#[derive(Default)]
struct FoundToken {
    /// Whether the client was asked, and its token.
    client_asked: bool,
    client: Option<Secret>,
    app: Option<(Timestamp, Secret)>,
    app_failed: bool,
}

#[derive(Clone)]
struct GithubApp {
    id: String,
    key_file: String,
    installation: String,
}

/// What a GitHub token came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GithubCredential {
    Variable,
    Client,
    App,
    None,
}

impl GithubAuth {
    /// Reads the variables. `client` asks the GitHub client.
    pub fn from_env(env: &Env, client: Option<ClientToken>) -> Self {
        let token = env.get("GITHUB_TOKEN").or_else(|| env.get("GH_TOKEN")).map(Secret::new);
        let app = || {
            Some(GithubApp {
                id: env.get("GITHUB_APP_ID")?.to_owned(),
                key_file: env.get("GITHUB_APP_PRIVATE_KEY_PATH")?.to_owned(),
                installation: env.get("GITHUB_APP_INSTALLATION_ID")?.to_owned(),
            })
        };
        Self { token, client, app: app(), found: Mutex::default() }
    }

    /// Returns the token for a request, if there is any.
    pub(crate) async fn token(&self, hub: &HubClient) -> Option<Secret> {
        self.find(hub).await.1
    }

    /// Tells which way leads to a token.
    pub async fn credential(&self, hub: &SkillHub) -> GithubCredential {
        self.find(&hub.client).await.0
    }

    async fn find(&self, hub: &HubClient) -> (GithubCredential, Option<Secret>) {
        if let Some(token) = &self.token {
            return (GithubCredential::Variable, Some(token.clone()));
        }
        if let Some(token) = self.client_token().await {
            return (GithubCredential::Client, Some(token));
        }
        match self.app_token(hub).await {
            Some(token) => (GithubCredential::App, Some(token)),
            None => (GithubCredential::None, None),
        }
    }

    async fn client_token(&self) -> Option<Secret> {
        let client = self.client.as_ref()?;
        {
            let found = self.found();
            if found.client_asked {
                return found.client.clone();
            }
        }
        let token = client().await.filter(|token| !token.expose().trim().is_empty());
        let mut found = self.found();
        (found.client_asked, found.client) = (true, token.clone());
        token
    }

    async fn app_token(&self, hub: &HubClient) -> Option<Secret> {
        let app = self.app.as_ref()?;
        let now = hub.clock.now();
        {
            let found = self.found();
            if found.app_failed {
                return None;
            }
            if let Some((at, token)) = &found.app
                && now.since(*at).as_secs_f64() < APP_TOKEN_SECONDS
            {
                return Some(token.clone());
            }
        }
        match app.request_token(hub, now).await {
            Ok(token) => {
                self.found().app = Some((now, token.clone()));
                Some(token)
            }
            Err(reason) => {
                tracing::warn!(reason, "the GitHub App gives no token; requests go without one");
                self.found().app_failed = true;
                None
            }
        }
    }

    fn found(&self) -> std::sync::MutexGuard<'_, FoundToken> {
        self.found.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl GithubApp {
    async fn request_token(&self, hub: &HubClient, now: Timestamp) -> Result<Secret, String> {
        let jwt = self.signed_claim(now)?;
        let url = format!(
            "{}/app/installations/{}/access_tokens",
            hub.addresses.github,
            crate::http::encoded(&self.installation)
        );
        let request = HttpRequest::post(&url)
            .and_then(|request| request.header(ACCEPT, "application/vnd.github.v3+json"))
            .and_then(|request| request.bearer(&Secret::new(jwt)))
            .map_err(|error| error.to_string())?;
        let response = hub.send(request).await.map_err(|error| error.to_string())?;
        if !response.status().is_success() {
            return Err(format!("status {}", response.status().as_u16()));
        }
        let answer: Value = response.json(MAX_ANSWER).await.map_err(|error| error.to_string())?;
        answer.get("token").and_then(Value::as_str).map(Secret::new).ok_or_else(|| "no token".to_owned())
    }

    /// Returns a token that says who asks, signed with the key of the app.
    #[expect(clippy::cast_possible_truncation, reason = "seconds of a date")]
    fn signed_claim(&self, now: Timestamp) -> Result<String, String> {
        let pem = fs::read_to_string(&self.key_file).map_err(|error| error.to_string())?;
        let key = key_pair(&pem).ok_or("the key file holds no RSA key")?;
        let seconds = now.seconds() as i64;
        let header = json!({"alg": "RS256", "typ": "JWT"}).to_string();
        // A minute back, because clocks differ.
        let claims = json!({"iat": seconds - 60, "exp": seconds + 540, "iss": self.id}).to_string();
        let text = format!(
            "{}.{}",
            BASE64URL_NOPAD.encode(header.as_bytes()),
            BASE64URL_NOPAD.encode(claims.as_bytes())
        );
        let mut signature = vec![0; key.public().modulus_len()];
        key.sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), text.as_bytes(), &mut signature)
            .map_err(|_| "the key cannot sign")?;
        Ok(format!("{text}.{}", BASE64URL_NOPAD.encode(&signature)))
    }
}

/// Reads a key in either of its usual forms.
fn key_pair(pem: &str) -> Option<RsaKeyPair> {
    let body: String = pem.lines().filter(|line| !line.starts_with("-----")).map(str::trim).collect();
    let der = BASE64.decode(body.as_bytes()).ok()?;
    RsaKeyPair::from_pkcs8(&der).or_else(|_| RsaKeyPair::from_der(&der)).ok()
}

impl fmt::Debug for GithubAuth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("GithubAuth")
    }
}
