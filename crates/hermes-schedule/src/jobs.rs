//! The operations that users and models may perform on jobs. Each call is one change of the file, applied to its
//! current content.

use hermes_config::Home;
use hermes_types::Timestamp;
use serde_json::{Map, Value};

use crate::error::{Error, Result};
use crate::file::{JobFile, JobFileContent, JobFileEntry, SaveDecision};
use crate::grammar;
use crate::job::{Job, JobId, JobOrigin, JobRepeat, JobState};
use crate::schedule::Schedule;
use crate::screen::screen;
use crate::script;
use crate::zone::Zone;

const NAME_CHARS: usize = 50;

/// The jobs of a home.
#[derive(Debug, Clone)]
pub struct JobStore {
    file: JobFile,
    pub(crate) zone: Zone,
}

/// The fields of a job to create.
#[derive(Debug, Clone, Default)]
pub struct NewJob {
    pub prompt: String,
    pub schedule: String,
    pub name: Option<String>,
    pub skills: Vec<String>,
    pub model: Option<String>,
    pub provider: Option<String>,
    pub base_url: Option<String>,
    pub deliver: Option<String>,
    pub origin: Option<JobOrigin>,
    /// The number of runs; zero or less means no limit.
    pub repeat: Option<i64>,
    /// Fields of newer releases, stored unchanged.
    pub more: Map<String, Value>,
}

/// Changes to a job. An empty text removes a model, provider or base URL.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct JobChange {
    pub prompt: Option<String>,
    pub schedule: Option<String>,
    pub name: Option<String>,
    pub skills: Option<Vec<String>>,
    pub model: Option<String>,
    pub provider: Option<String>,
    pub base_url: Option<String>,
    pub deliver: Option<String>,
    pub repeat: Option<i64>,
    pub pause: Option<PauseChange>,
    pub more: Map<String, Value>,
}

/// The choice between pausing and resuming a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PauseChange {
    Pause(Option<String>),
    Resume,
}

/// Selects the jobs that a list shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobFilter {
    Enabled,
    All,
}

impl JobStore {
    pub fn new(home: Home, zone: Zone) -> Self {
        Self { file: JobFile::new(home), zone }
    }

    pub fn zone(&self) -> Zone {
        self.zone
    }

    pub fn list(&self, listed: JobFilter) -> Vec<Job> {
        self.file.read().jobs().filter(|job| listed == JobFilter::All || job.is_enabled()).cloned().collect()
    }

    /// Returns the reason why the list cannot be read, or `None` if it can; an unreadable list counts as empty.
    pub fn read_problem(&self) -> Option<String> {
        self.file.read_problem()
    }

    pub fn get(&self, id: &JobId) -> Option<Job> {
        self.file.read().jobs().find(|job| job.id == *id).cloned()
    }

    /// Finds a job by its id, by a prefix of exactly one id, or by the name of exactly one job.
    pub fn find(&self, reference: &str) -> Result<Job> {
        let jobs = self.list(JobFilter::All);
        let reference = reference.trim();
        let by =
            |fits: &dyn Fn(&Job) -> bool| jobs.iter().filter(|job| fits(job)).cloned().collect::<Vec<_>>();
        let exact = by(&|job| job.id.as_str() == reference);
        let named = by(&|job| job.name().eq_ignore_ascii_case(reference));
        let begun = by(&|job| !reference.is_empty() && job.id.as_str().starts_with(reference));
        let found = [exact, named, begun].into_iter().find(|found| !found.is_empty()).unwrap_or_default();
        match <[Job; 1]>::try_from(found) {
            Ok([job]) => Ok(job),
            Err(none) if none.is_empty() => Err(Error::NotFound(reference.to_owned())),
            Err(several) => {
                let ids = several.iter().map(|job| job.id.to_string()).collect();
                Err(Error::Ambiguous { reference: reference.to_owned(), ids })
            }
        }
    }

