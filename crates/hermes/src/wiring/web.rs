//! What the web tools need: services and keys, the policy for addresses, and a client that is built on first use.

use std::sync::Arc;

use hermes_config::settings::{SecuritySettings, WebSettings};
use hermes_net::{HttpClient, PrivateAddresses};
use hermes_tools::{LazyHttpClient, WebAccess, WebAddresses, WebsitePolicy};
use hermes_types::Clock;

use super::model::net_config;
use super::program_runtime::ProgramConfig;

/// Returns the web access of an agent. Reads no file and builds no client.
pub(crate) fn access(clock: &Arc<dyn Clock>, from: ProgramConfig<'_>) -> WebAccess {
    let ProgramConfig { context, config } = from;
    let security = SecuritySettings::resolve(config, &context.env);
    WebAccess {
        settings: WebSettings::resolve(config, &context.env),
        http: lazy_client(&security, clock, from),
        policy: WebsitePolicy::new(&security, context.home.clone(), clock.clone()),
        clock: clock.clone(),
        cache: context.home.join("cache/web"),
        addresses: WebAddresses::default(),
    }
}

fn lazy_client(
    security: &SecuritySettings,
    clock: &Arc<dyn Clock>,
    from: ProgramConfig<'_>,
) -> LazyHttpClient {
    let mut net = net_config(&from.context.env, clock);
    if security.allow_private_urls {
        net.policy.private = PrivateAddresses::Allow;
    }
    LazyHttpClient::new(move || HttpClient::new(net.clone()).map_err(|error| error.to_string()))
}
