//! Where keys come from, and how they are renewed.
//!
//! Signs in and out, refreshes and mints; knows nothing of models. Invariants: a rotated refresh token is on disk before
//! it is needed for anything else; `auth.json` is changed only under its lock, and what we do not know in it survives; no
//! key appears in an error, a log line or a `Debug` form. We never pose as another program.

pub mod anthropic;
pub mod aws;
pub mod codex;
mod command;
pub mod copilot;
mod device;
mod error;
mod http;
mod login;
pub mod nous;
pub mod pool;
mod store;
mod time;
mod token;
mod whole;

use std::path::PathBuf;
use std::sync::Arc;

use hermes_config::auth::AuthFile;
use hermes_config::{Env, Home};
use hermes_net::Client;
use hermes_types::{Clock, Secret};

use crate::client::{Credentials, FixedKey, Presented};
use crate::wire::Mode;

pub use command::{CommandFailure, CommandLine, Commands};
pub use device::{Listener, Progress};
pub use error::SignInError;
pub use login::{SignIn, login, login_to_nous, logout};
pub use pool::has_pool;
use store::HeldAuth;
pub(crate) use store::aside;

/// What renewing a credential takes.
#[derive(Debug, Clone)]
pub struct Means {
    pub net: Client,
    pub clock: Arc<dyn Clock>,
    pub auth: AuthFile,
    pub env: Env,
    pub sites: Sites,
    /// How other programs are started; without it, credentials that only they know cannot be had.
    pub commands: Option<Arc<dyn Commands>>,
}

impl Means {
    pub fn new(net: Client, clock: Arc<dyn Clock>, home: &Home, env: Env) -> Self {
        Self { net, clock, auth: AuthFile::new(home), env, sites: Sites::default(), commands: None }
    }

    #[must_use]
    pub fn with_commands(mut self, commands: Arc<dyn Commands>) -> Self {
        self.commands = Some(commands);
        self
    }
}

/// The servers that issue tokens and publish facts. Only tests say others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sites {
    /// Used when neither the sign-in nor the environment names a portal.
    pub nous_portal: String,
    pub codex_issuer: String,
    /// Tried in this order.
    pub anthropic_token: Vec<String>,
    pub github: String,
    /// The registry of models.dev.
    pub models_dev: String,
    /// OpenRouter's public catalogue, for what other providers do not say about their models.
    pub openrouter: String,
    /// Where machines on AWS find out about themselves.
    pub aws_metadata: String,
    /// Where containers on AWS do.
    pub aws_container: String,
    /// `{region}` stands for the region in these two.
    pub aws_sts: String,
    pub aws_sso: String,
    /// Where a key of Z.AI may be at home, each with a model to try, in the order to try them.
    pub zai: Vec<(String, String)>,
}

impl Default for Sites {
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

/// Where the key of a target is kept.
#[derive(Debug, Clone)]
pub enum Keys {
    Fixed(Presented),
    Pool(pool::PoolName),
    Nous,
    Codex,
    /// The credentials file of Anthropic's own client.
    AnthropicFile(PathBuf),
    Aws(aws::Source),
    /// GitHub's own program knows it.
    Gh,
}

impl Keys {
    /// A key that never changes, shown as a bearer token until the wire is known.
    pub fn key(key: Secret) -> Self {
        Self::Fixed(Presented::Bearer(key))
    }

    /// The same keys in the form a wire wants to see them.
    #[must_use]
    pub fn shown_on(self, mode: Mode) -> Self {
        match self {
            Self::Fixed(Presented::Bearer(key)) => Self::Fixed(show(mode, key)),
            Self::Pool(name) => Self::Pool(pool::PoolName { mode, ..name }),
            other => other,
        }
    }

    /// Credentials for an endpoint.
    pub fn credentials(&self, means: &Means) -> Arc<dyn Credentials> {
        match self {
            Self::Fixed(presented) => Arc::new(FixedKey(presented.clone())),
            Self::Pool(name) => Arc::new(pool::Pool::open(means, name.clone())),
            Self::Nous => Arc::new(nous::Nous::new(means.clone())),
            Self::Codex => Arc::new(codex::Codex::new(means.clone())),
            Self::AnthropicFile(path) => Arc::new(anthropic::TokenFile::new(means.clone(), path.clone())),
            Self::Gh => Arc::new(copilot::GhToken::new(means.clone())),
            Self::Aws(source) => Arc::new(aws::AwsCredentials::new(means.clone(), source.clone())),
        }
    }
}

/// Anthropic's own API keys have a header of their own; everything else is a bearer token.
pub(crate) fn show(mode: Mode, key: Secret) -> Presented {
    if mode == Mode::Anthropic && anthropic::is_api_key(&key) {
        Presented::ApiKeyHeader(key)
    } else {
        Presented::Bearer(key)
    }
}
