//! The files with tokens and client registrations, shared with other programs that use this home.

use std::path::{Path, PathBuf};

use hermes_config::{Home, write};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The longest file name, without its ending.
const LONGEST_NAME: usize = 60;

/// The token files of a home.
#[derive(Debug, Clone)]
pub struct TokenFiles {
    home: Home,
}

/// The tokens of a server, as the token endpoint returned them.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct StoredTokens {
    pub(crate) access_token: String,
    #[serde(default)]
    pub(crate) token_type: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) expires_in: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) scope: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) refresh_token: Option<String>,
    /// When the access token expires, in seconds since the epoch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) expires_at: Option<f64>,
    #[serde(flatten)]
    pub(crate) other: Map<String, Value>,
}

/// What an authorization server knows of this client.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct ClientRegistration {
    pub(crate) client_id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) client_secret: Option<String>,
    #[serde(default)]
    pub(crate) redirect_uris: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) token_endpoint: Option<String>,
    #[serde(flatten)]
    pub(crate) other: Map<String, Value>,
}

impl TokenFiles {
    pub fn new(home: &Home) -> Self {
        Self { home: home.clone() }
    }

    pub(crate) fn tokens(&self, server: &str) -> Option<StoredTokens> {
        read(self.path(server, "json"))
    }

    pub(crate) fn client(&self, server: &str) -> Option<ClientRegistration> {
        read(self.path(server, "client.json"))
    }

    pub(crate) fn save_tokens(&self, server: &str, tokens: &StoredTokens) -> hermes_config::Result<()> {
        self.save(&self.path(server, "json"), tokens)
    }

    pub(crate) fn save_client(&self, server: &str, client: &ClientRegistration) -> hermes_config::Result<()> {
        self.save(&self.path(server, "client.json"), client)
    }

    /// Tells whether there are tokens of a server.
    pub fn has_tokens(&self, server: &str) -> bool {
        self.tokens(server).is_some()
    }

    /// Removes the tokens and the registration of a server.
    pub fn remove(&self, server: &str) -> std::io::Result<()> {
        for ending in ["json", "client.json"] {
            match std::fs::remove_file(self.path(server, ending)) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }

    fn save(&self, path: &Path, value: &impl Serialize) -> hermes_config::Result<()> {
        self.home.folder("mcp-tokens")?;
        let text = serde_json::to_string_pretty(value).unwrap_or_default();
        write::replace(path, text.as_bytes())
    }

    fn path(&self, server: &str, ending: &str) -> PathBuf {
        self.home.mcp_tokens().join(format!("{}.{ending}", file_name(server)))
    }
}

fn read<T: DeserializeOwned>(path: PathBuf) -> Option<T> {
    serde_json::from_slice(&std::fs::read(path).ok()?).ok()
}

/// Returns the name of a server's files: lower case, with hyphens for what is no word character.
fn file_name(server: &str) -> String {
    let name: String = server
        .to_lowercase()
        .chars()
        .map(|c| if c.is_alphanumeric() || matches!(c, '_' | '-') { c } else { '-' })
        .take(LONGEST_NAME)
        .collect();
    let name = name.trim_matches('-');
    if name.is_empty() { "default".to_owned() } else { name.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_names_hold_nothing_that_leads_elsewhere() {
        for (server, name) in
            [("GitHub", "github"), ("../../etc/passwd", "etc-passwd"), ("a b.c", "a-b-c"), ("//", "default")]
        {
            assert_eq!(file_name(server), name);
        }
        assert_eq!(file_name(&"x".repeat(99)).len(), LONGEST_NAME);
    }
}
