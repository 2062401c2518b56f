//! Adds an entry to a mapping or list, or the first one to an empty document.

use super::locate::EntryAddition;
use super::replace::{indent_of, one_line};
use super::splice::{EditPlan, insert, join, line_break, line_end, next_line};
use crate::yaml::compose::{byte_at, skip_trivia};
use crate::yaml::emit::{emit_inline, push_entry, push_lines};
use crate::yaml::node::{CollectionStyle, NodeContent, YamlDocument};
use crate::yaml::scalar::quote;
use crate::yaml::{YamlMap, YamlValue};

pub(super) fn plans(document: &YamlDocument<'_>, addition: &EntryAddition<'_>) -> Vec<EditPlan> {
    let text = document.text;
    match &addition.node.content {
        NodeContent::Map { form: CollectionStyle::Block { column }, pairs } => {
            let Some((first, last)) = pairs.first().zip(pairs.last()) else {
                return Vec::new();
            };
            block_plans(document, addition, *column, first.start(), last.end())
        }
        NodeContent::Seq { form: CollectionStyle::Block { column }, items } => {
            let Some((first, last)) = items.first().zip(items.last()) else {
                return Vec::new();
            };
            block_plans(document, addition, *column, first.dash.unwrap_or(first.node.span.start), last.end())
        }
        NodeContent::Map { form: CollectionStyle::Flow, pairs } => {
            flow_plans(text, addition, pairs.last().map(crate::yaml::node::MappingPair::end))
        }
        NodeContent::Seq { form: CollectionStyle::Flow, items } => {
            flow_plans(text, addition, items.last().map(crate::yaml::node::SequenceItem::end))
        }
        _ => Vec::new(),
    }
}

/// Plans an insertion after the last entry, then after the blank lines that belong to it, then before the first
/// entry.
fn block_plans(
    document: &YamlDocument<'_>,
    addition: &EntryAddition<'_>,
    column: usize,
    first: usize,
    last: usize,
) -> Vec<EditPlan> {
    let text = document.text;
    let mut lines = Vec::new();
    match &addition.key {
        Some(key) => push_entry(&quote(key), &addition.value, column, indent_of(document), &mut lines),
        None => {
            push_lines(
                &YamlValue::Seq(vec![addition.value.clone()]),
                column,
                indent_of(document),
                &mut lines,
            );
        }
    }
    let body = join(&lines, text);
    let line_break = line_break(text);
    let end = line_end(text, last);
    let mut plans = vec![vec![insert(end, format!("{line_break}{body}"))]];
    let behind_blanks = behind_blank_lines(text, end);
    if behind_blanks > end {
        plans.push(vec![insert(behind_blanks, format!("{body}{line_break}"))]);
    }
    if addition.key.is_some() {
        let pad = " ".repeat(column);
        plans.push(vec![insert(first, format!("{}{line_break}{pad}", body.trim_start_matches(' ')))]);
    }
    plans
}

/// Returns the start of the first line after `end` that is not blank.
pub(super) fn behind_blank_lines(text: &str, end: usize) -> usize {
    let mut at = next_line(text, end);
    while at < text.len() && text.get(at..line_end(text, at)).is_some_and(|line| line.trim().is_empty()) {
        at = next_line(text, at);
    }
    at
}

fn flow_plans(text: &str, addition: &EntryAddition<'_>, last: Option<usize>) -> Vec<EditPlan> {
    let entry = match &addition.key {
        Some(key) => format!("{}: {}", quote(key), emit_inline(&addition.value)),
        None => emit_inline(&addition.value),
    };
    let Some(last) = last else {
        let whole = if addition.key.is_some() { format!("{{{entry}}}") } else { format!("[{entry}]") };
        return vec![one_line(text, addition.node, addition.place, &whole)];
    };
    let comma = skip_trivia(text, last);
    if byte_at(text, comma) == Some(b',') {
        return vec![vec![insert(comma + 1, format!(" {entry}"))]];
    }
    vec![vec![insert(last, format!(", {entry}"))]]
}

/// Adds the first entry to a document without content.
pub(super) fn into_blank(document: &YamlDocument<'_>, expected: &YamlValue) -> Vec<EditPlan> {
    let text = document.text;
    let line_break = line_break(text);
    let mut lines = Vec::new();
    let empty = YamlMap::new();
    for (key, value) in expected.as_map().unwrap_or(&empty).iter() {
        push_entry(&quote(key), value, 0, indent_of(document), &mut lines);
    }
    let body = join(&lines, text);
    if document.root.is_some() {
        // The entry goes after an explicit `---`. With an anchor or tag there, reading it back fails, and the edit
        // is refused as intended.
        return vec![vec![insert(line_end(text, document.body), format!("{line_break}{body}"))]];
    }
    let end = text.len();
    let open_line = !text.is_empty() && !text.ends_with('\n') && text != "\u{feff}";
    let new = if open_line { format!("{line_break}{body}") } else { format!("{body}{line_break}") };
    vec![vec![insert(end, new)]]
}
