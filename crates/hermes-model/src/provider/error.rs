//! Why there is no endpoint to ask, by what a person can do about it.

use thiserror::Error;

/// Texts name variables, keys of the configuration and commands, never a value of one.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ResolveError {
    /// Ask for a name we know.
    #[error("Unknown provider '{name}'.")]
    UnknownProvider { name: String },
    /// Ask for a key.
    #[error("Provider '{provider}' has no credentials. Set its key: hermes config set {variable} KEY")]
    NoKey { provider: String, variable: String },
    /// Ask for a sign-in.
    #[error("You are not signed in to '{provider}'. Sign in: hermes login --provider {provider}{hint}")]
    NotSignedIn { provider: String, hint: String },
    /// Ask for an address.
    #[error("Provider '{provider}' has no address. Set it: hermes config set model.base_url URL")]
    NoAddress { provider: String },
    /// Ask for another credential: this kind cannot be used.
    #[error("{why}")]
    Unusable { provider: String, why: String },
}

impl ResolveError {
    /// A short code for programs.
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
