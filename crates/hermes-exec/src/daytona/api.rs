//! Daytona's HTTP interface: the few requests that Hermes makes, and the meaning of their responses.

use std::time::Duration;

use hermes_net::{Error, Method};
use hermes_types::Cancel;
use serde::Deserialize;
use serde_json::{Value, json};

use super::DaytonaOptions;
use crate::docker::InstanceRetention;
use crate::remote::service::{HttpService, failed};
use crate::remote::{CliError, safe_name};

/// The time a sandbox has to start, because an image may have to be built.
const START_LIMIT: Duration = Duration::from_mins(5);
const PAUSE: Duration = Duration::from_millis(500);
/// The largest disk that Daytona grants, in GiB.
const MOST_DISK: usize = 10;
const LABEL: &str = "hermes_task_id";

#[derive(Debug)]
pub(super) struct DaytonaApi(pub(super) HttpService);

/// The result of a command line.
#[derive(Debug)]
pub(super) enum DaytonaExecution {
    Answer {
        code: i32,
        result: String,
    },
    /// The line was not run, because the sandbox is not running.
    NotRun(String),
    /// The outcome is not known: the line may have been run.
    Unknown(String),
}

#[derive(Debug, Deserialize)]
struct SandboxInfo {
    id: String,
    #[serde(default)]
    state: String,
}

/// The list of sandboxes, which is either a plain list or one page of a list.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum SandboxList {
    Plain(Vec<SandboxInfo>),
    Page { items: Vec<SandboxInfo> },
}

#[derive(Debug, Deserialize)]
struct ExecuteResponse {
    #[serde(alias = "code")]
    #[serde(rename = "exitCode")]
    exit_code: i32,
    #[serde(default)]
    result: String,
}

impl DaytonaApi {
    /// Returns the id of the task's sandbox, which is running when this returns.
    pub(super) async fn find_or_create(
        &self,
        options: &DaytonaOptions,
        cancel: &Cancel,
    ) -> Result<String, CliError> {
        let name = format!("hermes-{}", safe_name(&options.task));
        let known = match options.retention {
            InstanceRetention::Persistent => self.find(&name, &options.task, cancel).await?,
            InstanceRetention::Ephemeral => None,
        };
        let sandbox = match known {
            Some(sandbox) => sandbox,
            None => self.create(&name, options, cancel).await?,
        };
        self.until_started(sandbox, cancel).await
    }

    async fn find(&self, name: &str, task: &str, cancel: &Cancel) -> Result<Option<SandboxInfo>, CliError> {
        if let Some(found) = self.0.get::<SandboxInfo>(&["sandbox", name], None, cancel).await? {
            return Ok(Some(found));
        }
        let labels = json!({ LABEL: task }).to_string();
        let found = self.0.get::<SandboxList>(&["sandbox"], Some(("labels", &labels)), cancel).await?;
        Ok(found.and_then(|found| match found {
            SandboxList::Plain(items) | SandboxList::Page { items } => items.into_iter().next(),
        }))
    }

    async fn create(
        &self,
        name: &str,
        options: &DaytonaOptions,
        cancel: &Cancel,
    ) -> Result<SandboxInfo, CliError> {
        self.0.create(&["sandbox"], &creation(name, options), None, START_LIMIT, cancel).await
    }

    async fn until_started(&self, mut sandbox: SandboxInfo, cancel: &Cancel) -> Result<String, CliError> {
        let end = self.0.clock.monotonic() + START_LIMIT;
        let mut asked = false;
        loop {
            match sandbox.state.to_lowercase().as_str() {
                "started" => return Ok(sandbox.id),
                "stopped" | "archived" if !asked => {
                    asked = true;
                    self.0
                        .request_action(Method::POST, &["sandbox", &sandbox.id, "start"], None, cancel)
                        .await?;
                }
                state @ ("error" | "build_failed" | "destroyed" | "destroying") => {
                    return Err(CliError::Refused(format!("the sandbox {} is in state {state}", sandbox.id)));
                }
                _ if self.0.clock.monotonic() > end => return Err(CliError::TimedOut(START_LIMIT)),
                _ => {
                    tokio::select! {
                        () = cancel.cancelled() => return Err(CliError::Interrupted),
                        () = self.0.clock.sleep(PAUSE) => {}
                    }
                }
            }
            let id = sandbox.id.clone();
            sandbox = self
                .0
                .get(&["sandbox", &id], None, cancel)
                .await?
                .ok_or_else(|| CliError::Refused(format!("the sandbox {id} no longer exists")))?;
        }
    }

