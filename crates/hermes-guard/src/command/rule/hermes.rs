//! Commands of Hermes itself.

use super::RuleFinding::{self, Ask};
use crate::command::argv::Argv;

pub(in crate::command) const OUTSIDE: &str =
    "start gateway outside systemd (use 'systemctl --user restart hermes-gateway')";

pub(super) fn check(argv: &Argv<'_>) -> Option<RuleFinding> {
    match argv.name.as_str() {
        "hermes" => match (argv.word(0), argv.word(1)) {
            ("gateway", "stop" | "restart") => Some(Ask("stop or restart the Hermes gateway")),
            ("config", "set" | "unset" | "edit") if is_guarded(argv.word(2)) || argv.word(1) == "edit" => {
                Some(Ask("change Hermes' own configuration"))
            }
            _ if argv.has("--yolo") => Some(Ask("change Hermes' own configuration")),
            ("update" | "uninstall", _) => Some(Ask("change the Hermes installation")),
            _ => None,
        },
        // A process started this way outlives ours.
        "nohup" | "setsid" if runs_gateway(argv) => Some(Ask(OUTSIDE)),
        _ => None,
    }
}

/// Tells whether a setting controls what may be done without approval, and where.
fn is_guarded(key: &str) -> bool {
    const GUARDED: &[&str] =
        &["approvals", "security", "command_allowlist", "terminal", "hooks", "code_execution"];
    let first = key.split('.').next().unwrap_or_default();
    GUARDED.contains(&first) || key.starts_with("hooks_")
}

/// Detects `… gateway run …`.
pub(in crate::command) fn runs_gateway(argv: &Argv<'_>) -> bool {
    let texts: Vec<&str> = argv.texts().collect();
    texts.windows(2).any(|pair| pair == ["gateway", "run"])
}
