//! An environment that is a program: it reads questions of Hermes and answers them, one JSON object per line.
//!
//! While the program judges a rollout it may call the tools of that rollout; its questions and those of Hermes go both ways at the same
//! time. Invariant: the program ends with Hermes; a program that ended or wrote nonsense fails what waits for it, with the reason.

use std::collections::HashMap;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hermes_exec::{PipeWriter, PipedLine, PipedProcess, Program, ProgramRunner, StderrMode};
use hermes_task::{Task, spawn_named};
use hermes_text::head;
use hermes_types::{BoxFuture, Cancel, Clock};
use serde_json::{Map, Value, json};
use tokio::sync::oneshot;

use super::definition::{JudgedRollout, TrainingEnvironment};
use super::rollout_tools::RolloutTools;
use super::settings::EnvironmentSettings;
use crate::error::Error;

/// The longest line of a program.
const LONGEST_LINE: usize = 64 * 1024 * 1024;
/// How long a program may think about one question.
const ANSWER_LIMIT: Duration = Duration::from_mins(30);
/// How long it may take to describe itself.
const DESCRIBE_LIMIT: Duration = Duration::from_mins(2);

type Answer = Result<Value, String>;

/// What a running program and those who ask it share.
struct Conversation {
    waiting: Mutex<HashMap<u64, oneshot::Sender<Answer>>>,
    rollouts: Mutex<HashMap<String, RolloutTools>>,
    next: AtomicU64,
    /// Why the program cannot be asked any more.
    ended: Mutex<Option<String>>,
}

/// An environment that is a program.
pub struct ProgramEnvironment {
    name: String,
    defaults: Map<String, Value>,
    own_keys: Vec<String>,
    evaluation_only: bool,
    /// The questions the program answers besides the required ones.
    optional: Vec<String>,
    conversation: Arc<Conversation>,
    writer: PipeWriter,
    clock: Arc<dyn Clock>,
    cancel: Cancel,
    state: Mutex<Value>,
    _reader: Task<()>,
}

