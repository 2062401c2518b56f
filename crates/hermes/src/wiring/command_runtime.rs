//! Running commands: the backend, the sandbox and the approvals.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Result;
use hermes_browser::BrowserPool;
use hermes_config::settings::{
    ApprovalMode as ConfiguredMode, ApprovalSettings, CodeSettings, DisplaySettings, SecuritySettings,
    TerminalSettings,
};
use hermes_config::yaml::{KeyPath as Key, YamlValue};
use hermes_config::{Home, ManagedMode, ProgramSurface, set, user_home};
use hermes_exec::{LocalHost, LocalOptions, OutputBounds, ProgramRunner};
use hermes_tools::{
    Approvals, CheckpointManager, CommandApprovalMode, CommandScanner, EnvironmentPoolOptions, ProcessNotice,
    ProcessNoticeSink, ProcessNotificationLevel, ProcessRegistry, ProcessTool, RlSession, ScanFailurePolicy,
    ScanOptions, ScannerInstaller, ScannerInstallerOptions, SecretMasking, TaskFolders, TaskShells,
    TerminalOptions, TerminalTool, ToolRegistry, Yolo,
};
use hermes_types::{Cancel, Clock, Secret, SideModel};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::agent_spec::{RuntimeSpec, ScannerInstallation};
use super::backends::BackendBuilder;
use super::model::net_config;
use super::program_runtime::ProgramConfig;
use super::sandbox;
use super::{child_variables, working_folder};
use crate::context::{ProgramContext, local_time};

/// The inputs of the tools that run commands.
pub(crate) struct CommandTools {
    pub(crate) user_home: PathBuf,
    pub(crate) secrets: SecretMasking,
    pub(crate) checkpoints: Option<Arc<CheckpointManager>>,
}

/// The command runtime as a frontend needs it. Clones share their state, for agents of the same process.
#[derive(Clone)]
pub(crate) struct CommandRuntime {
    /// The background processes, which end with the program.
    pub(crate) processes: ProcessRegistry,
    /// The shells commands run in, which are closed with the program.
    pub(crate) shells: TaskShells,
    /// The current folder of each conversation.
    pub(crate) folders: TaskFolders,
    /// The approvals given so far.
    pub(crate) approvals: Arc<Approvals>,
    /// The browser sessions, which are closed with the program.
    pub(crate) browsers: BrowserPool,
    /// The training runs, which end with the program.
    pub(crate) training: Arc<RlSession>,
    location: CommandLocation,
}

/// The place commands run in.
#[derive(Clone)]
enum CommandLocation {
    Local(Arc<LocalHost>),
    Remote(String),
}

/// Queues notices for the reader between two turns.
#[derive(Debug)]
struct NoticeQueue {
    wanted: ProcessNotificationLevel,
    sender: UnboundedSender<ProcessNotice>,
}

impl ProcessNoticeSink for NoticeQueue {
    fn notify(&self, notice: ProcessNotice) {
        if self.wanted.include(notice.kind) {
            // There is no receiver any more when the program ends.
            let _ = self.sender.send(notice);
        }
    }
}

