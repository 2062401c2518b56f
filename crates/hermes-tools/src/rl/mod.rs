//! `rl_*`: training runs on a checkout of tinker-atropos.
//!
//! The selection, its settings and the runs belong to the process and end with it. Invariants: a run's programs are started through
//! hermes-exec and end with Hermes; no key is in a result or in a log.

mod checkout;
mod inference;
mod locked;
mod training;
mod wandb;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hermes_exec::ProgramRunner;
use hermes_types::{
    BoxFuture, Cancel, CivilTime, Clock, ResultAuthor, Secret, Timestamp, Tool, ToolContext, ToolDescriptor,
    ToolInvocation, ToolOutcome, ToolSpec, random_hex,
};
use serde_json::{Map, Value, json};

use crate::argument::{missing, number, spec, text};
use checkout::{TrainerEnvironment, TrainerField, environments, fields};
use inference::InferenceTest;
use training::{TrainingPlan, TrainingRun, TrainingState};
pub use wandb::MetricsService;

/// How often the state of a run is told.
const STATUS_INTERVAL: Duration = Duration::from_mins(30);

const BASE: ToolDescriptor<'static> = ToolDescriptor {
    toolset: "rl",
    condition: "when `TINKER_API_KEY` and `WANDB_API_KEY` are set and there is a Python 3.11 or newer",
    icon: "🧪",
    verb: "train",
    preview_arguments: &["name", "run_id", "field"],
    result_author: ResultAuthor::Others,
    ..ToolDescriptor::unknown("")
};

macro_rules! rl_tools {
    ($($constant:ident $variant:ident $name:literal $summary:literal;)*) => {
        $(pub(crate) const $constant: ToolDescriptor<'static> =
            ToolDescriptor { name: $name, summary: $summary, ..BASE };)*

        /// What one of the tools does.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        enum RlAction { $($variant,)* }

        const ACTIONS: &[(RlAction, &ToolDescriptor<'static>, &str, &str)] = &[
            $((RlAction::$variant, &$constant,
               include_str!(concat!("../texts/", $name, ".md")),
               include_str!(concat!("../texts/", $name, ".json"))),)*
        ];
    };
}

rl_tools! {
    LIST_ENVIRONMENTS ListEnvironments "rl_list_environments" "Lists the training environments";
    SELECT_ENVIRONMENT SelectEnvironment "rl_select_environment" "Selects an environment";
    GET_CURRENT_CONFIG GetCurrentConfig "rl_get_current_config" "Shows the settings of the environment";
    EDIT_CONFIG EditConfig "rl_edit_config" "Changes a setting";
    START_TRAINING StartTraining "rl_start_training" "Starts a training run";
    CHECK_STATUS CheckStatus "rl_check_status" "Shows the state of a run";
    STOP_TRAINING StopTraining "rl_stop_training" "Stops a run";
    GET_RESULTS GetResults "rl_get_results" "Shows the figures of a run";
    LIST_RUNS ListRuns "rl_list_runs" "Lists the runs";
    TEST_INFERENCE TestInference "rl_test_inference" "Tries an environment with hosted models";
}

/// What training needs of the program.
#[derive(Debug, Clone)]
pub struct TrainerAccess {
    /// The checkout of tinker-atropos.
    pub checkout: PathBuf,
    /// The interpreter, 3.11 or newer.
    pub python: String,
    /// Where logs go: `logs/rl_training` in the home.
    pub logs: PathBuf,
    /// Starts programs with the trainer's key in their variables.
    pub programs: ProgramRunner,
    pub metrics: MetricsService,
    /// The key and the address of the models of `rl_test_inference`.
    pub inference_key: Option<Secret>,
    pub inference_url: String,
    pub clock: Arc<dyn Clock>,
    pub local_time: fn(Timestamp) -> CivilTime,
}

struct SelectedEnvironment {
    environment: TrainerEnvironment,
    fields: Vec<TrainerField>,
    values: Map<String, Value>,
}

#[derive(Default)]
struct SessionState {
    environments: Option<Vec<TrainerEnvironment>>,
    selected: Option<SelectedEnvironment>,
    runs: Vec<Arc<TrainingRun>>,
    told: HashMap<String, Duration>,
}

/// The selection and the runs of this process. Dropping it ends the runs.
pub struct RlSession {
    state: Mutex<SessionState>,
    owner: Cancel,
}

impl std::fmt::Debug for RlSession {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RlSession").finish_non_exhaustive()
    }
}

