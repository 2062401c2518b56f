//! Access tokens of HTTP servers: where they are kept, and how they are renewed.
//!
//! Invariants: a token is sent only to the server it was issued for and to the token endpoint that issued it; no token
//! appears in an error or a log; files are private.

mod callback;
mod discovery;
mod pkce;
mod token_endpoint;
mod token_files;

use std::sync::Arc;
use std::time::Duration;

use hermes_net::HttpClient;
use hermes_types::{Clock, Secret, Timestamp};
use tokio::sync::Mutex;

use crate::options::McpOptions;

pub(crate) use callback::{CallbackListener, pasted_code};
pub(crate) use discovery::{discover, register};
pub(crate) use pkce::PkceChallenge;
pub(crate) use token_endpoint::{TokenGrant, request_tokens};
pub use token_files::TokenFiles;
pub(crate) use token_files::{ClientRegistration, StoredTokens};

/// A token is renewed this long before it expires.
const RENEW_BEFORE: Duration = Duration::from_mins(1);

/// Says when a token is renewed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TokenRenewal {
    IfExpired,
    /// The server refused the present one.
    Now,
}

/// The access tokens of one server. Clones share them.
#[derive(Clone)]
pub(crate) struct AccessTokens(Arc<TokenState>);

struct TokenState {
    server: String,
    files: TokenFiles,
    http: HttpClient,
    clock: Arc<dyn Clock>,
    /// Held while a token is renewed, so that it is renewed once.
    renewing: Mutex<()>,
}

impl AccessTokens {
    pub(crate) fn new(server: &str, options: &McpOptions) -> Self {
        Self(Arc::new(TokenState {
            server: server.to_owned(),
            files: TokenFiles::new(&options.home),
            http: options.http.clone(),
            clock: options.clock.clone(),
            renewing: Mutex::default(),
        }))
    }

    /// Returns the token to send. `None` means that the user has to sign in.
    pub(crate) async fn current(&self, renewal: TokenRenewal) -> Option<Secret> {
        let state = &*self.0;
        let before = state.files.tokens(&state.server)?;
        if renewal == TokenRenewal::IfExpired && before.is_fresh(state.clock.now()) {
            return Some(before.access());
        }
        let _renewing = state.renewing.lock().await;
        // Another request or process may have renewed it meanwhile.
        let present = state.files.tokens(&state.server)?;
        if present.access_token != before.access_token {
            return Some(present.access());
        }
        match self.renew(&present).await {
            Ok(renewed) => Some(renewed.access()),
            Err(error) => {
                tracing::warn!(server = state.server, error, "the token of an MCP server was not renewed");
                let kept = state.files.tokens(&state.server)?;
                // A process that renewed it at the same moment made our refresh token invalid.
                (kept.access_token != present.access_token).then(|| kept.access())
            }
        }
    }

    async fn renew(&self, present: &StoredTokens) -> Result<StoredTokens, String> {
        let state = &*self.0;
        let refresh = present.refresh_token.as_deref().ok_or("there is no refresh token")?;
        let client = state.files.client(&state.server).ok_or("there is no client registration")?;
        let endpoint = client.token_endpoint.clone().ok_or("the token endpoint is not known")?;
        let grant = TokenGrant::Refresh { refresh_token: refresh };
        let renewed = request_tokens(&state.http, &*state.clock, &endpoint, &client, grant).await?;
        let renewed = StoredTokens {
            // A server that keeps the refresh token does not repeat it.
            refresh_token: renewed.refresh_token.or_else(|| present.refresh_token.clone()),
            ..renewed
        };
        state.files.save_tokens(&state.server, &renewed).map_err(|error| error.to_string())?;
        Ok(renewed)
    }
}

impl StoredTokens {
    fn access(&self) -> Secret {
        Secret::new(self.access_token.as_str())
    }

    fn is_fresh(&self, now: Timestamp) -> bool {
        self.expires_at.is_none_or(|at| now.plus(RENEW_BEFORE).seconds() < at)
    }
}
