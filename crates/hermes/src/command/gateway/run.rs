//! `hermes gateway run`: in the foreground, until it is told to stop.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use hermes_agent::{LaterLogs, Logs};
use hermes_config::settings::SecuritySettings;
use hermes_config::{Config, Env, Surface, user_home};
use hermes_exec::release_memory;
use hermes_gateway::process::{self, Claim, SendingRight, StateFile};
use hermes_gateway::{Gateway, Live, Outlook, Ports};
use hermes_model::provider::Choice;
use hermes_serve::{
    App, Listening, ServerSettings, StartError, WebhookChannel, WebhookSettings, start_webhooks,
};
use hermes_task::{SystemClock, Tasks};
use hermes_tools::Notice;
use hermes_types::{Cancel, Clock};
use rustix::process::Signal;
use tokio::signal::unix::{Signal as Signals, SignalKind, signal};
use tokio::sync::Notify;
use tokio::sync::mpsc::UnboundedReceiver;

use super::services::House;
use super::update;
use crate::cli::{self, ChatArguments};
use crate::context::{Context, local_time};
use crate::log::{self, Echo, LIFE};
use crate::output::Output;
use crate::wiring::channels::{self, Channels};
use crate::wiring::hooks::Hooks;
use crate::wiring::staff::{Staff, context as context_of};
use crate::wiring::{Order, Wired, assemble, references};

/// A gateway that was killed while it started a command leaves its lock to that command for a moment.
const LEFT_WITHIN: Duration = Duration::from_secs(5);
/// A command that sends in our place takes no longer.
const SENT_WITHIN: Duration = Duration::from_secs(40);
/// The exit code for a configuration with which nothing can be done, as in `sysexits.h`.
const CONFIGURATION: u8 = 78;
/// How long another gateway gets to end when it is replaced.
const REPLACE_WITHIN: Duration = Duration::from_secs(20);
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// How often files for other programs are brought up to date.
const TIDY_EVERY: Duration = Duration::from_secs(5);
/// How often memory nobody uses is given back.
const RELEASE_EVERY: Duration = Duration::from_secs(10);
/// Session logs written in one go, so that they never take a core for themselves.
const LOGS_AT_ONCE: usize = 100;
const LOGS_WHEN_IDLE: usize = 500;
/// And at the end.
const LAST_LOGS: Duration = Duration::from_secs(3);

pub(crate) fn run(verbose: bool, replace: bool, context: &Context, output: &Output) -> Result<ExitCode> {
    context.home.ensure()?;
    output.outlive_reader();
    let config = Config::load(&context.home, &context.env);
    config.require_usable(&context.env)?;
    context.learn_secrets(&config);
    start_log(context, &config, verbose);
    let Some(claim) = claim(replace, context, output)? else { return Ok(ExitCode::FAILURE) };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(std::thread::available_parallelism().map_or(2, usize::from).clamp(2, 4))
        .enable_all()
        .build()
        .context("no runtime")?;
    let ended = runtime.block_on(serve(context, output));
    // Whatever still runs beside has been told to end and is not waited for.
    runtime.shutdown_timeout(Duration::from_secs(1));
    drop(claim);
    match ended? {
        Ending::Stop => Ok(ExitCode::SUCCESS),
        // Not a failure that starting it again would help against; the service's definition knows the number.
        Ending::Hopeless => Ok(ExitCode::from(CONFIGURATION)),
        // The same process under the same number: whoever watches over it need not notice.
        Ending::Restart => Err(hermes_exec::become_again().into()),
    }
}

fn start_log(context: &Context, config: &Config, verbose: bool) {
    let masked = SecuritySettings::resolve(config, &context.env).redact_secrets;
    let secrets = if masked { log::Secrets::Mask } else { log::Secrets::Show };
    let echo = if verbose { Echo::Everything } else { Echo::Life };
    log::start_gateway(&context.home.join("logs"), secrets, echo, log::level(config));
    context.choose_zone(config);
}

