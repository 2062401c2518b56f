//! `hermes memory`: what the agent remembers, and which memory is in use.

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use hermes_config::{Config, set};

use crate::cli::{MemoryCommand, MemorySelection};
use crate::context::ProgramContext;
use crate::output::{Confirmation, Console};

/// The files of the built-in memory, with the keys that switch them on and limit them.
const FILES: [(MemorySelection, &str, &str, &str); 2] = [
    (MemorySelection::Memory, "MEMORY.md", "memory.memory_enabled", "memory.memory_char_limit"),
    (MemorySelection::User, "USER.md", "memory.user_profile_enabled", "memory.user_char_limit"),
];

pub(crate) fn run(command: MemoryCommand, context: &ProgramContext, output: &Console) -> Result<ExitCode> {
    let config = context.config(output);
    match command {
        MemoryCommand::Status => status(&config, context, output),
        MemoryCommand::Reset { target, yes } => reset(target, yes, context, output)?,
        MemoryCommand::Off => match config.non_empty_text("memory.provider") {
            None => output.line("No external memory service is configured; the built-in memory is in use."),
            Some(provider) => {
                set::unset(&context.home, &context.env, "memory.provider")?;
                output.line(&format!("✓ {provider} is not used any more; the built-in memory stays."));
            }
        },
    }
    Ok(ExitCode::SUCCESS)
}

fn status(config: &Config, context: &ProgramContext, output: &Console) {
    output.line("Built-in memory");
    for (_, name, switch, limit) in FILES {
        let text = fs::read_to_string(context.home.memories().join(name)).unwrap_or_default();
        let (count, most) = (text.trim().chars().count(), config.count(limit));
        let (mark, state) = if config.flag(switch) { ("✓", "on") } else { ("✗", "off") };
        output.line(&format!("  {mark} {name:<10} {state:<4} {count} of {most} characters"));
    }
    output.line("External memory service");
    match config.non_empty_text("memory.provider") {
        None => output.line("  none"),
        Some(provider) => {
            output.line(&format!("  ⚠ {provider} is configured; this release does not use it"));
        }
    }
}

/// Moves the files aside, so that nothing is lost by a mistake.
fn reset(target: MemorySelection, yes: bool, context: &ProgramContext, output: &Console) -> Result<()> {
    let is_wanted = |which| target == MemorySelection::All || target == which;
    let files: Vec<PathBuf> = FILES
        .into_iter()
        .filter(|(which, ..)| is_wanted(*which))
        .map(|(_, name, ..)| context.home.memories().join(name))
        .filter(|path| path.exists())
        .collect();
    if files.is_empty() {
        output.line("Nothing is remembered.");
        return Ok(());
    }
    if !yes {
        let names: Vec<String> = files.iter().map(|path| path.display().to_string()).collect();
        match output.confirm(&format!("Forget what is in {}?", names.join(" and "))) {
            Confirmation::Yes => {}
            Confirmation::No => {
                output.line("Cancelled.");
                return Ok(());
            }
            Confirmation::NotInteractive => {
                output.line("Cancelled: no terminal to confirm on. Use -y to skip the confirmation.");
                return Ok(());
            }
        }
    }
    for file in files {
        let kept = file.with_extension("md.before-reset");
        fs::rename(&file, &kept)?;
        output.line(&format!("✓ {} is empty now; it is kept as {}", file.display(), kept.display()));
    }
    output.line("Conversations that are open keep what they began with.");
    Ok(())
}
