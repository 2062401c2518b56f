//! Discovery of an endpoint's window and prices after it has answered.
//!
//! Decides what to look up and starts the queries in the background; `discovery` implements them. Invariant:
//! nothing here happens before a first reply, and no turn waits for a query; what must be known about a local
//! server before the first request is in `local_server`.

use std::sync::Arc;
use std::time::Duration;

use hermes_task::spawn_named;
use hermes_types::{Cancel, Completion, CostStatus, Usage};

use super::endpoint::Endpoint;
use super::endpoint_stats::DiscoveryTopic;
use crate::credential::run_on_thread;
use crate::discovery::ModelDiscovery;
use crate::provider::LearntWindows;

/// Allows discovery in the background, and ends it by a token.
#[derive(Debug, Clone)]
pub struct BackgroundDiscovery {
    pub(super) lookup: ModelDiscovery,
    /// Cancels queries that are still running; missing answers are looked up at another time.
    cancel: Cancel,
}

impl BackgroundDiscovery {
    pub fn new(lookup: ModelDiscovery, cancel: Cancel) -> Self {
        Self { lookup, cancel }
    }

    pub(super) fn now(&self) -> Duration {
        self.lookup.credential_context().clock.monotonic()
    }

    /// Stores what an answer proves, and looks up what is still unknown in the background.
    pub(super) async fn observe_completion(&self, endpoint: &Endpoint, completion: &Completion) {
        if let Some(limit) = endpoint.stats.take_confirmed_window() {
            let (home, endpoint) = (self.lookup.home().clone(), endpoint.clone());
            // Happens once per model and is awaited: a program that makes a single request would end before the
            // write.
            let written = run_on_thread(move || {
                let (model, base) = (&endpoint.model, endpoint.wire.base.as_str());
                if let Err(error) = LearntWindows::save(&home, model, base, limit) {
                    tracing::warn!(%error, "a context length is not remembered");
                }
            });
            if let Some(written) = written {
                let _ = written.wait().await;
            }
        }
        let used = completion.usage.map_or(0, Usage::prompt);
        let now = self.now();
        let may_ask = |subject| endpoint.stats.claim_query(subject, now);
        let grown = used.saturating_mul(2) > endpoint.window();
        let window_matters =
            grown && self.lookup.should_ask_window(endpoint) && may_ask(DiscoveryTopic::Window);
        let exact = matches!(completion.cost.status, CostStatus::Actual | CostStatus::Included);
        let prices_matter =
            used > 0 && !exact && self.lookup.has_prices(endpoint) && may_ask(DiscoveryTopic::Prices);
        if !(window_matters || prices_matter) {
            return;
        }
        let (lookup, endpoint, cancel) =
            (self.lookup.clone(), Arc::new(endpoint.clone()), self.cancel.clone());
        let _running = spawn_named("model facts", &self.cancel, async move {
            if prices_matter {
                lookup.learn_prices(&endpoint, &cancel).await;
            }
            if window_matters {
                lookup.learn_window(&endpoint, &cancel).await;
            }
        });
    }
}
