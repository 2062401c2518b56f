//! The V4A patch format: files named by headers, changes by hunks without line numbers.
//!
//! Holds the parser and the application of hunks to a text. The caller reads and writes files. Invariant: a text
//! that is not a patch is an error, never a partial list of operations.

mod apply;
mod parse;

pub use apply::{HunkError, apply_hunks};
pub use parse::{PatchError, parse_patch};

/// One file's part of a patch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PatchOp {
    Update { path: String, hunks: Vec<Hunk> },
    Add { path: String, content: String },
    Delete { path: String },
    Move { from: String, to: String },
}

impl PatchOp {
    /// Returns every path that the operation names.
    pub fn paths(&self) -> impl Iterator<Item = &str> {
        let (one, two) = match self {
            Self::Update { path, .. } | Self::Add { path, .. } | Self::Delete { path } => (path, None),
            Self::Move { from, to } => (from, Some(to)),
        };
        std::iter::once(one.as_str()).chain(two.map(String::as_str))
    }
}

/// Lines that change together.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Hunk {
    /// Words from a line near the change.
    pub hint: Option<String>,
    pub lines: Vec<HunkLine>,
}

/// A line of a hunk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HunkLine {
    Context(String),
    Removed(String),
    Added(String),
}

impl Hunk {
    /// Tells whether the hunk changes anything.
    pub fn is_change(&self) -> bool {
        self.lines.iter().any(|line| !matches!(line, HunkLine::Context(_)))
    }
}
