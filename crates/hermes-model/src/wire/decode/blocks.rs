//! An answer of numbered blocks, as in Messages and Converse.

use hermes_types::{Delta, Message, RawJson, ToolCall};

use super::answer_text::{AnswerText, message};
use super::calls::{EmptyArguments, has_invalid_arguments};

#[derive(Debug, Default)]
pub(super) struct BlockAssembler {
    list: Vec<(u64, Block)>,
    text: AnswerText,
}

#[derive(Debug)]
enum Block {
    Text(String),
    Thinking {
        text: String,
        signature: String,
        raw: Option<RawJson>,
    },
    /// A block that is passed on without being parsed.
    Opaque(RawJson),
    Tool {
        id: String,
        name: String,
        given: String,
        streamed: String,
    },
}

/// The result of assembling the blocks.
pub(super) struct AssembledBlocks {
    pub(super) message: Message,
    pub(super) calls: Vec<ToolCall>,
    pub(super) names: Vec<String>,
    /// The thinking blocks in order, as `render` wrote them or as they arrived.
    pub(super) thinking: Vec<RawJson>,
    pub(super) has_broken_calls: bool,
    pub(super) is_empty: bool,
}

impl BlockAssembler {
    pub(super) fn start_text(&mut self, index: u64, text: &str, out: &mut Vec<Delta>) {
        self.text.break_line(out);
        self.list.push((index, Block::Text(String::new())));
        self.text(index, text, out);
    }

    pub(super) fn start_thinking(&mut self, index: u64, text: &str, signature: &str, raw: Option<RawJson>) {
        let block = Block::Thinking { text: text.to_owned(), signature: signature.to_owned(), raw };
        self.list.push((index, block));
    }

    pub(super) fn start_tool(&mut self, index: u64, id: &str, name: &str, given: &str, out: &mut Vec<Delta>) {
        let (id, name, given) = (id.to_owned(), name.to_owned(), given.to_owned());
        self.text.start_call(&name, out);
        self.list.push((index, Block::Tool { id, name, given, streamed: String::new() }));
    }

    pub(super) fn opaque(&mut self, index: u64, raw: RawJson) {
        self.list.push((index, Block::Opaque(raw)));
    }

    pub(super) fn text(&mut self, index: u64, piece: &str, out: &mut Vec<Delta>) {
        if !matches!(self.block(index), Some(Block::Text(_))) {
            return self.start_text(index, piece, out);
        }
        if let Some(Block::Text(text)) = self.block(index) {
            text.push_str(piece);
        }
        self.text.push(piece, out);
    }

    pub(super) fn thinking(&mut self, index: u64, piece: &str, out: &mut Vec<Delta>) {
        match self.block(index) {
            Some(Block::Thinking { text, .. }) => text.push_str(piece),
            _ => self.start_thinking(index, piece, "", None),
        }
        if !piece.is_empty() {
            out.push(Delta::Reasoning(piece.to_owned()));
        }
    }

    pub(super) fn signature(&mut self, index: u64, piece: &str) {
        match self.block(index) {
            Some(Block::Thinking { signature, .. }) => signature.push_str(piece),
            _ => self.start_thinking(index, "", piece, None),
        }
    }

    pub(super) fn arguments(&mut self, index: u64, piece: &str) {
        if let Some(Block::Tool { streamed, .. }) = self.block(index) {
            streamed.push_str(piece);
        }
    }

    fn block(&mut self, index: u64) -> Option<&mut Block> {
        self.list.iter_mut().rev().find(|(at, _)| *at == index).map(|(_, block)| block)
    }

    pub(super) fn finish(
        mut self,
        arguments: EmptyArguments,
        render: fn(&str, &str) -> RawJson,
        out: &mut Vec<Delta>,
    ) -> AssembledBlocks {
        self.text.flush(out);
        let is_empty = self.list.is_empty();
        let (mut texts, mut thoughts) = (Vec::new(), Vec::new());
        let (mut calls, mut names, mut thinking): (Vec<ToolCall>, Vec<String>, Vec<RawJson>) =
            Default::default();
        for (_, block) in self.list {
            match block {
                Block::Text(text) => texts.push(text),
                Block::Opaque(raw) => thinking.push(raw),
                Block::Thinking { text, signature, raw } => {
                    thinking.push(raw.unwrap_or_else(|| render(&text, &signature)));
                    if !text.is_empty() {
                        thoughts.push(text);
                    }
                }
                Block::Tool { id, name, given, streamed } => {
                    let text = if streamed.is_empty() { given } else { streamed };
                    let taken = calls.iter().any(|call: &ToolCall| call.id.as_str() == id);
                    let id = (!id.is_empty() && !taken).then_some(id.as_str());
                    names.push(name.clone());
                    calls.push(ToolCall::new(id, name, arguments.resolve(text)));
                }
            }
        }
        let texts: Vec<String> = texts.into_iter().filter(|text| !text.is_empty()).collect();
        let message = message(texts.join("\n"), Some(thoughts.join("\n\n")));
        AssembledBlocks {
            message,
            has_broken_calls: has_invalid_arguments(&calls),
            calls,
            names,
            thinking,
            is_empty,
        }
    }
}
