//! A reply made definite: ids given, arguments cut, usage counted. What remains is only how a wire spells it.

use serde_json::{Map, Value};

use super::{Ask, Piece, STALL, Wire};
use crate::script::{
    Event, Finish, Quirk, Reasoning, ReasoningField, Reply, SseEvent, ToolCall, Usage, UsagePlace,
    UsageSetting,
};

/// 2023-11-14, the creation time of every reply: the same bytes on every run.
pub(crate) const CREATED: u64 = 1_700_000_000;

#[derive(Debug)]
pub(crate) struct Turn {
    pub sequence: usize,
    pub model: String,
    pub acts: Vec<Act>,
    pub usage: Option<Usage>,
    pub finish: Finish,
    pub include_usage: bool,
    /// Whether anything of meaning is said; a reply of raw bytes alone gets no opening or closing events.
    pub speaks: bool,
    pub quirks: Quirks,
}

#[derive(Debug, Clone, Copy)]
#[expect(clippy::struct_excessive_bools, reason = "independent switches, each named as in the script")]
pub(crate) struct Quirks {
    pub no_role: bool,
    pub no_done: bool,
    pub index_zero: bool,
    pub no_tool_id: bool,
    pub repeat_tool_head: bool,
    pub no_ping: bool,
}

#[derive(Debug)]
pub(crate) enum Act {
    Text(Vec<String>),
    Thought(Thought),
    Calls { calls: Vec<Call>, interleave: bool },
    UsageHere,
    Error { message: String, kind: Option<String>, code: Value },
    Ping,
    End,
    Sse(SseEvent),
    Comment(String),
    Piece(Piece),
}

impl Act {
    pub(crate) fn needs_opening(&self) -> bool {
        matches!(self, Self::Text(_) | Self::Thought(_) | Self::Calls { .. } | Self::UsageHere | Self::End)
            || matches!(self, Self::Ping | Self::Error { .. })
    }
}

#[derive(Debug)]
pub(crate) struct Thought {
    pub parts: Vec<String>,
    pub signature: Option<String>,
    pub encrypted: Option<String>,
    pub details: Option<Value>,
    pub field: ReasoningField,
    pub id: String,
}

impl Thought {
    pub(crate) fn joined(&self) -> String {
        self.parts.concat()
    }
}

#[derive(Debug)]
pub(crate) struct Call {
    pub id: String,
    pub item_id: String,
    pub name: String,
    pub arguments: String,
    pub parts: Vec<Part>,
    pub extra_content: Option<Value>,
    pub index: u64,
}

/// A piece of arguments, and byte offsets inside its characters at which the transport is cut.
#[derive(Debug)]
pub(crate) struct Part {
    pub text: String,
    pub cuts: Vec<usize>,
}

impl Turn {
    pub(crate) fn new(reply: &Reply, ask: &Ask) -> Self {
        let mut turn = Self {
            sequence: ask.sequence,
            model: reply.model.clone().unwrap_or_else(|| ask.model.clone()),
            acts: Vec::new(),
            usage: None,
            finish: Finish::Stop,
            include_usage: ask.include_usage,
            speaks: false,
            quirks: Quirks {
                no_role: reply.has(Quirk::NoRole),
                no_done: reply.has(Quirk::NoDone),
                index_zero: reply.has(Quirk::IndexZero),
                no_tool_id: reply.has(Quirk::NoToolId),
                repeat_tool_head: reply.has(Quirk::RepeatToolHead),
                no_ping: reply.has(Quirk::NoPing),
            },
        };
        let mut ids = Ids { wire: ask.wire, sequence: ask.sequence, calls: 0, thoughts: 0 };
        let mut usage = UsageSetting::Auto;
        let mut finish = None;
        for event in &reply.events {
            match event {
                Event::Usage(setting) => {
                    usage = setting.clone();
                    if matches!(setting, UsageSetting::Exact(exact) if exact.at == UsagePlace::Here) {
                        turn.acts.push(Act::UsageHere);
                    }
                }
                Event::Finish(reason) => finish = Some(reason.clone()),
                event => turn.acts.extend(act(event, &mut ids, turn.quirks)),
            }
        }
        turn.speaks = finish.is_some() || turn.acts.iter().any(Act::needs_opening);
        let called = turn.acts.iter().any(|act| matches!(act, Act::Calls { .. }));
        turn.finish = finish.unwrap_or(if called { Finish::ToolCalls } else { Finish::Stop });
        turn.usage = match usage {
            UsageSetting::Auto => Some(turn.estimate(ask.body_bytes)),
            UsageSetting::Absent => None,
            UsageSetting::Exact(usage) => Some(usage),
        };
        turn
    }

    pub(crate) fn text(&self) -> String {
        let texts = self.acts.iter().filter_map(|act| match act {
            Act::Text(parts) => Some(parts.concat()),
            _ => None,
        });
        texts.collect()
    }

    pub(crate) fn thoughts(&self) -> impl Iterator<Item = &Thought> {
        self.acts.iter().filter_map(|act| match act {
            Act::Thought(thought) => Some(thought),
            _ => None,
        })
    }

    pub(crate) fn calls(&self) -> impl Iterator<Item = &Call> {
        let lists = self.acts.iter().filter_map(|act| match act {
            Act::Calls { calls, .. } => Some(calls),
            _ => None,
        });
        lists.flatten()
    }

