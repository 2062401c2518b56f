//! `hermes skills` and `/skills`: what is installed, what registries offer, and what the agent wrote.

mod configure;
mod install;
mod installed;
mod registry;

use std::cell::RefCell;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use clap::Parser;
use hermes_exec::{Program, ProgramExit, ProgramRunner, StderrMode};
use hermes_hub::{GithubAuth, SkillHub};
use hermes_net::HttpClient;
use hermes_task::SystemClock;
use hermes_types::{Cancel, Clock, Secret};

use crate::cli::SkillsCommand;
use crate::context::ProgramContext;
use crate::output::Console;
use crate::wiring::{bundled_skills, child_variables, net_config};

const CLIENT_LIMIT: Duration = Duration::from_secs(5);

/// Where a command was typed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SkillsSurface {
    Shell,
    /// Nothing is asked there, because the screen reads what is typed.
    Chat,
}

/// Says when the model learns of an installed skill.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PromptUpdate {
    /// The prompt of a running session stays as it is, because providers keep it in memory.
    NextSession,
    AtOnce,
}

/// A command under way.
struct SkillsRun<'a> {
    hub: SkillHub,
    context: &'a ProgramContext,
    output: &'a Console,
    surface: SkillsSurface,
    prompt: PromptUpdate,
    note_for_model: RefCell<Option<String>>,
}

#[derive(Debug, Parser)]
#[command(name = "/skills", disable_help_subcommand = true)]
struct SkillsLine {
    #[command(subcommand)]
    command: Option<SkillsCommand>,
}

pub(crate) fn run(command: SkillsCommand, context: &ProgramContext, output: &Console) -> Result<ExitCode> {
    // Loading prints warnings, and masks the home's secrets.
    context.config(output);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("no runtime")?;
    let run = SkillsRun::new(context, output, SkillsSurface::Shell)?;
    runtime.block_on(run.perform(command));
    Ok(ExitCode::SUCCESS)
}

/// Runs a line of a chat. Returns what the model is to be told at once, which `--now` asks for.
pub(crate) async fn run_in_chat(
    line: &str,
    context: &ProgramContext,
    output: &Console,
) -> Result<Option<String>> {
    let Some(mut words) = hermes_text::split_words(line) else {
        output.line("A quote is not closed.");
        return Ok(None);
    };
    let count = words.len();
    words.retain(|word| word != "--now");
    let prompt = if words.len() < count { PromptUpdate::AtOnce } else { PromptUpdate::NextSession };
    match SkillsLine::try_parse_from(std::iter::once("/skills".to_owned()).chain(words)) {
        Ok(SkillsLine { command }) => {
            let run = SkillsRun { prompt, ..SkillsRun::new(context, output, SkillsSurface::Chat)? };
            run.perform(command.unwrap_or_default()).await;
            return Ok(run.note_for_model.take());
        }
        Err(error) => output.line(error.to_string().trim_end()),
    }
    Ok(None)
}

impl<'a> SkillsRun<'a> {
    fn new(context: &'a ProgramContext, output: &'a Console, surface: SkillsSurface) -> Result<Self> {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        let http = HttpClient::new(net_config(&context.env, &clock))?;
        let programs = ProgramRunner::new(child_variables(&context.env, &[]), clock.clone());
        let github = GithubAuth::from_env(
            &context.env,
            Some(Arc::new(move || {
                let programs = programs.clone();
                Box::pin(async move { client_token(&programs).await })
            })),
        );
        let hub = SkillHub::new(
            context.home.clone(),
            &context.env,
            bundled_skills::optional_source(&context.env),
            http,
            clock,
            github,
            Cancel::new(),
        );
        let (prompt, note_for_model) = (PromptUpdate::NextSession, RefCell::default());
        Ok(Self { hub, context, output, surface, prompt, note_for_model })
    }

    /// Runs a command. A failure is printed.
    async fn perform(&self, command: SkillsCommand) {
        let done = match command {
            SkillsCommand::List { source, json } => {
                self.list(source, json);
                Ok(())
            }
            SkillsCommand::Search { query, source, limit, json } => {
                self.search(&query.join(" "), source.as_deref(), usize::from(limit), json).await
            }
            SkillsCommand::Browse { page, size, source, json } => {
                self.browse(usize::from(page), usize::from(size), &source, json).await
            }
            SkillsCommand::Inspect { id } => self.inspect(&id).await,
            SkillsCommand::Install { id, category, force, yes, name } => {
                self.install(install::InstallRequest { id, category, force, yes, name }).await
            }
            SkillsCommand::Check { name, json } => {
                self.check(name.as_deref(), json).await;
                Ok(())
            }
            SkillsCommand::Update { name } => self.update(name.as_deref()).await,
            SkillsCommand::Audit { name } => {
                self.audit(name.as_deref());
                Ok(())
            }
            SkillsCommand::Uninstall { name, yes } => self.uninstall(&name, yes),
            SkillsCommand::Publish { path, to, repo } => self.publish(&path, to, repo.as_deref()).await,
            SkillsCommand::Snapshot { command } => self.snapshot(command).await,
            SkillsCommand::Tap { command } => self.tap(command.unwrap_or_default()),
            SkillsCommand::Config(switches) => self.configure(&switches),
            SkillsCommand::Undo { name } => self.undo(&name),
            SkillsCommand::History { name } => {
                self.history(&name);
                Ok(())
            }
            SkillsCommand::Stale { days, json } => {
                self.stale(days, json);
                Ok(())
            }
            SkillsCommand::Archive { name } => self.archive(&name),
            SkillsCommand::ListModified { json } => self.list_modified(json),
            SkillsCommand::Diff { name } => self.diff(&name),
            SkillsCommand::Reset { name, restore } => self.reset(&name, restore),
            SkillsCommand::OptOut => self.opt_out(),
            SkillsCommand::OptIn => self.opt_in(),
        };
        if let Err(error) = done {
            self.output.line(&format!("Error: {error}"));
        }
    }
}

/// Asks the GitHub client for its token.
async fn client_token(programs: &ProgramRunner) -> Option<Secret> {
    programs.find("gh")?;
    let folder = std::env::temp_dir();
    let call = Program {
        name: "gh",
        arguments: vec!["auth".into(), "token".into()],
        directory: &folder,
        limit: CLIENT_LIMIT,
        stderr: StderrMode::Discard,
    };
    match programs.output(call, &Cancel::new()).await {
        Ok((text, ProgramExit::Exited(0))) => Some(Secret::new(text.trim())),
        _ => None,
    }
}
