//! The prices that a provider publishes.

use hermes_types::Cancel;

use super::{DAY, ListFreshness, ModelDiscovery};
use crate::client::Endpoint;
use crate::credential::run_on_thread;
use crate::price::{ModelPrices, read_models};
use crate::provider::{ModelFactsFile, registry};
use crate::wire::EndpointVendor;

impl ModelDiscovery {
    /// Tells whether an endpoint is of a kind that publishes prices with its list of models.
    pub fn has_prices(&self, endpoint: &Endpoint) -> bool {
        match endpoint.wire.vendor {
            EndpointVendor::OpenRouter | EndpointVendor::Nous | EndpointVendor::AiGateway => true,
            EndpointVendor::Other if endpoint.wire.provider == "kilocode" => true,
            // A local server has no price list; a hosted endpoint may.
            EndpointVendor::Other => {
                endpoint.wire.provider == "custom"
                    && !endpoint.wire.base.is_local()
                    && registry::find_by_host(endpoint.wire.base.host()).is_none()
            }
            _ => false,
        }
    }

    /// Returns the price of the endpoint's model from the provider's list, at most an hour old where it can be
    /// fetched.
    pub async fn prices(&self, endpoint: &Endpoint, cancel: &Cancel) -> Option<ModelPrices> {
        let body = self.list_body(endpoint, ListFreshness::Recent, cancel).await.ok()?;
        read_models(&body).get(&endpoint.model)
    }

    /// Reads the price unless it was read today, uses it from now on, and stores it.
    pub async fn learn_prices(&self, endpoint: &Endpoint, cancel: &Cancel) -> Option<ModelPrices> {
        let (model, base) = (endpoint.model.clone(), endpoint.wire.base.as_str().to_owned());
        let now = self.now();
        let known = ModelFactsFile::read(&self.home).get(&model, &base).unwrap_or_default();
        if let Some(prices) = known.prices
            && known.prices_at.is_some_and(|at| at.seconds() <= now.seconds() && now.since(at) < DAY)
        {
            endpoint.stats.set_prices(prices);
            return Some(prices);
        }
        let prices = self.prices(endpoint, cancel).await?;
        endpoint.stats.set_prices(prices);
        let home = self.home.clone();
        let written = run_on_thread(move || {
            let kept = ModelFactsFile::update(&home, &model, &base, |known| {
                known.prices = Some(prices);
                known.prices_at = Some(now);
            });
            if let Err(error) = kept {
                tracing::debug!(%error, "prices are not remembered");
            }
        });
        if let Some(written) = written {
            written.wait().await;
        }
        Some(prices)
    }
}
