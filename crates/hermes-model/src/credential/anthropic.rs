//! Anthropic's credentials: keys and tokens in variables, and the file of Anthropic's own client.
//!
//! The file belongs to that client: a renewal changes only the token in it. `~/.claude.json` is never read.
//! Requests identify Hermes as itself; a refusal of a subscription token is reported, not worked around.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hermes_config::{Env, is_usable_key, user_home, write};
use hermes_types::{BoxFuture, Cancel, Secret, Timestamp};
use serde_json::{Map, Value, json};

use super::detached::run_detached;
use super::error::SignInError;
use super::http::{TokenRequestBody, post, text};
use super::{CredentialContext, LockedAuthFile, time};
use crate::client::{CredentialProvider, CredentialUnavailable, KeyRefusal, PresentedCredential};

const CLIENT: &str = "9d1c250a-e61b-44d9-88ed-5944d1962f5e";
const RENEWAL_MARGIN: Duration = Duration::from_mins(1);
const TIMEOUT: Duration = Duration::from_secs(15);

/// The place where Anthropic's credential is found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AnthropicCredentialSource {
    Key { key: Secret, variable: &'static str },
    File(PathBuf),
}

/// Tells whether this is an API key, as opposed to a sign-in token.
pub fn is_api_key(key: &Secret) -> bool {
    key.expose().trim().starts_with("sk-ant-api")
}

/// Returns the first of: a token variable, the credentials file, the key variable. A file whose token can be
/// renewed is preferred to a token variable that cannot.
pub fn find(env: &Env) -> Option<AnthropicCredentialSource> {
    let in_variable = |variable: &'static str| {
        let key = env.get(variable).filter(|key| is_usable_key(key))?;
        Some(AnthropicCredentialSource::Key { key: Secret::new(key.trim()), variable })
    };
    let path = user_home(env).ok()?.join(".claude/.credentials.json");
    let stored = read_oauth(&path);
    let renewable = stored.as_ref().is_some_and(|oauth| text(oauth, "refreshToken").is_some());
    let token = in_variable("ANTHROPIC_TOKEN").or_else(|| in_variable("CLAUDE_CODE_OAUTH_TOKEN"));
    match token {
        Some(AnthropicCredentialSource::Key { key, .. }) if renewable && !is_api_key(&key) => {
            return Some(AnthropicCredentialSource::File(path));
        }
        Some(source) => return Some(source),
        None => {}
    }
    let usable = stored.is_some_and(|oauth| text(&oauth, "accessToken").is_some() || renewable);
    usable.then_some(AnthropicCredentialSource::File(path)).or_else(|| in_variable("ANTHROPIC_API_KEY"))
}

fn read_document(path: &Path) -> Option<Map<String, Value>> {
    match serde_json::from_slice(&std::fs::read(path).ok()?) {
        Ok(Value::Object(document)) => Some(document),
        _ => None,
    }
}

fn read_oauth(path: &Path) -> Option<Map<String, Value>> {
    read_document(path)?.get("claudeAiOauth")?.as_object().cloned()
}

/// The token in the credentials file, renewed when it expires.
#[derive(Debug, Clone)]
pub struct AnthropicTokenFile {
    context: CredentialContext,
    path: PathBuf,
    shown: Arc<Mutex<Option<Secret>>>,
}

impl AnthropicTokenFile {
    pub fn new(context: CredentialContext, path: PathBuf) -> Self {
        Self { context, path, shown: Arc::default() }
    }

    fn cache_token(&self, token: Secret) -> Secret {
        *self.shown.lock().unwrap_or_else(PoisonError::into_inner) = Some(token.clone());
        token
    }

    /// Returns the file's token, unless it has expired or is the refused one; else renews it.
    async fn obtain(&self, refused: Option<Secret>) -> Result<Secret, SignInError> {
        if let Some(token) = self.usable_token(&self.read()?, refused.as_ref()) {
            return Ok(self.cache_token(token));
        }
        let this = self.clone();
        run_detached(async move { this.fetch(refused).await }).await
    }

    async fn fetch(&self, refused: Option<Secret>) -> Result<Secret, SignInError> {
        // Our lock keeps our own processes from using the same refresh token twice.
        let _held = LockedAuthFile::lock(&self.context.auth).await?;
        let oauth = self.read()?;
        if let Some(token) = self.usable_token(&oauth, refused.as_ref()) {
            return Ok(self.cache_token(token));
        }
        let refresh = text(&oauth, "refreshToken").map(Secret::new);
        let refresh =
            refresh.ok_or_else(|| self.sign_in_again_error("its token has run out and cannot be renewed"))?;
        let fresh = match renew(&self.context, &refresh).await {
            Ok(fresh) => fresh,
            Err(TokenRenewalError::Refused) => {
                return Err(self.sign_in_again_error("its token is no longer valid"));
            }
            Err(TokenRenewalError::Failed(error)) => return Err(error),
        };
        let mut fields = Map::new();
        fields.insert("accessToken".to_owned(), Value::from(fresh.access.expose()));
        if let Some(next) = &fresh.refresh {
            fields.insert("refreshToken".to_owned(), Value::from(next.expose()));
        }
        #[expect(clippy::cast_possible_truncation, reason = "milliseconds of our era fit")]
        let until = (fresh.expires_at.seconds() * 1000.0) as i64;
        fields.insert("expiresAt".to_owned(), Value::from(until));
        self.write_back(fields)?;
        Ok(self.cache_token(fresh.access))
    }

