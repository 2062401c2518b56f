//! Nous Portal: a sign-in whose short-lived access token buys a key for inference.
//!
//! Two generations of tokens are in use: older ones mint an agent key, newer ones (scope `inference:invoke`) are
//! themselves the key. Invariant: refresh tokens work once, so a new one is written to `auth.json` before anything else
//! is done with the answer that brought it.

mod login;
mod portal;
mod tls;

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use hermes_types::{BoxFuture, Cancel, Secret, Timestamp};
use serde_json::{Map, Value};

use super::error::SignInError;
use super::http::text;
use super::store::HeldAuth;
use super::whole::to_the_end;
use super::{Means, time, token};
use crate::client::{Credentials, Presented, Refusal, Unavailable};
use portal::{Minted, Portal};

pub use login::Options;
pub(super) use login::login;
pub use tls::Tls;

pub(super) const PROVIDER: &str = "nous";
const CLIENT: &str = "hermes-cli";
const SCOPE: &str = "inference:mint_agent_key";
/// Tokens with this scope are shown to the inference server as they are.
const DIRECT_SCOPE: &str = "inference:invoke";
/// An access token this close to its end is renewed first.
const EARLY: Duration = Duration::from_mins(2);

/// Whether stored state holds something to sign in with.
pub fn is_signed_in(state: &Value) -> bool {
    ["refresh_token", "access_token", "agent_key"]
        .into_iter()
        .any(|name| state.get(name).and_then(Value::as_str).is_some_and(|token| !token.trim().is_empty()))
}

/// Where the portal said inference is.
pub fn stored_inference_url(state: &Value) -> Option<String> {
    let url = state.get("inference_base_url")?.as_str()?.trim().trim_end_matches('/');
    (!url.is_empty()).then(|| url.to_owned())
}

/// The credentials of a Nous sign-in.
#[derive(Debug)]
pub struct Nous {
    means: Means,
    /// The key in use, so that a request does not read the file.
    key: Mutex<Option<AgentKey>>,
}

#[derive(Debug, Clone, PartialEq)]
struct AgentKey {
    key: Secret,
    until: Option<Timestamp>,
}

impl AgentKey {
    fn lasts(&self, now: Timestamp, span: Duration) -> bool {
        self.until.is_some_and(|until| until.seconds() > now.plus(span).seconds())
    }
}

/// Which key will do.
enum Need {
    /// Any that lasts.
    Key,
    /// Not the one that was refused.
    Other(Option<Secret>),
}

impl Nous {
    pub fn new(means: Means) -> Self {
        Self { means, key: Mutex::new(None) }
    }

    fn held(&self) -> Option<AgentKey> {
        self.key.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn hold(&self, key: AgentKey) -> AgentKey {
        *self.key.lock().unwrap_or_else(PoisonError::into_inner) = Some(key.clone());
        key
    }

    async fn current_key(&self, cancel: &Cancel) -> Result<AgentKey, SignInError> {
        if let Some(key) = self.held().filter(|key| key.lasts(self.means.clock.now(), EARLY)) {
            return Ok(key);
        }
        self.fetch(Need::Key, cancel).await
    }

    async fn fetch(&self, need: Need, cancel: &Cancel) -> Result<AgentKey, SignInError> {
        let (means, cancel) = (self.means.clone(), cancel.clone());
        to_the_end(async move { obtain(&means, need, &cancel).await }).await.map(|key| self.hold(key))
    }

    async fn another_key(&self, cancel: &Cancel) -> Result<AgentKey, SignInError> {
        let refused = self.held().map(|key| key.key);
        self.fetch(Need::Other(refused), cancel).await
    }
}

impl Credentials for Nous {
    fn current<'a>(&'a self, cancel: &'a Cancel) -> BoxFuture<'a, Result<Presented, Unavailable>> {
        Box::pin(async move { Ok(Presented::Bearer(self.current_key(cancel).await?.key)) })
    }

    fn renew<'a>(&'a self, cancel: &'a Cancel) -> BoxFuture<'a, Result<(), Unavailable>> {
        Box::pin(async move { Ok(self.another_key(cancel).await.map(|_| ())?) })
    }

    fn rotate(&self, _: &Refusal) -> bool {
        false
    }

    fn can_renew(&self) -> bool {
        true
    }

