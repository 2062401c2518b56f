//! Runs an environment: with a trainer, for files, or as an evaluation.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::stream::{FuturesUnordered, StreamExt as _};
use hermes_types::{Cancel, Clock};
use serde_json::{Map, Value, json};

use super::agent_loop::RolloutToolError;
use super::definition::{EvaluatedItem, TrainingEnvironment};
use super::group::{GroupRefusal, ScoredGroup};
use super::rollout::{EnvironmentMeans, RolloutPool};
use super::saving::{EvaluationFacts, LineFile, group_page, sample, write_evaluation, write_json};
use super::settings::EnvironmentSettings;
use crate::error::Error;
use hermes_text::head;

/// How an environment is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EnvironmentMode {
    /// With a trainer, until it has enough.
    Serve,
    /// For files, without a trainer.
    Process,
    Evaluate,
}

impl EnvironmentMode {
    /// Returns the settings that this mode changes.
    pub fn defaults(self, name: &str) -> Map<String, Value> {
        let changes = match self {
            Self::Serve => json!({}),
            Self::Process => json!({
                "ensure_scores_are_not_same": false,
                "include_messages": true,
                "use_wandb": true,
                "data_path_to_save_groups": format!("data/{name}.jsonl"),
            }),
            Self::Evaluate => json!({"use_wandb": true}),
        };
        changes.as_object().cloned().unwrap_or_default()
    }
}

/// Follows a run.
pub trait EnvironmentObserver: Send + Sync {
    /// Shows a line.
    fn notice(&self, text: &str);
}

/// An environment with everything it needs.
#[expect(missing_debug_implementations, reason = "it holds ports")]
pub struct EnvironmentRun {
    pub(crate) pool: RolloutPool,
    pub(crate) observer: Arc<dyn EnvironmentObserver>,
    /// The folder of files without another place.
    pub(crate) folder: PathBuf,
    pub(crate) now: Arc<dyn Fn() -> String + Send + Sync>,
    pub(crate) figures: Arc<Mutex<TrainingFigures>>,
}

/// What is counted between two reports.
#[derive(Debug, Default)]
pub(crate) struct TrainingFigures {
    pub(crate) errors: Vec<RolloutToolError>,
    pub(crate) scores: Vec<f64>,
}

/// What a run came to.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct EnvironmentReport {
    /// Groups that were accepted, and those that were not, by the reason.
    pub groups: u64,
    pub refused: BTreeMap<&'static str, u64>,
    pub mean_score: f64,
    pub files: Vec<PathBuf>,
    /// The figures of an evaluation.
    pub metrics: Map<String, Value>,
    pub interrupted: bool,
}

/// The failures in a row after which process mode gives up.
const MAX_FAILURES: u32 = 20;

impl EnvironmentRun {
    /// Checks the settings. `now` returns the present time as a file shows it, and the folder is for files without another place.
    pub fn new(
        environment: Arc<dyn TrainingEnvironment>,
        settings: EnvironmentSettings,
        means: EnvironmentMeans,
        observer: Arc<dyn EnvironmentObserver>,
        folder: &Path,
        now: Arc<dyn Fn() -> String + Send + Sync>,
    ) -> Result<Self, Error> {
        let pool = RolloutPool::new(environment, means, Arc::new(settings))?;
        Ok(Self { pool, observer, folder: folder.to_owned(), now, figures: Arc::default() })
    }

    pub(crate) fn settings(&self) -> &Arc<EnvironmentSettings> {
        &self.pool.settings
    }

    pub(crate) fn clock(&self) -> &Arc<dyn Clock> {
        &self.pool.means.clock
    }

    /// Returns the name under which metrics are kept.
    pub(crate) fn name(&self) -> String {
        let name = self.settings().wandb_name.clone();
        name.unwrap_or_else(|| self.pool.environment.name().to_owned())
    }

