//! Lingering: whether a user's services keep running after the last session ends.

use anyhow::Result;

use crate::command::gateway::service::control::ServiceControl;
use crate::output::Console;

/// The lingering state of a user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LingerState {
    On,
    /// Lingering is off; also for a user who never logged in and whom `loginctl` does not know.
    Off,
    /// The state could not be determined.
    Unknown,
}

/// Queries lingering and turns it on.
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

    /// Tries to turn lingering on after an installation, and prints what is left to do.
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

    /// Explains lingering if it is off: a missing user manager is the usual reason for a service that does not
    /// start.
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
