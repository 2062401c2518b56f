//! Downloads tirith from its releases in the background.
//!
//! The archive must have the checksum that its release names, and if `cosign` is installed, the signature of
//! the release must be valid. A program that does not run on this machine is not installed. A failure is
//! recorded, and the installation is not retried for a day.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, UNIX_EPOCH};

use hermes_exec::{Program, ProgramExit, ProgramRunner, StderrMode};
use hermes_net::{HttpClient, HttpRequest};
use hermes_task::spawn_named;
use hermes_types::{Cancel, Clock, Deadline, random_hex};
use sha2::{Digest, Sha256};

use super::archive::take_file;
use super::{NAME, installed};
use crate::off_thread::off_thread;

const SUMS: &str = "checksums.txt";
const SIGNATURE: &str = "checksums.txt.sig";
const CERTIFICATE: &str = "checksums.txt.pem";
/// The signer of the checksums: the release workflow, run for a tag.
const SIGNER: &str = r"^https://github\.com/sheeki03/tirith/\.github/workflows/release\.yml@refs/tags/v";
const ISSUER: &str = "https://token.actions.githubusercontent.com";

const FAILED: &str = ".tirith-install-failed";
const PAUSE: Duration = Duration::from_hours(24);
const FETCH_LIMIT: Duration = Duration::from_mins(5);
const RUN_LIMIT: Duration = Duration::from_secs(30);
const MOST_HOPS: usize = 5;
const MOST_ARCHIVE: usize = 64 * 1024 * 1024;
const MOST_PROGRAM: u64 = 128 * 1024 * 1024;
const MOST_TEXT: usize = 1024 * 1024;

/// The settings of an installation.
#[derive(Debug, Clone)]
pub struct ScannerInstallerOptions {
    /// The network configuration. No connection is made before it is needed.
    pub net: hermes_net::Config,
    /// The URL of the release files, without a trailing slash.
    pub address: String,
    pub hermes_home: PathBuf,
    /// Cancels a running installation.
    pub owner: Cancel,
}

/// Installs the program into the home's `bin`, one installation at a time.
#[derive(Debug)]
pub struct ScannerInstaller {
    options: ScannerInstallerOptions,
    programs: ProgramRunner,
    clock: Arc<dyn Clock>,
    is_running: AtomicBool,
}

impl ScannerInstaller {
    /// The URL of the latest release.
    pub const RELEASES: &str = "https://github.com/sheeki03/tirith/releases/latest/download";

    pub fn new(options: ScannerInstallerOptions, programs: ProgramRunner, clock: Arc<dyn Clock>) -> Self {
        Self { options, programs, clock, is_running: AtomicBool::new(false) }
    }

    /// Starts an installation in the background unless one is running or failed within a day.
    pub(super) fn start_in_background(this: &Arc<Self>) {
        if this.is_running.swap(true, Ordering::Relaxed) {
            return;
        }
        if this.failed_lately() {
            this.is_running.store(false, Ordering::Relaxed);
            return;
        }
        let installer = Arc::clone(this);
        spawn_named("installation of tirith", &this.options.owner, async move {
            installer.try_once().await;
            installer.is_running.store(false, Ordering::Relaxed);
        });
    }

    async fn try_once(&self) {
        let marker = self.options.hermes_home.join(FAILED);
        match self.install().await {
            Ok(program) => {
                tracing::info!(program = %program.display(), "tirith is installed; it looks at commands from now on");
                let _ = fs::remove_file(marker);
            }
            Err(reason) => {
                tracing::warn!(reason, "tirith could not be installed; it is tried again in a day");
                if let Err(error) = hermes_config::write::replace(&marker, format!("{reason}\n").as_bytes()) {
                    tracing::warn!(%error, "that could not be written down");
                }
            }
        }
    }

    fn failed_lately(&self) -> bool {
        let marked = fs::metadata(self.options.hermes_home.join(FAILED)).and_then(|meta| meta.modified());
        let Some(at) = marked.ok().and_then(|at| at.duration_since(UNIX_EPOCH).ok()) else { return false };
        // A clock that was set back must not prevent a retry for years.
        (self.clock.now().seconds() - at.as_secs_f64()).abs() < PAUSE.as_secs_f64()
    }