    pub(crate) async fn set_up(&self) -> Result<(), Error> {
        let environment = &self.pool.environment;
        let ready = environment.set_up(self.settings()).await;
        ready.map_err(|reason| Error::Unusable(format!("{}: {reason}", environment.name())))
    }

    /// Adds figures to the file of metrics.
    pub(crate) fn log(&self, name: &str, step: i64, figures: Map<String, Value>) -> Result<(), Error> {
        let mut line = Map::new();
        line.insert("_step".to_owned(), json!(step));
        line.insert("_time".to_owned(), json!((self.now)()));
        line.extend(figures.into_iter().map(|(key, value)| (format!("{name}_{key}"), value)));
        let file =
            LineFile::open(&self.folder.join(format!("{}_metrics.jsonl", self.pool.environment.name())))?;
        file.add(&Value::Object(line).to_string())
    }

    /// Takes what was counted since the last report.
    pub(crate) fn take_figures(&self) -> Map<String, Value> {
        let taken = std::mem::take(&mut *self.figures.lock().unwrap_or_else(PoisonError::into_inner));
        let mut figures = Map::new();
        if !taken.scores.is_empty() {
            let mean = super::definition::ratio(taken.scores.iter().sum(), taken.scores.len());
            figures.insert("train/reward_mean".to_owned(), json!(mean));
            let correct = taken.scores.iter().filter(|score| **score > 0.0).count();
            let share = super::definition::ratio(
                f64::from(u32::try_from(correct).unwrap_or(u32::MAX)),
                taken.scores.len(),
            );
            figures.insert("train/percent_correct".to_owned(), json!(share));
        }
        figures.insert("train/tool_errors_count".to_owned(), json!(taken.errors.len()));
        let details = taken.errors.iter().map(|error| {
            json!({
                "turn": error.turn,
                "tool": error.tool,
                "args": head(&error.arguments, 150),
                "error": head(&error.error, 300),
                "result": head(&error.result, 300),
            })
        });
        figures.insert("train/tool_error_details".to_owned(), details.collect());
        figures
    }

    pub(crate) fn count(&self, group: &ScoredGroup, errors: Vec<RolloutToolError>) {
        let mut figures = self.figures.lock().unwrap_or_else(PoisonError::into_inner);
        figures.scores.extend(group.rollouts.iter().map(|rollout| rollout.score));
        figures.errors.extend(errors);
    }

    /// Writes groups to a file, without a trainer.
    pub async fn process(&self, cancel: &Cancel) -> Result<EnvironmentReport, Error> {
        self.refuse_evaluation_only()?;
        self.set_up().await?;
        let settings = self.settings().clone();
        let wanted = settings.data_path_to_save_groups.clone();
        let wanted =
            wanted.unwrap_or_else(|| self.folder.join(format!("{}.jsonl", self.pool.environment.name())));
        let file = LineFile::create(&wanted)?;
        let mut report =
            EnvironmentReport { files: vec![file.path().to_owned()], ..EnvironmentReport::default() };
        let (mut kept, mut sum, mut failures) = (Vec::new(), 0.0, 0);
        let mut number = 0;
        while i64::try_from(report.groups).unwrap_or(i64::MAX) < settings.total_steps
            && !cancel.is_cancelled()
        {
            let environment = &self.pool.environment;
            let item = environment.next_item().await.map_err(Error::Unusable)?;
            let Some(item) = item else { break };
            let done = self.pool.group(number, &item, cancel).await;
            number += 1;
            let Ok((group, errors)) = done else { break };
            let checked = group.check(settings.group_size, settings.ensure_scores_are_not_same, None);
            self.count(&group, errors);
            if let Err(refusal) = checked {
                *report.refused.entry(refusal.name()).or_default() += 1;
                failures += 1;
                if failures >= MAX_FAILURES {
                    return Err(Error::Failing(format!(
                        "{failures} groups in a row could not be used ({}); the log has the reasons",
                        refusal.name()
                    )));
                }
                continue;
            }
            failures = 0;
            file.add(&group.to_line())?;
            report.groups += 1;
            sum += group.mean_score();
            self.observer.notice(&format!("group {}: mean score {:.3}", report.groups, group.mean_score()));
            if kept.len() < usize::try_from(settings.num_rollouts_to_keep).unwrap_or(usize::MAX) {
                kept.push(group);
            }
        }
        report.interrupted = cancel.is_cancelled();
        report.mean_score =
            super::definition::ratio(sum, usize::try_from(report.groups).unwrap_or(usize::MAX));
        let page = file.path().with_extension("html");
        crate::file::replace_file(&page, |out| {
            std::io::Write::write_all(out, group_page(&kept, self.pool.environment.name()).as_bytes())
        })?;
        report.files.push(page);
        let step = i64::try_from(report.groups).unwrap_or(i64::MAX);
        self.log(&self.name(), step, self.take_figures())?;
        Ok(report)
    }

