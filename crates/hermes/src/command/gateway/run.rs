//! `hermes gateway run`: runs in the foreground until it is told to stop.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result};
use hermes_agent::{DeferredSessionLogs, SessionLogMode};
use hermes_channels::WebhookMounts;
use hermes_config::settings::SecuritySettings;
use hermes_config::{Config, Env, ProgramSurface, user_home};
use hermes_exec::{release_memory, release_program_pages};
use hermes_gateway::process::{self, HomeClaim, SendingLock, StateFile};
use hermes_gateway::{
    ChannelHealth, ChatMessageSender, EventObserver as _, Gateway, GatewayPorts, LiveSettings,
};
use hermes_serve::{App, ServerHandle};
use hermes_store::Store;
use hermes_task::{SystemClock, TaskGroup};
use hermes_tools::ProcessNotice;
use hermes_types::{Cancel, Clock, MessageSender};
use rustix::process::Signal;
use tokio::signal::unix::{Signal as Signals, SignalKind, signal};
use tokio::sync::Notify;
use tokio::sync::mpsc::UnboundedReceiver;

use super::servers::{ServerStarter, WebhookPurpose, WebhookServer};
use super::services::ProgramServices;
use super::update;
use crate::cli::{self, GatewayRunArguments};
use crate::command::curator;
use crate::context::{ProgramContext, local_time};
use crate::log::{self, LIFE, LogEcho};
use crate::output::Console;
use crate::wiring::agent_factory::AgentFactory;
use crate::wiring::agent_spec::RuntimeSpec;
use crate::wiring::channels::{self, ChannelLocks};
use crate::wiring::consolidation;
use crate::wiring::extensions::Extensions;
use crate::wiring::hooks::HookScripts;
use crate::wiring::live_agents::{LiveAgents, context as context_of};
use crate::wiring::mcp::{self, McpRuntime};
use crate::wiring::message_sender::{SandboxFilePolicy, chat_sender};
use crate::wiring::model::configured_judge;
use crate::wiring::program_runtime::{ProgramConfig, ProgramRuntime};
use crate::wiring::{CommandRuntime, bundled_skills, references};

/// Limits the wait for the lock: a child process of a killed gateway may hold it for a moment.
const LOCK_RELEASE_TIMEOUT: Duration = Duration::from_secs(5);
/// Limits the wait for a command that sends in place of the gateway.
const SENDING_LOCK_TIMEOUT: Duration = Duration::from_secs(40);
/// The exit code for an unusable configuration, as in `sysexits.h`.
const EXIT_CONFIG: u8 = 78;
/// The exit code that asks a supervisor to start the gateway again, as in `sysexits.h`.
const EXIT_RESTART: u8 = 75;
/// The time another gateway has to end when it is replaced.
const REPLACE_TIMEOUT: Duration = Duration::from_secs(20);
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// The interval at which files for other programs are updated.
const EXPORT_INTERVAL: Duration = Duration::from_secs(5);
/// The interval at which unused memory is released.
const RELEASE_INTERVAL: Duration = Duration::from_secs(10);
/// Limits the session logs written at once, so that they do not occupy a core.
const LOGS_AT_ONCE: usize = 100;
const LOGS_WHEN_IDLE: usize = 500;
/// Limits the time for session logs when the gateway ends.
const FINAL_LOGS_TIMEOUT: Duration = Duration::from_secs(3);

pub(crate) fn run(
    arguments: GatewayRunArguments,
    context: &ProgramContext,
    output: &Console,
) -> Result<ExitCode> {
    context.home.ensure()?;
    output.ignore_closed_stdout();
    let config = Config::load(&context.home, &context.env);
    config.require_usable(&context.env)?;
    context.register_secrets(&config);
    start_log(context, &config, arguments);
    let Some(claim) = claim(arguments.replace, context, output)? else { return Ok(ExitCode::FAILURE) };
    bundled_skills::sync_quietly(context);
    curator::run_if_due(context);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(std::thread::available_parallelism().map_or(2, usize::from).clamp(2, 4))
        .enable_all()
        .build()
        .context("no runtime")?;
    let ended = runtime.block_on(serve(arguments, context, output));
    // Remaining background work has been cancelled and is not waited for.
    runtime.shutdown_timeout(Duration::from_secs(1));
    drop(claim);
    match ended? {
        ExitMode::Stop => Ok(ExitCode::SUCCESS),
        // A restart would not help; the service definition excludes this exit code from restarts.
        ExitMode::NothingUsable => Ok(ExitCode::from(EXIT_CONFIG)),
        ExitMode::Restart if arguments.external_supervisor => Ok(ExitCode::from(EXIT_RESTART)),
        // The process keeps its id, so a service manager need not notice.
        ExitMode::Restart => Err(hermes_exec::re_exec().into()),
    }
}

