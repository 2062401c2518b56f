//! The format of each wire, event by event.

use hermes_testkit::script::{
    Quirk, Reasoning, ReasoningField, ReplyEvent, ScriptedFinish, ScriptedToolCall, ScriptedToolCalls,
    ScriptedUsage, UsagePlace, UsageSetting,
};
use hermes_testkit::{ModelScript, ModelServer, ScriptedReply};
use serde_json::{Value, json};

use super::{CHAT, MESSAGES, RESPONSES, ask, ask_stream, data_lines, events, post};

fn thinking_then_calling() -> ScriptedReply {
    ScriptedReply::new()
        .event(ReplyEvent::Reasoning(Reasoning {
            text: ["Let ", "me see."].into(),
            signature: Some("sig".into()),
            encrypted: Some("enc".into()),
            ..Reasoning::default()
        }))
        .then_text(["One ", "moment."])
        .then_tool(ScriptedToolCall::new("terminal", json!({"command": "ls"})).id("call_1").split(&[4]))
        .event(ReplyEvent::Usage(UsageSetting::Exact(ScriptedUsage {
            input: 100,
            output: 20,
            cached: 60,
            cache_write: 10,
            reasoning: 5,
            ..ScriptedUsage::default()
        })))
}

fn stream(reply: ScriptedReply, path: &str, body: &Value) -> String {
    let server = ModelServer::start_blocking(ModelScript::new().reply(reply)).unwrap();
    let reply = post(&server, path, body);
    assert_eq!(reply.status, 200, "{}", reply.text());
    assert!(reply.complete);
    reply.text()
}

#[test]
fn chat_stream_has_openai_order_and_fields() {
    let mut body = ask_stream("hi");
    body["stream_options"] = json!({"include_usage": true});
    let text = stream(thinking_then_calling(), CHAT, &body);
    assert_eq!(data_lines(&text).last().unwrap(), "[DONE]");
    let chunks = events(&text);
    assert!(chunks.iter().all(|chunk| chunk["object"] == "chat.completion.chunk" && chunk["model"] == "m"));
    assert!(chunks.iter().all(|chunk| chunk["id"] == chunks[0]["id"]));
    let deltas: Vec<&Value> = chunks.iter().filter_map(|chunk| chunk.pointer("/choices/0/delta")).collect();
    let expected = [
        json!({"role": "assistant", "content": ""}),
        json!({"reasoning_content": "Let "}),
        json!({"reasoning_content": "me see."}),
        json!({"reasoning_details": [
            {"type": "reasoning.text", "text": "", "signature": "sig", "format": "unknown", "index": 0},
            {"type": "reasoning.encrypted", "data": "enc", "id": "rs_000000", "format": "unknown", "index": 0}]}),
        json!({"content": "One "}),
        json!({"content": "moment."}),
        json!({"tool_calls": [{"index": 0, "id": "call_1", "type": "function",
            "function": {"name": "terminal", "arguments": ""}}]}),
        json!({"tool_calls": [{"index": 0, "function": {"arguments": "{\"co"}}]}),
        json!({"tool_calls": [{"index": 0, "function": {"arguments": "mmand\":\"ls\"}"}}]}),
        json!({}),
    ];
    assert_eq!(deltas, expected.iter().collect::<Vec<_>>());
    let finish = &chunks[chunks.len() - 2];
    assert_eq!(finish["choices"][0]["finish_reason"], "tool_calls");
    assert_eq!(finish["usage"], Value::Null);
    let last = chunks.last().unwrap();
    assert_eq!(last["choices"], json!([]));
    assert_eq!(last["usage"]["prompt_tokens"], 100);
    assert_eq!(last["usage"]["total_tokens"], 120);
    assert_eq!(last["usage"]["prompt_tokens_details"]["cached_tokens"], 60);
    assert_eq!(last["usage"]["completion_tokens_details"]["reasoning_tokens"], 5);
}

