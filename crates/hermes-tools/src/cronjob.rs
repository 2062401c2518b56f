//! `cronjob`: jobs that run later, and the list of them. The list and its rules are `hermes-schedule`'s.

use std::sync::Arc;

use hermes_schedule::{Change, Error, Job, Jobs, Listed, NewJob, Origin, repeat_words, view};
use hermes_store::Store;
use hermes_types::{BoxFuture, Call, Clock, Outcome, OutcomeStatus, TaskId, Tool, ToolContext, ToolSpec};
use serde_json::{Map, Value, json};

use crate::argument::{any_text, spec, text};
use crate::off_thread::off_thread;

/// Fields of newer releases that are kept, and how they are checked.
const MORE: [&str; 6] =
    ["script", "no_agent", "context_from", "enabled_toolsets", "workdir", "attach_to_session"];
/// What the tool was called in three, and the action of each.
const OLDER: [(&str, &str); 3] =
    [("schedule_cronjob", "create"), ("list_cronjobs", "list"), ("remove_cronjob", "remove")];

/// The tool.
#[derive(Debug)]
pub struct CronJob {
    spec: ToolSpec,
    jobs: Jobs,
    store: Store,
    clock: Arc<dyn Clock>,
}

/// What the model asked for.
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

impl CronJob {
    pub fn new(jobs: Jobs, store: Store, clock: Arc<dyn Clock>) -> Self {
        let spec = spec("cronjob", include_str!("texts/cronjob.md"), include_str!("texts/cronjob.json"));
        Self { spec, jobs, store, clock }
    }

    async fn answer(&self, call: &Call) -> Outcome {
        let arguments = call.arguments.clone();
        let origin = self.origin(&call.task).await;
        let (jobs, now) = (self.jobs.clone(), self.clock.now());
        let done = off_thread("cronjob", move || {
            let action = Action::read(any_text(&arguments, "action").unwrap_or_default());
            Desk { jobs, now }.answer(&action, &arguments, origin)
        });
        match done.await {
            Ok(Ok(answer)) => Outcome::done(pretty(&answer)),
            Ok(Err(words)) => Outcome {
                status: OutcomeStatus::Failed,
                ..Outcome::done(pretty(&json!({"success": false, "error": words})))
            },
            Err(outcome) => outcome,
        }
    }

    /// The chat the conversation takes place in, where it does in one.
    async fn origin(&self, task: &TaskId) -> Option<Origin> {
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
        Some(Origin {
            platform: field("platform")?,
            chat_id: field("chat_id")?,
            chat_name: field("chat_name"),
            thread_id: field("thread_id"),
            user_id: field("user_id"),
            more: Map::new(),
        })
    }
}

impl Tool for CronJob {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn run<'a>(&'a self, call: &'a Call, _: ToolContext<'a>) -> BoxFuture<'a, Outcome> {
        Box::pin(self.answer(call))
    }

    fn modern(&self, name: &str, arguments: &Map<String, Value>) -> Option<Map<String, Value>> {
        let (_, action) = OLDER.iter().find(|(older, _)| *older == name)?;
        let mut arguments = arguments.clone();
        arguments.insert("action".to_owned(), json!(action));
        Some(arguments)
    }
}

/// Where one call is dealt with. Errors are words for the model.
struct Desk {
    jobs: Jobs,
    now: hermes_types::Timestamp,
}

impl Desk {
    fn answer(
        &self,
        action: &Action,
        arguments: &Map<String, Value>,
        origin: Option<Origin>,
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
        Ok(json!({"success": true, "job": view(&job)}))
    }

    fn list(&self, arguments: &Map<String, Value>) -> Value {
        let all = arguments.get("include_disabled") == Some(&Value::Bool(true));
        let jobs = self.jobs.list(if all { Listed::All } else { Listed::Enabled });
        json!({"success": true, "count": jobs.len(), "jobs": jobs.iter().map(view).collect::<Vec<_>>()})
    }

    fn create(&self, arguments: &Map<String, Value>, origin: Option<Origin>) -> Result<Value, String> {
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
        // What is asked for first is said first.
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
        "repeat": repeat_words(job),
        "deliver": job.deliver(),
        "next_run_at": job.next_run_at,
        "job": view(job),
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

/// What the arguments say about a job. A field of the wrong kind is named.
fn change(arguments: &Map<String, Value>) -> Result<Change, String> {
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
    let (model, provider, base_url) = match arguments.get("model") {
        Some(Value::Object(given)) => {
            let of = |name: &str| given.get(name).and_then(Value::as_str).map(str::to_owned);
            (of("model").or_else(|| of("default")), of("provider"), of("base_url"))
        }
        _ => (text("model")?, text("provider")?, text("base_url")?),
    };
    Ok(Change {
        prompt: text("prompt")?,
        schedule: text("schedule")?,
        name: text("name")?,
        skills: skills(arguments)?,
        model,
        provider,
        base_url,
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
