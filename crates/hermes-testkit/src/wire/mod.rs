//! How a reply looks on each of the three wires.
//!
//! Everything is rendered before the first byte leaves: a reply becomes a `Plan`, a list of bytes and waits that the
//! transport then plays. Rendering is therefore a pure function of the reply and the request.

mod chat;
mod failure;
pub(crate) mod inspect;
mod messages;
mod responses;
mod sse;
mod turn;

use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};

use crate::ledger::RecordedRequest;
use crate::script::{CutHow, Event, Framing, Quirk, Reply, Script};
use sse::SseWriter;
use turn::{Act, Turn};

/// The protocol a model endpoint speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Wire {
    /// OpenAI chat completions.
    Chat,
    /// OpenAI Responses.
    Responses,
    /// Anthropic Messages.
    Messages,
}

impl Wire {
    /// By the end of the path, so that any prefix a provider puts before it works.
    pub fn of_path(path: &str) -> Option<Self> {
        let path = path.trim_end_matches('/');
        if path.ends_with("/chat/completions") {
            Some(Self::Chat)
        } else if path.ends_with("/responses") {
            Some(Self::Responses)
        } else if path.ends_with("/v1/messages") {
            Some(Self::Messages)
        } else {
            None
        }
    }
}

/// What of a request shapes its answer.
#[derive(Debug, Clone)]
pub(crate) struct Ask {
    pub wire: Wire,
    pub stream: bool,
    pub include_usage: bool,
    pub model: String,
    pub sequence: usize,
    pub body_bytes: usize,
}

impl Ask {
    pub(crate) fn of(request: &RecordedRequest) -> Self {
        Self {
            // Other paths are scripted by whole HTTP answers; should one use events, chat is as good as any.
            wire: request.wire().unwrap_or(Wire::Chat),
            stream: request.wants_stream(),
            include_usage: request.wants_stream_usage(),
            model: request.model().to_owned(),
            sequence: request.sequence(),
            body_bytes: request.body().len(),
        }
    }
}

/// An answer, ready to be sent.
#[derive(Debug)]
pub(crate) struct Plan {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub framing: Framing,
    pub write_size: Option<usize>,
    pub pieces: Vec<Piece>,
    /// Breaks off after so many bytes of the body.
    pub cut_after: Option<(usize, CutHow)>,
}

#[derive(Debug, PartialEq)]
pub(crate) enum Piece {
    Bytes(Vec<u8>),
    /// What came before leaves before what comes after.
    Flush,
    Delay(Duration),
    Wait(String),
    Cut(CutHow),
}

/// The gate at which a stalled reply waits.
pub(crate) const STALL: &str = "stall";

impl Plan {
    pub(crate) fn of_reply(reply: &Reply, ask: &Ask, script: &Script) -> Self {
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
            Event::Cut(cut) => cut.after_bytes.map(|bytes| (bytes, cut.how)),
            _ => None,
        });
        plan
    }

    /// A JSON answer made by the server itself.
    pub(crate) fn of_json(status: u16, body: &Value) -> Self {
        Self {
            status,
            headers: vec![("content-type".into(), "application/json".into())],
            framing: Framing::Length,
            write_size: None,
            pieces: vec![Piece::Bytes(body.to_string().into_bytes())],
            cut_after: None,
        }
    }

    /// The answer to a request that no reply is for, in the wire's error format.
    pub(crate) fn of_mismatch(message: &str, ask: &Ask) -> Self {
        Self::of_json(500, &failure::body(ask.wire, message, "script_mismatch", &json!("no_matching_reply")))
    }

    pub(crate) fn set_header(&mut self, name: &str, value: String) {
        self.headers.retain(|(known, _)| !known.eq_ignore_ascii_case(name));
        self.headers.push((name.to_ascii_lowercase(), value));
    }
}

/// One wire's way of streaming a turn. Each verb appends what the provider would send at that point.
trait Voice {
    fn open(&mut self, out: &mut SseWriter);
    fn text(&mut self, parts: &[String], out: &mut SseWriter);
    fn reasoning(&mut self, reasoning: &turn::Thought, out: &mut SseWriter);
    fn calls(&mut self, calls: &[turn::Call], interleave: bool, out: &mut SseWriter);
    fn usage_here(&mut self, out: &mut SseWriter);
    fn error(&mut self, message: &str, kind: Option<&str>, code: &Value, out: &mut SseWriter);
    fn ping(&mut self, out: &mut SseWriter);
    fn close(&mut self, out: &mut SseWriter);
}

