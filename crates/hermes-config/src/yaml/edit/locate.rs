//! Finds the deepest existing place on the way to a path, and what has to be written there.

use crate::yaml::Value;
use crate::yaml::construct::is_merge_key;
use crate::yaml::node::{Content, Form, Item, Node, Pair};

/// How a node hangs in its parent.
#[derive(Debug, Clone, Copy)]
pub(super) enum Place<'doc> {
    Root,
    /// Value of a mapping entry.
    Value {
        pair: &'doc Pair,
        form: Form,
    },
    /// Entry of a list.
    Item {
        item: &'doc Item,
        form: Form,
    },
}

/// An existing node that gets a new value.
#[derive(Debug)]
pub(super) struct Spot<'doc> {
    pub(super) node: &'doc Node,
    pub(super) place: Place<'doc>,
    pub(super) value: Value,
}

/// A collection that gets one more entry; `key` is absent for a list.
#[derive(Debug)]
pub(super) struct Addition<'doc> {
    pub(super) node: &'doc Node,
    pub(super) place: Place<'doc>,
    pub(super) key: Option<String>,
    pub(super) value: Value,
}

#[derive(Debug)]
pub(super) enum Target<'doc> {
    Replace(Spot<'doc>),
    Add(Addition<'doc>),
}

/// `expected` is the whole tree after the change; what is written at a place is always the part of it found there, so
/// keys that came in through an alias or a merge are written out beside the changed one.
pub(super) fn locate<'doc>(root: &'doc Node, path: &[String], expected: &Value) -> Target<'doc> {
    let mut node = root;
    let mut place = Place::Root;
    let mut wanted = expected;
    for segment in path {
        let deeper = wanted.at([segment.as_str()]).unwrap_or(&Value::Null);
        match (&node.content, last_step(node, segment)) {
            (_, Some((child, step))) => {
                node = child;
                place = step;
                wanted = deeper;
            }
            (Content::Map { .. }, None) => {
                return Target::Add(Addition {
                    node,
                    place,
                    key: Some(segment.clone()),
                    value: deeper.clone(),
                });
            }
            (Content::Seq { .. }, None) if wanted.as_seq().is_some() => {
                return Target::Add(Addition { node, place, key: None, value: deeper.clone() });
            }
            _ => break,
        }
    }
    Target::Replace(Spot { node, place, value: wanted.clone() })
}

/// One step down by explicit key or index. Of equal keys the last counts, as for the reader.
pub(super) fn last_step<'doc>(node: &'doc Node, segment: &str) -> Option<(&'doc Node, Place<'doc>)> {
    match &node.content {
        Content::Map { form, pairs } => pairs
            .iter()
            .rev()
            .find(|pair| !is_merge_key(&pair.key) && pair.key.scalar_text() == Some(segment))
            .map(|pair| (&pair.value, Place::Value { pair, form: *form })),
        Content::Seq { form, items } => {
            let item = items.get(segment.parse::<usize>().ok()?)?;
            Some((&item.node, Place::Item { item, form: *form }))
        }
        _ => None,
    }
}
