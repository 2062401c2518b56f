//! Several keys for one provider, with their cooldowns.
//!
//! The pool is stored in `credential_pool` of `auth.json` and shared with other releases: entries are changed field
//! by field, never rewritten. A key that was itself refused cools down for a while; one marked dead stays so until
//! the user signs in again. A key is sent only to the host it was stored for, and a renewed one is on disk before
//! it is used.

mod pooled_key;
mod renewal;

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hermes_config::Config;
use hermes_config::auth::{AuthFile, AuthState};
use hermes_types::{BoxFuture, Cancel, Secret, Timestamp, random_hex};
use serde_json::{Map, Value};

use super::locked_auth_file::{ThreadResult, run_on_thread};
use super::{CredentialContext, present_key};
use crate::client::{CredentialProvider, CredentialUnavailable, KeyRefusal, PresentedCredential};
use crate::wire::{ApiMode, FailureCause};
use pooled_key::{HOUR, KeyCooldown, PooledKey, REFUSAL_COOLDOWN, RenewalSupport};
use renewal::{KeyRenewalError, renew};

/// The remaining lifetime below which a token is renewed before use.
const RENEWAL_MARGIN: Duration = Duration::from_mins(2);

/// Selects the next key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PoolStrategy {
    /// The first key that is not cooling down.
    #[default]
    FillFirst,
    RoundRobin,
    Random,
    LeastUsed,
}

impl PoolStrategy {
    /// Reads `credential_pool_strategies.{provider}`.
    pub fn from_config(config: &Config, name: &str) -> Self {
        let chosen = config.map("credential_pool_strategies");
        match chosen.get(name).and_then(hermes_config::yaml::YamlValue::as_str).map(str::trim) {
            Some("round_robin") => Self::RoundRobin,
            Some("random") => Self::Random,
            Some("least_used") => Self::LeastUsed,
            _ => Self::FillFirst,
        }
    }
}

/// Names a pool and the endpoint it is used for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolSpec {
    /// A provider id, or `custom:{name}`.
    pub name: String,
    /// The host that the keys will be sent to.
    pub host: String,
    pub strategy: PoolStrategy,
    /// The wire, which decides the form of a key.
    pub mode: ApiMode,
    /// A key from another source that is used too, but never stored.
    pub extra_key: Option<Secret>,
}

/// Tells whether a pool contains a key that is not dead.
pub fn has_pool(auth: &AuthState, name: &str) -> bool {
    auth.credential_pool(name)
        .iter()
        .filter_map(PooledKey::read)
        .any(|member| member.cooldown != KeyCooldown::Dead)
}

/// The pool of one endpoint.
#[derive(Debug)]
pub struct CredentialPool {
    spec: PoolSpec,
    context: CredentialContext,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    members: Vec<PooledKey>,
    in_use: Option<usize>,
    /// Writes in progress; the next request waits for them, so that what it reads is on disk.
    saving: Vec<ThreadResult<()>>,
}

