//! Builds the source tree from parser events with positions.
//!
//! The events give the extent of tokens but not of punctuation; colons, dashes and block-scalar headers are found
//! by scanning forward over blanks and comments from a known position.

use std::ops::Range;

use saphyr_parser::{Event, Parser, ScalarStyle, Span, StrInput};

use super::YamlError;
use super::node::{
    CollectionStyle, MappingPair, NodeContent, SequenceItem, YamlDocument, YamlNode, YamlScalarStyle,
};

/// The maximum nesting depth: no settings file needs more, and later passes recurse.
const MAX_DEPTH: usize = 100;
/// The maximum size of a settings file; a larger one is a mistake.
const MAX_BYTES: usize = 8 * 1024 * 1024;

pub(super) fn compose(text: &str) -> Result<YamlDocument<'_>, YamlError> {
    if text.len() > MAX_BYTES {
        return Err(YamlError {
            line: 1,
            column: 1,
            problem: format!("the file is larger than {MAX_BYTES} bytes"),
        });
    }
    Composer { text, offsets: Offsets::new(text), parser: Parser::new_from_str(text) }.document()
}

/// Maps character indices to byte offsets; empty for pure ASCII, where they are equal.
struct Offsets(Vec<usize>, usize);

impl Offsets {
    fn new(text: &str) -> Self {
        if text.is_ascii() {
            return Self(Vec::new(), text.len());
        }
        Self(text.char_indices().map(|(at, _)| at).collect(), text.len())
    }

    fn byte(&self, index: usize) -> usize {
        if self.0.is_empty() { index.min(self.1) } else { self.0.get(index).copied().unwrap_or(self.1) }
    }
}

struct Composer<'text> {
    text: &'text str,
    offsets: Offsets,
    parser: Parser<'text, StrInput<'text>>,
}

impl<'text> Composer<'text> {
    fn next(&mut self) -> Result<(Event<'text>, Span), YamlError> {
        match self.parser.next_event() {
            Some(Ok(event)) => Ok(event),
            Some(Err(error)) => Err(YamlError {
                line: error.marker().line(),
                column: error.marker().col() + 1,
                problem: error.info().to_owned(),
            }),
            None => Ok((Event::StreamEnd, Span::default())),
        }
    }

