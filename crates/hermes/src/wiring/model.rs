//! Chooses the main model and the model for side tasks.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use hermes_agent::{Agent, AgentModels, ModelIdentityLine};
use hermes_config::settings::{ApprovalMode, ApprovalSettings, BudgetSettings, SecuritySettings};
use hermes_config::{Env, ProgramSurface};
use hermes_guard::{Assignments, PhoneNumbers, Redaction, redact};
use hermes_model::client::{
    BackgroundDiscovery, Budget, BudgetedModel, DumpEcho, DumpScope, ModelClient, RawToolCallModel,
    RequestDumper, RetryPolicy, SpendingAccount,
};
use hermes_model::credential::CredentialContext;
use hermes_model::discovery::ModelDiscovery;
use hermes_model::offline::{MODEL_NAME, OfflineModel};
use hermes_model::provider::auxiliary::{SideTask, find_model};
use hermes_model::provider::fallback::chain;
use hermes_model::provider::{
    ModelTarget, ProviderChoice, ProviderInputs, ResolvedModel, reads_pictures, resolve,
};
use hermes_net::{Config as NetConfig, HttpClient};
use hermes_store::{ChargeRange, Store};
use hermes_text::ToolCallParser;
use hermes_tools::MixtureModels;
use hermes_types::{Cancel, Clock, Model, SideModel, SpendingCap, Timestamp};

use super::program_runtime::ProgramConfig;
use super::programs::CredentialHelpers;
use super::{delegation, mixture};
use crate::context::local_time;
use crate::output::Console;

/// Limits the time for the assessment of a command.
const JUDGE_TIMEOUT: Duration = Duration::from_secs(30);

/// Limits the time for the description of a picture, unless the setting does.
const VISION_TIMEOUT: Duration = Duration::from_mins(2);

/// The models of a run. Each turn gets them with its own budget.
#[derive(Clone)]
pub(crate) struct ModelSet {
    /// The models without a budget.
    models: AgentModels,
    /// The model that decides about dangerous commands; only in smart mode.
    judge: Option<SideModel>,
    /// The model that MCP servers may ask; none where only the offline model answers.
    sampling: Option<SideModel>,
    /// The model that describes pictures.
    vision: Option<SideModel>,
    /// The models of `mixture_of_agents`, whose calls the budget of a turn covers.
    mixture: Option<MixtureModels>,
    pub(crate) cap: SpendingCap,
    /// The budget of the day, shared by all turns.
    day: Option<SpendingAccount>,
    /// The budget of a whole run of many conversations.
    run: Option<SpendingAccount>,
    /// The notes about the choice for the user.
    pub(crate) notes: Vec<String>,
}

impl ModelSet {
    /// Returns the models with a fresh budget for one turn.
    pub(crate) fn for_turn(&self) -> AgentModels {
        let budget = self.budget();
        let within = |model: &Arc<dyn Model>| -> Arc<dyn Model> {
            Arc::new(BudgetedModel::new(model.clone(), budget.clone()))
        };
        let beside = |side: &Option<SideModel>| {
            side.as_ref().map(|side| SideModel { model: within(&side.model), ..side.clone() })
        };
        let AgentModels { main, side, subagents, .. } = &self.models;
        AgentModels {
            main: within(main),
            reviews: Some(Arc::new(BudgetedModel::new(main.clone(), self.budget()))),
            side: beside(side),
            subagents: beside(subagents),
            ..self.models.clone()
        }
    }

    /// Gives an agent these models with the budget of one turn.
    pub(crate) fn renew_budget(&self, agent: Agent) -> Agent {
        agent.into_builder().models(self.for_turn()).build()
    }

    /// Returns the model that decides about dangerous commands, within the budget of the day.
    pub(crate) fn judge(&self) -> Option<SideModel> {
        self.judge.clone().map(|side| self.within_day(side))
    }

    /// Returns the model that MCP servers may ask, within the budget of the day.
    fn sampling(&self) -> Option<SideModel> {
        self.sampling.clone().map(|side| self.within_day(side))
    }

    /// Returns the model that describes pictures, within the budget of the day.
    pub(crate) fn vision(&self) -> Option<SideModel> {
        self.vision.clone().map(|side| self.within_day(side))
    }

    /// Returns the models of `mixture_of_agents`.
    pub(crate) fn mixture(&self) -> Option<MixtureModels> {
        self.mixture.clone()
    }

    fn within_day(&self, side: SideModel) -> SideModel {
        let model: Arc<dyn Model> = Arc::new(BudgetedModel::new(side.model, self.budget()));
        SideModel { model, ..side }
    }

    fn budget(&self) -> Budget {
        self.day.iter().chain(&self.run).cloned().fold(Budget::new(self.cap), Budget::with_account)
    }

