//! A reply with all details resolved: ids assigned, arguments split, usage counted. Only its encoding is left.

use serde_json::{Map, Value};

use super::{ReplyContext, ResponsePiece, STALL, Wire};
use crate::script::{
    Quirk, Reasoning, ReasoningField, ReplyEvent, ScriptedFinish, ScriptedReply, ScriptedSseEvent,
    ScriptedToolCall, ScriptedUsage, UsagePlace, UsageSetting,
};

/// The creation time of every reply, 2023-11-14: the same bytes on every run.
pub(crate) const CREATED: u64 = 1_700_000_000;

#[derive(Debug)]
pub(crate) struct ScriptedTurn {
    pub sequence: usize,
    pub model: String,
    pub acts: Vec<TurnAction>,
    pub usage: Option<ScriptedUsage>,
    pub finish: ScriptedFinish,
    pub include_usage: bool,
    /// True when the reply has any content; a reply of raw bytes alone gets no opening or closing events.
    pub has_content: bool,
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
pub(crate) enum TurnAction {
    Text(Vec<String>),
    Thought(TurnReasoning),
    Calls { calls: Vec<WireToolCall>, interleave: bool },
    UsageHere,
    Error { message: String, kind: Option<String>, code: Value },
    Ping,
    End,
    Sse(ScriptedSseEvent),
    Comment(String),
    Piece(ResponsePiece),
}

impl TurnAction {
    pub(crate) fn needs_opening(&self) -> bool {
        matches!(self, Self::Text(_) | Self::Thought(_) | Self::Calls { .. } | Self::UsageHere | Self::End)
            || matches!(self, Self::Ping | Self::Error { .. })
    }
}

#[derive(Debug)]
pub(crate) struct TurnReasoning {
    pub parts: Vec<String>,
    pub signature: Option<String>,
    pub encrypted: Option<String>,
    pub details: Option<Value>,
    pub field: ReasoningField,
    pub id: String,
}

impl TurnReasoning {
    pub(crate) fn joined(&self) -> String {
        self.parts.concat()
    }
}

#[derive(Debug)]
pub(crate) struct WireToolCall {
    pub id: String,
    pub item_id: String,
    pub name: String,
    pub arguments: String,
    pub parts: Vec<ArgumentPart>,
    pub extra_content: Option<Value>,
    pub index: u64,
}

/// A part of the arguments, and byte offsets inside its characters at which the transport is split.
#[derive(Debug)]
pub(crate) struct ArgumentPart {
    pub text: String,
    pub cuts: Vec<usize>,
}

impl ScriptedTurn {
    pub(crate) fn new(reply: &ScriptedReply, ask: &ReplyContext) -> Self {
        let mut turn = Self {
            sequence: ask.sequence,
            model: reply.model.clone().unwrap_or_else(|| ask.model.clone()),
            acts: Vec::new(),
            usage: None,
            finish: ScriptedFinish::Stop,
            include_usage: ask.include_usage,
            has_content: false,
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
                ReplyEvent::Usage(setting) => {
                    usage = setting.clone();
                    if matches!(setting, UsageSetting::Exact(exact) if exact.at == UsagePlace::Here) {
                        turn.acts.push(TurnAction::UsageHere);
                    }
                }
                ReplyEvent::Finish(reason) => finish = Some(reason.clone()),
                event => turn.acts.extend(act(event, &mut ids, turn.quirks)),
            }
        }
        turn.has_content = finish.is_some() || turn.acts.iter().any(TurnAction::needs_opening);
        let called = turn.acts.iter().any(|act| matches!(act, TurnAction::Calls { .. }));
        turn.finish = finish.unwrap_or(if called { ScriptedFinish::ToolCalls } else { ScriptedFinish::Stop });
        turn.usage = match usage {
            UsageSetting::Auto => Some(turn.estimate(ask.body_bytes)),
            UsageSetting::Absent => None,
            UsageSetting::Exact(usage) => Some(usage),
        };
        turn
    }

    pub(crate) fn text(&self) -> String {
        let texts = self.acts.iter().filter_map(|act| match act {
            TurnAction::Text(parts) => Some(parts.concat()),
            _ => None,
        });
        texts.collect()
    }

    pub(crate) fn thoughts(&self) -> impl Iterator<Item = &TurnReasoning> {
        self.acts.iter().filter_map(|act| match act {
            TurnAction::Thought(thought) => Some(thought),
            _ => None,
        })
    }

    pub(crate) fn calls(&self) -> impl Iterator<Item = &WireToolCall> {
        let lists = self.acts.iter().filter_map(|act| match act {
            TurnAction::Calls { calls, .. } => Some(calls),
            _ => None,
        });
        lists.flatten()
    }

    /// Estimates usage at about four bytes to a token, in both directions.
    fn estimate(&self, request_bytes: usize) -> ScriptedUsage {
        let thoughts: usize = self.thoughts().map(|thought| thought.joined().len()).sum();
        let calls: usize = self.calls().map(|call| call.name.len() + call.arguments.len()).sum();
        let tokens = |bytes: usize| bytes.div_ceil(4) as u64;
        ScriptedUsage {
            input: tokens(request_bytes),
            output: tokens(self.text().len() + thoughts + calls),
            reasoning: tokens(thoughts),
            ..ScriptedUsage::default()
        }
    }
}