#[test]
fn chat_usage_appears_where_the_script_puts_it() {
    let usage = |at| {
        ScriptedReply::text("x").event(ReplyEvent::Usage(UsageSetting::Exact(ScriptedUsage {
            at,
            input: 1,
            ..ScriptedUsage::default()
        })))
    };
    let places = |reply: ScriptedReply| -> Vec<usize> {
        let chunks = events(&stream(reply, CHAT, &ask_stream("hi")));
        let with = chunks.iter().enumerate().filter(|(_, chunk)| chunk.get("usage").is_some());
        with.map(|(index, _)| index).collect()
    };
    // Role, text, finish: chunks 0 to 2.
    assert_eq!(places(usage(UsagePlace::End)), Vec::<usize>::new(), "not asked for");
    assert_eq!(places(usage(UsagePlace::Always)), [3]);
    assert_eq!(places(usage(UsagePlace::Finish)), [2]);
    assert_eq!(places(usage(UsagePlace::Here)), [2], "a chunk of its own before the finish");
    let early = ScriptedReply::new()
        .event(ReplyEvent::Usage(UsageSetting::Exact(ScriptedUsage {
            at: UsagePlace::Here,
            ..ScriptedUsage::default()
        })))
        .then_text("x");
    assert_eq!(places(early), [1]);
}

#[test]
fn chat_plain_answer_carries_the_same_turn() {
    let server = ModelServer::start_blocking(ModelScript::new().reply(thinking_then_calling())).unwrap();
    let answer = post(&server, "/chat/completions", &ask("hi")).json();
    assert_eq!(answer["object"], "chat.completion");
    let message = &answer["choices"][0]["message"];
    assert_eq!(message["role"], "assistant");
    assert_eq!(message["content"], "One moment.");
    assert_eq!(message["reasoning_content"], "Let me see.");
    assert_eq!(
        message["tool_calls"],
        json!([{"id": "call_1", "type": "function",
            "function": {"name": "terminal", "arguments": "{\"command\":\"ls\"}"}}])
    );
    assert_eq!(answer["choices"][0]["finish_reason"], "tool_calls");
    assert_eq!(answer["usage"]["prompt_tokens"], 100);
}

#[test]
fn reasoning_details_travel_byte_for_byte() {
    let details = r#"[ {"type" : "reasoning.text","text":"\u00e9" , "n": 1.50e0} ]"#;
    let reply = || {
        ScriptedReply::new()
            .event(ReplyEvent::Reasoning(Reasoning { details: Some(details.into()), ..Reasoning::default() }))
            .then_text("ok")
    };
    assert!(stream(reply(), CHAT, &ask_stream("hi")).contains(details));
    assert!(stream(reply(), CHAT, &ask("hi")).contains(details));
}

#[test]
fn openrouter_style_reasoning_uses_its_own_fields() {
    let thought = Reasoning { text: "why".into(), field: ReasoningField::Reasoning, ..Reasoning::default() };
    let chunks =
        events(&stream(ScriptedReply::new().event(ReplyEvent::Reasoning(thought)), CHAT, &ask_stream("hi")));
    assert_eq!(chunks[1]["choices"][0]["delta"]["reasoning"], "why");
    assert_eq!(chunks[1]["choices"][0]["delta"]["reasoning_details"][0]["text"], "why");
}

