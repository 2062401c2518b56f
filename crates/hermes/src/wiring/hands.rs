//! Running commands: where, inside which fence, with whose permission.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use hermes_config::settings::{
    ApprovalMode as ConfiguredMode, ApprovalSettings, CodeSettings, DisplaySettings, SandboxMode,
    SecuritySettings, TerminalSettings,
};
use hermes_config::yaml::{Path as Key, Value};
use hermes_config::{Config, Home, Management, Surface, set};
use hermes_exec::{Bounds, LocalHost, LocalOptions, Programs};
use hermes_tools::{
    Announcements, ApprovalMode, Approvals, Checkpoints, Folders, Installer, InstallerOptions, Notice,
    Process, Processes, Registry, RoomOptions, ScanFailure, ScanOptions, Scanner, Secrets, Shells, Tenancy,
    Terminal, TerminalOptions, Watch, Yolo,
};
use hermes_types::{Cancel, Clock, Secret, SideModel};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::child_variables;
use super::fence;
use super::model::net_config;
use super::places::Places;
use crate::cli::ChatArguments;
use crate::context::{Context, local_time};

/// What the terminal shares with the other tools.
pub(crate) struct Shared<'a> {
    pub(crate) arguments: &'a ChatArguments,
    pub(crate) user_home: PathBuf,
    /// Where the program was started.
    pub(crate) folder: &'a Path,
    pub(crate) folders: Folders,
    pub(crate) secrets: Secrets,
    pub(crate) checkpoints: Option<Arc<Checkpoints>>,
    /// Who decides about dangerous commands in smart mode.
    pub(crate) judge: Option<SideModel>,
    pub(crate) surface: Surface,
    pub(crate) clock: Arc<dyn Clock>,
}

/// What a surface needs of it. Clones are the same hands, for agents that share a process.
#[derive(Clone)]
pub(crate) struct Hands {
    /// Background processes, to be ended with the program.
    pub(crate) processes: Processes,
    /// Where commands run, to be closed with the program.
    pub(crate) shells: Shells,
    /// Where each conversation is.
    pub(crate) folders: Folders,
    /// What was agreed to.
    pub(crate) approvals: Arc<Approvals>,
    place: CommandPlace,
}

/// Where commands run.
#[derive(Clone)]
enum CommandPlace {
    Local(Arc<LocalHost>),
    Elsewhere(String),
}

/// Hands notices to whoever reads them between two turns.
#[derive(Debug)]
struct Postbox {
    wanted: Announcements,
    sender: UnboundedSender<Notice>,
}

impl Watch for Postbox {
    fn tell(&self, notice: Notice) {
        if self.wanted.include(notice.kind) {
            // Nobody reads any more when the program ends.
            let _ = self.sender.send(notice);
        }
    }
}

impl Hands {
    /// Prepares the configured place for commands. One that lacks something says so at each call: a command meant for a
    /// container must never run on the host instead.
    ///
    /// Beside it comes what background processes have to say by themselves.
    pub(crate) fn open(
        shared: &Shared<'_>,
        context: &Context,
        config: &Config,
    ) -> (Self, UnboundedReceiver<Notice>) {
        let settings = TerminalSettings::resolve(config, &context.env);
        let processes = Processes::new(&context.home, shared.clock.clone(), Cancel::new());
        let (sender, notices) = unbounded_channel();
        let display = DisplaySettings::resolve(config, &context.env);
        let wanted = Announcements::parse(&display.background_process_notifications);
        processes.report_to(Arc::new(Postbox { wanted, sender }));
        // What a run that was killed left behind is known again, and can be ended. Now, that somebody hears what it says.
        processes.recover();
        // What a conversation may not read is sent to nobody, also where nothing keeps commands from reading it.
        let described = TerminalSettings { sandbox: SandboxMode::Auto, ..settings.clone() };
        let sandbox = fence::sandbox(&described, &shared.user_home, context);
        let anchor = shared.folder.to_owned();
        hermes_gateway::refuse_files_by(move |path| sandbox.refuses_reading(&anchor, path).is_some());
        let folders = shared.folders.clone();
        let approvals = approvals(shared, context, config);
        if settings.backend == "local" {
            let host = LocalHost::new(local_options(shared, &settings, context), shared.clock.clone());
            let shells = Shells::new(host.clone(), folders.clone());
            let place = CommandPlace::Local(host);
            return (Self { processes, shells, folders, approvals, place }, notices);
        }
        let (folder, clock) = (shared.folder, shared.clock.clone());
        let python = CodeSettings::from_config(config).python;
        let places = Places { settings: &settings, context, folder, python, clock: clock.clone() };
        let shells = match places.elsewhere() {
            Ok(elsewhere) => {
                let options =
                    RoomOptions { elsewhere, tenancy: Tenancy::Shared, lifetime: settings.lifetime };
                Shells::elsewhere(options, folders.clone(), processes.clone(), clock)
            }
            Err(reason) => {
                tracing::warn!(backend = settings.backend, reason, "commands cannot be run");
                Shells::nowhere(&reason, folders.clone())
            }
        };
        let place = CommandPlace::Elsewhere(places.notice());
        (Self { processes, shells, folders, approvals, place }, notices)
    }

    /// Returns what holds commands in, or where they run, in a sentence for the user.
    pub(crate) fn sandbox_notice(&self) -> Option<String> {
        match &self.place {
            CommandPlace::Local(host) => host.sandbox_notice(),
            CommandPlace::Elsewhere(notice) => Some(notice.clone()),
        }
    }

