//! The YAML form: the bundled scripts, and the errors of invalid ones.

use std::path::{Path, PathBuf};

use hermes_testkit::{ModelScript, ModelServer, http_post};
use serde_json::json;

use super::{CHAT, MESSAGES, RESPONSES, data_lines};

fn ready() -> Vec<PathBuf> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts");
    let mut paths: Vec<PathBuf> =
        std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths
}

/// A text that meets the conditions of every bundled script.
const WORDS: &str = "weather, slow, gated";

#[test]
fn ready_scripts_play_on_every_wire() {
    let paths = ready();
    assert!(paths.len() >= 4);
    for path in paths {
        for (wire, stream) in
            [(CHAT, true), (CHAT, false), (RESPONSES, true), (MESSAGES, true), (MESSAGES, false)]
        {
            let server = ModelServer::start_blocking(ModelScript::load(&path).unwrap()).unwrap();
            server.open("go");
            let body = json!({"model": "m", "stream": stream, "messages": [
                {"role": "user", "content": WORDS},
                {"role": "tool", "tool_call_id": "call_tokyo", "content": "warm"}]});
            let mut answered = 0;
            for _ in 0..12 {
                // Scripted resets are expected to be errors here.
                if let Ok(reply) = http_post(server.address(), wire, &body) {
                    answered += usize::from(reply.status == 200);
                }
            }
            assert!(answered > 0, "{} on {wire}", path.display());
            server.assert_requests(12);
        }
    }
}

#[test]
fn tool_call_script_plays_to_its_end() {
    let path = ready().into_iter().find(|path| path.ends_with("tool-call.yaml")).unwrap();
    let server = ModelServer::start_blocking(ModelScript::load(&path).unwrap()).unwrap();
    let ask = json!({"model": "m", "messages": [{"role": "user", "content": "weather?"}]});
    let first = http_post(server.address(), CHAT, &ask).unwrap().json();
    let calls = &first["choices"][0]["message"]["tool_calls"];
    assert_eq!(calls[0]["function"]["arguments"], r#"{"city":"Paris","unit":"°C"}"#);
    assert_eq!(calls[1]["function"]["arguments"], r#"{"city":"東京"}"#);
    let answer = json!({"model": "m", "stream": true, "messages": [
        {"role": "user", "content": "?"}, {"role": "tool", "tool_call_id": "call_tokyo", "content": "warm"}]});
    let text = http_post(server.address(), CHAT, &answer).unwrap().text();
    assert!(data_lines(&text).len() > 6);
    server.assert_finished();
}

#[test]
fn bad_scripts_are_told_file_line_and_field() {
    let cases = [
        ("replies:\n  - txt: hi\n", 2, "txt"),
        ("replies:\n  - text: hi\n    repeat: often\n", 3, "often"),
        ("replies:\n  - text: hi\n    when: {user_has: x}\n", 3, "user_has"),
        ("replies:\n  - events:\n      - text: hi\n      - sing: la\n", 4, "sing"),
        ("replies:\n  - events:\n      - delay: 5\n", 3, "250ms"),
        ("replies:\n  - tool: {arguments: {}}\n", 2, "name"),
        ("replies:\n  - text: {content: hi, every: 0}\n", 2, "every"),
        ("replies:\n  - events:\n      - cut: gently\n", 3, "gently"),
        ("replies:\n  - quirks: [no_manners]\n    text: hi\n", 2, "no_manners"),
        ("replies:\n  - name: empty\n", 2, "a reply needs one of"),
        ("replies:\n  - text: hi\n    http: {status: 500}\n", 2, "only headers, delay"),
        ("replies:\n  - http: {status: 99}\n", 2, "status"),
        ("modles: []\n", 1, "modles"),
        ("replies:\n  - text: [unclosed\n", 2, ""),
    ];
    for (text, line, field) in cases {
        let error = ModelScript::from_yaml("bad.yaml", text).expect_err(text).to_string();
        assert!(error.starts_with("bad.yaml: "), "{error}");
        assert!(error.contains(&format!("line {line}")), "line {line} in: {error}");
        assert!(error.contains(field), "`{field}` in: {error}");
    }
}

#[test]
fn every_form_of_every_event_is_read() {
    let text = r#"
models: [{id: a, context_length: 10}]
default: {reply: {text: fallback}}
order: strict
real_time: false
write_size: 100
replies:
  - name: everything
    model: other
    stream: true
    quirks: [crlf, no_space]
    transport: {framing: {chunked: {size: 7, extension: ";x=1", pad: 4, uppercase: true, trailers: {x-end: 1}}}, headers: {x-a: 1}}
    events:
      - headers
      - text: 42
      - text: {content: "añb", every_bytes: 2}
      - reasoning: [a, b]
      - reasoning: {text: t, details: [{type: x}], field: reasoning_details}
      - tool: {name: t, arguments: {a: [1, {b: null}]}, extra_content: {google: {thought_signature: s}}, index: 3, item_id: fc_1}
      - tools: {calls: [{name: u}]}
      - usage: none
      - finish: length
      - ping
      - comment: hello
      - json: {a: 1}
      - sse: {event: e, data: "1\n2", id: "9", retry: 5}
      - data: "not json"
      - malformed
      - raw: "data: raw\n\n"
      - bytes: [100, 0xff, 10]
      - delay: 1m
      - end
      - text: after the end
"#;
    let server = ModelServer::start_blocking(ModelScript::from_yaml("all.yaml", text).unwrap()).unwrap();
    let reply = http_post(server.address(), CHAT, &json!({"model": "m", "messages": []})).unwrap();
    assert_eq!((reply.status, reply.header("x-a"), reply.complete), (200, Some("1"), true));
    let text = reply.text();
    for part in [
        "\"content\":\"42\"",
        "\"content\":\"ñ\"",
        "thought_signature",
        "\"index\":3",
        "event:e\r\n",
        "data:1\r\ndata:2\r\n",
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
    assert!(text.contains("data:[DONE]\r\n\r\n"), "{text}");
    assert!(text.trim_end().ends_with("}]}"), "text after the end comes last: {text}");
    assert!(text.contains("\"model\":\"other\""));
    assert!(reply.body.contains(&0xff));
}

#[test]
fn the_examples_in_the_manual_are_scripts() {
    let manual = include_str!("../../SCRIPT.md");
    let examples: Vec<&str> =
        manual.split("```yaml\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
    assert!(examples.len() >= 5);
    for example in examples {
        ModelScript::from_yaml("SCRIPT.md", example).unwrap_or_else(|error| panic!("{error}\n{example}"));
    }
}
