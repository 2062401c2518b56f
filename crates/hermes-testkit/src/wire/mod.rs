//! Encodes a reply on each of the four wires.
//!
//! Everything is encoded before the first byte is sent: a reply becomes a [`ResponsePlan`], a list of bytes and
//! waits that the transport then sends. Encoding is therefore a pure function of the reply and the request.

mod chat;
mod converse;
mod failure;
pub(crate) mod inspect;
mod messages;
mod responses;
mod sse;
mod turn;

use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};

use crate::request_log::RecordedRequest;
use crate::script::{CutKind, Framing, ModelScript, Quirk, ReplyEvent, ScriptedReply};
use sse::SseWriter;
use turn::{ScriptedTurn, TurnAction};

/// The protocol of a model endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Wire {
    /// OpenAI chat completions.
    Chat,
    /// OpenAI Responses.
    Responses,
    /// Anthropic Messages.
    Messages,
    /// Bedrock Converse.
    Converse,
}

impl Wire {
    /// Returns the wire by the end of the path, so that any prefix of a provider works.
    pub fn of_path(path: &str) -> Option<Self> {
        let path = path.trim_end_matches('/');
        if path.ends_with("/chat/completions") {
            Some(Self::Chat)
        } else if path.ends_with("/responses") {
            Some(Self::Responses)
        } else if path.ends_with("/v1/messages") {
            Some(Self::Messages)
        } else if path.ends_with("/converse") || path.ends_with("/converse-stream") {
            Some(Self::Converse)
        } else {
            None
        }
    }
}

/// The parts of a request that affect its response.
#[derive(Debug, Clone)]
pub(crate) struct ReplyContext {
    pub wire: Wire,
    pub stream: bool,
    pub include_usage: bool,
    pub model: String,
    pub sequence: usize,
    pub body_bytes: usize,
}

impl ReplyContext {
    pub(crate) fn of(request: &RecordedRequest) -> Self {
        Self {
            // Other paths are scripted as complete HTTP responses; if one uses events, it gets the chat wire.
            wire: request.wire().unwrap_or(Wire::Chat),
            stream: request.wants_stream(),
            include_usage: request.wants_stream_usage(),
            model: request.model().to_owned(),
            sequence: request.sequence(),
            body_bytes: request.body().len(),
        }
    }
}

/// A response, ready to be sent.
#[derive(Debug)]
pub(crate) struct ResponsePlan {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub framing: Framing,
    pub write_size: Option<usize>,
    pub pieces: Vec<ResponsePiece>,
    /// The number of body bytes after which the connection is cut.
    pub cut_after: Option<(usize, CutKind)>,
}

#[derive(Debug, PartialEq)]
pub(crate) enum ResponsePiece {
    Bytes(Vec<u8>),
    /// Sends the bytes so far before those that follow.
    Flush,
    Delay(Duration),
    Wait(String),
    Cut(CutKind),
}

/// The gate at which a stalled reply waits.
pub(crate) const STALL: &str = "stall";

impl ResponsePlan {
    pub(crate) fn of_reply(reply: &ScriptedReply, ask: &ReplyContext, script: &ModelScript) -> Self {
        let mut plan = if reply.http.is_some() || reply.fail.is_some() {
            failure::plan(reply, ask)
        } else if reply.stream.unwrap_or(ask.stream) {
            stream(reply, ask)
        } else {
            plain(reply, ask)
        };
        let transport = &reply.transport;
        plan.framing = match (&transport.framing, plan.framing) {
            (Framing::Auto, own) => own,
            (scripted, _) => scripted.clone(),
        };
        plan.write_size = transport.write_size.or(script.write_size);
        plan.status = transport.status.unwrap_or(plan.status);
        if let Some(content_type) = &transport.content_type {
            plan.set_header("content-type", content_type.clone());
        }
        for (name, value) in &transport.headers {
            plan.set_header(name, plain_text(value));
        }
        plan.cut_after = reply.events.iter().find_map(|event| match event {
            ReplyEvent::Cut(cut) => cut.after_bytes.map(|bytes| (bytes, cut.how)),
            _ => None,
        });
        plan
    }

