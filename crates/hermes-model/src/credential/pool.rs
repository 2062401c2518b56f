//! Several keys for one provider, and which of them are resting.
//!
//! The pool lives in `credential_pool` of `auth.json` and is shared with other releases: entries are changed field by
//! field, never rewritten. A key refused for its own sake rests for a while; one marked dead stays so until somebody
//! signs in again. A key goes only to the host it was stored for.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hermes_config::auth::{AuthFile, AuthState};
use hermes_config::{Config, is_usable_key};
use hermes_types::{BoxFuture, Cancel, Clock, Secret, Timestamp, random_hex};
use serde_json::{Map, Value};

use super::store::{Answer, aside};
use super::{Means, show, time};
use crate::client::{Credentials, Presented, Unavailable};
use crate::wire::{Base, Cause, Mode};

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

#[derive(Debug, Clone, Copy, PartialEq)]
enum Rest {
    None,
    Until(Timestamp),
    Dead,
}

#[derive(Debug, Clone)]
struct Member {
    /// Absent for a key that is not stored.
    id: Option<String>,
    key: Secret,
    host: Option<String>,
    priority: i64,
    used: u64,
    rest: Rest,
    until: Option<Timestamp>,
}

const HOUR: Duration = Duration::from_hours(1);
const AFTER_REFUSAL: Duration = Duration::from_mins(5);

impl Member {
    fn read(entry: &Value) -> Option<Self> {
        let text =
            |name: &str| entry.get(name).and_then(Value::as_str).map(str::trim).filter(|t| !t.is_empty());
        let at = |name: &str| entry.get(name).and_then(time::read);
        let key = text("access_token").filter(|key| is_usable_key(key))?;
        let refused = entry.get("last_error_code").and_then(Value::as_u64) == Some(401);
        let rest = match text("last_status") {
            Some("dead") => Rest::Dead,
            Some("exhausted") => {
                let cool = if refused { AFTER_REFUSAL } else { HOUR };
                let since = at("last_status_at").map(|since| since.plus(cool));
                at("last_error_reset_at").or(since).map_or(Rest::None, Rest::Until)
            }
            _ => Rest::None,
        };
        Some(Self {
            id: text("id").map(str::to_owned),
            key: Secret::new(key),
            host: text("base_url").map(|url| Base::parse(url).host().to_owned()),
            priority: entry.get("priority").and_then(Value::as_i64).unwrap_or_default(),
            used: entry.get("request_count").and_then(Value::as_u64).unwrap_or_default(),
            rest,
            until: at("expires_at"),
        })
    }

    fn is_ready(&self, now: Timestamp) -> bool {
        let rested = match self.rest {
            Rest::None => true,
            Rest::Until(at) => at.seconds() <= now.seconds(),
            Rest::Dead => false,
        };
        rested && self.until.is_none_or(|until| until.seconds() > now.seconds())
    }
}

/// The pool of one endpoint.
#[derive(Debug)]
pub struct Pool {
    name: PoolName,
    auth: AuthFile,
    clock: Arc<dyn Clock>,
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
        if let Some(key) = name.besides.clone().filter(|key| members.iter().all(|member| member.key != *key))
        {
            let member =
                Member { id: None, key, host: None, priority: 0, used: 0, rest: Rest::None, until: None };
            members.insert(0, member);
        }
        let state = Mutex::new(State { members, ..State::default() });
        Self { name, auth: means.auth.clone(), clock: Arc::clone(&means.clock), state }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn choose(&self) -> Result<Secret, Unavailable> {
        let now = self.clock.now();
        let mut state = self.state();
        let ready: Vec<usize> =
            state.members.iter().enumerate().filter(|(_, m)| m.is_ready(now)).map(|(at, _)| at).collect();
        let first = ready.first().copied().ok_or_else(|| self.all_resting(&state, now))?;
        let at = match self.name.strategy {
            Strategy::FillFirst => first,
            Strategy::RoundRobin => {
                let after = |at: &&usize| state.in_use.is_none_or(|last| **at > last);
                ready.iter().find(after).copied().unwrap_or(first)
            }
            Strategy::Random => {
                let roll = usize::from_str_radix(&random_hex(6), 16).unwrap_or_default();
                ready.get(roll % ready.len()).copied().unwrap_or(first)
            }
            Strategy::LeastUsed => {
                let used = |at: &&usize| state.members.get(**at).map_or(u64::MAX, |member| member.used);
                ready.iter().min_by_key(used).copied().unwrap_or(first)
            }
        };
        state.in_use = Some(at);
        let member = state.members.get_mut(at).ok_or_else(|| Unavailable("the pool is empty".to_owned()))?;
        member.used += 1;
        Ok(member.key.clone())
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

    /// Puts the key in use to rest.
    fn put_to_rest(&self, cause: Cause, after: Option<Duration>) {
        let now = self.clock.now();
        let code = match cause {
            Cause::Credential => 401,
            Cause::Billing => 402,
            _ => 429,
        };
        let usual = if code == 401 { AFTER_REFUSAL } else { HOUR };
        let mut state = self.state();
        let Some(member) = state.in_use.and_then(|at| state.members.get_mut(at)) else { return };
        member.rest = Rest::Until(now.plus(after.unwrap_or(usual)));
        let Some(id) = member.id.clone() else { return };
        let mut changed = Map::new();
        changed.insert("last_status".to_owned(), Value::from("exhausted"));
        changed.insert("last_status_at".to_owned(), Value::from(now.seconds()));
        changed.insert("last_error_code".to_owned(), Value::from(code));
        let reset = after.map_or(Value::Null, |span| Value::from(now.plus(span).seconds()));
        changed.insert("last_error_reset_at".to_owned(), reset);
        changed.insert("request_count".to_owned(), Value::from(member.used));
        let (auth, pool) = (self.auth.clone(), self.name.name.clone());
        state.saving.extend(aside(move || save(&auth, &pool, &id, changed)));
    }
}

fn save(auth: &AuthFile, pool: &str, id: &str, changed: Map<String, Value>) {
    let written = auth.update(|state| {
        let mut entries = state.credential_pool(pool).to_vec();
        let entry = entries.iter_mut().find(|entry| entry.get("id").and_then(Value::as_str) == Some(id));
        if let Some(Value::Object(entry)) = entry {
            entry.extend(changed);
            state.set_credential_pool(pool, entries);
        }
    });
    if let Err(error) = written {
        tracing::warn!(%error, "the state of a key is not saved");
    }
}

impl Credentials for Pool {
    fn current<'a>(&'a self, _: &'a Cancel) -> BoxFuture<'a, Result<Presented, Unavailable>> {
        Box::pin(async move {
            let saving = std::mem::take(&mut self.state().saving);
            for write in saving {
                write.wait().await;
            }
            self.choose().map(|key| show(self.name.mode, key))
        })
    }

    fn renew<'a>(&'a self, _: &'a Cancel) -> BoxFuture<'a, Result<(), Unavailable>> {
        let words = "a key of a pool cannot be renewed; add another with `hermes model`".to_owned();
        Box::pin(std::future::ready(Err(Unavailable(words))))
    }

    fn rotate(&self, cause: Cause, after: Option<Duration>) -> bool {
        self.put_to_rest(cause, after);
        let now = self.clock.now();
        self.state().members.iter().any(|member| member.is_ready(now))
    }

    fn can_renew(&self) -> bool {
        false
    }

    fn has_another(&self) -> bool {
        let now = self.clock.now();
        let state = self.state();
        state.members.iter().enumerate().any(|(at, member)| Some(at) != state.in_use && member.is_ready(now))
    }
}
