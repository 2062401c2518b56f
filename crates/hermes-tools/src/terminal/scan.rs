//! An outside program that looks at a command before it is run: tirith, where the user has it.
//!
//! Its exit code is the verdict; what it writes only explains it. Where it is not installed nothing is looked at.

use std::path::{Path, PathBuf};
use std::time::Duration;

use hermes_exec::{Complaints, Program, ProgramEnd, Programs};
use hermes_text::head;
use hermes_types::{Cancel, Danger};
use serde_json::Value;

const BLOCK: i32 = 1;
const WARN: i32 = 2;
const MOST_FINDINGS: usize = 50;
const LONGEST_SUMMARY: usize = 500;
pub(super) const KEY: &str = "tirith:";

/// What a scan that fails means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScanFailure {
    Allows,
    Blocks,
}

/// The program, and how it is asked.
#[derive(Debug, Clone)]
pub struct Scanner {
    programs: Programs,
    program: PathBuf,
    limit: Duration,
    failure: ScanFailure,
}

impl Scanner {
    /// Nothing where there is no such program: neither where `path` says, nor on PATH, nor in the home's `bin`.
    pub fn find(
        programs: Programs,
        path: &str,
        hermes_home: &Path,
        limit: Duration,
        failure: ScanFailure,
    ) -> Option<Self> {
        let ours = || Some(hermes_home.join("bin/tirith")).filter(|program| program.is_file());
        let program = programs.find(path).or_else(|| programs.find("tirith")).or_else(ours)?;
        Some(Self { programs, program, limit, failure })
    }

    /// What it has against a command.
    pub(super) async fn look(&self, command: &str, cancel: &Cancel) -> Option<Danger> {
        let name = self.program.to_string_lossy();
        let arguments = ["check", "--json", "--non-interactive", "--shell", "posix", "--", command];
        let program = Program {
            name: &name,
            arguments: arguments.iter().map(Into::into).collect(),
            directory: Path::new("/"),
            limit: self.limit,
            complaints: Complaints::Drop,
        };
        match self.programs.output(program, cancel).await {
            Ok((_, ProgramEnd::Exited(0))) => None,
            Ok((output, ProgramEnd::Exited(BLOCK | WARN))) => Some(danger(&output)),
            other => {
                tracing::warn!(?other, "the security scan failed");
                (self.failure == ScanFailure::Blocks).then(|| Danger {
                    key: format!("{KEY}unknown"),
                    reason: "Security scan failed, and `security.tirith_fail_open` is off".to_owned(),
                })
            }
        }
    }
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
