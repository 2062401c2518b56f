//! Lingering: whether a user's services go on after the last session ends.

use anyhow::Result;

use crate::command::gateway::service::control::ServiceControl;
use crate::output::Console;

/// How it is with one user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LingerState {
    On,
    /// Also of one who never logged in and whom nobody here knows.
    Off,
    /// Nobody here can say.
    Unknown,
}

/// Asks about lingering and turns it on.
pub(crate) struct Linger<'a> {
    control: &'a ServiceControl,
    user: String,
}

impl<'a> Linger<'a> {
    pub(crate) fn new(control: &'a ServiceControl, user: String) -> Self {
        Self { control, user }
    }

    fn state(&self) -> Result<LingerState> {
        if self.control.find("loginctl").is_none() {
            return Ok(LingerState::Unknown);
        }
        let said =
            self.control.run("loginctl", &["show-user", &self.user, "--property=Linger", "--value"])?;
        Ok(if said.code == 0 && said.text.trim() == "yes" { LingerState::On } else { LingerState::Off })
    }

    /// After an installation: tries, and says what is left to do.
    pub(crate) fn turn_on(&self, output: &Console) -> Result<()> {
        if self.state()? == LingerState::Off
            && self.control.run("loginctl", &["enable-linger", &self.user])?.code != 0
        {
            self.warn(output);
            return Ok(());
        }
        self.report(output)
    }

    pub(crate) fn report(&self, output: &Console) -> Result<()> {
        match self.state()? {
            LingerState::On => output.line("✓ Linger is on: the service goes on after you log out"),
            LingerState::Off => self.warn(output),
            LingerState::Unknown => {
                output.line(
                    "⚠ Whether the service goes on after you log out is not known: there is no `loginctl`",
                );
            }
        }
        Ok(())
    }

    /// A user's manager that is not there is the usual reason for a service that does not start.
    pub(crate) fn explain_if_off(&self, output: &Console) -> Result<()> {
        if self.state()? == LingerState::Off {
            self.warn(output);
            output.line("  Then try again, or install the service for the machine: `sudo hermes gateway install --system`");
        }
        Ok(())
    }

    fn warn(&self, output: &Console) {
        output.line("⚠ Linger is off: the service ends when you log out. To change that:");
        output.line(&format!("  sudo loginctl enable-linger {}", self.user));
    }
}
