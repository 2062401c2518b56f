//! Running commands: where, inside which fence, with whose permission.

use std::path::PathBuf;
use std::sync::Arc;

use hermes_config::settings::{
    ApprovalMode as ConfiguredMode, ApprovalSettings, SandboxMode as ConfiguredSandbox, TerminalSettings,
};
use hermes_config::yaml::{Path as Key, Value};
use hermes_config::{Config, Home, Management, set};
use hermes_exec::{Bounds, LocalHost, LocalOptions, Sandbox, SandboxMode, SandboxPlaces, Variables};
use hermes_tools::{
    ApprovalMode, Approvals, Checkpoints, Folders, Process, Processes, Registry, Secrets, Shells, Terminal,
    TerminalOptions, Yolo,
};
use hermes_types::{Cancel, Clock};

use crate::cli::ChatArguments;
use crate::context::{Context, local_time};

/// What the terminal shares with the other tools.
pub(crate) struct Shared<'a> {
    pub(crate) arguments: &'a ChatArguments,
    pub(crate) user_home: PathBuf,
    pub(crate) folders: Folders,
    pub(crate) secrets: Secrets,
    pub(crate) checkpoints: Option<Arc<Checkpoints>>,
    pub(crate) clock: Arc<dyn Clock>,
}

/// What a surface needs of it.
pub(crate) struct Hands {
    /// Background processes, to be ended with the program.
    pub(crate) processes: Processes,
    /// What holds commands in, for the user.
    pub(crate) fence: Option<String>,
}

/// Adds `terminal` and `process`. A backend that is not there yet adds nothing: a command meant for a container must
/// never run on the host instead.
pub(crate) fn register(
    registry: &mut Registry,
    shared: Shared<'_>,
    context: &Context,
    config: &Config,
) -> Option<Hands> {
    let settings = TerminalSettings::resolve(config, &context.env);
    if settings.backend != "local" {
        tracing::warn!(backend = settings.backend, "this terminal backend is not available yet");
        return None;
    }
    let host = LocalHost::new(local_options(&shared, &settings, context), shared.clock.clone());
    let fence = host.sandbox_notice();
    let shells = Shells::new(host, shared.folders);
    let processes = Processes::new(&context.home, shared.clock.clone(), Cancel::new());
    let options = TerminalOptions {
        timeout: settings.timeout,
        user_home: shared.user_home,
        hermes_home: context.home.path().to_owned(),
        secrets: shared.secrets,
    };
    let approvals = Arc::new(approvals(shared.arguments, context, config));
    let terminal = Terminal::new(options, shells, processes.clone(), approvals, shared.clock.clone())
        .with_checkpoints(shared.checkpoints);
    registry.register("terminal", Arc::new(terminal), None);
    let process = Process::new(processes.clone(), settings.timeout, shared.secrets, shared.clock, local_time);
    registry.register("terminal", Arc::new(process), None);
    Some(Hands { processes, fence })
}

fn local_options(shared: &Shared<'_>, settings: &TerminalSettings, context: &Context) -> LocalOptions {
    let temp = context.env.get("TMPDIR").map_or_else(|| PathBuf::from("/tmp"), PathBuf::from);
    let mode = match settings.sandbox {
        ConfiguredSandbox::Auto => SandboxMode::Auto,
        ConfiguredSandbox::On => SandboxMode::On,
        ConfiguredSandbox::Off => SandboxMode::Off,
    };
    let places = SandboxPlaces {
        user_home: shared.user_home.clone(),
        hermes_home: context.home.path().to_owned(),
        temporary: vec![temp.clone(), PathBuf::from("/var/tmp")],
        writable: Vec::new(),
    };
    LocalOptions {
        variables: Variables::for_commands(context.env.iter(), &settings.env_passthrough, &[]),
        temp,
        bounds: Bounds::default(),
        sandbox: Sandbox::new(mode, places),
    }
}

fn approvals(arguments: &ChatArguments, context: &Context, config: &Config) -> Approvals {
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
    approvals
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
