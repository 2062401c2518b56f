//! Decodes an answer: from the chunks of a stream, or as a whole.
//!
//! Deltas are emitted as soon as they are known; the assembled message only at the end. The result depends on the
//! bytes alone, never on how they were split into chunks. A stream that broke off ends as [`StreamEnding::CutOff`],
//! which contains no tool call, so that an incomplete call can never be run. The stored content keeps inline
//! reasoning; the deltas do not show it.

mod answer_text;
mod anthropic;
mod aws;
mod base64;
mod blocks;
mod calls;
mod chat;
mod converse;
mod foreign_content;
mod merge;
mod responses;

use hermes_text::{SseEvent, SseParser};
use hermes_types::{Completion, Cost, Delta, FinishReason, JsonFields, Message, RawJson, Usage};

use self::anthropic::AnthropicReader;
use self::aws::{AwsEventFrame, AwsEventStream};
use self::chat::ChatReader;
use self::converse::ConverseReader;
use self::responses::ResponsesReader;
use super::fields::JsonFieldsExt as _;
use super::mode::ApiMode;
use super::options::WireOptions;
use crate::error::{Error, ProviderFault};

/// The largest event of a stream.
const EVENT_LIMIT: usize = 8 * 1024 * 1024;

/// A complete answer.
#[derive(Debug, Clone, PartialEq)]
pub struct DecodedAnswer {
    /// Its `finish_reason` is always set.
    pub message: Message,
    pub usage: Option<Usage>,
    /// The cost that the provider reports, in millionths of a dollar.
    pub reported_cost: Option<u64>,
    /// The model that answered, as it names itself.
    pub model: Option<String>,
    pub response_id: Option<String>,
    /// The output items of a Responses answer, byte for byte.
    pub provider_items: Option<RawJson>,
}

impl DecodedAnswer {
    pub fn finish_reason(&self) -> &FinishReason {
        self.message.finish_reason.as_ref().unwrap_or(&FinishReason::Stop)
    }

    /// Converts the answer to the form that the rest of the program uses.
    pub fn into_completion(self, provider: &str, asked_model: &str, cost: Cost) -> Completion {
        Completion {
            message: self.message,
            usage: self.usage,
            cost,
            model: self.model.unwrap_or_else(|| asked_model.to_owned()),
            provider: provider.to_owned(),
            response_id: self.response_id,
            provider_items: self.provider_items,
        }
    }

    /// Tells whether a call's arguments are not JSON: cut off by the output limit, or malformed. Such a call must
    /// not run.
    pub fn has_broken_arguments(&self) -> bool {
        calls::has_invalid_arguments(&self.message.tool_calls)
    }
}

/// The way a stream ended.
#[derive(Debug, Clone, PartialEq)]
pub enum StreamEnding {
    Complete(Box<DecodedAnswer>),
    CutOff(Box<PartialAnswer>),
}

/// The part of an answer that never finished. It can be requested again; nothing of it may be run.
#[derive(Debug, Clone, PartialEq)]
pub struct PartialAnswer {
    /// Text and reasoning so far, without calls.
    pub partial: Message,
    /// The names of the calls that had begun.
    pub lost_calls: Vec<String>,
    pub usage: Option<Usage>,
}

/// Decodes one streamed answer.
#[derive(Debug)]
pub struct AnswerDecoder {
    mode: ApiMode,
    family: String,
    framing: Framing,
    /// Set once the first significant byte has been seen.
    started: bool,
    reader: Reader,
    failed: Option<Error>,
}

#[derive(Debug)]
enum Framing {
    Sse(SseParser),
    Aws(AwsEventStream),
    /// One JSON object from a server that ignored the request for a stream, buffered until it is complete.
    Unframed(Vec<u8>),
}

#[derive(Debug)]
enum Reader {
    Chat(ChatReader),
    Responses(ResponsesReader),
    Anthropic(AnthropicReader),
    Converse(ConverseReader),
}

