//! Replaces the value of an existing node.

use super::locate::{NodePosition, NodeReplacement};
use super::splice::{
    EditPlan, Splice, delete, insert, join, line_break, line_end, line_start, replace, starts_line,
};
use crate::yaml::YamlValue;
use crate::yaml::emit::{IndentStyle, child_indent, emit_inline, is_one_line, push_lines};
use crate::yaml::node::{CollectionStyle, NodeContent, YamlDocument, YamlNode, YamlScalarStyle};

pub(super) fn plans(document: &YamlDocument<'_>, spot: &NodeReplacement<'_>) -> Vec<EditPlan> {
    let NodeReplacement { node, place, value } = spot;
    let text = document.text;
    let indent = indent_of(document);
    if is_flow_place(*place) {
        return vec![vec![in_flow(node, *place, value)]];
    }
    if is_flow_collection(node) || is_one_line(value) {
        return vec![one_line(text, node, *place, &emit_inline(value))];
    }
    // The block form is the most readable; one line is always possible.
    vec![block(text, node, *place, value, indent), one_line(text, node, *place, &emit_inline(value))]
}

pub(super) fn is_flow_place(place: NodePosition<'_>) -> bool {
    matches!(
        place,
        NodePosition::Value { form: CollectionStyle::Flow | CollectionStyle::Pair, .. }
            | NodePosition::Item { form: CollectionStyle::Flow | CollectionStyle::Pair, .. }
    )
}

fn is_flow_collection(node: &YamlNode) -> bool {
    matches!(
        &node.content,
        NodeContent::Seq { form: CollectionStyle::Flow, .. }
            | NodeContent::Map { form: CollectionStyle::Flow, .. }
    )
}

fn in_flow(node: &YamlNode, place: NodePosition<'_>, value: &YamlValue) -> Splice {
    let new = emit_inline(value);
    if node.is_empty() && node.span.is_empty() {
        let lead = if matches!(place, NodePosition::Value { pair, .. } if pair.colon.is_none()) {
            ": "
        } else {
            " "
        };
        return insert(node.span.start, format!("{lead}{new}"));
    }
    replace(node.span.clone(), new)
}

/// Returns the position right after the colon or dash that introduces the node.
fn lead_end(place: NodePosition<'_>) -> Option<usize> {
    match place {
        NodePosition::Root => None,
        NodePosition::Value { pair, .. } => pair.colon.map(|colon| colon + 1),
        NodePosition::Item { item, .. } => item.dash.map(|dash| dash + 1),
    }
}

/// Returns where the entries of a block collection begin, after its properties.
pub(super) fn entries_start(node: &YamlNode) -> Option<usize> {
    match &node.content {
        NodeContent::Map { form: CollectionStyle::Block { .. }, pairs } => {
            pairs.first().map(crate::yaml::node::MappingPair::start)
        }
        NodeContent::Seq { form: CollectionStyle::Block { .. }, items } => {
            items.first().and_then(|item| item.dash)
        }
        _ => None,
    }
}

pub(super) fn one_line(text: &str, node: &YamlNode, place: NodePosition<'_>, new: &str) -> EditPlan {
    if let Some(entries) = entries_start(node) {
        return collapse(text, node, place, entries, new);
    }
    match &node.content {
        NodeContent::Scalar { style: YamlScalarStyle::Empty, .. } if node.span.is_empty() => {
            vec![insert(node.span.start, format!(" {new}"))]
        }
        NodeContent::Scalar { style: YamlScalarStyle::Block, header, .. } => {
            let mut plan = vec![replace(node.span.start..header.end, new)];
            plan.extend(block_scalar_lines(text, header.end, node.span.end));
            plan
        }
        _ => vec![replace(node.span.clone(), new)],
    }
}

/// Deletes the lines of a block scalar below its header, whose own comment is kept.
fn block_scalar_lines(text: &str, header_end: usize, end: usize) -> Option<Splice> {
    let first = line_end(text, header_end);
    (first < end).then(|| delete(first..end))
}

