//! The facts discovered about an endpoint while it is in use: its window and its prices.
//!
//! Holds numbers only; other modules query and store them. Invariant: a limit from a refusal is returned for
//! storing once, and only when a later request has succeeded.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::price::ModelPrices;

/// The window and prices of an endpoint. Zero means "not known" in the numbers here, since no window is empty.
#[derive(Debug, Default)]
pub struct EndpointStats {
    window: AtomicU64,
    /// The limit that a refusal named and that no success has confirmed yet.
    unproven: AtomicU64,
    /// Set when the window came from the provider's refusal; no other source replaces it.
    refused: AtomicBool,
    prices: Mutex<Option<ModelPrices>>,
    asked_window: Mutex<Option<Duration>>,
    asked_prices: Mutex<Option<Duration>>,
    asked_local: Mutex<Option<Duration>>,
    /// The window to request from an Ollama server.
    ollama_window: AtomicU64,
    /// The only model of a local server, where the user chose none.
    served: Mutex<Option<String>>,
}

/// A fact that can be queried about an endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DiscoveryTopic {
    Window,
    Prices,
    /// The facts that a local server must be asked for before the first request.
    Local,
}

/// The interval before the same query is repeated.
const QUERY_INTERVAL: Duration = Duration::from_hours(1);

impl EndpointStats {
    pub fn window(&self) -> Option<u64> {
        Some(self.window.load(Ordering::Relaxed)).filter(|window| *window > 0)
    }

    pub fn set_window(&self, window: u64) {
        self.window.store(window, Ordering::Relaxed);
    }

    pub fn prices(&self) -> Option<ModelPrices> {
        *self.prices.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn set_prices(&self, prices: ModelPrices) {
        *self.prices.lock().unwrap_or_else(PoisonError::into_inner) = Some(prices);
    }

    pub(super) fn ollama_window(&self) -> Option<u64> {
        Some(self.ollama_window.load(Ordering::Relaxed)).filter(|window| *window > 0)
    }

    pub(super) fn set_ollama_window(&self, window: u64) {
        self.ollama_window.store(window, Ordering::Relaxed);
    }

    pub(super) fn served_model(&self) -> Option<String> {
        self.served.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn set_served_model(&self, model: String) {
        *self.served.lock().unwrap_or_else(PoisonError::into_inner) = Some(model);
    }

    /// Stores the limit that the provider named when it refused a request.
    pub(super) fn set_window_from_refusal(&self, limit: u64) {
        self.set_window(limit);
        self.refused.store(true, Ordering::Relaxed);
        self.unproven.store(limit, Ordering::Relaxed);
    }

    /// Returns the limit that the latest success has confirmed; each is returned once.
    pub(super) fn take_confirmed_window(&self) -> Option<u64> {
        Some(self.unproven.swap(0, Ordering::Relaxed)).filter(|limit| *limit > 0)
    }

    /// Tells whether the provider itself named the window.
    pub fn is_window_confirmed(&self) -> bool {
        self.refused.load(Ordering::Relaxed)
    }

    /// Tells whether the topic has not been queried lately; returns true to one caller only. `now` is on the
    /// monotonic clock.
    pub(super) fn claim_query(&self, subject: DiscoveryTopic, now: Duration) -> bool {
        let slot = match subject {
            DiscoveryTopic::Window => &self.asked_window,
            DiscoveryTopic::Prices => &self.asked_prices,
            DiscoveryTopic::Local => &self.asked_local,
        };
        let mut asked = slot.lock().unwrap_or_else(PoisonError::into_inner);
        let free = asked.is_none_or(|then| now.saturating_sub(then) >= QUERY_INTERVAL);
        if free {
            *asked = Some(now);
        }
        free
    }
}
