//! Server-sent events from chunks of bytes.
//!
//! Holds framing only: the caller interprets the data of an event and reconnects (`retry:` is ignored). The events
//! depend on the bytes alone, never on how they were split into chunks. Memory is bounded by the limit given at the
//! start plus the current chunk.

use std::collections::VecDeque;

use thiserror::Error;

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// One event. Bytes that are not UTF-8 have become U+FFFD.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SseEvent {
    /// The value of the `event:` field; empty when there was none.
    pub event: String,
    /// The `data:` lines, joined by line feeds.
    pub data: String,
    /// The last `id:` seen in the stream so far.
    pub id: Option<String>,
}

/// The error for an event that, with the current line, exceeds the limit. The stream cannot be read any further.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("the server sent an event of more than {limit} bytes")]
pub struct SseTooLarge {
    pub limit: usize,
}

/// Parses a stream: `push` the bytes as they arrive, take events until there are none, `finish` at the end.
#[derive(Debug)]
pub struct SseParser {
    limit: usize,
    ready: VecDeque<SseEvent>,
    /// The line that has begun but not ended.
    line: Vec<u8>,
    /// Set after a line that ended with CR; an LF right after it belongs to the same line end.
    after_cr: bool,
    at_start: bool,
    event: String,
    data: Option<String>,
    id: Option<String>,
    failed: bool,
}

impl SseParser {
    /// Creates a parser; `limit` is in bytes, for one event.
    pub fn new(limit: usize) -> Self {
        Self {
            limit,
            ready: VecDeque::new(),
            line: Vec::new(),
            after_cr: false,
            at_start: true,
            event: String::new(),
            data: None,
            id: None,
            failed: false,
        }
    }

    /// Parses the next chunk. Events that ended before one that is too large can still be taken.
    pub fn push(&mut self, mut bytes: &[u8]) -> Result<(), SseTooLarge> {
        if self.failed {
            return Err(SseTooLarge { limit: self.limit });
        }
        loop {
            if self.after_cr && !bytes.is_empty() {
                self.after_cr = false;
                bytes = bytes.strip_prefix(b"\n").unwrap_or(bytes);
            }
            let Some(end) = bytes.iter().position(|byte| matches!(byte, b'\n' | b'\r')) else {
                self.check_size(self.line.len() + bytes.len())?;
                self.line.extend_from_slice(bytes);
                return Ok(());
            };
            let (piece, rest) = bytes.split_at(end);
            self.check_size(self.line.len() + piece.len())?;
            if self.line.is_empty() {
                self.read_line(piece);
            } else {
                let mut line = std::mem::take(&mut self.line);
                line.extend_from_slice(piece);
                self.read_line(&line);
                line.clear();
                self.line = line;
            }
            self.after_cr = rest.first() == Some(&b'\r');
            bytes = rest.get(1..).unwrap_or_default();
        }
    }

    pub fn next_event(&mut self) -> Option<SseEvent> {
        self.ready.pop_front()
    }

    /// Ends the stream. An event whose blank line is missing counts as complete: some servers omit it.
    pub fn finish(&mut self) {
        if self.failed {
            return;
        }
        let line = std::mem::take(&mut self.line);
        if !line.is_empty() {
            self.read_line(&line);
        }
        self.dispatch();
    }

    fn check_size(&mut self, line: usize) -> Result<(), SseTooLarge> {
        let held = self.data.as_ref().map_or(0, String::len) + self.event.len();
        if held + line <= self.limit {
            return Ok(());
        }
        self.failed = true;
        self.line = Vec::new();
        self.data = None;
        Err(SseTooLarge { limit: self.limit })
    }

