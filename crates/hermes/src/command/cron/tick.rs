//! `hermes cron tick`: starts the due jobs once and waits until their runs end.
//!
//! Messages are sent by the gateway if one runs, else by this process.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use hermes_agent::{DeferredSessionLogs, SessionLogMode};
use hermes_config::Env;
use hermes_gateway::{Gateway, GatewayPorts, LiveSettings};
use hermes_task::SystemClock;
use hermes_types::{Cancel, Clock};
use tokio::sync::Notify;

use crate::command::gateway::ProgramServices;
use crate::context::{ProgramContext, local_time, now};
use crate::output::Console;
use crate::wiring::agent_factory::AgentFactory;
use crate::wiring::agent_spec::RuntimeSpec;
use crate::wiring::live_agents::{LiveAgents, context as context_of};
use crate::wiring::mcp;
use crate::wiring::message_sender::{SandboxFilePolicy, chat_sender};
use crate::wiring::model::configured_judge;
use crate::wiring::program_runtime::{ProgramConfig, ProgramRuntime};
use crate::wiring::references;
use crate::wiring::temporary_delivery::TemporaryDelivery;

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
    let mut own = context_of(&context.home, &settings);
    let accepted = context
        .env
        .get("HERMES_ACCEPT_HOOKS")
        .map(|value| ("HERMES_ACCEPT_HOOKS".to_owned(), value.to_owned()));
    own.env = own.env.with_variables(accepted);
    let from = ProgramConfig { context: &own, config: &settings.config };
    let spec = RuntimeSpec::service();
    let judge = configured_judge(from, spec.surface, &clock, &store)?;
    // The tools that send messages are withheld from jobs, so no sender is needed.
    let (runtime, _notices) = ProgramRuntime::open(spec, from, store.clone(), clock.clone(), None, judge)?;
    runtime.extensions.log_problems();
    runtime.extensions.plugins.load().await;
    for problem in runtime.extensions.plugin_problems() {
        tracing::warn!("{problem}");
    }
    let checkpoints = runtime.checkpoint_manager(from)?;
    let logs = Arc::new(DeferredSessionLogs::new(store.clone(), Arc::new(local_time)));
    let factory = AgentFactory::new(runtime.clone(), SessionLogMode::Deferred(logs.clone()));
    let agents = Arc::new(LiveAgents::new(live.clone(), factory));
    let cancel = Cancel::new();
    let files = Arc::new(SandboxFilePolicy::new(&own, &settings.config)?);
    let sender = chat_sender(live.clone(), store.clone(), clock.clone(), files, &cancel);
    let (references, restart) =
        (references(folder, context, &settings.config, clock.clone())?, Arc::new(Notify::new()));
    let services = ProgramServices::new(live.clone(), &runtime, checkpoints, references, restart);
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
    runtime.mcp.follow(from);
    runtime.mcp.wait_until_settled(mcp::discovery_timeout(from)).await;
    let ran = gateway.scheduler().tick_once().await;
    if let Some(stand_in) = TemporaryDelivery::start(&sender).await {
        stand_in.finish(TIMEOUT).await;
    }
    gateway.stop().await;
    while logs.write_pending(&context.home.sessions(), LOGS_AT_ONCE, now()).await {}
    tokio::join!(
        runtime.command_runtime.shut_down(),
        runtime.mcp.shut_down(),
        runtime.extensions.shut_down()
    );
    store.close().await?;
    Ok(ran?)
}