impl std::fmt::Debug for ProgramEnvironment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ProgramEnvironment").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Drop for ProgramEnvironment {
    fn drop(&mut self) {
        self.cancel.cancel();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl ProgramEnvironment {
    /// Starts a program and lets it describe itself.
    pub async fn start(programs: &ProgramRunner, path: &Path, clock: Arc<dyn Clock>) -> Result<Self, Error> {
        let shown = path.display().to_string();
        let unusable = |why: &str| Error::Unusable(format!("{shown}: {why}"));
        // A bare name would be looked for on the path.
        let whole = std::fs::canonicalize(path).map_err(Error::file(path))?;
        let mode = std::fs::metadata(&whole).map_err(Error::file(path))?.permissions().mode();
        if mode & 0o111 == 0 {
            return Err(unusable("it is neither a YAML file (.yaml) nor executable"));
        }
        let folder = std::env::current_dir().map_err(Error::file(Path::new(".")))?;
        let program = Program {
            name: whole.to_str().ok_or_else(|| unusable("its name is not UTF-8"))?,
            arguments: Vec::new(),
            directory: &folder,
            limit: ANSWER_LIMIT,
            stderr: StderrMode::Merge,
        };
        let started = programs.piped(program, LONGEST_LINE).await;
        let mut process = started.map_err(|error| unusable(&error.to_string()))?;
        let writer = process.take_input().ok_or_else(|| unusable("it takes no input"))?;
        let conversation = Arc::new(Conversation {
            waiting: Mutex::default(),
            rollouts: Mutex::default(),
            next: AtomicU64::new(1),
            ended: Mutex::default(),
        });
        let cancel = Cancel::new();
        let reader = spawn_named(
            format!("environment {shown}"),
            &cancel,
            read(process, conversation.clone(), writer.clone(), cancel.clone()),
        );
        let mut environment = Self {
            name: String::new(),
            defaults: Map::new(),
            own_keys: Vec::new(),
            evaluation_only: false,
            optional: Vec::new(),
            conversation,
            writer,
            clock,
            cancel,
            state: Mutex::new(Value::Null),
            _reader: reader,
        };
        let described = environment.ask("describe", json!({}), DESCRIBE_LIMIT).await;
        let described = described.map_err(|reason| unusable(&reason))?;
        let name = described.get("name").and_then(Value::as_str).unwrap_or_default();
        let is_word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
        if name.is_empty() || !name.chars().all(is_word) {
            return Err(unusable("`describe` must return a `name` of letters, digits, `-` and `_`"));
        }
        let words = |key: &str| -> Vec<String> {
            let words = described.get(key).and_then(Value::as_array).into_iter().flatten();
            words.filter_map(Value::as_str).map(str::to_owned).collect()
        };
        name.clone_into(&mut environment.name);
        environment.defaults = described.get("env").and_then(Value::as_object).cloned().unwrap_or_default();
        environment.own_keys = words("own_keys");
        environment.optional = words("methods");
        environment.evaluation_only =
            described.get("evaluation_only").and_then(Value::as_bool).unwrap_or(false);
        Ok(environment)
    }

    async fn ask(&self, method: &str, params: Value, limit: Duration) -> Answer {
        let id = self.conversation.next.fetch_add(1, Relaxed);
        let (sender, receiver) = oneshot::channel();
        lock(&self.conversation.waiting).insert(id, sender);
        if let Some(reason) = lock(&self.conversation.ended).clone() {
            lock(&self.conversation.waiting).remove(&id);
            return Err(reason);
        }
        let line = json!({"id": id, "method": method, "params": params}).to_string();
        if self.writer.write_line(line.as_bytes()).await.is_err() {
            lock(&self.conversation.waiting).remove(&id);
            // The reader may not have come to the end yet.
            let ended = lock(&self.conversation.ended).clone();
            return Err(ended.unwrap_or_else(|| "the environment has ended".to_owned()));
        }
        tokio::select! {
            answer = receiver => answer.unwrap_or_else(|_| Err("the environment has ended".to_owned())),
            () = self.clock.sleep(limit) => {
                lock(&self.conversation.waiting).remove(&id);
                Err(format!("the environment did not answer `{method}` within {} s", limit.as_secs()))
            }
        }
    }

    async fn ask_optional(&self, method: &str, params: Value) -> Option<Answer> {
        if !self.optional.iter().any(|known| known == method) {
            return None;
        }
        Some(self.ask(method, params, ANSWER_LIMIT).await)
    }
}

/// Reads what the program says, until it ends.
async fn read(
    mut process: PipedProcess,
    conversation: Arc<Conversation>,
    writer: PipeWriter,
    cancel: Cancel,
) {
    let reason = loop {
        match process.next_line().await {
            Ok(Some(PipedLine::Output(line))) => {
                if line.is_empty() {
                    continue;
                }
                if let Err(reason) = take_line(&line, &conversation, &writer, &cancel) {
                    break reason;
                }
            }
            Ok(Some(PipedLine::Stderr(line))) => tracing::info!(line, "an environment wrote"),
            Ok(None) => break "the environment has ended".to_owned(),
            Err(error) => break format!("the environment cannot be read: {error}"),
        }
    };
    *lock(&conversation.ended) = Some(reason.clone());
    for (_, waiting) in lock(&conversation.waiting).drain() {
        // Nobody may wait any more.
        let _ = waiting.send(Err(reason.clone()));
    }
}

/// Takes a line: an answer, or a call of a tool.
fn take_line(
    line: &[u8],
    conversation: &Arc<Conversation>,
    writer: &PipeWriter,
    cancel: &Cancel,
) -> Result<(), String> {
    let unreadable = || {
        format!("the environment wrote no JSON object but `{}`", head(&String::from_utf8_lossy(line), 200))
    };
    let message: Value = serde_json::from_slice(line).map_err(|_| unreadable())?;
    if let Some(id) = message.get("id").and_then(Value::as_u64) {
        let Some(waiting) = lock(&conversation.waiting).remove(&id) else { return Ok(()) };
        let error = message.get("error").filter(|error| !error.is_null());
        let answer = match error {
            Some(error) => Err(error.as_str().map_or_else(|| error.to_string(), str::to_owned)),
            None => Ok(message.get("result").cloned().unwrap_or(Value::Null)),
        };
        let _ = waiting.send(answer);
        return Ok(());
    }
    let Some(call) = message.get("call").cloned() else { return Err(unreadable()) };
    let rollout = message.get("rollout").and_then(Value::as_str).unwrap_or_default();
    let tools = lock(&conversation.rollouts).get(rollout).cloned();
    let writer = writer.clone();
    let task = spawn_named("call of an environment", cancel, async move {
        let reply = match tools {
            Some(tools) => match call_tools(&tools, &message).await {
                Ok(result) => json!({"call": call, "result": result}),
                Err(reason) => json!({"call": call, "error": reason}),
            },
            None => json!({"call": call, "error": "there is no such rollout"}),
        };
        // A program that has ended needs no answer.
        let _ = writer.write_line(reply.to_string().as_bytes()).await;
    });
    drop(task);
    Ok(())
}

/// Runs a call of the program.
async fn call_tools(tools: &RolloutTools, message: &Value) -> Result<Value, String> {
    let method = message.get("method").and_then(Value::as_str).unwrap_or_default();
    let params = message.get("params").cloned().unwrap_or_else(|| json!({}));
    let text = |name: &str| {
        params.get(name).and_then(Value::as_str).ok_or_else(|| format!("`{method}` needs `{name}`"))
    };
    let seconds = params.get("timeout").and_then(Value::as_u64).unwrap_or(180);
    let ran = |result: super::rollout_tools::CommandResult| json!({"exit_code": result.exit_code, "output": result.output});
    let copied = |copied: Result<usize, String>| match copied {
        Ok(bytes) => json!({"success": true, "bytes": bytes}),
        Err(reason) => json!({"success": false, "error": reason}),
    };
    Ok(match method {
        "terminal" => ran(tools.terminal(text("command")?, seconds).await),
        "search" => {
            let path = params.get("path").and_then(Value::as_str).unwrap_or(".");
            tools.call("search_files", json!({"pattern": text("query")?, "path": path})).await
        }
        "upload_file" => ran(tools.upload_file(Path::new(text("local")?), text("remote")?).await),
        "upload_dir" => {
            tools.upload_dir(Path::new(text("local")?), text("remote")?).await.into_iter().map(ran).collect()
        }
        "download_file" => copied(tools.download_file(text("remote")?, Path::new(text("local")?)).await),
        "download_dir" => tools
            .download_dir(text("remote")?, Path::new(text("local")?))
            .await
            .into_iter()
            .map(copied)
            .collect(),
        "call_tool" => {
            let arguments = params.get("arguments").and_then(Value::as_object).cloned().unwrap_or_default();
            json!(tools.call_tool(text("name")?, arguments).await)
        }
        "read_file" | "write_file" | "web_search" | "web_extract" | "browser_navigate"
        | "browser_snapshot" => tools.call(method, params).await,
        other => return Err(format!("there is no call `{other}`")),
    })
}

impl TrainingEnvironment for ProgramEnvironment {
    fn name(&self) -> &str {
        &self.name
    }

    fn defaults(&self) -> Map<String, Value> {
        self.defaults.clone()
    }

    fn own_keys(&self) -> Vec<String> {
        self.own_keys.clone()
    }

    fn is_evaluation_only(&self) -> bool {
        self.evaluation_only
    }

    fn set_up<'a>(&'a self, settings: &'a EnvironmentSettings) -> BoxFuture<'a, Result<(), String>> {
        Box::pin(async move {
            let params = json!({
                "group_size": settings.group_size,
                "max_agent_turns": settings.max_agent_turns,
                "dataset_name": settings.dataset_name,
                "dataset_split": settings.dataset_split,
                "prompt_field": settings.prompt_field,
                "own": settings.own,
            });
            self.ask("setup", params, ANSWER_LIMIT).await.map(drop)
        })
    }

    fn next_item(&self) -> BoxFuture<'_, Result<Option<Value>, String>> {
        Box::pin(async move {
            let item = self.ask("next_item", json!({}), ANSWER_LIMIT).await?;
            if let Some(Ok(state)) = self.ask_optional("state", json!({})).await {
                *lock(&self.state) = state;
            }
            Ok((!item.is_null()).then_some(item))
        })
    }

    fn prompt<'a>(&'a self, item: &'a Value) -> BoxFuture<'a, Result<String, String>> {
        Box::pin(async move {
            let prompt = self.ask("prompt", json!({"item": item}), ANSWER_LIMIT).await?;
            prompt.as_str().map(str::to_owned).ok_or_else(|| "`prompt` must return a text".to_owned())
        })
    }

    fn reward<'a>(&'a self, rollout: &'a JudgedRollout<'a>) -> BoxFuture<'a, Result<f64, String>> {
        Box::pin(async move {
            let id = rollout.tools.task().as_str().to_owned();
            lock(&self.conversation.rollouts).insert(id.clone(), rollout.tools.clone());
            let errors = rollout.result.tool_errors.iter().map(|error| {
                json!({"turn": error.turn, "tool_name": error.tool, "arguments": error.arguments, "error": error.error, "tool_result": error.result})
            });
            let params = json!({
                "rollout": id,
                "item": rollout.item,
                "result": {
                    "messages": rollout.result.messages,
                    "turns_used": rollout.result.turns_used,
                    "finished_naturally": rollout.result.finished_naturally,
                    "reasoning_per_turn": rollout.result.reasoning_per_turn,
                    "tool_errors": errors.collect::<Value>(),
                },
            });
            let reward = self.ask("reward", params, ANSWER_LIMIT).await;
            lock(&self.conversation.rollouts).remove(&id);
            reward?.as_f64().ok_or_else(|| "`reward` must return a number".to_owned())
        })
    }

    fn evaluation_items(&self) -> BoxFuture<'_, Result<Vec<Value>, String>> {
        Box::pin(async move {
            let items = self.ask_optional("evaluation_items", json!({})).await.unwrap_or(Ok(json!([])))?;
            items.as_array().cloned().ok_or_else(|| "`evaluation_items` must return a list".to_owned())
        })
    }

    fn state(&self) -> Value {
        lock(&self.state).clone()
    }

    fn restore(&self, state: &Value) {
        let (state, id) = (state.clone(), self.conversation.next.fetch_add(1, Relaxed));
        if state.is_null() || !self.optional.iter().any(|known| known == "restore") {
            return;
        }
        let line = json!({"id": id, "method": "restore", "params": {"state": state}}).to_string();
        let writer = self.writer.clone();
        // Its answer says nothing, and lines are read in order.
        drop(spawn_named("restoring an environment", &self.cancel, async move {
            let _ = writer.write_line(line.as_bytes()).await;
        }));
    }
}
