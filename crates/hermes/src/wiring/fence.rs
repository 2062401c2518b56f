//! The fence around commands and scripts of this machine.

use std::path::{Path, PathBuf};

use hermes_config::expand_tilde;
use hermes_config::settings::{SandboxMode as ConfiguredSandbox, SandboxNetwork, TerminalSettings};
use hermes_exec::{Reach, Sandbox, SandboxMode, SandboxPlaces};

use crate::context::Context;

/// What the settings say about it.
pub(crate) fn sandbox(settings: &TerminalSettings, user_home: &Path, context: &Context) -> Sandbox {
    let mode = match settings.sandbox {
        ConfiguredSandbox::Auto => SandboxMode::Auto,
        ConfiguredSandbox::On => SandboxMode::On,
        ConfiguredSandbox::Off => SandboxMode::Off,
    };
    let places = SandboxPlaces {
        user_home: user_home.to_owned(),
        hermes_home: context.home.path().to_owned(),
        temporary: vec![temporary(context), PathBuf::from("/var/tmp")],
        writable: settings
            .sandbox_writable
            .iter()
            .filter_map(|path| expand_tilde(path, &context.env).ok())
            .collect(),
        programs: context.env.get("PATH").unwrap_or_default().split(':').map(PathBuf::from).collect(),
    };
    let reach = match settings.sandbox_network {
        SandboxNetwork::On => Reach::Everywhere,
        SandboxNetwork::Off => Reach::ThisMachine,
    };
    Sandbox::new(mode, places).reaching(reach)
}

/// Where temporary files go.
pub(crate) fn temporary(context: &Context) -> PathBuf {
    context
        .env
        .get("TMPDIR")
        .filter(|path| !path.is_empty())
        .map_or_else(|| PathBuf::from("/tmp"), PathBuf::from)
}
