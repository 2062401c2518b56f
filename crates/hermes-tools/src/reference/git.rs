//! Runs git so that the repository's configuration cannot start any program: no hook, filter, monitor, pager or
//! other command. Git also runs inside the sandbox.

use std::ffi::OsString;
use std::time::Duration;

use hermes_exec::{Program, ProgramExit, StderrMode};
use hermes_guard::{Redaction, redact};
use hermes_types::Cancel;

use super::{ReferenceBlock, ReferenceResolver, attach};
use crate::file::ENV_FILES;

const LIMIT: Duration = Duration::from_secs(30);
/// Settings that could make git run a program, each disabled.
pub const RUNS_NOTHING: &[&str] = &[
    "core.fsmonitor=false",
    "core.hooksPath=/dev/null",
    "core.pager=cat",
    "core.attributesFile=/dev/null",
    "core.sshCommand=false",
    "core.askPass=false",
    "core.alternateRefsCommand=false",
    "diff.external=",
    "gpg.program=false",
    "gpg.ssh.program=false",
    "gpg.x509.program=false",
    "log.showSignature=false",
    "credential.helper=",
    "protocol.allow=never",
    "submodule.recurse=false",
    "diff.submodule=short",
    "diff.ignoreSubmodules=all",
];
/// Settings of drivers that name a program.
const DRIVERS: &[(&str, &[&str])] = &[
    ("filter", &["clean", "smudge", "process"]),
    ("diff", &["command", "textconv"]),
    ("merge", &["driver"]),
];
/// Names of files with secrets, which are not attached even if the repository contains them.
const SECRET_FILES: &[&str] = &[
    "*.pem",
    "*.key",
    "*.p12",
    "*.pfx",
    "*.jks",
    "id_rsa",
    "id_ed25519",
    "id_ecdsa",
    "id_dsa",
    ".npmrc",
    ".pypirc",
    ".netrc",
    ".git-credentials",
];

impl ReferenceResolver {
    /// Attaches the output of a git command, without files that hold secrets.
    pub(super) async fn git(&self, raw: &str, what: &[&str], cancel: &Cancel) -> ReferenceBlock {
        let (command, options) = what.split_first().ok_or("nothing to ask git for")?;
        let mut arguments: Vec<OsString> = vec!["--no-pager".into(), "--no-optional-locks".into()];
        for setting in RUNS_NOTHING {
            arguments.extend(["-c".into(), setting.into()]);
        }
        for setting in self.drivers(cancel).await {
            arguments.extend(["-c".into(), setting.into()]);
        }
        arguments.push(command.into());
        arguments.extend(["--no-ext-diff", "--no-textconv", "--no-color"].map(OsString::from));
        arguments.extend(options.iter().map(OsString::from));
        arguments.extend(["--".into(), ".".into()]);
        let names = ENV_FILES.iter().chain(SECRET_FILES);
        arguments.extend(names.map(|name| OsString::from(format!(":(exclude,top,glob)**/{name}"))));
        let (output, end) = self.ask_git(arguments, cancel).await?;
        match end {
            ProgramExit::Exited(0) => {
                let shown = if output.trim().is_empty() { "(nothing)" } else { output.trim_end() };
                let title = format!("🧾 git {}", what.join(" "));
                let language = if command == &"diff" { "diff" } else { "" };
                Ok(attach::block(&title, &masked(shown), language))
            }
            ProgramExit::Exited(_) => Err(output.lines().next().unwrap_or("git failed").to_owned()),
            ProgramExit::TimedOut => Err(format!("git took longer than {} s", LIMIT.as_secs())),
            ProgramExit::Cancelled => Err(format!("{raw} was interrupted")),
        }
    }

    /// Returns settings that disable the drivers of the repository and the user.
    async fn drivers(&self, cancel: &Cancel) -> Vec<String> {
        let pattern = r"^(filter|diff|merge)\..*\.(clean|smudge|process|command|textconv|driver)$";
        let arguments = ["config", "--name-only", "--null", "--get-regexp", pattern].map(OsString::from);
        let Ok((output, ProgramExit::Exited(0))) = self.ask_git(arguments.to_vec(), cancel).await else {
            return Vec::new();
        };
        let mut settings = Vec::new();
        for key in output.split('\0').map(str::trim).filter(|key| !key.is_empty()) {
            let (Some((section, rest)), Some((_, last))) = (key.split_once('.'), key.rsplit_once('.')) else {
                continue;
            };
            let Some((name, _)) = rest.rsplit_once('.') else { continue };
            let known = DRIVERS.iter().any(|(known, parts)| *known == section && parts.contains(&last));
            if known {
                settings.push(format!("{section}.{name}.{last}="));
                if section == "filter" {
                    settings.push(format!("filter.{name}.required=false"));
                }
            }
        }
        settings
    }

    async fn ask_git(
        &self,
        arguments: Vec<OsString>,
        cancel: &Cancel,
    ) -> Result<(String, ProgramExit), String> {
        let program = Program {
            name: "git",
            arguments,
            directory: self.folder(),
            limit: LIMIT,
            stderr: StderrMode::Merge,
        };
        self.programs.output(program, cancel).await.map_err(|error| error.to_string())
    }
}

/// Masks secrets in a diff. The sign before each line is removed first, so that secrets are recognized.
fn masked(text: &str) -> String {
    let signs: Vec<&str> = text.lines().map(sign).collect();
    let bare: Vec<&str> = text.lines().map(|line| line.get(sign(line).len()..).unwrap_or_default()).collect();
    let bare = bare.join("\n");
    let hidden = redact(&bare, Redaction::default());
    if hidden.lines().count() == signs.len() {
        let lines: Vec<String> =
            signs.iter().zip(hidden.lines()).map(|(sign, line)| format!("{sign}{line}")).collect();
        return lines.join("\n");
    }
    hidden.into_owned()
}

fn sign(line: &str) -> &str {
    if line.starts_with("+++") || line.starts_with("---") {
        return "";
    }
    line.get(..1).filter(|sign| ["+", "-", " "].contains(sign)).unwrap_or_default()
}