impl Default for RlSession {
    fn default() -> Self {
        Self { state: Mutex::default(), owner: Cancel::new() }
    }
}

impl Drop for RlSession {
    fn drop(&mut self) {
        self.owner.cancel();
    }
}

impl RlSession {
    fn lock(&self) -> MutexGuard<'_, SessionState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn find_run(&self, id: &str) -> Option<Arc<TrainingRun>> {
        self.lock().runs.iter().find(|run| run.plan.id == id).cloned()
    }

    /// Ends all runs, and waits for it.
    pub async fn end_all(&self) {
        let runs = self.lock().runs.clone();
        for run in runs {
            run.end().await;
        }
    }

    /// Describes the runs in lines for a person.
    pub fn describe_runs(&self) -> Vec<String> {
        let state = self.lock();
        let lines = state
            .runs
            .iter()
            .map(|run| format!("{}  {}  {}", run.plan.id, run.state().as_str(), run.plan.wandb_run));
        lines.collect()
    }
}

/// Lists the environments of a checkout in lines for a person.
pub fn describe_trainer_environments(checkout: &Path) -> Result<Vec<String>, String> {
    let found = environments(checkout)?;
    Ok(found
        .iter()
        .map(|one| format!("{}  {} ({})", one.name, one.description, one.path.display()))
        .collect())
}

/// One of the tools.
#[derive(Debug)]
pub struct RlTool {
    spec: ToolSpec,
    action: RlAction,
    descriptor: &'static ToolDescriptor<'static>,
    access: TrainerAccess,
    session: Arc<RlSession>,
}

impl RlTool {
    /// Builds all tools on one session.
    pub fn all(access: &TrainerAccess, session: &Arc<RlSession>) -> Vec<Self> {
        let tools = ACTIONS.iter().map(|(action, descriptor, description, parameters)| Self {
            spec: spec(descriptor, description, parameters),
            action: *action,
            descriptor,
            access: access.clone(),
            session: session.clone(),
        });
        tools.collect()
    }

    async fn execute(&self, arguments: &Map<String, Value>, cancel: &Cancel) -> Result<Value, ToolOutcome> {
        let required = |name: &str| text(arguments, name).ok_or_else(|| missing(&self.spec.name, name));
        let done = match self.action {
            RlAction::ListEnvironments => self.list_environments(),
            RlAction::SelectEnvironment => self.select(required("name")?.trim(), cancel).await,
            RlAction::GetCurrentConfig => self.current_config(),
            RlAction::EditConfig => {
                let field = required("field")?.trim();
                let value =
                    arguments.get("value").cloned().ok_or_else(|| missing(&self.spec.name, "value"))?;
                self.edit(field, &value)
            }
            RlAction::StartTraining => self.start(),
            RlAction::CheckStatus => self.status(required("run_id")?.trim(), cancel).await,
            RlAction::StopTraining => self.stop(required("run_id")?.trim()).await,
            RlAction::GetResults => self.results(required("run_id")?.trim(), cancel).await,
            RlAction::ListRuns => Ok(self.list_runs()),
            RlAction::TestInference => self.test_inference(arguments, cancel).await,
        };
        done.map_err(|error| failure(&error))
    }

    fn environments(&self) -> Result<Vec<TrainerEnvironment>, Value> {
        let mut state = self.session.lock();
        if let Some(known) = &state.environments {
            return Ok(known.clone());
        }
        let found = environments(&self.access.checkout).map_err(|reason| json!({"error": reason}))?;
        state.environments = Some(found.clone());
        Ok(found)
    }

