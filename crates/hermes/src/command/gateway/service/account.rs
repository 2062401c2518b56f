//! The user account a service runs as.

use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use hermes_config::Env;

use super::control::ServiceControl;

/// A user account of this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct UserAccount {
    pub(crate) name: String,
    pub(crate) uid: u32,
    pub(crate) group: String,
    pub(crate) folder: PathBuf,
}

impl UserAccount {
    pub(crate) fn find(control: &ServiceControl, name: &str) -> Result<Self> {
        let known = |database, key: &str| -> Result<Option<Vec<String>>> {
            let said = control.run("getent", &[database, key])?;
            let fields =
                || said.text.lines().next().unwrap_or_default().split(':').map(str::to_owned).collect();
            Ok((said.code == 0).then(fields))
        };
        let person = known("passwd", name)?;
        let Some([name, _, uid, group, _, folder, ..]) = person.as_deref() else {
            bail!("there is no user `{name}` on this machine");
        };
        let uid = uid.parse().with_context(|| format!("the user `{name}` has no number"))?;
        let group = known("group", group)?
            .and_then(|fields| fields.into_iter().next())
            .unwrap_or_else(|| group.clone());
        Ok(Self { name: name.clone(), uid, group, folder: PathBuf::from(folder) })
    }

    /// Fails when this user cannot execute a program: a service that cannot start is not installed.
    pub(crate) fn require_program(&self, program: &Path) -> Result<()> {
        let may_pass = |path: &Path| match std::fs::metadata(path) {
            Ok(meta) => {
                let mode = meta.permissions().mode();
                mode & 0o001 != 0 || meta.uid() == self.uid && mode & 0o100 != 0
            }
            // A file that does not exist yet is no obstacle.
            Err(_) => true,
        };
        if let Some(closed) = program.ancestors().find(|path| !may_pass(path)) {
            bail!(
                "{} cannot start {}: {} is not open to them. Install the program where everybody can run it, such as /usr/local/bin",
                self.name,
                program.display(),
                closed.display()
            );
        }
        Ok(())
    }
}

/// Returns the user behind this command; under `sudo`, the one who invoked it.
pub(crate) fn invoking_user(env: &Env) -> Option<&str> {
    ["SUDO_USER", "USER", "LOGNAME"]
        .into_iter()
        .find_map(|name| env.shell_value(name))
        .filter(|name| !name.is_empty())
}

/// Returns the current user, by name if the session has it, else by number.
pub(crate) fn current_user(env: &Env) -> String {
    let named = ["USER", "LOGNAME"]
        .into_iter()
        .find_map(|name| env.shell_value(name))
        .filter(|name| !name.is_empty());
    named.map_or_else(|| rustix::process::geteuid().as_raw().to_string(), str::to_owned)
}

/// Moves a home below one user's folder to the same place below another's.
pub(crate) fn rebase_home(home: &Path, from: &Path, to: &Path) -> PathBuf {
    home.strip_prefix(from).map_or_else(|_| home.to_owned(), |below| to.join(below))
}
