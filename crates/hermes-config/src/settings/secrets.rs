//! The secret managers that hold keys.

use crate::Config;
use crate::env::SecretPrecedence;
use crate::yaml::YamlValue;

/// Bitwarden Secrets Manager: all secrets of a project become variables.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BitwardenSettings {
    pub enabled: bool,
    /// The variable that holds the access token.
    pub token_variable: String,
    pub project: String,
    /// The address of the server; empty for the usual one.
    pub server_url: String,
    pub precedence: SecretPrecedence,
}

/// 1Password: each variable names its secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OnePasswordSettings {
    pub enabled: bool,
    /// Variables with their references, as in `op://vault/item/field`.
    pub references: Vec<(String, String)>,
    pub account: String,
    /// The variable that holds the token of a service account.
    pub token_variable: String,
    /// The program; empty to search for `op`.
    pub program: String,
    pub precedence: SecretPrecedence,
}

fn precedence(config: &Config, key: &str) -> SecretPrecedence {
    if config.flag(key) { SecretPrecedence::SecretManager } else { SecretPrecedence::Environment }
}

impl BitwardenSettings {
    pub fn from_config(config: &Config) -> Self {
        Self {
            enabled: config.flag("secrets.bitwarden.enabled"),
            token_variable: config.text("secrets.bitwarden.access_token_env"),
            project: config.text("secrets.bitwarden.project_id"),
            server_url: config.text("secrets.bitwarden.server_url"),
            precedence: precedence(config, "secrets.bitwarden.override_existing"),
        }
    }
}

impl OnePasswordSettings {
    pub fn from_config(config: &Config) -> Self {
        let references = config.map("secrets.onepassword.env");
        let pair = |(name, value): (&str, &YamlValue)| Some((name.to_owned(), value.as_str()?.to_owned()));
        Self {
            enabled: config.flag("secrets.onepassword.enabled"),
            references: references.iter().filter_map(pair).collect(),
            account: config.text("secrets.onepassword.account"),
            token_variable: config.text("secrets.onepassword.service_account_token_env"),
            program: config.text("secrets.onepassword.binary_path"),
            precedence: precedence(config, "secrets.onepassword.override_existing"),
        }
    }
}