    fn document(mut self) -> Result<YamlDocument<'text>, YamlError> {
        let mut body = if self.text.starts_with('\u{feff}') { '\u{feff}'.len_utf8() } else { 0 };
        let mut root = None;
        loop {
            let (event, span) = self.next()?;
            match event {
                Event::StreamEnd => return Ok(YamlDocument { text: self.text, root, body }),
                Event::DocumentStart(explicit) => {
                    if root.is_some() {
                        return Err(fail(span, "a second document begins; the file must hold one"));
                    }
                    if explicit {
                        body = self.offsets.byte(span.end.index());
                    }
                }
                Event::StreamStart | Event::DocumentEnd | Event::Nothing => {}
                event => {
                    let context = Context { from: body, column: None, depth: 0, flow: false };
                    root = Some(self.node(event, span, context)?);
                }
            }
        }
    }

    fn node(&mut self, event: Event<'text>, span: Span, context: Context) -> Result<YamlNode, YamlError> {
        if context.depth > MAX_DEPTH {
            return Err(fail(span, "nested too deeply"));
        }
        let bytes = self.offsets.byte(span.start.index())..self.offsets.byte(span.end.index());
        let (anchor, tag) = match &event {
            Event::Scalar(_, _, anchor, tag)
            | Event::SequenceStart(anchor, tag)
            | Event::MappingStart(anchor, tag) => {
                (*anchor, tag.as_ref().map(|tag| format!("{}{}", tag.handle, tag.suffix)))
            }
            _ => (0, None),
        };
        let mut node = YamlNode {
            span: bytes.clone(),
            anchor: (anchor > 0).then_some(anchor),
            tag,
            content: NodeContent::Alias(0),
            line: span.start.line(),
            column: span.start.col() + 1,
        };
        match event {
            Event::Alias(target) => node.content = NodeContent::Alias(target),
            Event::Scalar(text, style, ..) => self.scalar(&mut node, text.into_owned(), style, &context),
            Event::SequenceStart(..) => self.sequence(&mut node, &bytes, &context)?,
            Event::MappingStart(..) => self.mapping(&mut node, &bytes, &context)?,
            _ => return Err(fail(span, "unexpected end of the document")),
        }
        Ok(node)
    }

    fn scalar(&self, node: &mut YamlNode, mut text: String, style: ScalarStyle, context: &Context) {
        let has_properties = node.anchor.is_some() || node.tag.is_some();
        let mut header = 0..0;
        let style = match style {
            ScalarStyle::Plain if text.is_empty() => {
                // The reported position of a missing value varies; a value can be written right after its
                // punctuation.
                let start = if has_properties { skip_trivia(self.text, context.from) } else { context.from };
                node.span = start..if has_properties { skip_properties(self.text, start) } else { start };
                YamlScalarStyle::Empty
            }
            ScalarStyle::Plain => YamlScalarStyle::Plain,
            ScalarStyle::SingleQuoted | ScalarStyle::DoubleQuoted => {
                // The reported end may lie after a trailing comment, so the closing quote is searched for.
                let open = skip_trivia(self.text, skip_properties(self.text, node.span.start));
                node.span.end = quoted_end(self.text, open);
                YamlScalarStyle::Quoted
            }
            ScalarStyle::Literal | ScalarStyle::Folded => {
                let start = skip_trivia(self.text, context.from);
                let at = skip_trivia(self.text, skip_properties(self.text, start));
                let length = bytes_while(self.text, at, |b| b"|>+-0123456789".contains(&b));
                header = at..at + length;
                let end = block_scalar_end(self.text, header.end, context.column);
                // A file without a final line break has none that the scalar could keep.
                if end == self.text.len() && text.ends_with('\n') && header.end < end {
                    text.pop();
                }
                node.span = start..end.max(header.end);
                YamlScalarStyle::Block
            }
        };
        node.content = NodeContent::Scalar { text, style, header };
    }

    fn sequence(
        &mut self,
        node: &mut YamlNode,
        bytes: &Range<usize>,
        context: &Context,
    ) -> Result<(), YamlError> {
        let flow = byte_at(self.text, bytes.end.wrapping_sub(1)) == Some(b'[') && !bytes.is_empty();
        let start = skip_trivia(self.text, context.from);
        let mut cursor =
            if flow { bytes.end } else { skip_trivia(self.text, skip_properties(self.text, start)) };
        let column = if flow { context.column.unwrap_or(0) } else { column_of(self.text, cursor) };
        let mut items: Vec<SequenceItem> = Vec::new();
        loop {
            let (event, span) = self.next()?;
            if matches!(event, Event::SequenceEnd) {
                if flow {
                    node.span.end = self.offsets.byte(span.start.index()) + 1;
                }
                break;
            }
            let dash = if flow {
                None
            } else {
                cursor = skip_trivia(self.text, cursor);
                (byte_at(self.text, cursor) == Some(b'-')).then_some(cursor)
            };
            let from = dash.map_or(cursor, |dash| dash + 1);
            let context = Context {
                from: if flow { self.flow_item_start(cursor) } else { from },
                column: Some(column),
                depth: context.depth + 1,
                flow: context.flow || flow,
            };
            let item = SequenceItem { dash, node: self.node(event, span, context)? };
            cursor = item.end().max(from);
            items.push(item);
        }
        if !flow {
            node.span = start..items.last().map_or(start, SequenceItem::end);
        }
        let form = if flow { CollectionStyle::Flow } else { CollectionStyle::Block { column } };
        node.content = NodeContent::Seq { form, items };
        Ok(())
    }

    fn mapping(
        &mut self,
        node: &mut YamlNode,
        bytes: &Range<usize>,
        context: &Context,
    ) -> Result<(), YamlError> {
        let flow = !bytes.is_empty() && byte_at(self.text, bytes.end.wrapping_sub(1)) == Some(b'{');
        let form = if flow {
            CollectionStyle::Flow
        } else if context.flow {
            CollectionStyle::Pair
        } else {
            CollectionStyle::Block { column: column_of(self.text, bytes.end) }
        };
        let column = match form {
            CollectionStyle::Block { column } => Some(column),
            _ => context.column,
        };
        let mut cursor = bytes.end;
        let mut pairs: Vec<MappingPair> = Vec::new();
        loop {
            let (event, span) = self.next()?;
            if matches!(event, Event::MappingEnd) {
                if flow {
                    node.span.end = self.offsets.byte(span.start.index()) + 1;
                }
                break;
            }
            let inner =
                Context { from: cursor, column, depth: context.depth + 1, flow: context.flow || flow };
            let key_from = if flow { self.flow_item_start(cursor) } else { cursor };
            let key = self.node(event, span, Context { from: key_from, ..inner })?;
            let colon = skip_trivia(self.text, key.span.end);
            let colon = (byte_at(self.text, colon) == Some(b':')).then_some(colon);
            let (event, span) = self.next()?;
            let from = colon.map_or(key.span.end, |colon| colon + 1);
            let value = self.node(event, span, Context { from, ..inner })?;
            let pair = MappingPair { key, colon, value };
            cursor = pair.end();
            pairs.push(pair);
        }
        if !flow && let (Some(first), Some(last)) = (pairs.first(), pairs.last()) {
            node.span = bytes.start.min(first.start())..last.end();
        }
        node.content = NodeContent::Map { form, pairs };
        Ok(())
    }

    /// Returns the position after the comma that separates flow entries.
    fn flow_item_start(&self, cursor: usize) -> usize {
        let at = skip_trivia(self.text, cursor);
        if byte_at(self.text, at) == Some(b',') { at + 1 } else { cursor }
    }
}

