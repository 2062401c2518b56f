//! The cost of a call.
//!
//! Prices are integers, millionths of a dollar per million tokens, so that sums are exact and nothing is rounded
//! twice. A price that is needed and not known makes the whole amount unknown: an incomplete sum is worse than
//! none.

mod decimal;
mod listing;
mod snapshot;

use hermes_types::{Cost, CostStatus, Usage};

pub use listing::{PriceList, read_models};
pub use snapshot::snapshot;

/// Prices of one model, in millionths of a dollar per million tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ModelPrices {
    pub input: Option<u64>,
    pub output: Option<u64>,
    pub cache_read: Option<u64>,
    pub cache_write: Option<u64>,
    /// The price per request, in millionths of a dollar.
    pub request: Option<u64>,
}

/// The source of a price, by the names in the databases of existing homes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CostSource {
    ProviderModelsApi,
    OfficialDocsSnapshot,
    ProviderCostApi,
    ProviderGenerationApi,
    UserOverride,
    CustomContract,
    None,
}

impl CostSource {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ProviderModelsApi => "provider_models_api",
            Self::OfficialDocsSnapshot => "official_docs_snapshot",
            Self::ProviderCostApi => "provider_cost_api",
            Self::ProviderGenerationApi => "provider_generation_api",
            Self::UserOverride => "user_override",
            Self::CustomContract => "custom_contract",
            Self::None => "none",
        }
    }
}

/// The way a call is paid for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallBilling {
    /// A subscription covers the call.
    Included,
    /// The provider reported the cost, in millionths of a dollar.
    Reported(u64),
    Priced(ModelPrices, CostSource),
    Unknown,
}

impl CallBilling {
    /// Returns the first of: subscription, the provider's reported cost, the provider's own list, the built-in
    /// snapshot.
    ///
    /// The snapshot contains the prices of vendors, so it is used only for requests to the vendor or to an
    /// aggregator; a model of the same name on a private host has another price.
    pub fn find(route: &PriceKey<'_>, reported: Option<u64>, listed: Option<ModelPrices>) -> Self {
        if route.provider == "openai-codex" {
            return Self::Included;
        }
        if let Some(amount) = reported {
            return Self::Reported(amount);
        }
        if let Some(prices) = listed {
            return Self::Priced(prices, CostSource::ProviderModelsApi);
        }
        match route.host {
            HostKind::Private => Self::Unknown,
            HostKind::Public => snapshot(route.model)
                .map_or(Self::Unknown, |prices| Self::Priced(prices, CostSource::OfficialDocsSnapshot)),
        }
    }
}

/// The facts that the price of a call depends on.
#[derive(Debug, Clone, Copy)]
pub struct PriceKey<'a> {
    pub provider: &'a str,
    pub model: &'a str,
    pub host: HostKind,
}

/// Tells whether a host belongs to a known provider or is the user's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HostKind {
    Public,
    Private,
}

pub fn cost(usage: Usage, billing: CallBilling) -> (Cost, CostSource) {
    match billing {
        CallBilling::Included => {
            (Cost { micro_usd: Some(0), status: CostStatus::Included }, CostSource::None)
        }
        CallBilling::Reported(amount) => {
            (Cost { micro_usd: Some(amount), status: CostStatus::Actual }, CostSource::ProviderCostApi)
        }
        CallBilling::Priced(prices, source) => match amount(usage, prices) {
            Some(amount) => (Cost { micro_usd: Some(amount), status: CostStatus::Estimated }, source),
            None => (Cost::UNKNOWN, CostSource::None),
        },
        CallBilling::Unknown => (Cost::UNKNOWN, CostSource::None),
    }
}

/// Returns the cost, or `None` when tokens were used that have no price.
fn amount(usage: Usage, prices: ModelPrices) -> Option<u64> {
    let buckets = [
        (usage.input, prices.input),
        (usage.output, prices.output),
        (usage.cache_read, prices.cache_read),
        (usage.cache_write, prices.cache_write),
    ];
    let mut sum: u128 = 0;
    for (tokens, price) in buckets {
        if tokens > 0 {
            sum += u128::from(tokens) * u128::from(price?);
        }
    }
    let rounded = (sum + 500_000) / 1_000_000 + u128::from(prices.request.unwrap_or(0));
    u64::try_from(rounded).ok()
}

/// Converts dollars to millionths, rounded; negative amounts are placeholders and give `None`.
pub fn micro_usd(dollars: &str) -> Option<u64> {
    decimal::scaled(dollars, 6)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MILLION: u64 = 1_000_000;

    #[track_caller]
    fn check(usage: [u64; 4], billing: CallBilling, micro_usd: Option<u64>, status: CostStatus) {
        let [input, output, cache_read, cache_write] = usage;
        let usage = Usage { input, output, cache_read, cache_write, reasoning: 0 };
        let (cost, source) = cost(usage, billing);
        assert_eq!(cost, Cost { micro_usd, status }, "{billing:?}");
        assert_eq!(source == CostSource::None, matches!(status, CostStatus::Unknown | CostStatus::Included));
    }

    #[test]
    fn costs() {
        let route = |provider, model, host| PriceKey { provider, model, host };
        let sonnet =
            CallBilling::find(&route("anthropic", "claude-sonnet-4-20250514", HostKind::Public), None, None);
        check(
            [MILLION, MILLION, MILLION, MILLION],
            sonnet,
            Some(3_000_000 + 15_000_000 + 300_000 + 3_750_000),
            CostStatus::Estimated,
        );
        check([1, 0, 0, 0], sonnet, Some(3), CostStatus::Estimated);
        let deepseek = CallBilling::find(&route("deepseek", "deepseek-chat", HostKind::Public), None, None);
        check([MILLION, 0, 0, 0], deepseek, Some(140_000), CostStatus::Estimated);
        check([MILLION, 0, 1, 0], deepseek, None, CostStatus::Unknown);
        let codex = CallBilling::find(&route("openai-codex", "gpt-5", HostKind::Public), Some(5), None);
        check([MILLION, 0, 0, 0], codex, Some(0), CostStatus::Included);
        let own = CallBilling::find(&route("custom", "gpt-4o", HostKind::Private), None, None);
        check([MILLION, 0, 0, 0], own, None, CostStatus::Unknown);
        let reported = CallBilling::find(&route("openrouter", "x/y", HostKind::Public), Some(1234), None);
        check([MILLION, 0, 0, 0], reported, Some(1234), CostStatus::Actual);
    }
}