    fn list_environments(&self) -> Result<Value, Value> {
        let found = self.environments()?;
        Ok(json!({
            "environments": found.iter().map(TrainerEnvironment::to_json).collect::<Vec<_>>(),
            "count": found.len(),
            "tips": ["Select one with rl_select_environment.", "Read its file to understand its tasks and its reward."],
        }))
    }

    async fn select(&self, name: &str, cancel: &Cancel) -> Result<Value, Value> {
        let found = self.environments()?;
        let Some(environment) = found.iter().find(|one| one.name == name).cloned() else {
            let names: Vec<&str> = found.iter().map(|one| one.name.as_str()).collect();
            return Err(json!({"error": format!("there is no environment `{name}`"), "available": names}));
        };
        let TrainerAccess { python, checkout, programs, clock, local_time, .. } = &self.access;
        let fields = fields(&environment, python, checkout, programs, cancel).await;
        let fixed = locked::environment();
        let open = fields.iter().filter(|field| !fixed.contains_key(&field.name));
        let mut values: Map<String, Value> =
            open.map(|field| (field.name.clone(), field.default.clone())).collect();
        let now = local_time(clock.now());
        let CivilTime { year, month, day, hour, minute, second } = now;
        let stamp = format!("{year:04}{month:02}{day:02}-{hour:02}{minute:02}{second:02}");
        values.insert("wandb_name".to_owned(), json!(format!("{name}-{stamp}")));
        let answer = json!({
            "message": format!("`{name}` is selected; rl_get_current_config shows its settings"),
            "environment": name,
            "file_path": environment.path.display().to_string(),
        });
        self.session.lock().selected = Some(SelectedEnvironment { environment, fields, values });
        Ok(answer)
    }

    fn current_config(&self) -> Result<Value, Value> {
        let state = self.session.lock();
        let selected = state.selected.as_ref().ok_or_else(nothing_selected)?;
        let fixed = locked::environment();
        let describe = |field: &TrainerField| json!({"name": field.name, "type": field.kind, "default": field.default, "description": field.description});
        let (mut open, mut closed) = (Vec::new(), Vec::new());
        for field in &selected.fields {
            let mut shown = describe(field);
            if let Some(value) = fixed.get(&field.name) {
                shown["current_value"] = value.clone();
                shown["locked_value"] = value.clone();
                closed.push(shown);
            } else {
                shown["current_value"] = selected.values.get(&field.name).cloned().unwrap_or(Value::Null);
                open.push(shown);
            }
        }
        Ok(json!({
            "environment": selected.environment.name,
            "configurable_fields": open,
            "locked_fields": closed,
            "tip": "Change one with rl_edit_config; locked ones stay as the trainer needs them.",
        }))
    }

    fn edit(&self, field: &str, value: &Value) -> Result<Value, Value> {
        let mut state = self.session.lock();
        let selected = state.selected.as_mut().ok_or_else(nothing_selected)?;
        if let Some(fixed) = locked::environment().get(field) {
            return Err(json!({"error": format!("`{field}` is locked"), "locked_value": fixed}));
        }
        if !selected.values.contains_key(field) {
            let names: Vec<&String> = selected.values.keys().collect();
            return Err(
                json!({"error": format!("there is no setting `{field}`"), "available_fields": names}),
            );
        }
        selected.values.insert(field.to_owned(), value.clone());
        Ok(json!({
            "message": format!("`{field}` is changed"),
            "field": field,
            "value": value,
            "config": selected.values,
        }))
    }