/// Replaces a block collection by a single line.
fn collapse(text: &str, node: &YamlNode, place: NodePosition<'_>, entries: usize, new: &str) -> EditPlan {
    if !starts_line(text, entries) {
        return vec![replace(node.span.start..node.span.end, new)];
    }
    let first_line = line_start(text, entries);
    let cut_end = line_end(text, node.span.end);
    let Some(lead) = lead_end(place) else {
        return vec![replace(entries..cut_end, new)];
    };
    // Comments between the key and its first entry are kept in place.
    let before = first_line.saturating_sub(line_break_before(text, first_line));
    let head = if node.span.start < entries {
        let properties = text.get(node.span.start..before).unwrap_or_default().trim_end().len();
        replace(node.span.start..node.span.start + properties, new)
    } else {
        insert(lead, format!(" {new}"))
    };
    vec![head, delete(before..cut_end)]
}

fn line_break_before(text: &str, line: usize) -> usize {
    let before = text.get(..line).unwrap_or_default();
    if before.ends_with("\r\n") { 2 } else { usize::from(before.ends_with('\n')) }
}

/// Plans the value in block form, below its key or dash.
fn block(
    text: &str,
    node: &YamlNode,
    place: NodePosition<'_>,
    value: &YamlValue,
    indent: IndentStyle,
) -> EditPlan {
    let parent = match place {
        NodePosition::Root => 0,
        NodePosition::Value { form: CollectionStyle::Block { column }, .. } => {
            column + child_indent(value, indent)
        }
        NodePosition::Item { form: CollectionStyle::Block { column }, .. } => column + 2,
        _ => return EditPlan::new(),
    };
    let column = same_kind_column(node, value).unwrap_or(parent);
    let mut lines = Vec::new();
    push_lines(value, column, indent, &mut lines);
    let body = join(&lines, text);
    if let Some(entries) = entries_start(node) {
        let cut_end = line_end(text, node.span.end);
        if !starts_line(text, entries) {
            return vec![replace(node.span.start..node.span.end, body.trim_start_matches(' '))];
        }
        let mut plan = vec![replace(line_start(text, entries)..cut_end, body)];
        if node.span.start < entries {
            let until = line_end(text, node.span.start).min(entries);
            let properties = text.get(node.span.start..until).unwrap_or_default();
            let length = properties.split(" #").next().unwrap_or_default().trim_end().len();
            plan.push(delete(node.span.start..node.span.start + length));
        }
        return plan;
    }
    let below = format!("{}{body}", line_break(text));
    let start = blanks_before(text, node.span.start);
    if let NodeContent::Scalar { style: YamlScalarStyle::Block, header, .. } = &node.content {
        let first = line_end(text, header.end);
        return vec![delete(start..header.end), replace(first..node.span.end.max(first), below)];
    }
    vec![delete(start.min(node.span.end)..node.span.end), insert(line_end(text, node.span.end), below)]
}

/// Returns the column of the replaced collection, if the new value is of the same kind, so that it stays there.
fn same_kind_column(node: &YamlNode, value: &YamlValue) -> Option<usize> {
    match (&node.content, value) {
        (NodeContent::Map { form: CollectionStyle::Block { column }, .. }, YamlValue::Map(_))
        | (NodeContent::Seq { form: CollectionStyle::Block { column }, .. }, YamlValue::Seq(_)) => {
            Some(*column)
        }
        _ => None,
    }
}

fn blanks_before(text: &str, at: usize) -> usize {
    text.get(..at).map_or(at, |before| before.trim_end_matches([' ', '\t']).len())
}

/// Returns how this file indents nested mappings and lists; the incumbent's default where the file does not show
/// it.
pub(super) fn indent_of(document: &YamlDocument<'_>) -> IndentStyle {
    let mut found = (None, None);
    if let Some(root) = &document.root {
        find_indent(root, &mut found);
    }
    let standard = IndentStyle::default();
    IndentStyle { step: found.0.unwrap_or(standard.step), list: found.1.unwrap_or(standard.list) }
}

fn find_indent(node: &YamlNode, found: &mut (Option<usize>, Option<usize>)) {
    if let NodeContent::Map { form: CollectionStyle::Block { column }, pairs } = &node.content {
        for pair in pairs {
            match &pair.value.content {
                NodeContent::Map { form: CollectionStyle::Block { column: inner }, .. } if inner > column => {
                    found.0.get_or_insert(inner - column);
                }
                NodeContent::Seq { form: CollectionStyle::Block { column: inner }, .. }
                    if inner >= column =>
                {
                    found.1.get_or_insert(inner - column);
                }
                _ => {}
            }
            if found.0.is_some() && found.1.is_some() {
                return;
            }
            find_indent(&pair.value, found);
        }
    }
}
