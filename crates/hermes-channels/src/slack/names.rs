//! Names of users and channels, cached. Lookups have a short time limit, so that a message is not delayed for a
//! name.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use serde_json::Value;

use super::api::{MethodArguments, SlackApi};

const TIMEOUT: Duration = Duration::from_secs(1);
/// The time without lookups after one failed.
const PAUSE: Duration = Duration::from_mins(1);
const MAX_ENTRIES: usize = 5000;

#[derive(Debug, Default)]
pub(super) struct SlackNames {
    known: Mutex<HashMap<String, String>>,
    paused_until: Mutex<Duration>,
}

impl SlackNames {
    /// Returns the name of a user.
    pub(super) async fn of_user(&self, api: &SlackApi, user: &str) -> Option<String> {
        self.look_up(api, user, "users.info", ("user", user), |answer| {
            let at = |pointer: &str| {
                answer.pointer(pointer).and_then(Value::as_str).filter(|name| !name.is_empty())
            };
            at("/user/profile/display_name")
                .or_else(|| at("/user/profile/real_name"))
                .or_else(|| at("/user/real_name"))
                .or_else(|| at("/user/name"))
                .map(str::to_owned)
        })
        .await
    }

    /// Returns the name of a channel.
    pub(super) async fn of_channel(&self, api: &SlackApi, channel: &str) -> Option<String> {
        self.look_up(api, channel, "conversations.info", ("channel", channel), |answer| {
            answer.pointer("/channel/name").and_then(Value::as_str).map(|name| format!("#{name}"))
        })
        .await
    }

    async fn look_up(
        &self,
        api: &SlackApi,
        id: &str,
        method: &str,
        argument: (&str, &str),
        name: impl FnOnce(&Value) -> Option<String>,
    ) -> Option<String> {
        if let Some(known) = lock(&self.known).get(id) {
            return Some(known.clone());
        }
        if api.clock.monotonic() < *lock(&self.paused_until) {
            return None;
        }
        let arguments = [argument];
        let answer = tokio::select! {
            answer = api.call(method, MethodArguments::Form(&arguments)) => answer.ok(),
            () = api.clock.sleep(TIMEOUT) => None,
        };
        let Some(name) = answer.as_ref().and_then(name) else {
            *lock(&self.paused_until) = api.clock.monotonic().saturating_add(PAUSE);
            return None;
        };
        let mut known = lock(&self.known);
        if known.len() >= MAX_ENTRIES {
            known.clear();
        }
        known.insert(id.to_owned(), name.clone());
        Some(name)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