/// The home, or a word about who has it.
fn claim(replace: bool, context: &Context, output: &Output) -> Result<Option<Claim>> {
    let argv: Vec<String> = std::env::args().collect();
    let (mut told, mut waiting) = (false, false);
    let clock = SystemClock::new();
    let began = clock.monotonic();
    loop {
        let taken = match process::claim(&context.home, &argv)? {
            Ok(claim) => return Ok(Some(claim)),
            Err(taken) => taken,
        };
        if taken.pid.is_none() && clock.monotonic().saturating_sub(began) < LEFT_WITHIN {
            if !std::mem::replace(&mut waiting, true) {
                output.notice("A gateway of this home has just ended; waiting until all of it is gone.");
            }
            std::thread::sleep(LOOK_EVERY);
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
        if waited > REPLACE_WITHIN + Duration::from_secs(2) {
            output.error(&format!("the gateway that is running ({who}) does not end"));
            return Ok(None);
        }
        if !told {
            told = true;
            output.notice(&format!("Replacing the gateway that is running ({who})"));
            process::signal_running(&context.home, Signal::TERM);
        } else if waited > REPLACE_WITHIN {
            process::signal_running(&context.home, Signal::KILL);
        }
        std::thread::sleep(LOOK_EVERY);
    }
}

/// What runs, to be ended in order.
struct Running {
    gateway: Gateway,
    api: Option<(App, Listening)>,
    webhooks: Option<Listening>,
    /// What keeps other gateways off our platforms.
    channels: Channels,
    /// What keeps commands from sending beside us.
    sending: Option<SendingRight>,
    wired: Wired,
    /// Session logs that are still to be written.
    logs: Arc<LaterLogs>,
    state: Arc<StateFile>,
    /// Work of the program beside the gateway.
    beside: Tasks,
    /// Somebody asked for it in a chat.
    restart: Arc<Notify>,
    cancel: Cancel,
}

/// How a gateway ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ending {
    Stop,
    Restart,
    /// There is no way in that could ever work as things are.
    Hopeless,
}

async fn serve(context: &Context, output: &Output) -> Result<Ending> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let state = Arc::new(StateFile::new(&context.home, clock.now()));
    let mut signals = Stopping::new()?;
    let mut running = match start(context, output, clock.clone(), state.clone()).await {
        Ok(running) => running,
        Err(error) => {
            state.set("startup_failed", Some(format!("{error:#}")), clock.now());
            return Err(error);
        }
    };
    state.set("running", None, clock.now());
    notify("READY=1\nSTATUS=Running");
    output.notice(&running.greeting());
    tracing::info!(target: LIFE, platforms = running.gateway.platforms().join(","), "the gateway is running");
    let ending = running.until(&mut signals).await;
    notify(if ending == Ending::Restart { "RELOADING=1" } else { "STOPPING=1" });
    tracing::info!(target: LIFE, ?ending, "the gateway is stopping");
    let reasons = running.reasons();
    running.stop().await;
    tracing::info!(target: LIFE, "the gateway has stopped");
    match ending {
        Ending::Hopeless => {
            output.error(&format!("no platform can be reached:\n{reasons}"));
            state.set("startup_failed", Some(reasons), clock.now());
        }
        Ending::Stop | Ending::Restart => state.set("stopped", Some("asked to stop".to_owned()), clock.now()),
    }
    Ok(ending)
}