    pub fn create(&self, new: NewJob, now: Timestamp) -> Result<Job> {
        let skills = clean_skills(&new.skills);
        let has_script =
            new.more.get("script").and_then(Value::as_str).is_some_and(|script| !script.is_empty());
        if new.prompt.trim().is_empty() && skills.is_empty() && !has_script {
            return Err(Error::Field("create requires either prompt or at least one skill".to_owned()));
        }
        screen(&new.prompt)?;
        script::check_job_fields(self.file.home(), &new.more)?;
        let schedule = self.schedule(&new.schedule, now)?;
        let next = self.first_time(&schedule, now)?;
        let once = (!schedule.recurs()).then_some(1);
        let repeat = new.repeat.and_then(|times| u64::try_from(times).ok()).filter(|times| *times > 0);
        let deliver = text(new.deliver)
            .unwrap_or_else(|| if new.origin.is_some() { "origin".to_owned() } else { "local".to_owned() });
        let mut job = Job {
            id: JobId::generate(),
            name: Some(name(new.name, &new.prompt, &skills, new.more.get("script"))),
            prompt: Some(new.prompt),
            model: text(new.model),
            provider: text(new.provider),
            base_url: text(new.base_url).as_deref().map(without_slash),
            schedule_display: schedule.display().map(str::to_owned),
            schedule,
            repeat: Some(JobRepeat { times: repeat.or(once), ..JobRepeat::default() }),
            enabled: Some(true),
            state: Some(JobState::Scheduled.as_str().to_owned()),
            created_at: Some(self.zone.iso(now)),
            next_run_at: Some(self.zone.iso(next)),
            deliver: Some(Value::String(deliver)),
            origin: new.origin,
            more: new.more,
            ..Job::default()
        };
        job.set_skills(skills);
        self.change(now, |content| {
            while content.jobs().any(|known| known.id == job.id) {
                job.id = JobId::generate();
            }
            content.jobs.push(JobFileEntry::Job(Box::new(job.clone())));
            Ok((job, SaveDecision::Yes))
        })
    }

    pub fn update(&self, id: &JobId, change: JobChange, now: Timestamp) -> Result<Job> {
        if change == JobChange::default() {
            return Err(Error::Field("No updates provided.".to_owned()));
        }
        if let Some(prompt) = &change.prompt {
            screen(prompt)?;
        }
        let schedule = match &change.schedule {
            Some(text) => {
                let schedule = self.schedule(text, now)?;
                let next = self.first_time(&schedule, now)?;
                Some((schedule, next))
            }
            None => None,
        };
        self.update_job(id, now, |job| {
            if let Some((schedule, next)) = schedule {
                self.set_schedule(job, schedule, next);
            }
            let about_script =
                ["script", "no_agent", "enabled_toolsets"].iter().any(|name| change.more.contains_key(*name));
            apply(job, change.clone());
            if about_script {
                script::check_job_fields(self.file.home(), &job.more)?;
            }
            match change.pause {
                Some(PauseChange::Pause(reason)) => self.mark_paused(job, reason, now),
                Some(PauseChange::Resume) => self.mark_resumed(job, now)?,
                None => {}
            }
            Ok(())
        })
    }

    pub fn pause(&self, id: &JobId, reason: Option<String>, now: Timestamp) -> Result<Job> {
        self.update_job(id, now, |job| {
            self.mark_paused(job, reason, now);
            Ok(())
        })
    }

    /// Resumes a job from now: runs that were missed while it was paused are not made up.
    pub fn resume(&self, id: &JobId, now: Timestamp) -> Result<Job> {
        self.update_job(id, now, |job| self.mark_resumed(job, now))
    }

    /// Makes a job due at once.
    pub fn trigger(&self, id: &JobId, now: Timestamp) -> Result<Job> {
        self.update_job(id, now, |job| {
            mark_enabled(job);
            job.next_run_at = Some(self.zone.iso(now));
            Ok(())
        })
    }

    /// Removes a job; its run documents stay.
    pub fn remove(&self, id: &JobId, now: Timestamp) -> Result<Job> {
        self.change(now, |content| {
            let is = |entry: &JobFileEntry| matches!(entry, JobFileEntry::Job(job) if job.id == *id);
            let at = content.jobs.iter().position(is).ok_or_else(|| Error::NotFound(id.to_string()))?;
            match content.jobs.remove(at) {
                JobFileEntry::Job(job) => Ok((*job, SaveDecision::Yes)),
                JobFileEntry::Other(_) => Err(Error::NotFound(id.to_string())),
            }
        })
    }

    pub(crate) fn change<T>(
        &self,
        now: Timestamp,
        change: impl FnOnce(&mut JobFileContent) -> Result<(T, SaveDecision)>,
    ) -> Result<T> {
        self.file.change(&self.zone.iso(now), change)
    }