/// The context of a node that helps to find its parts.
#[derive(Clone, Copy)]
struct Context {
    /// The position where the search for the node may begin: right after the punctuation that introduces it.
    from: usize,
    /// The column of the enclosing block collection; lines of a block scalar are indented further.
    column: Option<usize>,
    depth: usize,
    flow: bool,
}

fn fail(span: Span, problem: &str) -> YamlError {
    YamlError { line: span.start.line(), column: span.start.col() + 1, problem: problem.to_owned() }
}

pub(super) fn byte_at(text: &str, at: usize) -> Option<u8> {
    text.as_bytes().get(at).copied()
}

fn bytes_while(text: &str, from: usize, accept: impl Fn(u8) -> bool) -> usize {
    text.as_bytes().get(from..).unwrap_or_default().iter().take_while(|b| accept(**b)).count()
}

/// Skips blanks, line breaks and comments.
pub(super) fn skip_trivia(text: &str, from: usize) -> usize {
    let mut at = from;
    loop {
        match byte_at(text, at) {
            Some(b' ' | b'\t' | b'\r' | b'\n') => at += 1,
            Some(b'#') if at == 0 || matches!(byte_at(text, at - 1), Some(b' ' | b'\t' | b'\r' | b'\n')) => {
                at += bytes_while(text, at, |b| b != b'\n');
            }
            _ => return at,
        }
    }
}

/// Skips `&anchor` and `!tag` tokens and the blanks between them; returns the position right after the last one.
fn skip_properties(text: &str, from: usize) -> usize {
    let mut end = from;
    let mut at = from;
    while matches!(byte_at(text, at), Some(b'&' | b'!')) {
        end = at + bytes_while(text, at, |b| !b" \t\r\n,[]{}".contains(&b));
        at = skip_trivia(text, end);
    }
    end
}

/// Returns the position after the closing quote of the quoted scalar that opens at `open`.
fn quoted_end(text: &str, open: usize) -> usize {
    let quote = byte_at(text, open);
    let mut at = open + 1;
    while let Some(byte) = byte_at(text, at) {
        at += 1;
        if byte == b'\\' && quote == Some(b'"') {
            at += 1;
        } else if Some(byte) == quote {
            if quote == Some(b'\'') && byte_at(text, at) == quote {
                at += 1;
            } else {
                return at;
            }
        }
    }
    at.min(text.len())
}

/// Returns the number of characters between the start of the line and `at`.
pub(super) fn column_of(text: &str, at: usize) -> usize {
    let before = text.get(..at).unwrap_or_default();
    before.chars().rev().take_while(|c| *c != '\n').filter(|c| *c != '\u{feff}').count()
}

/// Returns the position after the last written character of a block scalar: it covers the following lines that are
/// indented deeper than the enclosing collection, without trailing blank lines.
fn block_scalar_end(text: &str, header_end: usize, parent: Option<usize>) -> usize {
    let least = parent.map_or(0, |column| column + 1);
    let mut end = header_end + bytes_while(text, header_end, |b| b != b'\n');
    let mut at = end;
    let mut last = header_end;
    while byte_at(text, at) == Some(b'\n') {
        let line = at + 1;
        end = line + bytes_while(text, line, |b| b != b'\n');
        let content = text.get(line..end).unwrap_or_default().trim_end_matches('\r');
        let blanks = bytes_while(content, 0, |b| b == b' ');
        if blanks < content.len() {
            if blanks < least || (least == 0 && (content.starts_with("---") || content.starts_with("..."))) {
                break;
            }
            last = line + content.len();
        }
        at = end;
    }
    last
}
