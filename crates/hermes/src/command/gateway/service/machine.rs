//! The machine, as far as services are concerned. All of it is data, so that a test can be another machine.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use hermes_config::user_home;

use super::control::ServiceControl;
use super::names::resolve_path;
use crate::context::ProgramContext;

/// What looks after services here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ServiceManagerKind {
    Systemd,
    Launchd,
    Unsupported,
}

/// Whether the machine's own services may be changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Privilege {
    Root,
    Ordinary,
}

/// Where definitions are, which program they start, and whom to ask.
#[derive(Debug)]
pub(crate) struct ServiceMachine {
    pub(crate) kind: ServiceManagerKind,
    pub(crate) privilege: Privilege,
    pub(crate) user_units: PathBuf,
    pub(crate) system_units: PathBuf,
    pub(crate) agents: PathBuf,
    /// This program.
    pub(crate) binary: PathBuf,
    /// The folder of the user who asks.
    pub(crate) folder: PathBuf,
    /// The home in force.
    pub(crate) home: PathBuf,
    pub(crate) control: ServiceControl,
}

impl ServiceMachine {
    pub(crate) fn current(context: &ProgramContext) -> Result<Self> {
        let folder = resolve_path(&user_home(&context.env)?);
        let user = rustix::process::geteuid();
        let kind = if cfg!(target_os = "linux") {
            ServiceManagerKind::Systemd
        } else if cfg!(target_os = "macos") {
            ServiceManagerKind::Launchd
        } else {
            ServiceManagerKind::Unsupported
        };
        Ok(Self {
            kind,
            privilege: if user.is_root() { Privilege::Root } else { Privilege::Ordinary },
            user_units: folder.join(".config/systemd/user"),
            system_units: PathBuf::from("/etc/systemd/system"),
            agents: folder.join("Library/LaunchAgents"),
            binary: std::env::current_exe().context("this program's own file is not known")?,
            home: resolve_path(context.home.path()),
            folder,
            control: ServiceControl::new(&context.env, Path::new(&format!("/run/user/{}", user.as_raw())))?,
        })
    }
}