async fn start(
    context: &Context,
    output: &Output,
    clock: Arc<dyn Clock>,
    state: Arc<StateFile>,
) -> Result<Running> {
    let store = context.store(output)?;
    let folder = folder(context)?;
    let live = Live::new(context.home.clone(), Env::process(), folder.clone());
    let settings = live.now();
    for warning in settings.config.warnings() {
        tracing::warn!("{warning}");
    }
    let own = context_of(&context.home, &settings);
    let arguments = ChatArguments::default();
    let order = Order {
        arguments: &arguments,
        platform: "gateway",
        surface: Surface::Gateway,
        choice: Choice::default(),
        hands: None,
        without: &[],
        logs: Logs::None,
        courier: None,
    };
    let made = assemble(&order, &own, settings.config.clone(), store.clone(), clock.clone(), output);
    let mut wired = match made {
        Ok(wired) => wired,
        Err(error) => {
            // Each turn says so, until it is put right; what needs no model goes on.
            output.error(&format!("{error:#}"));
            tracing::error!(error = format!("{error:#}"), "no model can be used");
            let offline = Choice { provider: Some("offline".to_owned()), ..Choice::default() };
            let order = Order { choice: offline, ..order };
            assemble(&order, &own, settings.config.clone(), store.clone(), clock.clone(), output)?
        }
    };
    let logs = Arc::new(LaterLogs::new(store.clone(), Arc::new(local_time)));
    let staff =
        Arc::new(Staff::new(live.clone(), store.clone(), clock.clone(), wired.hands.clone(), logs.clone()));
    let restart = Arc::new(Notify::new());
    let references = references(folder, context, &wired.config, clock.clone())?;
    let services =
        House::new(live.clone(), store.clone(), clock.clone(), &wired, references, restart.clone());
    let services = Arc::new(services);
    let cancel = Cancel::new();
    let beside = Tasks::new(&cancel);
    let watchers = Arc::new(Hooks::start(context.home.path(), &settings.env, clock.clone(), &beside));
    let ports = Ports { agents: staff.clone(), services, watchers };
    let gateway = Gateway::new(store, clock.clone(), Arc::new(local_time), live, ports, &cancel);
    staff.courier().begin(gateway.clone());
    if let Some(notices) = wired.notices.take() {
        drop(beside.spawn("notices of processes", pass_on(gateway.clone(), notices)));
    }
    let sending = take_sending(&gateway).await?;
    gateway.recover().await?;
    let webhooks = start_hooks_in(&gateway, &settings.config, &settings.env, &state, &cancel).await;
    let channels = channels::open(&gateway, &state);
    gateway.go_on().await?;
    // Last: who finds it healthy finds everything there.
    let api = start_api(&gateway, &settings.config, &settings.env, &state, &cancel).await;
    hermes_gateway::cron::start(&gateway);
    gateway.keep_house();
    let platforms = gateway.platforms();
    gateway.ports.watchers.emit("gateway:startup", serde_json::json!({"platforms": platforms}));
    Ok(Running { gateway, api, webhooks, channels, sending, wired, logs, state, beside, restart, cancel })
}

/// Waits for a command that is sending in our place.
async fn take_sending(gateway: &Gateway) -> Result<Option<SendingRight>> {
    let began = gateway.clock.monotonic();
    loop {
        let right = SendingRight::take(gateway.live.home())?;
        if right.is_some() {
            return Ok(right);
        }
        if gateway.clock.monotonic().saturating_sub(began) > SENT_WITHIN {
            tracing::warn!("another process of this home does not stop sending; a reply may be sent twice");
            return Ok(None);
        }
        gateway.clock.sleep(LOOK_EVERY).await;
    }
}

/// Tells chats what the processes they started have to say.
async fn pass_on(gateway: Gateway, mut notices: UnboundedReceiver<Notice>) {
    while let Some(notice) = notices.recv().await {
        let key = format!("process:{}:{}", notice.process, hermes_types::random_hex(8));
        gateway.tell_conversation(notice.task.as_str(), notice.text, key).await;
    }
}

/// Takes webhooks, if that is turned on. A server that cannot start is given up like any platform: the others go on.
async fn start_hooks_in(
    gateway: &Gateway,
    config: &Config,
    env: &Env,
    state: &StateFile,
    cancel: &Cancel,
) -> Option<Listening> {
    let settings = WebhookSettings::resolve(config, env)?;
    let now = gateway.clock.now();
    match start_webhooks(gateway.clone(), settings, cancel).await {
        Ok(listening) => {
            gateway.connect(Arc::new(WebhookChannel::new(gateway.clone())));
            state.platform("webhook", "connected", None, now);
            Some(listening)
        }
        Err(error) => {
            gateway.give_up("webhook", "webhook_start_failed", error.to_string(), state);
            None
        }
    }
}

