//! The inputs from which a provider is chosen, read once.

use hermes_config::auth::{AuthFile, AuthState};
use hermes_config::{Config, Env, Home, is_usable_key};
use hermes_types::Secret;

use super::model_facts::ModelFactsFile;
use super::window::LearntWindows;
use crate::credential::has_pool;

/// A snapshot of configuration, environment, sign-ins and learnt windows. Resolving from it reads nothing else,
/// apart from the credential files of other programs that the user configured.
#[derive(Debug, Clone)]
pub struct ProviderInputs {
    pub config: Config,
    pub env: Env,
    pub auth: AuthState,
    pub learnt_windows: LearntWindows,
    pub model_facts: ModelFactsFile,
}

/// A key and its source.
#[derive(Debug, Clone)]
pub(super) struct FoundKey {
    pub(super) key: Secret,
    pub(super) origin: String,
}

impl FoundKey {
    pub(super) fn new(key: &str, origin: &str) -> Option<Self> {
        is_usable_key(key).then(|| Self { key: Secret::new(key.trim()), origin: origin.to_owned() })
    }
}

impl ProviderInputs {
    pub fn read(home: &Home, config: Config, env: Env) -> Self {
        let auth = AuthFile::new(home).read();
        Self {
            config,
            env,
            auth,
            learnt_windows: LearntWindows::read(home),
            model_facts: ModelFactsFile::read(home),
        }
    }

    /// Returns the key in the first variable that contains a plausible one.
    pub(super) fn key_in(&self, variables: &[&str]) -> Option<FoundKey> {
        variables.iter().find_map(|name| FoundKey::new(self.env.get(name)?, name))
    }

    pub(super) fn has_key_in(&self, variables: &[&str]) -> bool {
        self.key_in(variables).is_some()
    }

    pub(super) fn has_pool(&self, name: &str) -> bool {
        has_pool(&self.auth, name)
    }

    /// Returns the address in a variable, without its final slash.
    pub(super) fn address_in(&self, variable: &str) -> Option<String> {
        let text = self.env.get(variable)?.trim().trim_end_matches('/');
        (!text.is_empty()).then(|| text.to_owned())
    }

    pub(super) fn configured_key(&self) -> Option<FoundKey> {
        FoundKey::new(&self.config.text("model.api_key"), "model.api_key")
    }
}