fn start_log(context: &ProgramContext, config: &Config, arguments: GatewayRunArguments) {
    let masked = SecuritySettings::resolve(config, &context.env).redact_secrets;
    let secrets = if masked { log::LogMasking::Mask } else { log::LogMasking::Show };
    let echo = match arguments {
        GatewayRunArguments { verbose: true, .. } => LogEcho::Everything,
        GatewayRunArguments { quiet: true, .. } => LogEcho::Errors,
        _ => LogEcho::Life,
    };
    log::start_gateway(&context.home.join("logs"), secrets, echo, log::level(config));
    context.set_time_zone(config);
}

/// Claims the home, or prints which process has it.
fn claim(replace: bool, context: &ProgramContext, output: &Console) -> Result<Option<HomeClaim>> {
    let argv: Vec<String> = std::env::args().collect();
    let (mut told, mut waiting) = (false, false);
    let clock = SystemClock::new();
    let began = clock.monotonic();
    loop {
        let taken = match process::claim(&context.home, &argv)? {
            Ok(claim) => return Ok(Some(claim)),
            Err(taken) => taken,
        };
        if taken.pid.is_none() && clock.monotonic().saturating_sub(began) < LOCK_RELEASE_TIMEOUT {
            if !std::mem::replace(&mut waiting, true) {
                output.notice("A gateway of this home has just ended; waiting for its processes to end.");
            }
            std::thread::sleep(POLL_INTERVAL);
            continue;
        }
        let who = taken.pid.map_or_else(|| "another process".to_owned(), |pid| format!("PID {pid}"));
        if !replace {
            output.error(&format!(
                "a gateway is already running for this home ({who}).\n  hermes gateway restart        restart it\n  \
                 hermes gateway stop           stop it\n  hermes gateway run --replace  take its place"
            ));
            return Ok(None);
        }
        let waited = clock.monotonic().saturating_sub(began);
        if waited > REPLACE_TIMEOUT + Duration::from_secs(2) {
            output.error(&format!("the gateway that is running ({who}) does not end"));
            return Ok(None);
        }
        if !told {
            told = true;
            output.notice(&format!("Replacing the gateway that is running ({who})"));
            process::signal_running(&context.home, Signal::TERM);
        } else if waited > REPLACE_TIMEOUT {
            process::signal_running(&context.home, Signal::KILL);
        }
        std::thread::sleep(POLL_INTERVAL);
    }
}

/// The running parts, which are ended in order.
struct GatewayRuntime {
    gateway: Gateway,
    sender: ChatMessageSender,
    store: Store,
    clock: Arc<dyn Clock>,
    live: LiveSettings,
    api: Option<(App, ServerHandle)>,
    webhooks: Option<WebhookServer>,
    /// The platforms and the locks that keep other gateways off them.
    channels: ChannelLocks,
    /// The lock that keeps commands from sending at the same time.
    sending_lock: Option<SendingLock>,
    command_runtime: CommandRuntime,
    mcp: McpRuntime,
    extensions: Extensions,
    /// The session logs that are still to be written.
    logs: Arc<DeferredSessionLogs>,
    state: Arc<StateFile>,
    /// The program's own background tasks.
    background: TaskGroup,
    /// Notified when a restart is requested in a chat.
    restart: Arc<Notify>,
    /// Set while the memory is being tidied.
    is_consolidating: Arc<AtomicBool>,
    cancel: Cancel,
}

/// Says how a gateway ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ExitMode {
    Stop,
    Restart,
    /// No platform or server can work with the present configuration.
    NothingUsable,
}

