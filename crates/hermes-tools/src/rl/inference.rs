//! Tries an environment with hosted models, without training.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use hermes_exec::{Program, ProgramExit, ProgramRunner, StderrMode};
use hermes_text::tail;
use hermes_types::{Cancel, Secret, random_hex};
use serde_json::{Value, json};

use super::checkout::TrainerEnvironment;
use super::locked;

/// The models that are tried, with their names and sizes.
const MODELS: [(&str, &str, &str); 3] = [
    ("qwen/qwen3-8b", "Qwen3 8B", "small"),
    ("z-ai/glm-4.7-flash", "GLM 4.7 Flash", "medium"),
    ("minimax/minimax-m2.7", "MiniMax M2.7", "large"),
];
const LIMIT: Duration = Duration::from_mins(10);
/// The characters of output that are shown of a try that failed.
const SHOWN: usize = 1000;
/// The locked settings that count here, too.
const KEPT: [&str; 5] =
    ["tokenizer_name", "max_token_length", "max_num_workers", "max_batches_offpolicy", "worker_timeout"];

/// What is tried.
pub(super) struct InferenceTest<'a> {
    pub(super) environment: &'a TrainerEnvironment,
    pub(super) python: &'a str,
    pub(super) checkout: &'a Path,
    pub(super) folder: PathBuf,
    pub(super) steps: u64,
    pub(super) group_size: u64,
    pub(super) models: Vec<String>,
    pub(super) key: Secret,
    /// The address of the models.
    pub(super) base_url: String,
}

