//! The user's own commands, from `quick_commands`.

use hermes_store::WaitingMessage;

use super::{ChatCommands, CommandSurface, ParsedCommand, SlashCommandOutcome, find, parse};
use crate::settings::QuickCommand;

impl ChatCommands {
    pub(super) async fn run_quick_command(
        &self,
        row: &WaitingMessage,
        typed: &ParsedCommand,
    ) -> SlashCommandOutcome {
        let command = self.settings.current().quick_commands.get(&typed.name).cloned();
        match command {
            Some(QuickCommand::Exec(line)) if line.trim().is_empty() => {
                SlashCommandOutcome::reply(format!("The quick command /{} has no `command`.", typed.name))
            }
            Some(QuickCommand::Exec(_)) if !self.access.is_from_owner(&row.envelope) => {
                SlashCommandOutcome::reply(super::owner_required_message(&typed.name, &row.envelope.platform))
            }
            Some(QuickCommand::Exec(line)) => match self.programs.shell(&line).await {
                Ok(output) if output.trim().is_empty() => SlashCommandOutcome::reply("(no output)"),
                Ok(output) => SlashCommandOutcome::reply(output.trim()),
                Err(error) => SlashCommandOutcome::reply(format!("⚠️ /{}: {error}", typed.name)),
            },
            Some(QuickCommand::Alias(target)) => {
                let target = target.trim();
                let slash = if target.starts_with('/') { "" } else { "/" };
                let line = format!("{slash}{target} {}", typed.arguments);
                match parse(&line) {
                    // An alias resolves in one step only, because aliases of aliases could form a cycle.
                    Some(next) if find(&next.name, CommandSurface::Chat).is_some() => {
                        Box::pin(self.run(row, &next)).await
                    }
                    Some(next) => match self.skills.prompt(&next.name, &next.arguments) {
                        Some(words) => SlashCommandOutcome::Prompt(words),
                        None => SlashCommandOutcome::Prompt(line.trim().to_owned()),
                    },
                    None => SlashCommandOutcome::reply(format!(
                        "The quick command /{} has no `target`.",
                        typed.name
                    )),
                }
            }
            Some(QuickCommand::Unknown(kind)) => SlashCommandOutcome::reply(format!(
                "The quick command /{} has the type `{kind}`; `exec` and `alias` are known.",
                typed.name
            )),
            None => match self.program.run_plugin_command(&typed.name, &typed.arguments).await {
                Some(text) => SlashCommandOutcome::reply(text),
                None => SlashCommandOutcome::Prompt(row.envelope.text()),
            },
        }
    }
}