impl AnswerDecoder {
    pub fn new(options: &WireOptions) -> Self {
        let framing = if options.mode == ApiMode::Converse || options.is_bedrock_messages() {
            Framing::Aws(AwsEventStream::new(EVENT_LIMIT))
        } else {
            Framing::Sse(SseParser::new(EVENT_LIMIT))
        };
        let reader = match options.mode {
            ApiMode::Chat => Reader::Chat(ChatReader::default()),
            ApiMode::Responses => Reader::Responses(ResponsesReader::default()),
            ApiMode::Anthropic => Reader::Anthropic(AnthropicReader::new(options.signature_family())),
            ApiMode::Converse => Reader::Converse(ConverseReader::default()),
        };
        let family = options.signature_family().to_owned();
        Self { mode: options.mode, family, framing, started: false, reader, failed: None }
    }

    /// Decodes the next bytes of the body. After an error every further call returns the same error.
    pub fn push(&mut self, bytes: &[u8], out: &mut Vec<Delta>) -> Result<(), Error> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        let result = self.read(bytes, out);
        self.failed = result.as_ref().err().cloned();
        result
    }

    /// Decodes one event that the caller has framed.
    pub fn feed(&mut self, event: &SseEvent, out: &mut Vec<Delta>) -> Result<(), Error> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        let result = self.reader.event(event, out);
        self.failed = result.as_ref().err().cloned();
        result
    }

    /// Tells whether the provider has marked the end of the answer. Usage may still follow.
    pub fn has_ended(&self) -> bool {
        self.reader.has_ended()
    }

    /// Ends the decoding after the connection has ended for any reason.
    pub fn finish(mut self, out: &mut Vec<Delta>) -> Result<StreamEnding, Error> {
        if let Some(error) = self.failed {
            return Err(error);
        }
        if let Framing::Unframed(body) = &self.framing {
            let answer = decode_complete(self.mode, &self.family, body)?;
            emit_deltas(&answer.message, out);
            return Ok(StreamEnding::Complete(Box::new(answer)));
        }
        if let Framing::Sse(parser) = &mut self.framing {
            parser.finish();
            while let Some(event) = parser.next_event() {
                match self.reader.event(&event, out) {
                    // The end of the connection cut off the last event.
                    Ok(()) | Err(Error::Retry { .. }) => {}
                    Err(error) => return Err(error),
                }
            }
        }
        match self.reader {
            Reader::Chat(reader) => reader.finish(out),
            Reader::Responses(reader) => reader.finish(out),
            Reader::Anthropic(reader) => reader.finish(out),
            Reader::Converse(reader) => reader.finish(out),
        }
    }

    fn read(&mut self, bytes: &[u8], out: &mut Vec<Delta>) -> Result<(), Error> {
        if !self.started
            && let Some(first) = bytes.iter().find(|byte| !byte.is_ascii_whitespace())
        {
            self.started = true;
            // No event stream begins with a brace.
            if *first == b'{' && matches!(self.framing, Framing::Sse(_)) {
                self.framing = Framing::Unframed(Vec::new());
            }
        }
        match &mut self.framing {
            Framing::Unframed(body) if body.len() + bytes.len() > EVENT_LIMIT => {
                Err(Error::unreadable(format!("an answer of more than {EVENT_LIMIT} bytes")))
            }
            Framing::Unframed(body) => {
                body.extend_from_slice(bytes);
                Ok(())
            }
            Framing::Sse(parser) => {
                let pushed = parser.push(bytes);
                while let Some(event) = parser.next_event() {
                    self.reader.event(&event, out)?;
                }
                pushed.map_err(|error| Error::unreadable(error.to_string()))
            }
            Framing::Aws(stream) => {
                stream.push(bytes);
                while let Some(frame) = stream.next_frame()? {
                    self.reader.frame(&frame, out)?;
                }
                Ok(())
            }
        }
    }
}

impl Reader {
    fn has_ended(&self) -> bool {
        match self {
            Self::Chat(reader) => reader.has_ended(),
            Self::Responses(reader) => reader.has_ended(),
            Self::Anthropic(reader) => reader.has_ended(),
            Self::Converse(reader) => reader.has_ended(),
        }
    }

