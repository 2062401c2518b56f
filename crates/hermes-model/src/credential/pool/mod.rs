//! Several keys for one provider, and which of them are resting.
//!
//! The pool lives in `credential_pool` of `auth.json` and is shared with other releases: entries are changed field by
//! field, never rewritten. A key refused for its own sake rests for a while; one marked dead stays so until somebody
//! signs in again. A key goes only to the host it was stored for, and a renewed one is on disk before it is used.

mod member;
mod renewal;

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hermes_config::Config;
use hermes_config::auth::{AuthFile, AuthState};
use hermes_types::{BoxFuture, Cancel, Secret, Timestamp, random_hex};
use serde_json::{Map, Value};

use super::store::{Answer, aside};
use super::{Means, show};
use crate::client::{Credentials, Presented, Refusal, Unavailable};
use crate::wire::{Cause, Mode};
use member::{AFTER_REFUSAL, HOUR, Member, Renewal, Rest};
use renewal::{Lost, renew};

/// A token this close to its end is renewed first.
const EARLY: Duration = Duration::from_mins(2);

/// Which key is next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Strategy {
    /// The first that is not resting.
    #[default]
    FillFirst,
    RoundRobin,
    Random,
    LeastUsed,
}

impl Strategy {
    /// `credential_pool_strategies.{provider}`.
    pub fn configured(config: &Config, name: &str) -> Self {
        let chosen = config.map("credential_pool_strategies");
        match chosen.get(name).and_then(hermes_config::yaml::Value::as_str).map(str::trim) {
            Some("round_robin") => Self::RoundRobin,
            Some("random") => Self::Random,
            Some("least_used") => Self::LeastUsed,
            _ => Self::FillFirst,
        }
    }
}

/// Which pool, for which endpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolName {
    /// A provider id, or `custom:{name}`.
    pub name: String,
    /// The host the keys will be shown to.
    pub host: String,
    pub strategy: Strategy,
    /// The wire, which decides the form of a key.
    pub mode: Mode,
    /// A key from elsewhere that takes part too, but is never stored.
    pub besides: Option<Secret>,
}

/// Whether a pool holds a key that is not dead.
pub fn has_pool(auth: &AuthState, name: &str) -> bool {
    auth.credential_pool(name).iter().filter_map(Member::read).any(|member| member.rest != Rest::Dead)
}

/// The pool of one endpoint.
#[derive(Debug)]
pub struct Pool {
    name: PoolName,
    means: Means,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    members: Vec<Member>,
    in_use: Option<usize>,
    /// Writes under way; the next request waits for them, so that what it sees is on disk.
    saving: Vec<Answer<()>>,
}

