//! The checkout of the trainer: which environments it has, and what their settings are.
//!
//! Files are read as text; only the settings of a selected environment run code of the checkout.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use hermes_exec::{Program, ProgramExit, ProgramRunner, StderrMode};
use hermes_types::Cancel;
use serde_json::{Value, json};

const FIELDS_SCRIPT: &str = include_str!("../texts/rl_fields.py");
const FIELDS_LIMIT: Duration = Duration::from_mins(2);
/// The base class of environments.
const BASE_CLASS: &str = "BaseEnv";
const ENVIRONMENTS: &str = "tinker_atropos/environments";

/// An environment of the checkout.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TrainerEnvironment {
    pub(super) name: String,
    pub(super) class: String,
    pub(super) path: PathBuf,
    pub(super) description: String,
}

/// A setting of an environment.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct TrainerField {
    pub(super) name: String,
    pub(super) kind: String,
    pub(super) default: Value,
    pub(super) description: String,
}

/// The settings that every environment has, where its own cannot be read.
#[rustfmt::skip]
const BASE_FIELDS: [(&str, &str, &str, &str); 22] = [
    ("group_size", "int", "4", "Answers per item"),
    ("max_num_workers", "int", "-1", "Most items at once"),
    ("max_eval_workers", "int", "16", "Most items of an evaluation at once"),
    ("max_num_workers_per_node", "int", "8", "Most items at once per server"),
    ("steps_per_eval", "int", "100", "Steps between evaluations"),
    ("max_token_length", "int", "2048", "Most tokens of an answer"),
    ("eval_handling", "str", "\"STOP_TRAIN\"", "What happens to training during an evaluation"),
    ("eval_limit_ratio", "float", "0.5", "Share of the workers during an evaluation"),
    ("inference_weight", "float", "1.0", "Weight among environments"),
    ("batch_size", "int", "-1", "Set by the trainer"),
    ("max_batches_offpolicy", "int", "3", "Most batches that wait"),
    ("tokenizer_name", "str", "\"NousResearch/DeepHermes-3-Llama-3-3B-Preview\"", "Tokenizer"),
    ("use_wandb", "bool", "true", "Report to Weights & Biases"),
    ("rollout_server_url", "str", "\"http://localhost:8000\"", "Address of the API server"),
    ("total_steps", "int", "1000", "Steps of the run"),
    ("wandb_name", "str", "null", "Name in Weights & Biases"),
    ("num_rollouts_to_keep", "int", "32", "Rollouts that are shown"),
    ("num_rollouts_per_group_for_logging", "int", "1", "Rollouts of a group that are shown"),
    ("ensure_scores_are_not_same", "bool", "true", "Leave out groups with one score"),
    ("data_path_to_save_groups", "str", "null", "File of the groups"),
    ("min_items_sent_before_logging", "int", "2", "Items between two reports"),
    ("worker_timeout", "float", "600", "Seconds an item may take"),
];

/// Lists the environments of a checkout, by name.
pub(super) fn environments(checkout: &Path) -> Result<Vec<TrainerEnvironment>, String> {
    let folder = checkout.join(ENVIRONMENTS);
    let entries = fs::read_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    paths.sort_unstable();
    let mut found = Vec::new();
    for path in paths {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if path.extension().is_none_or(|end| end != "py") || name.starts_with('_') {
            continue;
        }
        match fs::read_to_string(&path) {
            Ok(text) => found.extend(classes(&text, &path)),
            Err(error) => tracing::warn!(%error, file = %path.display(), "a file of the checkout is skipped"),
        }
    }
    Ok(found)
}

/// Finds the environments in a file.
fn classes(text: &str, path: &Path) -> Vec<TrainerEnvironment> {
    let lines: Vec<&str> = text.lines().collect();
    let mut found = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let Some((class, bases)) = line.strip_prefix("class ").and_then(|rest| rest.split_once('(')) else {
            continue;
        };
        let bases = bases.split(')').next().unwrap_or_default();
        if !bases.split(',').any(|base| base.trim().rsplit('.').next() == Some(BASE_CLASS)) {
            continue;
        }
        let body = lines.iter().skip(at + 1);
        let body = body.take_while(|line| line.is_empty() || line.starts_with([' ', '\t', '#']));
        let body: Vec<&str> = body.map(|line| line.trim()).collect();
        let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let name = body.iter().find_map(|line| attribute(line, "name")).unwrap_or(stem);
        let class = class.trim().to_owned();
        let description = docstring(&body).unwrap_or_else(|| format!("The environment {name}"));
        found.push(TrainerEnvironment { name, class, path: path.to_owned(), description });
    }
    found
}

