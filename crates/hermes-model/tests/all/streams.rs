//! Answers event by event, on the text-based wires.

use hermes_model::Error;
use hermes_model::wire::{ApiMode, decode_plain};
use hermes_types::{Delta, FinishReason, RawJson};
use serde_json::json;

use super::support::{decode_stream, options, sse};

fn chat(chunks: &[&str]) -> super::support::StreamResult {
    decode_stream(&options(ApiMode::Chat), [sse(chunks).as_slice()])
}

#[test]
fn think_tags_are_scrubbed_across_seams_and_kept_in_history() {
    let heard = chat(&[
        r#"{"choices":[{"delta":{"role":"assistant","content":"<thi"}}]}"#,
        r#"{"choices":[{"delta":{"content":"nk>why"}}]}"#,
        r#"{"choices":[{"delta":{"content":"</think>Ye"}}]}"#,
        r#"{"choices":[{"delta":{"content":"s"},"finish_reason":"stop"}]}"#,
        "[DONE]",
    ]);
    assert_eq!((heard.text().as_str(), heard.reasoning().as_str()), ("Yes", "why"));
    let message = &heard.answer().message;
    assert_eq!(message.content.text(), "<think>why</think>Yes");
    assert_eq!(message.reasoning.as_deref(), Some("why"));
}

#[test]
fn text_after_a_call_is_kept_but_not_shown() {
    let heard = chat(&[
        r#"{"choices":[{"delta":{"content":"a <"}}]}"#,
        r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"c","function":{"name":"f","arguments":""}}]}}]}"#,
        r#"{"choices":[{"delta":{"content":" b"}}]}"#,
        r#"{"choices":[{"delta":{},"finish_reason":"tool_calls"}]}"#,
    ]);
    assert_eq!(
        heard.deltas,
        [Delta::Text("a ".into()), Delta::Text("<".into()), Delta::ToolStarted { name: "f".into() },]
    );
    let answer = heard.answer();
    assert_eq!(answer.message.content.text(), "a < b");
    assert_eq!(answer.message.tool_calls[0].arguments, "{}");
}

#[test]
fn usage_early_late_and_inside_the_choice() {
    let usage = |chunks: &[&str]| chat(chunks).answer().usage.map(|usage| (usage.input, usage.output));
    let end = r#"{"choices":[{"delta":{"content":"x"},"finish_reason":"stop"}]}"#;
    assert_eq!(
        usage(&[end, r#"{"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":4}}"#]),
        Some((3, 4))
    );
    assert_eq!(
        usage(&[r#"{"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":4}}"#, end]),
        Some((3, 4))
    );
    assert_eq!(
        usage(&[
            r#"{"usage":null,"choices":[{"delta":{"content":"x"},"finish_reason":"stop","usage":{"prompt_tokens":1}}]}"#
        ]),
        Some((1, 0))
    );
    assert_eq!(usage(&[end]), None);
}

#[test]
fn finish_reasons_of_chat() {
    let check = |word: &str, expected: FinishReason| {
        let chunk = json!({"choices": [{"delta": {"content": "x"}, "finish_reason": word}]}).to_string();
        assert_eq!(chat(&[&chunk]).answer().finish_reason(), &expected, "{word}");
    };
    check("stop", FinishReason::Stop);
    check("length", FinishReason::Length);
    check("MAX_TOKENS", FinishReason::Length);
    check("content_filter", FinishReason::ContentFilter);
    check("odd", FinishReason::Other("odd".into()));
}

#[test]
fn streams_that_end_too_early() {
    let cut = chat(&[
        r#"{"choices":[{"delta":{"content":"Half"}}]}"#,
        r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"c","function":{"name":"rm","arguments":"{\"path\": \"/tm"}}]}}]}"#,
    ]);
    let cut = cut.cut_off();
    assert_eq!(
        (cut.partial.content.text().as_ref(), cut.lost_calls.as_slice()),
        ("Half", ["rm".to_owned()].as_slice())
    );
    assert!(cut.partial.tool_calls.is_empty());

    let torn =
        decode_stream(&options(ApiMode::Chat), [&b"data: {\"choices\":[{\"delta\":{\"content\":\"Ha"[..]]);
    assert!(torn.cut_off().partial.content.is_empty());

    let unsaid = chat(&[r#"{"choices":[{"delta":{"content":"whole"}}]}"#, "[DONE]"]);
    assert_eq!(unsaid.answer().finish_reason(), &FinishReason::Stop);

    let broken = chat(&[
        r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"c","function":{"name":"f","arguments":"{"}}]}}]}"#,
        "[DONE]",
    ]);
    assert_eq!(broken.cut_off().lost_calls, ["f"]);

    let limited = chat(&[
        r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"c","function":{"name":"f","arguments":""}}]}}]}"#,
        r#"{"choices":[{"delta":{},"finish_reason":"length"}]}"#,
    ]);
    assert!(limited.answer().has_broken_arguments(), "arguments cut off before they began are not none");
}

