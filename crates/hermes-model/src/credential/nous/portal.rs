//! The portal's four requests, and the meaning of its refusals.

use std::time::Duration;

use hermes_types::{Cancel, Secret};
use serde_json::{Map, Value, json};

use super::super::error::SignInError;
use super::super::http::{TokenRequestBody, TokenResponse, post, text};
use super::super::{CredentialContext, time};
use super::{CLIENT, sign_in_again_error, tls};

pub(super) struct NousPortal {
    /// The context, with the user's TLS settings applied.
    context: CredentialContext,
    base: String,
    client: String,
    timeout: Duration,
}

/// The result of requesting a key.
pub(super) enum MintOutcome {
    /// The fields to store.
    Key(Map<String, Value>),
    /// The access token is no longer accepted, whatever its expiry says.
    TokenRefused,
}

impl NousPortal {
    /// Creates the portal's client; stored settings of the sign-in win over the environment.
    pub(super) fn new(means: &CredentialContext, stored: &Map<String, Value>) -> Result<Self, SignInError> {
        let from_env = || {
            ["HERMES_PORTAL_BASE_URL", "NOUS_PORTAL_BASE_URL"]
                .into_iter()
                .find_map(|name| means.env.get(name))
        };
        let base = text(stored, "portal_base_url").or_else(from_env).unwrap_or(&means.urls.nous_portal);
        let seconds = means.env.number("HERMES_NOUS_TIMEOUT_SECONDS").filter(|seconds| *seconds > 0.0);
        Ok(Self {
            context: tls::apply(means, stored)?,
            base: base.trim().trim_end_matches('/').to_owned(),
            client: text(stored, "client_id").unwrap_or(CLIENT).to_owned(),
            timeout: Duration::from_secs_f64(seconds.unwrap_or(15.0).min(3_600.0)),
        })
    }

    pub(super) fn base(&self) -> &str {
        &self.base
    }

    pub(super) fn client(&self) -> &str {
        &self.client
    }

    /// Returns the remaining lifetime that a stored key must have.
    pub(super) fn min_key_lifetime(&self) -> Duration {
        let seconds = self.context.env.number("HERMES_NOUS_MIN_KEY_TTL_SECONDS").unwrap_or(1_800.0);
        Duration::from_secs_f64(seconds.clamp(60.0, 1e7))
    }

    pub(super) async fn device_code(
        &self,
        scope: &str,
        cancel: &Cancel,
    ) -> Result<TokenResponse, SignInError> {
        let form = [("client_id", self.client.as_str()), ("scope", scope)];
        self.ask("device/code", None, TokenRequestBody::Form(&form), cancel).await
    }

    pub(super) async fn poll(
        &self,
        device_code: &str,
        cancel: &Cancel,
    ) -> Result<TokenResponse, SignInError> {
        let form = [
            ("grant_type", "urn:ietf:params:oauth:grant-type:device_code"),
            ("client_id", self.client.as_str()),
            ("device_code", device_code),
        ];
        self.ask("token", None, TokenRequestBody::Form(&form), cancel).await
    }

    /// Exchanges a refresh token. Not cancellable: the response contains the only copy of the next refresh token.
    pub(super) async fn refresh(&self, token: &Secret) -> Result<Map<String, Value>, SignInError> {
        let form = [
            ("grant_type", "refresh_token"),
            ("client_id", self.client.as_str()),
            ("refresh_token", token.expose()),
        ];
        let reply = self.ask("token", None, TokenRequestBody::Form(&form), &Cancel::new()).await?;
        if reply.is_success() && reply.text("access_token").is_some() {
            return Ok(self.tokens(&reply));
        }
        Err(match reply.refusal().as_str() {
            "invalid_grant" | "invalid_token" | "relogin_required" => {
                sign_in_again_error("The sign-in is no longer valid.")
            }
            _ if matches!(reply.status, 400 | 401) => {
                sign_in_again_error("The portal refused to renew the sign-in.")
            }
            _ => explain(&reply).unwrap_or_else(|| reply.failure("Renewing the sign-in")),
        })
    }

