//! What is found out about an endpoint while it is in use: its window and its prices.
//!
//! Holds numbers only; asking and remembering are done elsewhere. Invariant: a limit from a refusal is handed out for
//! remembering once, and only when a later request has succeeded.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::price::Prices;

/// Zero stands for "not known" in the numbers here: no window is empty.
#[derive(Debug, Default)]
pub struct Learnt {
    window: AtomicU64,
    /// Named in a refusal and not yet proven by a success.
    unproven: AtomicU64,
    /// The provider's own word, which nobody else's replaces.
    refused: AtomicBool,
    prices: Mutex<Option<Prices>>,
    asked_window: Mutex<Option<Duration>>,
    asked_prices: Mutex<Option<Duration>>,
    asked_local: Mutex<Option<Duration>>,
    /// The window an Ollama server is to be asked for.
    ollama_window: AtomicU64,
    /// The only model of a local server, where nobody chose one.
    served: Mutex<Option<String>>,
}

/// What can be asked about an endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Subject {
    Window,
    Prices,
    /// What a local server has to be asked first.
    Local,
}

/// The same is not asked again before that.
const PAUSE: Duration = Duration::from_hours(1);

impl Learnt {
    pub fn window(&self) -> Option<u64> {
        Some(self.window.load(Ordering::Relaxed)).filter(|window| *window > 0)
    }

    pub fn set_window(&self, window: u64) {
        self.window.store(window, Ordering::Relaxed);
    }

    pub fn prices(&self) -> Option<Prices> {
        *self.prices.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn set_prices(&self, prices: Prices) {
        *self.prices.lock().unwrap_or_else(PoisonError::into_inner) = Some(prices);
    }

    pub(super) fn ollama_window(&self) -> Option<u64> {
        Some(self.ollama_window.load(Ordering::Relaxed)).filter(|window| *window > 0)
    }

    pub(super) fn set_ollama_window(&self, window: u64) {
        self.ollama_window.store(window, Ordering::Relaxed);
    }

    pub(super) fn served(&self) -> Option<String> {
        self.served.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn set_served(&self, model: String) {
        *self.served.lock().unwrap_or_else(PoisonError::into_inner) = Some(model);
    }

    /// The provider named its limit when it refused a request.
    pub(super) fn set_refused_above(&self, limit: u64) {
        self.set_window(limit);
        self.refused.store(true, Ordering::Relaxed);
        self.unproven.store(limit, Ordering::Relaxed);
    }

    /// The limit that the success just now has proven; each is given once.
    pub(super) fn take_proven(&self) -> Option<u64> {
        Some(self.unproven.swap(0, Ordering::Relaxed)).filter(|limit| *limit > 0)
    }

    /// Whether the window is the provider's own word.
    pub fn is_settled(&self) -> bool {
        self.refused.load(Ordering::Relaxed)
    }

    /// Whether nobody has asked lately; true for one caller only. `now` is on the monotonic clock.
    pub(super) fn may_ask(&self, subject: Subject, now: Duration) -> bool {
        let slot = match subject {
            Subject::Window => &self.asked_window,
            Subject::Prices => &self.asked_prices,
            Subject::Local => &self.asked_local,
        };
        let mut asked = slot.lock().unwrap_or_else(PoisonError::into_inner);
        let free = asked.is_none_or(|then| now.saturating_sub(then) >= PAUSE);
        if free {
            *asked = Some(now);
        }
        free
    }
}
