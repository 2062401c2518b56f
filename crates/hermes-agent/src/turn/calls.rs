//! Checks the calls of a model's answer before anything runs: names, then arguments, then how calls may run
//! together.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use hermes_text::{closest_match, head};
use hermes_types::{CallPolicy, Concurrency, Tool, ToolCall};
use serde_json::{Map, Value};

/// The similarity a name needs to a known one to be corrected to it.
const MIN_NAME_SIMILARITY: f64 = 0.7;

/// A call that can be run.
pub(crate) struct ReadyCall {
    pub(crate) call: ToolCall,
    pub(crate) tool: Arc<dyn Tool>,
    pub(crate) arguments: Map<String, Value>,
    pub(crate) manner: CallPolicy,
}

/// The result of checking the calls of one answer.
pub(crate) enum CallCheck {
    Run(Vec<ReadyCall>),
    /// A name is unknown: nothing runs and every call gets an answer.
    UnknownName {
        name: String,
        answers: Vec<String>,
    },
    /// Some arguments are not JSON: nothing runs and every call gets an answer.
    BrokenArguments {
        answers: Vec<String>,
    },
}

/// Checks all calls of an answer and normalizes them: it repairs names, fills in empty arguments and drops
/// repeated calls.
pub(crate) fn check(calls: &mut Vec<ToolCall>, tools: &[Arc<dyn Tool>]) -> CallCheck {
    for call in calls.iter_mut() {
        upgrade_legacy_call(call, tools);
        if let Some(name) = closest_known_name(&call.name, tools) {
            call.name = name;
        }
        if call.arguments.trim().is_empty() {
            "{}".clone_into(&mut call.arguments);
        }
    }
    if let Some(bad) = calls.iter().find(|call| find(&call.name, tools).is_none()) {
        let name = head(&bad.name, 80).to_owned();
        return CallCheck::UnknownName { name, answers: unknown_answers(calls, tools) };
    }
    let broken = |call: &ToolCall| serde_json::from_str::<Value>(&call.arguments).err();
    if calls.iter().any(|call| broken(call).is_some()) {
        let answers = calls.iter().map(|call| match broken(call) {
            Some(error) => format!(
                "Error: Invalid JSON arguments. {error}. Send a JSON object; use {{}} when no parameters are needed."
            ),
            None => "Skipped: other tool call in this response had invalid JSON.".to_owned(),
        });
        return CallCheck::BrokenArguments { answers: answers.collect() };
    }
    drop_repeated(calls, tools);
    CallCheck::Run(calls.iter().filter_map(|call| prepare_call(call, tools)).collect())
}

fn prepare_call(call: &ToolCall, tools: &[Arc<dyn Tool>]) -> Option<ReadyCall> {
    let tool = find(&call.name, tools)?;
    let (arguments, manner) = match serde_json::from_str(&call.arguments) {
        Ok(Value::Object(arguments)) => {
            let manner = tool.call_policy(&arguments);
            (arguments, manner)
        }
        // A list or a number is not an argument object: the tool reports what is missing, and runs alone.
        _ => (Map::new(), CallPolicy::default()),
    };
    Some(ReadyCall { call: call.clone(), tool, arguments, manner })
}

fn find(name: &str, tools: &[Arc<dyn Tool>]) -> Option<Arc<dyn Tool>> {
    tools.iter().find(|tool| tool.spec().name == name).cloned()
}

/// Converts a call that uses an older tool name to its current form.
fn upgrade_legacy_call(call: &mut ToolCall, tools: &[Arc<dyn Tool>]) {
    if find(&call.name, tools).is_some() {
        return;
    }
    let given: Map<String, Value> = serde_json::from_str(&call.arguments).unwrap_or_default();
    let found = tools.iter().find_map(|tool| Some((tool, tool.upgrade_legacy_call(&call.name, &given)?)));
    if let Some((tool, arguments)) = found {
        call.name.clone_from(&tool.spec().name);
        call.arguments = Value::Object(arguments).to_string();
    }
}

