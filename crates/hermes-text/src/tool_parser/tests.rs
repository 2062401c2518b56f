use proptest::prelude::*;

use super::*;
use crate::JsonTree;

const VECTORS: &str = include_str!("vectors.jsonl");

struct Vector {
    parser: ToolCallParser,
    name: String,
    input: String,
    content: Option<String>,
    /// Names, arguments and ids.
    calls: Option<Vec<(String, String, Option<String>)>>,
}

fn vectors() -> Vec<Vector> {
    let text = |value: &JsonTree| value.as_str().unwrap().to_owned();
    let read = |line: &str| {
        let value = JsonTree::parse(line).unwrap();
        let name = text(value.get("parser").unwrap());
        let calls = value.get("calls").and_then(JsonTree::as_array).map(|calls| {
            let call = |call: &JsonTree| {
                let parts = call.as_array().unwrap();
                (text(&parts[0]), text(&parts[1]), parts.get(2).map(text))
            };
            calls.iter().map(call).collect()
        });
        Vector {
            parser: ToolCallParser::named(&name).unwrap(),
            name,
            input: text(value.get("in").unwrap()),
            content: value.get("content").and_then(JsonTree::as_str).map(str::to_owned),
            calls,
        }
    };
    VECTORS.lines().map(read).collect()
}

#[test]
fn texts_are_taken_apart_as_their_families_write_them() {
    let all = vectors();
    assert_eq!(all.len(), 74);
    for vector in all {
        let parsed = vector.parser.parse(&vector.input);
        let (content, calls) = match parsed {
            None => (None, None),
            Some(ParsedToolText { content, calls }) => {
                let calls = calls.into_iter().map(|call| (call.name, call.arguments, call.id));
                (content, Some(calls.collect::<Vec<_>>()))
            }
        };
        assert_eq!((content, calls), (vector.content, vector.calls), "{}: {:?}", vector.name, vector.input);
    }
}

#[test]
fn names_are_sorted_and_an_unknown_one_lists_them() {
    let names = ToolCallParser::names();
    assert!(names.is_sorted() && names.iter().all(|name| ToolCallParser::named(name).is_ok()));
    let error = ToolCallParser::named("gpt").unwrap_err().to_string();
    assert!(error.starts_with("`gpt` is not a tool-call parser; there are deepseek_v3, "), "{error}");
    assert_eq!(ToolCallParser::named("qwen"), ToolCallParser::named("hermes"));
}

#[track_caller]
fn check_typed(written: &str, expected: Option<&str>) {
    assert_eq!(
        literal::typed_value(written).map(|value| value.to_string()).as_deref(),
        expected,
        "{written}"
    );
}

#[test]
fn values_are_typed_by_how_they_look() {
    check_typed("12", Some("12"));
    check_typed("-0x1f", Some("-31"));
    check_typed("1_000.5", Some("1000.5"));
    check_typed("1e400", None);
    check_typed("1__0", Some("\"1__0\""));
    check_typed("('a', \"b\\x41\",)", Some("[\"a\", \"bA\"]"));
    check_typed("(1)", Some("1"));
    check_typed("1, 2", Some("[1, 2]"));
    check_typed("{'k': (None,), 2: True}", Some("{\"k\": [null], \"2\": true}"));
    check_typed("r'a\\n'", Some("\"a\\\\n\""));
    check_typed("'''two\nlines'''", Some("\"two\\nlines\""));
    check_typed("'open", Some("\"'open\""));
    check_typed("Trueish", Some("\"Trueish\""));
    check_typed("3 apples", Some("\"3 apples\""));
    check_typed("2026-11-19", Some("\"2026-11-19\""));
    check_typed("NaN", Some("\"NaN\""));
    check_typed("b'x'", None);
    check_typed("3j", None);
    check_typed("{(1, 2): 3}", None);
    check_typed("set()", None);
    check_typed(&"[".repeat(5000), Some(&format!("\"{}\"", "[".repeat(5000))));
}

/// Sends a text in pieces of these lengths, and returns what was shown, and what came of it.
fn streamed(parser: ToolCallParser, text: &str, cuts: &[usize]) -> (String, Option<ParsedToolText>) {
    let mut stream = ToolCallStream::new(parser);
    let mut shown = String::new();
    let mut rest = text;
    for cut in cuts.iter().cycle().take(text.len() + 1) {
        let at = (0..=(*cut).min(rest.len())).rev().find(|at| rest.is_char_boundary(*at)).unwrap_or(0);
        let at = if at == 0 { rest.chars().next().map_or(0, char::len_utf8) } else { at };
        let (piece, next) = rest.split_at(at);
        shown.push_str(&stream.push(piece));
        rest = next;
    }
    let (parsed, left) = stream.finish();
    (shown + &left, parsed)
}

#[track_caller]
fn check_stream(parser: ToolCallParser, text: &str, cuts: &[usize]) {
    let (shown, parsed) = streamed(parser, text, cuts);
    let whole = parser.parse(text);
    assert_eq!(parsed, whole, "{text:?} in {cuts:?}");
    match whole {
        None => assert_eq!(shown, text),
        // Calls are never shown; nothing is lost of what stands before them.
        Some(parsed) => {
            let content = parsed.content.unwrap_or_default();
            let shown = shown.trim_start();
            assert!(content.starts_with(shown) || shown == content, "{shown:?} of {content:?} in {text:?}");
        }
    }
}

#[test]
fn a_text_divided_anywhere_has_the_same_calls() {
    for vector in vectors() {
        for at in 1..=vector.input.len() {
            check_stream(vector.parser, &vector.input, &[at, vector.input.len()]);
        }
        check_stream(vector.parser, &vector.input, &[1]);
    }
}

fn pieces() -> impl Strategy<Value = String> {
    let words = [
        "<tool_call>",
        "</tool_call>",
        "<longcat_tool_call>",
        "[TOOL_CALLS]",
        "{\"name\": \"a\", \"arguments\": {\"k\": 1}}",
        "{\"name\":",
        "}",
        "[",
        "<|python_tag|>",
        "<｜tool▁calls▁begin｜>",
        "<｜tool▁call▁begin｜>",
        "<｜tool▁sep｜>",
        "<｜tool▁call▁end｜>",
        "```json\n",
        "```",
        "<|tool_calls_section_begin|>",
        "<|tool_call_begin|>",
        "functions.a:0",
        "<|tool_call_argument_begin|>",
        "<|tool_call_end|>",
        "<arg_key>k</arg_key>",
        "<arg_value>(1, 'x')</arg_value>",
        "<function=a>",
        "</function>",
        "<parameter=x>",
        "</parameter>",
        "text é ",
        "\n",
        "<",
        "\"",
    ];
    let piece =
        prop_oneof![8 => prop::sample::select(words.to_vec()).prop_map(str::to_owned), 1 => "\\PC{0,8}"];
    prop::collection::vec(piece, 0..14).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn no_text_breaks_a_parser(text in pieces(), cuts in prop::collection::vec(1_usize..12, 1..6)) {
        for name in ToolCallParser::names() {
            let parser = ToolCallParser::named(name).unwrap();
            check_stream(parser, &text, &cuts);
            for call in parser.parse(&text).iter().flat_map(|parsed| &parsed.calls) {
                prop_assert!(!call.name.is_empty());
            }
        }
    }
}