async fn start_api(
    gateway: &Gateway,
    config: &Config,
    env: &Env,
    state: &StateFile,
    cancel: &Cancel,
) -> Option<(App, Listening)> {
    let settings = ServerSettings::resolve(config, env)?;
    let app = App::new(gateway.clone(), settings, &cli::version(), cancel);
    let started = match app {
        Ok(app) => hermes_serve::start(app.clone(), cancel).await.map(|listening| (app, listening)),
        Err(error) => Err(error),
    };
    let now = gateway.clock.now();
    match started {
        Ok(started) => {
            state.platform("api_server", "connected", None, now);
            Some(started)
        }
        Err(error) => {
            let code = match &error {
                StartError::Address { .. } => "api_server_port_in_use",
                StartError::NoKey => "api_server_no_key",
                _ => "api_server_start_failed",
            };
            gateway.give_up("api_server", code, error.to_string(), state);
            None
        }
    }
}

/// Where the tools of chats begin: `MESSAGING_CWD`, else the user's home.
fn folder(context: &Context) -> Result<PathBuf> {
    let given = context.env.get("MESSAGING_CWD").map(PathBuf::from).filter(|path| path.is_dir());
    Ok(match given {
        Some(folder) => folder,
        None => user_home(&context.env)?,
    })
}

impl Running {
    async fn until(&mut self, signals: &mut Stopping) -> Ending {
        let clock = self.gateway.clock.clone();
        let mut released = clock.monotonic();
        // How it is to end, and when at the latest: turns that run may come to their end before.
        let mut leaving: Option<(Ending, Duration)> = None;
        loop {
            if self.is_hopeless() {
                return Ending::Hopeless;
            }
            if clock.monotonic().saturating_sub(released) > RELEASE_EVERY {
                released = clock.monotonic();
                self.gateway.store.release_memory();
                release_memory();
            }
            let wait = if self.gateway.is_draining() { LOOK_EVERY } else { TIDY_EVERY };
            let wanted = tokio::select! {
                heard = signals.heard() => match heard {
                    Heard::Stop => Some(Ending::Stop),
                    Heard::Restart => Some(Ending::Restart),
                    Heard::Drain => {
                        self.drain();
                        None
                    }
                    Heard::Reload => {
                        self.reload();
                        None
                    }
                },
                () = self.restart.notified() => Some(Ending::Restart),
                () = clock.sleep(wait) => {
                    self.gateway.tidy().await;
                    update::report(&self.gateway).await;
                    let most = if self.running() == 0 { LOGS_WHEN_IDLE } else { LOGS_AT_ONCE };
                    self.logs.write(&self.gateway.live.home().sessions(), most, clock.now()).await;
                    None
                }
            };
            if let Some(ending) = wanted {
                // Whoever asks twice does not want to wait.
                if leaving.is_some() {
                    return ending;
                }
                leaving = Some((ending, clock.monotonic() + self.drain_time()));
                self.drain();
            }
            let is_idle = self.running() == 0;
            match leaving {
                Some((ending, latest)) if is_idle || clock.monotonic() >= latest => return ending,
                None if self.gateway.is_draining() && is_idle => return Ending::Stop,
                _ => {}
            }
        }
    }

    /// Reads the configuration again. Turns that run keep what they began with.
    fn reload(&self) {
        let settings = self.gateway.live.reread();
        for warning in settings.config.warnings() {
            tracing::warn!("{warning}");
        }
        tracing::info!(target: LIFE, "the configuration was read again");
    }

    /// Takes no new turns.
    fn drain(&self) {
        tracing::info!(target: LIFE, running = self.running(), "the gateway takes no new turns");
        self.gateway.drain();
        self.state.set("draining", None, self.gateway.clock.now());
    }

    /// Turns that run, in chats and for the API.
    fn running(&self) -> usize {
        self.gateway.active() + self.api.as_ref().map_or(0, |(app, _)| app.running())
    }

    /// How long turns that run may take to end when the gateway stops.
    fn drain_time(&self) -> Duration {
        let seconds = self.gateway.live.now().config.int("agent.restart_drain_timeout").unwrap_or_default();
        Duration::from_secs(u64::try_from(seconds).unwrap_or_default())
    }

