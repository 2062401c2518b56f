//! `execute_code`: runs a Python script that can call tools.
//!
//! The script runs on this machine in the same sandbox as commands, and all its processes end with it. The
//! module that it imports is generated for the run (`module`). Its calls arrive over a socket (`rpc`) and are
//! handled like calls of the model. This module holds the order of these steps; `result` renders the result.

mod interpreter;
mod module;
mod reply;
mod result;
mod rpc;
mod staging;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use hermes_exec::{ScriptCommand, ScriptOutcome, ScriptRunner, Variables};
use hermes_types::{
    BoxFuture, CallKind, CallPolicy, Clock, TaskId, Tool, ToolContext, ToolDescriptor, ToolEvent,
    ToolInvocation, ToolOutcome, ToolSpec, ToolUser, random_hex,
};
use serde_json::{Map, Value};
use tokio::sync::OnceCell;

use crate::argument::text;
use crate::file::SecretMasking;
use crate::folders::TaskFolders;
use crate::task_variables::TaskVariables;
use interpreter::InterpreterSearch;
pub use module::CodeExecutionMode;
use module::callable_names;
use result::CodeRunFacts;
use rpc::ToolRpcService;
use staging::StagingFolder;

/// The settings of the tool.
#[derive(Debug, Clone)]
pub struct CodeOptions {
    pub mode: CodeExecutionMode,
    /// The time limit of a script: `code_execution.timeout`.
    pub timeout: Duration,
    /// The maximum number of calls of a script: `code_execution.max_tool_calls`.
    pub most_calls: usize,
    /// The setting `code_execution.python`.
    pub python: Option<String>,
    pub hermes_home: PathBuf,
    /// The folder for temporary files.
    pub temp: PathBuf,
    /// The environment variables that scripts get.
    pub variables: Variables,
    /// The time zone of scripts.
    pub timezone: Option<String>,
    pub secrets: SecretMasking,
}

/// The tools that scripts may call.
#[derive(Clone, Copy)]
#[expect(missing_debug_implementations, reason = "it only borrows ports")]
pub struct CallableTools<'a> {
    /// The tools of the session.
    pub session: &'a [Arc<dyn Tool>],
    /// All registered tools, used if the session has none that a script may call.
    pub all: &'a [Arc<dyn Tool>],
}

pub(crate) const DESCRIPTOR: ToolDescriptor<'static> = ToolDescriptor {
    name: "execute_code",
    toolset: "code_execution",
    summary: "Runs a Python script that calls other tools; only what it prints is returned",
    icon: "🐍",
    verb: "exec",
    preview_arguments: &["code"],
    withheld_from: &[ToolUser::Subagent],
    ..ToolDescriptor::unknown("")
};

/// The `execute_code` tool.
#[expect(missing_debug_implementations, reason = "it holds ports")]
pub struct ExecuteCodeTool {
    spec: ToolSpec,
    options: CodeOptions,
    module: String,
    tools: Vec<Arc<dyn Tool>>,
    folders: TaskFolders,
    task_variables: TaskVariables,
    scripts: ScriptRunner,
    clock: Arc<dyn Clock>,
    python: OnceCell<Result<PathBuf, String>>,
}

impl ExecuteCodeTool {
    /// The name of the tool.
    pub const NAME: &str = DESCRIPTOR.name;

    pub fn new(
        options: CodeOptions,
        choice: CallableTools<'_>,
        folders: TaskFolders,
        scripts: ScriptRunner,
        clock: Arc<dyn Clock>,
    ) -> Self {
        let mut tools = callable(choice.session);
        let mut names: Vec<&str> = callable_names();
        if tools.is_empty() {
            tools = callable(choice.all);
        } else {
            names.retain(|name| tools.iter().any(|tool| tool.spec().name == *name));
        }
        let spec = module::spec(&names, options.mode, options.timeout, options.most_calls);
        let module = module::module(&names);
        let task_variables = TaskVariables::default();
        let python = OnceCell::new();
        Self { spec, options, module, tools, folders, task_variables, scripts, clock, python }
    }

    /// Passes the variables of a task to its scripts, too.
    #[must_use]
    pub fn with_task_variables(self, task_variables: TaskVariables) -> Self {
        Self { task_variables, ..self }
    }

