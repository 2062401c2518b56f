use hermes_tools::TodoTool;
use hermes_types::{CallKind, Message, Tool, ToolCall, ToolEvent};
use serde_json::{Map, Value, json};

use super::support::{UnattendedUser, parse, run};

fn call(todo: &TodoTool, arguments: Value) -> Value {
    parse(&run(todo, "t", arguments, &UnattendedUser))
}

fn item(id: &str, content: &str, status: &str) -> Value {
    json!({"id": id, "content": content, "status": status})
}

#[test]
fn a_list_is_replaced_merged_and_read() {
    let todo = TodoTool::new();
    assert_eq!(call(&todo, json!({}))["todos"], json!([]));
    let set = call(
        &todo,
        json!({"todos": [item("1", "read", "completed"), item("2", "write", "in_progress"), {}]}),
    );
    assert_eq!(set["todos"][2], item("?", "(no description)", "pending"));
    assert_eq!(
        set["summary"],
        json!({"total": 3, "pending": 1, "in_progress": 1, "completed": 1, "cancelled": 0})
    );
    let merged = call(
        &todo,
        json!({"merge": true, "todos": [{"id": "2", "status": "completed"}, {"id": "1", "status": "odd", "content": "re-read"},
            {"id": 9, "content": "new"}, {"content": "without id"}]}),
    );
    assert_eq!(
        merged["todos"],
        json!([
            item("1", "re-read", "completed"),
            item("2", "write", "completed"),
            item("?", "(no description)", "pending"),
            item("9", "new", "pending")
        ])
    );
    assert_eq!(call(&todo, json!({}))["todos"], merged["todos"]);
    assert_eq!(parse(&run(&todo, "other", json!({}), &UnattendedUser))["todos"], json!([]));
    assert!(call(&todo, json!({"todos": 5}))["error"].is_string());
    assert_eq!(todo.call_policy(&Map::new()).kind, CallKind::Housekeeping);
}

#[test]
fn what_is_open_outlives_compression() {
    let todo = TodoTool::new();
    assert_eq!(todo.carry_over(&"t".into()), None);
    call(
        &todo,
        json!({"todos": [item("1", "a", "completed"), item("2", "b", "in_progress"), item("3", "c", "pending")]}),
    );
    assert_eq!(
        todo.carry_over(&"t".into()).unwrap(),
        "[Your active task list was preserved across context compression]\n- [>] 2. b (in_progress)\n- [ ] 3. c (pending)"
    );
    call(&todo, json!({"todos": [item("1", "a", "cancelled")]}));
    assert_eq!(todo.carry_over(&"t".into()), None);
}

#[test]
fn a_resumed_conversation_has_its_list_back() {
    let todo = TodoTool::new();
    let made = ToolCall::new(None, "todo", "{}");
    let result = |content: &str| {
        Message::tool(
            &made,
            format!(r#"{{"todos": [{{"id": "1", "content": "{content}", "status": "pending"}}]}}"#),
        )
    };
    let messages =
        [result("old"), result("new"), Message::tool(&made, "not json"), Message::user(r#"{"todos": []}"#)];
    todo.on_event(&"t".into(), ToolEvent::Resumed(&messages));
    assert_eq!(call(&todo, json!({}))["todos"][0]["content"], "new");
    todo.on_event(&"t".into(), ToolEvent::Resumed(&messages[..1]));
    assert_eq!(call(&todo, json!({}))["todos"][0]["content"], "new", "a list in use is not overwritten");
    todo.on_event(&"t".into(), ToolEvent::Ended);
    assert_eq!(call(&todo, json!({}))["todos"], json!([]));
}
