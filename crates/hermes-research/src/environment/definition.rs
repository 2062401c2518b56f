//! What an environment is: where tasks come from, how they are put to the model, and what its work is worth.

use hermes_types::{BoxFuture, Cancel};
use serde_json::{Map, Value, json};

use super::agent_loop::AgentLoopResult;
use super::judge::ModelJudge;
use super::rollout_tools::RolloutTools;
use super::settings::EnvironmentSettings;
use super::task_images::ImageReuse;

/// A rollout that is to be judged.
#[expect(missing_debug_implementations, reason = "it borrows ports")]
pub struct JudgedRollout<'a> {
    pub item: &'a Value,
    pub result: &'a AgentLoopResult,
    pub tools: &'a RolloutTools,
    /// The model that can be asked for an opinion.
    pub judge: &'a ModelJudge,
    pub settings: &'a EnvironmentSettings,
    pub cancel: &'a Cancel,
}

/// Where the commands of a task run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ItemPlace {
    pub image: Option<String>,
    pub cwd: Option<String>,
}

/// A rollout of an evaluation.
#[derive(Debug, Clone)]
pub struct EvaluatedItem {
    pub item: Value,
    pub score: f64,
    pub turns: usize,
    pub finished_naturally: bool,
    pub messages: Vec<Value>,
    pub failure: Option<String>,
}

/// An environment.
pub trait TrainingEnvironment: Send + Sync {
    fn name(&self) -> &str;

    /// Returns the settings that differ from the usual ones.
    fn defaults(&self) -> Map<String, Value> {
        Map::new()
    }

    /// Returns the names of the settings that only this environment knows.
    fn own_keys(&self) -> Vec<String> {
        Vec::new()
    }

    /// Tells whether the environment has no training items.
    fn is_evaluation_only(&self) -> bool {
        false
    }

    /// Loads what the environment needs. Called once.
    fn set_up<'a>(&'a self, settings: &'a EnvironmentSettings) -> BoxFuture<'a, Result<(), String>>;

    /// Returns the next item; `None` where there is none now.
    fn next_item(&self) -> BoxFuture<'_, Result<Option<Value>, String>>;

    /// Returns what the user says.
    fn prompt<'a>(&'a self, item: &'a Value) -> BoxFuture<'a, Result<String, String>>;

    /// Returns where the commands of an item run, if not where they usually do.
    fn place(&self, item: &Value) -> ItemPlace {
        let text = |name: &str| item.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
        let image = text("image").or_else(|| text("docker_image")).map(str::to_owned);
        ItemPlace { cwd: text("cwd").filter(|_| image.is_some()).map(str::to_owned), image }
    }

    /// Returns the packed folder from which the image of an item is built, if it has none yet, and whether an image that is there is used.
    fn packed_image<'a>(
        &self,
        item: &'a Value,
        settings: &EnvironmentSettings,
    ) -> Option<(&'a str, ImageReuse)> {
        let _ = (item, settings);
        None
    }

    /// Prepares the place before the model begins.
    fn prepare<'a>(&'a self, item: &'a Value, tools: &'a RolloutTools) -> BoxFuture<'a, Result<(), String>> {
        let _ = (item, tools);
        Box::pin(std::future::ready(Ok(())))
    }

    /// Returns what the work is worth, usually from 0 to 1.
    fn reward<'a>(&'a self, rollout: &'a JudgedRollout<'a>) -> BoxFuture<'a, Result<f64, String>>;

    /// Returns the items of an evaluation.
    fn evaluation_items(&self) -> BoxFuture<'_, Result<Vec<Value>, String>>;

    /// Returns the figures of an evaluation.
    fn summarize(&self, items: &[EvaluatedItem]) -> Map<String, Value> {
        usual_figures(items)
    }

    /// Returns what has to be known to go on after a restart.
    fn state(&self) -> Value {
        Value::Null
    }

    /// Goes on where another process was.
    fn restore(&self, state: &Value) {
        let _ = state;
    }
}

/// Returns the figures that every evaluation has.
pub(crate) fn usual_figures(items: &[EvaluatedItem]) -> Map<String, Value> {
    let passed = items.iter().filter(|item| item.score >= 1.0).count();
    // The sum of no floats is a negative zero.
    let sum = |numbers: &mut dyn Iterator<Item = f64>| numbers.fold(0.0, |sum, number| sum + number);
    let share = sum(&mut items.iter().filter(|item| item.score >= 1.0).map(|_| 1.0));
    Map::from_iter([
        ("eval/pass_rate".to_owned(), json!(ratio(share, items.len()))),
        (
            "eval/mean_score".to_owned(),
            json!(ratio(sum(&mut items.iter().map(|item| item.score)), items.len())),
        ),
        ("eval/passed".to_owned(), json!(passed)),
        ("eval/total".to_owned(), json!(items.len())),
    ])
}

/// Divides by a count.
#[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
pub(crate) fn ratio(sum: f64, count: usize) -> f64 {
    sum / count.max(1) as f64
}
