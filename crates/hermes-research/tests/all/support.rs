//! A dataset, a folder for the run, and agents with a model inside the test.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use hermes_agent::{Agent, AgentModels, PromptSource, TurnLimits};
use hermes_config::Home;
use hermes_research::{
    BatchObserver, BatchOptions, BatchProgress, BatchRun, BatchShard, BatchSummary, Dataset, DatasetRow,
    DistributionSampler, Error, ReasoningFilter, ResumePolicy, RolloutAgents, RolloutRunner, RolloutSettings,
    find_distribution,
};
use hermes_store::Store;
use hermes_testkit::{PlainTool, TestClock, TestModel};
use hermes_text::JsonTree;
use hermes_types::{BoxFuture, Cancel, CivilTime, TaskId};
use tempfile::TempDir;

pub(crate) struct Stage {
    pub(crate) folder: TempDir,
    pub(crate) model: Arc<TestModel>,
    pub(crate) store: Store,
    pub(crate) batch_size: usize,
    pub(crate) workers: usize,
    pub(crate) resume: ResumePolicy,
    pub(crate) shard: Option<BatchShard>,
    pub(crate) filter: ReasoningFilter,
    pub(crate) redact: Option<fn(&str) -> String>,
    pub(crate) max_turns: u32,
    /// What was prepared and released.
    pub(crate) tasks: Arc<Mutex<Vec<String>>>,
    pub(crate) stop: Cancel,
    pub(crate) cancel: Cancel,
}

#[derive(Default)]
pub(crate) struct Notices(pub(crate) Mutex<Vec<String>>);

impl BatchObserver for Notices {
    fn notice(&self, text: &str) {
        self.0.lock().unwrap().push(text.to_owned());
    }
}

pub(crate) struct StageAgents {
    pub(crate) agent: Agent,
    pub(crate) tasks: Arc<Mutex<Vec<String>>>,
}

impl RolloutAgents for StageAgents {
    fn agent(&self, _: &[&str]) -> Result<Agent, String> {
        Ok(self.agent.clone())
    }

    fn prepare<'a>(
        &'a self,
        task: &'a TaskId,
        row: &'a DatasetRow,
        _: &'a Cancel,
    ) -> BoxFuture<'a, Result<(), String>> {
        let ready = match row.image.as_deref() {
            Some("missing") => Err("the image missing cannot be fetched".to_owned()),
            image => {
                let place = image.map(|image| format!(" in {image} at {:?}", row.cwd)).unwrap_or_default();
                self.tasks.lock().unwrap().push(format!("{task}{place}"));
                Ok(())
            }
        };
        Box::pin(std::future::ready(ready))
    }

    fn release(&self, task: &TaskId) {
        self.tasks.lock().unwrap().push(format!("-{task}"));
    }
}

impl Stage {
    pub(crate) fn new(model: Arc<TestModel>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&folder.path().join("scratch.db")).unwrap();
        Self {
            folder,
            model,
            store,
            batch_size: 3,
            workers: 2,
            resume: ResumePolicy::ByIndex,
            shard: None,
            filter: ReasoningFilter::Required,
            redact: None,
            max_turns: 10,
            tasks: Arc::default(),
            stop: Cancel::new(),
            cancel: Cancel::new(),
        }
    }

    pub(crate) fn dataset(&self) -> PathBuf {
        self.folder.path().join("prompts.jsonl")
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// Writes the dataset: these prompts, one per line.
    pub(crate) fn write_prompts<'a>(&self, prompts: impl IntoIterator<Item = &'a str>) {
        let lines =
            prompts.into_iter().map(|prompt| JsonTree::object([("prompt", prompt.into())]).to_string());
        let lines = lines.collect::<Vec<_>>().join("\n");
        std::fs::write(self.dataset(), lines).unwrap();
    }

    pub(crate) async fn try_run(&self) -> (Result<BatchSummary, Error>, Vec<String>) {
        let home = Home::new(self.folder.path());
        let prompt = PromptSource::new(home, self.folder.path().to_owned());
        let models = AgentModels::new(self.model.clone(), "test-model");
        let clock = Arc::new(TestClock::auto_advance());
        let agent = Agent::builder(models, self.store.clone(), clock.clone(), prompt)
            .tool(Arc::new(PlainTool::named("terminal").saying(r#"{"output": "x", "exit_code": 0}"#)))
            .limits(TurnLimits { iterations: self.max_turns, ..TurnLimits::default() })
            .build();
        let settings = RolloutSettings {
            run_name: "run".to_owned(),
            model: "test-model".to_owned(),
            registered_tools: ["terminal", "read_file"].map(str::to_owned).into(),
            filter: self.filter,
            redact: self.redact,
            calendar: Arc::new(CivilTime::utc),
        };
        let observer = Arc::new(Notices::default());
        let run = BatchRun {
            options: BatchOptions {
                run_name: "run".to_owned(),
                folder: self.data(),
                batch_size: self.batch_size,
                workers: self.workers,
                resume: self.resume,
                shard: self.shard,
                verbose: false,
                preview_chars: 100,
                model: "test-model".to_owned(),
            },
            dataset: Dataset::open(&self.dataset(), None).unwrap(),
            sampler: DistributionSampler::new(find_distribution("terminal_only").unwrap(), Some(1), |_| true),
            runner: RolloutRunner::new(
                Arc::new(StageAgents { agent, tasks: self.tasks.clone() }),
                settings,
                Arc::new(BatchProgress::default()),
            ),
            clock,
            observer: observer.clone(),
        };
        let done = run.run(&self.stop, &self.cancel).await;
        let notices = std::mem::take(&mut *observer.0.lock().unwrap());
        (done, notices)
    }

    pub(crate) async fn run(&self) -> BatchSummary {
        let (done, notices) = self.try_run().await;
        done.unwrap_or_else(|error| panic!("{error}; {notices:?}"))
    }

    pub(crate) fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.data().join(name)).unwrap()
    }

    /// Returns the records of a file.
    pub(crate) fn records(&self, name: &str) -> Vec<JsonTree> {
        self.read(name).lines().map(|line| JsonTree::parse(line).unwrap()).collect()
    }

    /// Returns what the users of all trajectories asked, ordered.
    pub(crate) fn asked(&self) -> Vec<String> {
        let mut asked: Vec<String> = self.records("trajectories.jsonl").iter().map(human).collect();
        asked.sort_unstable();
        asked
    }
}

/// Returns what the user of a record asked.
pub(crate) fn human(record: &JsonTree) -> String {
    let turn = record.get("conversations").and_then(JsonTree::as_array).and_then(|turns| turns.get(1));
    turn.and_then(|turn| turn.get("value")).and_then(JsonTree::as_str).unwrap_or_default().to_owned()
}