    /// What runs now and where it is reached, for whoever started it.
    fn greeting(&self) -> String {
        let home = self.gateway.live.home();
        let mut lines = vec![format!("{} gateway, home {}", cli::version(), home.path().display())];
        if let Some((_, listening)) = &self.api {
            lines.push(format!("  API server: http://{}/v1", listening.address));
        }
        if let Some(listening) = &self.webhooks {
            lines.push(format!("  Webhooks: http://{}/webhooks/", listening.address));
        }
        let outlooks = self.gateway.outlooks();
        for (platform, outlook) in &outlooks {
            lines.push(match outlook {
                Outlook::Hopeful => format!("  {platform}: connecting"),
                Outlook::Hopeless(reason) => format!("  {platform}: {reason}"),
            });
        }
        if outlooks.is_empty() && self.api.is_none() && self.webhooks.is_none() {
            lines.push(
                "  No platform is set up: only scheduled jobs run. `hermes gateway setup` adds one."
                    .to_owned(),
            );
        }
        lines.push("Press Ctrl-C to stop.".to_owned());
        lines.join("\n")
    }

    /// Every platform there is was given up, and there is no other way in.
    fn is_hopeless(&self) -> bool {
        let outlooks = self.gateway.outlooks();
        let given_up = outlooks.values().all(|outlook| matches!(outlook, Outlook::Hopeless(_)));
        !outlooks.is_empty() && given_up && self.api.is_none() && self.webhooks.is_none()
    }

    /// Why platforms were given up, a line each.
    fn reasons(&self) -> String {
        let line = |(platform, outlook): (String, Outlook)| match outlook {
            Outlook::Hopeless(reason) => Some(format!("  {platform}: {reason}")),
            Outlook::Hopeful => None,
        };
        self.gateway.outlooks().into_iter().filter_map(line).collect::<Vec<_>>().join("\n")
    }

    async fn stop(self) {
        let Self {
            gateway,
            api,
            webhooks,
            channels,
            sending,
            wired,
            logs,
            state,
            beside,
            restart: _,
            cancel,
        } = self;
        if let Some(webhooks) = webhooks {
            webhooks.close(&*gateway.clock).await;
            state.platform("webhook", "disconnected", None, gateway.clock.now());
        }
        if let Some((app, listening)) = api {
            listening.stop(&app).await;
            state.platform("api_server", "disconnected", None, gateway.clock.now());
        }
        gateway.stop().await;
        drop(channels);
        drop(sending);
        let folder = gateway.live.home().sessions();
        let rest = async { while logs.write(&folder, LOGS_AT_ONCE, gateway.clock.now()).await {} };
        tokio::select! {
            () = rest => {}
            () = gateway.clock.sleep(LAST_LOGS) => {}
        }
        beside.shut_down().await;
        cancel.cancel();
        wired.hands.processes.end_recovered().await;
        wired.hands.let_go().await;
        if let Err(error) = gateway.store.close().await {
            tracing::warn!(%error, "the database was not closed in order");
        }
    }
}

/// The signals that end a gateway.
struct Stopping {
    interrupt: Signals,
    terminate: Signals,
    drain: Signals,
    restart: Signals,
    reload: Signals,
}

/// What a signal asks for.
enum Heard {
    Stop,
    Drain,
    Restart,
    Reload,
}

impl Stopping {
    fn new() -> Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            drain: signal(SignalKind::user_defined1())?,
            restart: signal(SignalKind::user_defined2())?,
            reload: signal(SignalKind::hangup())?,
        })
    }

    async fn heard(&mut self) -> Heard {
        tokio::select! {
            _ = self.interrupt.recv() => Heard::Stop,
            _ = self.terminate.recv() => Heard::Stop,
            _ = self.drain.recv() => Heard::Drain,
            _ = self.restart.recv() => Heard::Restart,
            _ = self.reload.recv() => Heard::Reload,
        }
    }
}

/// Tells a service manager that asked to be told.
fn notify(text: &str) {
    let Some(path) = Env::process().get("NOTIFY_SOCKET").map(str::to_owned) else { return };
    if let Err(error) = hermes_gateway::process::notify_service(&path, text) {
        tracing::debug!(%error, "the service manager was not told");
    }
}
