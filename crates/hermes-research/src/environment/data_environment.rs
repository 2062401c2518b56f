//! An environment that a YAML file describes: a dataset, a text with places for its fields, and a command that judges.
//!
//! The command runs where the model worked, after it; its exit code or what it prints is the reward. Values of a dataset are quoted
//! where they become part of a command.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock, PoisonError};

use hermes_types::BoxFuture;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::definition::{ItemPlace, JudgedRollout, TrainingEnvironment};
use super::item_list::ItemList;
use super::rollout_tools::{RolloutTools, quote};
use super::settings::EnvironmentSettings;
use crate::error::Error;

/// Where a reward comes from.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum RewardSource {
    /// 1 if the command succeeds, else 0.
    #[default]
    ExitCode,
    /// The number on the last line that the command prints.
    Stdout,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Verifier {
    command: String,
    #[serde(default = "Verifier::usual_timeout")]
    timeout: u64,
    #[serde(default)]
    reward: RewardSource,
    /// Files that are written before the command runs, with their contents.
    #[serde(default)]
    files: BTreeMap<String, String>,
}

impl Verifier {
    fn usual_timeout() -> u64 {
        60
    }
}

/// The file. `env` and `openai` in it are settings, which the caller reads.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Description {
    name: String,
    #[serde(default)]
    dataset: Option<PathBuf>,
    #[serde(default)]
    items: Vec<Value>,
    #[serde(default)]
    evaluation_dataset: Option<PathBuf>,
    prompt: String,
    /// A command that runs before the model begins.
    #[serde(default)]
    prepare: Option<String>,
    verify: Verifier,
    #[serde(default)]
    image: Option<String>,
    #[serde(default)]
    cwd: Option<String>,
    #[serde(default)]
    env: Map<String, Value>,
    #[serde(default)]
    openai: Value,
}

/// An environment from a file.
#[derive(Debug)]
pub struct DataEnvironment {
    description: Description,
    folder: PathBuf,
    items: OnceLock<ItemList>,
    evaluation: Mutex<Vec<Value>>,
}

impl DataEnvironment {
    /// Reads the description of an environment from a file.
    pub fn read(path: &Path) -> Result<Self, Error> {
        let text = std::fs::read_to_string(path).map_err(Error::file(path))?;
        let unusable =
            |problem: &dyn std::fmt::Display| Error::Unusable(format!("{}: {problem}", path.display()));
        let value = hermes_config::yaml::parse(&text).map_err(|error| unusable(&error))?;
        let description: Description =
            serde_json::from_value(value.to_json()).map_err(|error| unusable(&error))?;
        let is_word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
        if description.name.is_empty() || !description.name.chars().all(is_word) {
            return Err(unusable(&"`name` must consist of letters, digits, `-` and `_`"));
        }
        if description.items.is_empty() == description.dataset.is_none() {
            return Err(unusable(&"set either `dataset`, the name of a file, or `items`, a list"));
        }
        let folder = path.parent().unwrap_or(Path::new("")).to_owned();
        Ok(Self { description, folder, items: OnceLock::new(), evaluation: Mutex::default() })
    }

    /// Returns the settings of the servers that the file has.
    pub fn servers(&self) -> &Value {
        &self.description.openai
    }

    fn items(&self) -> Result<&ItemList, String> {
        self.items.get().ok_or_else(|| "the environment is not set up".to_owned())
    }
}

/// Fills the fields of an item into a text: `{{field}}`.
fn fill(text: &str, item: &Value, change: impl Fn(&str) -> String) -> Result<String, String> {
    let mut filled = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("{{") {
        filled.push_str(before);
        let (name, more) = after.split_once("}}").ok_or("a `{{` has no `}}`")?;
        let name = name.trim();
        let value = item.get(name).ok_or_else(|| format!("an item has no field `{name}`"))?;
        let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        filled.push_str(&change(&value));
        rest = more;
    }
    filled.push_str(rest);
    Ok(filled)
}

impl TrainingEnvironment for DataEnvironment {
    fn name(&self) -> &str {
        &self.description.name
    }

    fn defaults(&self) -> Map<String, Value> {
        self.description.env.clone()
    }