#[test]
fn errors_inside_a_stream() {
    let fault = |mode, events: &[&str]| match decode_stream(&options(mode), [sse(events).as_slice()]).ending {
        Err(Error::Classify(fault)) => (fault.message, fault.status),
        other => panic!("{other:?}"),
    };
    let hello = r#"{"choices":[{"delta":{"content":"So "}}]}"#;
    assert_eq!(
        fault(ApiMode::Chat, &[hello, r#"{"error":{"message":"Provider disconnected","code":502}}"#]),
        ("Provider disconnected".into(), Some(502))
    );
    assert_eq!(fault(ApiMode::Chat, &[hello, r#"{"error":"plain words"}"#]), ("plain words".into(), None));
    assert_eq!(
        fault(
            ApiMode::Chat,
            &[r#"{"choices":[{"delta":{},"error":{"message":"x","type":"rate_limit_error"}}]}"#]
        ),
        ("x".into(), Some(429))
    );
    assert_eq!(
        fault(
            ApiMode::Anthropic,
            &[r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#]
        ),
        ("Overloaded".into(), Some(529))
    );
    assert_eq!(
        fault(ApiMode::Responses, &[r#"{"type":"error","code":"server_error","message":"Oh"}"#]),
        ("Oh".into(), Some(500))
    );
    assert_eq!(
        fault(
            ApiMode::Responses,
            &[
                r#"{"type":"response.failed","response":{"status":"failed","error":{"code":"rate_limit_exceeded","message":"slow"}}}"#
            ]
        ),
        ("slow".into(), Some(429))
    );
    let named = decode_stream(&options(ApiMode::Chat), [&b"event: error\ndata: connection lost\n\n"[..]]);
    assert!(matches!(named.ending, Err(Error::Classify(_))));
}

#[test]
fn malformed_chunks_are_typed() {
    for mode in [ApiMode::Chat, ApiMode::Responses, ApiMode::Anthropic] {
        for garbage in ["{\"a\":", "[]", "null", "7", "\"x\""] {
            let heard = decode_stream(&options(mode), [sse(&[garbage]).as_slice()]);
            assert!(matches!(heard.ending, Err(Error::Retry { .. })), "{mode:?} {garbage} {heard:?}");
        }
    }
}

#[test]
fn noise_behind_the_end_is_ignored() {
    let heard =
        chat(&[r#"{"choices":[{"delta":{"content":"x"},"finish_reason":"stop"}]}"#, "{broken", "[DONE]"]);
    assert_eq!(heard.answer().message.content.text(), "x");
}

#[test]
fn shapes_without_an_answer() {
    let missing = |mode, body: &str| decode_plain(&options(mode), body.as_bytes()).unwrap_err();
    for (mode, body) in [
        (ApiMode::Chat, "{}"),
        (ApiMode::Chat, r#"{"choices":[]}"#),
        (ApiMode::Chat, r#"{"choices":null}"#),
        (ApiMode::Responses, r#"{"status":"completed","output":[]}"#),
        (ApiMode::Responses, r#"{"output":"x"}"#),
        (ApiMode::Anthropic, r#"{"content":[]}"#),
        (ApiMode::Anthropic, r#"{"content":"x"}"#),
        (ApiMode::Converse, r#"{"output":{}}"#),
    ] {
        assert!(matches!(missing(mode, body), Error::UseFallback { .. }), "{mode:?} {body}");
    }
    assert!(matches!(missing(ApiMode::Chat, "<html>"), Error::Retry { .. }));
    assert!(matches!(missing(ApiMode::Chat, r#"{"error":{"message":"x"}}"#), Error::Classify(_)));
    assert!(matches!(
        missing(ApiMode::Responses, r#"{"status":"failed","output":[],"error":{"message":"x"}}"#),
        Error::Classify(_)
    ));
}

#[test]
fn a_server_that_ignores_the_wish_for_a_stream() {
    let body = br#"
        {"choices":[{"message":{"content":"<think>hm</think>Hi","tool_calls":[{"id":"c","function":{"name":"f","arguments":"{}"}}]},"finish_reason":"tool_calls"}]}"#;
    let heard = decode_stream(&options(ApiMode::Chat), body.chunks(5));
    assert_eq!((heard.text().as_str(), heard.reasoning().as_str(), heard.started()), ("Hi", "hm", vec!["f"]));
    assert_eq!(heard.answer().message.tool_calls.len(), 1);
    let torn = decode_stream(&options(ApiMode::Chat), [&body[..60]]);
    assert!(matches!(torn.ending, Err(Error::Retry { .. })));
}

#[test]
fn plain_answers_of_local_servers() {
    let read = |message: &str| {
        let body = format!(r#"{{"id":"i","choices":[{{"message":{message},"finish_reason":"stop"}}]}}"#);
        decode_plain(&options(ApiMode::Chat), body.as_bytes()).unwrap()
    };
    assert_eq!(read(r#"{"content":{"text":"a"}}"#).message.content.text(), "a");
    assert_eq!(read(r#"{"content":["a","b"]}"#).message.content.text(), "a\nb");
    assert_eq!(read(r#"{"content":42}"#).message.content.text(), "42");
    assert_eq!(read(r#"{"content":null}"#).message.content.text(), "");
    let parsed = read(
        r#"{"content":null,"tool_calls":[{"function":{"name":"f","arguments":{"x": 1}}},{"id":"b","function":{"name":"g","arguments":null}}]}"#,
    );
    let calls = &parsed.message.tool_calls;
    assert_eq!(
        (calls[0].arguments.as_str(), calls[1].arguments.as_str(), calls[1].id.as_str()),
        (r#"{"x": 1}"#, "{}", "b")
    );
    assert!(calls[0].id.as_str().starts_with("call_"));
    assert_eq!(parsed.finish_reason(), &FinishReason::ToolCalls);
    let details = r#"[ {"type":"reasoning.summary","summary":"s", "n": 1.0},{"type":"reasoning.encrypted","data":"\/"} ]"#;
    let thought = read(&format!(
        r#"{{"content":"x","reasoning":"r","reasoning_content":"r","reasoning_details":{details}}}"#
    ));
    assert_eq!(thought.message.reasoning.as_deref(), Some("r\n\ns"));
    assert_eq!(thought.message.reasoning_details.as_ref().map(RawJson::as_str), Some(details));
}

#[test]
fn responses_finish_reasons() {
    let check = |body: &str, expected: FinishReason| {
        let answer = decode_plain(&options(ApiMode::Responses), body.as_bytes()).unwrap();
        assert_eq!(answer.finish_reason(), &expected, "{body}");
    };
    let text = r#"{"type":"message","content":[{"type":"output_text","text":"x"}]}"#;
    let call = r#"{"type":"function_call","id":"fc_1","call_id":"call_1","name":"f","arguments":"{}","status":"completed"}"#;
    let half = r#"{"type":"function_call","id":"fc_1","call_id":"call_1","name":"f","arguments":"{","status":"in_progress"}"#;
    let thought = r#"{"type":"reasoning","id":"rs_1","summary":[]}"#;
    let remark = r#"{"type":"message","phase":"commentary","content":[{"type":"output_text","text":"x"}]}"#;
    let last = r#"{"type":"message","phase":"final_answer","content":[{"type":"output_text","text":"x"}]}"#;
    let done = |items: &str| format!(r#"{{"status":"completed","output":[{items}]}}"#);
    check(&done(text), FinishReason::Stop);
    check(&done(call), FinishReason::ToolCalls);
    check(&done(half), FinishReason::Incomplete);
    check(&done(thought), FinishReason::Incomplete);
    check(&done(&format!("{thought},{text}")), FinishReason::Stop);
    check(&done(remark), FinishReason::Incomplete);
    check(&done(&format!("{remark},{last}")), FinishReason::Stop);
    check(&format!(r#"{{"status":"incomplete","output":[{text}]}}"#), FinishReason::Incomplete);
    check(
        &format!(
            r#"{{"status":"incomplete","incomplete_details":{{"reason":"max_output_tokens"}},"output":[{call}]}}"#
        ),
        FinishReason::Length,
    );
}

#[test]
fn responses_output_may_be_missing_at_the_end() {
    let item = r#"{"type":"reasoning","id":"rs_1","summary":[], "encrypted_content":"a\/"}"#;
    let events = [
        r#"{"type":"response.created","response":{"id":"resp_1","model":"m"}}"#.to_owned(),
        format!(r#"{{"type":"response.output_item.done","output_index":0,"item":{item}}}"#),
        r#"{"type":"response.output_item.done","output_index":1,"item":{"type":"message","content":[{"type":"output_text","text":"Hi"}]}}"#.to_owned(),
        r#"{"type":"response.completed","response":{"status":"completed","output":[],"usage":{"input_tokens":2,"output_tokens":1}}}"#.to_owned(),
    ];
    let events: Vec<&str> = events.iter().map(String::as_str).collect();
    let heard = decode_stream(&options(ApiMode::Responses), [sse(&events).as_slice()]);
    let answer = heard.answer();
    assert_eq!(heard.text(), "Hi", "text without deltas is shown at the end");
    assert_eq!(answer.message.codex_reasoning_items.as_ref().unwrap().as_str(), format!("[{item}]"));
    assert_eq!((answer.response_id.as_deref(), answer.usage.unwrap().input), (Some("resp_1"), 2));
    let cut = decode_stream(&options(ApiMode::Responses), [sse(&events[..3]).as_slice()]);
    assert!(cut.cut_off().lost_calls.is_empty());
}

#[test]
fn anthropic_blocks() {
    let heard = decode_stream(&options(ApiMode::Anthropic), [sse(&[
        r#"{"type":"message_start","message":{"id":"msg_1","model":"claude-x","usage":{"input_tokens":5,"cache_read_input_tokens":7,"output_tokens":1}}}"#,
        r#"{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}"#,
        r#"{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"Hm."}}"#,
        r#"{"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"s/="}}"#,
        r#"{"type":"content_block_stop","index":0}"#,
        r#"{"type":"content_block_start","index":1,"content_block":{"type":"redacted_thinking","data":"a\/b"}}"#,
        r#"{"type":"content_block_start","index":2,"content_block":{"type":"text","text":""}}"#,
        r#"{"type":"content_block_delta","index":2,"delta":{"type":"text_delta","text":"One"}}"#,
        r#"{"type":"content_block_start","index":3,"content_block":{"type":"text","text":"Two"}}"#,
        r#"{"type":"content_block_start","index":4,"content_block":{"type":"tool_use","id":"toolu_1","name":"f","input":{}}}"#,
        r#"{"type":"content_block_delta","index":4,"delta":{"type":"input_json_delta","partial_json":"{\"x\""}}"#,
        r#"{"type":"ping"}"#,
        r#"{"type":"content_block_delta","index":4,"delta":{"type":"input_json_delta","partial_json":": 1}"}}"#,
        r#"{"type":"message_delta","delta":{"stop_reason":"tool_use"},"usage":{"output_tokens":30}}"#,
        r#"{"type":"message_stop"}"#,
    ]).as_slice()]);
    let answer = heard.answer();
    assert_eq!((heard.text().as_str(), heard.reasoning().as_str()), ("One\nTwo", "Hm."));
    assert_eq!(answer.message.content.text(), "One\nTwo");
    assert_eq!(answer.message.tool_calls[0].arguments, r#"{"x": 1}"#);
    assert_eq!(answer.message.reasoning.as_deref(), Some("Hm."));
    assert_eq!(
        answer.message.reasoning_details.as_ref().unwrap().as_str(),
        r#"[{"type":"thinking","thinking":"Hm.","signature":"s/="},{"type":"redacted_thinking","data":"a\/b"}]"#
    );
    let usage = answer.usage.unwrap();
    assert_eq!((usage.input, usage.cache_read, usage.output, usage.prompt()), (5, 7, 30, 12));
}

#[test]
fn anthropic_endings() {
    let text = r#"{"type":"content_block_start","index":0,"content_block":{"type":"text","text":"x"}}"#;
    let call = r#"{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"t","name":"f","input":{}}}"#;
    let stop = |reason: &str| format!(r#"{{"type":"message_delta","delta":{{"stop_reason":"{reason}"}}}}"#);
    let run = |events: &[&str]| decode_stream(&options(ApiMode::Anthropic), [sse(events).as_slice()]);
    for (word, expected) in [
        ("end_turn", FinishReason::Stop),
        ("stop_sequence", FinishReason::Stop),
        ("max_tokens", FinishReason::Length),
        ("refusal", FinishReason::ContentFilter),
    ] {
        assert_eq!(run(&[text, &stop(word)]).answer().finish_reason(), &expected);
    }
    assert_eq!(run(&[call]).cut_off().lost_calls, ["f"]);
    assert_eq!(
        run(&[call, r#"{"type":"message_stop"}"#]).cut_off().lost_calls,
        ["f"],
        "no reason and no arguments"
    );
    assert_eq!(run(&[call, &stop("tool_use")]).answer().message.tool_calls[0].arguments, "{}");
    assert!(run(&[call, &stop("max_tokens")]).answer().has_broken_arguments());
    assert!(matches!(run(&[&stop("end_turn")]).ending, Err(Error::UseFallback { .. })));
}

#[test]
fn two_calls_of_one_id_are_told_apart() {
    let item = |id: &str, name: &str| {
        format!(
            r#"{{"type":"function_call","id":"{id}","call_id":"call_1","name":"{name}","arguments":"{{}}"}}"#
        )
    };
    let body = format!(
        r#"{{"id":"r","status":"completed","output":[{},{}]}}"#,
        item("fc_1", "a"),
        item("fc_2", "b")
    );
    let answer = decode_plain(&options(ApiMode::Responses), body.as_bytes()).unwrap();
    let calls = &answer.message.tool_calls;
    assert_eq!(calls.iter().map(|call| call.name.as_str()).collect::<Vec<_>>(), ["a", "b"]);
    assert_eq!((calls[0].id.as_str(), calls[0].call_id.as_deref()), ("call_1", Some("call_1")));
    assert_ne!(calls[0].id, calls[1].id);
    assert_ne!(calls[0].call_id, calls[1].call_id);
    assert_ne!(calls[0].response_item_id, calls[1].response_item_id);
}
