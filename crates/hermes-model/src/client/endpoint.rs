//! One endpoint: address, wire, and the credentials that are sent to it.

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
    /// The model id sent in requests.
    pub model: String,
    /// Tells whether the user chose the model.
    pub model_choice: ModelChoice,
    pub wire: WireOptions,
    pub credentials: Arc<dyn CredentialProvider>,
    /// The variable, file or setting where the key was found, for messages.
    pub key_origin: Option<String>,
    /// The context window as configured or learnt; otherwise a guess by model family.
    pub context_window: u64,
    pub window_origin: WindowOrigin,
    /// The prices from the provider's own list, where it has one.
    pub prices: Option<ModelPrices>,
    /// The facts discovered since; clones share them, and they are newer than the fields above.
    pub stats: Arc<EndpointStats>,
}

impl Endpoint {
    /// Returns the context window as it is known now.
    pub fn window(&self) -> u64 {
        self.stats.window().unwrap_or(self.context_window)
    }

    /// Returns the prices as they are known now.
    pub fn current_prices(&self) -> Option<ModelPrices> {
        self.stats.prices().or(self.prices)
    }
}

/// Supplies credentials. Only implementations of this trait renew or change a key.
pub trait CredentialProvider: Send + Sync + fmt::Debug {
    /// Returns the credential to use now; renews one that is about to expire.
    fn current<'a>(
        &'a self,
        cancel: &'a Cancel,
    ) -> BoxFuture<'a, Result<PresentedCredential, CredentialUnavailable>>;

    /// Obtains a new credential, if possible, after the provider refused the current one.
    fn renew<'a>(&'a self, cancel: &'a Cancel) -> BoxFuture<'a, Result<(), CredentialUnavailable>>;

    /// Switches to another key after the provider refused this one alone. Returns `false` when there is none.
    fn rotate(&self, refusal: &KeyRefusal) -> bool;

    fn can_renew(&self) -> bool;

    fn has_another(&self) -> bool;
}

/// The reason why a provider refused a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyRefusal {
    pub cause: FailureCause,
    /// The time after which the provider accepts the key again.
    pub retry_after: Option<Duration>,
    /// The provider's code for a key that is permanently invalid, such as `token_revoked`.
    pub permanent_code: Option<&'static str>,
    /// The provider's message, safe to show.
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

/// A credential in the form in which a request carries it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PresentedCredential {
    /// `Authorization: Bearer …`
    Bearer(Secret),
    /// `x-api-key: …`
    ApiKeyHeader(Secret),
    /// Keys for the AWS signature, which covers the body.
    Aws(AwsKeys),
    /// No credential, for a local server that requires none.
    Anonymous,
}

/// The keys that an AWS signature is made with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AwsKeys {
    pub access_key: String,
    pub secret_key: Secret,
    pub session_token: Option<Secret>,
    pub region: String,
}

/// The error for a missing credential; the message tells the user what to do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct CredentialUnavailable(pub String);

/// A single key that never changes.
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
