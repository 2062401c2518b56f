//! `cronjob`: manages scheduled jobs. `hermes-schedule` stores the jobs and holds their rules.

use std::sync::Arc;

use hermes_exec::{Sandbox, WriteRule};
use hermes_schedule::{
    Error, Job, JobChange, JobFilter, JobOrigin, JobStore, NewJob, describe_repeat, job_summary,
};
use hermes_store::Store;
use hermes_types::{
    ApprovalDecision, BoxFuture, Clock, Danger, OutcomeStatus, TaskId, Tool, ToolContext, ToolDescriptor,
    ToolInvocation, ToolOutcome, ToolSpec, ToolUser, UserAnswer, UserQuestion,
};
use serde_json::{Map, Value, json};

use crate::argument::{any_text, spec, text};
use crate::folders::TaskFolders;
use crate::off_thread::off_thread;

/// Fields of newer releases, which are stored with the job.
const MORE: [&str; 6] =
    ["script", "no_agent", "context_from", "enabled_toolsets", "workdir", "attach_to_session"];
/// The names of the three tools that `cronjob` replaced, with the action of each.
const OLDER: [(&str, &str); 3] =
    [("schedule_cronjob", "create"), ("list_cronjobs", "list"), ("remove_cronjob", "remove")];

pub(crate) const DESCRIPTOR: ToolDescriptor<'static> = ToolDescriptor {
    name: "cronjob",
    toolset: "cronjob",
    summary: "Creates and changes scheduled jobs",
    icon: "⏰",
    verb: "cronjob",
    preview_arguments: &["name", "action"],
    withheld_from: &[ToolUser::Editor, ToolUser::Job, ToolUser::Subagent],
    ..ToolDescriptor::unknown("")
};

/// The `cronjob` tool.
#[derive(Debug)]
pub struct CronJobTool {
    spec: ToolSpec,
    jobs: JobStore,
    store: Store,
    clock: Arc<dyn Clock>,
    /// The sandbox that limits where jobs work, and the start folder of each conversation.
    limits: Option<(Sandbox, TaskFolders)>,
}

/// The requested action.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Action {
    Create,
    List,
    Update,
    Pause,
    Resume,
    Run,
    Remove,
    Unknown(String),
}

impl Action {
    fn read(given: &str) -> Self {
        match given.trim().to_lowercase().as_str() {
            "create" => Self::Create,
            "list" => Self::List,
            "update" => Self::Update,
            "pause" => Self::Pause,
            "resume" => Self::Resume,
            "run" | "run_now" | "trigger" => Self::Run,
            "remove" => Self::Remove,
            other => Self::Unknown(other.to_owned()),
        }
    }
}

impl CronJobTool {
    pub fn new(jobs: JobStore, store: Store, clock: Arc<dyn Clock>) -> Self {
        let spec = spec(&DESCRIPTOR, include_str!("texts/cronjob.md"), include_str!("texts/cronjob.json"));
        Self { spec, jobs, store, clock, limits: None }
    }

    /// Restricts jobs to folders that the conversation that creates them may write.
    #[must_use]
    pub fn with_sandbox(self, sandbox: Sandbox, folders: TaskFolders) -> Self {
        Self { limits: Some((sandbox, folders)), ..self }
    }

    /// Returns why a job of this conversation must not work in the folder it names.
    fn refuse_folder(&self, call: &ToolInvocation) -> Option<String> {
        let (sandbox, folders) = self.limits.as_ref()?;
        let folder = text(&call.arguments, "workdir")?;
        let real = std::path::Path::new(folder).canonicalize().ok()?;
        match sandbox.access(&folders.anchor(&call.task))?.write_rule(&real) {
            WriteRule::Allow => None,
            WriteRule::Ask(reason) | WriteRule::Deny(reason) => Some(format!(
                "`workdir` {folder}: {reason}. The user can set it with `hermes cron edit JOB --workdir {folder}`"
            )),
        }
    }

    async fn answer(&self, call: &ToolInvocation) -> ToolOutcome {
        if let Some(words) = self.refuse_folder(call) {
            let answer = pretty(&json!({"success": false, "error": words}));
            return ToolOutcome { status: OutcomeStatus::Failed, ..ToolOutcome::done(answer) };
        }
        let arguments = call.arguments.clone();
        let origin = self.origin(&call.task).await;
        let (jobs, now) = (self.jobs.clone(), self.clock.now());
        let done = off_thread("cronjob", move || {
            let action = Action::read(any_text(&arguments, "action").unwrap_or_default());
            JobEditor { jobs, now }.answer(&action, &arguments, origin)
        });
        match done.await {
            Ok(Ok(answer)) => ToolOutcome::done(pretty(&answer)),
            Ok(Err(words)) => failed(&words),
            Err(outcome) => outcome,
        }
    }

