//! An external scanner that checks a command before it runs: tirith.
//!
//! Its exit code is the verdict; its output only explains it. If it is not installed, commands are not scanned,
//! and `install.rs` may download it in the background.

mod archive;
mod install;

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use hermes_exec::{Program, ProgramExit, ProgramRunner, StderrMode};
use hermes_text::head;
use hermes_types::{Cancel, Danger};
use serde_json::Value;

pub use install::{ScannerInstaller, ScannerInstallerOptions};

/// The name of the program, also in the home's `bin`.
const NAME: &str = "tirith";
const BLOCK: i32 = 1;
const WARN: i32 = 2;
const MOST_FINDINGS: usize = 50;
const LONGEST_SUMMARY: usize = 500;
pub(super) const KEY: &str = "tirith:";

/// Selects what a failed scan means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScanFailurePolicy {
    Allows,
    Blocks,
}

/// The settings of the scanner.
#[derive(Debug, Clone)]
pub struct ScanOptions {
    /// The name or path of the program: `security.tirith_path`.
    pub path: String,
    pub hermes_home: PathBuf,
    pub limit: Duration,
    pub failure: ScanFailurePolicy,
}

/// Runs the scanner. Clones share the path once it was found.
#[derive(Debug, Clone)]
pub struct CommandScanner {
    options: ScanOptions,
    programs: ProgramRunner,
    /// The path of the program, once it was found.
    program: Arc<OnceLock<PathBuf>>,
    installer: Option<Arc<ScannerInstaller>>,
}

impl CommandScanner {
    /// Creates a scanner; the program is searched for later.
    pub fn new(programs: ProgramRunner, options: ScanOptions) -> Self {
        Self { options, programs, program: Arc::default(), installer: None }
    }

    /// Sets the installer that downloads the program if it is missing.
    #[must_use]
    pub fn with_installer(self, installer: ScannerInstaller) -> Self {
        Self { installer: Some(Arc::new(installer)), ..self }
    }

    /// Finds the program at the configured path, on PATH, or in the home's `bin`.
    fn program(&self) -> Option<&Path> {
        if self.program.get().is_none() {
            let ours = || Some(installed(&self.options.hermes_home)).filter(|program| program.is_file());
            let found =
                self.programs.find(&self.options.path).or_else(|| self.programs.find(NAME)).or_else(ours)?;
            // A concurrent search found the same program.
            let _ = self.program.set(found);
        }
        self.program.get().map(PathBuf::as_path)
    }

    /// Scans a command and returns what was found. Returns `None` while the program is not installed.
    pub(super) async fn scan(&self, command: &str, cancel: &Cancel) -> Option<Danger> {
        let Some(program) = self.program() else {
            if let Some(installer) = &self.installer {
                ScannerInstaller::start_in_background(installer);
            }
            return None;
        };
        let name = program.to_string_lossy();
        let arguments = ["check", "--json", "--non-interactive", "--shell", "posix", "--", command];
        let program = Program {
            name: &name,
            arguments: arguments.iter().map(Into::into).collect(),
            directory: Path::new("/"),
            limit: self.options.limit,
            stderr: StderrMode::Discard,
        };
        match self.programs.output(program, cancel).await {
            Ok((_, ProgramExit::Exited(0))) => None,
            Ok((output, ProgramExit::Exited(BLOCK | WARN))) => Some(danger(&output)),
            other => {
                tracing::warn!(?other, "the security scan failed");
                (self.options.failure == ScanFailurePolicy::Blocks).then(|| Danger {
                    key: format!("{KEY}unknown"),
                    reason: "Security scan failed, and `security.tirith_fail_open` is off".to_owned(),
                })
            }
        }
    }
}

fn installed(hermes_home: &Path) -> PathBuf {
    hermes_home.join("bin").join(NAME)
}

fn danger(output: &str) -> Danger {
    let report: Value = serde_json::from_str(output).unwrap_or_default();
    let findings: Vec<&Value> =
        report["findings"].as_array().into_iter().flatten().take(MOST_FINDINGS).collect();
    let text = |finding: &Value, name: &str| finding[name].as_str().unwrap_or_default().to_owned();
    let rule = findings.first().map(|finding| text(finding, "rule_id")).filter(|rule| !rule.is_empty());
    let told: Vec<String> = findings
        .iter()
        .map(|finding| {
            let severity = text(finding, "severity").to_uppercase();
            format!("[{severity}] {}: {}", text(finding, "title"), text(finding, "description"))
        })
        .collect();
    let summary = report["summary"].as_str().unwrap_or("something was found");
    let told = if told.is_empty() { summary.to_owned() } else { told.join("; ") };
    let reason = format!("Security scan — {}", head(&told, LONGEST_SUMMARY));
    Danger { key: format!("{KEY}{}", rule.as_deref().unwrap_or("unknown")), reason }
}
