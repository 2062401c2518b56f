//! The sources of keys, and their renewal.
//!
//! Signs in and out, refreshes and mints; knows nothing of models. Invariants: a rotated refresh token is on disk
//! before it is needed for anything else; `auth.json` is changed only under its lock, and unknown content in it
//! survives; no key appears in an error, a log line or a `Debug` form. Requests never impersonate another program.

pub mod anthropic;
pub mod aws;
pub mod codex;
mod command;
pub mod copilot;
mod detached;
mod device;
mod error;
mod http;
mod locked_auth_file;
mod login;
pub mod nous;
pub mod pool;
mod time;
mod token;

use std::path::PathBuf;
use std::sync::Arc;

use hermes_config::auth::AuthFile;
use hermes_config::{Env, Home};
use hermes_net::HttpClient;
use hermes_types::{Clock, Secret};

use crate::client::{CredentialProvider, FixedCredential, PresentedCredential};
use crate::wire::ApiMode;

pub use command::{CommandFailure, CommandRunner, ProgramInvocation};
pub use device::{SignInListener, SignInProgress};
pub use error::SignInError;
use locked_auth_file::LockedAuthFile;
pub(crate) use locked_auth_file::run_on_thread;
pub use login::{SignInProvider, login, login_to_nous, logout};
pub use pool::has_pool;

/// The services that renewing a credential needs.
#[derive(Debug, Clone)]
pub struct CredentialContext {
    pub net: HttpClient,
    pub clock: Arc<dyn Clock>,
    pub auth: AuthFile,
    pub env: Env,
    pub urls: ServiceUrls,
    /// Starts other programs; without it, credentials that only they know are unavailable.
    pub commands: Option<Arc<dyn CommandRunner>>,
}

impl CredentialContext {
    pub fn new(net: HttpClient, clock: Arc<dyn Clock>, home: &Home, env: Env) -> Self {
        Self { net, clock, auth: AuthFile::new(home), env, urls: ServiceUrls::default(), commands: None }
    }

    #[must_use]
    pub fn with_commands(mut self, commands: Arc<dyn CommandRunner>) -> Self {
        self.commands = Some(commands);
        self
    }
}

/// The servers that issue tokens and publish facts. Only tests set others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServiceUrls {
    /// The portal used when neither the sign-in nor the environment names one.
    pub nous_portal: String,
    pub codex_issuer: String,
    /// The token servers, tried in this order.
    pub anthropic_token: Vec<String>,
    pub github: String,
    /// The registry of models.dev.
    pub models_dev: String,
    /// OpenRouter's public catalogue, for facts that other providers do not publish about their models.
    pub openrouter: String,
    /// The metadata service of machines on AWS.
    pub aws_metadata: String,
    /// The credential service of containers on AWS.
    pub aws_container: String,
    /// The token service; `{region}` is replaced in this URL and the next.
    pub aws_sts: String,
    pub aws_sso: String,
    /// The endpoints of Z.AI that a key may belong to, each with a model to try, in the order to try them.
    pub zai: Vec<(String, String)>,
}

impl Default for ServiceUrls {
    fn default() -> Self {
        Self {
            nous_portal: "https://portal.nousresearch.com".to_owned(),
            codex_issuer: "https://auth.openai.com".to_owned(),
            anthropic_token: vec![
                "https://platform.claude.com/v1/oauth/token".to_owned(),
                "https://console.anthropic.com/v1/oauth/token".to_owned(),
            ],
            github: "https://github.com".to_owned(),
            models_dev: "https://models.dev/api.json".to_owned(),
            openrouter: "https://openrouter.ai/api/v1".to_owned(),
            aws_metadata: "http://169.254.169.254".to_owned(),
            aws_container: "http://169.254.170.2".to_owned(),
            aws_sts: "https://sts.{region}.amazonaws.com".to_owned(),
            aws_sso: "https://portal.sso.{region}.amazonaws.com".to_owned(),
            zai: [
                ("https://api.z.ai/api/paas/v4", "glm-5"),
                ("https://open.bigmodel.cn/api/paas/v4", "glm-5"),
                ("https://api.z.ai/api/coding/paas/v4", "glm-4.7"),
                ("https://open.bigmodel.cn/api/coding/paas/v4", "glm-4.7"),
            ]
            .map(|(url, model)| (url.to_owned(), model.to_owned()))
            .to_vec(),
        }
    }
}

/// The place where the key of a target is stored.
#[derive(Debug, Clone)]
pub enum KeySource {
    Fixed(PresentedCredential),
    Pool(pool::PoolSpec),
    Nous,
    Codex,
    /// The credentials file of Anthropic's own client.
    AnthropicFile(PathBuf),
    Aws(aws::AwsCredentialSource),
    /// GitHub's own program supplies it.
    Gh,
}

impl KeySource {
    /// Creates a key that never changes, sent as a bearer token until the wire is known.
    pub fn bearer(key: Secret) -> Self {
        Self::Fixed(PresentedCredential::Bearer(key))
    }

    /// Returns the same keys in the form that a wire requires.
    #[must_use]
    pub fn for_mode(self, mode: ApiMode) -> Self {
        match self {
            Self::Fixed(PresentedCredential::Bearer(key)) => Self::Fixed(present_key(mode, key)),
            Self::Pool(name) => Self::Pool(pool::PoolSpec { mode, ..name }),
            other => other,
        }
    }

    /// Returns the credentials for an endpoint.
    pub fn credentials(&self, means: &CredentialContext) -> Arc<dyn CredentialProvider> {
        match self {
            Self::Fixed(presented) => Arc::new(FixedCredential(presented.clone())),
            Self::Pool(name) => Arc::new(pool::CredentialPool::open(means, name.clone())),
            Self::Nous => Arc::new(nous::NousCredentials::new(means.clone())),
            Self::Codex => Arc::new(codex::CodexCredentials::new(means.clone())),
            Self::AnthropicFile(path) => {
                Arc::new(anthropic::AnthropicTokenFile::new(means.clone(), path.clone()))
            }
            Self::Gh => Arc::new(copilot::GhCliToken::new(means.clone())),
            Self::Aws(source) => Arc::new(aws::AwsCredentials::new(means.clone(), source.clone())),
        }
    }
}

/// Chooses the header for a key: Anthropic's own API keys have one of their own; all others are bearer tokens.
pub(crate) fn present_key(mode: ApiMode, key: Secret) -> PresentedCredential {
    if mode == ApiMode::Anthropic && anthropic::is_api_key(&key) {
        PresentedCredential::ApiKeyHeader(key)
    } else {
        PresentedCredential::Bearer(key)
    }
}
