//! `hermes cron tick`: starts the due jobs once and waits until their runs end.
//!
//! Messages are sent by the gateway if one runs, else by this process.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use hermes_agent::{DeferredSessionLogs, SessionLogMode};
use hermes_config::{Env, ProgramSurface};
use hermes_gateway::{Gateway, GatewayPorts, LiveSettings};
use hermes_model::provider::ProviderChoice;
use hermes_task::SystemClock;
use hermes_types::{Cancel, Clock};
use tokio::sync::Notify;

use crate::cli::ChatArguments;
use crate::command::gateway::ProgramServices;
use crate::context::{ProgramContext, local_time, now};
use crate::output::Console;
use crate::wiring::agent_factory::{AgentFactory, context as context_of};
use crate::wiring::message_sender::{SandboxFilePolicy, chat_sender};
use crate::wiring::temporary_delivery::TemporaryDelivery;
use crate::wiring::{AgentSpec, build_agent, references};

const LOGS_AT_ONCE: usize = 64;
/// Limits the time for sending answers from this process.
const TIMEOUT: Duration = Duration::from_secs(30);

pub(super) fn run(context: &ProgramContext, output: &Console) -> Result<ExitCode> {
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

async fn tick(context: &ProgramContext, output: &Console) -> Result<usize> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let store = context.store(output)?;
    let folder = std::env::current_dir().context("the working directory no longer exists")?;
    let live = LiveSettings::new(context.home.clone(), Env::process(), folder.clone());
    let settings = live.current();
    let own = context_of(&context.home, &settings);
    let arguments = ChatArguments::default();
    let order = AgentSpec {
        arguments: &arguments,
        platform: "cron",
        surface: ProgramSurface::Gateway,
        choice: ProviderChoice::default(),
        command_runtime: None,
        excluded_toolsets: &[],
        logs: SessionLogMode::None,
        message_sender: None,
    };
    let wired = build_agent(&order, &own, settings.config.clone(), store.clone(), clock.clone(), output)?;
    let logs = Arc::new(DeferredSessionLogs::new(store.clone(), Arc::new(local_time)));
    let cancel = Cancel::new();
    let files = Arc::new(SandboxFilePolicy::new(&own, &settings.config)?);
    let sender = chat_sender(live.clone(), store.clone(), clock.clone(), files, &cancel);
    let agents = Arc::new(AgentFactory::new(
        live.clone(),
        store.clone(),
        clock.clone(),
        wired.command_runtime.clone(),
        logs.clone(),
        Arc::new(sender.clone()),
    ));
    let (references, restart) =
        (references(folder, context, &wired.config, clock.clone())?, Arc::new(Notify::new()));
    let services =
        ProgramServices::new(live.clone(), store.clone(), clock.clone(), &wired, references, restart);
    let services = Arc::new(services);
    let ports = GatewayPorts {
        commands: services.clone(),
        skills: services.clone(),
        processes: services.clone(),
        programs: services.clone(),
        expansion: services,
        ..GatewayPorts::new(agents)
    };
    let gateway = Gateway::new(&sender, Arc::new(local_time), &ports, &cancel);
    let ran = gateway.scheduler().tick_once().await;
    if let Some(stand_in) = TemporaryDelivery::start(&sender).await {
        stand_in.finish(TIMEOUT).await;
    }
    gateway.stop().await;
    while logs.write_pending(&context.home.sessions(), LOGS_AT_ONCE, now()).await {}
    wired.command_runtime.shut_down().await;
    store.close().await?;
    Ok(ran?)
}