    fn update_job(
        &self,
        id: &JobId,
        now: Timestamp,
        change: impl FnOnce(&mut Job) -> Result<()>,
    ) -> Result<Job> {
        self.change(now, |content| {
            let found = content.jobs_mut().find(|job| job.id == *id);
            let job = found.ok_or_else(|| Error::NotFound(id.to_string()))?;
            change(job)?;
            Ok((job.clone(), SaveDecision::Yes))
        })
    }

    fn schedule(&self, text: &str, now: Timestamp) -> Result<Schedule> {
        if text.trim().is_empty() {
            return Err(Error::Field("schedule is required for create".to_owned()));
        }
        grammar::parse(text, now, self.zone)
    }

    fn first_time(&self, schedule: &Schedule, now: Timestamp) -> Result<Timestamp> {
        schedule.next(None, now, self.zone).ok_or_else(|| {
            let when = schedule.display().unwrap_or_default();
            Error::Schedule(format!(
                "The time of this schedule ({when}) has passed. Give one that is still to come."
            ))
        })
    }

    /// Sets a schedule that counts from now. It reactivates a completed job, but not a paused one.
    fn set_schedule(&self, job: &mut Job, schedule: Schedule, next: Timestamp) {
        job.schedule_display = schedule.display().map(str::to_owned);
        job.schedule = schedule;
        job.next_run_at = Some(self.zone.iso(next));
        if !job.is_paused() {
            mark_enabled(job);
        }
    }

    fn mark_paused(&self, job: &mut Job, reason: Option<String>, now: Timestamp) {
        job.enabled = Some(false);
        job.set_state(JobState::Paused);
        job.paused_at = Some(self.zone.iso(now));
        job.paused_reason = text(reason);
    }

    fn mark_resumed(&self, job: &mut Job, now: Timestamp) -> Result<()> {
        let last = if job.schedule.recurs() { Some(now) } else { job.last_run() };
        let next = job.schedule.next(last, now, self.zone).ok_or(Error::NoFurtherRuns)?;
        mark_enabled(job);
        job.next_run_at = Some(self.zone.iso(next));
        Ok(())
    }
}

/// Marks a job as enabled and not paused.
fn mark_enabled(job: &mut Job) {
    job.enabled = Some(true);
    job.set_state(JobState::Scheduled);
    job.paused_at = None;
    job.paused_reason = None;
}

fn apply(job: &mut Job, change: JobChange) {
    let JobChange {
        prompt,
        name,
        skills,
        model,
        provider,
        base_url,
        deliver,
        repeat,
        more,
        schedule: _,
        pause: _,
    } = change;
    if let Some(prompt) = prompt {
        job.prompt = Some(prompt);
    }
    if let Some(name) = text(name) {
        job.name = Some(name);
    }
    if let Some(skills) = skills {
        job.set_skills(clean_skills(&skills));
    }
    for (field, given) in [(&mut job.model, model), (&mut job.provider, provider)] {
        if given.is_some() {
            *field = text(given);
        }
    }
    if base_url.is_some() {
        job.base_url = text(base_url).as_deref().map(without_slash);
    }
    if let Some(deliver) = text(deliver) {
        job.deliver = Some(Value::String(deliver));
    }
    if let Some(times) = repeat {
        job.repeat.get_or_insert_default().times = u64::try_from(times).ok().filter(|times| *times > 0);
    }
    job.more.extend(more);
}

/// Returns the text, or `None` where it is absent or blank.
fn text(given: Option<String>) -> Option<String> {
    given.map(|text| text.trim().to_owned()).filter(|text| !text.is_empty())
}

fn without_slash(url: &str) -> String {
    url.trim_end_matches('/').to_owned()
}

fn clean_skills(given: &[String]) -> Vec<String> {
    let mut skills: Vec<String> = Vec::new();
    for skill in given.iter().map(|skill| skill.trim()).filter(|skill| !skill.is_empty()) {
        if !skills.iter().any(|known| known == skill) {
            skills.push(skill.to_owned());
        }
    }
    skills
}

fn name(given: Option<String>, prompt: &str, skills: &[String], script: Option<&Value>) -> String {
    let from_prompt = || prompt.trim().chars().take(NAME_CHARS).collect::<String>().trim().to_owned();
    text(given)
        .or_else(|| Some(from_prompt()).filter(|name| !name.is_empty()))
        .or_else(|| skills.first().cloned())
        .or_else(|| script.and_then(Value::as_str).map(str::to_owned))
        .unwrap_or_else(|| "cron job".to_owned())
}
