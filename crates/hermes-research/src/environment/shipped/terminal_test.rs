//! Small tasks in a terminal: they need no dataset, and show whether everything works together.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use hermes_types::BoxFuture;
use serde_json::{Map, Value, json};

use super::super::definition::{JudgedRollout, TrainingEnvironment};
use super::super::settings::EnvironmentSettings;

/// The tasks: what is asked for, the file, and what it must contain. The last is for evaluations.
const TASKS: [(&str, &str, &str); 4] = [
    (
        "Create the file greeting.txt in the working directory. It must contain exactly: Hello from Hermes",
        "greeting.txt",
        "Hello from Hermes",
    ),
    (
        "Create the file count.txt in the working directory. It must contain the numbers from 1 to 5, one per line.",
        "count.txt",
        "1\n2\n3\n4\n5",
    ),
    (
        "Add up 123, 456 and 789, and write only the result into the file sum.txt in the working directory.",
        "sum.txt",
        "1368",
    ),
    (
        "Multiply 6 by 7, and write only the result into the file product.txt in the working directory.",
        "product.txt",
        "42",
    ),
];
const EVALUATION: usize = 3;

/// The environment `terminal-test`.
#[derive(Debug, Default)]
pub(super) struct TerminalTest {
    next: AtomicUsize,
}

fn item(at: usize) -> Option<Value> {
    let (prompt, file, contents) = TASKS.get(at)?;
    Some(json!({"prompt": prompt, "file": file, "contents": contents}))
}

impl TrainingEnvironment for TerminalTest {
    fn name(&self) -> &'static str {
        "terminal-test"
    }

    fn defaults(&self) -> Map<String, Value> {
        let changes = json!({
            "enabled_toolsets": ["terminal", "file"],
            "max_agent_turns": 10,
            "group_size": 3,
            "total_steps": 3,
            "max_token_length": 16000,
            "ensure_scores_are_not_same": false,
        });
        changes.as_object().cloned().unwrap_or_default()
    }

    fn set_up<'a>(&'a self, _: &'a EnvironmentSettings) -> BoxFuture<'a, Result<(), String>> {
        Box::pin(std::future::ready(Ok(())))
    }

    fn next_item(&self) -> BoxFuture<'_, Result<Option<Value>, String>> {
        let at = self.next.fetch_add(1, Relaxed) % EVALUATION;
        Box::pin(std::future::ready(Ok(item(at))))
    }

    fn prompt<'a>(&'a self, item: &'a Value) -> BoxFuture<'a, Result<String, String>> {
        let prompt = item.get("prompt").and_then(Value::as_str).unwrap_or_default().to_owned();
        Box::pin(std::future::ready(Ok(prompt)))
    }

    fn reward<'a>(&'a self, rollout: &'a JudgedRollout<'a>) -> BoxFuture<'a, Result<f64, String>> {
        Box::pin(async move {
            let text = |name: &str| rollout.item.get(name).and_then(Value::as_str).unwrap_or_default();
            let shown = rollout
                .tools
                .terminal(&format!("cat \"${{HERMES_ROLLOUT_FOLDER:-.}}\"/{}", text("file")), 30)
                .await;
            let expected = text("contents");
            Ok(match shown.output.trim() {
                _ if !shown.succeeded() => 0.0,
                found if found == expected => 1.0,
                found if found.contains(expected) => 0.5,
                _ => 0.0,
            })
        })
    }

    fn evaluation_items(&self) -> BoxFuture<'_, Result<Vec<Value>, String>> {
        Box::pin(std::future::ready(Ok(item(EVALUATION).into_iter().collect())))
    }

    fn state(&self) -> Value {
        json!({"next_item": self.next.load(Relaxed)})
    }

    fn restore(&self, state: &Value) {
        let at = state.get("next_item").and_then(Value::as_u64).unwrap_or_default();
        self.next.store(usize::try_from(at).unwrap_or_default(), Relaxed);
    }
}
