//! Tests of the results of `memory`.

use hermes_config::Home;
use hermes_knowledge::{MemoryLimits, MemoryStore};
use hermes_tools::MemoryTool;
use serde_json::{Value, json};

use super::support::{UnattendedUser, parse, run};

fn call(folder: &std::path::Path, arguments: Value) -> Value {
    let memory = MemoryStore::new(&Home::new(folder), MemoryLimits { memory: 60, user: 40 });
    let tool = MemoryTool::new(Some(memory), None);
    parse(&run(&tool, "t", arguments, &UnattendedUser))
}

#[test]
fn entries_are_added_replaced_removed_and_read() {
    let home = tempfile::tempdir().unwrap();
    let answer = call(home.path(), json!({"action": "add", "target": "memory", "content": "uses vim"}));
    let expected = json!({
        "success": true, "target": "memory", "entries": ["uses vim"], "usage": "13% — 8/60 chars",
        "entry_count": 1, "message": "Entry added.",
    });
    assert_eq!(answer, expected);
    let answer = call(home.path(), json!({"action": "replace", "old_text": "vim", "content": "uses helix"}));
    assert_eq!(answer["entries"], json!(["uses helix"]));
    let answer = call(home.path(), json!({"action": "read", "target": "memory"}));
    assert_eq!((answer["entry_count"].as_u64(), answer.get("message")), (Some(1), None));
    let answer = call(home.path(), json!({"action": "remove", "target": null, "old_text": "helix"}));
    assert_eq!(answer["message"], "Entry removed.");
}

#[test]
fn a_refusal_says_what_stands_there() {
    let home = tempfile::tempdir().unwrap();
    call(home.path(), json!({"action": "add", "target": "memory", "content": "x".repeat(50)}));
    let answer = call(home.path(), json!({"action": "add", "target": "memory", "content": "y".repeat(20)}));
    assert_eq!((answer["success"].as_bool(), answer["usage"].as_str()), (Some(false), Some("50/60")));
    assert!(answer["error"].as_str().unwrap().contains("would exceed the limit"), "{answer}");
    assert_eq!(answer["current_entries"].as_array().unwrap().len(), 1);
    for (arguments, words) in [
        (json!({"action": "add", "target": "nobody", "content": "x"}), "Invalid target 'nobody'."),
        (json!({"action": "dance", "target": "memory"}), "Unknown action 'dance'."),
        (json!({"action": "add", "target": "user", "content": "x"}), "Memory is not available."),
        (json!({"action": "remove", "target": "memory", "old_text": "zzz"}), "No entry matched 'zzz'."),
    ] {
        let answer = call(home.path(), arguments);
        assert!(answer["error"].as_str().unwrap().starts_with(words), "{answer}");
    }
}

#[test]
fn several_operations_hold_together() {
    let home = tempfile::tempdir().unwrap();
    call(home.path(), json!({"action": "add", "target": "memory", "content": "x".repeat(50)}));
    let operations = json!({"target": "memory", "operations": [
        {"action": "remove", "old_text": "xxx"}, {"action": "add", "content": "y".repeat(55)},
    ]});
    assert_eq!(call(home.path(), operations)["entry_count"], 1);
}
