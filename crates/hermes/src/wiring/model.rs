//! Which model answers, and which one does the side tasks.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context as _, Result};
use hermes_config::settings::{BudgetSettings, SecuritySettings};
use hermes_config::{Config, Env, Surface};
use hermes_guard::{Assignments, PhoneNumbers, Redaction, redact};
use hermes_model::client::{
    Account, Budget, BudgetedModel, Dumps, Echo, Extent, Learning, ModelClient, Persistence,
};
use hermes_model::credential::Means;
use hermes_model::discovery::Lookup;
use hermes_model::offline::{MODEL_NAME, OfflineModel};
use hermes_model::provider::auxiliary::{Task, find_model};
use hermes_model::provider::fallback::chain;
use hermes_model::provider::{Choice, Facts, Resolved, Target, resolve};
use hermes_net::{Client, Config as NetConfig};
use hermes_store::{Span, Store};
use hermes_types::{Cancel, Clock, Model, SideModel, SpendingCap, Timestamp};

use super::programs::Helpers;
use crate::cli::ChatArguments;
use crate::context::{Context, local_time};
use crate::output::Output;

/// The models of a run. Each turn gets them with a budget of its own.
pub(crate) struct Models {
    main: Arc<dyn Model>,
    pub(crate) name: String,
    pub(crate) provider: String,
    pub(crate) base_url: String,
    /// Who does side tasks, when not the main one.
    side: Option<SideModel>,
    pub(crate) cap: SpendingCap,
    /// What may be spent today, shared by all turns.
    day: Option<Account>,
}

impl Models {
    /// The main model and the one for side tasks, with a fresh budget for one turn.
    pub(crate) fn for_turn(&self) -> (Arc<dyn Model>, Option<SideModel>) {
        let mut budget = Budget::new(self.cap);
        if let Some(day) = &self.day {
            budget = budget.with(day.clone());
        }
        let main: Arc<dyn Model> = Arc::new(BudgetedModel::new(self.main.clone(), budget.clone()));
        let side = self.side.as_ref().map(|side| SideModel {
            model: Arc::new(BudgetedModel::new(side.model.clone(), budget)),
            ..side.clone()
        });
        (main, side)
    }
}

pub(crate) fn choose(
    arguments: &ChatArguments,
    context: &Context,
    config: Config,
    clock: &Arc<dyn Clock>,
    store: &Store,
) -> Result<Models> {
    let settings = BudgetSettings::from_config(&config);
    let cap = SpendingCap { micro_usd: settings.per_turn_usd.and_then(micro_usd), tokens: None };
    let day = match settings.per_day_usd.and_then(micro_usd) {
        Some(limit) => {
            let spent = store.spent(Span::Since(midnight(clock.now()))).wait()?.micro_usd;
            Some(Account::day(limit, spent))
        }
        None => None,
    };
    let facts = Facts::read(&context.home, config, context.env.clone());
    let choice =
        Choice { provider: arguments.provider.clone(), model: arguments.model.clone(), ..Choice::default() };
    let target = match resolve(&facts, &choice, Surface::Cli)? {
        Resolved::Offline => {
            let main: Arc<dyn Model> = Arc::new(OfflineModel);
            let (name, provider) = (MODEL_NAME.to_owned(), "offline".to_owned());
            return Ok(Models { main, name, provider, base_url: String::new(), side: None, cap, day });
        }
        Resolved::Target(target) => target,
    };
    let net = Client::new(net_config(&context.env, clock))?;
    let helpers = Arc::new(Helpers::new(&context.env, clock.clone()));
    let means =
        Means::new(net.clone(), clock.clone(), &context.home, context.env.clone()).with_commands(helpers);
    let (fallbacks, _) = chain(&facts, Some(&target), Surface::Cli);
    let endpoints =
        std::iter::once(&*target).chain(&fallbacks).map(|target| target.endpoint(&means)).collect();
    let client = ModelClient::new(net.clone(), clock.clone(), endpoints, Persistence::from_env(&context.env))
        .context("no endpoint")?;
    // Windows and prices are asked for after a reply, never before one; the process does not wait for them.
    let lookup = Lookup::new(means.clone(), context.home.clone());
    let echo = context.env.bool("HERMES_DUMP_REQUEST_STDOUT").unwrap_or(false);
    let client = client
        .with_learning(Learning::new(lookup, Cancel::new()))
        .with_echo(echo.then(|| Echo::new(|text| Output::new().line(text))));
    let all = context.env.bool("HERMES_DUMP_REQUESTS").unwrap_or(false);
    let extent = if all { Extent::All } else { Extent::Failures };
    let masked = SecuritySettings::resolve(&facts.config, &context.env).redact_secrets;
    let mask = masked.then_some(without_secrets as fn(&str) -> String);
    let dumps = Dumps { folder: context.home.join("sessions"), extent, mask };
    let main: Arc<dyn Model> = Arc::new(client.with_dumps(Some(dumps)));
    let side = side(&facts, &target, &net, &means, clock);
    let (provider, base_url) = (target.provider().to_owned(), target.base_url().to_owned());
    Ok(Models { main, name: target.model.clone(), provider, base_url, side, cap, day })
}

/// Who does side tasks; nothing when the main model has to.
fn side(
    facts: &Facts,
    main: &Target,
    net: &Client,
    means: &Means,
    clock: &Arc<dyn Clock>,
) -> Option<SideModel> {
    let found = find_model(facts, Task::Compression, &Choice::default(), Some(main), Surface::Cli);
    let auxiliary = match found {
        Ok(found) => found?,
        Err(error) => {
            tracing::warn!(%error, "no model for side tasks; the main one does them");
            return None;
        }
    };
    let endpoint = auxiliary.target.endpoint(means);
    let client = ModelClient::new(net.clone(), clock.clone(), vec![endpoint], Persistence::default())?;
    Some(SideModel {
        model: Arc::new(client),
        name: auxiliary.target.model.clone(),
        patience: auxiliary.timeout,
    })
}

/// Dollars of a setting in millionths; what is not an amount sets no limit.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked to be a sum people pay")]
fn micro_usd(dollars: f64) -> Option<u64> {
    (dollars.is_finite() && (0.0..1e9).contains(&dollars)).then_some((dollars * 1e6).round() as u64)
}

/// The beginning of the day where the user is.
fn midnight(now: Timestamp) -> Timestamp {
    let local = local_time(now);
    let since = f64::from(local.hour) * 3600.0 + f64::from(local.minute) * 60.0 + f64::from(local.second);
    Timestamp(now.seconds() - since)
}

/// A dump is made to be shown to somebody.
fn without_secrets(text: &str) -> String {
    let what = Redaction { assignments: Assignments::AnyCase, phone_numbers: PhoneNumbers::Keep };
    redact(text, what).into_owned()
}

/// How the network is reached.
pub(crate) fn net_config(env: &Env, clock: &Arc<dyn Clock>) -> NetConfig {
    let mut net = NetConfig::new(clock.clone());
    net.ca_bundle = ["HERMES_CA_BUNDLE", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE"]
        .into_iter()
        .find_map(|name| env.get(name))
        .map(PathBuf::from);
    net
}
