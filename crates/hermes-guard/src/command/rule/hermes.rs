//! Hermes itself.

use super::Finding::{self, Ask};
use crate::command::argv::Argv;

pub(in crate::command) const OUTSIDE: &str =
    "start gateway outside systemd (use 'systemctl --user restart hermes-gateway')";

pub(super) fn check(argv: &Argv<'_>) -> Option<Finding> {
    match argv.name.as_str() {
        "hermes" => match (argv.word(0), argv.word(1)) {
            ("gateway", "stop" | "restart") => Some(Ask("stop or restart the Hermes gateway")),
            ("update" | "uninstall", _) => Some(Ask("change the Hermes installation")),
            _ => None,
        },
        // What is started so goes on without us.
        "nohup" | "setsid" if runs_gateway(argv) => Some(Ask(OUTSIDE)),
        _ => None,
    }
}

/// `… gateway run …`
pub(in crate::command) fn runs_gateway(argv: &Argv<'_>) -> bool {
    let texts: Vec<&str> = argv.texts().collect();
    texts.windows(2).any(|pair| pair == ["gateway", "run"])
}
