//! The password for `sudo`, which the user is asked for when it is needed and which is passed only on standard
//! input.
//!
//! Invariant: the password is in no argument, no log and no text that the model reads.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use hermes_types::{Clock, Secret, ToolContext, UserAnswer, UserQuestion};

use super::strip_literals::strip_literals;

const PATIENCE: Duration = Duration::from_secs(45);
const OPTIONS: &str = " -S -p ''";
const REJECTED: [&str; 2] = ["Sorry, try again", "incorrect password"];
const NEEDED: [&str; 3] =
    ["sudo: a password is required", "sudo: no tty present", "sudo: a terminal is required"];
const TIP: &str = "\n[tip: sudo needs a password here; the user can set SUDO_PASSWORD in .env]";

/// The configured password, and the one that the user entered.
#[derive(Debug, Default)]
pub(super) struct SudoPassword {
    configured: Option<Secret>,
    entered: Mutex<Option<Secret>>,
}

/// A command with its password.
#[derive(Debug)]
pub(super) struct SudoCommand {
    pub(super) command: String,
    pub(super) password: Secret,
}

impl SudoPassword {
    pub(super) fn with(configured: Option<Secret>) -> Self {
        Self { configured, entered: Mutex::default() }
    }

    /// Returns the command with a password. Returns `None` if it needs no password or there is none.
    pub(super) async fn provide(
        &self,
        command: &str,
        context: ToolContext<'_>,
        clock: &dyn Clock,
    ) -> Option<SudoCommand> {
        let places = sudo_positions(command);
        if places.is_empty() {
            return None;
        }
        let password = match self.known() {
            Some(password) => password,
            None => self.ask(context, clock).await?,
        };
        let mut text = command.to_owned();
        for at in places.iter().rev() {
            text.insert_str(*at, OPTIONS);
        }
        let input = Secret::new(format!("{}\n", password.expose()).repeat(places.len()));
        Some(SudoCommand { command: text, password: input })
    }

    /// Checks the output: forgets a rejected password so that the user is asked again, and explains a missing
    /// one.
    pub(super) fn check_output(&self, output: &mut String) {
        if REJECTED.iter().any(|words| output.contains(words)) {
            *self.entered.lock().unwrap_or_else(PoisonError::into_inner) = None;
        }
        if NEEDED.iter().any(|words| output.contains(words)) {
            output.push_str(TIP);
        }
    }

    fn known(&self) -> Option<Secret> {
        let told = self.entered.lock().unwrap_or_else(PoisonError::into_inner).clone();
        self.configured.clone().or(told)
    }

    async fn ask(&self, context: ToolContext<'_>, clock: &dyn Clock) -> Option<Secret> {
        let question = UserQuestion::Secret {
            name: "SUDO_PASSWORD".to_owned(),
            prompt: "Password for sudo (empty to go on without)".to_owned(),
        };
        let answer = tokio::select! {
            answer = context.frontend.ask(question, context.cancel) => answer,
            () = clock.sleep(PATIENCE) => return None,
        };
        let UserAnswer::Secret(password) = answer else { return None };
        if password.expose().is_empty() {
            return None;
        }
        *self.entered.lock().unwrap_or_else(PoisonError::into_inner) = Some(password.clone());
        Some(password)
    }
}

/// Returns the position after each `sudo` that is a command.
fn sudo_positions(command: &str) -> Vec<usize> {
    let text = strip_literals(command);
    let mut found = Vec::new();
    let mut at_command = true;
    let mut at = 0;
    for piece in text.split_inclusive(|c: char| c.is_whitespace() || ";&|(){}".contains(c)) {
        let word = piece.trim_end_matches(|c: char| c.is_whitespace() || ";&|(){}".contains(c));
        if word == "sudo" && at_command {
            found.push(at + word.len());
        }
        if !word.is_empty() {
            let opens =
                matches!(word, "then" | "do" | "else" | "elif" | "if" | "while" | "until" | "!" | "time");
            let assigns = word.split_once('=').is_some_and(|(name, _)| {
                !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
            });
            at_command = at_command && assigns || opens;
        }
        if piece.ends_with([';', '&', '|', '(', '{', '\n']) {
            at_command = true;
        }
        at += piece.len();
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_command_of_that_name_counts() {
        for (command, count) in [
            ("sudo apt update", 1),
            ("sudo a && sudo b | sudo tee x; sudo c", 4),
            ("A=1 sudo x", 1),
            ("if sudo -n true; then sudo x; fi", 2),
            ("(sudo x)", 1),
            ("visudo", 0),
            ("echo sudo", 0),
            ("echo \"sudo x\"", 0),
            ("ls # sudo x", 0),
            ("cat /etc/sudoers", 0),
            ("grep sudo file", 0),
        ] {
            assert_eq!(sudo_positions(command).len(), count, "{command}");
        }
    }
}
