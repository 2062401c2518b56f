//! YAML as existing homes use it: 1.1 scalars on a 1.2 grammar, read with positions and edited in place.
//!
//! Holds the value tree, the reader, the writer and the patcher; it has no knowledge of Hermes' keys. Invariant: a
//! patched text is read back as exactly the requested tree, or the text is left unchanged.

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

/// The position and reason of a YAML error. Line and column count from one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{problem} (line {line}, column {column})")]
pub struct YamlError {
    pub line: usize,
    pub column: usize,
    pub problem: String,
}

/// Parses one document. An empty text, or one of comments only, is null.
pub fn parse(text: &str) -> Result<YamlValue, YamlError> {
    let document = compose::compose(text)?;
    construct::construct(&document)
}

#[cfg(test)]
mod tests;
