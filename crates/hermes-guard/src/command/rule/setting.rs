//! Variables that change what programs do.

use super::RuleFinding::{self, Ask};

/// Variables whose values are commands, whatever program is started with them.
const RUN: &[&str] = &[
    "PAGER",
    "MANPAGER",
    "GIT_PAGER",
    "EDITOR",
    "VISUAL",
    "GIT_EDITOR",
    "GIT_SEQUENCE_EDITOR",
    "GIT_SSH",
    "GIT_SSH_COMMAND",
    "GIT_PROXY_COMMAND",
    "GIT_EXTERNAL_DIFF",
    "GIT_ASKPASS",
    "SSH_ASKPASS",
    "SUDO_ASKPASS",
    "PROMPT_COMMAND",
    "PS0",
    "PS1",
    "PS4",
    "BASH_ENV",
    "ENV",
    "LESSOPEN",
    "LESSCLOSE",
    "BROWSER",
    "SHELL",
    "RSYNC_RSH",
    "CVS_RSH",
    "MAKEFLAGS",
    "FZF_DEFAULT_COMMAND",
];
/// Variables that name libraries loaded into every program.
const LOADED: &[&str] = &["LD_PRELOAD", "LD_AUDIT", "DYLD_INSERT_LIBRARIES"];
/// The folders of the system's own libraries.
const SYSTEM: &[&str] = &["/usr/lib", "/lib", "/usr/local/lib", "/opt/homebrew", "/usr/libexec"];

pub(in crate::command) fn is_run(name: &str) -> bool {
    RUN.contains(&name)
}

pub(in crate::command) fn check(name: &str, value: &str) -> Option<RuleFinding> {
    if LOADED.contains(&name) {
        let foreign = |path: &str| !path.is_empty() && !SYSTEM.iter().any(|folder| path.starts_with(folder));
        return value.split([':', ' ']).any(foreign).then_some(Ask("load foreign code into a program"));
    }
    let trusts = name == "HERMES_YOLO_MODE" && !matches!(value, "" | "0" | "false");
    trusts.then_some(Ask("change Hermes' own configuration"))
}