    /// Builds a JSON response of the server itself.
    pub(crate) fn of_json(status: u16, body: &Value) -> Self {
        Self {
            status,
            headers: vec![("content-type".into(), "application/json".into())],
            framing: Framing::Length,
            write_size: None,
            pieces: vec![ResponsePiece::Bytes(body.to_string().into_bytes())],
            cut_after: None,
        }
    }

    /// Builds the response to a request that no reply matches, in the wire's error format.
    pub(crate) fn of_mismatch(message: &str, ask: &ReplyContext) -> Self {
        Self::of_json(500, &failure::body(ask.wire, message, "script_mismatch", &json!("no_matching_reply")))
    }

    pub(crate) fn set_header(&mut self, name: &str, value: String) {
        self.headers.retain(|(known, _)| !known.eq_ignore_ascii_case(name));
        self.headers.push((name.to_ascii_lowercase(), value));
    }
}

/// Encodes the stream of a turn on one wire. Each method appends what the provider would send at that point.
trait StreamEncoder {
    fn open(&mut self, out: &mut SseWriter);
    fn text(&mut self, parts: &[String], out: &mut SseWriter);
    fn reasoning(&mut self, reasoning: &turn::TurnReasoning, out: &mut SseWriter);
    fn calls(&mut self, calls: &[turn::WireToolCall], interleave: bool, out: &mut SseWriter);
    fn usage_here(&mut self, out: &mut SseWriter);
    fn error(&mut self, message: &str, kind: Option<&str>, code: &Value, out: &mut SseWriter);
    fn ping(&mut self, out: &mut SseWriter);
    fn close(&mut self, out: &mut SseWriter);
}

fn stream(reply: &ScriptedReply, ask: &ReplyContext) -> ResponsePlan {
    let turn = ScriptedTurn::new(reply, ask);
    let mut out = SseWriter::new(reply);
    let mut voice: Box<dyn StreamEncoder + '_> = match ask.wire {
        Wire::Chat => Box::new(chat::ChatStreamEncoder::new(&turn)),
        Wire::Responses => Box::new(responses::ResponsesStreamEncoder::new(&turn)),
        Wire::Messages => Box::new(messages::MessagesStreamEncoder::new(&turn)),
        Wire::Converse => Box::new(converse::ConverseStreamEncoder::new(&turn)),
    };
    let mut opened = false;
    let mut closed = reply.has(Quirk::NoEnd);
    for act in &turn.acts {
        // Waits that come first hold back even the opening event. Raw events have none.
        if !opened && act.needs_opening() {
            voice.open(&mut out);
            opened = true;
        }
        match act {
            TurnAction::Text(parts) => voice.text(parts, &mut out),
            TurnAction::Thought(thought) => voice.reasoning(thought, &mut out),
            TurnAction::Calls { calls, interleave } => voice.calls(calls, *interleave, &mut out),
            TurnAction::UsageHere => voice.usage_here(&mut out),
            TurnAction::Error { message, kind, code } => {
                voice.error(message, kind.as_deref(), code, &mut out);
                closed = true;
            }
            TurnAction::Ping => voice.ping(&mut out),
            TurnAction::End => {
                voice.close(&mut out);
                closed = true;
            }
            TurnAction::Piece(piece) => out.piece(piece),
            TurnAction::Sse(event) => out.scripted(event),
            TurnAction::Comment(text) => out.comment(text),
        }
    }
    if !closed && turn.has_content {
        if !opened {
            voice.open(&mut out);
        }
        voice.close(&mut out);
    }
    let content_type = match ask.wire {
        Wire::Converse => "application/vnd.amazon.eventstream",
        Wire::Chat | Wire::Responses | Wire::Messages => "text/event-stream; charset=utf-8",
    };
    let mut headers = vec![
        ("content-type".to_owned(), content_type.to_owned()),
        ("cache-control".to_owned(), "no-cache".to_owned()),
    ];
    headers.push(("x-request-id".to_owned(), format!("req_{}", ask.sequence)));
    ResponsePlan {
        status: 200,
        headers,
        framing: Framing::Chunked(crate::script::Chunking::default()),
        write_size: None,
        pieces: out.finish(),
        cut_after: None,
    }
}

