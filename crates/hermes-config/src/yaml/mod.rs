//! YAML as existing homes use it: 1.1 scalars on a 1.2 grammar, read with positions and edited in place.
//!
//! Holds the value tree, the reader, the writer and the patcher; knows nothing of Hermes' keys. Invariant: a patch
//! either re-reads to exactly the tree that was asked for, or the text is left alone.

mod compose;
mod construct;
pub mod edit;
mod emit;
mod map;
mod node;
pub(crate) mod scalar;
mod value;

pub use emit::{emit_block, emit_inline};
pub use map::{YamlEntry, YamlMap};
pub use value::{KeyPath, YamlValue};

/// Where and why a text is not YAML we can use. Line and column count from one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{problem} (line {line}, column {column})")]
pub struct YamlError {
    pub line: usize,
    pub column: usize,
    pub problem: String,
}

/// Reads one document. An empty text, or one of comments only, is null.
pub fn parse(text: &str) -> Result<YamlValue, YamlError> {
    let document = compose::compose(text)?;
    construct::construct(&document)
}

#[cfg(test)]
mod tests;