    /// Limits what all further turns together may spend.
    pub(crate) fn limit_run(&mut self, dollars: f64) -> Result<()> {
        let limit = micro_usd(dollars).filter(|limit| *limit > 0);
        let limit = limit.with_context(|| format!("{dollars} is not a sum to spend at most"))?;
        self.run = Some(SpendingAccount::run(limit));
        Ok(())
    }

    /// Tells whether the built-in model answers.
    pub(crate) fn is_offline(&self) -> bool {
        self.models.provider == "offline"
    }

    /// Returns the name of the main model.
    pub(crate) fn name(&self) -> &str {
        &self.models.name
    }
}

/// Returns the model that decides about dangerous commands, where one is configured. Fails where no model can be
/// used.
pub(crate) fn configured_judge(
    from: ProgramConfig<'_>,
    surface: ProgramSurface,
    clock: &Arc<dyn Clock>,
    store: &Store,
) -> Result<Option<SideModel>> {
    Ok(choose_models(&ProviderChoice::default(), from, surface, clock, store)?.judge())
}

/// Returns the model that MCP servers may ask. Fails where no model can be used.
pub(crate) fn configured_sampling(
    from: ProgramConfig<'_>,
    surface: ProgramSurface,
    clock: &Arc<dyn Clock>,
    store: &Store,
) -> Result<Option<SideModel>> {
    Ok(choose_models(&ProviderChoice::default(), from, surface, clock, store)?.sampling())
}

/// Returns the model that describes pictures, where there is one. Fails where no model can be used.
pub(crate) fn configured_vision(
    from: ProgramConfig<'_>,
    surface: ProgramSurface,
    clock: &Arc<dyn Clock>,
    store: &Store,
) -> Result<Option<SideModel>> {
    Ok(choose_models(&ProviderChoice::default(), from, surface, clock, store)?.vision())
}

pub(crate) fn choose_models(
    choice: &ProviderChoice,
    from: ProgramConfig<'_>,
    surface: ProgramSurface,
    clock: &Arc<dyn Clock>,
    store: &Store,
) -> Result<ModelSet> {
    let ProgramConfig { context, config } = from;
    let settings = BudgetSettings::from_config(config);
    let tokens = config.int("budget.per_turn_tokens").and_then(|tokens| u64::try_from(tokens).ok());
    let tokens = tokens.filter(|tokens| *tokens > 0);
    let cap = SpendingCap { micro_usd: settings.per_turn_usd.and_then(micro_usd), tokens };
    let day = match settings.per_day_usd.and_then(micro_usd) {
        Some(limit) => {
            let spent = store.spending(ChargeRange::Since(midnight(clock.now()))).wait()?.micro_usd;
            Some(SpendingAccount::day(limit, spent))
        }
        None => None,
    };
    let facts = ProviderInputs::read(&context.home, config.clone(), context.env.clone());
    let target = match resolve(&facts, choice, surface)? {
        ResolvedModel::Offline => {
            let main: Arc<dyn Model> = Arc::new(OfflineModel);
            let models = AgentModels { provider: "offline".to_owned(), ..AgentModels::new(main, MODEL_NAME) };
            return Ok(ModelSet {
                models,
                judge: None,
                sampling: None,
                vision: None,
                mixture: None,
                cap,
                day,
                run: None,
                notes: Vec::new(),
            });
        }
        ResolvedModel::Target(target) => target,
    };
    let net = HttpClient::new(net_config(&context.env, clock))?;
    let helpers = Arc::new(CredentialHelpers::new(&context.env, clock.clone()));
    let means = CredentialContext::new(net.clone(), clock.clone(), &context.home, context.env.clone())
        .with_commands(helpers);
    let (fallbacks, skipped) = chain(&facts, Some(&target), surface);
    let notes: Vec<String> = skipped
        .iter()
        .map(|entry| format!("The fallback model {} cannot be used: {}", entry.model, entry.error))
        .collect();
    for note in &notes {
        tracing::warn!("{note}");
    }
    let endpoints =
        std::iter::once(&*target).chain(&fallbacks).map(|target| target.endpoint(&means)).collect();
    let client = ModelClient::new(net.clone(), clock.clone(), endpoints, RetryPolicy::from_env(&context.env))
        .context("no endpoint")?;
    // Context windows and prices are requested after a reply, never before one; the process does not wait for them.
    let lookup = ModelDiscovery::new(means.clone(), context.home.clone());
    let echo = context.env.bool("HERMES_DUMP_REQUEST_STDOUT").unwrap_or(false);
    let client = client
        .with_discovery(BackgroundDiscovery::new(lookup, Cancel::new()))
        .with_echo(echo.then(|| DumpEcho::new(|text| Console::new().line(text))));
    let all = context.env.bool("HERMES_DUMP_REQUESTS").unwrap_or(false);
    let extent = if all { DumpScope::All } else { DumpScope::Failures };
    let masked = SecuritySettings::resolve(&facts.config, &context.env).redact_secrets;
    let mask = masked.then_some(without_secrets as fn(&str) -> String);
    let dumps = RequestDumper { folder: context.home.join("sessions"), scope: extent, mask };
    let main: Arc<dyn Model> = Arc::new(client.with_dumps(Some(dumps)));
    let main = match facts.config.non_empty_text("model.tool_parser") {
        Some(name) => {
            let parser = ToolCallParser::named(&name).context("model.tool_parser")?;
            Arc::new(RawToolCallModel::new(main, parser))
        }
        None => main,
    };
    let side = side_model(SideTask::Compression, &facts, &target, &net, &means, clock);
    let smart = ApprovalSettings::from_config(&facts.config).mode == ApprovalMode::Smart;
    let judge =
        smart.then(|| {
            side_model(SideTask::Approval, &facts, &target, &net, &means, clock).unwrap_or_else(|| {
                SideModel { model: main.clone(), name: target.model.clone(), timeout: JUDGE_TIMEOUT }
            })
        });
    let sampling = side_model(SideTask::Mcp, &facts, &target, &net, &means, clock).unwrap_or_else(|| {
        SideModel { model: main.clone(), name: target.model.clone(), timeout: JUDGE_TIMEOUT }
    });
    let parent = ProviderChoice { model: Some(target.model.clone()), ..choice.clone() };
    let subagents = delegation::subagent_model(&facts, &parent, &net, &means, clock);
    let vision = side_model(SideTask::Vision, &facts, &target, &net, &means, clock).map(|side| {
        let is_set = facts.config.is_user_set("auxiliary.vision.timeout");
        SideModel { timeout: if is_set { side.timeout } else { VISION_TIMEOUT }, ..side }
    });
    let vision = vision.or_else(|| {
        let model = reads_pictures(&target.model).then(|| main.clone())?;
        Some(SideModel { model, name: target.model.clone(), timeout: VISION_TIMEOUT })
    });
    let mixture = mixture::models(&facts, &net, &means, clock);
    let models = AgentModels {
        provider: target.provider().to_owned(),
        base_url: target.base_url().to_owned(),
        identity: identity_line(target.provider()),
        side,
        subagents,
        ..AgentModels::new(main, target.model.clone())
    };
    Ok(ModelSet { models, judge, sampling: Some(sampling), vision, mixture, cap, day, run: None, notes })
}