/// Builds a plan of waits, then the whole body; a cut without a count is in its middle.
fn plain(reply: &ScriptedReply, ask: &ReplyContext) -> ResponsePlan {
    let turn = ScriptedTurn::new(reply, ask);
    let flow = turn.acts.iter().filter_map(|act| match act {
        TurnAction::Piece(piece) => Some(piece),
        _ => None,
    });
    let mut plan = ResponsePlan::of_json(200, &Value::Null);
    let body = if let Some((status, body)) = plain_error(&turn, ask) {
        plan.status = status;
        body.to_string().into_bytes()
    } else if let Some(raw) = plain_raw(&turn) {
        raw
    } else {
        let body = match ask.wire {
            Wire::Chat => chat::plain(&turn),
            Wire::Responses => responses::plain(&turn),
            Wire::Messages => messages::plain(&turn),
            Wire::Converse => converse::plain(&turn),
        };
        body.into_bytes()
    };
    plan.pieces = around(flow, body);
    plan.headers.push(request_id(ask));
    plan
}

/// Returns the error of a stream as the only response to a plain request.
fn plain_error(turn: &ScriptedTurn, ask: &ReplyContext) -> Option<(u16, Value)> {
    turn.acts.iter().find_map(|act| match act {
        TurnAction::Error { message, kind, code } => {
            let kind = kind.as_deref().unwrap_or("server_error");
            Some((500, failure::body(ask.wire, message, kind, code)))
        }
        _ => None,
    })
}

/// Returns the body of a plain response that is scripted below the wire: the payloads and raw bytes alone.
fn plain_raw(turn: &ScriptedTurn) -> Option<Vec<u8>> {
    let payloads: Vec<&[u8]> = turn
        .acts
        .iter()
        .filter_map(|act| match act {
            TurnAction::Sse(event) => Some(event.data.as_bytes()),
            TurnAction::Piece(ResponsePiece::Bytes(bytes)) => Some(bytes.as_slice()),
            _ => None,
        })
        .filter(|bytes| !bytes.is_empty())
        .collect();
    (!payloads.is_empty()).then(|| payloads.concat())
}

/// Returns each provider's header for the id of a request.
fn request_id(ask: &ReplyContext) -> (String, String) {
    let name = match ask.wire {
        Wire::Chat | Wire::Responses => "x-request-id",
        Wire::Messages => "request-id",
        Wire::Converse => "x-amzn-requestid",
    };
    (name.to_owned(), format!("req_{:06}", ask.sequence))
}

/// Puts waits before a body, and a cut into its middle.
fn around<'a>(flow: impl Iterator<Item = &'a ResponsePiece>, body: Vec<u8>) -> Vec<ResponsePiece> {
    let mut pieces = Vec::new();
    let mut cut = None;
    for piece in flow {
        match piece {
            ResponsePiece::Delay(span) => pieces.push(ResponsePiece::Delay(*span)),
            ResponsePiece::Wait(gate) => pieces.push(ResponsePiece::Wait(gate.clone())),
            ResponsePiece::Cut(how) => cut = Some(*how),
            // Empty bytes mean that the head is sent before what follows.
            ResponsePiece::Bytes(bytes) if bytes.is_empty() => pieces.push(ResponsePiece::Bytes(Vec::new())),
            ResponsePiece::Bytes(_) | ResponsePiece::Flush => {}
        }
    }
    if let Some(how) = cut {
        let half = body.len() / 2;
        pieces.push(ResponsePiece::Bytes(body.into_iter().take(half).collect()));
        pieces.push(ResponsePiece::Cut(how));
    } else {
        pieces.push(ResponsePiece::Bytes(body));
    }
    pieces
}

/// Returns a scripted header value as text.
pub(crate) fn plain_text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}
