//! A fixture with a folder of files and methods to call tools in it.

use std::fs;
use std::path::Path;
use std::time::Duration;

use hermes_config::Home;
use hermes_tools::{FileGuard, FileOptions, FileTools, ToolRegistry};
use hermes_types::{
    BoxFuture, Cancel, Clock, Deadline, Frontend, Timestamp, Tool, ToolContext, ToolEvent, ToolInvocation,
    ToolOutcome, TurnEvent, UserAnswer, UserQuestion,
};
use serde_json::Value;
use tempfile::TempDir;

/// A user who cannot be asked.
pub(crate) struct UnattendedUser;

impl Frontend for UnattendedUser {
    fn show(&self, _: TurnEvent) {}

    fn ask<'a>(&'a self, _: UserQuestion, _: &'a Cancel) -> BoxFuture<'a, UserAnswer> {
        Box::pin(std::future::ready(UserAnswer::Unavailable))
    }
}

#[derive(Debug)]
pub(crate) struct FixedClock;

impl Clock for FixedClock {
    fn now(&self) -> Timestamp {
        Timestamp(0.0)
    }

    fn monotonic(&self) -> Duration {
        Duration::ZERO
    }

    fn sleep(&self, _: Duration) -> BoxFuture<'static, ()> {
        Box::pin(std::future::pending())
    }
}

pub(crate) struct FileFixture {
    top: TempDir,
    pub(crate) files: FileTools,
    registry: ToolRegistry,
}

impl FileFixture {
    /// Creates a fixture with files by name and content.
    pub(crate) fn with(files: &[(&str, &str)]) -> Self {
        Self::with_options(files, FileOptions::default())
    }

    pub(crate) fn with_options(files: &[(&str, &str)], options: FileOptions) -> Self {
        let folder = tempfile::tempdir().unwrap();
        for (name, content) in files {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        let root = folder.path();
        let home = Home::new(root.join("home"));
        let files = FileTools::new(FileGuard::new(root.to_owned(), root.to_owned(), &home), options);
        let registry = ToolRegistry::file_tools(&files);
        Self { top: folder, files, registry }
    }

    /// Applies a sandbox to the file tools.
    pub(crate) fn with_sandbox(self, sandbox: hermes_exec::Sandbox) -> Self {
        let files = self.files.with_sandbox(sandbox);
        let registry = ToolRegistry::file_tools(&files);
        Self { files, registry, ..self }
    }

    pub(crate) fn path(&self) -> &Path {
        self.top.path()
    }

    pub(crate) fn text(&self, name: &str) -> String {
        fs::read_to_string(self.path().join(name)).unwrap()
    }

    pub(crate) fn exists(&self, name: &str) -> bool {
        self.path().join(name).exists()
    }

    /// Changes a file without the tools, with a visibly newer modification time.
    pub(crate) fn change(&self, name: &str, content: &str) {
        fs::write(self.path().join(name), content).unwrap();
        let file = fs::File::options().write(true).open(self.path().join(name)).unwrap();
        let modified = file.metadata().unwrap().modified().unwrap();
        file.set_modified(modified + Duration::from_secs(5)).unwrap();
    }

    pub(crate) fn notice(&self, occasion: ToolEvent<'_>) {
        for tool in self.registry.tools() {
            tool.on_event(&"t".into(), occasion);
        }
    }

    pub(crate) fn call(&self, tool: &str, arguments: Value) -> ToolOutcome {
        self.call_as("t", tool, arguments)
    }

    pub(crate) fn call_as(&self, task: &str, tool: &str, arguments: Value) -> ToolOutcome {
        let tool = self.registry.find(tool).unwrap();
        tool.on_event(&task.into(), ToolEvent::CallStarting(&tool.spec().name));
        run(tool.as_ref(), task, arguments, &UnattendedUser)
    }

    /// Makes several calls at once, as one response of a model may contain them.
    pub(crate) fn together(&self, tool: &str, calls: Vec<Value>) -> Vec<Value> {
        let tool = self.registry.find(tool).unwrap();
        let calls: Vec<ToolInvocation> =
            calls.into_iter().map(|arguments| call(tool.as_ref(), "t", arguments)).collect();
        let cancel = Cancel::new();
        let deadline = Deadline::after(&FixedClock, Duration::from_mins(1));
        let context = ToolContext {
            frontend: &UnattendedUser,
            cancel: &cancel,
            deadline,
            spawn: None,
            turn_model: None,
        };
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let running = futures_util::future::join_all(calls.iter().map(|call| tool.run(call, context)));
        runtime.block_on(running).iter().map(parse).collect()
    }

    /// Calls a tool and parses the result as JSON without the hint after it.
    pub(crate) fn json(&self, tool: &str, arguments: Value) -> Value {
        parse(&self.call(tool, arguments))
    }

    pub(crate) fn json_as(&self, task: &str, tool: &str, arguments: Value) -> Value {
        parse(&self.call_as(task, tool, arguments))
    }
}

fn call(tool: &dyn Tool, task: &str, arguments: Value) -> ToolInvocation {
    let Value::Object(arguments) = arguments else { panic!("arguments are an object") };
    ToolInvocation {
        id: "call_1".into(),
        name: tool.spec().name.clone(),
        arguments,
        session: "s".into(),
        turn: "turn".into(),
        task: task.into(),
    }
}

/// Calls a tool once.
pub(crate) fn run(tool: &dyn Tool, task: &str, arguments: Value, frontend: &dyn Frontend) -> ToolOutcome {
    let call = call(tool, task, arguments);
    let cancel = Cancel::new();
    let deadline = Deadline::after(&FixedClock, Duration::from_mins(1));
    let context = ToolContext { frontend, cancel: &cancel, deadline, spawn: None, turn_model: None };
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(tool.run(&call, context))
}

pub(crate) fn parse(outcome: &ToolOutcome) -> Value {
    let json = outcome.content.split("\n\n[Hint").next().unwrap_or_default().to_owned();
    serde_json::from_str(&json).unwrap_or_else(|_| panic!("{}", outcome.content))
}
