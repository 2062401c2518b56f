//! Signing in and out, as calls of a library: whoever watches shows the code, and nobody opens a browser.

use hermes_config::auth::AuthFile;
use hermes_config::yaml::{Path, Value};
use hermes_config::{Env, Home, Management, canonical_provider, set};
use hermes_types::Cancel;

use super::device::Listener;
use super::error::SignInError;
use super::{Means, codex, copilot, nous};

/// Providers one can sign in to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SignIn {
    Nous,
    Codex,
    Copilot,
}

impl SignIn {
    /// By id or alias.
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

/// Signs in to Nous Portal as the flags of `hermes login` say, and makes it the active provider.
pub async fn login_to_nous(
    means: &Means,
    options: &nous::Options,
    listener: Listener<'_>,
    cancel: &Cancel,
) -> Result<(), SignInError> {
    nous::login(means, options, listener, cancel).await
}

/// Signs in and makes the provider the active one.
pub async fn login(
    means: &Means,
    provider: &str,
    listener: Listener<'_>,
    cancel: &Cancel,
) -> Result<SignIn, SignInError> {
    let which = SignIn::of(provider).ok_or_else(|| SignInError::NoSignIn(provider.trim().to_owned()))?;
    match which {
        SignIn::Nous => nous::login(means, &nous::Options::default(), listener, cancel).await?,
        SignIn::Codex => codex::login(means, listener, cancel).await?,
        SignIn::Copilot => copilot::login(means, listener, cancel).await?,
    }
    Ok(which)
}

/// Forgets a sign-in, and the configuration's choice of it. Says whether there was one. Blocks on the lock of
/// `auth.json`.
pub fn logout(home: &Home, env: &Env, provider: &str) -> Result<bool, SignInError> {
    let unknown = || SignInError::NoSignIn(provider.trim().to_owned());
    let id = canonical_provider(provider).map_err(|_| unknown())?;
    let removed = AuthFile::new(home).update(|auth| auth.remove_provider(id))?;
    let chosen = |value: &Value| {
        value.as_str().is_some_and(|name| canonical_provider(name).is_ok_and(|named| named == id))
    };
    if let Some(path) = Path::parse("model.provider") {
        set::update_value(home, Management::of(home, env), &path, |current| {
            current.filter(|value| chosen(value)).map(|_| Value::Str("auto".to_owned()))
        })?;
    }
    Ok(removed)
}
