//! One place a request can go: address, wire, and whose key is shown there.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use hermes_types::{BoxFuture, Cancel, Secret};

use super::learnt::Learnt;
use crate::context_window::Origin;
use crate::price::Prices;
use crate::provider::ModelChoice;
use crate::wire::{Cause, Failure, WireOptions};

/// A model at a provider.
#[derive(Debug, Clone)]
pub struct Endpoint {
    /// The id sent in requests.
    pub model: String,
    /// Whether somebody chose the model.
    pub model_choice: ModelChoice,
    pub wire: WireOptions,
    pub credentials: Arc<dyn Credentials>,
    /// Where the key was found, for messages: a variable, a file, a setting.
    pub key_origin: Option<String>,
    /// The window as configured or learnt; a guess by family otherwise.
    pub context_window: u64,
    pub window_origin: Origin,
    /// Prices from the provider's own list, where it has one.
    pub prices: Option<Prices>,
    /// What has been found out since; shared by clones, and newer than the fields above.
    pub learnt: Arc<Learnt>,
}

impl Endpoint {
    /// The window as it is known by now.
    pub fn window(&self) -> u64 {
        self.learnt.window().unwrap_or(self.context_window)
    }

    /// The prices as they are known by now.
    pub fn current_prices(&self) -> Option<Prices> {
        self.learnt.prices().or(self.prices)
    }
}

/// Where keys come from. The only thing that knows how to renew or change one.
pub trait Credentials: Send + Sync + fmt::Debug {
    /// The credential to use now; renews one that is about to run out.
    fn current<'a>(&'a self, cancel: &'a Cancel) -> BoxFuture<'a, Result<Presented, Unavailable>>;

    /// The provider refused the credential: get a new one, if there is a way.
    fn renew<'a>(&'a self, cancel: &'a Cancel) -> BoxFuture<'a, Result<(), Unavailable>>;

    /// The provider refused for this key alone: go on with another. `false` when there is none.
    fn rotate(&self, refusal: &Refusal) -> bool;

    fn can_renew(&self) -> bool;

    fn has_another(&self) -> bool;
}

/// Why a key was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    pub cause: Cause,
    /// When the provider says it is good again.
    pub after: Option<Duration>,
    /// The provider's word for a key that will never be good again, such as `token_revoked`.
    pub final_word: Option<&'static str>,
    /// What it said, fit to be shown.
    pub message: String,
}

impl Refusal {
    pub fn new(cause: Cause, after: Option<Duration>) -> Self {
        Self { cause, after, final_word: None, message: String::new() }
    }

    pub(crate) fn read(cause: Cause, after: Option<Duration>, failure: &Failure) -> Self {
        Self { final_word: failure.final_word(), message: failure.summary(), ..Self::new(cause, after) }
    }
}

/// A credential in the form a request shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Presented {
    /// `Authorization: Bearer …`
    Bearer(Secret),
    /// `x-api-key: …`
    ApiKeyHeader(Secret),
    /// Signed by the AWS scheme, which covers the body.
    Aws(AwsKeys),
    /// A local server that asks for nothing.
    Nothing,
}

/// What an AWS signature is made with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AwsKeys {
    pub access_key: String,
    pub secret_key: Secret,
    pub session_token: Option<Secret>,
    pub region: String,
}

/// There is no credential; the words tell a person what to do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Unavailable(pub String);

/// One key that never changes.
#[derive(Debug, Clone)]
pub struct FixedKey(pub Presented);

impl Credentials for FixedKey {
    fn current<'a>(&'a self, _: &'a Cancel) -> BoxFuture<'a, Result<Presented, Unavailable>> {
        Box::pin(std::future::ready(Ok(self.0.clone())))
    }

    fn renew<'a>(&'a self, _: &'a Cancel) -> BoxFuture<'a, Result<(), Unavailable>> {
        let words = "this key cannot be renewed; set another with `hermes model`".to_owned();
        Box::pin(std::future::ready(Err(Unavailable(words))))
    }

    fn rotate(&self, _: &Refusal) -> bool {
        false
    }

    fn can_renew(&self) -> bool {
        false
    }

    fn has_another(&self) -> bool {
        false
    }
}
