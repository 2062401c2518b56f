//! The source tree: the nodes of a text with their positions.

use std::ops::Range;

/// The style of a scalar.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum YamlScalarStyle {
    /// Nothing was written; YAML supplies a null.
    Empty,
    Plain,
    Quoted,
    /// A block scalar, `|` or `>`; the node holds the byte range of its header (indicator with digits and signs).
    Block,
}

/// The style of a collection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CollectionStyle {
    /// One entry per line, starting at this column.
    Block { column: usize },
    /// Entries between braces or brackets.
    Flow,
    /// The one-pair mapping `[a: 1]`, which has no delimiters of its own.
    Pair,
}

/// A node with the bytes it occupies, properties (`&anchor`, `!tag`) included.
#[derive(Debug, Clone)]
pub(super) struct YamlNode {
    /// The byte range; for [`YamlScalarStyle::Empty`] without properties, the empty range where a value would be
    /// written.
    pub(super) span: Range<usize>,
    pub(super) anchor: Option<usize>,
    pub(super) tag: Option<String>,
    pub(super) content: NodeContent,
    pub(super) line: usize,
    pub(super) column: usize,
}

#[derive(Debug, Clone)]
pub(super) enum NodeContent {
    Scalar {
        text: String,
        style: YamlScalarStyle,
        /// The header `|-` of a block scalar; empty otherwise.
        header: Range<usize>,
    },
    Alias(usize),
    Seq {
        form: CollectionStyle,
        items: Vec<SequenceItem>,
    },
    Map {
        form: CollectionStyle,
        pairs: Vec<MappingPair>,
    },
}

/// A list entry and, in block style, the position of its dash.
#[derive(Debug, Clone)]
pub(super) struct SequenceItem {
    pub(super) dash: Option<usize>,
    pub(super) node: YamlNode,
}

/// A mapping entry and the position of its colon, when it has one that was found.
#[derive(Debug, Clone)]
pub(super) struct MappingPair {
    pub(super) key: YamlNode,
    pub(super) colon: Option<usize>,
    pub(super) value: YamlNode,
}

impl MappingPair {
    /// Returns the position of the first byte of the entry.
    pub(super) fn start(&self) -> usize {
        self.key.span.start
    }

    /// Returns the position after the last byte of the entry.
    pub(super) fn end(&self) -> usize {
        let behind_colon = self.colon.map_or(self.key.span.end, |colon| colon + 1);
        self.value.span.end.max(behind_colon)
    }
}

impl SequenceItem {
    pub(super) fn end(&self) -> usize {
        self.node.span.end.max(self.dash.map_or(0, |dash| dash + 1))
    }
}

impl YamlNode {
    /// Returns the text when this node is a scalar.
    pub(super) fn scalar_text(&self) -> Option<&str> {
        match &self.content {
            NodeContent::Scalar { text, .. } => Some(text),
            _ => None,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        matches!(self.content, NodeContent::Scalar { style: YamlScalarStyle::Empty, .. })
    }
}

/// A text with its tree; `root` is absent when the text holds no document.
#[derive(Debug)]
pub(super) struct YamlDocument<'text> {
    pub(super) text: &'text str,
    pub(super) root: Option<YamlNode>,
    /// The position where the document's content may begin: after a byte-order mark, directives and `---`.
    pub(super) body: usize,
}
