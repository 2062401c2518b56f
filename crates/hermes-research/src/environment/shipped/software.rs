//! Programming tasks: the model writes `solution.py`, and the tests of the task judge it.

use std::path::Path;
use std::sync::OnceLock;

use hermes_types::{BoxFuture, random_hex};
use serde_json::{Map, Value, json};

use super::super::definition::{JudgedRollout, TrainingEnvironment};
use super::super::item_list::ItemList;
use super::super::rollout_tools::{RolloutTools, quote};
use super::super::settings::EnvironmentSettings;

/// The fields of an item that may hold its tests.
const TESTS: [&str; 3] = ["test", "test_code", "tests"];
/// Where the model works: its own folder on this machine, or the usual one of containers.
const ENTER: &str = "cd \"${HERMES_ROLLOUT_FOLDER:-/workspace}\"";
/// The file in that folder that tells what was there before.
const MARK: &str = ".hermes-rollout-began";
/// What new files without passing tests are worth.
const ATTEMPT: f64 = 0.1;

/// The environment `hermes-swe`.
#[derive(Debug, Default)]
pub(super) struct SoftwareEnvironment {
    items: OnceLock<ItemList>,
    prompt_field: OnceLock<String>,
    evaluation_size: OnceLock<usize>,
}

fn tests_of(item: &Value) -> Option<&str> {
    TESTS.iter().find_map(|name| item.get(*name)?.as_str()).filter(|text| !text.trim().is_empty())
}

impl TrainingEnvironment for SoftwareEnvironment {
    fn name(&self) -> &'static str {
        "hermes-swe"
    }

    fn defaults(&self) -> Map<String, Value> {
        let changes = json!({
            "enabled_toolsets": ["terminal", "file", "web"],
            "max_agent_turns": 30,
            "max_token_length": 4096,
            "total_steps": 500,
            "steps_per_eval": 50,
            "dataset_split": "test",
            "eval_size": 20,
        });
        changes.as_object().cloned().unwrap_or_default()
    }

    fn own_keys(&self) -> Vec<String> {
        vec!["eval_size".to_owned()]
    }

    fn set_up<'a>(&'a self, settings: &'a EnvironmentSettings) -> BoxFuture<'a, Result<(), String>> {
        Box::pin(async move {
            let name = settings.dataset_name.as_deref();
            let name =
                name.ok_or("env.dataset_name must name a dataset file with one JSON object per line")?;
            let items = ItemList::read(Path::new(name))?;
            let field = &settings.prompt_field;
            for (at, item) in items.all().iter().enumerate() {
                if item.get(field).and_then(Value::as_str).is_none() || tests_of(item).is_none() {
                    return Err(format!("{name}: item {at} needs `{field}` and one of {}", TESTS.join(", ")));
                }
            }
            // A second set-up changes nothing.
            let _ = self.items.set(items);
            let _ = self.prompt_field.set(field.clone());
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a small number")]
            let _ = self.evaluation_size.set(settings.own_number("eval_size", 20.0).max(1.0) as usize);
            Ok(())
        })
    }

    fn next_item(&self) -> BoxFuture<'_, Result<Option<Value>, String>> {
        Box::pin(std::future::ready(Ok(self.items.get().and_then(ItemList::next))))
    }

    fn prompt<'a>(&'a self, item: &'a Value) -> BoxFuture<'a, Result<String, String>> {
        let field = self.prompt_field.get().map_or("prompt", String::as_str);
        let task = item.get(field).and_then(Value::as_str).unwrap_or_default();
        let tests = tests_of(item).unwrap_or_default();
        let prompt = format!(
            "Solve this programming task. Write your solution into the file solution.py in the working directory.\n\n{task}\n\n\
             These tests must pass; they are run after `from solution import *`:\n\n```python\n{tests}\n```"
        );
        Box::pin(std::future::ready(Ok(prompt)))
    }

    fn prepare<'a>(&'a self, _: &'a Value, tools: &'a RolloutTools) -> BoxFuture<'a, Result<(), String>> {
        Box::pin(async move {
            let ran = tools.terminal(&format!("{ENTER} 2>/dev/null; touch {MARK}"), 30).await;
            if ran.succeeded() { Ok(()) } else { Err(ran.output) }
        })
    }

    fn reward<'a>(&'a self, rollout: &'a JudgedRollout<'a>) -> BoxFuture<'a, Result<f64, String>> {
        Box::pin(async move {
            let tests = tests_of(rollout.item).ok_or("the item has no tests")?;
            let code = format!(
                "import os, sys\nsys.path.insert(0, os.getcwd())\nif os.path.exists('solution.py'):\n    from solution import *\n{tests}\n"
            );
            let place = rollout.tools.terminal(&format!("{ENTER} 2>/dev/null; pwd"), 30).await;
            let folder = place.output.lines().last().unwrap_or(".").trim().to_owned();
            let file = format!("{folder}/.hermes_test_{}.py", random_hex(8));
            let written = rollout.tools.write_bytes(&file, code.as_bytes()).await;
            if !written.succeeded() {
                return Err(written.output);
            }
            let command = format!(
                "cd {} && python3 {}; code=$?; rm -f {1}; (exit $code)",
                quote(&folder),
                quote(&file)
            );
            if rollout.tools.terminal(&command, 60).await.succeeded() {
                return Ok(1.0);
            }
            let find = format!("cd {} && find . -name '*.py' -newer {MARK} | grep -q .", quote(&folder));
            Ok(if rollout.tools.terminal(&find, 30).await.succeeded() { ATTEMPT } else { 0.0 })
        })
    }

    fn evaluation_items(&self) -> BoxFuture<'_, Result<Vec<Value>, String>> {
        let most = self.evaluation_size.get().copied().unwrap_or(20);
        let items = self.items.get().map(|items| items.all().iter().take(most).cloned().collect());
        Box::pin(std::future::ready(Ok(items.unwrap_or_default())))
    }

    fn state(&self) -> Value {
        self.items.get().map_or(Value::Null, ItemList::state)
    }

    fn restore(&self, state: &Value) {
        if let Some(items) = self.items.get() {
            items.restore(state);
        }
    }
}
