//! The reasons why there is no endpoint, by what the user can do about them.

use thiserror::Error;

/// The error of resolving a provider. Texts name variables, configuration keys and commands, never a value of one.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ResolveError {
    /// The user must give a known name.
    #[error("Unknown provider '{name}'.")]
    UnknownProvider { name: String },
    /// The user must set a key.
    #[error("Provider '{provider}' has no credentials. Set its key: hermes config set {variable} KEY")]
    NoKey { provider: String, variable: String },
    /// The user must sign in.
    #[error("You are not signed in to '{provider}'. Sign in: hermes login --provider {provider}{hint}")]
    NotSignedIn { provider: String, hint: String },
    /// The user must set an address.
    #[error("Provider '{provider}' has no address. Set it: hermes config set model.base_url URL")]
    NoAddress { provider: String },
    /// The user must provide another credential: this kind cannot be used.
    #[error("{why}")]
    Unusable { provider: String, why: String },
}

impl ResolveError {
    /// Returns a short code for programs.
    pub fn code(&self) -> &'static str {
        match self {
            Self::UnknownProvider { .. } => "invalid_provider",
            Self::NoKey { .. } => "no_api_key",
            Self::NotSignedIn { .. } => "not_signed_in",
            Self::NoAddress { .. } => "no_base_url",
            Self::Unusable { .. } => "unusable_credential",
        }
    }

    pub(super) fn no_key(provider: &str, variable: Option<&str>) -> Self {
        let made_up = || format!("{}_API_KEY", provider.to_ascii_uppercase().replace('-', "_"));
        Self::NoKey { provider: provider.to_owned(), variable: variable.map_or_else(made_up, str::to_owned) }
    }
}