    async fn install(&self) -> Result<PathBuf, String> {
        let name = archive_name(std::env::consts::ARCH, std::env::consts::OS)
            .ok_or("there is no release for this kind of machine")?;
        let client = HttpClient::new(self.options.net.clone()).map_err(|error| error.to_string())?;
        let sums = self.fetch(&client, SUMS, MOST_TEXT).await?;
        let expected = sum_of(&sums, &name).ok_or_else(|| format!("{SUMS} does not name {name}"))?;
        let folder = self.make_folder()?;
        if let Some(cosign) = self.programs.find("cosign") {
            self.verify(&client, &cosign, &sums, &folder.0).await?;
        }
        let archive = self.fetch(&client, &name, MOST_ARCHIVE).await?;
        let fresh = folder.0.join(NAME);
        let unpack = {
            let fresh = fresh.clone();
            move || unpack(&archive, &name, &expected, &fresh)
        };
        off_thread("unpacking", unpack).await.map_err(|outcome| outcome.content)??;
        self.run(&fresh, vec!["--version".into()])
            .await
            .map_err(|why| format!("it does not run here: {why}"))?;
        let program = installed(&self.options.hermes_home);
        fs::rename(&fresh, &program)
            .and_then(|()| sync(&program))
            .map_err(|error| format!("{}: {error}", program.display()))?;
        Ok(program)
    }

    /// Creates a private folder in the target folder of the program.
    fn make_folder(&self) -> Result<InstallFolder, String> {
        let bin = self.options.hermes_home.join("bin");
        let folder = bin.join(format!(".{NAME}-{}", random_hex(8)));
        let mut maker = fs::DirBuilder::new();
        let made = maker.recursive(true).mode(0o700).create(&folder);
        made.map_err(|error| format!("{}: {error}", folder.display()))?;
        Ok(InstallFolder(folder))
    }

    async fn fetch(&self, client: &HttpClient, file: &str, most: usize) -> Result<Vec<u8>, String> {
        let asked = async {
            let request = HttpRequest::get(&format!("{}/{file}", self.options.address))?
                .follow_redirects(MOST_HOPS)
                .body_limit(most);
            let deadline = Deadline::after(&*self.clock, FETCH_LIMIT);
            let response = client.send(request, deadline, &self.options.owner).await?;
            let status = response.status();
            Ok::<_, hermes_net::Error>((status, response.bytes(most).await?))
        };
        match asked.await {
            Ok((status, bytes)) if status.is_success() => Ok(bytes.to_vec()),
            Ok((status, _)) => Err(format!("{file}: the server answered {status}")),
            Err(error) => Err(format!("{file}: {error}")),
        }
    }

    /// Verifies that the checksums were signed by the release workflow.
    async fn verify(
        &self,
        client: &HttpClient,
        cosign: &Path,
        sums: &[u8],
        folder: &Path,
    ) -> Result<(), String> {
        let put = |name: &str, bytes: &[u8]| {
            fs::write(folder.join(name), bytes).map_err(|error| format!("{name}: {error}"))
        };
        put(SUMS, sums)?;
        for name in [SIGNATURE, CERTIFICATE] {
            put(name, &self.fetch(client, name, MOST_TEXT).await?)?;
        }
        let arguments = [
            OsString::from("verify-blob"),
            "--signature".into(),
            folder.join(SIGNATURE).into(),
            "--certificate".into(),
            folder.join(CERTIFICATE).into(),
            "--certificate-identity-regexp".into(),
            SIGNER.into(),
            "--certificate-oidc-issuer".into(),
            ISSUER.into(),
            folder.join(SUMS).into(),
        ];
        self.run(cosign, arguments.to_vec())
            .await
            .map_err(|why| format!("cosign does not accept {SUMS}: {why}"))
    }

