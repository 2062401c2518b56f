//! `/api/jobs`: the list of scheduled jobs. Jobs have the same shape as in the file; errors are `{"error":
//! "text"}`.

use axum::Json;
use axum::body::Body;
use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use hermes_gateway::cron::{
    Job, JobChange, JobError, JobFilter, JobId, JobStore, NewJob, PauseChange, TickError,
};
use hermes_types::Timestamp;
use serde_json::{Value, json};

use crate::app::App;
use crate::error::ApiError;
use crate::field::{self, BodyObject, kind};
use crate::guard::read_body;

const LONGEST_NAME: usize = 200;
const LONGEST_PROMPT: usize = 5000;
/// The fields that can be changed.
const EDITABLE_FIELDS: [&str; 8] =
    ["name", "schedule", "prompt", "deliver", "skills", "skill", "repeat", "enabled"];

type JobResponse = Result<Json<Value>, JobApiError>;

/// An error response in this interface's shape.
pub(crate) struct JobApiError {
    status: StatusCode,
    message: String,
}

impl JobApiError {
    fn bad_request(message: impl Into<String>) -> Self {
        Self { status: StatusCode::BAD_REQUEST, message: message.into() }
    }
}

impl IntoResponse for JobApiError {
    fn into_response(self) -> Response {
        (self.status, Json(json!({"error": self.message}))).into_response()
    }
}

impl From<ApiError> for JobApiError {
    fn from(error: ApiError) -> Self {
        Self { status: error.status, message: error.message }
    }
}

impl From<JobError> for JobApiError {
    fn from(error: JobError) -> Self {
        match error {
            JobError::NotFound(_) => {
                Self { status: StatusCode::NOT_FOUND, message: "Job not found".to_owned() }
            }
            JobError::File(error) => {
                Self { status: StatusCode::INTERNAL_SERVER_ERROR, message: error.to_string() }
            }
            other => Self::bad_request(other.to_string()),
        }
    }
}

impl From<TickError> for JobApiError {
    fn from(error: TickError) -> Self {
        Self { status: StatusCode::INTERNAL_SERVER_ERROR, message: error.to_string() }
    }
}

pub(crate) async fn list(State(app): State<App>, Query(query): Query<Vec<(String, String)>>) -> JobResponse {
    let all = query.iter().any(|(name, value)| {
        name == "include_disabled" && matches!(value.to_lowercase().as_str(), "true" | "1")
    });
    let listed = if all { JobFilter::All } else { JobFilter::Enabled };
    let jobs = app.jobs.with_jobs(move |jobs| jobs.list(listed)).await?;
    Ok(Json(json!({"jobs": jobs})))
}

pub(crate) async fn create(State(app): State<App>, headers: HeaderMap, body: Body) -> JobResponse {
    let body = field::object(&read_body(&app, &headers, body).await?)?;
    let required = |name: &str| {
        let given = field::text(&body, name)?.map(str::trim).filter(|text| !text.is_empty());
        given.map(str::to_owned).ok_or_else(|| JobApiError::bad_request(format!("`{name}` is required")))
    };
    let (name, schedule) = (required("name")?, required("schedule")?);
    let change = read(&body)?;
    if change.repeat.is_some_and(|times| times < 1) {
        return Err(JobApiError::bad_request("`repeat` must be 1 or more"));
    }
    let new = NewJob {
        name: Some(name),
        schedule,
        prompt: change.prompt.unwrap_or_default(),
        deliver: Some(change.deliver.unwrap_or_else(|| "local".to_owned())),
        skills: change.skills.unwrap_or_default(),
        repeat: change.repeat,
        ..NewJob::default()
    };
    respond_with_job(&app, |jobs, now| jobs.create(new, now)).await
}

pub(crate) async fn find(State(app): State<App>, Path(id): Path<String>) -> JobResponse {
    let id = read_id(&id)?;
    respond_with_job(&app, move |jobs, _| jobs.get(&id).ok_or_else(|| JobError::NotFound(id.to_string())))
        .await
}

