//! The user's own commands, from `quick_commands` in config.yaml.

use anyhow::Result;
use hermes_exec::{Program, ProgramExit, ProgramRunner, StderrMode};
use hermes_gateway::slash::{CommandSurface, ParsedCommand, QuickStep, find, quick_step};
use hermes_types::Cancel;

use super::chat_loop::ChatLoop;
use super::slash::{self, CommandEffect};
use super::terminal_commands::locked;
use crate::command::gateway::QUICK_COMMAND_LIMIT;
use crate::wiring::{child_variables, working_folder};

/// Runs a quick command. Returns nothing if there is none of this name.
pub(super) async fn run(chat: &mut ChatLoop<'_>, name: &str, rest: &str) -> Result<Option<CommandEffect>> {
    let commands = hermes_gateway::quick_commands(&chat.runtime.config);
    let Some(command) = commands.get(name) else { return Ok(None) };
    let typed = ParsedCommand { name: name.to_owned(), arguments: rest.to_owned() };
    match quick_step(command, &typed) {
        QuickStep::Refuse(reason) => chat.output.line(&reason),
        QuickStep::Shell(line) => {
            let text = locked(&chat.terminal, Some("Running…"), shell(chat, name, &line)).await;
            chat.output.line(&hermes_text::escape_terminal(text.trim_end()));
        }
        // An alias resolves in one step only, because aliases of aliases could form a cycle.
        QuickStep::Command(next) if commands.contains_key(&next.name) && !is_built_in(&next.name) => {
            chat.output.line(&format!("/{name} stands for /{}, which is a quick command itself.", next.name));
        }
        QuickStep::Command(next) => {
            let line = format!("/{} {}", next.name, next.arguments);
            return Ok(Some(Box::pin(slash::run(chat, line.trim())).await?));
        }
    }
    Ok(Some(CommandEffect::Continue))
}

fn is_built_in(name: &str) -> bool {
    find(name, CommandSurface::Terminal).is_some()
}

/// Runs a line in a shell, outside the sandbox: the user wrote it into the configuration.
async fn shell(chat: &ChatLoop<'_>, name: &str, line: &str) -> String {
    let variables = child_variables(&chat.context.env, &[]);
    let programs = ProgramRunner::new(variables, chat.runtime.agent.clock().clone());
    let folder = working_folder(chat.context, &chat.runtime.config).unwrap_or_default();
    let program = Program {
        name: "sh",
        arguments: vec!["-c".into(), line.into()],
        directory: &folder,
        limit: QUICK_COMMAND_LIMIT,
        stderr: StderrMode::Merge,
    };
    match programs.output(program, &Cancel::new()).await {
        Ok((_, ProgramExit::TimedOut)) => {
            format!("/{name}: Quick command timed out ({}s)", QUICK_COMMAND_LIMIT.as_secs())
        }
        Ok((_, ProgramExit::Cancelled)) => format!("/{name} was stopped."),
        Ok((text, ProgramExit::Exited(0))) if text.trim().is_empty() => {
            "Command returned no output".to_owned()
        }
        Ok((text, ProgramExit::Exited(code))) if text.trim().is_empty() => {
            format!("/{name} ended with {code} and said nothing.")
        }
        Ok((text, ProgramExit::Exited(_))) => text,
        Err(error) => format!("/{name}: {error}"),
    }
}
