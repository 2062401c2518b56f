//! The same script on three wires, streamed and plain: the server understands our requests, and answers decode
//! alike.

use hermes_model::wire::{ApiMode, BaseUrl, StreamingMode, WireOptions, build_body, decode_plain, path_for};
use hermes_testkit::script::{
    Quirk, Reasoning, ReasoningField, ReplyEvent, ScriptedFinish, ScriptedToolCall, ScriptedToolCalls,
    ScriptedUsage, UsageSetting,
};
use hermes_testkit::{ModelScript, ModelServer, ScriptedReply, http_post};
use hermes_types::{FinishReason, Message, ModelRequest};
use serde_json::json;

use super::support::{StreamResult, decode_stream, message, options, request, tool};

const TEXT_WIRES: [ApiMode; 3] = [ApiMode::Chat, ApiMode::Responses, ApiMode::Anthropic];

/// Returns the options of a wire, at the address of the scripted server.
fn at(server: &ModelServer, mode: ApiMode) -> WireOptions {
    let base = if mode == ApiMode::Anthropic { server.url() } else { format!("{}/v1", server.url()) };
    WireOptions { base: BaseUrl::parse(&base), ..options(mode) }
}

fn ask(
    mode: ApiMode,
    reply: ScriptedReply,
    asked: &ModelRequest,
    streaming: StreamingMode,
) -> (StreamResult, ModelServer) {
    let server = ModelServer::start_blocking(ModelScript::new().reply(reply)).unwrap();
    let known = at(&server, mode);
    let path = format!("{}{}", known.base.path(), path_for(mode, &known.base));
    let body = build_body(asked, &known, streaming).to_value();
    let reply = http_post(server.address(), &path, &body).unwrap();
    assert_eq!(reply.status, 200, "{mode:?}: {}", reply.text());
    let heard = match streaming {
        StreamingMode::Streamed => decode_stream(&known, [reply.body.as_slice()]),
        StreamingMode::Plain => StreamResult {
            deltas: Vec::new(),
            ending: decode_plain(&known, &reply.body)
                .map(|answer| hermes_model::wire::StreamEnding::Complete(Box::new(answer))),
        },
    };
    (heard, server)
}

fn everywhere(reply: &ScriptedReply, look: impl Fn(ApiMode, StreamingMode, &StreamResult)) {
    let mut asked = request("test-model", vec![Message::user("hi")]);
    asked.tools = [tool()].into();
    for mode in TEXT_WIRES {
        for streaming in [StreamingMode::Streamed, StreamingMode::Plain] {
            let (heard, _) = ask(mode, reply.clone(), &asked, streaming);
            look(mode, streaming, &heard);
        }
    }
}

#[test]
fn text_with_usage() {
    let reply = ScriptedReply::deltas(["Größe ", "zählt."]).event(ReplyEvent::Usage(UsageSetting::Exact(
        ScriptedUsage { input: 100, output: 20, cached: 60, ..ScriptedUsage::default() },
    )));
    everywhere(&reply, |mode, streaming, heard| {
        let answer = heard.answer();
        assert_eq!(answer.message.content.text(), "Größe zählt.", "{mode:?} {streaming:?}");
        assert_eq!(answer.finish_reason(), &FinishReason::Stop);
        assert_eq!(answer.model.as_deref(), Some("test-model"));
        assert!(answer.response_id.is_some());
        let usage = answer.usage.unwrap();
        assert_eq!(
            (usage.input, usage.cache_read, usage.output, usage.prompt()),
            (40, 60, 20, 100),
            "{mode:?}"
        );
        if streaming == StreamingMode::Streamed {
            assert_eq!(heard.text(), "Größe zählt.");
        }
    });
    everywhere(&ScriptedReply::text("x").no_usage(), |_, _, heard| assert_eq!(heard.answer().usage, None));
}