    /// About four bytes to a token, both ways.
    fn estimate(&self, request_bytes: usize) -> Usage {
        let thoughts: usize = self.thoughts().map(|thought| thought.joined().len()).sum();
        let calls: usize = self.calls().map(|call| call.name.len() + call.arguments.len()).sum();
        let tokens = |bytes: usize| bytes.div_ceil(4) as u64;
        Usage {
            input: tokens(request_bytes),
            output: tokens(self.text().len() + thoughts + calls),
            reasoning: tokens(thoughts),
            ..Usage::default()
        }
    }
}

/// A waiting or breaking event as the transport plays it.
pub(crate) fn flow(event: &Event) -> Option<Piece> {
    match event {
        Event::Delay(span) => Some(Piece::Delay(*span)),
        Event::Wait(gate) => Some(Piece::Wait(gate.clone())),
        Event::Headers => Some(Piece::Bytes(Vec::new())),
        Event::Stall => Some(Piece::Wait(STALL.to_owned())),
        // A cut after a number of bytes is the transport's business from the start.
        Event::Cut(cut) if cut.after_bytes.is_none() => Some(Piece::Cut(cut.how)),
        _ => None,
    }
}

/// Adds up object fields that a wire's usage lacks.
pub(crate) fn merge(into: &mut Value, extra: &Map<String, Value>) {
    if let Value::Object(fields) = into {
        fields.extend(extra.iter().map(|(name, value)| (name.clone(), value.clone())));
    }
}

struct Ids {
    wire: Wire,
    sequence: usize,
    calls: u64,
    thoughts: usize,
}

fn act(event: &Event, ids: &mut Ids, quirks: Quirks) -> Option<Act> {
    Some(match event {
        Event::Text(parts) => Act::Text(parts.0.clone()),
        Event::Reasoning(reasoning) => Act::Thought(ids.thought(reasoning)),
        Event::Tool(tool) => Act::Calls { calls: vec![ids.call(tool, quirks)], interleave: false },
        Event::Tools(tools) => Act::Calls {
            calls: tools.calls.iter().map(|tool| ids.call(tool, quirks)).collect(),
            interleave: tools.interleave,
        },
        Event::Error(error) => Act::Error {
            message: error.message.clone(),
            kind: error.kind.clone(),
            code: error.code.clone().unwrap_or_default(),
        },
        Event::Ping => Act::Ping,
        Event::End => Act::End,
        Event::Comment(text) => Act::Comment(text.clone()),
        Event::Json(value) => Act::Sse(data(value.to_string())),
        Event::Data(text) => Act::Sse(data(text.clone())),
        Event::Malformed => {
            Act::Sse(data(r#"{"id":"broken","choices":[{"index":0,"delta":{"content":"half"#.into()))
        }
        Event::Sse(event) => Act::Sse(event.clone()),
        Event::Raw(text) => Act::Piece(Piece::Bytes(text.clone().into_bytes())),
        Event::Bytes(bytes) => Act::Piece(Piece::Bytes(bytes.clone())),
        Event::Headers => Act::Piece(Piece::Bytes(Vec::new())),
        Event::Usage(_) | Event::Finish(_) => return None,
        Event::Delay(_) | Event::Wait(_) | Event::Stall | Event::Cut(_) => Act::Piece(flow(event)?),
    })
}

fn data(data: String) -> SseEvent {
    SseEvent { data, ..SseEvent::default() }
}

impl Ids {
    fn thought(&mut self, reasoning: &Reasoning) -> Thought {
        let id = format!("rs_{:04}{:02}", self.sequence, self.thoughts);
        self.thoughts += 1;
        Thought {
            parts: reasoning.text.0.clone(),
            signature: reasoning.signature.clone(),
            encrypted: reasoning.encrypted.clone(),
            details: reasoning.details.clone(),
            field: reasoning.field,
            id: reasoning.id.clone().unwrap_or(id),
        }
    }

    fn call(&mut self, tool: &ToolCall, quirks: Quirks) -> Call {
        let number = self.calls;
        self.calls += 1;
        let tail = format!("{:04}{number:02}", self.sequence);
        let prefix = if self.wire == Wire::Messages { "toolu_" } else { "call_" };
        let arguments = tool.arguments_text();
        let parts = if quirks.index_zero { vec![whole(&arguments)] } else { cut_up(&arguments, tool) };
        Call {
            id: tool.id.clone().unwrap_or_else(|| format!("{prefix}{tail}")),
            item_id: tool.item_id.clone().unwrap_or_else(|| format!("fc_{tail}")),
            name: tool.name.clone(),
            arguments,
            parts,
            extra_content: tool.extra_content.clone(),
            index: tool.index.unwrap_or(if quirks.index_zero { 0 } else { number }),
        }
    }
}

fn whole(text: &str) -> Part {
    Part { text: text.to_owned(), cuts: Vec::new() }
}

fn cut_up(arguments: &str, tool: &ToolCall) -> Vec<Part> {
    if let Some(chars) = tool.every {
        return crate::script::Parts::every(arguments, chars).0.iter().map(|part| whole(part)).collect();
    }
    let mut positions = tool.split.clone();
    positions.sort_unstable();
    positions.dedup();
    let mut parts = Vec::new();
    let mut from = 0;
    let mut cuts = Vec::new();
    for position in positions.into_iter().filter(|position| *position > 0 && *position < arguments.len()) {
        if let Some(text) = arguments.get(from..position) {
            parts.push(Part { text: text.to_owned(), cuts: std::mem::take(&mut cuts) });
            from = position;
        } else {
            // Inside a character: no JSON string can end here, but the transport can.
            cuts.push(position - from);
        }
    }
    parts.push(Part { text: arguments.get(from..).unwrap_or_default().to_owned(), cuts });
    parts
}
