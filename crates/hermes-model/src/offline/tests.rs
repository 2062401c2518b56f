use hermes_types::{CallId, Cancel, Clock, Deadline, RawJson, Timestamp, ToolSpec};
use serde_json::json;

use super::intent::{Intent, MemoryTarget};
use super::*;

#[derive(Debug)]
struct FrozenClock;

impl Clock for FrozenClock {
    fn now(&self) -> Timestamp {
        Timestamp(0.0)
    }

    fn monotonic(&self) -> std::time::Duration {
        std::time::Duration::ZERO
    }

    fn sleep(&self, _: std::time::Duration) -> BoxFuture<'static, ()> {
        Box::pin(std::future::ready(()))
    }
}

fn request(messages: Vec<Message>, tools: &[&str]) -> ModelRequest {
    let tool = |name: &&str| ToolSpec {
        name: (*name).to_owned(),
        description: String::new(),
        parameters: RawJson::from_value(&json!({})),
    };
    ModelRequest {
        model: MODEL_NAME.into(),
        system: String::new(),
        messages,
        tools: tools.iter().map(tool).collect(),
        max_tokens: None,
        temperature: None,
        effort: None,
        session: None,
        deadline: Deadline::after(&FrozenClock, std::time::Duration::from_mins(1)),
        cancel: Cancel::new(),
    }
}

const ALL: [&str; 8] =
    ["terminal", "read_file", "write_file", "search_files", "memory", "cronjob", "session_search", "todo"];

#[expect(clippy::needless_pass_by_value, reason = "the cases read better without ampersands")]
fn check(text: &str, tool: &str, arguments: serde_json::Value) {
    let message = answer(&request(vec![Message::user(text)], &ALL));
    let [call] = message.tool_calls.as_slice() else { panic!("{text:?}: {}", message.content.text()) };
    assert_eq!(call.name, tool, "{text:?}");
    assert_eq!(serde_json::from_str::<serde_json::Value>(&call.arguments).unwrap(), arguments, "{text:?}");
}

#[test]
fn plain_requests_become_calls() {
    check("list the files here", "terminal", json!({"command": "ls -la -- ."}));
    check("List files in my folder's", "terminal", json!({"command": r"ls -la -- 'my folder'\''s'"}));
    check("read README.md", "read_file", json!({"path": "README.md"}));
    check("Could you please show me src/main.rs?", "read_file", json!({"path": "src/main.rs"}));
    check("run `uname -a`", "terminal", json!({"command": "uname -a"}));
    check("Run echo hello.", "terminal", json!({"command": "echo hello."}));
    check("search for TODO", "search_files", json!({"pattern": "TODO", "target": "content", "path": "."}));
    check(
        "search for \"fn main\" in src",
        "search_files",
        json!({"pattern": "fn main", "target": "content", "path": "src"}),
    );
    check(
        "find files named *.rs",
        "search_files",
        json!({"pattern": "*.rs", "target": "files", "path": "."}),
    );
    check(
        "remember that I like tea",
        "memory",
        json!({"action": "add", "target": "user", "content": "I like tea"}),
    );
    check(
        "Remember that the server is called atlas.",
        "memory",
        json!({"action": "add", "target": "memory", "content": "the server is called atlas"}),
    );
    check(
        "forget that the server is atlas",
        "memory",
        json!({"action": "remove", "target": "memory", "old_text": "the server is atlas"}),
    );
    check(
        "every morning at 9 check the weather",
        "cronjob",
        json!({"action": "create", "schedule": "0 9 * * *", "prompt": "check the weather"}),
    );
    check(
        "every evening at 7:30, tidy up",
        "cronjob",
        json!({"action": "create", "schedule": "30 19 * * *", "prompt": "tidy up"}),
    );
    check(
        "every monday at 8am to send the report",
        "cronjob",
        json!({"action": "create", "schedule": "0 8 * * 1", "prompt": "send the report"}),
    );
    check(
        "every 30 minutes check the build",
        "cronjob",
        json!({"action": "create", "schedule": "every 30m", "prompt": "check the build"}),
    );
    check(
        "remind me in 10 minutes to stretch",
        "cronjob",
        json!({"action": "create", "schedule": "10m", "prompt": "stretch"}),
    );
    check("write \"hello\" to notes.txt", "write_file", json!({"path": "notes.txt", "content": "hello"}));
    check(
        "create a file a/b.txt with two words",
        "write_file",
        json!({"path": "a/b.txt", "content": "two words"}),
    );
    check("search past conversations for docker", "session_search", json!({"query": "docker"}));
}

