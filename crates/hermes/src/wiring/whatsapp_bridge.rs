//! The bridge to WhatsApp: its files and packages in the home, and its process.
//!
//! The files are part of the program. Its packages come from npm when a phone is linked, and again when a release brings
//! others. Invariant: the mark of an installation is written last.

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use hermes_channels::{HelperError, HelperRequest, RunningHelper};
use hermes_config::{Config, Env, Home, write};
use hermes_exec::{
    PipeWriter, PipedLine, PipedProcess, Program, ProgramExit, ProgramRunner, StderrMode, Variables,
};
use hermes_knowledge::BundleSource;
use hermes_types::{BoxFuture, Cancel, Clock};

use super::child_variables;

const PACKED: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/whatsapp_bridge.zlib"));
const DIGEST: &str = include_str!(concat!(env!("OUT_DIR"), "/whatsapp_bridge.digest"));
/// The file that says which files and packages are installed.
const MARK: &str = ".installed";
const INSTALL_LIMIT: Duration = Duration::from_mins(10);
const LONGEST_LINE: usize = 1024 * 1024;
/// The bridge ends by itself within three seconds.
const GRACE: Duration = Duration::from_secs(4);
/// How long what a bridge says at its end is waited for.
const LAST_WORDS: Duration = Duration::from_millis(500);
/// A log that is larger is begun anew.
const LARGEST_LOG: u64 = 1024 * 1024;
const NO_NODE: &str =
    "the WhatsApp bridge needs Node 20 or newer; install `node` and `npm`, then run `hermes whatsapp`";

/// Where the bridge is, and how it is started.
pub(crate) struct WhatsAppBridge {
    folder: PathBuf,
    pub(crate) session: PathBuf,
    media: PathBuf,
    /// A script of the user's own, in place of ours.
    script: Option<PathBuf>,
    env: Env,
    clock: Arc<dyn Clock>,
}

impl WhatsAppBridge {
    pub(crate) fn new(home: &Home, config: &Config, env: &Env, clock: &Arc<dyn Clock>) -> Self {
        let extra = |key: &str| config.non_empty_text(&format!("platforms.whatsapp.extra.{key}"));
        let session = extra("session_path").map_or_else(|| home.whatsapp_session(), PathBuf::from);
        let beside = session.parent().map_or_else(|| home.path().to_owned(), Path::to_owned);
        Self {
            folder: beside.join("bridge"),
            media: home.images_cache().join("whatsapp"),
            session,
            script: extra("bridge_script").map(PathBuf::from),
            env: env.clone(),
            clock: clock.clone(),
        }
    }

    /// Tells whether a phone is linked, as far as the session says.
    pub(crate) fn is_linked(&self) -> bool {
        let text = std::fs::read_to_string(self.session.join("creds.json")).unwrap_or_default();
        let state: serde_json::Value = serde_json::from_str(&text).unwrap_or_default();
        state.pointer("/me/id").is_some() && state.get("account").is_some_and(|account| !account.is_null())
    }

    /// Tells whether files and packages are those of this release.
    pub(crate) fn is_installed(&self) -> bool {
        self.script.is_some()
            || std::fs::read_to_string(self.folder.join(MARK)).is_ok_and(|mark| mark.trim() == DIGEST)
    }

    /// Writes the files and installs the packages, unless they are there.
    pub(crate) async fn install(&self) -> Result<(), HelperError> {
        if self.is_installed() {
            return Ok(());
        }
        let runner = ProgramRunner::new(child_variables(&self.env, &[]), self.clock.clone());
        if runner.find("node").is_none() || runner.find("npm").is_none() {
            return Err(HelperError::Missing(NO_NODE.to_owned()));
        }
        let failed = |error: &dyn std::fmt::Display| {
            HelperError::Failed(format!("{}: {error}", self.folder.display()))
        };
        make_folder(&self.folder).map_err(|error| failed(&error))?;
        // Without its mark, what is half replaced does not count.
        let _ = std::fs::remove_file(self.folder.join(MARK));
        let source = BundleSource::Packed { bytes: PACKED, digest: DIGEST };
        for file in source.files().map_err(|error| failed(&error))? {
            write::replace(&self.folder.join(&file.path), &file.bytes).map_err(|error| failed(&error))?;
        }
        let program = Program {
            name: "npm",
            arguments: ["ci", "--no-progress"].map(OsString::from).to_vec(),
            directory: &self.folder,
            limit: INSTALL_LIMIT,
            stderr: StderrMode::Merge,
        };
        let ran = runner.output(program, &Cancel::new()).await;
        match ran.map_err(|error| HelperError::Failed(error.to_string()))? {
            (_, ProgramExit::Exited(0)) => {}
            (said, _) => {
                let last: Vec<&str> = said.lines().rev().take(3).collect();
                let last = last.into_iter().rev().collect::<Vec<_>>().join(" ");
                return Err(HelperError::Failed(format!(
                    "`npm ci` in {} failed: {last}",
                    self.folder.display()
                )));
            }
        }
        write::replace(&self.folder.join(MARK), DIGEST.as_bytes()).map_err(|error| failed(&error))
    }