    async fn run(&self, program: &Path, arguments: Vec<OsString>) -> Result<(), String> {
        let name = program.to_string_lossy();
        let (directory, limit) = (Path::new("/"), RUN_LIMIT);
        let program = Program { name: &name, arguments, directory, limit, stderr: StderrMode::Merge };
        match self.programs.output(program, &self.options.owner).await {
            Ok((_, ProgramExit::Exited(0))) => Ok(()),
            Ok((said, ProgramExit::Exited(code))) => {
                Err(format!("exit code {code}: {}", hermes_text::head(said.trim(), 300)))
            }
            Ok((_, end)) => Err(format!("{end:?}")),
            Err(error) => Err(error.to_string()),
        }
    }
}

/// A folder that is removed with its content when dropped.
struct InstallFolder(PathBuf);

impl Drop for InstallFolder {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.0) {
            tracing::debug!(%error, folder = %self.0.display(), "a folder could not be removed");
        }
    }
}

/// Checks the archive and writes the executable program to `fresh`.
fn unpack(archive: &[u8], name: &str, expected: &str, fresh: &Path) -> Result<(), String> {
    let sum = Sha256::digest(archive).iter().fold(String::new(), |mut text, byte| {
        // Writing to a `String` cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    });
    if sum != expected {
        return Err(format!("{name}: its SHA-256 sum is {sum}, and {SUMS} says {expected}"));
    }
    let program = take_file(archive, NAME, MOST_PROGRAM).map_err(|why| format!("{name}: {why}"))?;
    let written = File::options().write(true).create_new(true).open(fresh).and_then(|mut file| {
        file.write_all(&program)?;
        // The mode is set explicitly because the user's umask may remove bits.
        file.set_permissions(fs::Permissions::from_mode(0o755))?;
        file.sync_all()
    });
    written.map_err(|error| format!("{}: {error}", fresh.display()))
}

/// Syncs the folder, so that the rename survives a power failure.
fn sync(program: &Path) -> std::io::Result<()> {
    program.parent().map_or(Ok(()), |folder| File::open(folder)?.sync_all())
}

fn archive_name(architecture: &str, system: &str) -> Option<String> {
    let system = match system {
        "linux" => "unknown-linux-gnu",
        "macos" => "apple-darwin",
        _ => return None,
    };
    matches!(architecture, "x86_64" | "aarch64").then(|| format!("{NAME}-{architecture}-{system}.tar.gz"))
}

/// Finds the checksum of a file in the format of `sha256sum`.
fn sum_of(sums: &[u8], name: &str) -> Option<String> {
    let sums = String::from_utf8_lossy(sums);
    let sum = sums.lines().find_map(|line| {
        let (sum, file) = line.split_once([' ', '\t'])?;
        (file.trim_start_matches([' ', '*']) == name).then_some(sum)
    })?;
    let is_sum = sum.len() == 64 && sum.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_sum.then(|| sum.to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sum_is_found_by_the_whole_name() {
        let sum = "Ab".repeat(32);
        let sums = format!(
            "{}  tirith-x.tar.gz.sig\n{sum}  tirith-x.tar.gz\nshort  tirith-y.tar.gz\n",
            "0".repeat(64)
        );
        assert_eq!(sum_of(sums.as_bytes(), "tirith-x.tar.gz"), Some(sum.to_lowercase()));
        for missing in ["tirith-y.tar.gz", "x.tar.gz", ""] {
            assert_eq!(sum_of(sums.as_bytes(), missing), None, "{missing}");
        }
    }

    #[test]
    fn releases_are_called_after_the_machine() {
        assert_eq!(
            archive_name("x86_64", "linux").as_deref(),
            Some("tirith-x86_64-unknown-linux-gnu.tar.gz")
        );
        assert_eq!(archive_name("aarch64", "macos").as_deref(), Some("tirith-aarch64-apple-darwin.tar.gz"));
        assert_eq!(archive_name("riscv64", "linux"), None);
        assert_eq!(archive_name("x86_64", "freebsd"), None);
    }
}
