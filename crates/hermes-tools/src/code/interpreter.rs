//! Selects the Python that runs a script.
//!
//! In project mode the Python of the active virtual environment is used if it is new enough. Its version is
//! queried inside the sandbox, because a command may have placed any program there.

use std::path::{Path, PathBuf};
use std::time::Duration;

use hermes_exec::{ProgramExit, ScriptCommand, ScriptRunner, Variables};
use hermes_types::Cancel;

use super::module::CodeExecutionMode;

const PATIENCE: Duration = Duration::from_secs(5);
const OLDEST: (u32, u32) = (3, 8);
const ASK_VERSION: &str = "import sys; print('%d.%d' % sys.version_info[:2])";
/// Paths relative to the Hermes home.
const MANAGED: [&str; 2] = ["venv/bin/python3", "hermes-agent/venv/bin/python3"];

/// The inputs of the search.
#[derive(Debug, Clone, Copy)]
pub(super) struct InterpreterSearch<'a> {
    pub(super) mode: CodeExecutionMode,
    /// The setting `code_execution.python`.
    pub(super) configured: Option<&'a str>,
    pub(super) hermes_home: &'a Path,
    pub(super) variables: &'a Variables,
}

impl InterpreterSearch<'_> {
    /// Returns the path of the interpreter, or why there is none.
    pub(super) async fn find(self, scripts: &ScriptRunner, folder: &Path) -> Result<PathBuf, String> {
        if self.mode == CodeExecutionMode::Project
            && let Some(candidate) = self.of_environment()
            && self.version_of(&candidate, scripts, folder).await.is_some_and(|found| found >= OLDEST)
        {
            return Ok(candidate);
        }
        let own = self.own()?;
        match self.version_of(&own, scripts, folder).await {
            Some(found) if found < OLDEST => Err(self.too_old(&own, found)),
            // An interpreter that does not report its version is used; its errors will show up in the result.
            _ => Ok(own),
        }
    }

    /// Returns the first existing interpreter of the active virtual environments.
    fn of_environment(self) -> Option<PathBuf> {
        let homes = ["VIRTUAL_ENV", "CONDA_PREFIX"].into_iter().filter_map(|name| self.variables.get(name));
        homes
            .filter(|home| !home.is_empty())
            .flat_map(|home| ["bin/python", "bin/python3"].map(|name| Path::new(home).join(name)))
            .find(|path| path.exists())
    }

    async fn version_of(self, program: &Path, scripts: &ScriptRunner, folder: &Path) -> Option<(u32, u32)> {
        let script = ScriptCommand {
            program,
            arguments: vec!["-c".into(), ASK_VERSION.into()],
            variables: self.variables,
            directory: folder,
            sandbox_anchor: folder,
            limit: PATIENCE,
            output_limits: (100, 0),
            stderr_limit: 0,
        };
        let ran = scripts.run(script, &Cancel::new()).await.ok()?;
        (ran.exit == ProgramExit::Exited(0)).then(|| version(&ran.output.head)).flatten()
    }

    fn too_old(self, program: &Path, (major, minor): (u32, u32)) -> String {
        let (oldest_major, oldest_minor) = OLDEST;
        let what = match self.configured {
            Some(name) => format!("`code_execution.python` is {name}, which is Python {major}.{minor}"),
            None => format!("{} is Python {major}.{minor}", program.display()),
        };
        format!(
            "{what}, and scripts need {oldest_major}.{oldest_minor} or newer. Set `code_execution.python` to a newer one."
        )
    }

    fn own(self) -> Result<PathBuf, String> {
        if let Some(name) = self.configured {
            return self.named(name).ok_or_else(|| {
                format!("`code_execution.python` is {name}, which is not a program here; correct or remove that key")
            });
        }
        let managed = MANAGED.iter().map(|name| self.hermes_home.join(name)).find(|path| path.is_file());
        managed.or_else(|| self.named("python3")).or_else(|| self.named("python")).ok_or_else(|| {
            "No Python was found. Install Python 3.8 or newer (Debian: `apt install python3`) or set \
             `code_execution.python` to one."
                .to_owned()
        })
    }

    fn named(self, name: &str) -> Option<PathBuf> {
        if name.contains('/') {
            let expanded = match (name.strip_prefix("~/"), self.variables.get("HOME")) {
                (Some(rest), Some(home)) => Path::new(home).join(rest),
                _ => PathBuf::from(name),
            };
            return Some(expanded).filter(|path| path.is_file());
        }
        let path = self.variables.get("PATH").unwrap_or_default();
        path.split(':').map(|folder| Path::new(folder).join(name)).find(|path| path.is_file())
    }
}

fn version(text: &str) -> Option<(u32, u32)> {
    let (major, minor) = text.trim().split_once('.')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}