impl CommandRuntime {
    /// Prepares the configured backend. If that lacks something, each call fails with the reason: a command meant
    /// for a container must never run on the host instead.
    ///
    /// Also returns the receiver for notices of background processes.
    pub(crate) fn open(
        spec: RuntimeSpec,
        from: ProgramConfig<'_>,
        judge: Option<SideModel>,
        clock: Arc<dyn Clock>,
    ) -> Result<(Self, UnboundedReceiver<ProcessNotice>)> {
        let ProgramConfig { context, config } = from;
        let folder = working_folder(context, config)?;
        let user_home = user_home(&context.env)?;
        let settings = TerminalSettings::resolve(config, &context.env);
        let processes = ProcessRegistry::new(&context.home, clock.clone(), Cancel::new());
        let (sender, notices) = unbounded_channel();
        let display = DisplaySettings::resolve(config, &context.env);
        let wanted = ProcessNotificationLevel::parse(&display.background_process_notifications);
        processes.report_to(Arc::new(NoticeQueue { wanted, sender }));
        // Processes left by a killed run are recovered, so that they can be ended. Done here, because their notices
        // now have a receiver.
        processes.recover();
        let folders = TaskFolders::new(folder.clone());
        let approvals = approvals(spec, judge, from, &clock);
        let browsers = BrowserPool::new(clock.clone());
        let training = Arc::new(RlSession::default());
        if settings.is_local() {
            let host = LocalHost::new(local_options(&user_home, &settings, context), clock);
            let shells = TaskShells::new(host.clone(), folders.clone());
            let place = CommandLocation::Local(host);
            return Ok((
                Self { processes, shells, folders, approvals, browsers, training, location: place },
                notices,
            ));
        }
        let python = CodeSettings::from_config(config).python;
        let places =
            BackendBuilder { settings: &settings, context, folder: &folder, python, clock: clock.clone() };
        let shells = match places.remote_backend() {
            Ok(elsewhere) => {
                let options = EnvironmentPoolOptions {
                    backend: elsewhere,
                    sharing: spec.sharing,
                    lifetime: settings.lifetime,
                };
                TaskShells::remote(options, folders.clone(), processes.clone(), clock)
            }
            Err(reason) => {
                tracing::warn!(backend = settings.backend, reason, "commands cannot be run");
                TaskShells::unavailable(&reason, folders.clone())
            }
        };
        let place = CommandLocation::Remote(places.notice());
        Ok((Self { processes, shells, folders, approvals, browsers, training, location: place }, notices))
    }

    /// Tells whether commands run on this machine.
    pub(crate) fn is_local(&self) -> bool {
        matches!(self.location, CommandLocation::Local(_))
    }

    /// Describes the sandbox or the backend in a sentence for the user.
    pub(crate) fn sandbox_notice(&self) -> Option<String> {
        match &self.location {
            CommandLocation::Local(host) => host.sandbox_notice(),
            CommandLocation::Remote(notice) => Some(notice.clone()),
        }
    }

    /// Adds the tools that run commands.
    pub(crate) fn register(
        &self,
        registry: &mut ToolRegistry,
        parts: CommandTools,
        clock: &Arc<dyn Clock>,
        from: ProgramConfig<'_>,
    ) {
        let ProgramConfig { context, config } = from;
        let CommandTools { user_home, secrets, checkpoints } = parts;
        let settings = TerminalSettings::resolve(config, &context.env);
        let options = TerminalOptions {
            timeout: settings.timeout,
            user_home,
            hermes_home: context.home.path().to_owned(),
            secrets,
        };
        let (shells, processes) = (self.shells.clone(), self.processes.clone());
        let terminal =
            TerminalTool::new(options, shells, processes.clone(), self.approvals.clone(), clock.clone())
                .with_checkpoints(checkpoints)
                .with_sudo(sudo_password(&settings, context))
                .with_problem(settings.problems.first().cloned());
        registry.register(Arc::new(terminal));
        let process = ProcessTool::new(processes, settings.timeout, secrets, clock.clone(), local_time);
        registry.register(Arc::new(process));
    }

    /// Ends all processes and shells when the program ends.
    pub(crate) async fn shut_down(&self) {
        self.browsers.close_all().await;
        self.training.end_all().await;
        self.processes.end_all().await;
        self.shells.close_all().await;
    }
}

fn local_options(user_home: &Path, settings: &TerminalSettings, context: &ProgramContext) -> LocalOptions {
    let temp = sandbox::temp_folder(context);
    let sandbox = sandbox::sandbox(settings, user_home, context);
    LocalOptions {
        variables: child_variables(&context.env, &settings.env_passthrough),
        temp,
        bounds: OutputBounds::default(),
        sandbox,
    }
}