    fn read(&self) -> Result<Map<String, Value>, SignInError> {
        read_oauth(&self.path).ok_or_else(|| self.sign_in_again_error("it holds no token"))
    }

    fn usable_token(&self, oauth: &Map<String, Value>, refused: Option<&Secret>) -> Option<Secret> {
        let token = Secret::new(text(oauth, "accessToken")?);
        let fresh = refused != Some(&token) && is_valid_at(oauth, self.context.clock.now());
        fresh.then_some(token)
    }

    /// Replaces the token in the file and nothing else.
    fn write_back(&self, fresh: Map<String, Value>) -> Result<(), SignInError> {
        let mut document = read_document(&self.path).unwrap_or_default();
        match document.get_mut("claudeAiOauth").and_then(Value::as_object_mut) {
            Some(oauth) => oauth.extend(fresh),
            None => {
                document.insert("claudeAiOauth".to_owned(), Value::Object(fresh));
            }
        }
        let bytes =
            serde_json::to_vec_pretty(&document).map_err(|error| SignInError::Storage(error.to_string()))?;
        Ok(write::replace(&self.path, &bytes)?)
    }

    fn sign_in_again_error(&self, why: &str) -> SignInError {
        SignInError::Account(format!(
            "The Anthropic token comes from {}, and {why}. Sign in there again, or set ANTHROPIC_API_KEY.",
            self.path.display()
        ))
    }
}

/// A new pair of tokens.
pub(super) struct TokenPair {
    pub(super) access: Secret,
    /// The new refresh token; absent when the old one stays valid.
    pub(super) refresh: Option<Secret>,
    pub(super) expires_at: Timestamp,
}

/// The reason why a token was not renewed.
pub(super) enum TokenRenewalError {
    /// The server refused permanently.
    Refused,
    Failed(SignInError),
}

/// Sends the renewal to both servers; the second serves accounts that have not been migrated. Not cancellable: the
/// response may contain the only copy of the next refresh token.
pub(super) async fn renew(
    means: &CredentialContext,
    refresh: &Secret,
) -> Result<TokenPair, TokenRenewalError> {
    let mut failure = TokenRenewalError::Refused;
    for url in &means.urls.anthropic_token {
        let body = json!({
            "grant_type": "refresh_token", "refresh_token": refresh.expose(), "client_id": CLIENT,
        });
        match post(means, url, None, TokenRequestBody::Json(body), TIMEOUT, &Cancel::new()).await {
            Ok(reply) if reply.status >= 500 => {
                failure = TokenRenewalError::Failed(reply.failure("Renewing the Anthropic token"));
            }
            Ok(reply) => match reply.secret("access_token").filter(|_| reply.is_success()) {
                Some(access) => {
                    let life = reply.number("expires_in").filter(|s| *s > 0.0).unwrap_or(3_600.0).min(1e9);
                    let until = means.clock.now().plus(Duration::from_secs_f64(life));
                    return Ok(TokenPair {
                        access,
                        refresh: reply.secret("refresh_token"),
                        expires_at: until,
                    });
                }
                None => failure = TokenRenewalError::Refused,
            },
            Err(error) => failure = TokenRenewalError::Failed(error),
        }
    }
    Err(failure)
}

fn is_valid_at(oauth: &Map<String, Value>, now: Timestamp) -> bool {
    let until = oauth.get("expiresAt").and_then(time::read);
    until.is_none_or(|until| until.seconds() > now.plus(RENEWAL_MARGIN).seconds())
}

impl CredentialProvider for AnthropicTokenFile {
    fn current<'a>(
        &'a self,
        _: &'a Cancel,
    ) -> BoxFuture<'a, Result<PresentedCredential, CredentialUnavailable>> {
        Box::pin(async move { Ok(PresentedCredential::Bearer(self.obtain(None).await?)) })
    }

    fn renew<'a>(&'a self, _: &'a Cancel) -> BoxFuture<'a, Result<(), CredentialUnavailable>> {
        Box::pin(async move {
            let shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner).clone();
            Ok(self.obtain(shown).await.map(|_| ())?)
        })
    }

    fn rotate(&self, _: &KeyRefusal) -> bool {
        false
    }

    fn can_renew(&self) -> bool {
        true
    }

    fn has_another(&self) -> bool {
        false
    }
}
