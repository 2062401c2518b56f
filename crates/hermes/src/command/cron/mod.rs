//! `hermes cron` and `/cron`: the list of scheduled jobs, by hand.

mod script;
mod show;
mod tick;
mod words;

use std::path::Path;
use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;
use hermes_schedule::{Change, Error, Job, Jobs, Listed, NewJob, Zone};
use hermes_types::Timestamp;
use serde_json::{Map, Value};

use crate::cli::{CronCommand, JobArguments};
use crate::context::{Context, now};
use crate::output::Output;

pub(crate) use script::JobScripts;

/// Why a job that was paused in a chat rests.
const FROM_CHAT: &str = "paused from /cron";

/// Where commands come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Surface {
    Shell,
    Chat,
}

/// The list, and whoever looks at it.
struct Desk<'a> {
    jobs: Jobs,
    now: Timestamp,
    context: &'a Context,
    output: &'a Output,
}

/// What was typed behind `/cron`.
#[derive(Debug, Parser)]
#[command(name = "/cron", bin_name = "/cron", disable_version_flag = true)]
struct Line {
    #[command(subcommand)]
    command: Option<CronCommand>,
}

pub(crate) fn run(command: Option<CronCommand>, context: &Context, output: &Output) -> Result<ExitCode> {
    let config = context.config(output);
    let jobs = Jobs::new(context.home.clone(), Zone::configured(&config, &context.env));
    let desk = Desk { jobs, now: now(), context, output };
    match command.unwrap_or_default() {
        CronCommand::Tick => tick::run(context, output),
        command => desk.perform(command, Surface::Shell),
    }
}

/// The same in the terminal chat; bare, it says what there is.
pub(crate) fn in_chat(line: &str, context: &Context, output: &Output) -> Result<()> {
    let config = hermes_config::Config::load(&context.home, &context.env);
    let jobs = Jobs::new(context.home.clone(), Zone::configured(&config, &context.env));
    let desk = Desk { jobs, now: now(), context, output };
    let Some(words) = words::split(line) else {
        output.line("A quote is not closed.");
        return Ok(());
    };
    if words.is_empty() {
        output.line("  /cron list [--all]                      the jobs\n  /cron add \"every 2h\" what is to be done  schedule something\n  /cron edit|pause|resume|run|remove ID");
        desk.list(Listed::Enabled);
        return Ok(());
    }
    match Line::try_parse_from(std::iter::once("/cron".to_owned()).chain(words)) {
        Ok(Line { command: Some(CronCommand::Tick) }) => {
            output.line("Use `hermes cron tick` in a shell for that.");
        }
        Ok(Line { command }) => {
            desk.perform(command.unwrap_or_default(), Surface::Chat)?;
        }
        Err(error) => {
            output.line(error.to_string().trim_end());
        }
    }
    Ok(())
}

impl Desk<'_> {
    fn perform(&self, command: CronCommand, surface: Surface) -> Result<ExitCode> {
        let reason = (surface == Surface::Chat).then(|| FROM_CHAT.to_owned());
        Ok(match command {
            CronCommand::List { all } => self.list(if all { Listed::All } else { Listed::Enabled }),
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
                let wanted =
                    Skills { replace: skills, add: add_skills, remove: remove_skills, clear: clear_skills };
                self.edit(&id, schedule, prompt, about, wanted)
            }
            CronCommand::Pause { id } => {
                self.at(&id, "pause", "Paused", |jobs, job| jobs.pause(&job.id, reason, self.now))
            }
            CronCommand::Resume { id } => {
                self.at(&id, "resume", "Resumed", |jobs, job| jobs.resume(&job.id, self.now))
            }
            CronCommand::Run { id } => {
                let done = self.at(&id, "run", "Triggered", |jobs, job| jobs.trigger(&job.id, self.now));
                if done == ExitCode::SUCCESS {
                    self.output.line("It will run on the next scheduler tick.");
                }
                done
            }
            CronCommand::Remove { id } => {
                self.at(&id, "remove", "Removed", |jobs, job| jobs.remove(&job.id, self.now))
            }
            CronCommand::Status => self.status(),
            CronCommand::Runs { id, limit } => self.runs(id.as_deref(), usize::from(limit))?,
            // It needs a runtime of its own and is dealt with before.
            CronCommand::Tick => ExitCode::FAILURE,
        })
    }

    fn create(&self, schedule: String, prompt: &str, about: JobArguments, skills: Vec<String>) -> ExitCode {
        let more = match more(&about) {
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
        wanted: Skills,
    ) -> ExitCode {
        let job = match self.jobs.find(id) {
            Ok(job) => job,
            Err(error) => return self.not_found("update", id, &error),
        };
        let more = match more(&about) {
            Ok(more) => more,
            Err(words) => return self.failed("update", &words),
        };
        let JobArguments { name, deliver, repeat, .. } = about;
        let skills = wanted.apply(&job);
        let change = Change { schedule, prompt, name, deliver, repeat, skills, more, ..Change::default() };
        match self.jobs.update(&job.id, change, self.now) {
            Ok(job) => {
                self.output.line(&format!("Updated job: {}", job.id));
                self.describe_new(&job);
                ExitCode::SUCCESS
            }
            Err(error) => self.failed("update", &error.to_string()),
        }
    }

    fn at(
        &self,
        id: &str,
        verb: &str,
        done: &str,
        work: impl FnOnce(&Jobs, &Job) -> Result<Job, Error>,
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
        // Scripts that provision a machine again and again rely on it.
        ExitCode::SUCCESS
    }

    fn failed(&self, verb: &str, words: &str) -> ExitCode {
        self.output.notice(&format!("Failed to {verb} job: {words}"));
        ExitCode::FAILURE
    }
}

/// What is to happen to a job's skills.
struct Skills {
    replace: Vec<String>,
    add: Vec<String>,
    remove: Vec<String>,
    clear: bool,
}

impl Skills {
    /// Clearing goes before replacing, replacing before taking away and adding.
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

/// Fields that only newer releases know. An empty text takes a folder or a script away.
fn more(about: &JobArguments) -> Result<Map<String, Value>, String> {
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