impl CredentialPool {
    pub fn open(means: &CredentialContext, spec: PoolSpec) -> Self {
        let stored = means.auth.read();
        let mut members: Vec<PooledKey> =
            stored.credential_pool(&spec.name).iter().filter_map(PooledKey::read).collect();
        members.retain(|member| member.host.as_ref().is_none_or(|host| *host == spec.host));
        members.sort_by_key(|member| member.priority);
        if !renewal::can_renew_pool(&spec.name) {
            for member in &mut members {
                member.renewal = RenewalSupport::Impossible;
            }
        }
        if let Some(key) =
            spec.extra_key.clone().filter(|key| members.iter().all(|member| member.key != *key))
        {
            members.insert(0, PooledKey::unstored(key));
        }
        let state = Mutex::new(State { members, ..State::default() });
        Self { spec, context: means.clone(), state }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn choose(&self) -> Result<PooledKey, CredentialUnavailable> {
        let now = self.context.clock.now();
        let mut state = self.state();
        let ready: Vec<usize> =
            state.members.iter().enumerate().filter(|(_, m)| m.is_ready(now)).map(|(at, _)| at).collect();
        let first = ready.first().copied().ok_or_else(|| self.all_cooling_down_error(&state, now))?;
        let used = |at: &&usize| state.members.get(**at).map_or(u64::MAX, |member| member.use_count);
        let least_used = || ready.iter().min_by_key(used).copied().unwrap_or(first);
        let at = match self.spec.strategy {
            PoolStrategy::FillFirst => first,
            PoolStrategy::RoundRobin => match state.in_use {
                Some(last) => ready.iter().find(|at| **at > last).copied().unwrap_or(first),
                // The least used key is where the last process left off.
                None => least_used(),
            },
            PoolStrategy::Random => {
                let roll = usize::from_str_radix(&random_hex(6), 16).unwrap_or_default();
                ready.get(roll % ready.len()).copied().unwrap_or(first)
            }
            PoolStrategy::LeastUsed => least_used(),
        };
        state.in_use = Some(at);
        let member =
            state.members.get_mut(at).ok_or_else(|| CredentialUnavailable("the pool is empty".to_owned()))?;
        member.use_count += 1;
        let chosen = member.clone();
        // The other strategies do not use the count, so a write per request would be useless.
        if matches!(self.spec.strategy, PoolStrategy::RoundRobin | PoolStrategy::LeastUsed) {
            self.save(&mut state, chosen.id.clone(), |entry| {
                let count = entry.get("request_count").and_then(Value::as_u64).unwrap_or_default();
                entry.insert("request_count".to_owned(), Value::from(count.saturating_add(1)));
            });
        }
        Ok(chosen)
    }

    fn all_cooling_down_error(&self, state: &State, now: Timestamp) -> CredentialUnavailable {
        let soonest = state.members.iter().filter_map(|member| match member.cooldown {
            KeyCooldown::Until(at) => Some(at.since(now)),
            _ => None,
        });
        let hint = match soonest.min() {
            Some(wait) => format!("; the next one is good again in {} min", wait.as_secs().div_ceil(60)),
            None => String::new(),
        };
        let name = &self.spec.name;
        CredentialUnavailable(format!(
            "every key of `{name}` is used up or refused{hint}. Add one with `hermes model`"
        ))
    }

    /// Starts the cooldown of the key in use, or marks it dead.
    fn start_cooldown(&self, refusal: &KeyRefusal) {
        let now = self.context.clock.now();
        let code = match refusal.cause {
            FailureCause::Credential => 401,
            FailureCause::Billing => 402,
            _ => 429,
        };
        let usual = if code == 401 { REFUSAL_COOLDOWN } else { HOUR };
        let mut state = self.state();
        let Some(member) = state.in_use.and_then(|at| state.members.get_mut(at)) else { return };
        let dead = refusal.permanent_code.is_some();
        member.cooldown = if dead {
            KeyCooldown::Dead
        } else {
            KeyCooldown::Until(now.plus(refusal.retry_after.unwrap_or(usual)))
        };
        let id = member.id.clone();
        let reset = refusal.retry_after.filter(|_| !dead).map(|span| now.plus(span).seconds());
        let changed = [
            ("last_status", Value::from(if dead { "dead" } else { "exhausted" })),
            ("last_status_at", Value::from(now.seconds())),
            ("last_error_code", Value::from(code)),
            ("last_error_reason", refusal.permanent_code.map_or(Value::Null, Value::from)),
            ("last_error_message", Value::from(refusal.message.as_str())),
            ("last_error_reset_at", reset.map_or(Value::Null, Value::from)),
        ];
        self.save(&mut state, id, |entry| {
            entry.extend(changed.map(|(name, value)| (name.to_owned(), value)));
        });
    }

    /// Changes the stored entry of a key on another thread. A key that is not stored has none.
    fn save(
        &self,
        state: &mut State,
        id: Option<String>,
        change: impl FnOnce(&mut Map<String, Value>) + Send + 'static,
    ) {
        let Some(id) = id else { return };
        let (auth, pool) = (self.context.auth.clone(), self.spec.name.clone());
        state.saving.extend(run_on_thread(move || save(&auth, &pool, &id, change)));
    }

    /// Waits for the writes in progress.
    async fn wait_for_writes(&self) {
        let saving = std::mem::take(&mut self.state().saving);
        for write in saving {
            write.wait().await;
        }
    }

    async fn obtain(&self) -> Result<Secret, CredentialUnavailable> {
        loop {
            self.wait_for_writes().await;
            let chosen = self.choose()?;
            let now = self.context.clock.now();
            if chosen.renewal == RenewalSupport::Impossible || chosen.is_valid_at(now.plus(RENEWAL_MARGIN)) {
                return Ok(chosen.key);
            }
            match self.renew_key(&chosen).await {
                Ok(key) => return Ok(key),
                Err(KeyRenewalError::Permanent) => {}
                Err(KeyRenewalError::Temporary(_)) if chosen.is_valid_at(now) => return Ok(chosen.key),
                Err(KeyRenewalError::Temporary(error)) => return Err(error.into()),
            }
        }
    }

    /// Renews a key and uses its successor from now on.
    async fn renew_key(&self, old: &PooledKey) -> Result<Secret, KeyRenewalError> {
        let renewed = renew(&self.context, &self.spec.name, old).await;
        let mut state = self.state();
        let member = state.members.iter_mut().find(|member| member.id == old.id);
        match (renewed, member) {
            (Ok((key, until)), Some(member)) => {
                member.key = key.clone();
                member.expires_at = until;
                member.cooldown = KeyCooldown::None;
                Ok(key)
            }
            (Ok((key, _)), None) => Ok(key),
            (Err(KeyRenewalError::Permanent), Some(member)) => {
                member.cooldown = KeyCooldown::Dead;
                Err(KeyRenewalError::Permanent)
            }
            (Err(lost), _) => Err(lost),
        }
    }

    fn in_use(&self) -> Option<PooledKey> {
        let state = self.state();
        state.in_use.and_then(|at| state.members.get(at)).cloned()
    }
}

fn save(auth: &AuthFile, pool: &str, id: &str, change: impl FnOnce(&mut Map<String, Value>)) {
    let written = auth.update(|state| change_entry(state, pool, id, change));
    if let Err(error) = written {
        tracing::warn!(%error, "the state of a key is not saved");
    }
}

fn change_entry(state: &mut AuthState, pool: &str, id: &str, change: impl FnOnce(&mut Map<String, Value>)) {
    let mut entries = state.credential_pool(pool).to_vec();
    let entry = entries.iter_mut().find(|entry| entry.get("id").and_then(Value::as_str) == Some(id));
    if let Some(Value::Object(entry)) = entry {
        change(entry);
        state.set_credential_pool(pool, entries);
    }
}

impl CredentialProvider for CredentialPool {
    fn current<'a>(
        &'a self,
        _: &'a Cancel,
    ) -> BoxFuture<'a, Result<PresentedCredential, CredentialUnavailable>> {
        Box::pin(async move { self.obtain().await.map(|key| present_key(self.spec.mode, key)) })
    }

    fn renew<'a>(&'a self, _: &'a Cancel) -> BoxFuture<'a, Result<(), CredentialUnavailable>> {
        Box::pin(async move {
            let cannot = || {
                CredentialUnavailable(
                    "a key of a pool cannot be renewed; add another with `hermes model`".to_owned(),
                )
            };
            let old = self
                .in_use()
                .filter(|member| member.renewal == RenewalSupport::Possible)
                .ok_or_else(cannot)?;
            match self.renew_key(&old).await {
                Ok(_) => Ok(()),
                // The next request uses another key, if there is one.
                Err(KeyRenewalError::Permanent) => {
                    let now = self.context.clock.now();
                    let state = self.state();
                    let left = state.members.iter().any(|member| member.is_ready(now));
                    if left { Ok(()) } else { Err(self.all_cooling_down_error(&state, now)) }
                }
                Err(KeyRenewalError::Temporary(error)) => Err(error.into()),
            }
        })
    }

    fn rotate(&self, refusal: &KeyRefusal) -> bool {
        self.start_cooldown(refusal);
        let now = self.context.clock.now();
        self.state().members.iter().any(|member| member.is_ready(now))
    }

    fn can_renew(&self) -> bool {
        self.in_use().is_some_and(|member| member.renewal == RenewalSupport::Possible)
    }

    fn has_another(&self) -> bool {
        let now = self.context.clock.now();
        let state = self.state();
        state.members.iter().enumerate().any(|(at, member)| Some(at) != state.in_use && member.is_ready(now))
    }
}
