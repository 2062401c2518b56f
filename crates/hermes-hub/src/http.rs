//! The hub: what it needs, and its requests.

use std::fmt;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use hermes_config::{Env, Home, write};
use hermes_knowledge::BundleSource;
use hermes_net::header::{ACCEPT, AUTHORIZATION, HeaderName};
use hermes_net::{HttpClient, HttpRequest, HttpResponse, retry_after};
use hermes_types::{Cancel, Clock, Deadline, Secret};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::auth::GithubAuth;
use crate::state::HubState;
use crate::{Error, source};

const REQUEST_TIMEOUT: Duration = Duration::from_mins(2);
/// How long an answer about what a registry has is kept.
const CACHE_SECONDS: f64 = 3_600.0;
const MAX_ANSWER: usize = 16 * 1024 * 1024;
const MAX_REDIRECTS: usize = 5;
/// Registries that are busy are asked again this often, and not waited for longer than this.
const BUSY_ATTEMPTS: u32 = 3;
const BUSY_WAIT: Duration = Duration::from_secs(15);

/// Where the registries are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HubAddresses {
    pub github: String,
    pub skills_sh: String,
    pub clawhub: String,
    pub lobehub: String,
    /// The address below which everything is, where one was configured; it is then trusted as such.
    pub base: Option<String>,
}

impl HubAddresses {
    /// Returns the public registries, or those below `HERMES_SKILLS_HUB_URL`.
    pub fn from_env(env: &Env) -> Self {
        match env.get("HERMES_SKILLS_HUB_URL").map(|base| base.trim_end_matches('/')) {
            Some(base) => Self {
                github: format!("{base}/github"),
                skills_sh: format!("{base}/skills-sh"),
                clawhub: format!("{base}/clawhub"),
                lobehub: format!("{base}/lobehub"),
                base: Some(base.to_owned()),
            },
            None => Self {
                github: "https://api.github.com".to_owned(),
                skills_sh: "https://skills.sh".to_owned(),
                clawhub: "https://clawhub.ai/api/v1".to_owned(),
                lobehub: "https://chat-agents.lobehub.com".to_owned(),
                base: None,
            },
        }
    }
}

/// Finds, fetches and installs skills.
#[derive(Clone)]
pub struct SkillHub {
    pub(crate) client: HubClient,
    /// The optional skills of the program.
    pub(crate) optional: BundleSource,
}

/// Asks registries, and keeps what they answer.
#[derive(Clone)]
pub(crate) struct HubClient {
    pub(crate) home: Home,
    pub(crate) state: HubState,
    http: HttpClient,
    pub(crate) clock: Arc<dyn Clock>,
    cancel: Cancel,
    pub(crate) addresses: HubAddresses,
    github: Arc<GithubAuth>,
}

impl SkillHub {
    pub fn new(
        home: Home,
        env: &Env,
        optional: BundleSource,
        http: HttpClient,
        clock: Arc<dyn Clock>,
        github: GithubAuth,
        cancel: Cancel,
    ) -> Self {
        let (state, addresses) = (HubState::new(home.clone()), HubAddresses::from_env(env));
        let client = HubClient { home, state, http, clock, cancel, addresses, github: Arc::new(github) };
        Self { client, optional }
    }

    pub fn state(&self) -> &HubState {
        &self.client.state
    }
}

impl HubClient {
    pub(crate) async fn send(&self, request: HttpRequest) -> Result<HttpResponse, Error> {
        let deadline = Deadline::after(&*self.clock, REQUEST_TIMEOUT);
        Ok(self.http.send(request.follow_redirects(MAX_REDIRECTS), deadline, &self.cancel).await?)
    }

    /// Prepares a request to an address that a registry or a user gave.
    fn open_request(&self, url: &str) -> Result<HttpRequest, Error> {
        let request = HttpRequest::get(url)?;
        let is_configured = self.addresses.base.as_deref().is_some_and(|base| {
            url.strip_prefix(base).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        });
        Ok(if is_configured { request } else { request.untrusted() })
    }

    /// Fetches a body; `None` if there is no such page.
    pub(crate) async fn fetch(&self, url: &str, limit: usize) -> Result<Option<Vec<u8>>, Error> {
        let mut attempt = 1;
        loop {
            let response = self.send(self.open_request(url)?).await?;
            let status = response.status().as_u16();
            match status {
                200..=299 => return Ok(Some(response.bytes(limit).await?.to_vec())),
                404 | 410 => return Ok(None),
                429 if attempt < BUSY_ATTEMPTS => {
                    let wait =
                        retry_after(response.headers(), self.clock.now()).unwrap_or(Duration::from_secs(1));
                    self.clock.sleep(wait.min(BUSY_WAIT)).await;
                    attempt += 1;
                }
                _ => {
                    let what = response_host(url);
                    return Err(Error::Status { what, status });
                }
            }
        }
    }