    pub(super) async fn execute(
        &self,
        id: &str,
        command: &str,
        limit: Duration,
        cancel: &Cancel,
    ) -> Result<DaytonaExecution, CliError> {
        let body = json!({ "command": command, "timeout": limit.as_secs() });
        let path = ["toolbox", id, "toolbox", "process", "execute"];
        let request = self.0.request(Method::POST, &path, None)?.json(&body).map_err(failed)?;
        let request = request.response_timeout(limit).stall_timeout(limit);
        let (status, text) = match self.0.send(request, limit, cancel).await {
            Ok(answer) => answer,
            Err(Error::Cancelled) => return Err(CliError::Interrupted),
            Err(Error::DeadlinePassed | Error::TimedOut { .. }) => return Err(CliError::TimedOut(limit)),
            Err(error @ Error::Connect { .. }) => return Err(CliError::Refused(error.to_string())),
            Err(error) => return Ok(DaytonaExecution::Unknown(error.to_string())),
        };
        if status.is_success() {
            let ExecuteResponse { exit_code, result } = self.0.parse(&text)?;
            return Ok(DaytonaExecution::Answer { code: exit_code, result });
        }
        let said = self.0.error_text(status, &text);
        // Daytona refuses a line for a sandbox that is not running before anything is done; the meaning of
        // another failure is not known.
        let stopped = match self.0.get::<SandboxInfo>(&["sandbox", id], None, cancel).await? {
            Some(sandbox) => sandbox.state.to_lowercase() != "started",
            None => true,
        };
        if stopped || status.is_client_error() {
            Ok(DaytonaExecution::NotRun(said))
        } else {
            Ok(DaytonaExecution::Unknown(said))
        }
    }

    pub(super) async fn stop(&self, id: &str, cancel: &Cancel) -> Result<(), CliError> {
        self.0.request_action(Method::POST, &["sandbox", id, "stop"], None, cancel).await
    }

    pub(super) async fn delete(&self, id: &str, cancel: &Cancel) -> Result<(), CliError> {
        self.0.request_action(Method::DELETE, &["sandbox", id], None, cancel).await
    }
}

fn creation(name: &str, options: &DaytonaOptions) -> Value {
    let limits = &options.limits;
    let mut body = json!({
        "name": name,
        "buildInfo": { "dockerfileContent": format!("FROM {}\n", options.image) },
        "labels": { LABEL: options.task },
        "autoStopInterval": 0,
    });
    let cpus = limits.cpus.ceil();
    if cpus > 0.0 {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a whole number of processors, above 0"
        )]
        let whole = cpus as u64;
        body["cpu"] = json!(whole);
    }
    if limits.memory_mb > 0 {
        body["memory"] = json!(limits.memory_mb.div_ceil(1024));
    }
    if limits.disk_mb > 0 {
        let wanted = limits.disk_mb.div_ceil(1024);
        if wanted > MOST_DISK {
            tracing::warn!(wanted, "Daytona grants at most {MOST_DISK} GiB of disk");
        }
        body["disk"] = json!(wanted.min(MOST_DISK));
    }
    body
}

#[cfg(test)]
mod tests {
    use super::super::ResourceLimits;
    use super::*;
    use crate::capture::OutputBounds;

    #[test]
    fn a_sandbox_is_asked_for_in_whole_gibibytes() {
        let options = DaytonaOptions {
            task: "a/b".to_owned(),
            image: "python:3.11-slim".to_owned(),
            directory: None,
            exports: crate::remote::ForwardedVariables::default(),
            limits: ResourceLimits { cpus: 1.5, memory_mb: 5000, disk_mb: 51200 },
            retention: InstanceRetention::Persistent,
            bounds: OutputBounds::default(),
        };
        assert_eq!(
            creation("hermes-x", &options).to_string(),
            r#"{"name":"hermes-x","buildInfo":{"dockerfileContent":"FROM python:3.11-slim\n"},"labels":{"hermes_task_id":"a/b"},"autoStopInterval":0,"cpu":2,"memory":5,"disk":10}"#
        );
    }
}
