//! Encodes server-sent events, with the line format a reply asks for.

use serde_json::Value;

use super::ResponsePiece;
use crate::script::{Quirk, ScriptedReply, ScriptedSseEvent};

#[derive(Debug)]
pub(crate) struct SseWriter {
    pieces: Vec<ResponsePiece>,
    newline: &'static str,
    colon: &'static str,
    names: bool,
    final_blank: bool,
}

impl SseWriter {
    pub(crate) fn new(reply: &ScriptedReply) -> Self {
        Self {
            pieces: Vec::new(),
            newline: if reply.has(Quirk::Crlf) { "\r\n" } else { "\n" },
            colon: if reply.has(Quirk::NoSpace) { ":" } else { ": " },
            names: !reply.has(Quirk::NoEventName),
            final_blank: !reply.has(Quirk::NoFinalBlank),
        }
    }

    /// Adds an event with JSON as its data.
    pub(crate) fn json(&mut self, name: Option<&str>, data: &Value) {
        self.data(name, &data.to_string());
    }

    pub(crate) fn data(&mut self, name: Option<&str>, data: &str) {
        let name = name.filter(|_| self.names).map(str::to_owned);
        self.scripted(&ScriptedSseEvent { event: name, data: data.to_owned(), id: None, retry: None });
    }

    /// Adds an event in which the TCP stream is split at `offsets` of the JSON string `text`.
    pub(crate) fn json_cut_inside(
        &mut self,
        name: Option<&str>,
        data: &Value,
        text: &str,
        offsets: &[usize],
    ) {
        self.json(name, data);
        if offsets.is_empty() {
            return;
        }
        let Some(ResponsePiece::Bytes(bytes)) = self.pieces.pop() else {
            return;
        };
        let mut cuts: Vec<usize> =
            offsets.iter().filter_map(|offset| find_offset(&bytes, text, *offset)).collect();
        cuts.push(bytes.len());
        let mut from = 0;
        for cut in cuts {
            let part: Vec<u8> = bytes.iter().take(cut).skip(from).copied().collect();
            from = cut;
            self.pieces.extend([ResponsePiece::Bytes(part), ResponsePiece::Flush]);
        }
    }

    pub(crate) fn scripted(&mut self, event: &ScriptedSseEvent) {
        let mut text = String::new();
        let mut line = |name: &str, value: &str| {
            text.push_str(name);
            text.push_str(self.colon);
            text.push_str(value);
            text.push_str(self.newline);
        };
        if let Some(name) = &event.event {
            line("event", name);
        }
        if let Some(id) = &event.id {
            line("id", id);
        }
        if let Some(retry) = event.retry {
            line("retry", &retry.to_string());
        }
        for part in event.data.split('\n') {
            line("data", part);
        }
        text.push_str(self.newline);
        self.pieces.push(ResponsePiece::Bytes(text.into_bytes()));
    }

    pub(crate) fn comment(&mut self, text: &str) {
        let newline = self.newline;
        self.pieces.push(ResponsePiece::Bytes(format!(": {text}{newline}{newline}").into_bytes()));
    }

    pub(crate) fn piece(&mut self, piece: &ResponsePiece) {
        self.pieces.push(match piece {
            ResponsePiece::Bytes(bytes) => ResponsePiece::Bytes(bytes.clone()),
            ResponsePiece::Flush => ResponsePiece::Flush,
            ResponsePiece::Delay(span) => ResponsePiece::Delay(*span),
            ResponsePiece::Wait(gate) => ResponsePiece::Wait(gate.clone()),
            ResponsePiece::Cut(how) => ResponsePiece::Cut(*how),
        });
    }

    pub(crate) fn finish(mut self) -> Vec<ResponsePiece> {
        if !self.final_blank
            && let Some(ResponsePiece::Bytes(bytes)) = self.pieces.last_mut()
            && bytes.ends_with(self.newline.as_bytes())
        {
            bytes.truncate(bytes.len() - self.newline.len());
        }
        self.pieces
    }
}

/// Returns where byte `offset` of `text`, which lies inside a character, is after JSON escaping.
fn find_offset(bytes: &[u8], text: &str, offset: usize) -> Option<usize> {
    let escaped = Value::from(text).to_string();
    let start = bytes.windows(escaped.len()).rposition(|window| window == escaped.as_bytes())?;
    let boundary = text.floor_char_boundary(offset);
    let before = Value::from(text.get(..boundary)?).to_string();
    // Both quotes are in `before`; only the opening one is before the offset.
    Some(start + before.len() - 1 + (offset - boundary))
}