fn approvals(
    spec: RuntimeSpec,
    judge: Option<SideModel>,
    from: ProgramConfig<'_>,
    clock: &Arc<dyn Clock>,
) -> Arc<Approvals> {
    let ProgramConfig { context, config } = from;
    let settings = ApprovalSettings::from_config(config);
    let mode = match settings.mode {
        ConfiguredMode::Manual => CommandApprovalMode::Manual,
        ConfiguredMode::Smart => CommandApprovalMode::Smart,
        ConfiguredMode::Off => CommandApprovalMode::Off,
    };
    let (home, management) = (context.home.clone(), ManagedMode::detect(&context.home, &context.env));
    let keep = move |key: &str| {
        if let Err(error) = allow_permanently(&home, management, key) {
            tracing::warn!(%error, key, "an approval could not be kept for good");
        }
    };
    let approvals = Approvals::new(mode, settings.allowlist, keep).with_denied(settings.deny);
    let is_set = context.env.bool("HERMES_YOLO_MODE").unwrap_or(false);
    approvals.set_yolo(if is_set { Yolo::On } else { spec.yolo });
    let approvals = approvals.with_scanner(scanner(spec, from, clock));
    let approvals = match spec.surface {
        ProgramSurface::Gateway => approvals.with_parallel_questions(),
        ProgramSurface::Cli => approvals,
    };
    Arc::new(match judge {
        Some(side) => approvals.with_reviewer(side, clock.clone()),
        None => approvals,
    })
}

/// Returns the program that scans commands before they run.
fn scanner(spec: RuntimeSpec, from: ProgramConfig<'_>, clock: &Arc<dyn Clock>) -> Option<CommandScanner> {
    let ProgramConfig { context, config } = from;
    let settings = SecuritySettings::resolve(config, &context.env);
    if !settings.tirith_enabled {
        return None;
    }
    let variables = child_variables(&context.env, &[]);
    let programs = ProgramRunner::new(variables, clock.clone());
    let options = ScanOptions {
        path: settings.tirith_path,
        hermes_home: context.home.path().to_owned(),
        limit: settings.tirith_timeout,
        failure: if settings.tirith_fail_open {
            ScanFailurePolicy::Allows
        } else {
            ScanFailurePolicy::Blocks
        },
    };
    let scanner = CommandScanner::new(programs.clone(), options);
    Some(match installer(spec, context, programs, clock) {
        Some(installer) => scanner.with_installer(installer),
        None => scanner,
    })
}

/// Returns the installer of the scanner, for runs that last long enough. Builds for tests install nothing by
/// themselves.
fn installer(
    spec: RuntimeSpec,
    context: &ProgramContext,
    programs: ProgramRunner,
    clock: &Arc<dyn Clock>,
) -> Option<ScannerInstaller> {
    if spec.scanner == ScannerInstallation::Never {
        return None;
    }
    let usual = (!cfg!(debug_assertions)).then_some(ScannerInstaller::RELEASES);
    let address = context.env.get("TIRITH_RELEASES").or(usual)?;
    let options = ScannerInstallerOptions {
        net: net_config(&context.env, clock),
        address: address.to_owned(),
        hermes_home: context.home.path().to_owned(),
        owner: Cancel::new(),
    };
    Some(ScannerInstaller::new(options, programs, clock.clone()))
}

/// Returns the sudo password. One that was deliberately set to empty is tried too.
fn sudo_password(settings: &TerminalSettings, context: &ProgramContext) -> Option<Secret> {
    let configured = settings.sudo_password.as_ref().map(|password| Secret::new(password.expose()));
    configured.or_else(|| context.env.get("SUDO_PASSWORD").map(Secret::new))
}

/// Adds a key to `command_allowlist` of config.yaml.
fn allow_permanently(home: &Home, management: ManagedMode, key: &str) -> hermes_config::Result<()> {
    let Some(path) = Key::parse("command_allowlist") else { return Ok(()) };
    set::update_value(home, management, &path, |current| {
        let mut list = match current {
            Some(YamlValue::Seq(list)) => list.clone(),
            _ => Vec::new(),
        };
        let known = list.iter().any(|entry| entry.as_str() == Some(key));
        (!known).then(|| {
            list.push(YamlValue::Str(key.to_owned()));
            YamlValue::Seq(list)
        })
    })
}
