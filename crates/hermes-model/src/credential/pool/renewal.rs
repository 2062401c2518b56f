//! Renewal of the tokens in a pool.
//!
//! Runs under the lock of `auth.json`, because a refresh token works once: a second process finds what the first
//! has written.

use hermes_types::{Secret, Timestamp};
use serde_json::{Map, Value};

use super::super::detached::run_detached;
use super::super::error::SignInError;
use super::super::http::text;
use super::super::locked_auth_file::LockedAuthFile;
use super::super::{CredentialContext, anthropic, codex, nous, time, token};
use super::RENEWAL_MARGIN;
use super::change_entry;
use super::pooled_key::PooledKey;

/// The reason why a key was not renewed.
#[derive(Debug)]
pub(super) enum KeyRenewalError {
    /// The user has to sign in again.
    Permanent,
    Temporary(SignInError),
}

impl From<SignInError> for KeyRenewalError {
    fn from(error: SignInError) -> Self {
        match error {
            SignInError::SignInAgain { .. } => Self::Permanent,
            other => Self::Temporary(other),
        }
    }
}

/// Tells whether the renewal server of a pool's tokens is known.
pub(super) fn can_renew_pool(pool: &str) -> bool {
    matches!(pool, codex::PROVIDER | nous::PROVIDER | "anthropic")
}

type RenewedKey = (Secret, Option<Timestamp>);

/// Returns the renewed key, or the one that another process has stored already.
pub(super) async fn renew(
    means: &CredentialContext,
    pool: &str,
    old: &PooledKey,
) -> Result<RenewedKey, KeyRenewalError> {
    let Some(id) = old.id.clone() else { return Err(KeyRenewalError::Permanent) };
    let (means, pool, old) = (means.clone(), pool.to_owned(), old.key.clone());
    let lost = run_detached(async move { Ok(exchange(&means, &pool, &id, &old).await) }).await;
    lost.map_err(KeyRenewalError::Temporary)?
}

async fn exchange(
    means: &CredentialContext,
    pool: &str,
    id: &str,
    old: &Secret,
) -> Result<RenewedKey, KeyRenewalError> {
    let held = LockedAuthFile::lock(&means.auth).await?;
    let auth = held.read().await?;
    let entry =
        auth.credential_pool(pool).iter().find(|entry| entry.get("id").and_then(Value::as_str) == Some(id));
    let Some(Value::Object(entry)) = entry else { return Err(KeyRenewalError::Permanent) };
    let current = PooledKey::read(&Value::Object(entry.clone()));
    let soon = means.clock.now().plus(RENEWAL_MARGIN);
    if let Some(current) = current.filter(|member| member.key != *old && member.is_valid_at(soon)) {
        return Ok((current.key, current.expires_at));
    }
    let Some(refresh) = text(entry, "refresh_token").map(Secret::new) else {
        return Err(KeyRenewalError::Permanent);
    };
    let asked = ask(means, pool, entry, &refresh).await;
    let now = means.clock.now();
    let changed: Map<String, Value> = match &asked {
        Ok(fields) => fields
            .clone()
            .into_iter()
            .chain([
                ("last_status".to_owned(), Value::from("ok")),
                ("last_status_at".to_owned(), Value::from(now.seconds())),
            ])
            .collect(),
        Err(KeyRenewalError::Permanent) => [
            ("last_status", Value::from("dead")),
            ("last_status_at", Value::from(now.seconds())),
            ("last_error_code", Value::from(401)),
            ("last_error_reason", Value::from("invalid_grant")),
        ]
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value))
        .collect(),
        Err(KeyRenewalError::Temporary(_)) => Map::new(),
    };
    if !changed.is_empty() {
        let (pool, id) = (pool.to_owned(), id.to_owned());
        held.update(move |auth| change_entry(auth, &pool, &id, |entry| entry.extend(changed))).await?;
    }
    let fields = asked?;
    if pool == nous::PROVIDER {
        let mut stored = entry.clone();
        stored.extend(fields.clone());
        if let Some(bought) = nous::mint_key(means, &stored).await? {
            let key = text(&bought, "agent_key").map(Secret::new).ok_or(KeyRenewalError::Permanent)?;
            let until = bought.get("agent_key_expires_at").and_then(time::read);
            let (pool, id) = (pool.to_owned(), id.to_owned());
            held.update(move |auth| change_entry(auth, &pool, &id, |entry| entry.extend(bought))).await?;
            return Ok((key, until));
        }
    }
    let access = text(&fields, "access_token").map(Secret::new).ok_or(KeyRenewalError::Permanent)?;
    let until = fields.get("expires_at").and_then(time::read).or_else(|| token::expiry(access.expose()));
    Ok((access, until))
}

/// Requests new tokens; returns them as fields of the entry.
async fn ask(
    means: &CredentialContext,
    pool: &str,
    entry: &Map<String, Value>,
    refresh: &Secret,
) -> Result<Map<String, Value>, KeyRenewalError> {
    match pool {
        codex::PROVIDER => {
            let mut fields = codex::renew(means, refresh).await?;
            let until = text(&fields, "access_token").and_then(token::expiry);
            fields
                .insert("expires_at".to_owned(), until.map_or(Value::Null, |at| Value::from(time::iso(at))));
            Ok(fields)
        }
        nous::PROVIDER => Ok(nous::renew_tokens(means, entry, refresh).await?),
        _ => match anthropic::renew(means, refresh).await {
            Ok(fresh) => {
                let mut fields = Map::new();
                fields.insert("access_token".to_owned(), Value::from(fresh.access.expose()));
                if let Some(next) = &fresh.refresh {
                    fields.insert("refresh_token".to_owned(), Value::from(next.expose()));
                }
                fields.insert("expires_at".to_owned(), Value::from(time::iso(fresh.expires_at)));
                Ok(fields)
            }
            Err(anthropic::TokenRenewalError::Refused) => Err(KeyRenewalError::Permanent),
            Err(anthropic::TokenRenewalError::Failed(error)) => Err(KeyRenewalError::Temporary(error)),
        },
    }
}