#[test]
fn parallel_calls_interleave_and_ollama_repeats_index_zero() {
    let calls = || {
        vec![
            ScriptedToolCall::new("a", json!({"x": 1})).every(4),
            ScriptedToolCall::new("b", json!({"y": 2})).every(4),
        ]
    };
    let indices = |reply: ScriptedReply| -> Vec<u64> {
        let chunks = events(&stream(reply, CHAT, &ask_stream("hi")));
        chunks
            .iter()
            .filter_map(|chunk| chunk.pointer("/choices/0/delta/tool_calls/0/index")?.as_u64())
            .collect()
    };
    assert_eq!(indices(ScriptedReply::tools(calls())), [0, 0, 0, 1, 1, 1]);
    let interleaved =
        ScriptedReply::new().event(ReplyEvent::Tools(ScriptedToolCalls { calls: calls(), interleave: true }));
    assert_eq!(indices(interleaved), [0, 1, 0, 1, 0, 1]);
    let ollama = ScriptedReply::tools(calls()).quirk(Quirk::IndexZero);
    let chunks = events(&stream(ollama, CHAT, &ask_stream("hi")));
    let heads: Vec<_> =
        chunks.iter().filter_map(|chunk| chunk.pointer("/choices/0/delta/tool_calls/0")).collect();
    assert_eq!(heads.len(), 2, "whole calls");
    assert!(heads.iter().all(|head| head["index"] == 0));
    assert_eq!(heads[1]["function"]["arguments"], "{\"y\":2}");
    assert_ne!(heads[0]["id"], heads[1]["id"]);
}

#[test]
fn responses_stream_has_openai_order_and_numbers() {
    let text =
        stream(thinking_then_calling(), RESPONSES, &json!({"model": "m", "input": "hi", "stream": true}));
    let names: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("event: ")).collect();
    let expected = [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.reasoning_summary_part.added",
        "response.reasoning_summary_text.delta",
        "response.reasoning_summary_text.delta",
        "response.reasoning_summary_text.done",
        "response.reasoning_summary_part.done",
        "response.output_item.done",
        "response.output_item.added",
        "response.content_part.added",
        "response.output_text.delta",
        "response.output_text.delta",
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.output_item.added",
        "response.function_call_arguments.delta",
        "response.function_call_arguments.delta",
        "response.function_call_arguments.done",
        "response.output_item.done",
        "response.completed",
    ];
    assert_eq!(names, expected);
    assert!(!text.contains("[DONE]"));
    let events = events(&text);
    for (number, (event, name)) in events.iter().zip(names).enumerate() {
        assert_eq!(event["sequence_number"], number);
        assert_eq!(event["type"], name);
    }
    let response = &events.last().unwrap()["response"];
    assert_eq!(response["status"], "completed");
    assert_eq!(response["output"][0]["encrypted_content"], "enc");
    assert_eq!(response["output"][1]["content"][0]["text"], "One moment.");
    assert_eq!(response["output"][2]["call_id"], "call_1");
    assert_eq!(response["usage"]["input_tokens_details"]["cached_tokens"], 60);
    for event in events.iter().filter(|event| event.get("item_id").is_some()) {
        let index = usize::try_from(event["output_index"].as_u64().unwrap()).unwrap();
        assert_eq!(event["item_id"], response["output"][index]["id"]);
    }
}

#[test]
fn responses_end_incomplete_when_cut_by_length() {
    let reply = || ScriptedReply::text("half").finish(ScriptedFinish::Length);
    let body = json!({"model": "m", "input": "hi", "stream": true});
    let last = events(&stream(reply(), RESPONSES, &body)).pop().unwrap();
    assert_eq!(last["type"], "response.incomplete");
    assert_eq!(last["response"]["incomplete_details"]["reason"], "max_output_tokens");
    let server = ModelServer::start_blocking(ModelScript::new().reply(reply())).unwrap();
    let plain = post(&server, RESPONSES, &json!({"model": "m", "input": "hi"})).json();
    assert_eq!(plain["status"], "incomplete");
    assert_eq!(plain["output"][0]["content"][0]["text"], "half");
}