    /// Fetches JSON, and keeps it for an hour.
    pub(crate) async fn fetch_json(&self, url: &str) -> Result<Option<Value>, Error> {
        if let Some(kept) = self.kept(url) {
            return Ok(Some(kept));
        }
        let Some(bytes) = self.fetch(url, MAX_ANSWER).await? else { return Ok(None) };
        let value: Value = serde_json::from_slice(&bytes)
            .map_err(|_| Error::Malformed(format!("{} did not answer with JSON", response_host(url))))?;
        self.keep(url, &value);
        Ok(Some(value))
    }

    /// Asks GitHub. `None` if there is no such thing.
    pub(crate) async fn github_json(&self, path: &str) -> Result<Option<Value>, Error> {
        let url = format!("{}{path}", self.addresses.github);
        if let Some(kept) = self.kept(&url) {
            return Ok(Some(kept));
        }
        let Some(bytes) = self.github_bytes(path, "application/vnd.github.v3+json", MAX_ANSWER).await? else {
            return Ok(None);
        };
        let value: Value = serde_json::from_slice(&bytes)
            .map_err(|_| Error::Malformed("GitHub did not answer with JSON".to_owned()))?;
        self.keep(&url, &value);
        Ok(Some(value))
    }

    /// Reads a file of a repository.
    pub(crate) async fn github_file(&self, repository: &str, path: &str) -> Result<Option<Vec<u8>>, Error> {
        let path = format!("/repos/{repository}/contents/{}", encoded(path));
        self.github_bytes(&path, "application/vnd.github.v3.raw", source::MAX_FILE_BYTES).await
    }

    async fn github_bytes(&self, path: &str, accept: &str, limit: usize) -> Result<Option<Vec<u8>>, Error> {
        let request = self
            .github_request(HttpRequest::get(&format!("{}{path}", self.addresses.github))?, accept)
            .await?;
        let response = self.send(request).await?;
        match check_github(&response)? {
            404 => Ok(None),
            200..=299 => Ok(Some(response.bytes(limit).await?.to_vec())),
            status => Err(Error::Status { what: "GitHub".to_owned(), status }),
        }
    }

    /// Adds the headers of a request to GitHub.
    pub(crate) async fn github_request(
        &self,
        request: HttpRequest,
        accept: &str,
    ) -> Result<HttpRequest, Error> {
        let request = request.header(ACCEPT, accept)?;
        match self.github.token(self).await {
            Some(token) => {
                let value = Secret::new(format!("token {}", token.expose()));
                Ok(request.secret_header(AUTHORIZATION, &value)?)
            }
            None => Ok(request.header(HeaderName::from_static("x-github-api-version"), "2022-11-28")?),
        }
    }

    pub(crate) fn kept(&self, url: &str) -> Option<Value> {
        let path = self.cache_file(url);
        let modified = fs::metadata(&path).ok()?.modified().ok()?;
        let at = modified.duration_since(std::time::UNIX_EPOCH).ok()?.as_secs_f64();
        let age = self.clock.now().seconds() - at;
        if !(-60.0..CACHE_SECONDS).contains(&age) {
            return None;
        }
        serde_json::from_slice(&fs::read(path).ok()?).ok()
    }

    pub(crate) fn keep(&self, url: &str, value: &Value) {
        let kept = self.state.ensure().is_ok() && self.home.folder("skills/.hub/index-cache").is_ok();
        if kept && let Err(error) = write::replace(&self.cache_file(url), value.to_string().as_bytes()) {
            tracing::debug!(%error, "an answer of a registry was not kept");
        }
    }

    fn cache_file(&self, url: &str) -> PathBuf {
        let digest = Sha256::digest(url.as_bytes());
        let name = data_encoding::HEXLOWER.encode(digest.get(..12).unwrap_or_default());
        self.state.folder().join("index-cache").join(format!("{name}.json"))
    }
}

/// Returns the status, or the error for a used-up limit.
pub(crate) fn check_github(response: &HttpResponse) -> Result<u16, Error> {
    let status = response.status().as_u16();
    let is_used_up =
        response.headers().get("x-ratelimit-remaining").is_some_and(|left| left.as_bytes() == b"0");
    if status == 429 || (status == 403 && is_used_up) { Err(Error::GithubLimit) } else { Ok(status) }
}

/// Escapes what a path may not hold as it is.
pub(crate) fn encoded(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'/' | b'-' | b'_' | b'.' | b'~');
    text.bytes()
        .map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}

/// Escapes a value of a query.
pub(crate) fn encoded_value(text: &str) -> String {
    encoded(text).replace('/', "%2F")
}

fn response_host(url: &str) -> String {
    hermes_net::Url::parse(url).ok().and_then(|url| url.host_str().map(str::to_owned)).unwrap_or_default()
}

impl fmt::Debug for SkillHub {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SkillHub").field("addresses", &self.client.addresses).finish_non_exhaustive()
    }
}
