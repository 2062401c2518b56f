//! The facts about a tool that are not for the model: where it belongs, who gets it, how people see its calls.
//!
//! Each tool carries its own descriptor; lists, feeds, presets and reference pages are derived from it. A tool
//! without one gets [`ToolDescriptor::unknown`].

/// The facts about a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ToolDescriptor<'a> {
    pub name: &'a str,
    /// The toolset that owns the tool.
    pub toolset: &'a str,
    /// What the tool does, for a list that people read.
    pub summary: &'a str,
    /// When the tool is offered, for the same list; empty for always.
    pub condition: &'a str,
    /// The emoji that marks a call.
    pub icon: &'a str,
    /// The word for a call in the terminal.
    pub verb: &'a str,
    /// The arguments that describe a call best; the first one that is present is shown.
    pub preview_arguments: &'a [&'a str],
    pub preview_kind: PreviewKind,
    pub role: Option<ToolRole>,
    /// A text for the system prompt of a conversation that has the tool.
    pub guidance: Option<&'a str>,
    pub withheld_from: &'a [ToolUser],
    pub result_author: ResultAuthor,
    /// The most calls in one answer of the model; further ones are dropped.
    pub max_calls_per_answer: Option<usize>,
}

/// Says which part of a long preview is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PreviewKind {
    #[default]
    Text,
    /// A path, whose end matters more than its beginning.
    Path,
}

/// What the agent itself uses a tool for, in addition to the model's calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ToolRole {
    /// Stores notes for later conversations.
    Memory,
    /// Reads and writes the memory service of one person.
    MemoryService,
    /// Reads skills.
    SkillReader,
    /// Creates and changes skills.
    SkillEditor,
    /// Runs a command and answers with its output.
    CommandRunner,
}

/// A kind of conversation that does not get every tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ToolUser {
    /// A conversation in an editor.
    Editor,
    /// A client of the API server.
    ApiClient,
    /// A run of a scheduled job.
    Job,
    Subagent,
}

/// Says whose words the results of a tool are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResultAuthor {
    /// The tool's own: a file named in them may be sent to the user.
    Tool,
    /// Words of files, programs and other people, which are only data.
    Others,
}

/// How the calls of a tool are shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolDisplay {
    pub icon: String,
    pub verb: String,
    pub preview_kind: PreviewKind,
}

/// The arguments that usually describe a call best.
const USUAL_PREVIEW: &[&str] = &[
    "command", "query", "pattern", "path", "url", "question", "goal", "code", "name", "action", "text",
    "patch",
];

impl<'a> ToolDescriptor<'a> {
    /// Returns the descriptor of a tool that is not known, such as one of another program.
    pub const fn unknown(name: &'a str) -> Self {
        Self {
            name,
            toolset: "other",
            summary: "",
            condition: "",
            icon: "⚡",
            verb: name,
            preview_arguments: USUAL_PREVIEW,
            preview_kind: PreviewKind::Text,
            role: None,
            guidance: None,
            withheld_from: &[],
            result_author: ResultAuthor::Others,
            max_calls_per_answer: None,
        }
    }

    /// Tells whether conversations of this kind do not get the tool.
    pub fn is_withheld_from(&self, user: ToolUser) -> bool {
        self.withheld_from.contains(&user)
    }

    pub fn display(&self) -> ToolDisplay {
        ToolDisplay {
            icon: self.icon.to_owned(),
            verb: self.verb.to_owned(),
            preview_kind: self.preview_kind,
        }
    }
}