/// Reads a text that is assigned to a name.
fn attribute(line: &str, name: &str) -> Option<String> {
    let (left, right) = line.split_once('=')?;
    let left = left.split(':').next()?.trim();
    let right = right.trim();
    let quote = right.chars().next().filter(|c| matches!(c, '"' | '\''))?;
    let text = right.strip_prefix(quote)?.split(quote).next()?;
    (left == name && !text.is_empty()).then(|| text.to_owned())
}

/// Returns the first line of the text that describes a class.
fn docstring(body: &[&str]) -> Option<String> {
    let mut lines = body.iter().skip_while(|line| line.is_empty());
    let first = lines.next()?;
    let marks = ["\"\"\"", "'''"];
    let mark = marks.iter().find(|mark| first.starts_with(**mark))?;
    let inner = first.trim_start_matches(mark);
    let text = inner.split(mark).next().unwrap_or_default().trim();
    if !text.is_empty() {
        return Some(text.to_owned());
    }
    let next = lines.find(|line| !line.is_empty())?;
    Some(next.split(mark).next().unwrap_or_default().trim().to_owned()).filter(|text| !text.is_empty())
}

/// Asks the trainer's Python for the settings of an environment; where it cannot say, returns those that all have.
pub(super) async fn fields(
    environment: &TrainerEnvironment,
    python: &str,
    checkout: &Path,
    programs: &ProgramRunner,
    cancel: &Cancel,
) -> Vec<TrainerField> {
    let arguments = [
        "-c".into(),
        FIELDS_SCRIPT.into(),
        environment.path.clone().into(),
        environment.class.clone().into(),
    ];
    let program = Program {
        name: python,
        arguments: arguments.to_vec(),
        directory: checkout,
        limit: FIELDS_LIMIT,
        stderr: StderrMode::Discard,
    };
    let read = match programs.output(program, cancel).await {
        Ok((output, ProgramExit::Exited(0))) => {
            output.lines().find_map(|line| read_fields(line.strip_prefix("FIELDS ")?))
        }
        _ => None,
    };
    read.unwrap_or_else(|| {
        tracing::warn!(
            environment = environment.name,
            "the settings of the environment cannot be read; the usual ones are shown"
        );
        BASE_FIELDS
            .iter()
            .map(|(name, kind, default, description)| TrainerField {
                name: (*name).to_owned(),
                kind: (*kind).to_owned(),
                default: serde_json::from_str(default).unwrap_or(Value::Null),
                description: (*description).to_owned(),
            })
            .collect()
    })
}

fn read_fields(line: &str) -> Option<Vec<TrainerField>> {
    let fields: Vec<Value> = serde_json::from_str(line).ok()?;
    let text =
        |field: &Value, name: &str| field.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    let fields = fields.iter().map(|field| TrainerField {
        name: text(field, "name"),
        kind: text(field, "type"),
        default: field.get("default").cloned().unwrap_or(Value::Null),
        description: text(field, "description"),
    });
    Some(fields.filter(|field| !field.name.is_empty()).collect())
}

impl TrainerEnvironment {
    pub(super) fn to_json(&self) -> Value {
        json!({
            "name": self.name,
            "class_name": self.class,
            "file_path": self.path.display().to_string(),
            "description": self.description,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn environments_are_found_in_files() {
        let text = "import x\n\nclass Helper:\n    name = 'no'\n\nclass Math(base.BaseEnv):\n    \"\"\"\n    Sums of numbers.\n    More.\n    \"\"\"\n\n    name: str = \"sums\"\n\n\
            class Other( BaseEnv , Thing):\n    '''One line.'''\n    env_config_cls = C\n\nname = 'outside'\nclass Not(BaseEnvironment):\n    pass\n";
        let found = classes(text, Path::new("/x/file.py"));
        let seen: Vec<[&str; 3]> = found
            .iter()
            .map(|one| [one.name.as_str(), one.class.as_str(), one.description.as_str()])
            .collect();
        assert_eq!(seen, [["sums", "Math", "Sums of numbers."], ["file", "Other", "One line."]]);
    }
}
