//! Commands of the user's own, from `quick_commands`.

use hermes_store::Waiting;

use super::{Done, Surface, Typed, find, parse};
use crate::gateway::Gateway;
use crate::settings::QuickCommand;

impl Gateway {
    pub(super) async fn quick(&self, row: &Waiting, typed: &Typed) -> Done {
        let command = self.live.now().quick_commands.get(&typed.name).cloned();
        match command {
            Some(QuickCommand::Exec(line)) if line.trim().is_empty() => {
                Done::said(format!("The quick command /{} has no `command`.", typed.name))
            }
            Some(QuickCommand::Exec(_)) if !self.is_from_owner(&row.envelope) => {
                Done::said(super::owners_only(&typed.name, &row.envelope.platform))
            }
            Some(QuickCommand::Exec(line)) => match self.ports.services.shell(&line).await {
                Ok(output) if output.trim().is_empty() => Done::said("(no output)"),
                Ok(output) => Done::said(output.trim()),
                Err(error) => Done::said(format!("⚠️ /{}: {error}", typed.name)),
            },
            Some(QuickCommand::Alias(target)) => {
                let target = target.trim();
                let slash = if target.starts_with('/') { "" } else { "/" };
                let line = format!("{slash}{target} {}", typed.rest);
                match parse(&line) {
                    // One step only: an alias of an alias could go round in circles.
                    Some(next) if find(&next.name, Surface::Chat).is_some() => {
                        Box::pin(self.run_command(row, &next)).await
                    }
                    Some(next) => match self.ports.services.skill(&next.name, &next.rest) {
                        Some(words) => Done::Words(words),
                        None => Done::Words(line.trim().to_owned()),
                    },
                    None => Done::said(format!("The quick command /{} has no `target`.", typed.name)),
                }
            }
            Some(QuickCommand::Unknown(kind)) => Done::said(format!(
                "The quick command /{} has the type `{kind}`; `exec` and `alias` are known.",
                typed.name
            )),
            None => Done::Words(row.envelope.text()),
        }
    }
}
