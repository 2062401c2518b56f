//! Nous Portal: a sign-in whose short-lived access token obtains a key for inference.
//!
//! Two generations of tokens are in use: older ones mint an agent key, newer ones (scope `inference:invoke`) are
//! themselves the key. Invariant: refresh tokens work once, so a new one is written to `auth.json` before the rest
//! of its response is used.

mod login;
mod portal;
mod tls;

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use hermes_types::{BoxFuture, Cancel, Secret, Timestamp};
use serde_json::{Map, Value};

use super::detached::run_detached;
use super::error::SignInError;
use super::http::text;
use super::locked_auth_file::LockedAuthFile;
use super::{CredentialContext, time, token};
use crate::client::{CredentialProvider, CredentialUnavailable, KeyRefusal, PresentedCredential};
use portal::{MintOutcome, NousPortal};

pub use login::NousLoginOptions;
pub(super) use login::login;
pub use tls::TlsOverrides;

pub(super) const PROVIDER: &str = "nous";
const CLIENT: &str = "hermes-cli";
const SCOPE: &str = "inference:mint_agent_key";
/// The scope of tokens that are sent to the inference server directly.
const DIRECT_SCOPE: &str = "inference:invoke";
/// The remaining lifetime below which an access token is renewed before use.
const RENEWAL_MARGIN: Duration = Duration::from_mins(2);

/// Tells whether stored state contains a usable sign-in.
pub fn is_signed_in(state: &Value) -> bool {
    ["refresh_token", "access_token", "agent_key"]
        .into_iter()
        .any(|name| state.get(name).and_then(Value::as_str).is_some_and(|token| !token.trim().is_empty()))
}

/// Returns the inference URL that the portal named.
pub fn stored_inference_url(state: &Value) -> Option<String> {
    let url = state.get("inference_base_url")?.as_str()?.trim().trim_end_matches('/');
    (!url.is_empty()).then(|| url.to_owned())
}

/// The credentials of a Nous sign-in.
#[derive(Debug)]
pub struct NousCredentials {
    context: CredentialContext,
    /// The key in use, so that a request does not read the file.
    key: Mutex<Option<AgentKey>>,
}

#[derive(Debug, Clone, PartialEq)]
struct AgentKey {
    key: Secret,
    expires_at: Option<Timestamp>,
}

impl AgentKey {
    fn is_valid_for(&self, now: Timestamp, span: Duration) -> bool {
        self.expires_at.is_some_and(|until| until.seconds() > now.plus(span).seconds())
    }
}

/// The keys that are acceptable.
enum KeyRequirement {
    /// Any key that has not expired.
    Key,
    /// Any key but the one that was refused.
    Other(Option<Secret>),
}

impl NousCredentials {
    pub fn new(context: CredentialContext) -> Self {
        Self { context, key: Mutex::new(None) }
    }