pub(crate) async fn change(
    State(app): State<App>,
    Path(id): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> JobResponse {
    let id = read_id(&id)?;
    let mut body = field::object(&read_body(&app, &headers, body).await?)?;
    body.retain(|name, _| EDITABLE_FIELDS.contains(&name.as_str()));
    if body.is_empty() {
        return Err(JobApiError::bad_request(format!(
            "nothing to change; the fields are {}",
            EDITABLE_FIELDS.join(", ")
        )));
    }
    let change = read(&body)?;
    respond_with_job(&app, move |jobs, now| jobs.update(&id, change, now)).await
}

pub(crate) async fn remove(State(app): State<App>, Path(id): Path<String>) -> JobResponse {
    let id = read_id(&id)?;
    let removed = respond_with_job(&app, move |jobs, now| jobs.remove(&id, now)).await;
    removed.map(|_| Json(json!({"ok": true})))
}

pub(crate) async fn pause(State(app): State<App>, Path(id): Path<String>) -> JobResponse {
    let id = read_id(&id)?;
    respond_with_job(&app, move |jobs, now| jobs.pause(&id, None, now)).await
}

pub(crate) async fn resume(State(app): State<App>, Path(id): Path<String>) -> JobResponse {
    let id = read_id(&id)?;
    respond_with_job(&app, move |jobs, now| jobs.resume(&id, now)).await
}

pub(crate) async fn run(State(app): State<App>, Path(id): Path<String>) -> JobResponse {
    let id = read_id(&id)?;
    respond_with_job(&app, move |jobs, now| jobs.trigger(&id, now)).await
}

async fn respond_with_job(
    app: &App,
    work: impl FnOnce(&JobStore, Timestamp) -> Result<Job, JobError> + Send + 'static,
) -> JobResponse {
    let now = app.clock.now();
    let job = app.jobs.with_jobs(move |jobs| work(jobs, now)).await??;
    Ok(Json(json!({"job": job})))
}

fn read_id(id: &str) -> Result<JobId, JobApiError> {
    JobId::has_id_format(id)
        .then(|| JobId::new(id))
        .ok_or_else(|| JobApiError::bad_request("Invalid job ID format"))
}

/// Reads the fields of a body; an error names the field.
fn read(body: &BodyObject) -> Result<JobChange, JobApiError> {
    let text =
        |name: &str| field::text(body, name).map(|text| text.map(str::to_owned)).map_err(JobApiError::from);
    let bounded = |name: &str, most: usize| match text(name)? {
        Some(given) if given.chars().count() > most => {
            Err(JobApiError::bad_request(format!("`{name}` must have at most {most} characters")))
        }
        given => Ok(given),
    };
    let pause = match body.get("enabled") {
        None | Some(Value::Null) => None,
        Some(Value::Bool(true)) => Some(PauseChange::Resume),
        Some(Value::Bool(false)) => Some(PauseChange::Pause(None)),
        Some(other) => {
            return Err(JobApiError::bad_request(format!(
                "`enabled` must be true or false, not {}",
                kind(other)
            )));
        }
    };
    Ok(JobChange {
        name: bounded("name", LONGEST_NAME)?,
        prompt: bounded("prompt", LONGEST_PROMPT)?,
        schedule: text("schedule")?,
        deliver: text("deliver")?,
        skills: skills(body)?,
        repeat: repeat(body)?,
        pause,
        ..JobChange::default()
    })
}

fn skills(body: &BodyObject) -> Result<Option<Vec<String>>, JobApiError> {
    let wrong = || JobApiError::bad_request("`skills` must be a list of names");
    match body.get("skills") {
        Some(Value::Array(names)) => {
            let names = names.iter().map(|name| name.as_str().map(str::to_owned).ok_or_else(wrong));
            names.collect::<Result<Vec<_>, _>>().map(Some)
        }
        None | Some(Value::Null) => Ok(field::text(body, "skill")?.map(|name| vec![name.to_owned()])),
        Some(_) => Err(wrong()),
    }
}

fn repeat(body: &BodyObject) -> Result<Option<i64>, JobApiError> {
    match body.get("repeat") {
        None | Some(Value::Null) => Ok(None),
        Some(value) => value.as_i64().map(Some).ok_or_else(|| {
            JobApiError::bad_request(format!("`repeat` must be a whole number, not {}", kind(value)))
        }),
    }
}
