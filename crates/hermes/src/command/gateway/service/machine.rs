//! The machine as far as services need it. All of it is data, so that a test can describe another machine.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use hermes_config::user_home;

use super::control::ServiceControl;
use super::names::resolve_path;
use crate::context::ProgramContext;

/// The service manager of the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ServiceManagerKind {
    Systemd,
    Launchd,
    Unsupported,
}

/// Says whether the system's services may be changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Privilege {
    Root,
    Ordinary,
}

/// The folders of definitions, the program they start, and the service manager.
#[derive(Debug)]
pub(crate) struct ServiceMachine {
    pub(crate) kind: ServiceManagerKind,
    pub(crate) privilege: Privilege,
    pub(crate) user_units: PathBuf,
    pub(crate) system_units: PathBuf,
    pub(crate) agents: PathBuf,
    /// The path of this program.
    pub(crate) binary: PathBuf,
    /// The home folder of the invoking user.
    pub(crate) folder: PathBuf,
    /// The active Hermes home.
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