    fn cached_key(&self) -> Option<AgentKey> {
        self.key.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn cache_key(&self, key: AgentKey) -> AgentKey {
        *self.key.lock().unwrap_or_else(PoisonError::into_inner) = Some(key.clone());
        key
    }

    async fn current_key(&self, cancel: &Cancel) -> Result<AgentKey, SignInError> {
        if let Some(key) =
            self.cached_key().filter(|key| key.is_valid_for(self.context.clock.now(), RENEWAL_MARGIN))
        {
            return Ok(key);
        }
        self.fetch(KeyRequirement::Key, cancel).await
    }

    async fn fetch(&self, need: KeyRequirement, cancel: &Cancel) -> Result<AgentKey, SignInError> {
        let (means, cancel) = (self.context.clone(), cancel.clone());
        run_detached(async move { obtain(&means, need, &cancel).await }).await.map(|key| self.cache_key(key))
    }

    async fn another_key(&self, cancel: &Cancel) -> Result<AgentKey, SignInError> {
        let refused = self.cached_key().map(|key| key.key);
        self.fetch(KeyRequirement::Other(refused), cancel).await
    }
}

impl CredentialProvider for NousCredentials {
    fn current<'a>(
        &'a self,
        cancel: &'a Cancel,
    ) -> BoxFuture<'a, Result<PresentedCredential, CredentialUnavailable>> {
        Box::pin(async move { Ok(PresentedCredential::Bearer(self.current_key(cancel).await?.key)) })
    }

    fn renew<'a>(&'a self, cancel: &'a Cancel) -> BoxFuture<'a, Result<(), CredentialUnavailable>> {
        Box::pin(async move { Ok(self.another_key(cancel).await.map(|_| ())?) })
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

/// Returns a key from the file, or a new one; other tasks and processes wait meanwhile and then find it there.
async fn obtain(
    means: &CredentialContext,
    need: KeyRequirement,
    cancel: &Cancel,
) -> Result<AgentKey, SignInError> {
    let held = LockedAuthFile::lock(&means.auth).await?;
    let mut state = StoredSignIn::read(&held).await?;
    let portal = NousPortal::new(means, &state.fields)?;
    let now = means.clock.now();
    if let Some(key) = state.key() {
        let enough = match &need {
            KeyRequirement::Key => key.is_valid_for(now, portal.min_key_lifetime()),
            // Another task or process has renewed it since.
            KeyRequirement::Other(refused) => {
                refused.as_ref().is_some_and(|old| *old != key.key) && key.is_valid_for(now, RENEWAL_MARGIN)
            }
        };
        if enough {
            return Ok(key);
        }
    }
    if state.is_direct() {
        let fresh = matches!(need, KeyRequirement::Key) && state.is_access_valid(now, RENEWAL_MARGIN);
        if !fresh {
            state.refresh(&held, &portal).await?;
        }
        return state.mirror(&held).await;
    }
    if !state.is_access_valid(now, RENEWAL_MARGIN) {
        state.refresh(&held, &portal).await?;
        if state.is_direct() {
            return state.mirror(&held).await;
        }
    }
    let minted = match portal.mint(&state.access()?, cancel).await? {
        MintOutcome::Key(fields) => fields,
        MintOutcome::TokenRefused => {
            state.refresh(&held, &portal).await?;
            match portal.mint(&state.access()?, cancel).await? {
                MintOutcome::Key(fields) => fields,
                MintOutcome::TokenRefused => {
                    return Err(sign_in_again_error("The portal no longer accepts this sign-in."));
                }
            }
        }
    };
    state.save(&held, minted).await?;
    state
        .key()
        .ok_or_else(|| SignInError::TryLater("The portal sent no usable key. Try again shortly.".to_owned()))
}

/// Renews a stored pair of tokens; returns the fields to store.
pub(super) async fn renew_tokens(
    means: &CredentialContext,
    stored: &Map<String, Value>,
    refresh: &Secret,
) -> Result<Map<String, Value>, SignInError> {
    NousPortal::new(means, stored)?.refresh(refresh).await
}

/// Mints a key for stored tokens; returns the fields to store, or `None` where the token is itself the key.
pub(super) async fn mint_key(
    means: &CredentialContext,
    stored: &Map<String, Value>,
) -> Result<Option<Map<String, Value>>, SignInError> {
    let session = StoredSignIn { fields: stored.clone() };
    if session.is_direct() {
        return Ok(None);
    }
    match NousPortal::new(means, stored)?.mint(&session.access()?, &Cancel::new()).await? {
        MintOutcome::Key(fields) => Ok(Some(fields)),
        MintOutcome::TokenRefused => Err(sign_in_again_error("The portal no longer accepts this sign-in.")),
    }
}

fn sign_in_again_error(why: &str) -> SignInError {
    SignInError::SignInAgain { provider: "Nous Portal", why: why.to_owned() }
}

/// The stored sign-in, kept in sync with the file.
struct StoredSignIn {
    fields: Map<String, Value>,
}

impl StoredSignIn {
    async fn read(held: &LockedAuthFile) -> Result<Self, SignInError> {
        let auth = held.read().await?;
        match auth.provider(PROVIDER) {
            Some(state @ Value::Object(fields)) if is_signed_in(state) => Ok(Self { fields: fields.clone() }),
            _ => Err(sign_in_again_error("You are not signed in to Nous Portal.")),
        }
    }

    fn is_direct(&self) -> bool {
        text(&self.fields, "scope")
            .is_some_and(|scope| scope.split_whitespace().any(|one| one == DIRECT_SCOPE))
    }

    fn access(&self) -> Result<Secret, SignInError> {
        text(&self.fields, "access_token")
            .map(Secret::new)
            .ok_or_else(|| sign_in_again_error("The sign-in holds no access token."))
    }

    fn access_until(&self) -> Option<Timestamp> {
        let stored = self.fields.get("expires_at").and_then(time::read);
        stored.or_else(|| token::expiry(text(&self.fields, "access_token")?))
    }

    fn is_access_valid(&self, now: Timestamp, span: Duration) -> bool {
        let has_token = text(&self.fields, "access_token").is_some();
        match self.access_until() {
            Some(until) => has_token && until.seconds() > now.plus(span).seconds(),
            // A token without an expiry is used only if it cannot be refreshed.
            None => has_token && text(&self.fields, "refresh_token").is_none(),
        }
    }

    fn key(&self) -> Option<AgentKey> {
        let key = Secret::new(text(&self.fields, "agent_key")?);
        let until = self.fields.get("agent_key_expires_at").and_then(time::read);
        Some(AgentKey { expires_at: until.or_else(|| token::expiry(key.expose())), key })
    }

    /// Exchanges the refresh token and stores its successor at once.
    async fn refresh(&mut self, held: &LockedAuthFile, portal: &NousPortal) -> Result<(), SignInError> {
        let refresh = text(&self.fields, "refresh_token").map(Secret::new);
        let refresh =
            refresh.ok_or_else(|| sign_in_again_error("The sign-in has run out and cannot be renewed."))?;
        let fields = portal.refresh(&refresh).await?;
        self.save(held, fields).await
    }

    /// Stores a token that is itself the key also where older releases look for one.
    async fn mirror(&mut self, held: &LockedAuthFile) -> Result<AgentKey, SignInError> {
        let access = self.access()?;
        let until = self.access_until();
        let mut fields = Map::new();
        fields.insert("agent_key".to_owned(), Value::from(access.expose()));
        fields.insert(
            "agent_key_expires_at".to_owned(),
            until.map_or(Value::Null, |at| Value::from(time::iso(at))),
        );
        self.save(held, fields).await?;
        Ok(AgentKey { key: access, expires_at: until })
    }

    async fn save(&mut self, held: &LockedAuthFile, changed: Map<String, Value>) -> Result<(), SignInError> {
        self.fields.extend(changed.clone());
        held.update(move |auth| {
            let mut state = match auth.provider(PROVIDER) {
                Some(Value::Object(fields)) => fields.clone(),
                _ => Map::new(),
            };
            state.extend(changed);
            auth.set_provider(PROVIDER, Value::Object(state));
        })
        .await
    }
}