    pub(super) async fn mint(&self, access: &Secret, cancel: &Cancel) -> Result<MintOutcome, SignInError> {
        let body =
            TokenRequestBody::Json(json!({"min_ttl_seconds": self.min_key_lifetime().as_secs().max(60)}));
        let reply = self.ask("agent-key", Some(access), body, cancel).await?;
        if reply.is_success() && reply.text("api_key").is_some() {
            return Ok(MintOutcome::Key(self.key(&reply)));
        }
        match reply.refusal().as_str() {
            "invalid_token" | "invalid_grant" => Ok(MintOutcome::TokenRefused),
            "" if reply.status == 401 => Ok(MintOutcome::TokenRefused),
            _ => Err(explain(&reply).unwrap_or_else(|| reply.failure("Getting a key"))),
        }
    }

    /// Returns the tokens as fields to store.
    pub(super) fn tokens(&self, reply: &TokenResponse) -> Map<String, Value> {
        let now = self.context.clock.now();
        let mut fields = Map::new();
        for name in ["access_token", "refresh_token", "token_type", "scope"] {
            if let Some(value) = reply.text(name) {
                fields.insert(name.to_owned(), Value::from(value));
            }
        }
        fields.insert("obtained_at".to_owned(), Value::from(time::iso(now)));
        // The expiry of the previous token must not stay with the new one.
        let lifetime = reply.number("expires_in").filter(|seconds| *seconds >= 0.0);
        let until = lifetime.map(|seconds| time::iso(now.plus(Duration::from_secs_f64(seconds.min(1e9)))));
        fields.insert("expires_at".to_owned(), until.map_or(Value::Null, Value::from));
        fields.insert("expires_in".to_owned(), reply.fields.get("expires_in").cloned().unwrap_or_default());
        take_inference_url(reply, &mut fields);
        fields
    }

    fn key(&self, reply: &TokenResponse) -> Map<String, Value> {
        let now = self.context.clock.now();
        let mut fields = Map::new();
        let mut put = |name: &str, value: Option<Value>| {
            fields.insert(name.to_owned(), value.unwrap_or_default());
        };
        let lifetime = reply.number("expires_in").filter(|seconds| *seconds >= 0.0);
        let counted = lifetime.map(|seconds| time::iso(now.plus(Duration::from_secs_f64(seconds.min(1e9)))));
        let given = reply.fields.get("expires_at").filter(|value| time::read(value).is_some()).cloned();
        put("agent_key", reply.text("api_key").map(Value::from));
        put("agent_key_id", reply.fields.get("key_id").cloned());
        put("agent_key_expires_at", given.or_else(|| counted.map(Value::from)));
        put("agent_key_expires_in", reply.fields.get("expires_in").cloned());
        put("agent_key_reused", reply.fields.get("reused").cloned());
        put("agent_key_obtained_at", Some(Value::from(time::iso(now))));
        take_inference_url(reply, &mut fields);
        fields
    }

    async fn ask(
        &self,
        what: &str,
        bearer: Option<&Secret>,
        body: TokenRequestBody<'_>,
        cancel: &Cancel,
    ) -> Result<TokenResponse, SignInError> {
        post(&self.context, &format!("{}/api/oauth/{what}", self.base), bearer, body, self.timeout, cancel)
            .await
    }
}

/// Replaces the stored inference URL with one that the portal names.
fn take_inference_url(reply: &TokenResponse, fields: &mut Map<String, Value>) {
    if let Some(url) = reply.text("inference_base_url") {
        fields.insert("inference_base_url".to_owned(), Value::from(url.trim_end_matches('/')));
    }
}

/// Returns errors for refusals that the user can act on.
fn explain(reply: &TokenResponse) -> Option<SignInError> {
    Some(match reply.refusal().as_str() {
        "subscription_required" => SignInError::Account(
            "Your Nous account has no active paid subscription. Choose a plan at portal.nousresearch.com."
                .to_owned(),
        ),
        "insufficient_credits" => SignInError::Account(
            "The credits of your Nous account are used up. Add credits at portal.nousresearch.com."
                .to_owned(),
        ),
        "temporarily_unavailable" => {
            SignInError::TryLater("Nous Portal is unavailable at the moment. Try again shortly.".to_owned())
        }
        "relogin_required" => sign_in_again_error("Nous Portal asks for a new sign-in."),
        _ => return None,
    })
}
