//! Conversations as trajectories.

use hermes_research::{SessionTrajectory, ToolCounts, count_reasoning, count_tools, iso_time, trajectory_of};
use hermes_text::JsonTree;
use hermes_types::{CivilTime, ContentPart, Message, MessageContent, RawJson, Timestamp, ToolCall, ToolSpec};

fn call(id: &str, name: &str, arguments: &str) -> ToolCall {
    ToolCall::new(Some(id), name, arguments)
}

fn worked_example() -> Vec<Message> {
    let calls = vec![call("c1", "terminal", r#"{"command":"ls"}"#), call("c2", "todo", "{bad")];
    let mut first = Message::assistant("On it").with_calls(calls.clone());
    first.reasoning = Some("plan".to_owned());
    vec![
        Message::user("q"),
        first,
        Message::tool(&calls[0], r#"{"output":"é","exit_code":0}"#),
        Message::tool(&calls[1], "plain"),
        Message::assistant("<REASONING_SCRATCHPAD>hm</REASONING_SCRATCHPAD> done "),
        Message::assistant("  bye "),
    ]
}

#[test]
fn a_conversation_becomes_the_turns_that_training_programs_read() {
    let turns = trajectory_of("q", &worked_example(), &[]);
    let lines: Vec<String> = turns.iter().skip(1).map(|turn| turn.to_json().to_string()).collect();
    let expected = [
        r#"{"from": "human", "value": "q"}"#,
        r#"{"from": "gpt", "value": "<think>\nplan\n</think>\nOn it\n<tool_call>\n{\"name\": \"terminal\", \"arguments\": {\"command\": \"ls\"}}\n</tool_call>\n<tool_call>\n{\"name\": \"todo\", \"arguments\": {}}\n</tool_call>"}"#,
        r#"{"from": "tool", "value": "<tool_response>\n{\"tool_call_id\": \"c1\", \"name\": \"terminal\", \"content\": {\"output\": \"é\", \"exit_code\": 0}}\n</tool_response>\n<tool_response>\n{\"tool_call_id\": \"c2\", \"name\": \"todo\", \"content\": \"plain\"}\n</tool_response>"}"#,
        r#"{"from": "gpt", "value": "<think>hm</think> done"}"#,
        r#"{"from": "gpt", "value": "<think>\n</think>\n  bye"}"#,
    ];
    assert_eq!(lines, expected);
}

#[test]
fn the_system_turn_describes_the_tools() {
    let spec = ToolSpec {
        name: "look".to_owned(),
        description: "Looks.".to_owned(),
        parameters: RawJson::parse(r#"{"type":"object","n":1e3}"#.to_owned()).unwrap(),
    };
    let system = trajectory_of("q", &[], &[spec]).remove(0).value;
    let tools = system.split("<tools>\n").nth(1).and_then(|rest| rest.split("\n</tools>").next()).unwrap();
    let described = r#"[{"name": "look", "description": "Looks.", "parameters": {"type": "object", "n": 1000.0}, "required": null}]"#;
    assert_eq!(tools, described);
    for marker in ["<tool_response> </tool_response>", "'title': 'FunctionCall'", "<tool_call>\n{"] {
        assert!(system.contains(marker), "{marker}");
    }
    assert!(trajectory_of("q", &[], &[]).remove(0).value.contains("<tools>\n[]\n</tools>"));
}

#[test]
fn results_have_the_names_of_their_places() {
    let calls = vec![call("a", "first", "{}"), call("b", "second", "{}")];
    let stray = call("z", "other", "{}");
    let messages = [
        Message::user("q"),
        Message::tool(&stray, "without a call"),
        Message::system("not a part of it"),
        Message::assistant("").with_calls(calls.clone()),
        Message::tool(&calls[1], "[1, 2"),
        Message::tool(&calls[0], " [1,2] "),
        Message::tool(&stray, "more"),
        Message::user("later"),
    ];
    let turns = trajectory_of("q", &messages, &[]);
    let from: Vec<&str> = turns.iter().map(|turn| turn.from.as_str()).collect();
    assert_eq!(from, ["system", "human", "gpt", "tool", "human"]);
    let results = &turns[3].value;
    assert!(results.contains(r#"{"tool_call_id": "b", "name": "first", "content": "[1, 2"}"#), "{results}");
    assert!(results.contains(r#"{"tool_call_id": "a", "name": "second", "content": [1, 2]}"#), "{results}");
    assert!(results.contains(r#"{"tool_call_id": "z", "name": "unknown", "content": "more"}"#), "{results}");
}

#[test]
fn pictures_become_words() {
    let picture = ContentPart::Image { url: "data:image/png;base64,AA".to_owned() };
    let shot = call("a", "look", "{}");
    let user = MessageContent::Parts(vec![ContentPart::Text("see".into()), picture.clone(), picture.clone()]);
    let result = MessageContent::Parts(vec![ContentPart::Text("the page".into()), picture]);
    let messages = [
        Message::user(user),
        Message::assistant("").with_calls(vec![shot.clone()]),
        Message::tool(&shot, result),
        Message::assistant("ok"),
    ];
    let made = SessionTrajectory::new(&messages, &[], "m", "2026-01-01T00:00:00".to_owned(), true).unwrap();
    let made = made.to_json().to_string();
    assert!(made.contains(r#"{"from": "human", "value": "see [2 images]"}"#), "{made}");
    assert!(made.contains(r#"\"content\": \"the page\\n[screenshot]\"}"#), "{made}");
    assert!(
        made.ends_with(r#""timestamp": "2026-01-01T00:00:00", "model": "m", "completed": true}"#),
        "{made}"
    );
}

#[test]
fn sessions_are_added_to_the_file_of_their_kind() {
    let folder = tempfile::tempdir().unwrap();
    for (completed, name) in [(true, "trajectory_samples.jsonl"), (false, "failed_trajectories.jsonl")] {
        let made = SessionTrajectory::new(&worked_example(), &[], "m", String::new(), completed).unwrap();
        let masked = made.with_texts(|text| text.replace("plan", "***"));
        assert_eq!(masked.append_in(folder.path()).unwrap(), folder.path().join(name));
        masked.append_in(folder.path()).unwrap();
        let text = std::fs::read_to_string(folder.path().join(name)).unwrap();
        assert_eq!(text.lines().count(), 2);
        assert!(text.lines().all(|line| JsonTree::parse(line).is_ok()) && !text.contains("plan"), "{text}");
    }
    assert!(SessionTrajectory::new(&[Message::assistant("x")], &[], "m", String::new(), true).is_none());
}

#[track_caller]
fn check_verdict(content: &str, is_success: bool) {
    let one = call("c", "t", "{}");
    let messages = [Message::assistant("").with_calls(vec![one.clone()]), Message::tool(&one, content)];
    let (success, failure) = if is_success { (1, 0) } else { (0, 1) };
    assert_eq!(
        count_tools(&messages).get("t"),
        Some(&ToolCounts { count: 1, success, failure }),
        "{content:?}"
    );
}

#[test]
fn results_are_counted_by_what_they_say() {
    for failure in [
        r#"{"error": "x"}"#,
        r#"{"error": ""}"#,
        r#"{"error": false}"#,
        r#"{"content": {"error": 0}}"#,
        r#"{"success": false, "output": "y"}"#,
        "",
        "Error: no",
        "  ERROR:",
    ] {
        check_verdict(failure, false);
    }
    for success in [
        r#"{"error": null}"#,
        r#"{"exit_code": 1}"#,
        r#"{"content": {"error": null}}"#,
        r#"{"content": "error"}"#,
        r#"{"success": 0}"#,
        "[]",
        "null",
        "\"error: x\"",
        "   ",
        "some error: later",
    ] {
        check_verdict(success, true);
    }
    let known = call("a", "t", "{}");
    let unmatched =
        [Message::assistant("").with_calls(vec![known]), Message::tool(&call("b", "t", "{}"), "ok")];
    assert_eq!(count_tools(&unmatched)["t"], ToolCounts { count: 1, success: 0, failure: 0 });
}

#[test]
fn only_reasoning_counts_as_reasoning() {
    let mut blank = Message::assistant("x");
    blank.reasoning = Some(" \n".to_owned());
    let mut thought = Message::assistant("x");
    thought.reasoning = Some("because".to_owned());
    let scratch = Message::assistant("<REASONING_SCRATCHPAD>a</REASONING_SCRATCHPAD>");
    let literal = Message::assistant("<think>a</think>");
    let counts = count_reasoning(&[Message::user("q"), blank, thought, scratch, literal]);
    assert_eq!((counts.turns, counts.with_reasoning), (4, 2));
}

#[test]
fn times_are_local_and_have_microseconds_when_there_are_some() {
    let local = CivilTime { year: 2026, month: 2, day: 1, hour: 14, minute: 30, second: 52 };
    assert_eq!(iso_time(local, Timestamp(10.0)), "2026-02-01T14:30:52");
    assert_eq!(iso_time(local, Timestamp(10.25)), "2026-02-01T14:30:52.250000");
}
