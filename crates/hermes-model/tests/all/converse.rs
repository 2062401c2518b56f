//! AWS event streams: frames are built here and decoded by the crate.

use hermes_model::Error;
use hermes_model::wire::{
    ApiMode, FailureCause, FailureContext, ProviderFailure, Remedy, WireOptions, classify, decode_plain,
};
use hermes_types::FinishReason;

use super::support::{base64, decode_stream, event_frame, frame, options};

pub(crate) fn stream() -> Vec<u8> {
    [
        event_frame("messageStart", r#"{"role":"assistant","p":"abc"}"#),
        event_frame("contentBlockDelta", r#"{"contentBlockIndex":0,"delta":{"reasoningContent":{"text":"Hm."}}}"#),
        event_frame("contentBlockDelta", r#"{"contentBlockIndex":0,"delta":{"reasoningContent":{"signature":"s"}}}"#),
        event_frame("contentBlockStop", r#"{"contentBlockIndex":0}"#),
        event_frame("contentBlockDelta", r#"{"contentBlockIndex":1,"delta":{"text":"One "}}"#),
        event_frame("contentBlockDelta", r#"{"contentBlockIndex":1,"delta":{"text":"moment."}}"#),
        event_frame("contentBlockStart", r#"{"contentBlockIndex":2,"start":{"toolUse":{"toolUseId":"t1","name":"terminal"}}}"#),
        event_frame("contentBlockDelta", r#"{"contentBlockIndex":2,"delta":{"toolUse":{"input":"{\"command\""}}}"#),
        event_frame("contentBlockDelta", r#"{"contentBlockIndex":2,"delta":{"toolUse":{"input":": \"ls\"}"}}}"#),
        event_frame("messageStop", r#"{"stopReason":"tool_use"}"#),
        event_frame("metadata", r#"{"usage":{"inputTokens":10,"outputTokens":5,"cacheReadInputTokens":3},"metrics":{"latencyMs":1}}"#),
    ]
    .concat()
}

#[test]
fn a_stream_of_frames() {
    let heard = decode_stream(&options(ApiMode::Converse), [stream().as_slice()]);
    let answer = heard.answer();
    assert_eq!((heard.text().as_str(), heard.reasoning().as_str()), ("One moment.", "Hm."));
    assert_eq!(heard.started(), ["terminal"]);
    assert_eq!(answer.finish_reason(), &FinishReason::ToolCalls);
    assert_eq!(answer.message.tool_calls[0].arguments, r#"{"command": "ls"}"#);
    assert_eq!(
        answer.message.reasoning_details.as_ref().unwrap().as_str(),
        r#"[{"reasoningContent":{"reasoningText":{"text":"Hm.","signature":"s"}}}]"#
    );
    assert_eq!(answer.usage.map(|usage| (usage.input, usage.cache_read)), Some((10, 3)));
}

#[test]
fn a_stream_that_breaks_off() {
    let whole = stream();
    let heard = decode_stream(&options(ApiMode::Converse), [&whole[..whole.len() / 2]]);
    assert!(heard.cut_off().partial.tool_calls.is_empty());
}

#[test]
fn a_flipped_bit_is_noticed() {
    let whole = stream();
    for at in (0..whole.len()).step_by(7) {
        let mut bytes = whole.clone();
        bytes[at] ^= 4;
        let heard = decode_stream(&options(ApiMode::Converse), [bytes.as_slice()]);
        assert!(
            !matches!(&heard.ending, Ok(hermes_model::wire::StreamEnding::Complete(_))),
            "byte {at}: {heard:?}"
        );
    }
}

#[test]
fn exceptions_are_refusals() {
    let headers = [(":message-type", "exception"), (":exception-type", "throttlingException")];
    let bytes = frame(&headers, br#"{"message":"Too many tokens, please wait before trying again."}"#);
    let heard = decode_stream(&options(ApiMode::Converse), [bytes.as_slice()]);
    let Err(Error::Classify(fault)) = heard.ending else { panic!("{heard:?}") };
    assert_eq!((fault.status, fault.kind.as_deref()), (Some(429), Some("throttlingException")));
    let verdict = classify(&ProviderFailure::from(&fault), &FailureContext::default());
    assert_eq!((verdict.cause, verdict.remedy), (FailureCause::RateLimit, Remedy::Retry { after: None }));
}

#[test]
fn messages_inside_frames() {
    let known =
        WireOptions::new(ApiMode::Anthropic, "bedrock", "https://bedrock-runtime.us-east-1.amazonaws.com");
    let chunk =
        |event: &str| event_frame("chunk", &format!(r#"{{"bytes":"{}","p":"x"}}"#, base64(event.as_bytes())));
    let bytes = [
        chunk(r#"{"type":"message_start","message":{"id":"msg_1","usage":{"input_tokens":5}}}"#),
        chunk(r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Grüße"}}"#),
        chunk(r#"{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":2}}"#),
        chunk(r#"{"type":"message_stop"}"#),
    ]
    .concat();
    let heard = decode_stream(&known, [bytes.as_slice()]);
    assert_eq!((heard.text().as_str(), heard.answer().response_id.as_deref()), ("Grüße", Some("msg_1")));
}

#[test]
fn a_plain_answer() {
    let body = r#"{"output":{"message":{"role":"assistant","content":[{"reasoningContent":{"reasoningText":{"text":"Hm.", "signature":"s\/"}}},{"text":"Hi"},{"toolUse":{"toolUseId":"t","name":"f","input":{"x": 1}}}]}},"stopReason":"max_tokens","usage":{"inputTokens":1,"outputTokens":2}}"#;
    let answer = decode_plain(&options(ApiMode::Converse), body.as_bytes()).unwrap();
    assert_eq!(answer.message.content.text(), "Hi");
    assert_eq!(answer.message.tool_calls[0].arguments, r#"{"x": 1}"#);
    assert_eq!(answer.finish_reason(), &FinishReason::Length);
    assert_eq!(
        answer.message.reasoning_details.as_ref().unwrap().as_str(),
        r#"[{"reasoningContent":{"reasoningText":{"text":"Hm.", "signature":"s\/"}}}]"#
    );
}
