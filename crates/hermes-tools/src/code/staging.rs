//! The files of one run: the module, the script and the socket. They are removed with the run.

use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

use hermes_exec::remove_on_exit;
use tokio::net::UnixListener;

/// The maximum length of a socket path that every system supports.
const LONGEST_SOCKET: usize = 100;
const EVERYWHERE: &str = "/tmp";

/// A folder that only the current user can access.
#[derive(Debug)]
pub(super) struct StagingFolder {
    folder: PathBuf,
    socket: PathBuf,
}

impl StagingFolder {
    pub(super) fn make(temp: &Path, module: &str, code: &str) -> io::Result<Self> {
        let staging = Self { socket: socket_path(temp), folder: remove_on_exit(temp, "hermes_sandbox_") };
        DirBuilder::new().mode(0o700).create(&staging.folder)?;
        write(&staging.folder.join("hermes_tools.py"), module)?;
        write(&staging.script(), code)?;
        Ok(staging)
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    pub(super) fn script(&self) -> PathBuf {
        self.folder.join("script.py")
    }

    pub(super) fn socket(&self) -> &Path {
        &self.socket
    }

    /// Opens the socket. Its name cannot be guessed, and a client also needs the token.
    pub(super) fn listen(&self) -> io::Result<UnixListener> {
        let listener = UnixListener::bind(&self.socket)?;
        fs::set_permissions(&self.socket, Permissions::from_mode(0o600))?;
        Ok(listener)
    }
}

impl Drop for StagingFolder {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.socket);
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn socket_path(temp: &Path) -> PathBuf {
    let within = |folder: &Path| remove_on_exit(folder, "hermes_rpc_").with_extension("sock");
    let wanted = within(temp);
    let fits = wanted.as_os_str().len() <= LONGEST_SOCKET && !cfg!(target_os = "macos");
    if fits { wanted } else { within(Path::new(EVERYWHERE)) }
}

fn write(path: &Path, text: &str) -> io::Result<()> {
    use std::io::Write;
    use std::os::unix::fs::OpenOptionsExt;
    let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(text.as_bytes())
}
