//! The sandbox of commands and scripts on this machine.

use std::path::{Path, PathBuf};

use hermes_config::expand_tilde;
use hermes_config::settings::{SandboxMode as ConfiguredSandbox, SandboxNetwork, TerminalSettings};
use hermes_exec::{NetworkReach, Sandbox, SandboxActivation, SandboxPaths};

use crate::context::ProgramContext;

/// Builds the sandbox from the settings.
pub(crate) fn sandbox(settings: &TerminalSettings, user_home: &Path, context: &ProgramContext) -> Sandbox {
    let mode = match settings.sandbox {
        ConfiguredSandbox::Auto => SandboxActivation::Auto,
        ConfiguredSandbox::On => SandboxActivation::On,
        ConfiguredSandbox::Off => SandboxActivation::Off,
    };
    let places = SandboxPaths {
        user_home: user_home.to_owned(),
        hermes_home: context.home.path().to_owned(),
        temporary: vec![temp_folder(context), PathBuf::from("/var/tmp")],
        writable: settings
            .sandbox_writable
            .iter()
            .filter_map(|path| expand_tilde(path, &context.env).ok())
            .collect(),
        programs: context.env.get("PATH").unwrap_or_default().split(':').map(PathBuf::from).collect(),
    };
    let reach = match settings.sandbox_network {
        SandboxNetwork::On => NetworkReach::Everywhere,
        SandboxNetwork::Off => NetworkReach::ThisMachine,
    };
    Sandbox::new(mode, places).with_network_reach(reach)
}

/// Returns the folder for temporary files.
pub(crate) fn temp_folder(context: &ProgramContext) -> PathBuf {
    context
        .env
        .get("TMPDIR")
        .filter(|path| !path.is_empty())
        .map_or_else(|| PathBuf::from("/tmp"), PathBuf::from)
}
