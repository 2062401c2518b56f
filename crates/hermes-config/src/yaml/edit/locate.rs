//! Finds the deepest existing node on the way to a path, and the value to write there.

use crate::yaml::YamlValue;
use crate::yaml::construct::is_merge_key;
use crate::yaml::node::{CollectionStyle, MappingPair, NodeContent, SequenceItem, YamlNode};

/// The position of a node in its parent.
#[derive(Debug, Clone, Copy)]
pub(super) enum NodePosition<'doc> {
    Root,
    /// The value of a mapping entry.
    Value {
        pair: &'doc MappingPair,
        form: CollectionStyle,
    },
    /// An entry of a list.
    Item {
        item: &'doc SequenceItem,
        form: CollectionStyle,
    },
}

/// An existing node that gets a new value.
#[derive(Debug)]
pub(super) struct NodeReplacement<'doc> {
    pub(super) node: &'doc YamlNode,
    pub(super) place: NodePosition<'doc>,
    pub(super) value: YamlValue,
}

/// A collection that gets one more entry; `key` is absent for a list.
#[derive(Debug)]
pub(super) struct EntryAddition<'doc> {
    pub(super) node: &'doc YamlNode,
    pub(super) place: NodePosition<'doc>,
    pub(super) key: Option<String>,
    pub(super) value: YamlValue,
}

#[derive(Debug)]
pub(super) enum EditTarget<'doc> {
    Replace(NodeReplacement<'doc>),
    Add(EntryAddition<'doc>),
}

/// Finds the node to change. `expected` is the whole tree after the change; the value written at a node is always
/// the part of `expected` found there, so keys that came from an alias or a merge are written out beside the
/// changed one.
pub(super) fn locate<'doc>(root: &'doc YamlNode, path: &[String], expected: &YamlValue) -> EditTarget<'doc> {
    let mut node = root;
    let mut place = NodePosition::Root;
    let mut wanted = expected;
    for segment in path {
        let deeper = wanted.get_path([segment.as_str()]).unwrap_or(&YamlValue::Null);
        match (&node.content, last_step(node, segment)) {
            (_, Some((child, step))) => {
                node = child;
                place = step;
                wanted = deeper;
            }
            (NodeContent::Map { .. }, None) => {
                return EditTarget::Add(EntryAddition {
                    node,
                    place,
                    key: Some(segment.clone()),
                    value: deeper.clone(),
                });
            }
            (NodeContent::Seq { .. }, None) if wanted.as_seq().is_some() => {
                return EditTarget::Add(EntryAddition { node, place, key: None, value: deeper.clone() });
            }
            _ => break,
        }
    }
    EditTarget::Replace(NodeReplacement { node, place, value: wanted.clone() })
}

/// Descends one step by explicit key or index. Of equal keys the last counts, as it does for the reader.
pub(super) fn last_step<'doc>(
    node: &'doc YamlNode,
    segment: &str,
) -> Option<(&'doc YamlNode, NodePosition<'doc>)> {
    match &node.content {
        NodeContent::Map { form, pairs } => pairs
            .iter()
            .rev()
            .find(|pair| !is_merge_key(&pair.key) && pair.key.scalar_text() == Some(segment))
            .map(|pair| (&pair.value, NodePosition::Value { pair, form: *form })),
        NodeContent::Seq { form, items } => {
            let item = items.get(segment.parse::<usize>().ok()?)?;
            Some((&item.node, NodePosition::Item { item, form: *form }))
        }
        _ => None,
    }
}
