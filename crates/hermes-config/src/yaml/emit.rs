//! Writes value trees: on one line in flow style, as indented lines in block style.
//!
//! Every scalar is one line, so a caller may insert it anywhere a scalar may be.

use super::scalar::{float_text, is_plain_syntax, quote};
use super::{YamlEntry, YamlValue};

/// The indentation of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct IndentStyle {
    /// The columns a mapping adds below its parent.
    pub(crate) step: usize,
    /// The columns a list adds below its key; the incumbent's writer uses none.
    pub(crate) list: usize,
}

impl Default for IndentStyle {
    fn default() -> Self {
        Self { step: 2, list: 0 }
    }
}

/// Returns the tree as block lines, each ended by `
/// `, in the style of the incumbent's writer.
pub fn emit_block(value: &YamlValue) -> String {
    let mut lines = Vec::new();
    push_lines(value, 0, IndentStyle::default(), &mut lines);
    let mut text = lines.join("\n");
    text.push('\n');
    text
}

/// Returns the tree on one line, with collections in flow style.
pub fn emit_inline(value: &YamlValue) -> String {
    match value {
        YamlValue::Null => "null".to_owned(),
        YamlValue::Bool(value) => value.to_string(),
        YamlValue::Int(value) => value.to_string(),
        YamlValue::Float(value) => float_text(*value),
        YamlValue::Str(text) => quote(text),
        YamlValue::Seq(items) => {
            format!("[{}]", items.iter().map(emit_inline).collect::<Vec<_>>().join(", "))
        }
        YamlValue::Map(map) => {
            let pairs: Vec<String> = map
                .entries()
                .iter()
                .map(|entry| format!("{}: {}", emit_key(entry), emit_inline(&entry.value)))
                .collect();
            format!("{{{}}}", pairs.join(", "))
        }
    }
}

fn emit_key(entry: &YamlEntry) -> String {
    if entry.typed_key && is_plain_syntax(&entry.key) { entry.key.clone() } else { quote(&entry.key) }
}

/// Tells whether a value fits after its key on the same line in block style.
pub(crate) fn is_one_line(value: &YamlValue) -> bool {
    match value {
        YamlValue::Seq(items) => items.is_empty(),
        YamlValue::Map(map) => map.is_empty(),
        _ => true,
    }
}

/// Appends the value as block lines starting at column `column`, without line ends.
pub(crate) fn push_lines(value: &YamlValue, column: usize, indent: IndentStyle, lines: &mut Vec<String>) {
    let pad = " ".repeat(column);
    match value {
        YamlValue::Map(map) if !map.is_empty() => {
            for entry in map.entries() {
                push_entry(&emit_key(entry), &entry.value, column, indent, lines);
            }
        }
        YamlValue::Seq(items) if !items.is_empty() => {
            for item in items {
                if is_one_line(item) {
                    lines.push(format!("{pad}- {}", emit_inline(item)));
                    continue;
                }
                let first = lines.len();
                push_lines(item, column + 2, indent, lines);
                // The item's first line starts right after its dash.
                if let Some(line) = lines.get_mut(first) {
                    *line = format!("{pad}- {}", line.trim_start_matches(' '));
                }
            }
        }
        other => lines.push(format!("{pad}{}", emit_inline(other))),
    }
}

/// Appends `key: value` as block lines at `column`.
pub(crate) fn push_entry(
    key: &str,
    value: &YamlValue,
    column: usize,
    indent: IndentStyle,
    lines: &mut Vec<String>,
) {
    let pad = " ".repeat(column);
    if is_one_line(value) {
        lines.push(format!("{pad}{key}: {}", emit_inline(value)));
        return;
    }
    lines.push(format!("{pad}{key}:"));
    push_lines(value, column + child_indent(value, indent), indent, lines);
}

/// Returns how far a collection is indented below its key.
pub(crate) fn child_indent(value: &YamlValue, indent: IndentStyle) -> usize {
    if matches!(value, YamlValue::Seq(_)) { indent.list } else { indent.step }
}