    /// Returns the chat of the conversation, if it takes place in one.
    async fn origin(&self, task: &TaskId) -> Option<JobOrigin> {
        let binding = self.store.binding(task.as_str()).await.ok().flatten()?;
        let entry: Value = serde_json::from_str(&binding.entry).ok()?;
        let field = |name: &str| {
            entry
                .get("origin")?
                .get(name)
                .and_then(Value::as_str)
                .filter(|text| !text.is_empty())
                .map(str::to_owned)
        };
        Some(JobOrigin {
            platform: field("platform")?,
            chat_id: field("chat_id")?,
            chat_name: field("chat_name"),
            thread_id: field("thread_id"),
            user_id: field("user_id"),
            more: Map::new(),
        })
    }
}

impl Tool for CronJobTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn descriptor(&self) -> ToolDescriptor<'_> {
        DESCRIPTOR
    }

    fn run<'a>(&'a self, call: &'a ToolInvocation, context: ToolContext<'a>) -> BoxFuture<'a, ToolOutcome> {
        Box::pin(async move {
            match refuse_model(call, &context).await {
                Some(words) => failed(&words),
                None => self.answer(call).await,
            }
        })
    }

    fn upgrade_legacy_call(&self, name: &str, arguments: &Map<String, Value>) -> Option<Map<String, Value>> {
        let (_, action) = OLDER.iter().find(|(older, _)| *older == name)?;
        let mut arguments = arguments.clone();
        arguments.insert("action".to_owned(), json!(action));
        Some(arguments)
    }
}

fn failed(words: &str) -> ToolOutcome {
    ToolOutcome {
        status: OutcomeStatus::Failed,
        ..ToolOutcome::done(pretty(&json!({"success": false, "error": words})))
    }
}

/// Asks the user about another model or provider, because it costs the user's money and gets the user's key.
/// Returns why it was refused.
async fn refuse_model(call: &ToolInvocation, context: &ToolContext<'_>) -> Option<String> {
    let given = |name: &str| call.arguments.get(name).filter(|value| !value.is_null());
    let wanted: Vec<String> =
        ["model", "provider"].iter().filter_map(|name| Some(format!("{name} {}", given(name)?))).collect();
    if wanted.is_empty() {
        return None;
    }
    let question = UserQuestion::Approve {
        command: format!("cronjob: run with {}", wanted.join(", ")),
        danger: Danger {
            key: "cronjob model".to_owned(),
            reason: "a scheduled job is to use another model than the configured one".to_owned(),
        },
    };
    match context.frontend.ask_before_acting(question, context.cancel).await {
        UserAnswer::Approval(ApprovalDecision::Deny)
        | UserAnswer::Unavailable
        | UserAnswer::TimedOut
        | UserAnswer::Secret(_) => Some(
            "A job with another model or provider needs the user's consent, and it was not given.".to_owned(),
        ),
        UserAnswer::Approval(_) => None,
        UserAnswer::Text(words) => Some(format!("The user denied this and said: {words}")),
    }
}

/// Handles one call. Errors are worded for the model.
struct JobEditor {
    jobs: JobStore,
    now: hermes_types::Timestamp,
}

impl JobEditor {
    fn answer(
        &self,
        action: &Action,
        arguments: &Map<String, Value>,
        origin: Option<JobOrigin>,
    ) -> Result<Value, String> {
        match action {
            Action::List => return Ok(self.list(arguments)),
            Action::Create => return self.create(arguments, origin),
            _ => {}
        }
        let named = any_text(arguments, "action").unwrap_or_default().trim();
        let id =
            text(arguments, "job_id").ok_or_else(|| format!("job_id is required for action '{named}'"))?;
        let job = self.jobs.find(id).map_err(|error| not_found(error, id))?;
        let words = |error: Error| not_found(error, id);
        let job = match action {
            Action::Update => self.jobs.update(&job.id, change(arguments)?, self.now).map_err(words)?,
            Action::Pause => {
                let reason = text(arguments, "reason").map(str::to_owned);
                self.jobs.pause(&job.id, reason, self.now).map_err(words)?
            }
            Action::Resume => self.jobs.resume(&job.id, self.now).map_err(words)?,
            Action::Run => self.jobs.trigger(&job.id, self.now).map_err(words)?,
            Action::Remove => {
                let job = self.jobs.remove(&job.id, self.now).map_err(words)?;
                return Ok(json!({
                    "success": true,
                    "message": format!("Cron job '{}' removed.", job.name()),
                    "removed_job": {"id": job.id, "name": job.name(), "schedule": job.display()},
                }));
            }
            Action::Create | Action::List | Action::Unknown(_) => {
                return Err(format!("Unknown cron action '{named}'"));
            }
        };
        Ok(json!({"success": true, "job": job_summary(&job)}))
    }

