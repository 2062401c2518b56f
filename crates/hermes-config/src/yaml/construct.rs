//! Builds a value from the source tree: scalars resolved, aliases copied, `<<` merged, the last of equal keys
//! kept.

use std::collections::HashMap;

use super::node::{MappingPair, NodeContent, YamlDocument, YamlNode, YamlScalarStyle};
use super::scalar::{is_null, read_bool, read_float, read_int, resolve};
use super::{YamlEntry, YamlError, YamlMap, YamlValue};

/// Limits what aliases may expand to: ample for settings, far below what would exhaust memory.
const MAX_NODES: usize = 200_000;
const MAX_TEXT: usize = 32 * 1024 * 1024;
const MAX_DEPTH: usize = 200;

pub(super) fn construct(document: &YamlDocument<'_>) -> Result<YamlValue, YamlError> {
    let Some(root) = &document.root else {
        return Ok(YamlValue::Null);
    };
    ValueConstructor::new(root).value(root, 0)
}

/// Builds the value of any node of one document.
pub(super) struct ValueConstructor<'doc> {
    anchors: HashMap<usize, &'doc YamlNode>,
    /// The anchors that are being expanded; an anchor that recurs is part of a value that contains itself.
    open: Vec<usize>,
    nodes: usize,
    text: usize,
}

impl<'doc> ValueConstructor<'doc> {
    pub(super) fn new(root: &'doc YamlNode) -> Self {
        let mut anchors = HashMap::new();
        collect_anchors(root, &mut anchors);
        Self { anchors, open: Vec::new(), nodes: 0, text: 0 }
    }

    pub(super) fn value(&mut self, node: &'doc YamlNode, depth: usize) -> Result<YamlValue, YamlError> {
        self.nodes += 1;
        if self.nodes > MAX_NODES || self.text > MAX_TEXT || depth > MAX_DEPTH {
            return Err(fail(node, "aliases expand to too much data"));
        }
        match &node.content {
            NodeContent::Alias(target) => self.alias(node, *target, depth),
            NodeContent::Scalar { text, style, .. } => {
                self.text += text.len();
                scalar(node, text, *style)
            }
            NodeContent::Seq { items, .. } => {
                let items: Result<Vec<YamlValue>, YamlError> =
                    items.iter().map(|item| self.value(&item.node, depth + 1)).collect();
                check_collection_tag(node, &["seq", "omap", "pairs"])?;
                items.map(YamlValue::Seq)
            }
            NodeContent::Map { pairs, .. } => {
                check_collection_tag(node, &["map", "set"])?;
                self.mapping(pairs, depth).map(YamlValue::Map)
            }
        }
    }

    fn alias(&mut self, node: &'doc YamlNode, target: usize, depth: usize) -> Result<YamlValue, YamlError> {
        let anchored =
            self.anchors.get(&target).copied().ok_or_else(|| fail(node, "an alias without its anchor"))?;
        if self.open.contains(&target) {
            return Err(fail(node, "a value contains itself"));
        }
        self.open.push(target);
        let value = self.value(anchored, depth + 1);
        self.open.pop();
        value
    }

    fn mapping(&mut self, pairs: &'doc [MappingPair], depth: usize) -> Result<YamlMap, YamlError> {
        let mut entries: Vec<YamlEntry> = Vec::with_capacity(pairs.len());
        let mut places: HashMap<String, usize> = HashMap::with_capacity(pairs.len());
        let mut merged: Vec<YamlEntry> = Vec::new();
        for pair in pairs {
            if is_merge_key(&pair.key) {
                let source = self.value(&pair.value, depth + 1)?;
                collect_merge(&pair.value, source, &mut merged)?;
                continue;
            }
            let (key, typed_key) = self.key(&pair.key, depth)?;
            let value = self.value(&pair.value, depth + 1)?;
            if let Some(entry) = places.get(&key).and_then(|place| entries.get_mut(*place)) {
                entry.value = value;
            } else {
                places.insert(key.clone(), entries.len());
                entries.push(YamlEntry { key, value, typed_key });
            }
        }
        for entry in merged {
            if !places.contains_key(&entry.key) {
                places.insert(entry.key.clone(), entries.len());
                entries.push(entry);
            }
        }
        Ok(YamlMap::from_distinct(entries))
    }

