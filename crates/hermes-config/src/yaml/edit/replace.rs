//! Gives an existing node a new value.

use super::locate::{Place, Spot};
use super::splice::{
    Plan, Splice, delete, insert, join, line_break, line_end, line_start, replace, starts_line,
};
use crate::yaml::Value;
use crate::yaml::emit::{Indent, child_indent, emit_inline, is_one_line, push_lines};
use crate::yaml::node::{Content, Document, Form, Node, Style};

pub(super) fn plans(document: &Document<'_>, spot: &Spot<'_>) -> Vec<Plan> {
    let Spot { node, place, value } = spot;
    let text = document.text;
    let indent = indent_of(document);
    if is_flow_place(*place) {
        return vec![vec![in_flow(node, *place, value)]];
    }
    if is_flow_collection(node) || is_one_line(value) {
        return vec![one_line(text, node, *place, &emit_inline(value))];
    }
    // The block form reads best; one line is always possible.
    vec![block(text, node, *place, value, indent), one_line(text, node, *place, &emit_inline(value))]
}

pub(super) fn is_flow_place(place: Place<'_>) -> bool {
    matches!(
        place,
        Place::Value { form: Form::Flow | Form::Pair, .. }
            | Place::Item { form: Form::Flow | Form::Pair, .. }
    )
}

fn is_flow_collection(node: &Node) -> bool {
    matches!(&node.content, Content::Seq { form: Form::Flow, .. } | Content::Map { form: Form::Flow, .. })
}

fn in_flow(node: &Node, place: Place<'_>, value: &Value) -> Splice {
    let new = emit_inline(value);
    if node.is_empty() && node.span.is_empty() {
        let lead =
            if matches!(place, Place::Value { pair, .. } if pair.colon.is_none()) { ": " } else { " " };
        return insert(node.span.start, format!("{lead}{new}"));
    }
    replace(node.span.clone(), new)
}

/// Right behind the colon or dash that introduces the node.
fn lead_end(place: Place<'_>) -> Option<usize> {
    match place {
        Place::Root => None,
        Place::Value { pair, .. } => pair.colon.map(|colon| colon + 1),
        Place::Item { item, .. } => item.dash.map(|dash| dash + 1),
    }
}

/// Where the entries of a block collection begin, behind its properties.
pub(super) fn entries_start(node: &Node) -> Option<usize> {
    match &node.content {
        Content::Map { form: Form::Block { .. }, pairs } => pairs.first().map(crate::yaml::node::Pair::start),
        Content::Seq { form: Form::Block { .. }, items } => items.first().and_then(|item| item.dash),
        _ => None,
    }
}

pub(super) fn one_line(text: &str, node: &Node, place: Place<'_>, new: &str) -> Plan {
    if let Some(entries) = entries_start(node) {
        return collapse(text, node, place, entries, new);
    }
    match &node.content {
        Content::Scalar { style: Style::Empty, .. } if node.span.is_empty() => {
            vec![insert(node.span.start, format!(" {new}"))]
        }
        Content::Scalar { style: Style::Block, header, .. } => {
            let mut plan = vec![replace(node.span.start..header.end, new)];
            plan.extend(block_scalar_lines(text, header.end, node.span.end));
            plan
        }
        _ => vec![replace(node.span.clone(), new)],
    }
}

/// The lines of a block scalar below its header, whose own comment stays.
fn block_scalar_lines(text: &str, header_end: usize, end: usize) -> Option<Splice> {
    let first = line_end(text, header_end);
    (first < end).then(|| delete(first..end))
}

/// A block collection becomes a single line.
fn collapse(text: &str, node: &Node, place: Place<'_>, entries: usize, new: &str) -> Plan {
    if !starts_line(text, entries) {
        return vec![replace(node.span.start..node.span.end, new)];
    }
    let first_line = line_start(text, entries);
    let cut_end = line_end(text, node.span.end);
    let Some(lead) = lead_end(place) else {
        return vec![replace(entries..cut_end, new)];
    };
    // Comments between the key and its first entry stay where they are.
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

/// The value in block form, below its key or dash.
fn block(text: &str, node: &Node, place: Place<'_>, value: &Value, indent: Indent) -> Plan {
    let parent = match place {
        Place::Root => 0,
        Place::Value { form: Form::Block { column }, .. } => column + child_indent(value, indent),
        Place::Item { form: Form::Block { column }, .. } => column + 2,
        _ => return Plan::new(),
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
    if let Content::Scalar { style: Style::Block, header, .. } = &node.content {
        let first = line_end(text, header.end);
        return vec![delete(start..header.end), replace(first..node.span.end.max(first), below)];
    }
    vec![delete(start.min(node.span.end)..node.span.end), insert(line_end(text, node.span.end), below)]
}

/// A mapping stays at the column of the mapping it replaces, and a list at that of the list.
fn same_kind_column(node: &Node, value: &Value) -> Option<usize> {
    match (&node.content, value) {
        (Content::Map { form: Form::Block { column }, .. }, Value::Map(_))
        | (Content::Seq { form: Form::Block { column }, .. }, Value::Seq(_)) => Some(*column),
        _ => None,
    }
}

fn blanks_before(text: &str, at: usize) -> usize {
    text.get(..at).map_or(at, |before| before.trim_end_matches([' ', '\t']).len())
}

/// How this file indents nested mappings and lists; the incumbent's own habit where it does not show.
pub(super) fn indent_of(document: &Document<'_>) -> Indent {
    let mut found = (None, None);
    if let Some(root) = &document.root {
        look(root, &mut found);
    }
    let standard = Indent::default();
    Indent { step: found.0.unwrap_or(standard.step), list: found.1.unwrap_or(standard.list) }
}

fn look(node: &Node, found: &mut (Option<usize>, Option<usize>)) {
    if let Content::Map { form: Form::Block { column }, pairs } = &node.content {
        for pair in pairs {
            match &pair.value.content {
                Content::Map { form: Form::Block { column: inner }, .. } if inner > column => {
                    found.0.get_or_insert(inner - column);
                }
                Content::Seq { form: Form::Block { column: inner }, .. } if inner >= column => {
                    found.1.get_or_insert(inner - column);
                }
                _ => {}
            }
            if found.0.is_some() && found.1.is_some() {
                return;
            }
            look(&pair.value, found);
        }
    }
}