fn stream(reply: &Reply, ask: &Ask) -> Plan {
    let turn = Turn::new(reply, ask);
    let mut out = SseWriter::new(reply);
    let mut voice: Box<dyn Voice + '_> = match ask.wire {
        Wire::Chat => Box::new(chat::ChatVoice::new(&turn)),
        Wire::Responses => Box::new(responses::ResponsesVoice::new(&turn)),
        Wire::Messages => Box::new(messages::MessagesVoice::new(&turn)),
    };
    let mut opened = false;
    let mut closed = reply.has(Quirk::NoEnd);
    for act in &turn.acts {
        // Waits that come first hold back even the opening event: nothing has been said yet. Raw events stand alone.
        if !opened && act.needs_opening() {
            voice.open(&mut out);
            opened = true;
        }
        match act {
            Act::Text(parts) => voice.text(parts, &mut out),
            Act::Thought(thought) => voice.reasoning(thought, &mut out),
            Act::Calls { calls, interleave } => voice.calls(calls, *interleave, &mut out),
            Act::UsageHere => voice.usage_here(&mut out),
            Act::Error { message, kind, code } => {
                voice.error(message, kind.as_deref(), code, &mut out);
                closed = true;
            }
            Act::Ping => voice.ping(&mut out),
            Act::End => {
                voice.close(&mut out);
                closed = true;
            }
            Act::Piece(piece) => out.piece(piece),
            Act::Sse(event) => out.scripted(event),
            Act::Comment(text) => out.comment(text),
        }
    }
    if !closed && turn.speaks {
        if !opened {
            voice.open(&mut out);
        }
        voice.close(&mut out);
    }
    let mut headers = vec![
        ("content-type".to_owned(), "text/event-stream; charset=utf-8".to_owned()),
        ("cache-control".to_owned(), "no-cache".to_owned()),
    ];
    headers.push(("x-request-id".to_owned(), format!("req_{}", ask.sequence)));
    Plan {
        status: 200,
        headers,
        framing: Framing::Chunked(crate::script::Chunking::default()),
        write_size: None,
        pieces: out.finish(),
        cut_after: None,
    }
}

/// Waits come first, then the whole body; a cut without a count breaks off in its middle.
fn plain(reply: &Reply, ask: &Ask) -> Plan {
    let turn = Turn::new(reply, ask);
    let flow = turn.acts.iter().filter_map(|act| match act {
        Act::Piece(piece) => Some(piece),
        _ => None,
    });
    let mut plan = Plan::of_json(200, &Value::Null);
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
        };
        body.into_bytes()
    };
    plan.pieces = around(flow, body);
    plan.headers.push(request_id(ask));
    plan
}

/// What would break a stream in its middle is all that a plain request hears.
fn plain_error(turn: &Turn, ask: &Ask) -> Option<(u16, Value)> {
    turn.acts.iter().find_map(|act| match act {
        Act::Error { message, kind, code } => {
            let kind = kind.as_deref().unwrap_or("server_error");
            Some((500, failure::body(ask.wire, message, kind, code)))
        }
        _ => None,
    })
}

/// The body of a plain answer that is scripted below the wire: the payloads and raw bytes alone.
fn plain_raw(turn: &Turn) -> Option<Vec<u8>> {
    let payloads: Vec<&[u8]> = turn
        .acts
        .iter()
        .filter_map(|act| match act {
            Act::Sse(event) => Some(event.data.as_bytes()),
            Act::Piece(Piece::Bytes(bytes)) => Some(bytes.as_slice()),
            _ => None,
        })
        .filter(|bytes| !bytes.is_empty())
        .collect();
    (!payloads.is_empty()).then(|| payloads.concat())
}

/// Each provider's header for the number of a request.
fn request_id(ask: &Ask) -> (String, String) {
    let name = if ask.wire == Wire::Messages { "request-id" } else { "x-request-id" };
    (name.to_owned(), format!("req_{:06}", ask.sequence))
}

/// Puts waits before a body, and a cut into its middle.
fn around<'a>(flow: impl Iterator<Item = &'a Piece>, body: Vec<u8>) -> Vec<Piece> {
    let mut pieces = Vec::new();
    let mut cut = None;
    for piece in flow {
        match piece {
            Piece::Delay(span) => pieces.push(Piece::Delay(*span)),
            Piece::Wait(gate) => pieces.push(Piece::Wait(gate.clone())),
            Piece::Cut(how) => cut = Some(*how),
            // No bytes at all: the head is to leave before what follows.
            Piece::Bytes(bytes) if bytes.is_empty() => pieces.push(Piece::Bytes(Vec::new())),
            Piece::Bytes(_) | Piece::Flush => {}
        }
    }
    if let Some(how) = cut {
        let half = body.len() / 2;
        pieces.push(Piece::Bytes(body.into_iter().take(half).collect()));
        pieces.push(Piece::Cut(how));
    } else {
        pieces.push(Piece::Bytes(body));
    }
    pieces
}

/// A scripted header value as text.
pub(crate) fn plain_text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}
