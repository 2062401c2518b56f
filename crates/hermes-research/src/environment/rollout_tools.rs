//! The tools of one rollout, for the model and afterwards for the code that judges what the model did.
//!
//! All calls work on the same task, so that the judge sees exactly the state the model left. Nobody is asked anything: what would
//! need an approval is refused.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use data_encoding::BASE64;
use hermes_types::{
    BoxFuture, CallId, Cancel, Clock, Deadline, Frontend, SessionId, TaskId, Tool, ToolContext,
    ToolInvocation, TurnEvent, TurnId, UserAnswer, UserQuestion, random_hex,
};
use serde_json::{Map, Value, json};
use tokio::sync::Semaphore;

/// The most characters of encoded data in one command.
const PIECE: usize = 60_000;
/// The bytes that are read with one command.
const READ_PIECE: usize = 15_000;
/// The limit of a call that code makes by its name.
const CALL_LIMIT: Duration = Duration::from_mins(5);
/// The limit of a call of the model. Tools have their own, shorter ones.
const MODEL_CALL_LIMIT: Duration = Duration::from_mins(30);

/// A frontend that gives no permission.
pub(crate) struct NobodyAsked;

impl Frontend for NobodyAsked {
    fn show(&self, _: TurnEvent) {}

    fn ask<'a>(&'a self, _: UserQuestion, _: &'a Cancel) -> BoxFuture<'a, UserAnswer> {
        Box::pin(std::future::ready(UserAnswer::Unavailable))
    }
}

/// What a command came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandResult {
    pub exit_code: i64,
    pub output: String,
}

impl CommandResult {
    pub fn succeeded(&self) -> bool {
        self.exit_code == 0
    }
}

/// The tools of one rollout.
#[derive(Clone)]
#[expect(missing_debug_implementations, reason = "it holds ports")]
pub struct RolloutTools {
    task: TaskId,
    session: SessionId,
    turn: TurnId,
    tools: Arc<HashMap<String, Arc<dyn Tool>>>,
    permits: Arc<Semaphore>,
    clock: Arc<dyn Clock>,
    cancel: Cancel,
}

impl RolloutTools {
    pub(crate) fn new(
        task: TaskId,
        tools: &[Arc<dyn Tool>],
        permits: Arc<Semaphore>,
        clock: Arc<dyn Clock>,
        cancel: Cancel,
    ) -> Self {
        let tools = tools.iter().map(|tool| (tool.spec().name.clone(), tool.clone())).collect();
        Self {
            session: SessionId::new(format!("rollout_{}", random_hex(12))),
            turn: TurnId::generate(),
            task,
            tools: Arc::new(tools),
            permits,
            clock,
            cancel,
        }
    }

    pub fn task(&self) -> &TaskId {
        &self.task
    }

    /// Runs a call of the model. `None` where there is no such tool.
    pub(crate) async fn run(&self, id: &str, name: &str, arguments: Map<String, Value>) -> Option<String> {
        let tool = self.tools.get(name)?;
        // The pool is never closed, so that a permit always comes.
        let _permit = self.permits.acquire().await.ok();
        let invocation = ToolInvocation {
            id: CallId::new(id),
            name: name.to_owned(),
            arguments,
            session: self.session.clone(),
            turn: self.turn.clone(),
            task: self.task.clone(),
        };
        let context = ToolContext {
            frontend: &NobodyAsked,
            cancel: &self.cancel,
            deadline: Deadline::after(&*self.clock, MODEL_CALL_LIMIT),
            spawn: None,
            turn_model: None,
        };
        Some(tool.run(&invocation, context).await.content)
    }

    /// Runs a tool by its name, and returns what it answers as text.
    pub async fn call_tool(&self, name: &str, arguments: Map<String, Value>) -> String {
        let id = CallId::generate();
        let answer = tokio::select! {
            answer = self.run(id.as_str(), name, arguments) => answer,
            () = self.clock.sleep(CALL_LIMIT) => {
                return json!({"error": format!("`{name}` did not end within {} s", CALL_LIMIT.as_secs())}).to_string();
            }
        };
        answer.unwrap_or_else(|| json!({"error": format!("there is no tool `{name}` here")}).to_string())
    }

    /// Runs a tool by its name; an answer that is no JSON becomes an error.
    pub async fn call(&self, name: &str, arguments: Value) -> Value {
        let Value::Object(arguments) = arguments else {
            return json!({"error": "the arguments must be an object"});
        };
        let text = self.call_tool(name, arguments).await;
        match serde_json::from_str::<Value>(&text) {
            Ok(answer) if answer.is_object() => answer,
            _ => json!({"error": text}),
        }
    }

    /// Runs a command.
    pub async fn terminal(&self, command: &str, seconds: u64) -> CommandResult {
        let answer = self.call("terminal", json!({"command": command, "timeout": seconds.max(1)})).await;
        let text = |name: &str| answer.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
        let exit_code = answer.get("exit_code").and_then(Value::as_i64);
        CommandResult {
            exit_code: exit_code.unwrap_or(-1),
            output: text("output").or_else(|| text("error")).unwrap_or_default().to_owned(),
        }
    }