#[test]
fn reasoning_then_parallel_calls() {
    let reply = ScriptedReply::new()
        .event(ReplyEvent::Reasoning(Reasoning {
            text: ["Let ", "me see."].into(),
            signature: Some("c2ln".into()),
            encrypted: Some("ZW5j".into()),
            ..Reasoning::default()
        }))
        .then_text("One moment.")
        .event(ReplyEvent::Tools(ScriptedToolCalls {
            calls: vec![
                ScriptedToolCall::new("terminal", json!({"command": "ls"})).id("call_a").split(&[1, 4]),
                ScriptedToolCall::new("terminal", json!({"command": "日本"})).id("call_b").every(2),
            ],
            interleave: true,
        }));
    everywhere(&reply, |mode, streaming, heard| {
        let answer = heard.answer();
        let calls: Vec<_> = answer
            .message
            .tool_calls
            .iter()
            .map(|call| (call.id.as_str(), call.name.as_str(), call.arguments.as_str()))
            .collect();
        assert_eq!(
            calls,
            [("call_a", "terminal", r#"{"command":"ls"}"#), ("call_b", "terminal", r#"{"command":"日本"}"#)],
            "{mode:?} {streaming:?}"
        );
        assert_eq!(answer.finish_reason(), &FinishReason::ToolCalls);
        assert_eq!(answer.message.content.text(), "One moment.");
        assert_eq!(answer.message.reasoning.as_deref(), Some("Let me see."), "{mode:?} {streaming:?}");
        match mode {
            ApiMode::Responses => {
                assert!(answer.message.codex_reasoning_items.as_ref().unwrap().as_str().contains("ZW5j"));
            }
            _ => assert!(answer.message.reasoning_details.as_ref().unwrap().as_str().contains("c2ln")),
        }
        if streaming == StreamingMode::Streamed {
            assert_eq!((heard.reasoning().as_str(), heard.text().as_str()), ("Let me see.", "One moment."));
            assert_eq!(heard.started(), ["terminal", "terminal"]);
        }
    });
}

#[test]
fn finish_reasons() {
    for (finish, expected) in [
        (ScriptedFinish::Length, FinishReason::Length),
        (ScriptedFinish::ContentFilter, FinishReason::ContentFilter),
    ] {
        everywhere(&ScriptedReply::text("x").finish(finish.clone()), |mode, streaming, heard| {
            assert_eq!(heard.answer().finish_reason(), &expected, "{mode:?} {streaming:?}");
        });
    }
}

#[test]
fn cut_off_streams_hold_no_call() {
    let reply = ScriptedReply::new()
        .then_text("So ")
        .then_tool(ScriptedToolCall::new("terminal", json!(r#"{"command": "rm -"#)).id("call_1"))
        .quirk(Quirk::NoEnd);
    let asked = request("test-model", vec![Message::user("hi")]);
    for mode in TEXT_WIRES {
        let (heard, _) = ask(mode, reply.clone(), &asked, StreamingMode::Streamed);
        let cut = heard.cut_off();
        assert_eq!((cut.partial.content.text().as_ref(), cut.lost_calls.len()), ("So ", 1), "{mode:?}");
        assert!(cut.partial.tool_calls.is_empty());
    }
}

#[test]
fn quirks_of_chat_servers() {
    let calls = || {
        ScriptedReply::tools([
            ScriptedToolCall::new("a", json!({"x": 1})).id("call_a"),
            ScriptedToolCall::new("b", json!({"y": 2})).id("call_b"),
        ])
    };
    let asked = request("test-model", vec![Message::user("hi")]);
    for quirks in [
        vec![Quirk::IndexZero],
        vec![Quirk::RepeatToolHead],
        vec![Quirk::NoToolId],
        vec![Quirk::NoToolId, Quirk::RepeatToolHead],
        vec![Quirk::IndexZero, Quirk::NoToolId],
        vec![Quirk::Crlf, Quirk::NoSpace, Quirk::NoDone, Quirk::NoRole, Quirk::NoFinalBlank],
    ] {
        let reply = quirks.iter().fold(calls(), |reply, quirk| reply.quirk(*quirk));
        let (heard, _) = ask(ApiMode::Chat, reply, &asked, StreamingMode::Streamed);
        let answer = heard.answer();
        let seen: Vec<_> = answer
            .message
            .tool_calls
            .iter()
            .map(|call| (call.name.as_str(), call.arguments.as_str()))
            .collect();
        assert_eq!(seen, [("a", r#"{"x":1}"#), ("b", r#"{"y":2}"#)], "{quirks:?}");
        assert_eq!(heard.started(), ["a", "b"], "{quirks:?}");
    }
}

#[test]
fn what_must_go_back_goes_back_byte_for_byte() {
    let details = r#"[ {"type":"reasoning.encrypted", "data":"a\/b==", "n": 1.10e0} ]"#;
    let first = ScriptedReply::new()
        .event(ReplyEvent::Reasoning(Reasoning {
            details: Some(json!(details)),
            field: ReasoningField::Reasoning,
            ..Reasoning::default()
        }))
        .then_tool(
            ScriptedToolCall::new("terminal", json!({}))
                .id("call_1")
                .extra_content(json!({"google": {"thought_signature": "sig=="}})),
        );
    for streaming in [StreamingMode::Streamed, StreamingMode::Plain] {
        let mut asked = request("test-model", vec![Message::user("hi")]);
        let (heard, _) = ask(ApiMode::Chat, first.clone(), &asked, streaming);
        let mut answered = heard.answer().message.clone();
        // Serialises the message as for the database and reads it back.
        answered = message(&serde_json::to_string(&answered).unwrap());
        let result = Message::tool(&answered.tool_calls[0], "ok");
        asked.messages.extend([answered, result]);
        let known = options(ApiMode::Chat);
        let body = String::from_utf8(build_body(&asked, &known, StreamingMode::Plain).to_bytes()).unwrap();
        assert!(body.contains(&format!(r#""reasoning_details":{details}"#)), "{streaming:?} {body}");
        assert!(body.contains(r#""extra_content":{"google":{"thought_signature":"sig=="}}"#), "{body}");
    }
}

#[test]
fn the_server_understands_our_requests() {
    let mut asked = request(
        "test-model",
        vec![
            Message::user("List files."),
            message(
                r#"{"role":"assistant","content":"","tool_calls":[{"id":"call_1","type":"function","function":{"name":"terminal","arguments":"{}"}}]}"#,
            ),
            message(r#"{"role":"tool","tool_call_id":"call_1","content":"a.txt"}"#),
        ],
    );
    asked.tools = [tool()].into();
    for mode in TEXT_WIRES {
        let (_, server) =
            ask(mode, ScriptedReply::text("ok").when_tool_result("call_1"), &asked, StreamingMode::Streamed);
        let seen = server.request(0);
        assert_eq!(seen.tool_result("call_1"), "a.txt", "{mode:?}");
        assert_eq!(
            (seen.system_text().as_str(), seen.tool_names()),
            ("Be brief.", vec!["terminal".to_owned()]),
            "{mode:?}"
        );
        assert_eq!(seen.last_user_text().as_deref(), Some("List files."), "{mode:?}");
        assert!(seen.wants_stream());
    }
}

#[test]
fn refusals_of_every_wire_are_classified() {
    use hermes_model::wire::{FailureCause, FailureContext, ProviderFailure, classify};
    for mode in TEXT_WIRES {
        for (status, cause) in [
            (401, FailureCause::Credential),
            (402, FailureCause::Billing),
            (404, FailureCause::Request),
            (413, FailureCause::TooLarge),
            (429, FailureCause::RateLimit),
            (500, FailureCause::Server),
            (529, FailureCause::Server),
        ] {
            let server =
                ModelServer::start_blocking(ModelScript::new().reply(ScriptedReply::fail(status, "no")))
                    .unwrap();
            let known = at(&server, mode);
            let path = format!("{}{}", known.base.path(), path_for(mode, &known.base));
            let asked = request("m", vec![Message::user("hi")]);
            let body = build_body(&asked, &known, StreamingMode::Plain).to_value();
            let reply = http_post(server.address(), &path, &body).unwrap();
            let failure = ProviderFailure::http(reply.status, &reply.headers, &reply.body);
            assert_eq!(classify(&failure, &FailureContext::default()).cause, cause, "{mode:?} {status}");
        }
    }
}