    async fn execute(&self, call: &ToolInvocation, context: ToolContext<'_>) -> ToolOutcome {
        let Some(code) = text(&call.arguments, "code") else {
            return ToolOutcome::failed("No code provided.");
        };
        let began = self.clock.monotonic();
        let limit = self.options.timeout.min(context.deadline.remaining(&*self.clock));
        let made = AtomicUsize::new(0);
        let ran = self.run_script(code, call, context, limit, &made).await;
        for tool in &self.tools {
            // The model has not seen the pages that the script has read.
            tool.on_event(&call.task, ToolEvent::Compressed);
        }
        let took = self.clock.monotonic().saturating_sub(began);
        let calls = made.load(Ordering::Relaxed);
        let facts = CodeRunFacts { calls, elapsed: took, limit, secrets: self.options.secrets };
        match ran {
            Ok(run) => result::run_outcome(&run, facts),
            Err(error) => result::not_run(&error, facts),
        }
    }

    async fn run_script(
        &self,
        code: &str,
        call: &ToolInvocation,
        context: ToolContext<'_>,
        limit: Duration,
        made: &AtomicUsize,
    ) -> Result<ScriptOutcome, String> {
        let home = existing(self.folders.current(&call.task)).unwrap_or_else(|| self.options.temp.clone());
        let python = self.python.get_or_init(|| self.search().find(&self.scripts, &home)).await.clone()?;
        let staging = StagingFolder::make(&self.options.temp, &self.module, code).map_err(|error| {
            format!("the script could not be written to {}: {error}", self.options.temp.display())
        })?;
        let listener =
            staging.listen().map_err(|error| format!("no socket for the script's calls: {error}"))?;
        let token = random_hex(32);
        let variables = self.variables(&staging, &token, &call.task);
        let directory = match self.options.mode {
            CodeExecutionMode::Project => existing(self.folders.current(&call.task)),
            CodeExecutionMode::Strict => None,
        };
        let script = ScriptCommand {
            program: &python,
            arguments: vec![staging.script().into()],
            variables: &variables,
            directory: directory.as_deref().unwrap_or(staging.folder()),
            sandbox_anchor: &self.folders.anchor(&call.task),
            limit,
            output_limits: result::OUTPUT,
            stderr_limit: result::STDERR_LIMIT,
        };
        let service = ToolRpcService {
            tools: &self.tools,
            script: call,
            context: ToolContext { spawn: None, ..context },
            token: &token,
            most_calls: self.options.most_calls,
            call_count: made,
        };
        // A call that is still running when the script ends is dropped, together with everything it started.
        tokio::select! {
            biased;
            ran = self.scripts.run(script, context.cancel) => ran.map_err(|error| error.to_string()),
            () = service.serve(&listener) => Err("the socket for the script's calls was closed".to_owned()),
        }
    }

    fn search(&self) -> InterpreterSearch<'_> {
        InterpreterSearch {
            mode: self.options.mode,
            configured: self.options.python.as_deref(),
            hermes_home: &self.options.hermes_home,
            variables: &self.options.variables,
        }
    }

    fn variables(&self, staging: &StagingFolder, token: &str, task: &TaskId) -> Variables {
        let folder = staging.folder().to_string_lossy();
        let path = match self.options.variables.get("PYTHONPATH").filter(|path| !path.is_empty()) {
            Some(path) => format!("{folder}:{path}"),
            None => folder.into_owned(),
        };
        let variables = self
            .options
            .variables
            .clone()
            .with_all(self.task_variables.of(task))
            .with("HERMES_RPC_SOCKET", &staging.socket().to_string_lossy())
            .with("HERMES_RPC_TOKEN", token)
            .with("PYTHONDONTWRITEBYTECODE", "1")
            .with("PYTHONIOENCODING", "utf-8")
            .with("PYTHONUTF8", "1")
            .with("PYTHONPATH", &path);
        match &self.options.timezone {
            Some(zone) => variables.with("TZ", zone),
            None => variables,
        }
    }
}

impl Tool for ExecuteCodeTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn descriptor(&self) -> ToolDescriptor<'_> {
        DESCRIPTOR
    }

    fn run<'a>(&'a self, call: &'a ToolInvocation, context: ToolContext<'a>) -> BoxFuture<'a, ToolOutcome> {
        Box::pin(self.execute(call, context))
    }

    fn call_policy(&self, _: &Map<String, Value>) -> CallPolicy {
        CallPolicy { kind: CallKind::Script, ..CallPolicy::default() }
    }
}

/// Returns the tools that a script may call, in the order of the Python module.
fn callable(tools: &[Arc<dyn Tool>]) -> Vec<Arc<dyn Tool>> {
    let find = |name: &str| tools.iter().find(|tool| tool.spec().name == name).cloned();
    callable_names().into_iter().filter_map(find).collect()
}

fn existing(folder: PathBuf) -> Option<PathBuf> {
    Some(folder).filter(|folder| Path::is_dir(folder))
}