    fn has_another(&self) -> bool {
        false
    }
}

/// A key from the file, or a new one; other tasks and processes wait meanwhile and then find it there.
async fn obtain(means: &Means, need: Need, cancel: &Cancel) -> Result<AgentKey, SignInError> {
    let held = HeldAuth::take(&means.auth).await?;
    let mut state = Session::read(&held).await?;
    let portal = Portal::new(means, &state.fields)?;
    let now = means.clock.now();
    if let Some(key) = state.key() {
        let enough = match &need {
            Need::Key => key.lasts(now, portal.least_life()),
            // Somebody else has renewed it since.
            Need::Other(refused) => {
                refused.as_ref().is_some_and(|old| *old != key.key) && key.lasts(now, EARLY)
            }
        };
        if enough {
            return Ok(key);
        }
    }
    if state.is_direct() {
        let fresh = matches!(need, Need::Key) && state.access_lasts(now, EARLY);
        if !fresh {
            state.refresh(&held, &portal).await?;
        }
        return state.mirror(&held).await;
    }
    if !state.access_lasts(now, EARLY) {
        state.refresh(&held, &portal).await?;
        if state.is_direct() {
            return state.mirror(&held).await;
        }
    }
    let minted = match portal.mint(&state.access()?, cancel).await? {
        Minted::Key(fields) => fields,
        Minted::TokenRefused => {
            state.refresh(&held, &portal).await?;
            match portal.mint(&state.access()?, cancel).await? {
                Minted::Key(fields) => fields,
                Minted::TokenRefused => return Err(again("The portal no longer accepts this sign-in.")),
            }
        }
    };
    state.save(&held, minted).await?;
    state
        .key()
        .ok_or_else(|| SignInError::TryLater("The portal sent no usable key. Try again shortly.".to_owned()))
}

/// New tokens for a stored pair, as fields to store with it.
pub(super) async fn renew_tokens(
    means: &Means,
    stored: &Map<String, Value>,
    refresh: &Secret,
) -> Result<Map<String, Value>, SignInError> {
    Portal::new(means, stored)?.refresh(refresh).await
}

/// A key for stored tokens, as fields to store with them; `None` where the token is itself the key.
pub(super) async fn buy_key(
    means: &Means,
    stored: &Map<String, Value>,
) -> Result<Option<Map<String, Value>>, SignInError> {
    let session = Session { fields: stored.clone() };
    if session.is_direct() {
        return Ok(None);
    }
    match Portal::new(means, stored)?.mint(&session.access()?, &Cancel::new()).await? {
        Minted::Key(fields) => Ok(Some(fields)),
        Minted::TokenRefused => Err(again("The portal no longer accepts this sign-in.")),
    }
}

fn again(why: &str) -> SignInError {
    SignInError::SignInAgain { provider: "Nous Portal", why: why.to_owned() }
}

/// The stored sign-in, kept in step with the file.
struct Session {
    fields: Map<String, Value>,
}

impl Session {
    async fn read(held: &HeldAuth) -> Result<Self, SignInError> {
        let auth = held.read().await?;
        match auth.provider(PROVIDER) {
            Some(state @ Value::Object(fields)) if is_signed_in(state) => Ok(Self { fields: fields.clone() }),
            _ => Err(again("You are not signed in to Nous Portal.")),
        }
    }

    fn is_direct(&self) -> bool {
        text(&self.fields, "scope")
            .is_some_and(|scope| scope.split_whitespace().any(|one| one == DIRECT_SCOPE))
    }

    fn access(&self) -> Result<Secret, SignInError> {
        text(&self.fields, "access_token")
            .map(Secret::new)
            .ok_or_else(|| again("The sign-in holds no access token."))
    }

    fn access_until(&self) -> Option<Timestamp> {
        let stored = self.fields.get("expires_at").and_then(time::read);
        stored.or_else(|| token::expiry(text(&self.fields, "access_token")?))
    }

    fn access_lasts(&self, now: Timestamp, span: Duration) -> bool {
        let has_token = text(&self.fields, "access_token").is_some();
        match self.access_until() {
            Some(until) => has_token && until.seconds() > now.plus(span).seconds(),
            // Without a date, try it only if there is no way to a dated one.
            None => has_token && text(&self.fields, "refresh_token").is_none(),
        }
    }

    fn key(&self) -> Option<AgentKey> {
        let key = Secret::new(text(&self.fields, "agent_key")?);
        let until = self.fields.get("agent_key_expires_at").and_then(time::read);
        Some(AgentKey { until: until.or_else(|| token::expiry(key.expose())), key })
    }

    /// Exchanges the refresh token and writes its successor down at once.
    async fn refresh(&mut self, held: &HeldAuth, portal: &Portal) -> Result<(), SignInError> {
        let refresh = text(&self.fields, "refresh_token").map(Secret::new);
        let refresh = refresh.ok_or_else(|| again("The sign-in has run out and cannot be renewed."))?;
        let fields = portal.refresh(&refresh).await?;
        self.save(held, fields).await
    }

    /// A token that is itself the key is also stored where older releases look for one.
    async fn mirror(&mut self, held: &HeldAuth) -> Result<AgentKey, SignInError> {
        let access = self.access()?;
        let until = self.access_until();
        let mut fields = Map::new();
        fields.insert("agent_key".to_owned(), Value::from(access.expose()));
        fields.insert(
            "agent_key_expires_at".to_owned(),
            until.map_or(Value::Null, |at| Value::from(time::iso(at))),
        );
        self.save(held, fields).await?;
        Ok(AgentKey { key: access, until })
    }

    async fn save(&mut self, held: &HeldAuth, changed: Map<String, Value>) -> Result<(), SignInError> {
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