async fn serve(
    arguments: GatewayRunArguments,
    context: &ProgramContext,
    output: &Console,
) -> Result<ExitMode> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let state = Arc::new(StateFile::new(&context.home, clock.now()));
    let mut signals = GatewaySignals::new()?;
    let mut running = match start(context, output, clock.clone(), state.clone()).await {
        Ok(running) => running,
        Err(error) => {
            state.set("startup_failed", Some(format!("{error:#}")), clock.now());
            return Err(error);
        }
    };
    state.set("running", None, clock.now());
    notify("READY=1\nSTATUS=Running");
    if !arguments.quiet {
        output.notice(&running.greeting());
    }
    tracing::info!(target: LIFE, platforms = running.gateway.status().platforms().join(","), "the gateway is running");
    let ending = running.wait_for_exit(&mut signals).await;
    notify(if ending == ExitMode::Restart { "RELOADING=1" } else { "STOPPING=1" });
    tracing::info!(target: LIFE, ?ending, "the gateway is stopping");
    let reasons = running.failure_reasons();
    running.stop().await;
    tracing::info!(target: LIFE, "the gateway has stopped");
    match ending {
        ExitMode::NothingUsable => {
            // The log has printed the reasons.
            output
                .error("no platform can be reached; correct what is said above and start the gateway again");
            state.set("startup_failed", Some(reasons), clock.now());
        }
        ExitMode::Stop | ExitMode::Restart => {
            state.set("stopped", Some("asked to stop".to_owned()), clock.now());
        }
    }
    Ok(ending)
}

async fn start(
    context: &ProgramContext,
    output: &Console,
    clock: Arc<dyn Clock>,
    state: Arc<StateFile>,
) -> Result<GatewayRuntime> {
    let store = context.store(output)?;
    let folder = working_folder(context)?;
    let live = LiveSettings::new(context.home.clone(), Env::process(), folder.clone());
    let settings = live.current();
    for warning in settings.config.warnings() {
        tracing::warn!("{warning}");
    }
    let mut own = context_of(&context.home, &settings);
    // Given as a flag, it is not in the environment that is read again.
    let accepted = context
        .env
        .get("HERMES_ACCEPT_HOOKS")
        .map(|value| ("HERMES_ACCEPT_HOOKS".to_owned(), value.to_owned()));
    own.env = own.env.with_variables(accepted);
    let from = ProgramConfig { context: &own, config: &settings.config };
    let spec = RuntimeSpec::service();
    let judge = configured_judge(from, spec.surface, &clock, &store).unwrap_or_else(|error| {
        // Each turn reports this until it is fixed; everything that needs no model goes on. The log prints it.
        tracing::error!(error = format!("{error:#}"), "no model can be used");
        None
    });
    let cancel = Cancel::new();
    let files = Arc::new(SandboxFilePolicy::new(&own, &settings.config)?);
    let sender = chat_sender(live.clone(), store.clone(), clock.clone(), files, &cancel);
    let of_tools = Some(Arc::new(sender.clone()) as Arc<dyn MessageSender>);
    let (runtime, notices) = ProgramRuntime::open(spec, from, store.clone(), clock.clone(), of_tools, judge)?;
    runtime.extensions.log_problems();
    runtime.extensions.plugins.load().await;
    for problem in runtime.extensions.plugin_problems() {
        tracing::warn!("{problem}");
    }
    let checkpoints = runtime.checkpoint_manager(from)?;
    let logs = Arc::new(DeferredSessionLogs::new(store.clone(), Arc::new(local_time)));
    let factory = AgentFactory::new(runtime.clone(), SessionLogMode::Deferred(logs.clone()));
    let agents = Arc::new(LiveAgents::new(live.clone(), factory));
    let restart = Arc::new(Notify::new());
    let references = references(folder, context, &settings.config, clock.clone())?;
    let services = ProgramServices::new(live.clone(), &runtime, checkpoints, references, restart.clone());
    let services = Arc::new(services);
    let beside = TaskGroup::new(&cancel);
    let watchers = Arc::new(HookScripts::start(context.home.path(), &settings.env, clock.clone(), &beside));
    let ports = GatewayPorts {
        agents,
        commands: services.clone(),
        skills: services.clone(),
        processes: services.clone(),
        programs: services.clone(),
        expansion: services,
        observer: watchers.clone(),
    };
    let gateway = Gateway::new(&sender, Arc::new(local_time), &ports, &cancel);
    drop(beside.spawn("notices of processes", forward_notices(sender.clone(), notices)));
    let sending = acquire_sending_lock(&live, &*clock).await?;
    gateway.recover().await?;
    let mounts = WebhookMounts::default();
    let servers =
        ServerStarter { gateway: &gateway, sender: &sender, mounts: &mounts, state: &state, cancel: &cancel };
    let webhooks = servers.start_webhooks(&ports).await;
    runtime.mcp.follow(from);
    runtime.mcp.wait_until_settled(mcp::discovery_timeout(from)).await;
    let channels = channels::open(gateway.channels(), &live, &clock, &mounts, &state);
    gateway.resume_work().await?;
    // Last, so that a successful health check means that everything has started.
    let api = servers.start_api(&ports).await;
    gateway.scheduler().start();
    gateway.start_maintenance();
    let platforms = gateway.status().platforms();
    watchers.emit("gateway:startup", serde_json::json!({"platforms": platforms}));
    Ok(GatewayRuntime {
        gateway,
        sender,
        store,
        clock,
        live,
        api,
        webhooks,
        channels,
        sending_lock: sending,
        command_runtime: runtime.command_runtime,
        mcp: runtime.mcp,
        extensions: runtime.extensions,
        logs,
        state,
        background: beside,
        restart,
        is_consolidating: Arc::default(),
        cancel,
    })
}

