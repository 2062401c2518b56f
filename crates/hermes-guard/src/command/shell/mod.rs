//! A small parser of shell commands, sufficient to determine what is run.
//!
//! It handles words, quotes, operators, substitutions, here-documents and plain assignments, and ends each of them
//! where bash does: a test compares its result with what bash runs. It is lenient: text that no shell would accept
//! is parsed as well as possible, because rejecting it would leave it unjudged. Bounded in depth and in time.

mod brackets;
mod cursor;
mod expand;
mod heredoc;
mod parse;
mod print;
mod quote;
mod variables;
mod word;

pub(crate) use parse::{read, substitutions};
pub(crate) use print::printed;
pub(crate) use variables::ShellVariables;

/// A sequence of commands.
#[derive(Debug, Clone, Default)]
pub(crate) struct ShellScript {
    pub(crate) pipelines: Vec<Pipeline>,
    /// Set when something was nested deeper than is parsed.
    pub(crate) too_deep: bool,
    /// Set when releases of bash disagree about where something in it ends.
    pub(crate) ambiguous: bool,
    /// The names of functions it defines.
    pub(crate) functions: Vec<String>,
    /// The values of variables at its end.
    pub(crate) variables: ShellVariables,
}

impl ShellScript {
    pub(crate) fn stages(&self) -> impl Iterator<Item = &PipelineStage> {
        self.pipelines.iter().flat_map(|pipeline| &pipeline.stages)
    }
}

/// Commands connected by pipes.
#[derive(Debug, Clone, Default)]
pub(crate) struct Pipeline {
    pub(crate) stages: Vec<PipelineStage>,
    pub(crate) end: PipelineEnd,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum PipelineEnd {
    #[default]
    Waited,
    /// `&`: it runs in parallel with what follows.
    Background,
}

/// One command with its redirections, or a group of commands.
#[derive(Debug, Clone, Default)]
pub(crate) struct PipelineStage {
    pub(crate) words: Vec<ShellWord>,
    pub(crate) assignments: Vec<ShellWord>,
    pub(crate) redirects: Vec<Redirect>,
    pub(crate) body: Option<ShellScript>,
}

impl PipelineStage {
    pub(crate) fn is_empty(&self) -> bool {
        self.words.is_empty()
            && self.assignments.is_empty()
            && self.redirects.is_empty()
            && self.body.is_none()
    }
}

/// One argument after the shell has removed the quotes.
#[derive(Debug, Clone, Default)]
pub(crate) struct ShellWord {
    pub(crate) text: String,
    /// Tells whether the text is complete; otherwise it contains something that only the shell can determine.
    pub(crate) known: bool,
    /// Set when the command itself has set the value, in a way that is not followed.
    pub(crate) hidden: bool,
    pub(crate) inner: Vec<NestedScript>,
}

impl ShellWord {
    pub(crate) fn plain(text: impl Into<String>) -> Self {
        Self { text: text.into(), known: true, ..Self::default() }
    }
}

/// A script within a word.
#[derive(Debug, Clone)]
pub(crate) struct NestedScript {
    pub(crate) script: ShellScript,
    pub(crate) kind: Substitution,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Substitution {
    /// `$(…)`: its output becomes part of the word.
    Output,
    /// `<(…)`: its output is a file.
    File,
    /// `>(…)`: what is written there is its input.
    Sink,
}

#[derive(Debug, Clone)]
pub(crate) struct Redirect {
    pub(crate) direction: Direction,
    pub(crate) target: ShellWord,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Direction {
    In,
    Out,
    /// The target is the text itself: a here-document or a here-string.
    Text,
    /// `>&2` and similar: not a file.
    Descriptor,
}