    /// Returns a key by its spelling, so that `123` and `on` can be addressed like any other.
    fn key(&mut self, node: &'doc YamlNode, depth: usize) -> Result<(String, bool), YamlError> {
        match &node.content {
            NodeContent::Scalar { text, style, .. } => {
                let typed = *style == YamlScalarStyle::Plain && !matches!(resolve(text), YamlValue::Str(_));
                Ok((text.clone(), typed || *style == YamlScalarStyle::Empty))
            }
            NodeContent::Alias(_) => {
                let value = self.value(node, depth + 1)?;
                value
                    .scalar_text()
                    .map(|text| (text, false))
                    .ok_or_else(|| fail(node, "a key must be a simple value"))
            }
            _ => Err(fail(node, "a key must be a simple value")),
        }
    }
}

fn collect_anchors<'doc>(node: &'doc YamlNode, anchors: &mut HashMap<usize, &'doc YamlNode>) {
    if let Some(anchor) = node.anchor {
        anchors.insert(anchor, node);
    }
    match &node.content {
        NodeContent::Seq { items, .. } => items.iter().for_each(|item| collect_anchors(&item.node, anchors)),
        NodeContent::Map { pairs, .. } => {
            for pair in pairs {
                collect_anchors(&pair.key, anchors);
                collect_anchors(&pair.value, anchors);
            }
        }
        _ => {}
    }
}

pub(super) fn is_merge_key(key: &YamlNode) -> bool {
    matches!(&key.content, NodeContent::Scalar { text, style: YamlScalarStyle::Plain, .. } if text == "<<")
        && key.tag.is_none()
}

/// Adds the entries of a merge; earlier sources take precedence over later ones.
fn collect_merge(node: &YamlNode, source: YamlValue, merged: &mut Vec<YamlEntry>) -> Result<(), YamlError> {
    let maps = match source {
        YamlValue::Map(map) => vec![map],
        YamlValue::Seq(items) => items
            .into_iter()
            .map(|item| match item {
                YamlValue::Map(map) => Ok(map),
                _ => Err(fail(node, "only mappings can be merged with <<")),
            })
            .collect::<Result<_, _>>()?,
        _ => return Err(fail(node, "only mappings can be merged with <<")),
    };
    merged.extend(maps.iter().flat_map(|map| map.entries().iter().cloned()));
    Ok(())
}

fn scalar(node: &YamlNode, text: &str, style: YamlScalarStyle) -> Result<YamlValue, YamlError> {
    let Some(tag) = &node.tag else {
        return Ok(match style {
            YamlScalarStyle::Empty => YamlValue::Null,
            YamlScalarStyle::Plain => resolve(text),
            YamlScalarStyle::Quoted | YamlScalarStyle::Block => YamlValue::Str(text.to_owned()),
        });
    };
    let bad = || fail(node, "the value does not fit its tag");
    match core_tag(tag) {
        Some("str" | "binary" | "timestamp" | "value") => Ok(YamlValue::Str(text.to_owned())),
        Some("null") if is_null(text) => Ok(YamlValue::Null),
        Some("bool") => read_bool(text).map(YamlValue::Bool).ok_or_else(bad),
        Some("int") => read_int(text).ok_or_else(bad),
        Some("float") => read_float(text)
            .or_else(|| read_int(text).and_then(|value| value.as_float()))
            .map(YamlValue::Float)
            .ok_or_else(bad),
        Some("map") if text.is_empty() => Ok(YamlValue::Map(YamlMap::new())),
        Some("seq") if text.is_empty() => Ok(YamlValue::Seq(Vec::new())),
        Some("null") => Err(bad()),
        _ if tag == "!" => Ok(YamlValue::Str(text.to_owned())),
        _ => Err(fail(node, &format!("unknown tag {tag}"))),
    }
}

/// Returns the short name of a tag that YAML itself defines.
fn core_tag(tag: &str) -> Option<&str> {
    tag.strip_prefix("tag:yaml.org,2002:").or_else(|| tag.strip_prefix("!!"))
}

fn check_collection_tag(node: &YamlNode, allowed: &[&str]) -> Result<(), YamlError> {
    match &node.tag {
        None => Ok(()),
        Some(tag) if tag == "!" || core_tag(tag).is_some_and(|name| allowed.contains(&name)) => Ok(()),
        Some(tag) => Err(fail(node, &format!("unknown tag {tag}"))),
    }
}

fn fail(node: &YamlNode, problem: &str) -> YamlError {
    YamlError { line: node.line, column: node.column, problem: problem.to_owned() }
}
