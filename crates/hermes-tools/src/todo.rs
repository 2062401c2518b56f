//! `todo`: the model's task list, one per task.
//!
//! The list is kept in memory only; a resumed conversation restores it from its latest result. Invariant:
//! merging neither reorders nor drops existing items.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use hermes_types::{
    BoxFuture, CallKind, CallPolicy, Message, ResultAuthor, Role, TaskId, Tool, ToolContext, ToolDescriptor,
    ToolEvent, ToolInvocation, ToolOutcome, ToolSpec,
};
use serde_json::{Map, Value, json};

use crate::answer;
use crate::argument::spec;

/// The heading of a list that is carried over a context compression.
const CARRIED: &str = "[Your active task list was preserved across context compression]";

pub(crate) const DESCRIPTOR: ToolDescriptor<'static> = ToolDescriptor {
    name: "todo",
    toolset: "todo",
    summary: "Keeps the task list of a longer task; survives compression",
    icon: "📋",
    verb: "plan",
    preview_arguments: &[],
    result_author: ResultAuthor::Tool,
    ..ToolDescriptor::unknown("")
};

/// The `todo` tool.
#[derive(Debug)]
pub struct TodoTool {
    spec: ToolSpec,
    lists: Mutex<HashMap<TaskId, Vec<Item>>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Item {
    id: String,
    content: String,
    status: Status,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Status {
    Pending,
    InProgress,
    Completed,
    Cancelled,
}

impl Status {
    const ALL: [Self; 4] = [Self::Pending, Self::InProgress, Self::Completed, Self::Cancelled];

    fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::InProgress => "in_progress",
            Self::Completed => "completed",
            Self::Cancelled => "cancelled",
        }
    }

    fn read(given: &Value) -> Option<Self> {
        let text = field(given, "status")?.to_lowercase();
        Self::ALL.into_iter().find(|status| status.as_str() == text)
    }
}

impl Default for TodoTool {
    fn default() -> Self {
        Self::new()
    }
}

impl TodoTool {
    pub fn new() -> Self {
        let spec = spec(&DESCRIPTOR, include_str!("texts/todo.md"), include_str!("texts/todo.json"));
        Self { spec, lists: Mutex::default() }
    }

    fn with_list<T>(&self, task: &TaskId, look: impl FnOnce(&mut Vec<Item>) -> T) -> T {
        let mut lists = self.lists.lock().unwrap_or_else(PoisonError::into_inner);
        look(lists.entry(task.clone()).or_default())
    }

    fn restore(&self, task: &TaskId, messages: &[Message]) {
        let Some(items) = messages.iter().rev().find_map(read_back) else { return };
        self.with_list(task, |list| {
            if list.is_empty() {
                *list = items;
            }
        });
    }
}

impl Tool for TodoTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn descriptor(&self) -> ToolDescriptor<'_> {
        DESCRIPTOR
    }

    fn run<'a>(&'a self, call: &'a ToolInvocation, _: ToolContext<'a>) -> BoxFuture<'a, ToolOutcome> {
        let merge = call.arguments.get("merge") == Some(&Value::Bool(true));
        let result = self.with_list(&call.task, |list| {
            match call.arguments.get("todos") {
                None | Some(Value::Null) => {}
                // A list without any valid item would clear the existing one.
                Some(Value::Array(given)) if !given.is_empty() && !given.iter().any(Value::is_object) => {
                    return ToolOutcome::failed("`todos` must be a list of {id, content, status}");
                }
                Some(Value::Array(given)) if merge => merge_into(list, given),
                Some(Value::Array(given)) => {
                    *list = given.iter().filter(|item| item.is_object()).map(new_item).collect();
                }
                Some(_) => return ToolOutcome::failed("`todos` must be a list of {id, content, status}"),
            }
            answer::success_json(&describe(list))
        });
        Box::pin(std::future::ready(result))
    }

    fn call_policy(&self, _: &Map<String, Value>) -> CallPolicy {
        CallPolicy { kind: CallKind::Housekeeping, ..CallPolicy::default() }
    }

    fn on_event(&self, task: &TaskId, occasion: ToolEvent<'_>) {
        match occasion {
            ToolEvent::Resumed(messages) => self.restore(task, messages),
            ToolEvent::Ended => {
                self.lists.lock().unwrap_or_else(PoisonError::into_inner).remove(task);
            }
            ToolEvent::Compressed
            | ToolEvent::CallStarting(_)
            | ToolEvent::Delegated(_)
            | ToolEvent::OthersWordsRead(_)
            | ToolEvent::TurnCompleted => {}
        }
    }

    fn carry_over(&self, task: &TaskId) -> Option<String> {
        let lists = self.lists.lock().unwrap_or_else(PoisonError::into_inner);
        let lines: Vec<String> = lists
            .get(task)?
            .iter()
            .filter_map(|Item { id, content, status }| match status {
                Status::Pending => Some(format!("- [ ] {id}. {content} (pending)")),
                Status::InProgress => Some(format!("- [>] {id}. {content} (in_progress)")),
                Status::Completed | Status::Cancelled => None,
            })
            .collect();
        (!lines.is_empty()).then(|| format!("{CARRIED}\n{}", lines.join("\n")))
    }
}

/// Returns a field as text. A missing or blank value is `None`.
fn field(given: &Value, name: &str) -> Option<String> {
    let text = match given.get(name)? {
        Value::String(text) => text.trim().to_owned(),
        Value::Number(number) => number.to_string(),
        _ => return None,
    };
    (!text.is_empty()).then_some(text)
}

fn new_item(given: &Value) -> Item {
    Item {
        id: field(given, "id").unwrap_or_else(|| "?".to_owned()),
        content: field(given, "content").unwrap_or_else(|| "(no description)".to_owned()),
        status: Status::read(given).unwrap_or(Status::Pending),
    }
}

fn merge_into(list: &mut Vec<Item>, given: &[Value]) {
    for item in given {
        let Some(id) = field(item, "id") else { continue };
        match list.iter_mut().find(|known| known.id == id) {
            Some(known) => {
                if let Some(content) = field(item, "content") {
                    known.content = content;
                }
                if let Some(status) = Status::read(item) {
                    known.status = status;
                }
            }
            None => list.push(new_item(item)),
        }
    }
}

fn describe(list: &[Item]) -> Value {
    let todos: Vec<Value> = list
        .iter()
        .map(|item| json!({"id": item.id, "content": item.content, "status": item.status.as_str()}))
        .collect();
    let count = |wanted: Status| list.iter().filter(|item| item.status == wanted).count();
    let mut summary = Map::new();
    summary.insert("total".to_owned(), json!(list.len()));
    for status in Status::ALL {
        summary.insert(status.as_str().to_owned(), json!(count(status)));
    }
    json!({"todos": todos, "summary": summary})
}

/// Reads the list from an earlier result of this tool.
fn read_back(message: &Message) -> Option<Vec<Item>> {
    if message.role != Role::Tool {
        return None;
    }
    let text = message.content.text();
    if !text.contains("\"todos\"") {
        return None;
    }
    let value: Value = serde_json::from_str(&text).ok()?;
    let todos = value.get("todos")?.as_array()?;
    Some(todos.iter().filter(|item| item.is_object()).map(new_item).collect())
}
