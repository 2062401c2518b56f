//! `hermes setup`: asks for what a new home needs, section by section.
//!
//! Every question is also a flag. Invariant: nothing is written before the last question of a section is answered, and a
//! section is written at once.

mod agent;
mod model;
mod terminal;
mod tools;

use std::process::ExitCode;

use anyhow::{Result, bail};
use hermes_config::env::dotenv;
use hermes_config::yaml::{KeyPath, YamlValue};
use hermes_config::{Config, Env, ManagedMode, set};

use super::{chat, claw, gateway};
use crate::cli::{ChatArguments, GatewaySetupArguments, MigrateClawArguments, SetupArguments, SetupSection};
use crate::context::ProgramContext;
use crate::output::{Confirmation, Console};
use crate::wiring::bundled_skills;

/// The steps of a whole set-up, in order.
const ALL: [SetupSection; 5] = [
    SetupSection::Model,
    SetupSection::Terminal,
    SetupSection::Agent,
    SetupSection::Gateway,
    SetupSection::Tools,
];

impl SetupSection {
    fn label(self) -> &'static str {
        match self {
            Self::Model => "Model",
            Self::Terminal => "Terminal",
            Self::Agent => "Agent",
            Self::Gateway => "Gateway",
            Self::Tools => "Tools",
        }
    }
}

/// The user left the wizard.
#[derive(Debug, thiserror::Error)]
#[error("setup cancelled; what was confirmed before is kept, the rest was not changed")]
struct SetupCancelled;

/// The questions and what was answered so far.
pub(super) struct SetupWizard<'a> {
    pub(super) arguments: &'a SetupArguments,
    pub(super) context: ProgramContext,
    pub(super) config: Config,
    pub(super) output: &'a Console,
    /// Whether questions without a flag are asked.
    asks: bool,
    settings: Vec<(KeyPath, YamlValue)>,
    variables: Vec<(String, String)>,
}

pub(crate) fn run(
    arguments: &SetupArguments,
    context: &ProgramContext,
    output: &Console,
) -> Result<ExitCode> {
    ManagedMode::detect(&context.home, &context.env).check_allowed("run setup")?;
    let asks = output.can_ask() && !arguments.non_interactive && !arguments.yes;
    if !asks && !arguments.has_values() && !arguments.yes && !arguments.reset {
        guide(output);
        return Ok(ExitCode::SUCCESS);
    }
    context.home.ensure_for_setup()?;
    if arguments.reset {
        reset(context, output)?;
    }
    let mut wizard = SetupWizard {
        arguments,
        context: context.clone(),
        config: Config::load(&context.home, &context.env),
        output,
        asks,
        settings: Vec::new(),
        variables: Vec::new(),
    };
    match wizard.run() {
        Ok(code) => Ok(code),
        Err(error) if error.is::<SetupCancelled>() => {
            output.line(&format!("\n{error}"));
            Ok(ExitCode::FAILURE)
        }
        Err(error) => Err(error),
    }
}

/// Prints how a home is set up without questions.
fn guide(output: &Console) {
    output.line(
        "⚕ Hermes Setup — Non-interactive mode\n\n\
         There is no terminal to ask on. Give the answers as flags:\n  \
         hermes setup --provider openrouter --api-key - --model anthropic/claude-opus-4.6 < key.txt\n\
         or choose a model:\n  \
         hermes model custom:qwen3:8b --base-url http://localhost:11434/v1\n\
         Keys: hermes config set OPENROUTER_API_KEY …, or OPENAI_API_KEY for an endpoint of your own.\n\n\
         Nothing was changed. `hermes setup --help` lists every flag.",
    );
}

/// Moves the configuration aside.
fn reset(context: &ProgramContext, output: &Console) -> Result<()> {
    let (file, backup) = (context.home.config(), context.home.join("config.yaml.bak"));
    if file.exists() {
        std::fs::rename(&file, &backup)?;
        output.line(&format!("The old configuration is in {}", backup.display()));
    }
    Ok(())
}