/// Models of this provider give another name when asked who they are.
fn identity_line(provider: &str) -> ModelIdentityLine {
    if provider == "alibaba" { ModelIdentityLine::Include } else { ModelIdentityLine::Omit }
}

/// Returns the model for a side task; `None` when the main model has to do it.
fn side_model(
    task: SideTask,
    facts: &ProviderInputs,
    main: &ModelTarget,
    net: &HttpClient,
    means: &CredentialContext,
    clock: &Arc<dyn Clock>,
) -> Option<SideModel> {
    let found = find_model(facts, task, &ProviderChoice::default(), Some(main), ProgramSurface::Cli);
    let auxiliary = match found {
        Ok(found) => found?,
        Err(error) => {
            tracing::warn!(%error, "no model for side tasks; the main one does them");
            return None;
        }
    };
    let endpoint = auxiliary.target.endpoint(means);
    let client = ModelClient::new(net.clone(), clock.clone(), vec![endpoint], RetryPolicy::default())?;
    Some(SideModel {
        model: Arc::new(client),
        name: auxiliary.target.model.clone(),
        timeout: auxiliary.timeout,
    })
}

/// Converts dollars to millionths; a value that is not an amount sets no limit.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked to be a sum people pay")]
fn micro_usd(dollars: f64) -> Option<u64> {
    (dollars.is_finite() && (0.0..1e9).contains(&dollars)).then_some((dollars * 1e6).round() as u64)
}

/// Returns the beginning of the day in the user's time zone.
fn midnight(now: Timestamp) -> Timestamp {
    let local = local_time(now);
    let since = f64::from(local.hour) * 3600.0 + f64::from(local.minute) * 60.0 + f64::from(local.second);
    Timestamp(now.seconds() - since)
}

/// Masks the secrets of a dump, since dumps are shared.
fn without_secrets(text: &str) -> String {
    let what = Redaction { assignments: Assignments::AnyCase, phone_numbers: PhoneNumbers::Keep };
    redact(text, what).into_owned()
}

/// Returns the network settings.
pub(crate) fn net_config(env: &Env, clock: &Arc<dyn Clock>) -> NetConfig {
    let mut net = NetConfig::new(clock.clone());
    net.ca_bundle = ["HERMES_CA_BUNDLE", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE"]
        .into_iter()
        .find_map(|name| env.get(name))
        .map(PathBuf::from);
    net
}