    /// Starts the bridge, whose packages must be there.
    pub(crate) async fn start(
        &self,
        request: HelperRequest<'_>,
    ) -> Result<Box<dyn RunningHelper>, HelperError> {
        let failed = |error: &dyn std::fmt::Display| HelperError::Failed(error.to_string());
        let base = child_variables(&self.env, &[]);
        let kept = ["PATH", "HOME", "LANG", "TZ", "NODE_EXTRA_CA_CERTS"];
        let kept = kept.into_iter().filter_map(|name| Some((name, base.get(name)?)));
        let variables = Variables::exactly(kept).with_all(request.variables);
        let runner = ProgramRunner::new(variables, self.clock.clone());
        make_folder(&self.session).map_err(|error| failed(&error))?;
        make_folder(&self.media).map_err(|error| failed(&error))?;
        let script = self.script.clone().unwrap_or_else(|| self.folder.join("bridge.js"));
        // A script of the user's own may be any program.
        let by_itself = self.script.is_some() && script.extension().is_none_or(|extension| extension != "js");
        let name = if by_itself { script.to_string_lossy().into_owned() } else { "node".to_owned() };
        let mut arguments: Vec<OsString> = Vec::new();
        if !by_itself {
            arguments.push(script.into_os_string());
        }
        arguments.extend(request.arguments.into_iter().map(OsString::from));
        for (flag, folder) in [("--session", &self.session), ("--media-dir", &self.media)] {
            arguments.extend([OsString::from(flag), folder.clone().into_os_string()]);
        }
        if runner.find(&name).is_none() {
            return Err(HelperError::Missing(NO_NODE.to_owned()));
        }
        let beside = self.session.parent().unwrap_or(&self.session);
        let program = Program {
            name: &name,
            arguments,
            directory: beside,
            limit: Duration::MAX,
            stderr: StderrMode::Merge,
        };
        let mut process = runner.piped(program, LONGEST_LINE).await.map_err(|error| failed(&error))?;
        let input = process.take_input().ok_or_else(|| failed(&"it has no input"))?;
        input.write_line(request.first_line.as_bytes()).await.map_err(|error| failed(&error))?;
        let log = open_log(&beside.join("bridge.log"));
        Ok(Box::new(BridgeProcess { process, _input: input, log, clock: self.clock.clone() }))
    }
}

fn make_folder(folder: &Path) -> std::io::Result<()> {
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

/// Opens the log; without one, the bridge runs all the same.
fn open_log(path: &Path) -> Option<File> {
    let is_large = std::fs::metadata(path).is_ok_and(|found| found.len() > LARGEST_LOG);
    let mut options = OpenOptions::new();
    options.create(true).append(!is_large).write(true).truncate(is_large).mode(0o600);
    options.open(path).inspect_err(|error| tracing::warn!(%error, "the bridge has no log")).ok()
}

/// A running bridge. Its complaints go into a log.
struct BridgeProcess {
    process: PipedProcess,
    /// When it is closed, the bridge ends.
    _input: PipeWriter,
    log: Option<File>,
    clock: Arc<dyn Clock>,
}

impl BridgeProcess {
    fn note(&mut self, line: &str) {
        if let Some(log) = &mut self.log {
            // A full disk must not end the bridge.
            let _ = writeln!(log, "{line}");
        }
    }
}

impl RunningHelper for BridgeProcess {
    fn next_line(&mut self) -> BoxFuture<'_, Option<String>> {
        Box::pin(async move {
            loop {
                match self.process.next_line().await {
                    Ok(Some(PipedLine::Output(line))) => {
                        return Some(String::from_utf8_lossy(&line).into_owned());
                    }
                    Ok(Some(PipedLine::Stderr(line))) => self.note(&line),
                    Ok(None) | Err(_) => {
                        let last = self.process.remaining_stderr(LAST_WORDS, &*self.clock).await;
                        last.lines().for_each(|line| self.note(line));
                        return None;
                    }
                }
            }
        })
    }

    fn stop(self: Box<Self>) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            let Self { process, _input: input, clock, .. } = *self;
            drop(input);
            process.stop(GRACE, &*clock).await;
        })
    }
}