/// Waits for a command that is sending in place of the gateway.
async fn acquire_sending_lock(live: &LiveSettings, clock: &dyn Clock) -> Result<Option<SendingLock>> {
    let began = clock.monotonic();
    loop {
        let right = SendingLock::try_acquire(live.home())?;
        if right.is_some() {
            return Ok(right);
        }
        if clock.monotonic().saturating_sub(began) > SENDING_LOCK_TIMEOUT {
            tracing::warn!("another process of this home does not stop sending; a reply may be sent twice");
            return Ok(None);
        }
        clock.sleep(POLL_INTERVAL).await;
    }
}

/// Sends notices of background processes to the chats that started them.
async fn forward_notices(sender: ChatMessageSender, mut notices: UnboundedReceiver<ProcessNotice>) {
    while let Some(notice) = notices.recv().await {
        let key = format!("process:{}:{}", notice.process, hermes_types::random_hex(8));
        sender.notify_conversation(notice.task.as_str(), notice.text, key).await;
    }
}

/// Returns the initial folder of tools in chats: `MESSAGING_CWD`, else the user's home.
fn working_folder(context: &ProgramContext) -> Result<PathBuf> {
    let given = context.env.get("MESSAGING_CWD").map(PathBuf::from).filter(|path| path.is_dir());
    Ok(match given {
        Some(folder) => folder,
        None => user_home(&context.env)?,
    })
}

impl GatewayRuntime {
    /// Returns what a start or a burst of work needed to the operating system.
    fn release_memory(&self) {
        self.store.release_memory();
        release_memory();
        release_program_pages();
    }

