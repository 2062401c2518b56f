//! Removes an entry from a mapping or list.

use std::ops::Range;

use super::insert::behind_blank_lines;
use super::locate::{NodePosition, last_step};
use super::replace::one_line;
use super::splice::{EditPlan, delete, line_start, next_line, starts_line};
use crate::yaml::node::{CollectionStyle, MappingPair, NodeContent, SequenceItem, YamlDocument, YamlNode};

pub(super) fn plans(document: &YamlDocument<'_>, root: &YamlNode, path: &[String]) -> Vec<EditPlan> {
    let Some((last, parents)) = path.split_last() else {
        return Vec::new();
    };
    let mut node = root;
    let mut place = NodePosition::Root;
    for segment in parents {
        let Some((child, step)) = last_step(node, segment) else {
            return Vec::new();
        };
        node = child;
        place = step;
    }
    let text = document.text;
    let (form, spans, chosen) = match &node.content {
        NodeContent::Map { form, pairs } => {
            let chosen: Vec<usize> = (0..pairs.len())
                .filter(|index| pairs.get(*index).and_then(|pair| pair.key.scalar_text()) == Some(last))
                .collect();
            (*form, pairs.iter().map(pair_span).collect::<Vec<_>>(), chosen)
        }
        NodeContent::Seq { form, items } => {
            let index = last.parse::<usize>().ok().filter(|index| *index < items.len());
            (*form, items.iter().map(item_span).collect::<Vec<_>>(), index.into_iter().collect())
        }
        _ => return Vec::new(),
    };
    if chosen.is_empty() {
        return Vec::new();
    }
    if chosen.len() == spans.len() {
        return vec![emptied(text, node, place, form, &spans)];
    }
    [RemovalExtent::AsBefore, RemovalExtent::LastBreakKept, RemovalExtent::BlankLinesToo]
        .into_iter()
        .map(|tail| {
            chosen
                .iter()
                .filter_map(|index| entry_range(text, form, &spans, *index, tail))
                .map(delete)
                .collect()
        })
        .collect()
}

/// The extent of a removal. A block scalar above the entry may absorb the remaining lines, so there are
/// alternatives to the tidiest removal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RemovalExtent {
    /// A file without a final line break still has none.
    AsBefore,
    /// The line break before the entry is kept, even at the end of such a file.
    LastBreakKept,
    /// Blank lines below the entry are removed as well.
    BlankLinesToo,
}

fn pair_span(pair: &MappingPair) -> Range<usize> {
    pair.start()..pair.end()
}

fn item_span(item: &SequenceItem) -> Range<usize> {
    item.dash.unwrap_or(item.node.span.start)..item.end()
}

/// Plans the removal of a collection's last remaining entry.
fn emptied(
    text: &str,
    node: &YamlNode,
    place: NodePosition<'_>,
    form: CollectionStyle,
    spans: &[Range<usize>],
) -> EditPlan {
    let whole = spans.first().map_or(0, |span| span.start)..spans.last().map_or(0, |span| span.end);
    if form == CollectionStyle::Flow {
        return vec![delete(whole)];
    }
    if matches!(place, NodePosition::Root) {
        return vec![delete(line_start(text, whole.start)..next_line(text, whole.end))];
    }
    let empty = if matches!(node.content, NodeContent::Map { .. }) { "{}" } else { "[]" };
    one_line(text, node, place, empty)
}

/// Returns the bytes of one of several entries, with the separator that belongs to it.
fn entry_range(
    text: &str,
    form: CollectionStyle,
    spans: &[Range<usize>],
    index: usize,
    tail: RemovalExtent,
) -> Option<Range<usize>> {
    let span = spans.get(index)?;
    let following = spans.get(index + 1).map(|next| next.start);
    if form == CollectionStyle::Flow {
        return match following {
            Some(next) => Some(span.start..next),
            None => Some(spans.get(index.checked_sub(1)?)?.end..span.end),
        };
    }
    if !starts_line(text, span.start) {
        // The first entry of a mapping that begins after a dash is replaced by the second.
        return following.map(|next| span.start..next);
    }
    let start = line_start(text, span.start);
    let end = match tail {
        RemovalExtent::BlankLinesToo => behind_blank_lines(text, span.end),
        _ => next_line(text, span.end),
    };
    if end == text.len() && !text.ends_with('\n') && tail == RemovalExtent::AsBefore {
        let before = text.get(..start).unwrap_or_default();
        let cut = before.strip_suffix('\n').map_or(before, |rest| rest.strip_suffix('\r').unwrap_or(rest));
        return Some(cut.len()..end);
    }
    Some(start..end)
}
