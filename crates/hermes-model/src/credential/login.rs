//! Signing in and out as library calls: the listener shows the code, and no browser is opened.

use hermes_config::auth::AuthFile;
use hermes_config::yaml::{KeyPath, YamlValue};
use hermes_config::{Env, Home, ManagedMode, canonical_provider, set};
use hermes_types::Cancel;

use super::device::SignInListener;
use super::error::SignInError;
use super::{CredentialContext, codex, copilot, nous};

/// Providers that support a sign-in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SignInProvider {
    Nous,
    Codex,
    Copilot,
}

impl SignInProvider {
    /// Finds a provider by id or alias.
    pub fn of(provider: &str) -> Option<Self> {
        match canonical_provider(provider).ok()? {
            nous::PROVIDER => Some(Self::Nous),
            codex::PROVIDER => Some(Self::Codex),
            copilot::PROVIDER => Some(Self::Copilot),
            _ => None,
        }
    }

    pub fn provider(self) -> &'static str {
        match self {
            Self::Nous => nous::PROVIDER,
            Self::Codex => codex::PROVIDER,
            Self::Copilot => copilot::PROVIDER,
        }
    }
}

/// Signs in to Nous Portal with the flags of `hermes login`, and makes it the active provider.
pub async fn login_to_nous(
    means: &CredentialContext,
    options: &nous::NousLoginOptions,
    listener: SignInListener<'_>,
    cancel: &Cancel,
) -> Result<(), SignInError> {
    nous::login(means, options, listener, cancel).await
}

/// Signs in and makes the provider the active one.
pub async fn login(
    means: &CredentialContext,
    provider: &str,
    listener: SignInListener<'_>,
    cancel: &Cancel,
) -> Result<SignInProvider, SignInError> {
    let which =
        SignInProvider::of(provider).ok_or_else(|| SignInError::NoSignIn(provider.trim().to_owned()))?;
    match which {
        SignInProvider::Nous => {
            nous::login(means, &nous::NousLoginOptions::default(), listener, cancel).await?;
        }
        SignInProvider::Codex => codex::login(means, listener, cancel).await?,
        SignInProvider::Copilot => copilot::login(means, listener, cancel).await?,
    }
    Ok(which)
}

/// Removes a sign-in, and the configuration's choice of it. Tells whether there was one. Blocks on the lock of
/// `auth.json`.
pub fn logout(home: &Home, env: &Env, provider: &str) -> Result<bool, SignInError> {
    let unknown = || SignInError::NoSignIn(provider.trim().to_owned());
    let id = canonical_provider(provider).map_err(|_| unknown())?;
    let removed = AuthFile::new(home).update(|auth| auth.remove_provider(id))?;
    let chosen = |value: &YamlValue| {
        value.as_str().is_some_and(|name| canonical_provider(name).is_ok_and(|named| named == id))
    };
    if let Some(path) = KeyPath::parse("model.provider") {
        set::update_value(home, ManagedMode::detect(home, env), &path, |current| {
            current.filter(|value| chosen(value)).map(|_| YamlValue::Str("auto".to_owned()))
        })?;
    }
    Ok(removed)
}
