//! `hermes bundles` and `/bundles`: several skills under one command.

use std::process::ExitCode;

use anyhow::{Result, bail};
use clap::Parser;
use hermes_config::Config;
use hermes_gateway::slash::{self, CommandSurface};
use hermes_knowledge::{SkillFilter, SkillGroup, SkillSet, SkillUse};

use crate::cli::BundlesCommand;
use crate::command::table::table;
use crate::context::ProgramContext;
use crate::output::Console;

#[derive(Debug, Parser)]
#[command(name = "/bundles", disable_help_subcommand = true)]
struct BundlesLine {
    #[command(subcommand)]
    command: Option<BundlesCommand>,
}

pub(crate) fn run(command: BundlesCommand, context: &ProgramContext, output: &Console) -> Result<ExitCode> {
    context.config(output);
    output.line(answer(command, context)?.trim_end());
    Ok(ExitCode::SUCCESS)
}

/// Runs a line of a chat, and returns its answer.
pub(crate) fn run_line(line: &str, context: &ProgramContext) -> String {
    let Some(words) = hermes_text::split_words(line) else { return "A quote is not closed.".to_owned() };
    match BundlesLine::try_parse_from(std::iter::once("/bundles".to_owned()).chain(words)) {
        Ok(BundlesLine { command }) => {
            answer(command.unwrap_or_default(), context).unwrap_or_else(|error| format!("⚠️ {error:#}"))
        }
        Err(error) => error.to_string(),
    }
}

fn answer(command: BundlesCommand, context: &ProgramContext) -> Result<String> {
    let home = &context.home;
    Ok(match command {
        BundlesCommand::List => list(context),
        BundlesCommand::Show { name } => {
            let Some(group) = SkillGroup::find(home, &name) else { bail!("there is no bundle `{name}`") };
            show(&group, context)
        }
        BundlesCommand::Create { name, skills, description, instruction, force } => {
            let skills: Vec<String> =
                skills.iter().map(|name| name.trim().to_owned()).filter(|name| !name.is_empty()).collect();
            let known = installed(context);
            let unknown: Vec<&str> =
                skills.iter().map(String::as_str).filter(|name| known.find(name).is_none()).collect();
            if !unknown.is_empty() {
                bail!("there is no skill {}; nothing was written", unknown.join(", "));
            }
            let name = name.trim().to_lowercase().replace([' ', '_'], "-");
            let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
            if name.is_empty() || skills.is_empty() || !name.chars().all(is_plain) {
                bail!("`{name}` is no name for a bundle: use letters, digits and `-`; nothing was written");
            }
            if slash::find(&name, CommandSurface::Chat).is_some()
                || slash::find(&name, CommandSurface::Terminal).is_some()
            {
                bail!("/{name} is a command of Hermes; choose another name");
            }
            if SkillGroup::find(home, &name).is_some() && !force {
                bail!("there is a bundle {name} already; --force replaces it");
            }
            let group = SkillGroup { name, description, skills, instruction };
            let file = group.save(home)?;
            format!("Written {}; call it with /{}.", file.display(), group.name)
        }
        BundlesCommand::Delete { name } => {
            if !SkillGroup::remove(home, &name)? {
                bail!("there is no bundle `{name}`");
            }
            format!("Removed the bundle {name}; its skills stay.")
        }
        BundlesCommand::Reload => {
            let groups = SkillGroup::all(home);
            let known = installed(context);
            let mut lines = vec![format!("{} bundles. They are read whenever one is called.", groups.len())];
            for group in &groups {
                let missing = missing_skills(group, &known);
                if !missing.is_empty() {
                    lines.push(format!("{}: there is no skill {}", group.name, missing.join(", ")));
                }
            }
            lines.join("\n")
        }
    })
}

fn list(context: &ProgramContext) -> String {
    let groups = SkillGroup::all(&context.home);
    if groups.is_empty() {
        return "There are no bundles. `hermes bundles create NAME --skills A,B` writes one.".to_owned();
    }
    let row = |group: &SkillGroup| {
        vec![format!("/{}", group.name), group.skills.join(", "), group.description.clone()]
    };
    let rows: Vec<Vec<String>> = groups.iter().map(row).collect();
    table(&["Command", "Skills", "Description"], &[30, 50, 60], &rows)
}

fn show(group: &SkillGroup, context: &ProgramContext) -> String {
    let mut lines = vec![format!("/{}  {}", group.name, group.description)];
    lines.extend(group.skills.iter().map(|name| format!("  - {name}")));
    if !group.instruction.is_empty() {
        lines.push(group.instruction.clone());
    }
    let missing = missing_skills(group, &installed(context));
    if !missing.is_empty() {
        lines.push(format!("Not installed: {}", missing.join(", ")));
    }
    lines.join("\n")
}

fn missing_skills<'a>(group: &'a SkillGroup, known: &SkillSet) -> Vec<&'a str> {
    group.skills.iter().map(String::as_str).filter(|name| known.find(name).is_none()).collect()
}

fn installed(context: &ProgramContext) -> SkillSet {
    let config = Config::load(&context.home, &context.env);
    let filter = SkillFilter::from_config(&config, &context.env, "cli").for_use(SkillUse::Command);
    SkillSet::load(&context.home, &config, &context.env, &filter)
}
