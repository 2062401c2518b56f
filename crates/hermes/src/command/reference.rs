//! The reference pages of commands and of slash commands, made from their tables.

use std::fmt::Write as _;

use anyhow::{Result, bail};
use clap::Command;
use hermes_gateway::slash::{COMMANDS, CommandAccess, CommandSurface, SlashCommand};

use crate::cli;

/// Returns a page by its name.
pub(crate) fn page(name: &str) -> Result<String> {
    match name {
        "commands" => commands(),
        "slash-commands" => slash_commands(),
        _ => bail!("the pages are `commands` and `slash-commands`"),
    }
}

fn commands() -> Result<String> {
    let mut out = String::from(
        "# Command reference\n\nGenerated from the command line's own help; do not edit. Flags that every command has are under \
         [hermes](#hermes).\n",
    );
    let mut root = cli::definition();
    root.build();
    section(&root, &mut out)?;
    Ok(out)
}

/// Writes a command and, below it, its subcommands.
fn section(command: &Command, out: &mut String) -> Result<()> {
    let name = command.get_bin_name().unwrap_or_else(|| command.get_name());
    writeln!(out, "\n## {name}\n")?;
    if let Some(about) = command.get_about() {
        writeln!(out, "{}.\n", text(&about.to_string()).trim_end_matches('.'))?;
    }
    let mut shown = command.clone().disable_help_flag(true);
    let usage = shown.render_usage().to_string();
    writeln!(out, "```text\n{}\n```", usage.trim_start_matches("Usage:").trim())?;
    let is_root = command.get_name() == "hermes";
    let own = command.get_arguments().filter(|argument| {
        !argument.is_hide_set() && argument.get_id() != "help" && (is_root || !argument.is_global_set())
    });
    let rows: Vec<String> = own
        .map(|argument| {
            let help = argument.get_help().map(ToString::to_string).unwrap_or_default();
            format!("| `{}` | {} |", form(argument), text(&help))
        })
        .collect();
    if !rows.is_empty() {
        writeln!(out, "\n| argument | |\n|---|---|\n{}", rows.join("\n"))?;
    }
    for child in command.get_subcommands().filter(|child| !child.is_hide_set() && child.get_name() != "help")
    {
        section(child, out)?;
    }
    Ok(())
}

/// Returns an argument as a user writes it.
fn form(argument: &clap::Arg) -> String {
    let value = || {
        let names = argument.get_value_names().unwrap_or_default();
        names.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
    };
    if argument.is_positional() {
        let name = value();
        return if name.is_empty() { argument.get_id().as_str().to_uppercase() } else { name };
    }
    let short = argument.get_short().map(|short| format!("-{short}"));
    let long = argument.get_long().map(|long| format!("--{long}"));
    let flags = short.into_iter().chain(long).collect::<Vec<_>>().join("`, `");
    if argument.get_action().takes_values() { format!("{flags} {}", value()) } else { flags }
}

fn slash_commands() -> Result<String> {
    let mut out = String::from(
        "# Slash command reference\n\nGenerated from the table of slash commands; do not edit.\n\n\
         | Command | What it does | Terminal | Chats |\n|---|---|---|---|\n",
    );
    for command in COMMANDS.iter().filter(|command| command.is_listed()) {
        let arguments =
            if command.arguments.is_empty() { String::new() } else { format!(" {}", command.arguments) };
        let mut aliases = String::new();
        for alias in command.aliases {
            write!(aliases, ", `/{alias}`")?;
        }
        writeln!(
            out,
            "| `/{}{}`{aliases} | {} | {} | {} |",
            command.name,
            cell(&arguments),
            text(command.description),
            if command.is_for(CommandSurface::Terminal) { "yes" } else { "" },
            in_chats(command),
        )?;
    }
    Ok(out)
}

/// Says who may run a command in chats.
fn in_chats(command: &SlashCommand) -> &'static str {
    match (command.is_for(CommandSurface::Chat), command.access) {
        (false, _) => "",
        (true, CommandAccess::Everybody) => "yes",
        (true, _) => "owners",
    }
}

/// Returns a help text as one line of a table.
fn text(help: &str) -> String {
    cell(&help.split_whitespace().collect::<Vec<_>>().join(" "))
}

fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}
