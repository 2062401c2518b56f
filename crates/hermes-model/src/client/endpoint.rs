//! One place a request can go: address, wire, and whose key is shown there.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use hermes_types::{BoxFuture, Cancel, Secret};

use super::endpoint_stats::EndpointStats;
use crate::context_window::WindowOrigin;
use crate::price::ModelPrices;
use crate::provider::ModelChoice;
use crate::wire::{FailureCause, ProviderFailure, WireOptions};

/// A model at a provider.
#[derive(Debug, Clone)]
pub struct Endpoint {
    /// The id sent in requests.
    pub model: String,
    /// Whether somebody chose the model.
    pub model_choice: ModelChoice,
    pub wire: WireOptions,
    pub credentials: Arc<dyn CredentialProvider>,
    /// Where the key was found, for messages: a variable, a file, a setting.
    pub key_origin: Option<String>,
    /// The window as configured or learnt; a guess by family otherwise.
    pub context_window: u64,
    pub window_origin: WindowOrigin,
    /// Prices from the provider's own list, where it has one.
    pub prices: Option<ModelPrices>,
    /// What has been found out since; shared by clones, and newer than the fields above.
    pub stats: Arc<EndpointStats>,
}

impl Endpoint {
    /// The window as it is known by now.
    pub fn window(&self) -> u64 {
        self.stats.window().unwrap_or(self.context_window)
    }

    /// The prices as they are known by now.
    pub fn current_prices(&self) -> Option<ModelPrices> {
        self.stats.prices().or(self.prices)
    }
}

/// Where keys come from. The only thing that knows how to renew or change one.
pub trait CredentialProvider: Send + Sync + fmt::Debug {
    /// The credential to use now; renews one that is about to run out.
    fn current<'a>(
        &'a self,
        cancel: &'a Cancel,
    ) -> BoxFuture<'a, Result<PresentedCredential, CredentialUnavailable>>;

    /// The provider refused the credential: get a new one, if there is a way.
    fn renew<'a>(&'a self, cancel: &'a Cancel) -> BoxFuture<'a, Result<(), CredentialUnavailable>>;

    /// The provider refused for this key alone: go on with another. `false` when there is none.
    fn rotate(&self, refusal: &KeyRefusal) -> bool;

    fn can_renew(&self) -> bool;

    fn has_another(&self) -> bool;
}

/// Why a key was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyRefusal {
    pub cause: FailureCause,
    /// When the provider says it is good again.
    pub retry_after: Option<Duration>,
    /// The provider's word for a key that will never be good again, such as `token_revoked`.
    pub permanent_code: Option<&'static str>,
    /// What it said, fit to be shown.
    pub message: String,
}

impl KeyRefusal {
    pub fn new(cause: FailureCause, retry_after: Option<Duration>) -> Self {
        Self { cause, retry_after, permanent_code: None, message: String::new() }
    }

    pub(crate) fn read(cause: FailureCause, after: Option<Duration>, failure: &ProviderFailure) -> Self {
        Self {
            permanent_code: failure.permanent_code(),
            message: failure.summary(),
            ..Self::new(cause, after)
        }
    }
}

/// A credential in the form a request shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PresentedCredential {
    /// `Authorization: Bearer …`
    Bearer(Secret),
    /// `x-api-key: …`
    ApiKeyHeader(Secret),
    /// Signed by the AWS scheme, which covers the body.
    Aws(AwsKeys),
    /// A local server that asks for nothing.
    Anonymous,
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
pub struct CredentialUnavailable(pub String);

/// One key that never changes.
#[derive(Debug, Clone)]
pub struct FixedCredential(pub PresentedCredential);

impl CredentialProvider for FixedCredential {
    fn current<'a>(
        &'a self,
        _: &'a Cancel,
    ) -> BoxFuture<'a, Result<PresentedCredential, CredentialUnavailable>> {
        Box::pin(std::future::ready(Ok(self.0.clone())))
    }

    fn renew<'a>(&'a self, _: &'a Cancel) -> BoxFuture<'a, Result<(), CredentialUnavailable>> {
        let words = "this key cannot be renewed; set another with `hermes model`".to_owned();
        Box::pin(std::future::ready(Err(CredentialUnavailable(words))))
    }

    fn rotate(&self, _: &KeyRefusal) -> bool {
        false
    }

    fn can_renew(&self) -> bool {
        false
    }

    fn has_another(&self) -> bool {
        false
    }
}
