//! `hermes cron` and `/cron`: lists and edits scheduled jobs.

mod script;
mod show;
mod tick;

use std::path::Path;
use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;
use hermes_schedule::{Error, Job, JobChange, JobFilter, JobStore, NewJob, Zone};
use hermes_types::Timestamp;
use serde_json::{Map, Value};

use crate::cli::{CronCommand, JobArguments};
use crate::context::{ProgramContext, now};
use crate::output::Console;

pub(crate) use script::JobScripts;

/// The stored reason for a pause that was requested in a chat.
const FROM_CHAT: &str = "paused from /cron";

/// The origin of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CronSurface {
    Shell,
    Chat,
}

/// Runs the commands on the job list.
struct CronCommands<'a> {
    jobs: JobStore,
    now: Timestamp,
    context: &'a ProgramContext,
    output: &'a Console,
}

/// What was typed behind `/cron`.
#[derive(Debug, Parser)]
#[command(name = "/cron", bin_name = "/cron", disable_version_flag = true)]
struct CronLine {
    #[command(subcommand)]
    command: Option<CronCommand>,
}

pub(crate) fn run(
    command: Option<CronCommand>,
    context: &ProgramContext,
    output: &Console,
) -> Result<ExitCode> {
    let config = context.config(output);
    let jobs = JobStore::new(context.home.clone(), Zone::configured(&config, &context.env));
    let commands = CronCommands { jobs, now: now(), context, output };
    match command.unwrap_or_default() {
        CronCommand::Tick => tick::run(context, output),
        command => commands.perform(command, CronSurface::Shell),
    }
}

/// Runs `/cron` in the terminal chat; without arguments it shows the usage and the jobs.
pub(crate) fn run_in_chat(line: &str, context: &ProgramContext, output: &Console) -> Result<()> {
    let config = hermes_config::Config::load(&context.home, &context.env);
    let jobs = JobStore::new(context.home.clone(), Zone::configured(&config, &context.env));
    let commands = CronCommands { jobs, now: now(), context, output };
    let Some(words) = hermes_text::split_words(line) else {
        output.line("A quote is not closed.");
        return Ok(());
    };
    if words.is_empty() {
        output.line("  /cron list [--all]                      the jobs\n  /cron add \"every 2h\" what is to be done  schedule something\n  /cron edit|pause|resume|run|remove ID");
        commands.list(JobFilter::Enabled);
        return Ok(());
    }
    match CronLine::try_parse_from(std::iter::once("/cron".to_owned()).chain(words)) {
        Ok(CronLine { command: Some(CronCommand::Tick) }) => {
            output.line("Use `hermes cron tick` in a shell for that.");
        }
        Ok(CronLine { command }) => {
            commands.perform(command.unwrap_or_default(), CronSurface::Chat)?;
        }
        Err(error) => {
            output.line(error.to_string().trim_end());
        }
    }
    Ok(())
}

