//! `hermes chat`: one question, one turn, the answer.

use std::io::{IsTerminal, Read};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use chrono::{DateTime, Datelike, Local, Timelike};
use hermes_agent::{Agent, Limits, TurnInput, TurnResult, system_prompt};
use hermes_config::{Env, Surface, precedence, user_home};
use hermes_model::client::{Budget, BudgetedModel, Dumps, Extent, ModelClient, Persistence};
use hermes_model::credential::Means;
use hermes_model::offline::{MODEL_NAME, OfflineModel};
use hermes_model::provider::fallback::chain;
use hermes_model::provider::{Choice, Facts, Resolved, resolve};
use hermes_net::{Client, Config as NetConfig};
use hermes_store::Store;
use hermes_task::SystemClock;
use hermes_tools::{FileGuard, Registry};
use hermes_types::{
    Answer, BoxFuture, Cancel, CivilTime, Clock, Delta, Event, Frontend, Model, Question, SessionId,
    SessionKind, SpendingCap,
};

use crate::cli::ChatArguments;
use crate::context::{Context, now};
use crate::output::Output;

/// A turn that has not ended by then never will.
const LONGEST_TURN: Duration = Duration::from_hours(1);

pub(crate) fn run(arguments: &ChatArguments, context: &Context, output: &Output) -> Result<ExitCode> {
    let text = question(arguments.query.as_deref())?;
    let config = context.config(output);
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("no runtime")?;
    let (model, model_name) = choose_model(arguments, context, config.clone(), &clock)?;
    let folder = std::env::current_dir().context("the working folder is gone")?;
    let store = context.store(output)?;
    let guard = FileGuard::new(folder.clone(), user_home(&context.env)?, &context.home);
    let iterations = precedence::max_iterations(&config, &context.env, arguments.max_turns);
    let cap =
        SpendingCap { micro_usd: config.number("budget.per_turn_usd").and_then(micro_usd), tokens: None };
    let agent = Agent {
        model: Arc::new(BudgetedModel::new(model, Budget::new(cap))),
        model_name,
        tools: Registry::built_in(&guard).tools().to_vec(),
        store: store.clone(),
        clock,
        limits: Limits { iterations: u32::try_from(iterations).unwrap_or(u32::MAX), time: LONGEST_TURN, cap },
    };
    let input = begin(&store, arguments.resume.as_deref(), &folder, text)?;
    let session = input.session.clone();
    let shown = Terminal { output, quiet: arguments.quiet };
    let result = runtime.block_on(async {
        let cancel = Cancel::new();
        let turn = agent.run(input, &shown, &cancel);
        let mut turn = std::pin::pin!(turn);
        let mut interrupted = std::pin::pin!(tokio::signal::ctrl_c());
        std::future::poll_fn(|context| {
            if !cancel.is_cancelled() && interrupted.as_mut().poll(context).is_ready() {
                cancel.cancel();
            }
            turn.as_mut().poll(context)
        })
        .await
    })?;
    store.close().wait()?;
    report(&result, &session, arguments.quiet, output)
}

/// Dollars of a setting in millionths; what is not an amount sets no limit.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked to be a sum people pay")]
fn micro_usd(dollars: f64) -> Option<u64> {
    (dollars.is_finite() && (0.0..1e9).contains(&dollars)).then_some((dollars * 1e6).round() as u64)
}

/// What the environment says about waiting, over the usual.
fn persistence(env: &Env) -> Persistence {
    let usual = Persistence::default();
    let seconds = |name: &str, usual: Duration| {
        env.number(name)
            .and_then(|given| Duration::try_from_secs_f64(given).ok())
            .filter(|d| !d.is_zero())
            .unwrap_or(usual)
    };
    let retries = env.number("HERMES_STREAM_RETRIES").filter(|given| (0.0..100.0).contains(given));
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 0 and 100")]
    let stream_retries = retries.map_or(usual.stream_retries, |given| given as u32);
    Persistence {
        stream_retries,
        answer_within: seconds("HERMES_API_TIMEOUT", usual.answer_within),
        stall_after: seconds("HERMES_STREAM_STALE_TIMEOUT", usual.stall_after),
        ..usual
    }
}

fn question(given: Option<&str>) -> Result<String> {
    if let Some(text) = given.map(str::trim).filter(|text| !text.is_empty()) {
        return Ok(text.to_owned());
    }
    if given.is_some() {
        bail!("the question is empty");
    }
    if std::io::stdin().is_terminal() {
        bail!("nothing to ask; give a question with -q, or pipe one in");
    }
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text).context("standard input is not text")?;
    match text.trim() {
        "" => bail!("nothing to ask: standard input was empty"),
        text => Ok(text.to_owned()),
    }
}