    async fn wait_for_exit(&mut self, signals: &mut GatewaySignals) -> ExitMode {
        let clock = self.clock.clone();
        let mut released = clock.monotonic();
        let mut idle_since = clock.monotonic();
        self.release_memory();
        // The exit mode and the deadline, once a stop was requested; running turns may end earlier.
        let mut leaving: Option<(ExitMode, Duration)> = None;
        loop {
            if self.is_unusable() {
                return ExitMode::NothingUsable;
            }
            if clock.monotonic().saturating_sub(released) > RELEASE_INTERVAL {
                released = clock.monotonic();
                self.release_memory();
            }
            let wait = if self.gateway.status().is_draining() { POLL_INTERVAL } else { EXPORT_INTERVAL };
            let wanted = tokio::select! {
                heard = signals.next() => match heard {
                    GatewaySignal::Stop => Some(ExitMode::Stop),
                    GatewaySignal::Restart => Some(ExitMode::Restart),
                    GatewaySignal::Drain => {
                        self.drain();
                        None
                    }
                    GatewaySignal::Reload => {
                        self.reload();
                        None
                    }
                },
                () = self.restart.notified() => Some(ExitMode::Restart),
                () = clock.sleep(wait) => {
                    self.gateway.export_files().await;
                    update::report(self.live.home(), self.sender.outbox(), clock.now()).await;
                    let most = if self.active_turns() == 0 { LOGS_WHEN_IDLE } else { LOGS_AT_ONCE };
                    self.logs.write_pending(&self.live.home().sessions(), most, clock.now()).await;
                    if self.active_turns() > 0 {
                        idle_since = clock.monotonic();
                    } else {
                        release_program_pages();
                        self.consolidate_if_idle(&mut idle_since);
                    }
                    None
                }
            };
            if let Some(ending) = wanted {
                // A second request stops without waiting.
                if leaving.is_some() {
                    return ending;
                }
                leaving = Some((ending, clock.monotonic() + self.drain_timeout()));
                self.drain();
            }
            let is_idle = self.active_turns() == 0;
            match leaving {
                Some((ending, latest)) if is_idle || clock.monotonic() >= latest => return ending,
                None if self.gateway.status().is_draining() && is_idle => return ExitMode::Stop,
                _ => {}
            }
        }
    }

    /// Tidies the memory in the background, once nothing has happened for a while and it is due.
    fn consolidate_if_idle(&self, idle_since: &mut Duration) {
        let settings = self.live.current();
        let minutes = settings.config.int("memory.consolidation.idle_minutes").unwrap_or_default();
        let wait = Duration::from_secs(u64::try_from(minutes).unwrap_or_default().saturating_mul(60));
        let now = self.clock.monotonic();
        if now.saturating_sub(*idle_since) < wait {
            return;
        }
        // The next look comes after the same time.
        *idle_since = now;
        let own = context_of(self.live.home(), &settings);
        if !consolidation::is_due(ProgramConfig { context: &own, config: &settings.config }, &*self.clock)
            || self.is_consolidating.swap(true, Ordering::AcqRel)
        {
            return;
        }
        let (store, clock) = (self.store.clone(), self.clock.clone());
        let (cancel, running) = (self.cancel.clone(), self.is_consolidating.clone());
        drop(self.background.spawn("memory-consolidation", async move {
            let from = ProgramConfig { context: &own, config: &settings.config };
            consolidation::run(from, ProgramSurface::Gateway, &store, &clock, &cancel).await;
            running.store(false, Ordering::Release);
        }));
    }

    /// Reloads the configuration. Running turns keep the one they began with.
    fn reload(&self) {
        let settings = self.live.reload();
        for warning in settings.config.warnings() {
            tracing::warn!("{warning}");
        }
        tracing::info!(target: LIFE, "the configuration was read again");
    }

    /// Stops accepting new turns.
    fn drain(&self) {
        tracing::info!(target: LIFE, running = self.active_turns(), "the gateway takes no new turns");
        self.gateway.drain();
        self.state.set("draining", None, self.clock.now());
    }

    /// Returns the number of running turns, in chats and for the API.
    fn active_turns(&self) -> usize {
        self.gateway.status().active_turns() + self.api.as_ref().map_or(0, |(app, _)| app.active_turns())
    }

    /// Returns how long running turns may take to end when the gateway stops.
    fn drain_timeout(&self) -> Duration {
        let seconds = self.live.current().config.int("agent.restart_drain_timeout").unwrap_or_default();
        Duration::from_secs(u64::try_from(seconds).unwrap_or_default())
    }

    /// Describes what runs and how it is reached.
    fn greeting(&self) -> String {
        let home = self.live.home();
        let mut lines = vec![format!("{} gateway, home {}", cli::version(), home.path().display())];
        if let Some((_, listening)) = &self.api {
            lines.push(format!("  API server: http://{}/v1", listening.address));
        }
        if let Some(WebhookServer { handle, purpose }) = &self.webhooks {
            lines.push(match purpose {
                WebhookPurpose::Events => format!("  Webhooks: http://{}/webhooks/", handle.address),
                WebhookPurpose::Platforms => format!("  Requests of platforms: http://{}", handle.address),
            });
        }
        let outlooks = self.gateway.channels().health();
        for (platform, outlook) in &outlooks {
            lines.push(match outlook {
                ChannelHealth::Active => format!("  {platform}: connecting"),
                // The log has printed the reason.
                ChannelHealth::Failed(_) => format!("  {platform}: not available"),
            });
        }
        if outlooks.is_empty() && self.api.is_none() && !self.takes_events() {
            lines.push(
                "  No platform is set up: only scheduled jobs run. `hermes gateway setup` adds one."
                    .to_owned(),
            );
        }
        lines.push("Press Ctrl-C to stop.".to_owned());
        lines.join("\n")
    }

