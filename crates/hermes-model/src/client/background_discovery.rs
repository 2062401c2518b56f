//! Finding out about an endpoint after it has answered.
//!
//! Decides what is worth asking and starts it in the background; how it is asked is `discovery`'s affair. Invariant:
//! nothing here happens before a first reply, and nothing here is waited for; what a local server has to be asked first
//! is in `local`.

use std::sync::Arc;
use std::time::Duration;

use hermes_task::spawn_named;
use hermes_types::{Cancel, Completion, CostStatus, Usage};

use super::endpoint::Endpoint;
use super::endpoint_stats::DiscoveryTopic;
use crate::credential::run_on_thread;
use crate::discovery::ModelDiscovery;
use crate::provider::LearntWindows;

/// Permission to find out, and until when.
#[derive(Debug, Clone)]
pub struct BackgroundDiscovery {
    pub(super) lookup: ModelDiscovery,
    /// Ends what is still running; the answers that are missing then are asked for another time.
    cancel: Cancel,
}

impl BackgroundDiscovery {
    pub fn new(lookup: ModelDiscovery, cancel: Cancel) -> Self {
        Self { lookup, cancel }
    }

    pub(super) fn now(&self) -> Duration {
        self.lookup.credential_context().clock.monotonic()
    }

    /// Remembers what an answer proves, and looks up what is still unknown in the background.
    pub(super) async fn observe_completion(&self, endpoint: &Endpoint, completion: &Completion) {
        if let Some(limit) = endpoint.stats.take_confirmed_window() {
            let (home, endpoint) = (self.lookup.home().clone(), endpoint.clone());
            // Happens once per model, and is waited for: a program that asks one question would end before the write.
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