    fn read_line(&mut self, line: &[u8]) {
        let line = if std::mem::take(&mut self.at_start) {
            line.strip_prefix(BYTE_ORDER_MARK).unwrap_or(line)
        } else {
            line
        };
        if line.is_empty() {
            self.dispatch();
            return;
        }
        // A line end is never part of a longer UTF-8 sequence, so a whole line can be decoded by itself.
        let text = String::from_utf8_lossy(line);
        let (field, value) = text.split_once(':').unwrap_or((&text, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "data" => match &mut self.data {
                Some(data) => {
                    data.push('\n');
                    data.push_str(value);
                }
                None => self.data = Some(value.to_owned()),
            },
            "event" => value.clone_into(&mut self.event),
            "id" if !value.contains('\0') => self.id = Some(value.to_owned()),
            // Comments (an empty field name), `retry`, and undefined fields.
            _ => {}
        }
    }

    fn dispatch(&mut self) {
        let event = std::mem::take(&mut self.event);
        if let Some(data) = self.data.take() {
            self.ready.push_back(SseEvent { event, data, id: self.id.clone() });
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    type Read = (Vec<SseEvent>, Result<(), SseTooLarge>);

    fn read<'a>(pieces: impl IntoIterator<Item = &'a [u8]>, limit: usize) -> Read {
        let mut parser = SseParser::new(limit);
        let outcome = pieces.into_iter().try_for_each(|piece| parser.push(piece));
        parser.finish();
        (std::iter::from_fn(|| parser.next_event()).collect(), outcome)
    }

    #[track_caller]
    fn check(stream: &[u8], expected: &[(&str, &str, Option<&str>)]) {
        let (events, outcome) = read([stream], 1000);
        outcome.unwrap();
        let events: Vec<_> =
            events.iter().map(|e| (e.event.as_str(), e.data.as_str(), e.id.as_deref())).collect();
        assert_eq!(events, expected);
    }

    #[test]
    fn frames_events() {
        check(b"", &[]);
        check(b"data: a\n\ndata:b\n\n", &[("", "a", None), ("", "b", None)]);
        check(b"event: ping\ndata: {}\n\n", &[("ping", "{}", None)]);
        check(b"data: a\r\n\r\ndata: b\r\rdata: c\n\n", &[("", "a", None), ("", "b", None), ("", "c", None)]);
        check(b"data: a\ndata:\ndata:  b\n\n", &[("", "a\n\n b", None)]);
        check(b": comment\n:\nretry: 5\nnonsense\nnonsense: x\ndata: a\n\n", &[("", "a", None)]);
        check(b"data\n\n", &[("", "", None)]);
    }

    #[test]
    fn ids_stay_and_event_names_do_not() {
        check(
            b"id: 1\nevent: x\ndata: a\n\ndata: b\n\nid: 2\0\ndata: c\n\nid\ndata: d\n\n",
            &[("x", "a", Some("1")), ("", "b", Some("1")), ("", "c", Some("1")), ("", "d", Some(""))],
        );
        check(b"event: lost\n\ndata: a\n\n", &[("", "a", None)]);
    }

    #[test]
    fn the_end_completes_an_event() {
        check(b"data: a\n", &[("", "a", None)]);
        check(b"data: a", &[("", "a", None)]);
        check(b"data: a\r", &[("", "a", None)]);
        check(b"event: x", &[]);
    }

    #[test]
    fn foreign_bytes_are_replaced_and_the_mark_is_dropped() {
        check(b"\xef\xbb\xbfdata: a\n\n\xef\xbb\xbfdata: b\n\n", &[("", "a", None)]);
        check(
            b"data: \xff\xc3\n\ndata: \xe6\x97\xa5\n\n",
            &[("", "\u{fffd}\u{fffd}", None), ("", "日", None)],
        );
    }

    #[test]
    fn an_event_is_bounded_and_earlier_ones_survive() {
        let (events, outcome) = read([&b"data: ok\n\ndata: 12345\ndata: 67890\n\n"[..]], 12);
        assert_eq!(events.len(), 1);
        assert_eq!(outcome, Err(SseTooLarge { limit: 12 }));
        let (_, outcome) = read([&b"data: 12345"[..], b"67"], 12);
        assert_eq!(outcome, Err(SseTooLarge { limit: 12 }));
    }

    fn stream() -> impl Strategy<Value = Vec<u8>> {
        let token = prop_oneof![
            Just(&b"data: "[..]),
            Just(&b"data:"[..]),
            Just(&b"event: x"[..]),
            Just(&b"id: 7"[..]),
            Just(&b":"[..]),
            Just(&b"\n"[..]),
            Just(&b"\r"[..]),
            Just(&b"\r\n"[..]),
            Just(&b"\n\n"[..]),
            Just("日本".as_bytes()),
            Just(&b"\xef\xbb\xbf"[..]),
            Just(&b"\xff"[..]),
            Just(&b"0123456789"[..]),
        ];
        prop_oneof![
            prop::collection::vec(token, 0..40).prop_map(|tokens| tokens.concat()),
            prop::collection::vec(any::<u8>(), 0..200),
        ]
    }

    proptest! {
        #[test]
        fn any_split_gives_the_same(bytes in stream(), sizes in prop::collection::vec(1_usize..9, 1..12), limit in 1_usize..60) {
            let mut pieces = Vec::new();
            let mut rest = bytes.as_slice();
            for size in sizes.iter().cycle() {
                if rest.is_empty() { break; }
                let (piece, after) = rest.split_at((*size).min(rest.len()));
                pieces.push(piece);
                rest = after;
            }
            prop_assert_eq!(read(pieces, limit), read([bytes.as_slice()], limit));
        }
    }
}