impl SetupWizard<'_> {
    fn run(&mut self) -> Result<ExitCode> {
        if let Some(section) = self.arguments.section {
            self.run_section(section)?;
            self.output.line(&format!("✓ {} configuration complete!", section.label()));
            return Ok(ExitCode::SUCCESS);
        }
        self.output.line("⚕ Hermes Setup\n");
        self.output.line(&format!("Home: {}\n", self.context.home.path().display()));
        self.offer_import()?;
        let sections = if self.asks { self.choose_sections()? } else { ALL.to_vec() };
        for section in sections {
            self.run_section(section)?;
        }
        bundled_skills::sync_aloud(&self.context, self.output);
        self.summarize();
        if self.asks && self.confirms("Start a chat now?", true)? {
            let context = ProgramContext::open()?;
            return chat::run(&ChatArguments::default(), &context, self.output);
        }
        Ok(ExitCode::SUCCESS)
    }

    /// Offers the user of a new home to take over what OpenClaw has.
    fn offer_import(&mut self) -> Result<()> {
        let is_new = !self.context.home.config().exists();
        let question = "Take over persona, memory, skills and settings of OpenClaw?";
        let is_offered = self.asks && is_new && claw::is_present(&self.context);
        if !is_offered || !self.confirms(question, true)? {
            return Ok(());
        }
        claw::run(&MigrateClawArguments::default(), &self.context, self.output)?;
        self.save()
    }

    /// Lets the user of an existing home choose what to set up. A new home gets everything.
    fn choose_sections(&self) -> Result<Vec<SetupSection>> {
        if !model::is_configured(&self.context, &self.config) {
            return Ok(ALL.to_vec());
        }
        let mut rows = vec!["Everything".to_owned()];
        rows.extend(ALL.iter().map(|section| section.label().to_owned()));
        rows.push("Leave".to_owned());
        match self.choose("What is to be set up?", &rows, 0)? {
            0 => Ok(ALL.to_vec()),
            at => Ok(ALL.get(at - 1).copied().into_iter().collect()),
        }
    }

    fn run_section(&mut self, section: SetupSection) -> Result<()> {
        if self.asks {
            self.output.line(&format!("\n── {} ──", section.label()));
        }
        match section {
            SetupSection::Model => model::ask(self)?,
            SetupSection::Terminal => terminal::ask(self)?,
            SetupSection::Agent => agent::ask(self)?,
            SetupSection::Gateway => return self.run_gateway(),
            SetupSection::Tools => tools::ask(self),
        }
        self.save()
    }

    /// Sets up the gateway, which has questions and flags of its own.
    fn run_gateway(&self) -> Result<()> {
        let named = self.arguments.section == Some(SetupSection::Gateway);
        if !self.asks
            || !(named || self.confirms("Set up chats (Telegram, Discord, …) or the API server?", false)?)
        {
            return Ok(());
        }
        gateway::setup::run(&GatewaySetupArguments::default(), &self.context, self.output)?;
        Ok(())
    }

    /// Writes the answers of a section, the variables first: a setting may need them.
    fn save(&mut self) -> Result<()> {
        let management = ManagedMode::detect(&self.context.home, &self.context.env);
        let variables = std::mem::take(&mut self.variables);
        if !variables.is_empty() {
            let pairs: Vec<(&str, &str)> =
                variables.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
            dotenv::save(&self.context.home, management, &pairs)?;
        }
        set::set_values(&self.context.home, management, &std::mem::take(&mut self.settings))?;
        self.context.env = Env::process().with_files(&self.context.home, None);
        self.config = Config::load(&self.context.home, &self.context.env);
        Ok(())
    }

    fn summarize(&self) {
        let home = &self.context.home;
        self.output.line(&format!(
            "\n✓ Setup Complete!\n\nSettings: {}\nKeys:     {}\n\n  hermes              start a chat\n  \
             hermes setup model  change the model\n  hermes doctor       check everything\n  hermes gateway run  \
             answer in chats\n",
            home.config().display(),
            home.dotenv().display()
        ));
    }

    /// Notes a setting to be written. One that is in force already is not.
    pub(super) fn set(&mut self, key: &str, value: YamlValue) {
        let same = self.config.get(key).is_some_and(|now| now.same_data(&value));
        if let Some(path) = KeyPath::parse(key).filter(|_| !same) {
            self.settings.push((path, value));
        }
    }

    pub(super) fn set_text(&mut self, key: &str, value: &str) {
        self.set(key, YamlValue::Str(value.to_owned()));
    }

    /// Notes a variable to be written to `.env`.
    pub(super) fn set_variable(&mut self, name: &str, value: &str) -> Result<()> {
        if value.contains(['\n', '\r']) {
            bail!("{name} must be one line");
        }
        self.variables.push((name.to_owned(), value.to_owned()));
        Ok(())
    }

    pub(super) fn asks(&self) -> bool {
        self.asks
    }

    /// Returns the flag's value, else the answer, else what there is.
    pub(super) fn text(&self, flag: Option<&String>, question: &str, now: &str) -> Result<String> {
        match flag {
            Some(value) => Ok(value.trim().to_owned()),
            None if !self.asks => Ok(now.to_owned()),
            None => {
                let hint = if now.is_empty() { String::new() } else { format!(" [{now}]") };
                let answer = self.output.ask(&format!("{question}{hint}: ")).ok_or(SetupCancelled)?;
                let answer = answer.trim();
                Ok(if answer.is_empty() { now.to_owned() } else { answer.to_owned() })
            }
        }
    }

    /// Asks for a number until one within the limits is given.
    pub(super) fn number(
        &self,
        flag: Option<u64>,
        question: &str,
        now: u64,
        limits: std::ops::RangeInclusive<u64>,
    ) -> Result<u64> {
        if let Some(value) = flag {
            if limits.contains(&value) {
                return Ok(value);
            }
            bail!("{value} is not between {} and {}", limits.start(), limits.end());
        }
        loop {
            let text = self.text(None, question, &now.to_string())?;
            match text.parse() {
                Ok(value) if limits.contains(&value) => return Ok(value),
                _ => {
                    self.output.line(&format!("  A number between {} and {}.", limits.start(), limits.end()));
                }
            }
        }
    }

    pub(super) fn choose(&self, title: &str, rows: &[String], first: usize) -> Result<usize> {
        Ok(self.output.choose(title, rows, first).ok_or(SetupCancelled)?)
    }

    pub(super) fn secret(&self, question: &str) -> Result<String> {
        Ok(self.output.ask_secret(question).ok_or(SetupCancelled)?)
    }

    /// Asks a question that an empty answer settles.
    pub(super) fn confirms(&self, question: &str, default: bool) -> Result<bool> {
        if !default {
            return Ok(self.output.confirm(question) == Confirmation::Yes);
        }
        let answer = self.output.ask(&format!("{question} [Y/n] ")).ok_or(SetupCancelled)?;
        Ok(matches!(answer.trim().to_lowercase().as_str(), "" | "y" | "yes"))
    }
}