impl CronCommands<'_> {
    fn perform(&self, command: CronCommand, surface: CronSurface) -> Result<ExitCode> {
        let reason = (surface == CronSurface::Chat).then(|| FROM_CHAT.to_owned());
        Ok(match command {
            CronCommand::List { all } => self.list(if all { JobFilter::All } else { JobFilter::Enabled }),
            CronCommand::Create { schedule, prompt, about, skills } => {
                self.create(schedule, &prompt.join(" "), about, skills)
            }
            CronCommand::Edit {
                id,
                schedule,
                prompt,
                about,
                skills,
                add_skills,
                remove_skills,
                clear_skills,
            } => {
                let wanted = SkillChanges {
                    replace: skills,
                    add: add_skills,
                    remove: remove_skills,
                    clear: clear_skills,
                };
                self.edit(&id, schedule, prompt, about, wanted)
            }
            CronCommand::Pause { id } => {
                self.change_job(&id, "pause", "Paused", |jobs, job| jobs.pause(&job.id, reason, self.now))
            }
            CronCommand::Resume { id } => {
                self.change_job(&id, "resume", "Resumed", |jobs, job| jobs.resume(&job.id, self.now))
            }
            CronCommand::Run { id } => {
                let done =
                    self.change_job(&id, "run", "Triggered", |jobs, job| jobs.trigger(&job.id, self.now));
                if done == ExitCode::SUCCESS {
                    self.output.line("It will run on the next scheduler tick.");
                }
                done
            }
            CronCommand::Remove { id } => {
                self.change_job(&id, "remove", "Removed", |jobs, job| jobs.remove(&job.id, self.now))
            }
            CronCommand::Status => self.status(),
            CronCommand::Runs { id, limit } => self.runs(id.as_deref(), usize::from(limit))?,
            // `tick` needs its own runtime and is handled before this.
            CronCommand::Tick => ExitCode::FAILURE,
        })
    }

    fn create(&self, schedule: String, prompt: &str, about: JobArguments, skills: Vec<String>) -> ExitCode {
        let more = match extra_fields(&about) {
            Ok(more) => more,
            Err(words) => return self.failed("create", &words),
        };
        let JobArguments { name, deliver, repeat, .. } = about;
        let prompt = prompt.to_owned();
        let new = NewJob { schedule, prompt, name, deliver, repeat, skills, more, ..NewJob::default() };
        match self.jobs.create(new, self.now) {
            Ok(job) => {
                self.output.line(&format!("Created job: {}", job.id));
                self.describe_new(&job);
                ExitCode::SUCCESS
            }
            Err(error) => self.failed("create", &error.to_string()),
        }
    }

    fn edit(
        &self,
        id: &str,
        schedule: Option<String>,
        prompt: Option<String>,
        about: JobArguments,
        wanted: SkillChanges,
    ) -> ExitCode {
        let job = match self.jobs.find(id) {
            Ok(job) => job,
            Err(error) => return self.not_found("update", id, &error),
        };
        let more = match extra_fields(&about) {
            Ok(more) => more,
            Err(words) => return self.failed("update", &words),
        };
        let JobArguments { name, deliver, repeat, .. } = about;
        let skills = wanted.apply(&job);
        let change =
            JobChange { schedule, prompt, name, deliver, repeat, skills, more, ..JobChange::default() };
        match self.jobs.update(&job.id, change, self.now) {
            Ok(job) => {
                self.output.line(&format!("Updated job: {}", job.id));
                self.describe_new(&job);
                ExitCode::SUCCESS
            }
            Err(error) => self.failed("update", &error.to_string()),
        }
    }

    fn change_job(
        &self,
        id: &str,
        verb: &str,
        done: &str,
        work: impl FnOnce(&JobStore, &Job) -> Result<Job, Error>,
    ) -> ExitCode {
        let job = match self.jobs.find(id) {
            Ok(job) => job,
            Err(error) => return self.not_found(verb, id, &error),
        };
        match work(&self.jobs, &job) {
            Ok(job) => {
                self.output.line(&format!("{done} job: {} ({})", job.name(), job.id));
                ExitCode::SUCCESS
            }
            Err(error) => self.failed(verb, &error.to_string()),
        }
    }

    fn not_found(&self, verb: &str, id: &str, error: &Error) -> ExitCode {
        if !matches!(error, Error::NotFound(_)) {
            return self.failed(verb, &error.to_string());
        }
        self.output.notice(&format!("Job not found: {id}"));
        // Provisioning scripts that run repeatedly rely on it.
        ExitCode::SUCCESS
    }

    fn failed(&self, verb: &str, words: &str) -> ExitCode {
        self.output.notice(&format!("Failed to {verb} job: {words}"));
        ExitCode::FAILURE
    }
}

/// The changes to a job's skills.
struct SkillChanges {
    replace: Vec<String>,
    add: Vec<String>,
    remove: Vec<String>,
    clear: bool,
}

impl SkillChanges {
    /// Applies the changes: clearing before replacing, replacing before removing and adding.
    fn apply(self, job: &Job) -> Option<Vec<String>> {
        if self.clear {
            return Some(Vec::new());
        }
        if !self.replace.is_empty() {
            return Some(self.replace);
        }
        if self.add.is_empty() && self.remove.is_empty() {
            return None;
        }
        let kept = job.skills().into_iter().filter(|skill| !self.remove.contains(skill));
        Some(kept.chain(self.add.iter().cloned()).collect())
    }
}

/// Builds the fields that only newer releases know. An empty text removes a folder or a script.
fn extra_fields(about: &JobArguments) -> Result<Map<String, Value>, String> {
    let mut more = Map::new();
    let text = |given: String| if given.is_empty() { Value::Null } else { Value::String(given) };
    if let Some(folder) = &about.workdir {
        let usable = folder.as_os_str().is_empty() || (folder.is_absolute() && Path::is_dir(folder));
        if !usable {
            return Err(format!(
                "--workdir must be the whole path of a folder that exists, not '{}'",
                folder.display()
            ));
        }
        more.insert("workdir".to_owned(), text(folder.to_string_lossy().into_owned()));
    }
    if let Some(script) = &about.script {
        more.insert("script".to_owned(), text(script.clone()));
        if script.is_empty() {
            more.insert("no_agent".to_owned(), Value::Bool(false));
        }
    }
    if about.no_agent || about.agent {
        more.insert("no_agent".to_owned(), Value::Bool(about.no_agent));
    }
    Ok(more)
}