    fn start(&self) -> Result<Value, Value> {
        let mut state = self.session.lock();
        let selected = state.selected.as_ref().ok_or_else(nothing_selected)?;
        if let Some(active) = state.runs.iter().find(|run| run.state().is_active()) {
            return Err(json!({"error": format!("the run {} goes on; stop it first", active.plan.id)}));
        }
        let id = random_hex(8);
        let TrainerAccess { checkout, python, logs, programs, clock, .. } = &self.access;
        let environment = &selected.environment;
        let text =
            |name: &str| selected.values.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
        let project = text("wandb_project").unwrap_or("atropos-tinker").to_owned();
        let name = format!("{}-{id}", environment.name);
        let config = locked::run_config(&selected.values, &project, &name);
        let path = checkout.join("configs").join(format!("run_{id}.yaml"));
        let yaml = hermes_config::yaml::emit_block(&hermes_config::yaml::YamlValue::from_json(&config));
        write_private(&path, &yaml).map_err(|reason| json!({"error": reason}))?;
        let plan = TrainingPlan {
            id: id.clone(),
            environment: environment.name.clone(),
            environment_file: environment.path.clone(),
            config: path.clone(),
            checkout: checkout.clone(),
            python: python.clone(),
            logs: logs.clone(),
            wandb_project: project.clone(),
            wandb_run: name.clone(),
        };
        let answer = json!({
            "run_id": id,
            "status": TrainingState::Starting.as_str(),
            "environment": environment.name,
            "config": selected.values,
            "wandb_project": project,
            "wandb_run_name": name,
            "config_path": path.display().to_string(),
            "logs": plan.logs_json(),
            "message": "The programs start one after the other, which takes about two minutes. Look at the run with rl_check_status in 30 minutes.",
        });
        let run = TrainingRun::start(plan, programs.clone(), clock.clone(), &self.session.owner);
        state.runs.push(run);
        Ok(answer)
    }

    async fn status(&self, id: &str, cancel: &Cancel) -> Result<Value, Value> {
        let now = self.access.clock.monotonic();
        let run = self.session.find_run(id).ok_or_else(|| self.unknown_run(id))?;
        {
            let mut state = self.session.lock();
            let passed = state.told.get(id).map(|told| now.saturating_sub(*told));
            if let Some(wait) =
                passed.and_then(|passed| STATUS_INTERVAL.checked_sub(passed)).filter(|wait| !wait.is_zero())
            {
                return Ok(json!({
                    "rate_limited": true,
                    "run_id": id,
                    "message": format!("The state of a run is told every 30 minutes; ask again in {} minutes.", wait.as_secs().div_ceil(60)),
                    "next_check_in_seconds": wait.as_secs(),
                }));
            }
            state.told.insert(id.to_owned(), now);
        }
        let mut report = run.report();
        match self.access.metrics.run(&run.plan.wandb_project, &run.plan.wandb_run, cancel).await {
            Ok(metrics) => {
                report["wandb_url"] = json!(metrics.url);
                report["metrics"] = Value::Object(metrics.figures);
            }
            Err(reason) => report["wandb_error"] = json!(reason),
        }
        Ok(report)
    }

    async fn stop(&self, id: &str) -> Result<Value, Value> {
        let run = self.session.find_run(id).ok_or_else(|| self.unknown_run(id))?;
        if !run.state().is_active() {
            return Ok(
                json!({"message": format!("the run {id} is not running; it is {}", run.state().as_str())}),
            );
        }
        run.end().await;
        Ok(
            json!({"message": format!("the run {id} was stopped"), "run_id": id, "status": run.state().as_str()}),
        )
    }

    async fn results(&self, id: &str, cancel: &Cancel) -> Result<Value, Value> {
        let run = self.session.find_run(id).ok_or_else(|| self.unknown_run(id))?;
        let mut report = run.report();
        if let Value::Object(members) = &mut report {
            members.retain(|name, _| {
                matches!(
                    name.as_str(),
                    "run_id" | "status" | "environment" | "wandb_project" | "wandb_run_name" | "error"
                )
            });
        }
        match self.access.metrics.run(&run.plan.wandb_project, &run.plan.wandb_run, cancel).await {
            Ok(metrics) => {
                report["wandb_url"] = json!(metrics.url);
                report["final_metrics"] = Value::Object(metrics.figures);
                report["history"] = json!(metrics.history);
            }
            Err(reason) => report["wandb_error"] = json!(reason),
        }
        Ok(report)
    }