fn choose_model(
    arguments: &ChatArguments,
    context: &Context,
    config: hermes_config::Config,
    clock: &Arc<dyn Clock>,
) -> Result<(Arc<dyn Model>, String)> {
    let facts = Facts::read(&context.home, config, context.env.clone());
    let choice =
        Choice { provider: arguments.provider.clone(), model: arguments.model.clone(), ..Choice::default() };
    let target = match resolve(&facts, &choice, Surface::Cli)? {
        Resolved::Offline => return Ok((Arc::new(OfflineModel), MODEL_NAME.to_owned())),
        Resolved::Target(target) => target,
    };
    let mut net = NetConfig::new(clock.clone());
    net.ca_bundle = ["HERMES_CA_BUNDLE", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE"]
        .into_iter()
        .find_map(|name| context.env.get(name))
        .map(PathBuf::from);
    let net = Client::new(net)?;
    let means = Means::new(net.clone(), clock.clone(), &context.home, context.env.clone());
    let (fallbacks, _) = chain(&facts, Some(&target), Surface::Cli);
    let endpoints =
        std::iter::once(&*target).chain(&fallbacks).map(|target| target.endpoint(&means)).collect();
    let client =
        ModelClient::new(net, clock.clone(), endpoints, persistence(&context.env)).context("no endpoint")?;
    let all = context.env.bool("HERMES_DUMP_REQUESTS").unwrap_or(false);
    let extent = if all { Extent::All } else { Extent::Failures };
    let dumps = Dumps { folder: context.home.join("sessions"), extent };
    Ok((Arc::new(client.with_dumps(Some(dumps))), target.model.clone()))
}

/// A new session, or one that goes on with its own prompt and everything said so far.
fn begin(store: &Store, resume: Option<&str>, folder: &Path, text: String) -> Result<TurnInput> {
    let source = "cli".to_owned();
    let Some(name) = resume else {
        let session = SessionId::generate(SessionKind::Local, civil_now());
        let date = civil_now();
        let system = system_prompt(folder, &format!("{:04}-{:02}-{:02}", date.year, date.month, date.day));
        return Ok(TurnInput { session, source, system, history: Vec::new(), text });
    };
    let session = store.resolve(name).wait()?.with_context(|| format!("Session not found: {name}"))?;
    let row = store.session(&session).wait()?.with_context(|| format!("Session not found: {name}"))?;
    store.reopen_session(&session).wait()?;
    let history = store.transcript(&session).wait()?.into_iter().map(|stored| stored.message).collect();
    let system = row.system_prompt.unwrap_or_else(|| system_prompt(folder, "unknown"));
    Ok(TurnInput { session, source, system, history, text })
}

fn civil_now() -> CivilTime {
    #[expect(clippy::cast_possible_truncation, reason = "seconds of a date")]
    let seconds = now().seconds() as i64;
    let local = DateTime::from_timestamp(seconds, 0).unwrap_or_default().with_timezone(&Local);
    CivilTime {
        year: local.year(),
        month: local.month(),
        day: local.day(),
        hour: local.hour(),
        minute: local.minute(),
        second: local.second(),
    }
}

fn report(result: &TurnResult, session: &SessionId, quiet: bool, output: &Output) -> Result<ExitCode> {
    if let Some(error) = &result.error {
        if *error == hermes_types::ModelError::Cancelled {
            output.notice("interrupted");
            return Ok(ExitCode::from(130));
        }
        bail!("{error}");
    }
    output.line(result.response.as_deref().unwrap_or_default());
    if !quiet {
        output.notice(&format!("\nsession {session}; go on with `hermes chat --resume {session} -q …`"));
    }
    Ok(ExitCode::SUCCESS)
}

/// A terminal without a screen: what happens goes to standard error, the answer to standard output at the end.
struct Terminal<'a> {
    output: &'a Output,
    quiet: bool,
}

impl Frontend for Terminal<'_> {
    fn show(&self, event: Event) {
        if self.quiet {
            return;
        }
        match event {
            Event::ToolStarted { name, preview, .. } => self.output.notice(&format!("· {name} {preview}")),
            Event::Delta(Delta::Status(text)) => self.output.notice(&format!("· {text}")),
            _ => {}
        }
    }

    fn ask<'a>(&'a self, _: Question, _: &'a Cancel) -> BoxFuture<'a, Answer> {
        Box::pin(std::future::ready(Answer::Unavailable))
    }
}
