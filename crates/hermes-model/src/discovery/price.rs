//! What a provider says its models cost.

use hermes_types::Cancel;

use super::{Age, DAY, Lookup};
use crate::client::Endpoint;
use crate::credential::aside;
use crate::price::{Prices, read_models};
use crate::provider::{KnownModels, registry};
use crate::wire::Vendor;

impl Lookup {
    /// Whether an endpoint is of a kind that publishes prices with its list of models.
    pub fn has_prices(&self, endpoint: &Endpoint) -> bool {
        match endpoint.wire.vendor {
            Vendor::OpenRouter | Vendor::Nous | Vendor::AiGateway => true,
            Vendor::Other if endpoint.wire.provider == "kilocode" => true,
            // What runs at home has no price list; a hosted endpoint may.
            Vendor::Other => {
                endpoint.wire.provider == "custom"
                    && !endpoint.wire.base.is_local()
                    && registry::at_host(endpoint.wire.base.host()).is_none()
            }
            _ => false,
        }
    }

    /// The price of the endpoint's model from the provider's list, at most an hour old where it can be fetched.
    pub async fn prices(&self, endpoint: &Endpoint, cancel: &Cancel) -> Option<Prices> {
        let body = self.list_body(endpoint, Age::Recent, cancel).await.ok()?;
        read_models(&body).get(&endpoint.model)
    }

    /// Reads the price unless it was read today, uses it from now on, and remembers it.
    pub async fn learn_prices(&self, endpoint: &Endpoint, cancel: &Cancel) -> Option<Prices> {
        let (model, base) = (endpoint.model.clone(), endpoint.wire.base.as_str().to_owned());
        let now = self.now();
        let known = KnownModels::read(&self.home).get(&model, &base).unwrap_or_default();
        if let Some(prices) = known.prices
            && known.prices_at.is_some_and(|at| at.seconds() <= now.seconds() && now.since(at) < DAY)
        {
            endpoint.learnt.set_prices(prices);
            return Some(prices);
        }
        let prices = self.prices(endpoint, cancel).await?;
        endpoint.learnt.set_prices(prices);
        let home = self.home.clone();
        let written = aside(move || {
            let kept = KnownModels::remember(&home, &model, &base, |known| {
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
