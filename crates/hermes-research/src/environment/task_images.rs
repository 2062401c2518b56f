//! Images of tasks that come as a packed folder with a Dockerfile, built by the Docker engine of this machine.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use data_encoding::BASE64;
use hermes_exec::{Program, ProgramExit, ProgramRunner, StderrMode};
use hermes_text::tail;
use hermes_types::Cancel;
use sha2::{Digest as _, Sha256};
use tokio::sync::Mutex;

use crate::batch::hex;

/// How long the engine may take to answer, and to build.
const ANSWER_LIMIT: Duration = Duration::from_secs(30);
const BUILD_LIMIT: Duration = Duration::from_mins(30);
/// What a build says at its end, if it fails.
const LONGEST_REASON: usize = 600;

/// Says whether an image that is there already is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ImageReuse {
    Reuse,
    BuildAgain,
}

/// Builds images, one at a time, each once in the life of the process.
#[derive(Debug)]
pub struct TaskImageBuilder {
    programs: ProgramRunner,
    /// The folder for what is being built.
    scratch: PathBuf,
    built: Mutex<BTreeSet<String>>,
}

impl TaskImageBuilder {
    pub fn new(programs: ProgramRunner, scratch: PathBuf) -> Self {
        Self { programs, scratch, built: Mutex::default() }
    }

    /// Returns the name of the image of a folder, which is packed as a tar.gz in base64. Its name comes from its content, so that it
    /// is built once, whatever tasks use it.
    pub async fn image(&self, packed: &str, reuse: ImageReuse, cancel: &Cancel) -> Result<String, String> {
        let packed = BASE64.decode(packed.trim().as_bytes());
        let packed = packed.map_err(|_| "`environment_tar` is not base64".to_owned())?;
        let sum = hex(&Sha256::digest(&packed));
        let name = format!("hermes-task:{}", sum.get(..16).unwrap_or_default());
        let mut built = self.built.lock().await;
        if built.contains(&name) {
            return Ok(name);
        }
        let is_there = reuse == ImageReuse::Reuse
            && self.docker(&["image", "inspect", &name], ANSWER_LIMIT, cancel).await.is_ok();
        if !is_there {
            let archive = self.scratch.join(format!("{sum}.tar.gz"));
            let at_archive = |error: std::io::Error| format!("{}: {error}", archive.display());
            fs::create_dir_all(&self.scratch).map_err(at_archive)?;
            let file =
                fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&archive);
            let written = file.and_then(|mut file| file.write_all(&packed)).map_err(at_archive);
            let result = match written {
                Ok(()) => self.build(&name, &archive, cancel).await,
                Err(reason) => Err(reason),
            };
            let _ = fs::remove_file(&archive);
            result.map_err(|reason| format!("the image of the task was not built: {reason}"))?;
        }
        built.insert(name.clone());
        Ok(name)
    }

    /// Has the engine build the packed folder. It is given the archive as it is, so nothing of it is unpacked here.
    async fn build(&self, name: &str, archive: &Path, cancel: &Cancel) -> Result<(), String> {
        let script = "exec docker build --quiet --tag \"$0\" - < \"$1\"";
        let arguments = vec!["-c".into(), script.into(), name.into(), archive.into()];
        self.run("sh", arguments, BUILD_LIMIT, cancel).await
    }

    async fn docker(&self, arguments: &[&str], limit: Duration, cancel: &Cancel) -> Result<(), String> {
        self.run("docker", arguments.iter().map(OsString::from).collect(), limit, cancel).await
    }

    async fn run(
        &self,
        name: &str,
        arguments: Vec<OsString>,
        limit: Duration,
        cancel: &Cancel,
    ) -> Result<(), String> {
        let program =
            Program { name, arguments, directory: Path::new("/"), limit, stderr: StderrMode::Merge };
        match self.programs.output(program, cancel).await {
            Ok((_, ProgramExit::Exited(0))) => Ok(()),
            Ok((said, ProgramExit::Exited(_))) => Err(tail(said.trim(), LONGEST_REASON).to_owned()),
            Ok((_, ProgramExit::TimedOut)) => Err(format!("it took longer than {} s", limit.as_secs())),
            Ok((_, ProgramExit::Cancelled)) => Err("cancelled".to_owned()),
            Err(error) => Err(error.to_string()),
        }
    }
}