    fn event(&mut self, event: &SseEvent, out: &mut Vec<Delta>) -> Result<(), Error> {
        let data = event.data.trim();
        if data.is_empty() {
            return Ok(());
        }
        if data == "[DONE]" {
            if let Self::Chat(reader) = self {
                reader.done();
            }
            return Ok(());
        }
        let Ok(fields) = serde_json::from_str::<JsonFields>(data) else {
            if event.event == "error" {
                return Err(Error::Classify(ProviderFault::new(data)));
            }
            // Malformed data after the end does not invalidate a complete answer.
            if self.has_ended() {
                return Ok(());
            }
            return Err(Error::unreadable(format!(
                "not a JSON object: {}",
                hermes_text::ellipsize(data, 120)
            )));
        };
        let kind = fields.text("type").filter(|kind| !kind.is_empty()).unwrap_or_else(|| event.event.clone());
        if kind == "error" || event.event == "error" {
            return Err(Error::Classify(read_fault(data)));
        }
        match self {
            Self::Chat(reader) => reader.chunk(&fields, out),
            Self::Responses(reader) => reader.event(&kind, &fields, out),
            Self::Anthropic(reader) => reader.event(&kind, &fields, out),
            Self::Converse(reader) => reader.event(&event.event, &fields, out),
        }
    }

    fn frame(&mut self, frame: &AwsEventFrame, out: &mut Vec<Delta>) -> Result<(), Error> {
        frame.check()?;
        match self {
            Self::Anthropic(_) => {
                let Some(data) = frame.wrapped_json()? else { return Ok(()) };
                self.event(&SseEvent { data, ..SseEvent::default() }, out)
            }
            Self::Converse(reader) => reader.event(&frame.event_type, &frame.fields()?, out),
            Self::Chat(_) | Self::Responses(_) => Ok(()),
        }
    }
}

fn read_fault(data: &str) -> ProviderFault {
    match RawJson::parse(data.to_owned()) {
        Ok(raw) => ProviderFault::read(&raw),
        Err(_) => ProviderFault::new(data),
    }
}

/// Decodes an answer in one piece.
pub fn decode_plain(options: &WireOptions, body: &[u8]) -> Result<DecodedAnswer, Error> {
    decode_complete(options.mode, options.signature_family(), body)
}

/// Emits the deltas that a stream of the same message would have produced.
fn emit_deltas(message: &Message, out: &mut Vec<Delta>) {
    let text = message.content.text();
    let shown = hermes_text::strip_think(&text);
    out.extend(message.reasoning.clone().map(Delta::Reasoning));
    if !shown.is_empty() {
        out.push(Delta::Text(shown.into_owned()));
    }
    out.extend(message.tool_calls.iter().map(|call| Delta::ToolStarted { name: call.name.clone() }));
}

fn decode_complete(mode: ApiMode, family: &str, body: &[u8]) -> Result<DecodedAnswer, Error> {
    let text = String::from_utf8_lossy(body);
    let text = text.trim_start_matches('\u{feff}').trim();
    let fields: JsonFields = serde_json::from_str(text)
        .map_err(|error| Error::unreadable(format!("{error}: {}", hermes_text::ellipsize(text, 120))))?;
    if fields.text("type").as_deref() == Some("error") {
        return Err(Error::Classify(read_fault(text)));
    }
    if let Some(error) =
        fields.non_null("error").filter(|raw| !matches!(raw.as_str(), "{}" | "\"\"" | "false"))
    {
        // A failed Responses answer names its own status, which is more precise.
        if mode != ApiMode::Responses || fields.get("output").is_none() {
            return Err(Error::Classify(ProviderFault::read(error)));
        }
    }
    let ending = match mode {
        ApiMode::Chat => ChatReader::decode_complete(&fields),
        ApiMode::Responses => ResponsesReader::decode_complete(&fields),
        ApiMode::Anthropic => AnthropicReader::decode_complete(&fields, family),
        ApiMode::Converse => ConverseReader::decode_complete(&fields),
    }?;
    match ending {
        StreamEnding::Complete(answer) => Ok(*answer),
        StreamEnding::CutOff(_) => Err(Error::UseFallback { missing: "no end of the answer" }),
    }
}
