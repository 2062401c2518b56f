//! Terminal tasks of a benchmark: each in its own image, judged by its own tests after the model has ended.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::OnceLock;

use data_encoding::BASE64;
use hermes_types::BoxFuture;
use serde_json::{Map, Value, json};

use super::super::definition::{
    EvaluatedItem, ItemPlace, JudgedRollout, TrainingEnvironment, ratio, usual_figures,
};
use super::super::item_list::ItemList;
use super::super::rollout_tools::quote;
use super::super::settings::EnvironmentSettings;
use super::super::task_images::ImageReuse;

/// The tasks that cannot run in sandboxes of Modal.
const NOT_ON_MODAL: [&str; 3] = ["qemu-startup", "qemu-alpine-ssh", "crack-7z-hash"];

/// The environments `terminal-bench-2` and `openthoughts-tblite`.
#[derive(Debug)]
pub(super) struct TerminalBenchmark {
    name: &'static str,
    task_timeout: u64,
    items: OnceLock<Vec<Value>>,
}

impl TerminalBenchmark {
    pub(super) fn new(name: &'static str, task_timeout: u64) -> Self {
        Self { name, task_timeout, items: OnceLock::new() }
    }
}

fn text<'a>(item: &'a Value, names: &[&str]) -> Option<&'a str> {
    names.iter().find_map(|name| item.get(*name)?.as_str()).filter(|text| !text.is_empty())
}

fn task_name(item: &Value) -> &str {
    text(item, &["task_name", "name", "task_id", "id"]).unwrap_or_default()
}

impl TrainingEnvironment for TerminalBenchmark {
    fn name(&self) -> &str {
        self.name
    }

    fn defaults(&self) -> Map<String, Value> {
        let changes = json!({
            "enabled_toolsets": ["terminal", "file"],
            "max_agent_turns": 60,
            "agent_temperature": 0.6,
            "max_token_length": 16000,
            "terminal_lifetime": self.task_timeout + 120,
            "task_timeout": self.task_timeout,
            "test_timeout": 180,
            "force_build": false,
            "max_concurrent_tasks": 8,
            "eval_concurrency": 0,
            "tests_folder": "/tests",
            "logs_folder": "/logs/verifier",
        });
        changes.as_object().cloned().unwrap_or_default()
    }

    fn own_keys(&self) -> Vec<String> {
        let keys = [
            "task_timeout",
            "test_timeout",
            "force_build",
            "max_concurrent_tasks",
            "eval_concurrency",
            "task_filter",
            "skip_tasks",
            "tests_folder",
            "logs_folder",
        ];
        keys.map(str::to_owned).to_vec()
    }

    fn is_evaluation_only(&self) -> bool {
        true
    }

    fn set_up<'a>(&'a self, settings: &'a EnvironmentSettings) -> BoxFuture<'a, Result<(), String>> {
        Box::pin(async move {
            let name = settings.dataset_name.as_deref();
            let name =
                name.ok_or("env.dataset_name must name a dataset file with one JSON object per line")?;
            let all = ItemList::read(Path::new(name))?;
            let (wanted, skipped) = (settings.own_list("task_filter"), settings.own_list("skip_tasks"));
            let is_modal = settings.terminal_backend.as_deref() == Some("modal");
            let mut kept = Vec::new();
            for (at, item) in all.all().iter().enumerate() {
                let task = task_name(item);
                if text(item, &["instruction", "prompt"]).is_none()
                    || text(item, &["test_sh"]).is_none()
                    || task.is_empty()
                {
                    return Err(format!("{name}: item {at} needs `task_name`, `instruction` and `test_sh`"));
                }
                let is_wanted = wanted.is_empty() || wanted.iter().any(|name| name == task);
                let is_skipped =
                    skipped.iter().any(|name| name == task) || is_modal && NOT_ON_MODAL.contains(&task);
                if !is_wanted || is_skipped {
                    continue;
                }
                kept.push(item.clone());
            }
            // A second set-up changes nothing.
            let _ = self.items.set(kept);
            Ok(())
        })
    }