    /// Evaluates, and writes what came of it.
    pub async fn evaluate(&self, cancel: &Cancel) -> Result<EnvironmentReport, Error> {
        self.set_up().await?;
        let (metrics, items) = self.evaluate_items(cancel).await?;
        let mut report =
            EnvironmentReport { interrupted: cancel.is_cancelled(), ..EnvironmentReport::default() };
        report.mean_score = super::definition::ratio(items.iter().map(|item| item.score).sum(), items.len());
        if let Some(folder) = &self.settings().data_dir_to_save_evals {
            report.files = vec![folder.join("metrics.json"), folder.join("samples.jsonl")];
        }
        report.metrics = metrics;
        Ok(report)
    }

    /// Holds the rollouts of an evaluation. Nothing of it counts as training.
    pub(crate) async fn evaluate_items(
        &self,
        cancel: &Cancel,
    ) -> Result<(Map<String, Value>, Vec<EvaluatedItem>), Error> {
        let environment = &self.pool.environment;
        let settings = self.settings();
        let began = self.clock().monotonic();
        let all = environment.evaluation_items().await.map_err(Error::Unusable)?;
        if all.is_empty() {
            return Err(Error::Unusable(format!("{} has no items for an evaluation", environment.name())));
        }
        if let Some(folder) = &settings.data_dir_to_save_evals {
            // What the evaluation was made with, as it came of all layers.
            let used = json!({"group_size": settings.group_size, "max_agent_turns": settings.max_agent_turns,
                "agent_temperature": settings.agent_temperature, "max_token_length": settings.max_token_length,
                "enabled_toolsets": settings.enabled_toolsets, "distribution": settings.distribution, "own": settings.own});
            let yaml = hermes_config::yaml::emit_block(&hermes_config::yaml::YamlValue::from_json(
                &json!({"env": used}),
            ));
            std::fs::create_dir_all(folder).map_err(Error::file(folder))?;
            crate::file::replace_file(&folder.join("evaluate_config.yaml"), |out| {
                std::io::Write::write_all(out, yaml.as_bytes())
            })?;
        }
        let stamp: String = (self.now)().chars().filter(char::is_ascii_digit).take(14).collect();
        let (day, time) = stamp.split_at_checked(8).unwrap_or((&stamp, ""));
        let stream = match &settings.data_dir_to_save_evals {
            Some(folder) if environment.is_evaluation_only() => {
                Some(LineFile::create(&folder.join(format!("samples_{day}_{time}.jsonl")))?)
            }
            _ => None,
        };
        let limit = Duration::try_from_secs_f64(settings.own_number("task_timeout", 0.0)).ok();
        let at_once =
            [settings.own_number("max_concurrent_tasks", 0.0), settings.own_number("eval_concurrency", 0.0)];
        let at_once = at_once.into_iter().filter(|count| *count >= 1.0).fold(f64::INFINITY, f64::min);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a small number")]
        let at_once = if at_once.is_finite() { at_once as usize } else { settings.max_eval_workers.max(1) };
        let mut waiting = all.into_iter().enumerate();
        let mut running = FuturesUnordered::new();
        let mut items: Vec<(usize, EvaluatedItem)> = Vec::new();
        loop {
            while running.len() < at_once && !cancel.is_cancelled() {
                let Some((at, item)) = waiting.next() else { break };
                running.push(async move { (at, self.evaluate_one(at, item, limit, cancel).await) });
            }
            let Some((at, done)) = running.next().await else { break };
            let Some(done) = done else { continue };
            if let Some(stream) = &stream {
                stream.add(&sample(&done).to_string())?;
            }
            self.observer.notice(&format!(
                "{} of the evaluation: score {:.3}",
                label(&done.item, at),
                done.score
            ));
            items.push((at, done));
        }
        items.sort_by_key(|(at, _)| *at);
        let items: Vec<EvaluatedItem> = items.into_iter().map(|(_, item)| item).collect();
        let metrics = environment.summarize(&items);
        let seconds = self.clock().monotonic().saturating_sub(began).as_secs_f64();
        if let Some(folder) = &settings.data_dir_to_save_evals {
            let server = self.pool.means.servers.first();
            let facts = EvaluationFacts {
                environment: environment.name(),
                model: &server.model_name,
                seconds,
                max_new_tokens: settings.max_token_length,
                temperature: settings.agent_temperature,
            };
            write_evaluation(folder, &facts, &metrics, &items)?;
        }
        Ok((metrics, items))
    }