impl InferenceTest<'_> {
    /// Tries the models one after the other.
    pub(super) async fn run(&self, programs: &ProgramRunner, cancel: &Cancel) -> Value {
        let known: Vec<(&str, &str, &str)> = MODELS
            .into_iter()
            .filter(|(id, ..)| self.models.is_empty() || self.models.iter().any(|model| model == id))
            .collect();
        let custom = self.models.iter().map(|model| (model.as_str(), model.as_str(), "custom"));
        let chosen: Vec<(&str, &str, &str)> = if known.is_empty() { custom.collect() } else { known };
        let mut tested = Vec::new();
        for (id, name, scale) in chosen {
            if cancel.is_cancelled() {
                break;
            }
            tested.push(self.try_model(id, name, scale, programs, cancel).await);
        }
        let number = |model: &Value, name: &str| model.get(name).and_then(Value::as_f64).unwrap_or_default();
        let good: Vec<&Value> = tested.iter().filter(|model| model.get("error").is_none()).collect();
        let best =
            good.iter().max_by(|one, other| number(one, "accuracy").total_cmp(&number(other, "accuracy")));
        let mean =
            super::ratio(good.iter().fold(0.0, |sum, model| sum + number(model, "accuracy")), good.len());
        json!({
            "environment": self.environment.name,
            "environment_file": self.environment.path.display().to_string(),
            "test_config": {
                "num_steps": self.steps,
                "group_size": self.group_size,
                "rollouts_per_model": self.steps * self.group_size,
                "total_rollouts": self.steps * self.group_size * tested.len() as u64,
            },
            "summary": {
                "steps_requested": self.steps,
                "models_tested": tested.len(),
                "models_succeeded": good.len(),
                "best_model": best.and_then(|model| model.get("model").cloned()),
                "avg_accuracy": mean,
                "environment_working": good.iter().any(|model| number(model, "steps_tested") > 0.0),
                "output_directory": self.folder.display().to_string(),
            },
            "models_tested": tested,
        })
    }

    async fn try_model(
        &self,
        id: &str,
        name: &str,
        scale: &str,
        programs: &ProgramRunner,
        cancel: &Cancel,
    ) -> Value {
        let wandb = format!("test_inference_RSIAgent_{}_{}", self.environment.name, random_hex(8));
        let file = format!("test_{}_{}", self.environment.name, id.replace('/', "_"));
        let output = self.folder.join(format!("{file}.jsonl"));
        let log = self.folder.join(format!("{file}.log"));
        // Of an earlier try; there may be none.
        let _ = std::fs::remove_file(&output);
        let mut words: Vec<OsString> = vec![self.environment.path.clone().into(), "process".into()];
        let mut flag = |name: &str, value: &str| words.push(format!("--{name}={value}").into());
        flag("env.total_steps", &self.steps.to_string());
        flag("env.group_size", &self.group_size.to_string());
        flag("env.use_wandb", "true");
        flag("env.wandb_name", &wandb);
        flag("env.data_path_to_save_groups", &output.display().to_string());
        for (key, value) in locked::environment() {
            if KEPT.contains(&key.as_str()) {
                flag(&format!("env.{key}"), &value.as_str().map_or_else(|| value.to_string(), str::to_owned));
            }
        }
        flag("openai.base_url", &self.base_url);
        flag("openai.model_name", id);
        flag("openai.server_type", "openai");
        flag("openai.health_check", "false");
        // Other users of the machine see command lines, and not this file.
        let secrets = self.folder.join(format!("{file}.yaml"));
        let written =
            super::write_private(&secrets, &format!("openai:\n  api_key: {}\n", json!(self.key.expose())));
        flag("config", &secrets.display().to_string());
        let program = Program {
            name: self.python,
            arguments: words,
            directory: self.checkout,
            limit: LIMIT,
            stderr: StderrMode::Merge,
        };
        let ran = programs.output(program, cancel).await;
        let _ = std::fs::remove_file(&secrets);
        let mut result = json!({"model": id, "name": name, "scale": scale, "wandb_run": wandb, "output_file": output.display().to_string()});
        if let Err(reason) = written {
            result["error"] = json!(reason);
            return result;
        }
        let failure = match &ran {
            Ok((text, exit)) => {
                let text = text.replace(self.key.expose(), "***");
                let written = super::training::open_log(&log).and_then(|mut file| {
                    std::io::Write::write_all(&mut file, text.as_bytes()).map_err(|error| error.to_string())
                });
                if written.is_ok() {
                    result["log_file"] = json!(log.display().to_string());
                }
                match exit {
                    ProgramExit::Exited(0) => None,
                    ProgramExit::Exited(code) => {
                        result["stdout"] = json!(tail(&text, SHOWN));
                        Some(format!("the environment ended with code {code}"))
                    }
                    ProgramExit::TimedOut => Some(format!("it took longer than {} s", LIMIT.as_secs())),
                    ProgramExit::Cancelled => Some("cancelled".to_owned()),
                }
            }
            Err(error) => Some(error.to_string()),
        };
        if let Some(failure) = failure {
            result["error"] = json!(failure);
        }
        count(&mut result, &std::fs::read_to_string(&output).unwrap_or_default());
        result
    }
}

/// Counts the answers of the groups that were written.
fn count(result: &mut Value, lines: &str) {
    let (mut steps, mut total, mut correct, mut good) = (Vec::new(), 0, 0, 0);
    for line in lines.lines() {
        let Ok(group) = serde_json::from_str::<Value>(line) else { continue };
        let scores: Vec<f64> = group
            .get("scores")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .filter_map(Value::as_f64)
            .collect();
        let right = scores.iter().filter(|score| **score > 0.0).count();
        total += scores.len();
        correct += right;
        good += usize::from(right > 0);
        steps.push(
            json!({"step": steps.len() + 1, "completions": scores.len(), "correct": right, "scores": scores}),
        );
    }
    let share =
        |part: usize, whole: usize| super::ratio(f64::from(u32::try_from(part).unwrap_or(u32::MAX)), whole);
    result["steps_tested"] = json!(steps.len());
    result["total_completions"] = json!(total);
    result["correct_completions"] = json!(correct);
    result["accuracy"] = json!(share(correct, total));
    result["steps_with_correct"] = json!(good);
    result["step_success_rate"] = json!(share(good, steps.len()));
    result["steps"] = json!(steps);
}