    fn next_item(&self) -> BoxFuture<'_, Result<Option<Value>, String>> {
        Box::pin(std::future::ready(Ok(None)))
    }

    fn prompt<'a>(&'a self, item: &'a Value) -> BoxFuture<'a, Result<String, String>> {
        let prompt = text(item, &["instruction", "prompt"]).unwrap_or_default().to_owned();
        Box::pin(std::future::ready(Ok(prompt)))
    }

    fn place(&self, item: &Value) -> ItemPlace {
        let image = text(item, &["docker_image"]).map(str::to_owned);
        let has_own = image.is_some() || text(item, &["environment_tar"]).is_some();
        ItemPlace { cwd: has_own.then(|| text(item, &["cwd"]).unwrap_or("/app").to_owned()), image }
    }

    fn packed_image<'a>(
        &self,
        item: &'a Value,
        settings: &EnvironmentSettings,
    ) -> Option<(&'a str, ImageReuse)> {
        let is_forced = settings.own.get("force_build").and_then(Value::as_bool) == Some(true);
        let packed = text(item, &["environment_tar"])?;
        let reuse = if is_forced { ImageReuse::BuildAgain } else { ImageReuse::Reuse };
        (is_forced || text(item, &["docker_image"]).is_none()).then_some((packed, reuse))
    }

    fn reward<'a>(&'a self, rollout: &'a JudgedRollout<'a>) -> BoxFuture<'a, Result<f64, String>> {
        Box::pin(async move {
            let JudgedRollout { item, tools, settings, .. } = rollout;
            let folder = |name: &str, usual: &'static str| {
                settings
                    .own
                    .get(name)
                    .and_then(Value::as_str)
                    .unwrap_or(usual)
                    .trim_end_matches('/')
                    .to_owned()
            };
            let (tests, logs) = (folder("tests_folder", "/tests"), folder("logs_folder", "/logs/verifier"));
            let made = tools.terminal(&format!("mkdir -p {} {}", quote(&tests), quote(&logs)), 30).await;
            if !made.succeeded() {
                return Err(made.output);
            }
            if let Some(packed) = text(item, &["tests_tar"]) {
                let packed = BASE64.decode(packed.as_bytes()).map_err(|_| "`tests_tar` is not base64")?;
                let place = format!("{tests}/.tests.tar.gz");
                let steps = [
                    tools.write_bytes(&place, &packed).await,
                    tools
                        .terminal(&format!("tar -xzf {0} -C {1} && rm {0}", quote(&place), quote(&tests)), 60)
                        .await,
                ];
                if let Some(failed) = steps.iter().find(|step| !step.succeeded()) {
                    return Err(format!("the tests were not unpacked: {}", failed.output));
                }
            }
            let script = format!("{tests}/test.sh");
            let written =
                tools.write_bytes(&script, text(item, &["test_sh"]).unwrap_or_default().as_bytes()).await;
            if !written.succeeded() {
                return Err(written.output);
            }
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "seconds")]
            let limit = settings.own_number("test_timeout", 180.0).max(1.0) as u64;
            let ran = tools.terminal(&format!("bash {}", quote(&script)), limit).await;
            let noted = tools.read_bytes(&format!("{logs}/reward.txt")).await;
            let noted =
                noted.ok().and_then(|bytes| String::from_utf8_lossy(&bytes).trim().parse::<f64>().ok());
            let usual = if ran.succeeded() { 1.0 } else { 0.0 };
            Ok(noted.filter(|reward| reward.is_finite()).unwrap_or(usual))
        })
    }

    fn evaluation_items(&self) -> BoxFuture<'_, Result<Vec<Value>, String>> {
        Box::pin(std::future::ready(Ok(self.items.get().cloned().unwrap_or_default())))
    }

    fn summarize(&self, items: &[EvaluatedItem]) -> Map<String, Value> {
        let mut figures = usual_figures(items);
        let mut categories: BTreeMap<&str, (f64, usize)> = BTreeMap::new();
        for item in items {
            let category = text(&item.item, &["category"]).unwrap_or("uncategorized");
            let entry = categories.entry(category).or_default();
            entry.0 += if item.score >= 1.0 { 1.0 } else { 0.0 };
            entry.1 += 1;
        }
        for (category, (passed, count)) in categories {
            figures.insert(format!("eval/pass_rate_{category}"), json!(ratio(passed, count)));
        }
        figures
    }
}