    async fn evaluate_one(
        &self,
        at: usize,
        item: Value,
        limit: Option<Duration>,
        cancel: &Cancel,
    ) -> Option<EvaluatedItem> {
        let own = cancel.child_token();
        let limit = limit.filter(|limit| !limit.is_zero());
        let judged = {
            let mut rollout = std::pin::pin!(self.pool.evaluate(at, &item, &own));
            tokio::select! {
                judged = &mut rollout => judged,
                () = async { self.clock().sleep(limit.unwrap_or_default()).await }, if limit.is_some() => {
                    own.cancel();
                    // It cleans up what it used.
                    let _ = rollout.await;
                    Err("the task took too long".to_owned())
                }
            }
        };
        if cancel.is_cancelled() {
            return None;
        }
        Some(match judged {
            Ok(judged) => EvaluatedItem {
                item,
                score: judged.score,
                turns: judged.result.turns_used,
                finished_naturally: judged.result.finished_naturally,
                messages: judged.result.messages,
                failure: judged.result.failure,
            },
            Err(reason) => EvaluatedItem {
                item,
                score: 0.0,
                turns: 0,
                finished_naturally: false,
                messages: Vec::new(),
                failure: Some(reason),
            },
        })
    }

    pub(crate) fn refuse_evaluation_only(&self) -> Result<(), Error> {
        if self.pool.environment.is_evaluation_only() {
            let name = self.pool.environment.name();
            return Err(Error::Unusable(format!(
                "{name} is only for evaluations: `hermes env {name} evaluate`"
            )));
        }
        Ok(())
    }

    /// Saves what has to be known to go on.
    pub(crate) fn save_state(&self, folder: &Path, name: &str, step: i64) -> Result<(), Error> {
        let path = state_path(folder, name, step);
        write_json(&path, &self.pool.environment.state())
    }
}

/// Returns the file of the state at a step.
pub(crate) fn state_path(folder: &Path, name: &str, step: i64) -> PathBuf {
    folder.join("env_checkpoints").join(name.replace('/', "_")).join(format!("step-{step}.json"))
}

fn label(item: &Value, at: usize) -> String {
    let names = ["task_name", "name", "id"].iter().filter_map(|name| item.get(name)?.as_str());
    names.map(str::to_owned).next().unwrap_or_else(|| format!("item {at}"))
}

impl GroupRefusal {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Size => "rollouts failed",
            Self::SameScores => "all scores are the same",
            Self::Length => "too long for the trainer",
        }
    }
}