#[test]
fn what_it_does_not_understand_it_says() {
    for text in [
        "what is the meaning of life?",
        "show me the way",
        "every cloud",
        "",
        "write a poem to my love",
        "read",
        "then",
    ] {
        let message = answer(&request(vec![Message::user(text)], &ALL));
        assert!(message.tool_calls.is_empty(), "{text:?}");
        let said = message.content.text();
        assert!(said.contains("not a language model") && said.contains("hermes model"), "{text:?}: {said}");
    }
}

#[test]
fn a_missing_tool_is_named() {
    let message = answer(&request(vec![Message::user("run `ls`")], &["read_file"]));
    assert!(message.content.text().contains("`terminal`"), "{}", message.content.text());
    let message = answer(&request(vec![Message::user("list the files here")], &["search_files"]));
    assert_eq!(message.tool_calls[0].name, "search_files", "another tool does as well");
}

#[test]
fn steps_are_taken_one_after_another_and_then_told() {
    let mut messages = vec![Message::user("read a.txt, then run `make test` and then list the files here")];
    let mut names = Vec::new();
    let last = loop {
        let next = answer(&request(messages.clone(), &ALL));
        let Some(call) = next.tool_calls.first().cloned() else { break next };
        names.push(call.name.clone());
        let result = match call.name.as_str() {
            "read_file" => json!({"content": "     1|hi"}),
            _ => json!({"output": "fine", "exit_code": if names.len() == 2 { 2 } else { 0 }}),
        };
        messages.extend([next, Message::tool(&call, result.to_string())]);
        assert!(names.len() <= 3);
    };
    assert_eq!(names, ["read_file", "terminal", "terminal"]);
    let said = last.content.text().into_owned();
    assert!(said.contains("     1|hi") && said.contains("`make test` ended with exit code 2"), "{said}");
    assert!(said.ends_with(phrase::SIGNATURE));
}

#[test]
fn and_joins_steps_but_not_words() {
    let read = |text: &str| intent::read(text).len();
    assert_eq!(read("list the files here and read README.md"), 2);
    assert_eq!(read("Please read a.txt, search for TODO and run `ls`"), 3);
    assert_eq!(read("remember that I read and run every morning"), 1);
    assert_eq!(read("search for bread and read"), 1);
}

#[test]
fn failures_are_told_as_failures() {
    let intent = Intent::ReadFile { path: "x.txt".into() };
    let said = phrase::describe_result(&intent, Some(r#"{"error": "File not found: x.txt"}"#));
    assert_eq!(said, "That did not work: File not found: x.txt");
    assert_eq!(phrase::describe_result(&intent, None), "read_file gave no answer.");
}

#[test]
fn a_listing_by_search_is_a_list() {
    let intent = Intent::ListFiles { path: ".".into() };
    let content = "{\"total_count\":3,\"files\":[\"b\",\"a\"],\"truncated\":true}\n\n[Hint: Results truncated. Use offset=2]";
    let said = phrase::describe_result(&intent, Some(content));
    assert_eq!(said, "The files in this folder (the 2 newest of 3):\n```\na\nb\n```");
}

#[test]
fn fences_and_lengths_hold() {
    let intent = Intent::Run { command: "cat".into() };
    let said = phrase::describe_result(
        &intent,
        Some(&json!({"output": "````\ncode\n````", "exit_code": 0}).to_string()),
    );
    assert!(said.contains("`````\n````\ncode"), "{said}");
    let said = phrase::describe_result(
        &intent,
        Some(&json!({"output": "é".repeat(9000), "exit_code": 0}).to_string()),
    );
    assert!(said.contains("(5000 more characters)"), "{said}");
}

#[test]
fn memories_are_listed() {
    let intent = Intent::Recall { target: MemoryTarget::User };
    let said =
        phrase::describe_result(&intent, Some(r#"{"success":true,"target":"user","entries":["likes tea"]}"#));
    assert_eq!(said, "About you:\n- likes tea");
}

#[test]
fn an_older_turn_does_not_count() {
    let call = ToolCall::new(Some("c"), "terminal", "{}");
    let messages = vec![
        Message::user("run `ls`"),
        Message::assistant("").with_calls(vec![call.clone()]),
        Message::tool(&call, "{}"),
        Message::assistant("done"),
        Message::user("run `pwd`"),
    ];
    let message = answer(&request(messages, &ALL));
    assert_eq!(message.tool_calls[0].arguments, r#"{"command":"pwd"}"#);
    assert_ne!(message.tool_calls[0].id, CallId::from("c"));
}
