//! `hermes man`: manual pages, made from the command line's own help.

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context as _, Result, bail};
use clap_mangen::Man;

use crate::cli;
use crate::output::Console;

pub(crate) fn run(folder: Option<&Path>, command: Option<&str>, output: &Console) -> Result<ExitCode> {
    let pages = pages()?;
    if let Some(folder) = folder {
        std::fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
        for (name, page) in &pages {
            hermes_config::write::write_output(&folder.join(format!("{name}.1")), page.as_bytes())?;
        }
        output.line(&format!("✓ {} pages in {}", pages.len(), folder.display()));
        return Ok(ExitCode::SUCCESS);
    }
    let command = command.filter(|command| *command != "hermes");
    let name = command
        .map_or_else(|| "hermes".to_owned(), |command| format!("hermes-{}", command.replace(' ', "-")));
    let Some((_, page)) = pages.iter().find(|(known, _)| *known == name) else {
        bail!("there is no page for '{}'; `hermes --help` lists the commands", command.unwrap_or_default());
    };
    output.text(page);
    Ok(ExitCode::SUCCESS)
}

/// Renders the pages of the program and of all commands.
fn pages() -> Result<Vec<(String, String)>> {
    let mut pages = Vec::new();
    let mut open = vec![("hermes".to_owned(), cli::definition())];
    while let Some((name, command)) = open.pop() {
        for child in command.get_subcommands().filter(|child| !child.is_hide_set()) {
            open.push((format!("{name}-{}", child.get_name()), child.clone()));
        }
        let mut page = Vec::new();
        // The name of a command of a command is the way to it.
        let command = command.display_name(name.clone()).disable_help_subcommand(true);
        Man::new(command).title(name.to_uppercase()).render(&mut page)?;
        pages.push((name, String::from_utf8_lossy(&page).into_owned()));
    }
    pages.sort();
    Ok(pages)
}
