//! `hermes mcp login`: signs in to a server.

use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Result;
use hermes_mcp::{LoginSurface, sign_in};
use hermes_task::SystemClock;
use hermes_types::{BoxFuture, Clock};

use super::{McpCommands, runtime};
use crate::command::login::Opener;
use crate::context::ProgramContext;
use crate::output::Console;

/// The terminal in which a person signs in.
pub(super) struct TerminalLogin<'a> {
    output: &'a Console,
    opener: Option<Opener>,
}

impl<'a> TerminalLogin<'a> {
    pub(super) fn new(context: &ProgramContext, output: &'a Console) -> Self {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        Self { output, opener: Opener::here(&context.env, &clock) }
    }
}

impl LoginSurface for TerminalLogin<'_> {
    fn show_address(&self, address: &str) {
        self.output.line(&format!("Open this address to sign in:\n{address}\nWaiting for up to 2 minutes…"));
        if let Some(opener) = &self.opener {
            opener.open(address);
        }
    }

    fn ask_code(&self) -> BoxFuture<'_, Option<String>> {
        let answer = self.output.ask("Paste the code, or the address your browser shows now: ");
        Box::pin(std::future::ready(answer))
    }
}

impl McpCommands<'_> {
    pub(super) fn login(&self, name: &str) -> Result<ExitCode> {
        let server = self.find(name)?;
        let surface = TerminalLogin::new(self.context, self.output);
        let options = self.options()?;
        match runtime()?.block_on(sign_in(&server, &options, &surface)) {
            Ok(()) => {
                self.output.line(&format!("✓ Signed in to {name}"));
                Ok(ExitCode::SUCCESS)
            }
            Err(error) => {
                self.output.error(&format!("the sign-in failed: {error}"));
                Ok(ExitCode::FAILURE)
            }
        }
    }
}