#[test]
fn messages_stream_has_anthropic_order_and_fields() {
    let text = stream(thinking_then_calling(), MESSAGES, &ask_stream("hi"));
    let names: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("event: ")).collect();
    let expected = [
        "message_start",
        "content_block_start",
        "ping",
        "content_block_delta",
        "content_block_delta",
        "content_block_delta",
        "content_block_stop",
        "content_block_start",
        "content_block_delta",
        "content_block_delta",
        "content_block_stop",
        "content_block_start",
        "content_block_delta",
        "content_block_delta",
        "content_block_delta",
        "content_block_stop",
        "message_delta",
        "message_stop",
    ];
    assert_eq!(names, expected);
    let events = events(&text);
    assert!(events.iter().zip(&names).all(|(event, name)| event["type"] == *name));
    let usage = &events[0]["message"]["usage"];
    assert_eq!((&usage["input_tokens"], &usage["cache_read_input_tokens"]), (&json!(30), &json!(60)));
    assert_eq!(usage["cache_creation_input_tokens"], 10);
    assert_eq!(events[5]["delta"], json!({"type": "signature_delta", "signature": "sig"}));
    assert_eq!(
        events[11]["content_block"],
        json!({"type": "tool_use", "id": "call_1", "name": "terminal", "input": {}})
    );
    assert_eq!(events[12]["delta"], json!({"type": "input_json_delta", "partial_json": ""}));
    assert_eq!(events[16]["delta"], json!({"stop_reason": "tool_use", "stop_sequence": null}));
    assert_eq!(events[16]["usage"]["output_tokens"], 20);
}

#[test]
fn messages_plain_answer_and_redacted_thinking() {
    let redacted = Reasoning { encrypted: Some("hidden".into()), ..Reasoning::default() };
    let reply = ScriptedReply::new()
        .event(ReplyEvent::Reasoning(redacted))
        .then_text("yes")
        .then_tool(ScriptedToolCall::new("t", json!({"a": 1})));
    let server = ModelServer::start_blocking(ModelScript::new().reply(reply)).unwrap();
    let answer = post(&server, "/anthropic/v1/messages", &ask("hi")).json();
    assert_eq!(answer["content"][0], json!({"type": "redacted_thinking", "data": "hidden"}));
    assert_eq!(answer["content"][1], json!({"type": "text", "text": "yes"}));
    assert_eq!(answer["content"][2]["input"], json!({"a": 1}));
    assert_eq!(answer["stop_reason"], "tool_use");
}

#[test]
fn failures_take_the_wire_s_own_form() {
    let script = ModelScript::new().reply(ScriptedReply::fail(429, "slow down").retry_after(7).repeat(2));
    let server = ModelServer::start_blocking(script).unwrap();
    let chat = post(&server, CHAT, &ask_stream("hi"));
    assert_eq!((chat.status, chat.header("retry-after")), (429, Some("7")));
    assert_eq!(chat.json()["error"]["code"], "rate_limit_exceeded");
    let messages = post(&server, MESSAGES, &ask_stream("hi")).json();
    assert_eq!(messages["type"], "error");
    assert_eq!(messages["error"], json!({"type": "rate_limit_error", "message": "slow down"}));
}

#[test]
fn errors_inside_a_stream_end_it_without_a_close() {
    let reply = || ScriptedReply::text("so far").stream_error("upstream died");
    let chat = stream(reply(), CHAT, &ask_stream("hi"));
    assert!(!chat.contains("[DONE]"));
    assert_eq!(events(&chat).last().unwrap()["error"]["message"], "upstream died");
    let messages = events(&stream(reply(), MESSAGES, &ask_stream("hi"))).pop().unwrap();
    assert_eq!(messages["type"], "error");
    let body = json!({"model": "m", "input": "hi", "stream": true});
    let responses = events(&stream(reply(), RESPONSES, &body));
    assert_eq!(responses[responses.len() - 2]["type"], "error");
    assert_eq!(responses.last().unwrap()["type"], "response.failed");
}

#[test]
fn the_same_request_gets_the_same_bytes() {
    let run = || stream(thinking_then_calling(), CHAT, &ask_stream("hi"));
    assert_eq!(run(), run());
}