    fn list_runs(&self) -> Value {
        let state = self.session.lock();
        let runs = state.runs.iter().map(|run| {
            json!({
                "run_id": run.plan.id,
                "environment": run.plan.environment,
                "status": run.state().as_str(),
                "wandb_run_name": run.plan.wandb_run,
            })
        });
        let runs: Vec<Value> = runs.collect();
        json!({"count": runs.len(), "runs": runs})
    }

    fn unknown_run(&self, id: &str) -> Value {
        let state = self.session.lock();
        let active = state.runs.iter().filter(|run| run.state().is_active()).map(|run| run.plan.id.clone());
        json!({"error": format!("there is no run `{id}`"), "active_runs": active.collect::<Vec<_>>()})
    }

    async fn test_inference(&self, arguments: &Map<String, Value>, cancel: &Cancel) -> Result<Value, Value> {
        let key = self.access.inference_key.clone();
        let key = key.ok_or_else(|| json!({"error": "OPENROUTER_API_KEY is not set"}))?;
        let environment = {
            let state = self.session.lock();
            state
                .selected
                .as_ref()
                .map(|selected| selected.environment.clone())
                .ok_or_else(nothing_selected)?
        };
        let models = arguments.get("models").and_then(Value::as_array).into_iter().flatten();
        let test = InferenceTest {
            environment: &environment,
            python: &self.access.python,
            checkout: &self.access.checkout,
            folder: self.access.logs.join("inference_tests"),
            steps: number(arguments, "num_steps", 3, 1..=1000) as u64,
            group_size: number(arguments, "group_size", 16, 1..=1000) as u64,
            models: models.filter_map(Value::as_str).map(str::to_owned).collect(),
            key,
            base_url: self.access.inference_url.clone(),
        };
        std::fs::create_dir_all(&test.folder)
            .map_err(|error| json!({"error": format!("{}: {error}", test.folder.display())}))?;
        Ok(test.run(&self.access.programs, cancel).await)
    }
}

fn nothing_selected() -> Value {
    json!({"error": "no environment is selected; call rl_select_environment first"})
}

/// Divides, and rounds to three places.
fn ratio(sum: f64, count: usize) -> f64 {
    let count = f64::from(u32::try_from(count.max(1)).unwrap_or(u32::MAX));
    (sum / count * 1000.0).round() / 1000.0
}

fn pretty(value: &Value) -> String {
    serde_json::to_string_pretty(value).unwrap_or_else(|_| value.to_string())
}

fn failure(value: &Value) -> ToolOutcome {
    ToolOutcome { content: pretty(value), ..ToolOutcome::failed("") }
}

/// Writes a file that only the user reads, beside its place, and moves it there.
fn write_private(path: &Path, text: &str) -> Result<(), String> {
    let beside = path.with_extension("new");
    // Of a process that was killed; there may be none.
    let _ = std::fs::remove_file(&beside);
    let mut file = training::open_log(&beside)?;
    std::io::Write::write_all(&mut file, text.as_bytes())
        .and_then(|()| file.sync_all())
        .and_then(|()| std::fs::rename(&beside, path))
        .map_err(|error| format!("{}: {error}", path.display()))
}

impl Tool for RlTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn descriptor(&self) -> ToolDescriptor<'_> {
        *self.descriptor
    }

    fn run<'a>(&'a self, call: &'a ToolInvocation, context: ToolContext<'a>) -> BoxFuture<'a, ToolOutcome> {
        Box::pin(async move {
            match self.execute(&call.arguments, context.cancel).await {
                Ok(value) => ToolOutcome::done(pretty(&value)),
                Err(outcome) => outcome,
            }
        })
    }
}
