//! Whole answers, and what holds for every answer however it came.

use std::collections::HashSet;
use std::time::Duration;

use hermes_model::wire::{
    AnswerDecoder, ApiMode, DecodedAnswer, StreamEnding, StreamingMode, WireOptions, build_body, decode_plain,
};
use hermes_types::{BoxFuture, Cancel, Clock, Deadline, Message, ModelRequest, Timestamp};
use serde::de::IgnoredAny;

pub(crate) fn options(mode: ApiMode) -> WireOptions {
    match mode {
        ApiMode::Chat => WireOptions::new(mode, "custom", "http://localhost/v1"),
        ApiMode::Responses => WireOptions::new(mode, "openai", "https://api.openai.com/v1"),
        ApiMode::Anthropic => WireOptions::new(mode, "anthropic", "https://api.anthropic.com"),
        ApiMode::Converse => {
            WireOptions::new(mode, "bedrock", "https://bedrock-runtime.us-east-1.amazonaws.com")
        }
    }
}

/// The first byte chooses the wire; the rest is the body.
pub fn plain_answers(data: &[u8]) {
    let Some((choice, body)) = data.split_first() else { return };
    let mode = ApiMode::ALL[usize::from(*choice) % ApiMode::ALL.len()];
    let known = options(mode);
    let read = decode_plain(&known, body);
    if let Ok(answer) = &read {
        check_answer(answer, 8 * body.len() + 1024);
    }
    let opens = body.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'{');
    if mode == ApiMode::Converse || !opens {
        return;
    }
    // A server that answers a wish for a stream with one object is understood all the same.
    let mut decoder = AnswerDecoder::new(&known);
    let mut deltas = Vec::new();
    decoder.push(body, &mut deltas).expect("a body is only kept");
    match (decoder.finish(&mut deltas), read) {
        (Ok(StreamEnding::Complete(streamed)), Ok(plain)) => {
            assert_eq!(streamed.message.content, plain.message.content);
            assert_eq!(streamed.message.tool_calls.len(), plain.message.tool_calls.len());
            assert_eq!((streamed.usage, streamed.model), (plain.usage, plain.model));
        }
        (Err(streamed), Err(plain)) => assert_eq!(streamed, plain),
        (streamed, plain) => panic!("{streamed:?} is not {plain:?}"),
    }
}

/// `room` is the most that its texts may hold together.
pub(crate) fn check_answer(answer: &DecodedAnswer, room: usize) {
    let message = &answer.message;
    assert!(message.finish_reason.is_some(), "{answer:?}");
    let calls = &message.tool_calls;
    let ids: HashSet<&str> = calls.iter().map(|call| call.id.as_str()).collect();
    assert_eq!(ids.len(), calls.len(), "calls that cannot be told apart: {calls:?}");
    assert!(calls.iter().all(|call| !call.id.as_str().is_empty()), "{calls:?}");
    let broken = calls.iter().any(|call| serde_json::from_str::<serde_json::Value>(&call.arguments).is_err());
    assert_eq!(answer.has_broken_arguments(), broken, "{calls:?}");
    let said: usize = calls.iter().map(|call| call.name.len() + call.arguments.len()).sum();
    let thought = message.reasoning.as_ref().map_or(0, String::len);
    assert!(message.content.text().len() + thought + said <= room, "more was read than came");
    check_replay(message);
}

/// The answer survives the database, and the next request that holds it is JSON on every wire.
fn check_replay(message: &Message) {
    let stored = serde_json::to_string(message).expect("a message can be written");
    let back: Message = serde_json::from_str(&stored).expect("what was written can be read");
    assert_eq!(&back, message);
    let results = back.tool_calls.iter().map(|call| Message::tool(call, "done"));
    let mut messages = vec![Message::user("hi"), back.clone()];
    messages.extend(results);
    let request = ModelRequest {
        model: "m".to_owned(),
        system: "Be brief.".to_owned(),
        messages,
        tools: std::sync::Arc::default(),
        max_tokens: None,
        temperature: None,
        effort: None,
        session: None,
        deadline: Deadline::after(&Standing, Duration::from_secs(1)),
        cancel: Cancel::new(),
    };
    for mode in ApiMode::ALL {
        let body = build_body(&request, &options(mode), StreamingMode::Streamed).to_bytes();
        let parsed = serde_json::from_slice::<IgnoredAny>(&body);
        assert!(parsed.is_ok(), "{mode:?}: {parsed:?}: {}", String::from_utf8_lossy(&body));
    }
}

/// A clock that stands still.
#[derive(Debug)]
struct Standing;

impl Clock for Standing {
    fn now(&self) -> Timestamp {
        Timestamp(0.0)
    }

    fn monotonic(&self) -> Duration {
        Duration::ZERO
    }

    fn sleep(&self, _: Duration) -> BoxFuture<'static, ()> {
        Box::pin(std::future::ready(()))
    }
}
