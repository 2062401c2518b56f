//! Requests, streams and frames that the tests share.

use std::time::Duration;

use hermes_model::Error;
use hermes_model::wire::StreamingMode;
use hermes_model::wire::{
    AnswerDecoder, ApiMode, DecodedAnswer, PartialAnswer, StreamEnding, WireOptions, build_body,
};
use hermes_testkit::TestClock;
use hermes_types::{Cancel, Deadline, Delta, Message, ModelRequest, RawJson, ToolSpec};
use serde_json::Value;

pub(crate) fn request(model: &str, messages: Vec<Message>) -> ModelRequest {
    ModelRequest {
        model: model.to_owned(),
        system: "Be brief.".to_owned(),
        messages,
        tools: std::sync::Arc::default(),
        max_tokens: None,
        temperature: None,
        effort: None,
        session: Some("session_1".to_owned()),
        deadline: Deadline::after(&TestClock::new(), Duration::from_secs(1)),
        cancel: Cancel::new(),
    }
}

pub(crate) fn tool() -> ToolSpec {
    ToolSpec {
        name: "terminal".to_owned(),
        description: "Runs a command.".to_owned(),
        parameters: raw(r#"{"type":"object", "properties":{"command":{"type":"string"}}}"#),
    }
}

pub(crate) fn raw(text: &str) -> RawJson {
    RawJson::parse(text.to_owned()).unwrap()
}

pub(crate) fn message(json: &str) -> Message {
    serde_json::from_str(json).unwrap()
}

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

pub(crate) fn body(request: &ModelRequest, options: &WireOptions) -> Value {
    build_body(request, options, StreamingMode::Plain).to_value()
}

pub(crate) fn bytes(request: &ModelRequest, options: &WireOptions) -> String {
    String::from_utf8(build_body(request, options, StreamingMode::Plain).to_bytes()).unwrap()
}

/// The output of decoding a stream.
#[derive(Debug, PartialEq)]
pub(crate) struct StreamResult {
    pub(crate) deltas: Vec<Delta>,
    pub(crate) ending: Result<StreamEnding, Error>,
}

impl StreamResult {
    #[track_caller]
    pub(crate) fn answer(&self) -> &DecodedAnswer {
        match &self.ending {
            Ok(StreamEnding::Complete(answer)) => answer,
            other => panic!("no answer: {other:?}"),
        }
    }

    #[track_caller]
    pub(crate) fn cut_off(&self) -> &PartialAnswer {
        match &self.ending {
            Ok(StreamEnding::CutOff(cut)) => cut,
            other => panic!("not cut off: {other:?}"),
        }
    }

    pub(crate) fn text(&self) -> String {
        self.deltas
            .iter()
            .filter_map(|delta| if let Delta::Text(text) = delta { Some(text.as_str()) } else { None })
            .collect()
    }

    pub(crate) fn reasoning(&self) -> String {
        self.deltas
            .iter()
            .filter_map(|delta| if let Delta::Reasoning(text) = delta { Some(text.as_str()) } else { None })
            .collect()
    }

    pub(crate) fn started(&self) -> Vec<&str> {
        self.deltas
            .iter()
            .filter_map(
                |delta| if let Delta::ToolStarted { name } = delta { Some(name.as_str()) } else { None },
            )
            .collect()
    }

    /// Returns the joined deltas without generated ids: the part that must not depend on how the bytes were split.
    pub(crate) fn essence(mut self) -> (String, String, Vec<String>, Result<StreamEnding, Error>) {
        if let Ok(StreamEnding::Complete(answer)) = &mut self.ending {
            for call in &mut answer.message.tool_calls {
                if call.id.as_str().len() == 17 {
                    call.id = hermes_types::CallId::new("made_up".to_owned());
                    call.call_id = None;
                    call.response_item_id = None;
                }
            }
        }
        let started = self.started().into_iter().map(str::to_owned).collect();
        (self.text(), self.reasoning(), started, self.ending)
    }
}

pub(crate) fn decode_stream<'a>(
    options: &WireOptions,
    pieces: impl IntoIterator<Item = &'a [u8]>,
) -> StreamResult {
    let mut decoder = AnswerDecoder::new(options);
    let mut deltas = Vec::new();
    for piece in pieces {
        if let Err(error) = decoder.push(piece, &mut deltas) {
            assert_eq!(decoder.push(b"more", &mut deltas), Err(error.clone()), "an error is final");
            return StreamResult { deltas, ending: Err(error) };
        }
    }
    let ending = decoder.finish(&mut deltas);
    StreamResult { deltas, ending }
}

/// Returns one `data:` event per line of JSON.
pub(crate) fn sse(events: &[&str]) -> Vec<u8> {
    events.iter().flat_map(|event| ["data: ", event, "\n\n"].concat().into_bytes()).collect()
}

/// Returns one frame of AWS's event stream.
pub(crate) fn frame(headers: &[(&str, &str)], payload: &[u8]) -> Vec<u8> {
    let mut head = Vec::new();
    for (name, value) in headers {
        head.push(u8::try_from(name.len()).unwrap());
        head.extend(name.as_bytes());
        head.push(7);
        head.extend(u16::try_from(value.len()).unwrap().to_be_bytes());
        head.extend(value.as_bytes());
    }
    let total = 12 + head.len() + payload.len() + 4;
    let mut bytes = Vec::new();
    bytes.extend(u32::try_from(total).unwrap().to_be_bytes());
    bytes.extend(u32::try_from(head.len()).unwrap().to_be_bytes());
    bytes.extend(crc32(&bytes).to_be_bytes());
    bytes.extend(head);
    bytes.extend(payload);
    bytes.extend(crc32(&bytes).to_be_bytes());
    bytes
}

pub(crate) fn event_frame(kind: &str, payload: &str) -> Vec<u8> {
    let headers = [(":message-type", "event"), (":event-type", kind), (":content-type", "application/json")];
    frame(&headers, payload.as_bytes())
}

/// Computes the checksum bit by bit, so that it shares nothing with the code under test.
fn crc32(bytes: &[u8]) -> u32 {
    let mut crc = u32::MAX;
    for byte in bytes {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = if crc & 1 == 1 { (crc >> 1) ^ 0xedb8_8320 } else { crc >> 1 };
        }
    }
    !crc
}

pub(crate) fn base64(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::new();
    for chunk in bytes.chunks(3) {
        let bits =
            chunk.iter().fold(0_u32, |bits, byte| (bits << 8) | u32::from(*byte)) << (8 * (3 - chunk.len()));
        for at in 0..=chunk.len() {
            out.push(char::from(ALPHABET[(bits >> (18 - 6 * at)) as usize & 63]));
        }
        out.extend(std::iter::repeat_n('=', 3 - chunk.len()));
    }
    out
}