impl Pool {
    pub fn open(means: &Means, name: PoolName) -> Self {
        let stored = means.auth.read();
        let mut members: Vec<Member> =
            stored.credential_pool(&name.name).iter().filter_map(Member::read).collect();
        members.retain(|member| member.host.as_ref().is_none_or(|host| *host == name.host));
        members.sort_by_key(|member| member.priority);
        if !renewal::is_known(&name.name) {
            for member in &mut members {
                member.renewal = Renewal::Impossible;
            }
        }
        if let Some(key) = name.besides.clone().filter(|key| members.iter().all(|member| member.key != *key))
        {
            members.insert(0, Member::besides(key));
        }
        let state = Mutex::new(State { members, ..State::default() });
        Self { name, means: means.clone(), state }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn choose(&self) -> Result<Member, Unavailable> {
        let now = self.means.clock.now();
        let mut state = self.state();
        let ready: Vec<usize> =
            state.members.iter().enumerate().filter(|(_, m)| m.is_ready(now)).map(|(at, _)| at).collect();
        let first = ready.first().copied().ok_or_else(|| self.all_resting(&state, now))?;
        let used = |at: &&usize| state.members.get(**at).map_or(u64::MAX, |member| member.used);
        let least_used = || ready.iter().min_by_key(used).copied().unwrap_or(first);
        let at = match self.name.strategy {
            Strategy::FillFirst => first,
            Strategy::RoundRobin => match state.in_use {
                Some(last) => ready.iter().find(|at| **at > last).copied().unwrap_or(first),
                // Where the last process left off.
                None => least_used(),
            },
            Strategy::Random => {
                let roll = usize::from_str_radix(&random_hex(6), 16).unwrap_or_default();
                ready.get(roll % ready.len()).copied().unwrap_or(first)
            }
            Strategy::LeastUsed => least_used(),
        };
        state.in_use = Some(at);
        let member = state.members.get_mut(at).ok_or_else(|| Unavailable("the pool is empty".to_owned()))?;
        member.used += 1;
        let chosen = member.clone();
        // The other strategies do not look at the count, so a write per request would be for nothing.
        if matches!(self.name.strategy, Strategy::RoundRobin | Strategy::LeastUsed) {
            self.save(&mut state, chosen.id.clone(), |entry| {
                let count = entry.get("request_count").and_then(Value::as_u64).unwrap_or_default();
                entry.insert("request_count".to_owned(), Value::from(count.saturating_add(1)));
            });
        }
        Ok(chosen)
    }

    fn all_resting(&self, state: &State, now: Timestamp) -> Unavailable {
        let soonest = state.members.iter().filter_map(|member| match member.rest {
            Rest::Until(at) => Some(at.since(now)),
            _ => None,
        });
        let hint = match soonest.min() {
            Some(wait) => format!("; the next one is good again in {} min", wait.as_secs().div_ceil(60)),
            None => String::new(),
        };
        let name = &self.name.name;
        Unavailable(format!("every key of `{name}` is used up or refused{hint}. Add one with `hermes model`"))
    }

    /// Puts the key in use to rest, or away for good.
    fn put_to_rest(&self, refusal: &Refusal) {
        let now = self.means.clock.now();
        let code = match refusal.cause {
            Cause::Credential => 401,
            Cause::Billing => 402,
            _ => 429,
        };
        let usual = if code == 401 { AFTER_REFUSAL } else { HOUR };
        let mut state = self.state();
        let Some(member) = state.in_use.and_then(|at| state.members.get_mut(at)) else { return };
        let dead = refusal.final_word.is_some();
        member.rest = if dead { Rest::Dead } else { Rest::Until(now.plus(refusal.after.unwrap_or(usual))) };
        let id = member.id.clone();
        let reset = refusal.after.filter(|_| !dead).map(|span| now.plus(span).seconds());
        let changed = [
            ("last_status", Value::from(if dead { "dead" } else { "exhausted" })),
            ("last_status_at", Value::from(now.seconds())),
            ("last_error_code", Value::from(code)),
            ("last_error_reason", refusal.final_word.map_or(Value::Null, Value::from)),
            ("last_error_message", Value::from(refusal.message.as_str())),
            ("last_error_reset_at", reset.map_or(Value::Null, Value::from)),
        ];
        self.save(&mut state, id, |entry| {
            entry.extend(changed.map(|(name, value)| (name.to_owned(), value)));
        });
    }

    /// Changes the stored entry of a key, aside. A key that is not stored has none.
    fn save(
        &self,
        state: &mut State,
        id: Option<String>,
        change: impl FnOnce(&mut Map<String, Value>) + Send + 'static,
    ) {
        let Some(id) = id else { return };
        let (auth, pool) = (self.means.auth.clone(), self.name.name.clone());
        state.saving.extend(aside(move || save(&auth, &pool, &id, change)));
    }

    /// Waits for what is being written.
    async fn settle(&self) {
        let saving = std::mem::take(&mut self.state().saving);
        for write in saving {
            write.wait().await;
        }
    }

    async fn obtain(&self) -> Result<Secret, Unavailable> {
        loop {
            self.settle().await;
            let chosen = self.choose()?;
            let now = self.means.clock.now();
            if chosen.renewal == Renewal::Impossible || chosen.lasts(now.plus(EARLY)) {
                return Ok(chosen.key);
            }
            match self.exchange(&chosen).await {
                Ok(key) => return Ok(key),
                Err(Lost::ForGood) => {}
                Err(Lost::ForNow(_)) if chosen.lasts(now) => return Ok(chosen.key),
                Err(Lost::ForNow(error)) => return Err(error.into()),
            }
        }
    }

    /// Renews a key and uses its successor from now on.
    async fn exchange(&self, old: &Member) -> Result<Secret, Lost> {
        let renewed = renew(&self.means, &self.name.name, old).await;
        let mut state = self.state();
        let member = state.members.iter_mut().find(|member| member.id == old.id);
        match (renewed, member) {
            (Ok((key, until)), Some(member)) => {
                member.key = key.clone();
                member.until = until;
                member.rest = Rest::None;
                Ok(key)
            }
            (Ok((key, _)), None) => Ok(key),
            (Err(Lost::ForGood), Some(member)) => {
                member.rest = Rest::Dead;
                Err(Lost::ForGood)
            }
            (Err(lost), _) => Err(lost),
        }
    }

    fn in_use(&self) -> Option<Member> {
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

impl Credentials for Pool {
    fn current<'a>(&'a self, _: &'a Cancel) -> BoxFuture<'a, Result<Presented, Unavailable>> {
        Box::pin(async move { self.obtain().await.map(|key| show(self.name.mode, key)) })
    }

    fn renew<'a>(&'a self, _: &'a Cancel) -> BoxFuture<'a, Result<(), Unavailable>> {
        Box::pin(async move {
            let cannot = || {
                Unavailable("a key of a pool cannot be renewed; add another with `hermes model`".to_owned())
            };
            let old =
                self.in_use().filter(|member| member.renewal == Renewal::Possible).ok_or_else(cannot)?;
            match self.exchange(&old).await {
                Ok(_) => Ok(()),
                // The next request takes another key, if there is one.
                Err(Lost::ForGood) => {
                    let now = self.means.clock.now();
                    let state = self.state();
                    let left = state.members.iter().any(|member| member.is_ready(now));
                    if left { Ok(()) } else { Err(self.all_resting(&state, now)) }
                }
                Err(Lost::ForNow(error)) => Err(error.into()),
            }
        })
    }

    fn rotate(&self, refusal: &Refusal) -> bool {
        self.put_to_rest(refusal);
        let now = self.means.clock.now();
        self.state().members.iter().any(|member| member.is_ready(now))
    }

    fn can_renew(&self) -> bool {
        self.in_use().is_some_and(|member| member.renewal == Renewal::Possible)
    }

    fn has_another(&self) -> bool {
        let now = self.means.clock.now();
        let state = self.state();
        state.members.iter().enumerate().any(|(at, member)| Some(at) != state.in_use && member.is_ready(now))
    }
}