    fn list(&self, arguments: &Map<String, Value>) -> Value {
        let all = arguments.get("include_disabled") == Some(&Value::Bool(true));
        let jobs = self.jobs.list(if all { JobFilter::All } else { JobFilter::Enabled });
        json!({"success": true, "count": jobs.len(), "jobs": jobs.iter().map(job_summary).collect::<Vec<_>>()})
    }

    fn create(&self, arguments: &Map<String, Value>, origin: Option<JobOrigin>) -> Result<Value, String> {
        let change = change(arguments)?;
        let new = NewJob {
            prompt: change.prompt.unwrap_or_default(),
            schedule: change.schedule.unwrap_or_default(),
            name: change.name,
            skills: change.skills.unwrap_or_default(),
            model: change.model,
            provider: change.provider,
            base_url: change.base_url,
            deliver: change.deliver,
            origin,
            repeat: change.repeat,
            more: change.more,
        };
        // A missing schedule is reported before the errors of `JobStore::create`.
        if new.schedule.trim().is_empty() {
            return Err("schedule is required for create".to_owned());
        }
        let job = self.jobs.create(new, self.now).map_err(|error| error.to_string())?;
        Ok(created(&job))
    }
}

fn created(job: &Job) -> Value {
    json!({
        "success": true,
        "job_id": job.id,
        "name": job.name(),
        "skill": job.skill,
        "skills": job.skills(),
        "schedule": job.display(),
        "repeat": describe_repeat(job),
        "deliver": job.deliver(),
        "next_run_at": job.next_run_at,
        "job": job_summary(job),
        "message": format!("Cron job '{}' created.", job.name()),
    })
}

fn not_found(error: Error, id: &str) -> String {
    match error {
        Error::NotFound(_) => {
            format!("Job with ID '{id}' not found. Use cronjob(action='list') to inspect jobs.")
        }
        other => other.to_string(),
    }
}

/// Parses the fields of a job. An error names a field of the wrong type.
fn change(arguments: &Map<String, Value>) -> Result<JobChange, String> {
    let text = |name: &str| match arguments.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(_) => Err(format!("`{name}` must be a text")),
    };
    let mut more = Map::new();
    for name in MORE {
        if let Some(value) = arguments.get(name).filter(|value| !value.is_null()) {
            more.insert(name.to_owned(), value.clone());
        }
    }
    check_folder(&more)?;
    // A URL that the model chooses would receive the user's key.
    let has_address =
        |given: &Map<String, Value>| given.get("base_url").is_some_and(|given| !given.is_null());
    let nested = arguments.get("model").and_then(Value::as_object);
    if has_address(arguments) || nested.is_some_and(has_address) {
        return Err("`base_url` cannot be set by this tool".to_owned());
    }
    let (model, provider) = match nested {
        Some(given) => {
            let of = |name: &str| given.get(name).and_then(Value::as_str).map(str::to_owned);
            (of("model").or_else(|| of("default")), of("provider"))
        }
        None => (text("model")?, text("provider")?),
    };
    Ok(JobChange {
        prompt: text("prompt")?,
        schedule: text("schedule")?,
        name: text("name")?,
        skills: skills(arguments)?,
        model,
        provider,
        base_url: None,
        deliver: text("deliver")?,
        repeat: repeat(arguments)?,
        pause: None,
        more,
    })
}

fn skills(arguments: &Map<String, Value>) -> Result<Option<Vec<String>>, String> {
    let wrong = || "`skills` must be a list of names".to_owned();
    match arguments.get("skills") {
        Some(Value::Array(names)) => {
            let names = names.iter().map(|name| name.as_str().map(str::to_owned).ok_or_else(wrong));
            names.collect::<Result<Vec<_>, _>>().map(Some)
        }
        Some(Value::String(name)) => Ok(Some(vec![name.clone()])),
        None | Some(Value::Null) => Ok(any_text(arguments, "skill").map(|name| vec![name.to_owned()])),
        Some(_) => Err(wrong()),
    }
}

fn repeat(arguments: &Map<String, Value>) -> Result<Option<i64>, String> {
    match arguments.get("repeat") {
        None | Some(Value::Null) => Ok(None),
        Some(value) => value.as_i64().map(Some).ok_or_else(|| "`repeat` must be a whole number".to_owned()),
    }
}

fn check_folder(more: &Map<String, Value>) -> Result<(), String> {
    let Some(folder) = more.get("workdir").and_then(Value::as_str).filter(|folder| !folder.is_empty()) else {
        return Ok(());
    };
    let path = std::path::Path::new(folder);
    if path.is_absolute() && path.is_dir() {
        return Ok(());
    }
    Err(format!("`workdir` must be the whole path of a folder that exists, not '{folder}'"))
}

fn pretty(value: &Value) -> String {
    serde_json::to_string_pretty(value).unwrap_or_else(|_| value.to_string())
}