    /// Writes a file where commands run.
    pub async fn write_bytes(&self, remote: &str, bytes: &[u8]) -> CommandResult {
        let place = quote(remote);
        let folder = self.terminal(&format!("mkdir -p \"$(dirname {place})\""), 10).await;
        if !folder.succeeded() {
            return folder;
        }
        let encoded = BASE64.encode(bytes);
        if encoded.len() <= PIECE {
            return self.terminal(&format!("printf %s {encoded} | base64 -d > {place}"), 30).await;
        }
        let pieces = quote(&format!("{remote}.{}.part", random_hex(8)));
        let mut rest = encoded.as_str();
        while !rest.is_empty() {
            let (piece, more) = rest.split_at_checked(PIECE).unwrap_or((rest, ""));
            let added = self.terminal(&format!("printf %s {piece} >> {pieces}"), 15).await;
            if !added.succeeded() {
                self.terminal(&format!("rm -f {pieces}"), 15).await;
                return added;
            }
            rest = more;
        }
        let command = format!("base64 -d < {pieces} > {place}; code=$?; rm -f {pieces}; (exit $code)");
        self.terminal(&command, 30).await
    }

    /// Copies a file of this machine to where commands run.
    pub async fn upload_file(&self, local: &Path, remote: &str) -> CommandResult {
        match fs::read(local) {
            Ok(bytes) => self.write_bytes(remote, &bytes).await,
            Err(error) => CommandResult { exit_code: -1, output: format!("{}: {error}", local.display()) },
        }
    }

    /// Copies a folder of this machine, file by file.
    pub async fn upload_dir(&self, local: &Path, remote: &str) -> Vec<CommandResult> {
        let mut results = Vec::new();
        for file in files_below(local) {
            let Ok(inner) = file.strip_prefix(local) else { continue };
            let place = format!("{}/{}", remote.trim_end_matches('/'), inner.display());
            results.push(self.upload_file(&file, &place).await);
        }
        results
    }

    /// Returns the bytes of a file where commands run.
    pub async fn read_bytes(&self, remote: &str) -> Result<Vec<u8>, String> {
        let place = quote(remote);
        let mut bytes = Vec::new();
        // In pieces: what a command prints is cut where it is long.
        loop {
            let from = bytes.len() + 1;
            let command =
                format!("test -f {place} && tail -c +{from} {place} | head -c {READ_PIECE} | base64");
            let answer = self.terminal(&command, 30).await;
            if !answer.succeeded() {
                let reason = if answer.output.is_empty() { "it does not exist" } else { &answer.output };
                return Err(format!("{remote}: {reason}"));
            }
            let encoded: String = answer.output.split_whitespace().collect();
            let piece = BASE64.decode(encoded.as_bytes());
            let piece = piece.map_err(|_| format!("{remote} could not be read whole"))?;
            bytes.extend_from_slice(&piece);
            if piece.len() < READ_PIECE {
                break;
            }
        }
        if bytes.is_empty() { Err(format!("{remote} is empty")) } else { Ok(bytes) }
    }

    /// Copies a file from where commands run.
    pub async fn download_file(&self, remote: &str, local: &Path) -> Result<usize, String> {
        let bytes = self.read_bytes(remote).await?;
        let written =
            local.parent().map_or(Ok(()), fs::create_dir_all).and_then(|()| fs::write(local, &bytes));
        written.map_err(|error| format!("{}: {error}", local.display()))?;
        Ok(bytes.len())
    }

    /// Copies all files of a folder from where commands run.
    pub async fn download_dir(&self, remote: &str, local: &Path) -> Vec<Result<usize, String>> {
        let list = self.terminal(&format!("find {} -type f", quote(remote)), 15).await;
        if !list.succeeded() {
            return vec![Err(list.output)];
        }
        let mut results = Vec::new();
        for file in list.output.lines().filter(|line| !line.is_empty()) {
            let inner = file.strip_prefix(remote).unwrap_or(file).trim_start_matches('/');
            let inner = PathBuf::from(inner);
            // A name chosen by the model must not lead out of the folder.
            let stays = inner.components().all(|part| matches!(part, std::path::Component::Normal(_)));
            results.push(if stays {
                self.download_file(file, &local.join(inner)).await
            } else {
                Err(format!("{file} is outside {remote}"))
            });
        }
        results
    }
}

/// Quotes a path for a shell.
pub(crate) fn quote(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}

/// Lists the files below a folder, sorted. Links are not followed.
fn files_below(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut waiting = vec![folder.to_owned()];
    while let Some(next) = waiting.pop() {
        for entry in fs::read_dir(&next).into_iter().flatten().flatten() {
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => waiting.push(entry.path()),
                Ok(kind) if kind.is_file() => found.push(entry.path()),
                _ => {}
            }
        }
    }
    found.sort();
    found
}
