//! The user's own commands, from `quick_commands`. What one means is decided here for chats and the terminal; they run it.

use hermes_store::WaitingMessage;

use super::{ChatCommands, CommandSurface, ParsedCommand, SlashCommandOutcome, find, parse};
use crate::settings::QuickCommand;

/// What a quick command does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum QuickStep {
    /// It runs this in a shell.
    Shell(String),
    /// It stands for this command.
    Command(ParsedCommand),
    /// It cannot run; this says why.
    Refuse(String),
}

/// Tells what a quick command does.
pub fn quick_step(command: &QuickCommand, typed: &ParsedCommand) -> QuickStep {
    let ParsedCommand { name, arguments } = typed;
    match command {
        QuickCommand::Exec(line) if line.trim().is_empty() => {
            QuickStep::Refuse(format!("The quick command /{name} has no `command`."))
        }
        QuickCommand::Exec(line) => QuickStep::Shell(line.clone()),
        QuickCommand::Alias(target) => {
            let target = target.trim();
            let slash = if target.starts_with('/') { "" } else { "/" };
            parse(&format!("{slash}{target} {arguments}")).map_or_else(
                || QuickStep::Refuse(format!("The quick command /{name} has no `target`.")),
                QuickStep::Command,
            )
        }
        QuickCommand::Unknown(kind) => QuickStep::Refuse(format!(
            "The quick command /{name} has the type `{kind}`; `exec` and `alias` are known."
        )),
    }
}

impl ChatCommands {
    pub(super) async fn run_quick_command(
        &self,
        row: &WaitingMessage,
        typed: &ParsedCommand,
    ) -> SlashCommandOutcome {
        let Some(command) = self.settings.current().quick_commands.get(&typed.name).cloned() else {
            return match self.program.run_plugin_command(&typed.name, &typed.arguments).await {
                Some(text) => SlashCommandOutcome::reply(text),
                None => SlashCommandOutcome::Prompt(row.envelope.text()),
            };
        };
        match quick_step(&command, typed) {
            QuickStep::Refuse(reason) => SlashCommandOutcome::reply(reason),
            QuickStep::Shell(_) if !self.access.is_from_owner(&row.envelope) => {
                SlashCommandOutcome::reply(super::owner_required_message(&typed.name, &row.envelope.platform))
            }
            QuickStep::Shell(line) => match self.programs.shell(&line).await {
                Ok(output) if output.trim().is_empty() => {
                    SlashCommandOutcome::reply("Command returned no output")
                }
                Ok(output) => SlashCommandOutcome::reply(output.trim()),
                Err(error) => SlashCommandOutcome::reply(format!("⚠️ /{}: {error}", typed.name)),
            },
            // An alias resolves in one step only, because aliases of aliases could form a cycle.
            QuickStep::Command(next) if find(&next.name, CommandSurface::Chat).is_some() => {
                Box::pin(self.run(row, &next)).await
            }
            QuickStep::Command(next) => {
                let prompt = self.skills.prompt(&next.name, &next.arguments);
                SlashCommandOutcome::Prompt(
                    prompt.unwrap_or_else(|| format!("/{} {}", next.name, next.arguments).trim().to_owned()),
                )
            }
        }
    }
}