/// Returns the known name closest to an unknown one.
fn closest_known_name(name: &str, tools: &[Arc<dyn Tool>]) -> Option<String> {
    let known = |wanted: &str| tools.iter().any(|tool| tool.spec().name == wanted);
    if known(name) {
        return None;
    }
    let lower = name.trim().to_lowercase();
    let joined = lower.replace(['-', ' '], "_");
    if let Some(found) = [&lower, &joined].into_iter().find(|name| known(name)) {
        return Some(found.clone());
    }
    let names: Vec<&str> = tools.iter().map(|tool| tool.spec().name.as_str()).collect();
    closest_match(&joined, names.iter().copied(), MIN_NAME_SIMILARITY).map(str::to_owned)
}

fn unknown_answers(calls: &[ToolCall], tools: &[Arc<dyn Tool>]) -> Vec<String> {
    let mut names: Vec<&str> = tools.iter().map(|tool| tool.spec().name.as_str()).collect();
    names.sort_unstable();
    let names = names.join(", ");
    let answer = |call: &ToolCall| match find(&call.name, tools) {
        None => format!("Tool '{}' does not exist. Available tools: {names}", head(&call.name, 80)),
        Some(_) => {
            "Skipped: another call of this response used an invalid tool name. Please retry.".to_owned()
        }
    };
    calls.iter().map(answer).collect()
}

/// Keeps the first of equal calls, and as many calls of a tool as its descriptor allows in one answer.
fn drop_repeated(calls: &mut Vec<ToolCall>, tools: &[Arc<dyn Tool>]) {
    let mut seen = HashSet::new();
    let mut counts: HashMap<String, usize> = HashMap::new();
    calls.retain(|call| {
        let most = find(&call.name, tools).and_then(|tool| tool.descriptor().max_calls_per_answer);
        let count = counts.entry(call.name.clone()).or_default();
        *count += 1;
        most.is_none_or(|most| *count <= most) && seen.insert((call.name.clone(), call.arguments.clone()))
    });
}

/// Tells whether the calls of one answer may run at the same time.
pub(crate) fn can_run_concurrently(batch: &[ReadyCall]) -> bool {
    batch.len() > 1
        && batch.iter().enumerate().all(|(at, one)| match one.manner.concurrency {
            Concurrency::Sequential => false,
            Concurrency::Parallel => true,
            Concurrency::DisjointPaths => {
                let Some(path) = path_of(one) else { return false };
                batch
                    .iter()
                    .enumerate()
                    .filter(|(other, _)| *other != at)
                    .filter_map(|(_, other)| path_of(other))
                    .all(|other| !overlap(path, other))
            }
        })
}

fn path_of(ready: &ReadyCall) -> Option<&str> {
    ready.manner.path.as_deref().map(str::trim).filter(|path| !path.is_empty())
}

/// Tells whether two paths are equal or one contains the other, by components: `a` and `a/b` overlap, `a` and
/// `ab` do not.
fn overlap(one: &str, other: &str) -> bool {
    let parts = |path: &str| -> Vec<String> {
        let root = path.starts_with('/').then(String::new);
        let named = path.split('/').filter(|part| !part.is_empty() && *part != ".").map(str::to_owned);
        root.into_iter().chain(named).collect()
    };
    let (one, other) = (parts(one), parts(other));
    let shared = one.len().min(other.len());
    one.iter().take(shared).eq(other.iter().take(shared))
}

#[cfg(test)]
mod tests {
    use super::overlap;

    #[test]
    fn paths_overlap_by_components() {
        for (one, other, expected) in [
            ("a", "a/b.txt", true),
            ("a/b", "a/b", true),
            ("./a/b", "a/b", true),
            ("a", "ab", false),
            ("a/b", "a/c", false),
            ("/a", "a", false),
            ("/", "/etc", true),
            (".", "x", true),
        ] {
            assert_eq!(overlap(one, other), expected, "{one} {other}");
            assert_eq!(overlap(other, one), expected, "{other} {one}");
        }
    }
}
