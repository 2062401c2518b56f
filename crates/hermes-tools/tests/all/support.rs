//! A folder of files and a way to call a tool in it.

use std::fs;

use hermes_config::Home;
use hermes_tools::{FileGuard, Registry};
use hermes_types::{
    Answer, BoxFuture, Call, Cancel, Clock, Deadline, Event, Frontend, Outcome, Question, Timestamp,
    ToolContext,
};
use serde_json::Value;
use tempfile::TempDir;

/// A user nobody can ask.
struct Nobody;

impl Frontend for Nobody {
    fn show(&self, _: Event) {}

    fn ask<'a>(&'a self, _: Question, _: &'a Cancel) -> BoxFuture<'a, Answer> {
        Box::pin(std::future::ready(Answer::Unavailable))
    }
}

#[derive(Debug)]
struct StandingClock;

impl Clock for StandingClock {
    fn now(&self) -> Timestamp {
        Timestamp(0.0)
    }

    fn monotonic(&self) -> std::time::Duration {
        std::time::Duration::ZERO
    }

    fn sleep(&self, _: std::time::Duration) -> BoxFuture<'static, ()> {
        Box::pin(std::future::pending())
    }
}

pub(crate) struct Folder(pub(crate) TempDir);

impl Folder {
    /// Files by name and content.
    pub(crate) fn with(files: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        for (name, content) in files {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        Self(folder)
    }

    pub(crate) fn call(&self, tool: &str, arguments: Value) -> Outcome {
        let root = self.0.path();
        let home = Home::at(root.join("home"));
        let registry = Registry::built_in(&FileGuard::new(root.to_owned(), root.to_owned(), &home));
        let Value::Object(arguments) = arguments else { panic!("arguments are an object") };
        let call = Call {
            id: "call_1".into(),
            name: tool.to_owned(),
            arguments,
            session: "s".into(),
            turn: "turn".into(),
            task: "t".into(),
        };
        let cancel = Cancel::new();
        let deadline = Deadline::after(&StandingClock, std::time::Duration::from_mins(1));
        let context = ToolContext { frontend: &Nobody, cancel: &cancel, deadline };
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(registry.find(tool).unwrap().run(&call, context))
    }

    /// The answer as JSON; a hint behind it is left out.
    pub(crate) fn json(&self, tool: &str, arguments: Value) -> Value {
        let outcome = self.call(tool, arguments);
        let json = outcome.content.split("\n\n[Hint").next().unwrap_or_default().to_owned();
        serde_json::from_str(&json).unwrap_or_else(|_| panic!("{}", outcome.content))
    }
}