    fn set_up<'a>(&'a self, settings: &'a EnvironmentSettings) -> BoxFuture<'a, Result<(), String>> {
        Box::pin(async move {
            let named = settings.dataset_name.as_ref().map(PathBuf::from);
            let items = match named
                .or_else(|| self.description.dataset.as_ref().map(|path| self.folder.join(path)))
            {
                Some(path) => ItemList::read(&path)?,
                None => ItemList::new(self.description.items.clone()),
            };
            let evaluation = match &self.description.evaluation_dataset {
                Some(path) => ItemList::read(&self.folder.join(path))?.all().to_vec(),
                None => items.all().to_vec(),
            };
            // Every item is tried, so that a missing field is known before the first conversation.
            for item in items.all().iter().chain(&evaluation) {
                fill(&self.description.prompt, item, str::to_owned)?;
                fill(&self.description.verify.command, item, str::to_owned)?;
            }
            *self.evaluation.lock().unwrap_or_else(PoisonError::into_inner) = evaluation;
            // A second set-up changes nothing.
            let _ = self.items.set(items);
            Ok(())
        })
    }

    fn next_item(&self) -> BoxFuture<'_, Result<Option<Value>, String>> {
        Box::pin(async move { Ok(self.items()?.next()) })
    }

    fn prompt<'a>(&'a self, item: &'a Value) -> BoxFuture<'a, Result<String, String>> {
        Box::pin(async move { fill(&self.description.prompt, item, str::to_owned) })
    }

    fn place(&self, item: &Value) -> ItemPlace {
        let text = |name: &str| item.get(name).and_then(Value::as_str).map(str::to_owned);
        let image = text("image").or_else(|| self.description.image.clone());
        let cwd = text("cwd").or_else(|| self.description.cwd.clone()).filter(|_| image.is_some());
        ItemPlace { image, cwd }
    }

    fn prepare<'a>(&'a self, item: &'a Value, tools: &'a RolloutTools) -> BoxFuture<'a, Result<(), String>> {
        Box::pin(async move {
            let Some(command) = &self.description.prepare else { return Ok(()) };
            let ran = tools.terminal(&fill(command, item, quote)?, 120).await;
            if ran.succeeded() { Ok(()) } else { Err(format!("`prepare` failed: {}", ran.output)) }
        })
    }

    fn reward<'a>(&'a self, rollout: &'a JudgedRollout<'a>) -> BoxFuture<'a, Result<f64, String>> {
        Box::pin(async move {
            let verify = &self.description.verify;
            for (path, contents) in &verify.files {
                let contents = fill(contents, rollout.item, str::to_owned)?;
                let written = rollout.tools.write_bytes(path, contents.as_bytes()).await;
                if !written.succeeded() {
                    return Err(format!("{path} was not written: {}", written.output));
                }
            }
            let answer = json!({"answer": rollout.result.last_answer()});
            let mut known = rollout.item.clone();
            if let (Value::Object(known), Value::Object(answer)) = (&mut known, answer) {
                for (name, value) in answer {
                    known.entry(name).or_insert(value);
                }
            }
            let ran = rollout.tools.terminal(&fill(&verify.command, &known, quote)?, verify.timeout).await;
            match verify.reward {
                RewardSource::ExitCode => Ok(if ran.succeeded() { 1.0 } else { 0.0 }),
                RewardSource::Stdout => {
                    let last =
                        ran.output.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default();
                    let number = last.trim().parse::<f64>().ok().filter(|number| number.is_finite());
                    number.ok_or_else(|| {
                        format!("the verifier printed no number but `{}`", hermes_text::head(last, 200))
                    })
                }
            }
        })
    }

    fn evaluation_items(&self) -> BoxFuture<'_, Result<Vec<Value>, String>> {
        let items = self.evaluation.lock().unwrap_or_else(PoisonError::into_inner).clone();
        Box::pin(std::future::ready(Ok(items)))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_filled_in_and_quoted_in_commands() {
        let item = json!({"a": "it's", "n": 3, "l": [1]});
        assert_eq!(fill("x {{ a }} {{n}} {{l}}", &item, str::to_owned).unwrap(), "x it's 3 [1]");
        assert_eq!(fill("echo {{a}}", &item, quote).unwrap(), r"echo 'it'\''s'");
        assert_eq!(fill("{{b}}", &item, str::to_owned).unwrap_err(), "an item has no field `b`");
        assert_eq!(fill("{{b", &item, str::to_owned).unwrap_err(), "a `{{` has no `}}`");
    }
}
