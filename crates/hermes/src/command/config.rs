//! `hermes config`: shows the configuration and changes it without altering the rest of the file.

use std::process::ExitCode;

use anyhow::Result;
use hermes_config::env::dotenv;
use hermes_config::set::{self, ValueCheck};
use hermes_config::{Config, Error, ManagedMode, migrate, save};

use crate::cli::ConfigCommand;
use crate::context::ProgramContext;
use crate::editor::{self, EditorOutcome};
use crate::output::Console;

/// The keys the summary shows, with their labels.
const SHOWN_KEYS: [(&str, &str); 8] = [
    ("OPENROUTER_API_KEY", "OpenRouter"),
    ("ANTHROPIC_API_KEY", "Anthropic"),
    ("OPENAI_API_KEY", "OpenAI"),
    ("FIRECRAWL_API_KEY", "Firecrawl"),
    ("BROWSERBASE_API_KEY", "Browserbase"),
    ("FAL_KEY", "FAL"),
    ("TELEGRAM_BOT_TOKEN", "Telegram"),
    ("DISCORD_BOT_TOKEN", "Discord"),
];

/// The settings the summary shows, by section.
const SHOWN_SETTINGS: [(&str, &[&str]); 5] = [
    ("Model", &["model.default", "model.provider", "model.base_url", "agent.max_turns"]),
    ("Display", &["display.personality", "display.tool_progress", "display.skin"]),
    ("Terminal", &["terminal.backend", "terminal.cwd", "terminal.timeout", "terminal.sandbox"]),
    ("Timezone", &["timezone"]),
    ("Context Compression", &["compression.enabled", "compression.threshold"]),
];

pub(crate) fn run(
    command: Option<ConfigCommand>,
    context: &ProgramContext,
    output: &Console,
) -> Result<ExitCode> {
    let ProgramContext { home, env, .. } = context;
    match command.unwrap_or(ConfigCommand::Show) {
        ConfigCommand::Show => show(context, output),
        ConfigCommand::Set { key, value, force } => {
            let check = if force { ValueCheck::Skip } else { ValueCheck::Enforce };
            let (key, value) = (key.unwrap_or_default(), value.unwrap_or_default());
            let outcome = set::set_checked(home, env, &key, &value, check);
            return print_lines(outcome.map(|outcome| outcome.lines), output);
        }
        ConfigCommand::Get { key, json } => {
            let config = context.config(output);
            if json {
                let value = set::get_value(&config, env, &key)?;
                output.line(&serde_json::to_string_pretty(&value.to_json())?);
                return Ok(ExitCode::SUCCESS);
            }
            return print_lines(set::get(&config, env, &key).map(|value| vec![value]), output);
        }
        ConfigCommand::Unset { key } => {
            return print_lines(set::unset(home, env, &key).map(|outcome| outcome.lines), output);
        }
        ConfigCommand::Edit => return edit(context, output),
        ConfigCommand::Path => output.line(&home.config().display().to_string()),
        ConfigCommand::EnvPath => output.line(&home.dotenv().display().to_string()),
        ConfigCommand::Check => return Ok(check(context, output)),
        ConfigCommand::Migrate { dry_run } => {
            let run = if dry_run { migrate::MigrationMode::DryRun } else { migrate::MigrationMode::Apply };
            let report = migrate::migrate(home, env, run)?;
            for line in &report.lines {
                output.line(line);
            }
            if report.lines.is_empty() {
                output.line("✓ Configuration is up to date!");
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Opens config.yaml in the user's editor, creating it from the defaults first if it does not exist.
fn edit(context: &ProgramContext, output: &Console) -> Result<ExitCode> {
    let ProgramContext { home, env } = context;
    let management = ManagedMode::detect(home, env);
    management.check_allowed("edit configuration")?;
    let file = home.config();
    if !file.exists() {
        save::full_save(home, management, &[])?;
    }
    Ok(match editor::open(env, &file)? {
        EditorOutcome::Closed => check_edited(context, output),
        EditorOutcome::Failed => ExitCode::FAILURE,
        EditorOutcome::None => {
            output.line(&format!("No editor found. The file is {}", file.display()));
            ExitCode::SUCCESS
        }
    })
}

/// Reports what is wrong with the file after editing.
fn check_edited(context: &ProgramContext, output: &Console) -> ExitCode {
    let config = Config::load(&context.home, &context.env);
    for warning in config.warnings() {
        output.notice(&warning.to_string());
    }
    for finding in config.findings() {
        output.notice(&format!("⚠ {finding}"));
    }
    match config.require_usable(&context.env) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

/// Prints the lines of a change, or the usage when there was none to make.
fn print_lines(lines: hermes_config::Result<Vec<String>>, output: &Console) -> Result<ExitCode> {
    match lines {
        Ok(lines) => {
            for line in lines {
                output.line(&line);
            }
            Ok(ExitCode::SUCCESS)
        }
        Err(Error::Usage { usage }) => {
            output.line(usage);
            Ok(ExitCode::FAILURE)
        }
        Err(error) => Err(error.into()),
    }
}

fn show(context: &ProgramContext, output: &Console) {
    let config = context.config(output);
    output.line("⚕ Hermes Configuration");
    output.line("");
    output.line("Paths");
    output.line(&format!("  Config:   {}", context.home.config().display()));
    output.line(&format!("  Secrets:  {}", context.home.dotenv().display()));
    output.line("");
    output.line("API Keys");
    for (name, label) in SHOWN_KEYS {
        output.line(&format!("  {label:<14} {}", mask(context.env.get(name))));
    }
    for (section, keys) in SHOWN_SETTINGS {
        output.line("");
        output.line(section);
        for key in keys {
            let value = set::get(&config, &context.env, key).unwrap_or_default();
            output.line(format!("  {:<24} {value}", key.rsplit('.').next().unwrap_or(key)).trim_end());
        }
    }
}

/// Masks a key: enough remains to recognise it, not enough to use it.
fn mask(value: Option<&str>) -> String {
    match value.map(|value| value.chars().collect::<Vec<_>>()) {
        None => "(not set)".to_owned(),
        Some(chars) if chars.is_empty() => "(not set)".to_owned(),
        Some(chars) if chars.len() < 12 => "***".to_owned(),
        Some(chars) => {
            let first: String = chars.iter().take(4).collect();
            let last: String = chars.iter().skip(chars.len() - 4).collect();
            format!("{first}...{last}")
        }
    }
}

fn check(context: &ProgramContext, output: &Console) -> ExitCode {
    let config = context.config(output);
    let status = migrate::status(&config, &context.env);
    output.line("Configuration Status");
    output.line("");
    let version = match status.current {
        Some(current) if current >= status.latest => format!("{current} ✓"),
        _ => format!("{} (update available)", status.version_line()),
    };
    output.line(&format!("  Version: {version}"));
    for name in &status.missing_variables {
        output.line(&format!("  ○ {name}"));
    }
    if !status.new_options.is_empty() {
        output
            .line(&format!("  {} new options; `hermes config migrate` adds them", status.new_options.len()));
    }
    let dotenv = std::fs::read(context.home.dotenv()).unwrap_or_default();
    for line in dotenv::ignored_lines(&dotenv::decode(&dotenv).0) {
        output.line(&format!("  ⚠ .env, line {line}: not NAME=value; it is ignored"));
    }
    let findings = config.findings();
    for finding in &findings {
        output.line(&format!("  ⚠ {finding}"));
    }
    if findings.is_empty() && config.warnings().is_empty() {
        output.line("  No mistakes found.");
    }
    ExitCode::SUCCESS
}