    /// Tells whether webhooks of other services are taken.
    fn takes_events(&self) -> bool {
        self.webhooks.as_ref().is_some_and(|server| server.purpose == WebhookPurpose::Events)
    }

    /// Tells whether every platform has failed and no server runs.
    fn is_unusable(&self) -> bool {
        let outlooks = self.gateway.channels().health();
        let given_up = outlooks.values().all(|outlook| matches!(outlook, ChannelHealth::Failed(_)));
        !outlooks.is_empty() && given_up && self.api.is_none() && !self.takes_events()
    }

    /// Lists the reasons why platforms failed, one line each.
    fn failure_reasons(&self) -> String {
        let line = |(platform, outlook): (String, ChannelHealth)| match outlook {
            ChannelHealth::Failed(reason) => Some(format!("  {platform}: {reason}")),
            ChannelHealth::Active => None,
        };
        self.gateway.channels().health().into_iter().filter_map(line).collect::<Vec<_>>().join("\n")
    }

    async fn stop(self) {
        let Self {
            gateway,
            sender: _,
            store,
            clock,
            live,
            api,
            webhooks,
            channels,
            sending_lock: sending,
            command_runtime,
            mcp,
            extensions,
            logs,
            state,
            background: beside,
            restart: _,
            is_consolidating: _,
            cancel,
        } = self;
        if let Some(WebhookServer { handle, purpose }) = webhooks {
            handle.close(&*clock).await;
            if purpose == WebhookPurpose::Events {
                state.platform("webhook", "disconnected", None, clock.now());
            }
        }
        if let Some((app, listening)) = api {
            listening.stop(&app).await;
            state.platform("api_server", "disconnected", None, clock.now());
        }
        gateway.stop().await;
        drop(channels);
        drop(sending);
        let folder = live.home().sessions();
        let rest = async { while logs.write_pending(&folder, LOGS_AT_ONCE, clock.now()).await {} };
        tokio::select! {
            () = rest => {}
            () = clock.sleep(FINAL_LOGS_TIMEOUT) => {}
        }
        beside.shut_down().await;
        cancel.cancel();
        command_runtime.processes.end_recovered().await;
        tokio::join!(command_runtime.shut_down(), mcp.shut_down(), extensions.shut_down());
        if let Err(error) = store.close().await {
            tracing::warn!(%error, "the database was not closed in order");
        }
    }
}

/// The signals a gateway handles.
struct GatewaySignals {
    interrupt: Signals,
    terminate: Signals,
    drain: Signals,
    restart: Signals,
    reload: Signals,
}

/// The request a signal makes.
enum GatewaySignal {
    Stop,
    Drain,
    Restart,
    Reload,
}

impl GatewaySignals {
    fn new() -> Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            drain: signal(SignalKind::user_defined1())?,
            restart: signal(SignalKind::user_defined2())?,
            reload: signal(SignalKind::hangup())?,
        })
    }

    async fn next(&mut self) -> GatewaySignal {
        tokio::select! {
            _ = self.interrupt.recv() => GatewaySignal::Stop,
            _ = self.terminate.recv() => GatewaySignal::Stop,
            _ = self.drain.recv() => GatewaySignal::Drain,
            _ = self.restart.recv() => GatewaySignal::Restart,
            _ = self.reload.recv() => GatewaySignal::Reload,
        }
    }
}

/// Notifies the service manager, if it set `NOTIFY_SOCKET`.
fn notify(text: &str) {
    let Some(path) = Env::process().get("NOTIFY_SOCKET").map(str::to_owned) else { return };
    if let Err(error) = hermes_gateway::process::notify_service(&path, text) {
        tracing::debug!(%error, "the service manager was not told");
    }
}
