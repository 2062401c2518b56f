//! OpenAI's Codex sign-in.
//!
//! Tokens are stored in `auth.json`. Those of OpenAI's own client may be copied from its file once, when we have
//! none; that file is never written. Refresh tokens work once, so each new one is on disk before it is used.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hermes_config::{Env, expand_tilde, user_home};
use hermes_types::{BoxFuture, Cancel, Secret, Timestamp};
use serde_json::{Map, Value, json};

use super::detached::run_detached;
use super::device::{DeviceCode, DeviceCodeFormat, SignInListener, SignInProgress, missing_field_error};
use super::error::SignInError;
use super::http::{TokenRequestBody, TokenResponse, post, text};
use super::{CredentialContext, LockedAuthFile, time, token};
use crate::client::{CredentialProvider, CredentialUnavailable, KeyRefusal, PresentedCredential};

pub(super) const PROVIDER: &str = "openai-codex";
const CLIENT: &str = "app_EMoamEEZ73f0CkXaXp7hrann";
const RENEWAL_MARGIN: Duration = Duration::from_mins(2);
/// The time in which the user must confirm a code.
const CODE_LIFETIME: Duration = Duration::from_mins(15);

/// Tells whether stored state contains tokens.
pub fn is_signed_in(state: &Value) -> bool {
    let has = |name: &str| {
        state
            .get("tokens")
            .and_then(|tokens| tokens.get(name)?.as_str())
            .is_some_and(|text| !text.trim().is_empty())
    };
    has("access_token") || has("refresh_token")
}

/// Tells whether the file of OpenAI's own client contains tokens that can be copied.
pub fn can_import(env: &Env) -> bool {
    foreign_tokens(env).is_some()
}

fn foreign_tokens(env: &Env) -> Option<Map<String, Value>> {
    let folder: PathBuf = match env.get("CODEX_HOME") {
        Some(given) => expand_tilde(given, env).ok()?,
        None => user_home(env).ok()?.join(".codex"),
    };
    let bytes = std::fs::read(folder.join("auth.json")).ok()?;
    let file: Value = serde_json::from_slice(&bytes).ok()?;
    let tokens = file.get("tokens")?.as_object()?;
    let mut copied = Map::new();
    for name in ["access_token", "refresh_token"] {
        copied.insert(name.to_owned(), Value::from(text(tokens, name)?));
    }
    Some(copied)
}

/// The credentials of a Codex sign-in.
#[derive(Debug, Clone)]
pub struct CodexCredentials {
    context: CredentialContext,
    access: Arc<Mutex<Option<Secret>>>,
}

impl CodexCredentials {
    pub fn new(context: CredentialContext) -> Self {
        Self { context, access: Arc::default() }
    }

