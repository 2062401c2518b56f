//! A service at its emulator, and conversations with it.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use hermes_config::{Env, Home};
use hermes_exec::{ProgramRunner, Variables};
use hermes_memory::{
    EngineAccess, EngineInputs, MemoryEngine, MemoryPerson, MemoryService, PersonalMemory, ServiceLimits,
    open_engine,
};
use hermes_net::{Config, HttpClient};
use hermes_task::SystemClock;
use hermes_testkit::{MEMORY_KEY, MemoryServers, TempHome};
use hermes_types::{
    Cancel, Clock, Deadline, ExternalMemory as _, FinishedTurn, Frontend, MemoryPlace, SessionId, TaskId,
    Tool, ToolContext, ToolInvocation, TurnEvent, TurnId, UserAnswer, UserQuestion,
};

pub(crate) struct Bench {
    pub(crate) servers: MemoryServers,
    pub(crate) home: TempHome,
    pub(crate) clock: Arc<dyn Clock>,
    env: Vec<(String, String)>,
}

impl Bench {
    /// Prepares the service of this name, with the key and the address of its emulator.
    pub(crate) fn new(service: &str) -> Self {
        let servers = MemoryServers::start().unwrap();
        let set = |name: &str, value: String| (name.to_owned(), value);
        let key = |name: &str| set(name, MEMORY_KEY.to_owned());
        let env = match service {
            "honcho" => vec![key("HONCHO_API_KEY"), set("HONCHO_BASE_URL", servers.base("honcho"))],
            "own-mem0" => vec![key("MEM0_API_KEY"), set("MEM0_HOST", servers.base("own-mem0"))],
            "hindsight" => {
                vec![key("HINDSIGHT_API_KEY"), set("HINDSIGHT_API_URL", servers.base("hindsight"))]
            }
            "supermemory" => {
                vec![key("SUPERMEMORY_API_KEY"), set("SUPERMEMORY_BASE_URL", servers.base("supermemory"))]
            }
            "retaindb" => vec![key("RETAINDB_API_KEY"), set("RETAINDB_BASE_URL", servers.base("retaindb"))],
            "openviking" => {
                vec![key("OPENVIKING_API_KEY"), set("OPENVIKING_URL", servers.base("openviking"))]
            }
            _ => Vec::new(),
        };
        let home = TempHome::builder().build().unwrap();
        Self { servers, home, clock: Arc::new(SystemClock::new()), env }
    }

    pub(crate) fn with_env(mut self, name: &str, value: &str) -> Self {
        self.env.retain(|(known, _)| known != name);
        self.env.push((name.to_owned(), value.to_owned()));
        self
    }

    pub(crate) fn engine(&self, name: &str) -> Result<Arc<dyn MemoryEngine>, String> {
        let clock = self.clock.clone();
        let http = Arc::new(move || HttpClient::new(Config::new(clock.clone())).map_err(|e| e.to_string()));
        let home = Home::new(self.home.path());
        let env = Env::from_pairs(self.env.clone());
        let path = format!("{}:/usr/bin:/bin", self.home.path().display());
        let variables = Variables::for_commands([("PATH", path.as_str())], &[], &[]);
        let inputs = EngineInputs {
            home: &home,
            user_home: Path::new("/nonexistent"),
            env: &env,
            profile: "hermes",
            access: EngineAccess::new(http, self.clock.clone(), Cancel::new()),
            programs: ProgramRunner::new(variables, self.clock.clone()),
            cancel: Cancel::new(),
        };
        open_engine(name, &inputs)
    }

    pub(crate) fn service(&self, name: &str) -> MemoryService {
        let limits = ServiceLimits { recall: Duration::from_secs(5), drain: Duration::from_secs(5) };
        let engine = self.engine(name).unwrap();
        MemoryService::new(engine, limits, self.clock.clone(), Cancel::new())
    }
}

/// Returns the person of an account, or the owner.
pub(crate) fn person(account: Option<&str>) -> MemoryPerson {
    MemoryPerson { account: account.map(|id| ("telegram".to_owned(), id.to_owned())) }
}

/// Recalls, stores and calls tools for one person in one session.
pub(crate) struct Talk {
    pub(crate) memory: PersonalMemory,
    pub(crate) session: SessionId,
}

impl Talk {
    pub(crate) fn new(service: &MemoryService, account: Option<&str>, session: &str) -> Self {
        Self { memory: service.of_person(person(account)), session: SessionId::from(session) }
    }

    pub(crate) fn place(&self) -> MemoryPlace<'_> {
        MemoryPlace { session: &self.session, folder: Path::new("/work/project") }
    }

    pub(crate) async fn recall(&self, words: &str) -> Option<String> {
        self.memory.recall(self.place(), words).await
    }

    pub(crate) fn say(&self, user: &str, assistant: &str) {
        self.memory.store_turn(self.place(), FinishedTurn { user, assistant });
    }

    pub(crate) fn tool(&self, name: &str) -> Arc<dyn Tool> {
        let tools = self.memory.tools();
        let found = tools.iter().find(|tool| tool.spec().name == name);
        found.unwrap_or_else(|| panic!("no tool {name}")).clone()
    }

    pub(crate) async fn call(&self, name: &str, arguments: serde_json::Value) -> String {
        let call = ToolInvocation {
            id: "c1".into(),
            name: name.to_owned(),
            arguments: arguments.as_object().cloned().unwrap_or_default(),
            session: self.session.clone(),
            turn: TurnId::generate(),
            task: TaskId::from("t"),
        };
        let clock = SystemClock::new();
        let cancel = Cancel::new();
        let context = ToolContext {
            frontend: &Nobody,
            cancel: &cancel,
            deadline: Deadline::after(&clock, Duration::from_secs(20)),
            spawn: None,
            turn_model: None,
        };
        self.tool(name).run(&call, context).await.content
    }
}

struct Nobody;

impl Frontend for Nobody {
    fn show(&self, _: TurnEvent) {}

    fn ask<'a>(&'a self, _: UserQuestion, _: &'a Cancel) -> hermes_types::BoxFuture<'a, UserAnswer> {
        Box::pin(std::future::ready(UserAnswer::Unavailable))
    }
}