/// Returns a waiting or cutting event as the transport handles it.
pub(crate) fn flow(event: &ReplyEvent) -> Option<ResponsePiece> {
    match event {
        ReplyEvent::Delay(span) => Some(ResponsePiece::Delay(*span)),
        ReplyEvent::Wait(gate) => Some(ResponsePiece::Wait(gate.clone())),
        ReplyEvent::Headers => Some(ResponsePiece::Bytes(Vec::new())),
        ReplyEvent::Stall => Some(ResponsePiece::Wait(STALL.to_owned())),
        // The transport handles a cut after a number of bytes from the start.
        ReplyEvent::Cut(cut) if cut.after_bytes.is_none() => Some(ResponsePiece::Cut(cut.how)),
        _ => None,
    }
}

/// Adds fields to an object, replacing existing ones.
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

fn act(event: &ReplyEvent, ids: &mut Ids, quirks: Quirks) -> Option<TurnAction> {
    Some(match event {
        ReplyEvent::Text(parts) => TurnAction::Text(parts.0.clone()),
        ReplyEvent::Reasoning(reasoning) => TurnAction::Thought(ids.thought(reasoning)),
        ReplyEvent::Tool(tool) => {
            TurnAction::Calls { calls: vec![ids.call(tool, quirks)], interleave: false }
        }
        ReplyEvent::Tools(tools) => TurnAction::Calls {
            calls: tools.calls.iter().map(|tool| ids.call(tool, quirks)).collect(),
            interleave: tools.interleave,
        },
        ReplyEvent::Error(error) => TurnAction::Error {
            message: error.message.clone(),
            kind: error.kind.clone(),
            code: error.code.clone().unwrap_or_default(),
        },
        ReplyEvent::Ping => TurnAction::Ping,
        ReplyEvent::End => TurnAction::End,
        ReplyEvent::Comment(text) => TurnAction::Comment(text.clone()),
        ReplyEvent::Json(value) => TurnAction::Sse(data(value.to_string())),
        ReplyEvent::Data(text) => TurnAction::Sse(data(text.clone())),
        ReplyEvent::Malformed => {
            TurnAction::Sse(data(r#"{"id":"broken","choices":[{"index":0,"delta":{"content":"half"#.into()))
        }
        ReplyEvent::Sse(event) => TurnAction::Sse(event.clone()),
        ReplyEvent::Raw(text) => TurnAction::Piece(ResponsePiece::Bytes(text.clone().into_bytes())),
        ReplyEvent::Bytes(bytes) => TurnAction::Piece(ResponsePiece::Bytes(bytes.clone())),
        ReplyEvent::Headers => TurnAction::Piece(ResponsePiece::Bytes(Vec::new())),
        ReplyEvent::Usage(_) | ReplyEvent::Finish(_) => return None,
        ReplyEvent::Delay(_) | ReplyEvent::Wait(_) | ReplyEvent::Stall | ReplyEvent::Cut(_) => {
            TurnAction::Piece(flow(event)?)
        }
    })
}

fn data(data: String) -> ScriptedSseEvent {
    ScriptedSseEvent { data, ..ScriptedSseEvent::default() }
}

impl Ids {
    fn thought(&mut self, reasoning: &Reasoning) -> TurnReasoning {
        let id = format!("rs_{:04}{:02}", self.sequence, self.thoughts);
        self.thoughts += 1;
        TurnReasoning {
            parts: reasoning.text.0.clone(),
            signature: reasoning.signature.clone(),
            encrypted: reasoning.encrypted.clone(),
            details: reasoning.details.clone(),
            field: reasoning.field,
            id: reasoning.id.clone().unwrap_or(id),
        }
    }

    fn call(&mut self, tool: &ScriptedToolCall, quirks: Quirks) -> WireToolCall {
        let number = self.calls;
        self.calls += 1;
        let tail = format!("{:04}{number:02}", self.sequence);
        let prefix = match self.wire {
            Wire::Chat | Wire::Responses => "call_",
            Wire::Messages => "toolu_",
            Wire::Converse => "tooluse_",
        };
        let arguments = tool.arguments_text();
        let parts = if quirks.index_zero { vec![whole(&arguments)] } else { cut_up(&arguments, tool) };
        WireToolCall {
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

fn whole(text: &str) -> ArgumentPart {
    ArgumentPart { text: text.to_owned(), cuts: Vec::new() }
}

fn cut_up(arguments: &str, tool: &ScriptedToolCall) -> Vec<ArgumentPart> {
    if let Some(chars) = tool.every {
        return crate::script::TextDeltas::every(arguments, chars).0.iter().map(|part| whole(part)).collect();
    }
    let mut positions = tool.split.clone();
    positions.sort_unstable();
    positions.dedup();
    let mut parts = Vec::new();
    let mut from = 0;
    let mut cuts = Vec::new();
    for position in positions.into_iter().filter(|position| *position > 0 && *position < arguments.len()) {
        if let Some(text) = arguments.get(from..position) {
            parts.push(ArgumentPart { text: text.to_owned(), cuts: std::mem::take(&mut cuts) });
            from = position;
        } else {
            // Inside a character: no JSON string can end here, but a TCP write can.
            cuts.push(position - from);
        }
    }
    parts.push(ArgumentPart { text: arguments.get(from..).unwrap_or_default().to_owned(), cuts });
    parts
}