    /// Ends what was started; for a program that ends.
    pub(crate) async fn let_go(&self) {
        self.processes.end_all().await;
        self.shells.close_all().await;
    }
}

/// Adds `terminal` and `process`.
pub(crate) fn register(
    registry: &mut Registry,
    hands: &Hands,
    shared: Shared<'_>,
    context: &Context,
    config: &Config,
) {
    let settings = TerminalSettings::resolve(config, &context.env);
    let (shells, processes) = (hands.shells.clone(), hands.processes.clone());
    let options = TerminalOptions {
        timeout: settings.timeout,
        user_home: shared.user_home,
        hermes_home: context.home.path().to_owned(),
        secrets: shared.secrets,
    };
    let approvals = hands.approvals.clone();
    let terminal = Terminal::new(options, shells, processes.clone(), approvals, shared.clock.clone())
        .with_checkpoints(shared.checkpoints)
        .with_sudo(sudo_password(&settings, context))
        .with_problem(settings.problems.first().cloned());
    registry.register("terminal", Arc::new(terminal), None);
    let process = Process::new(processes, settings.timeout, shared.secrets, shared.clock, local_time);
    registry.register("terminal", Arc::new(process), None);
}

fn local_options(shared: &Shared<'_>, settings: &TerminalSettings, context: &Context) -> LocalOptions {
    let temp = fence::temporary(context);
    let sandbox = fence::sandbox(settings, &shared.user_home, context);
    LocalOptions {
        variables: child_variables(&context.env, &settings.env_passthrough),
        temp,
        bounds: Bounds::default(),
        sandbox,
    }
}

fn approvals(shared: &Shared<'_>, context: &Context, config: &Config) -> Arc<Approvals> {
    let arguments = shared.arguments;
    let settings = ApprovalSettings::from_config(config);
    let mode = match settings.mode {
        ConfiguredMode::Manual => ApprovalMode::Manual,
        ConfiguredMode::Smart => ApprovalMode::Smart,
        ConfiguredMode::Off => ApprovalMode::Off,
    };
    let (home, management) = (context.home.clone(), Management::of(&context.home, &context.env));
    let keep = move |key: &str| {
        if let Err(error) = allow_for_good(&home, management, key) {
            tracing::warn!(%error, key, "an approval could not be kept for good");
        }
    };
    let approvals = Approvals::new(mode, settings.allowlist, keep).denying(settings.deny);
    let skip = arguments.yolo
        || arguments.oneshot.is_some()
        || context.env.bool("HERMES_YOLO_MODE").unwrap_or(false);
    approvals.set_yolo(if skip { Yolo::On } else { Yolo::Off });
    let approvals = approvals.scanned_by(scanner(shared, context, config));
    let approvals = match shared.surface {
        Surface::Gateway => approvals.for_many_chats(),
        Surface::Cli => approvals,
    };
    Arc::new(match shared.judge.clone() {
        Some(side) => approvals.judged_by(side, shared.clock.clone()),
        None => approvals,
    })
}

/// A program that looks at commands before they run.
fn scanner(shared: &Shared<'_>, context: &Context, config: &Config) -> Option<Scanner> {
    let settings = SecuritySettings::resolve(config, &context.env);
    if !settings.tirith_enabled {
        return None;
    }
    let variables = child_variables(&context.env, &[]);
    let programs = Programs::new(variables, shared.clock.clone());
    let options = ScanOptions {
        path: settings.tirith_path,
        hermes_home: context.home.path().to_owned(),
        limit: settings.tirith_timeout,
        failure: if settings.tirith_fail_open { ScanFailure::Allows } else { ScanFailure::Blocks },
    };
    let scanner = Scanner::new(programs.clone(), options);
    Some(match installer(shared, context, programs) {
        Some(installer) => scanner.installed_by(installer),
        None => scanner,
    })
}

/// What fetches that program, for a run that stays long enough. A build for tests fetches nothing by itself.
fn installer(shared: &Shared<'_>, context: &Context, programs: Programs) -> Option<Installer> {
    if shared.surface == Surface::Cli && shared.arguments.query.is_some() {
        return None;
    }
    let usual = (!cfg!(debug_assertions)).then_some(Installer::RELEASES);
    let address = context.env.get("TIRITH_RELEASES").or(usual)?;
    let options = InstallerOptions {
        net: net_config(&context.env, &shared.clock),
        address: address.to_owned(),
        hermes_home: context.home.path().to_owned(),
        owner: Cancel::new(),
    };
    Some(Installer::new(options, programs, shared.clock.clone()))
}

/// An empty one that was set on purpose is tried too.
fn sudo_password(settings: &TerminalSettings, context: &Context) -> Option<Secret> {
    let configured = settings.sudo_password.as_ref().map(|password| Secret::new(password.expose()));
    configured.or_else(|| context.env.get("SUDO_PASSWORD").map(Secret::new))
}

/// Adds a key to `command_allowlist` of config.yaml.
fn allow_for_good(home: &Home, management: Management, key: &str) -> hermes_config::Result<()> {
    let Some(path) = Key::parse("command_allowlist") else { return Ok(()) };
    set::update_value(home, management, &path, |current| {
        let mut list = match current {
            Some(Value::Seq(list)) => list.clone(),
            _ => Vec::new(),
        };
        let known = list.iter().any(|entry| entry.as_str() == Some(key));
        (!known).then(|| {
            list.push(Value::Str(key.to_owned()));
            Value::Seq(list)
        })
    })
}