    fn cached_token(&self) -> Option<Secret> {
        self.access.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn cache_token(&self, token: Secret) -> Secret {
        *self.access.lock().unwrap_or_else(PoisonError::into_inner) = Some(token.clone());
        token
    }

    /// Returns the token in use, or one from the file; renews it when it is about to expire or is the refused one.
    async fn obtain(&self, refused: Option<Secret>) -> Result<Secret, SignInError> {
        let now = self.context.clock.now();
        let known = self.cached_token().filter(|token| refused.is_none() && is_valid_at(token, now));
        if let Some(token) = known {
            return Ok(token);
        }
        let this = self.clone();
        run_detached(async move { this.fetch(refused, now).await }).await
    }

    async fn fetch(&self, refused: Option<Secret>, now: Timestamp) -> Result<Secret, SignInError> {
        let held = LockedAuthFile::lock(&self.context.auth).await?;
        let auth = held.read().await?;
        let stored = auth.provider(PROVIDER).filter(|state| is_signed_in(state));
        let tokens = stored.and_then(|state| state.get("tokens")?.as_object()).cloned();
        let tokens = match tokens {
            Some(tokens) => tokens,
            None => self.import(&held).await?,
        };
        let access = text(&tokens, "access_token").map(Secret::new);
        if let Some(access) =
            access.filter(|token| is_valid_at(token, now) && refused.as_ref() != Some(token))
        {
            return Ok(self.cache_token(access));
        }
        let refresh = text(&tokens, "refresh_token").map(Secret::new);
        let refresh = refresh
            .ok_or_else(|| sign_in_again_error("The Codex sign-in has run out and cannot be renewed."))?;
        let fresh = renew(&self.context, &refresh).await?;
        let access = text(&fresh, "access_token").map(Secret::new);
        save(&self.context, &held, fresh).await?;
        access
            .map(|token| self.cache_token(token))
            .ok_or_else(|| sign_in_again_error("The renewed sign-in holds no token."))
    }

    async fn import(&self, held: &LockedAuthFile) -> Result<Map<String, Value>, SignInError> {
        let tokens = foreign_tokens(&self.context.env)
            .ok_or_else(|| sign_in_again_error("You are not signed in to Codex."))?;
        save(&self.context, held, tokens.clone()).await?;
        tracing::info!("copied the Codex sign-in of another program");
        Ok(tokens)
    }
}

/// Tells whether a token is valid at a time; one without an expiry counts as valid.
fn is_valid_at(token: &Secret, now: Timestamp) -> bool {
    token::expiry(token.expose()).is_none_or(|until| until.seconds() > now.plus(RENEWAL_MARGIN).seconds())
}

fn sign_in_again_error(why: &str) -> SignInError {
    SignInError::SignInAgain { provider: "OpenAI Codex", why: why.to_owned() }
}

impl CredentialProvider for CodexCredentials {
    fn current<'a>(
        &'a self,
        _: &'a Cancel,
    ) -> BoxFuture<'a, Result<PresentedCredential, CredentialUnavailable>> {
        Box::pin(async move { Ok(PresentedCredential::Bearer(self.obtain(None).await?)) })
    }

    fn renew<'a>(&'a self, _: &'a Cancel) -> BoxFuture<'a, Result<(), CredentialUnavailable>> {
        Box::pin(async move {
            let refused = self.cached_token().unwrap_or_else(|| Secret::new(String::new()));
            Ok(self.obtain(Some(refused)).await.map(|_| ())?)
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

/// Renews the tokens. Not cancellable: the response contains the only copy of the next refresh token.
pub(super) async fn renew(
    means: &CredentialContext,
    refresh: &Secret,
) -> Result<Map<String, Value>, SignInError> {
    let form = [("grant_type", "refresh_token"), ("refresh_token", refresh.expose()), ("client_id", CLIENT)];
    let reply = ask(means, "/oauth/token", TokenRequestBody::Form(&form), &Cancel::new()).await?;
    if reply.is_success() && reply.text("access_token").is_some() {
        return Ok(tokens(&reply));
    }
    Err(match reply.refusal().as_str() {
        "invalid_grant" | "invalid_token" | "invalid_request" => {
            sign_in_again_error("The Codex sign-in is no longer valid.")
        }
        _ if reply.status == 401 => sign_in_again_error("The Codex sign-in is no longer valid."),
        _ => reply.failure("Renewing the Codex sign-in"),
    })
}

fn tokens(reply: &TokenResponse) -> Map<String, Value> {
    let kept = ["access_token", "refresh_token"];
    kept.into_iter().filter_map(|name| Some((name.to_owned(), Value::from(reply.text(name)?)))).collect()
}

/// Stores tokens; if the server sends no new refresh token, the old one stays.
async fn save(
    means: &CredentialContext,
    held: &LockedAuthFile,
    tokens: Map<String, Value>,
) -> Result<(), SignInError> {
    let now = time::iso(means.clock.now());
    held.update(move |auth| {
        let mut state = match auth.provider(PROVIDER) {
            Some(Value::Object(fields)) => fields.clone(),
            _ => Map::new(),
        };
        let mut known = state.get("tokens").and_then(Value::as_object).cloned().unwrap_or_default();
        known.extend(tokens);
        state.insert("tokens".to_owned(), Value::Object(known));
        state.insert("last_refresh".to_owned(), Value::from(now));
        state.entry("auth_mode").or_insert_with(|| Value::from("chatgpt"));
        auth.set_provider(PROVIDER, Value::Object(state));
    })
    .await
}

async fn ask(
    means: &CredentialContext,
    path: &str,
    body: TokenRequestBody<'_>,
    cancel: &Cancel,
) -> Result<TokenResponse, SignInError> {
    let given = means.env.number("HERMES_CODEX_REFRESH_TIMEOUT_SECONDS").filter(|seconds| *seconds > 0.0);
    let patience = Duration::from_secs_f64(given.unwrap_or(20.0).min(3_600.0));
    post(means, &format!("{}{path}", means.urls.codex_issuer), None, body, patience, cancel).await
}

/// Shows a code, waits until it is confirmed, and stores the tokens.
pub(super) async fn login(
    means: &CredentialContext,
    listener: SignInListener<'_>,
    cancel: &Cancel,
) -> Result<(), SignInError> {
    let issuer = &means.urls.codex_issuer;
    let begun = ask(
        means,
        "/api/accounts/deviceauth/usercode",
        TokenRequestBody::Json(json!({"client_id": CLIENT})),
        cancel,
    )
    .await?;
    let shape = DeviceCodeFormat {
        device: "device_auth_id",
        page: Some(format!("{issuer}/codex/device")),
        lifetime: Some(CODE_LIFETIME),
        poll_interval_bounds: (Duration::from_secs(3), Duration::from_mins(1)),
    };
    let code = DeviceCode::show(&begun, &shape, listener)?;
    let rhythm = code.poller(&*means.clock, Duration::ZERO);
    let grant = loop {
        rhythm.wait(cancel).await?;
        let body = TokenRequestBody::Json(json!({"device_auth_id": code.device, "user_code": code.user}));
        let reply = ask(means, "/api/accounts/deviceauth/token", body, cancel).await?;
        match reply.status {
            200 => break reply,
            403 | 404 => {}
            _ => return Err(reply.failure("The sign-in")),
        }
    };
    listener(SignInProgress::Confirmed);
    let authorization =
        grant.text("authorization_code").ok_or_else(|| missing_field_error("authorization_code"))?;
    let verifier = grant.text("code_verifier").ok_or_else(|| missing_field_error("code_verifier"))?;
    let callback = format!("{issuer}/deviceauth/callback");
    let form = [
        ("grant_type", "authorization_code"),
        ("code", authorization),
        ("redirect_uri", callback.as_str()),
        ("client_id", CLIENT),
        ("code_verifier", verifier),
    ];
    let reply = ask(means, "/oauth/token", TokenRequestBody::Form(&form), cancel).await?;
    if !reply.is_success() || reply.text("access_token").is_none() {
        return Err(reply.failure("The sign-in"));
    }
    let held = LockedAuthFile::lock(&means.auth).await?;
    save(means, &held, tokens(&reply)).await?;
    held.update(|auth| auth.set_active_provider(Some(PROVIDER))).await
}
