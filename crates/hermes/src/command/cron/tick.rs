//! `hermes cron tick`: one look at the jobs, and the runs it begins to their end.
//!
//! What is to be said leaves through the gateway where one runs, else from here.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use hermes_agent::{LaterLogs, Logs};
use hermes_config::{Env, Surface};
use hermes_gateway::cron::tick_once;
use hermes_gateway::{Gateway, Live, NoWatchers, Ports};
use hermes_model::provider::Choice;
use hermes_task::SystemClock;
use hermes_types::{Cancel, Clock};
use tokio::sync::Notify;

use crate::cli::ChatArguments;
use crate::command::gateway::House;
use crate::context::{Context, local_time, now};
use crate::output::Output;
use crate::wiring::staff::{Staff, context as context_of};
use crate::wiring::stand_in::StandIn;
use crate::wiring::{Order, assemble, references};

const LOGS_AT_ONCE: usize = 64;
/// How long answers may take to leave when they leave from here.
const PATIENCE: Duration = Duration::from_secs(30);

pub(super) fn run(context: &Context, output: &Output) -> Result<ExitCode> {
    context.usable_config(output)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .context("no runtime")?;
    let count = runtime.block_on(tick(context, output))?;
    if count > 0 {
        output.line(&format!("{count} job(s) run."));
    }
    Ok(ExitCode::SUCCESS)
}

async fn tick(context: &Context, output: &Output) -> Result<usize> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let store = context.store(output)?;
    let folder = std::env::current_dir().context("the working folder is gone")?;
    let live = Live::new(context.home.clone(), Env::process(), folder.clone());
    let settings = live.now();
    let own = context_of(&context.home, &settings);
    let arguments = ChatArguments::default();
    let order = Order {
        arguments: &arguments,
        platform: "cron",
        surface: Surface::Gateway,
        choice: Choice::default(),
        hands: None,
        without: &[],
        logs: Logs::None,
        courier: None,
    };
    let wired = assemble(&order, &own, settings.config.clone(), store.clone(), clock.clone(), output)?;
    let logs = Arc::new(LaterLogs::new(store.clone(), Arc::new(local_time)));
    let staff =
        Arc::new(Staff::new(live.clone(), store.clone(), clock.clone(), wired.hands.clone(), logs.clone()));
    let (references, restart) =
        (references(folder, context, &wired.config, clock.clone())?, Arc::new(Notify::new()));
    let services = House::new(live.clone(), store.clone(), clock.clone(), &wired, references, restart);
    let services = Arc::new(services);
    let ports = Ports { agents: staff, services, watchers: Arc::new(NoWatchers) };
    let cancel = Cancel::new();
    let gateway = Gateway::new(store.clone(), clock, Arc::new(local_time), live, ports, &cancel);
    let ran = tick_once(&gateway).await;
    if let Some(stand_in) = StandIn::begin(&gateway).await {
        stand_in.finish(PATIENCE).await;
    }
    gateway.stop().await;
    while logs.write(&context.home.sessions(), LOGS_AT_ONCE, now()).await {}
    wired.hands.let_go().await;
    store.close().await?;
    Ok(ran?)
}
