//! The command line of `hermes sessions`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

#[derive(Debug, Subcommand)]
pub(crate) enum SessionsCommand {
    /// List the latest sessions
    #[command(after_help = "Example: hermes sessions list --workspace my-project")]
    List {
        /// Include only this source, such as cli or telegram
        #[arg(long)]
        source: Option<String>,
        /// Include only sessions whose working folder contains this text
        #[arg(long, value_name = "TEXT")]
        workspace: Option<String>,
        /// Number of sessions
        #[arg(long, value_name = "N", default_value_t = 20)]
        limit: usize,
    },
    /// Choose a session from a list and resume it
    #[command(after_help = "Example: hermes sessions browse --source telegram")]
    Browse {
        /// Include only this source, such as cli or telegram
        #[arg(long)]
        source: Option<String>,
        /// Number of sessions
        #[arg(long, value_name = "N", default_value_t = 50)]
        limit: usize,
    },
    /// Search the messages of all sessions
    #[command(after_help = "Example: hermes sessions search postgres migration")]
    Search {
        /// Words to search for
        #[arg(required = true, num_args = 1..)]
        words: Vec<String>,
        /// Number of matches
        #[arg(long, value_name = "N", default_value_t = 10)]
        limit: usize,
    },
    /// Export sessions to a file or a folder
    #[command(after_help = EXPORT_EXAMPLES)]
    Export(Box<ExportArguments>),
    /// Delete a session
    #[command(after_help = "Example: hermes sessions delete 20261116_101500_a1b2c3")]
    Delete {
        /// Session id, or a unique prefix of it
        id: String,
        /// Don't ask for confirmation
        #[arg(short, long)]
        yes: bool,
    },
    /// Delete old sessions that have ended
    #[command(after_help = "Examples:\n  hermes sessions prune --older-than 30 --dry-run\n  \
                            hermes sessions prune --source cron --max-messages 4 -y")]
    Prune {
        /// Also delete archived sessions
        #[arg(long)]
        include_archived: bool,
        /// List what would be deleted
        #[arg(long)]
        dry_run: bool,
        /// Don't ask for confirmation
        #[arg(short, long)]
        yes: bool,
        #[command(flatten)]
        filters: Box<SessionFilterArguments>,
    },
    /// Hide sessions from lists; at least one filter or id is needed
    #[command(after_help = "Examples:\n  hermes sessions archive --older-than 30d --source telegram\n  \
                            hermes sessions archive 20261116_101500_a1b2c3\n  \
                            hermes sessions archive --restore 20261116_101500_a1b2c3")]
    Archive {
        /// Session ids, or unique prefixes of them
        ids: Vec<String>,
        /// Show the sessions in lists again
        #[arg(long)]
        restore: bool,
        /// List what would be archived
        #[arg(long)]
        dry_run: bool,
        /// Don't ask for confirmation
        #[arg(short, long)]
        yes: bool,
        #[command(flatten)]
        filters: Box<SessionFilterArguments>,
    },
    /// Set the title of a session
    #[command(after_help = "Example: hermes sessions rename 20261116_101500_a1b2c3 Login bug")]
    Rename {
        /// Session id, or a unique prefix of it
        id: String,
        /// New title
        #[arg(required = true, num_args = 1..)]
        title: Vec<String>,
    },
    /// Show totals
    #[command(after_help = "Example: hermes sessions stats")]
    Stats,
    /// Give unused space of the database back, and tidy the search index
    #[command(after_help = "Example: hermes sessions optimize")]
    Optimize,
    /// Rescue what can be read from a damaged database; the same as `hermes db repair`
    #[command(after_help = "Example: hermes sessions repair")]
    Repair,
}

impl Default for SessionsCommand {
    fn default() -> Self {
        Self::List { source: None, workspace: None, limit: 20 }
    }
}

const EXPORT_EXAMPLES: &str = "Examples:\n  hermes sessions export all.jsonl\n  \
                               hermes sessions export --format md notes/ --newer-than 7d\n  \
                               hermes sessions export --session-id 20261116_101500_a1b2c3 --format html\n  \
                               hermes sessions export - --only user-prompts --redact";

/// The format of an export.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum ExportFormat {
    /// One session per line, with everything the database knows
    #[default]
    Jsonl,
    /// One trajectory per line, as programs that train models read it
    Sharegpt,
    /// One Markdown file per session
    Md,
    /// One Quarto document per session
    Qmd,
    /// One web page per session
    Html,
}

/// The part of the messages that is exported.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ExportedPart {
    /// What you wrote, one message per line
    UserPrompts,
}

/// What one export covers of a conversation that continues in other sessions.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum ExportLineage {
    /// Each session for itself
    #[default]
    Single,
    /// The whole conversation, over all its sessions
    Logical,
}

#[derive(Debug, Clone, Default, Args)]
#[expect(clippy::struct_excessive_bools, reason = "one field per flag")]
pub(crate) struct ExportArguments {
    /// File for jsonl, folder for the other formats; `-` is standard output [default: `-`, or session-exports in the home]
    #[arg(value_name = "FILE")]
    pub(crate) target: Option<PathBuf>,
    /// Export one session, by its id or a unique prefix
    #[arg(long, value_name = "ID")]
    pub(crate) session_id: Option<String>,
    /// Format of the export
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: ExportFormat,
    /// Export only a part of the messages
    #[arg(long, value_enum, value_name = "PART")]
    pub(crate) only: Option<ExportedPart>,
    /// What to export of a conversation that was compressed into several sessions
    #[arg(long, value_enum, default_value_t)]
    pub(crate) lineage: ExportLineage,
    /// Mask secrets; the default of md, qmd and html
    #[arg(long)]
    pub(crate) redact: bool,
    /// Don't mask secrets
    #[arg(long, conflicts_with = "redact")]
    pub(crate) no_redact: bool,
    /// List what would be exported
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Replace files that exist
    #[arg(long)]
    pub(crate) force: bool,
    /// Delete the session after its file was read back and compared; needs --session-id and --yes
    #[arg(long, requires = "session_id", requires = "yes")]
    pub(crate) delete_after_verified: bool,
    /// Don't ask for confirmation
    #[arg(short, long)]
    pub(crate) yes: bool,
    #[command(flatten)]
    pub(crate) filters: SessionFilterArguments,
}

/// The filters that export, prune and archive share. A session is covered if it meets all of them.
#[derive(Debug, Clone, Default, PartialEq, Args)]
#[command(next_help_heading = "Filters")]
pub(crate) struct SessionFilterArguments {
    /// Source, such as cli or telegram
    #[arg(long)]
    pub(crate) source: Option<String>,
    /// Began longer ago than this: days, or an age such as 12h or 2d
    #[arg(long, value_name = "AGE")]
    pub(crate) older_than: Option<String>,
    /// Began less long ago than this
    #[arg(long, value_name = "AGE")]
    pub(crate) newer_than: Option<String>,
    /// Began before this date or time, such as 2026-11-01 or 2026-11-01T12:00
    #[arg(long, value_name = "DATE")]
    pub(crate) before: Option<String>,
    /// Began at or after this date or time
    #[arg(long, value_name = "DATE")]
    pub(crate) after: Option<String>,
    /// Part of the title
    #[arg(long, value_name = "TEXT")]
    pub(crate) title: Option<String>,
    /// Reason of the end, such as cli_close or session_reset
    #[arg(long, value_name = "REASON")]
    pub(crate) end_reason: Option<String>,
    /// Working folder, or a folder above it
    #[arg(long, value_name = "FOLDER")]
    pub(crate) cwd: Option<PathBuf>,
    /// Part of the model's name
    #[arg(long, value_name = "TEXT")]
    pub(crate) model: Option<String>,
    /// Provider that answered
    #[arg(long)]
    pub(crate) provider: Option<String>,
    /// Id of the user
    #[arg(long, value_name = "ID")]
    pub(crate) user: Option<String>,
    /// Id of the chat
    #[arg(long, value_name = "ID")]
    pub(crate) chat_id: Option<String>,
    /// Kind of the chat: dm, group, channel or thread
    #[arg(long, value_name = "KIND")]
    pub(crate) chat_type: Option<String>,
    /// Git branch of the working folder
    #[arg(long)]
    pub(crate) branch: Option<String>,
    /// Smallest number of messages
    #[arg(long, value_name = "N")]
    pub(crate) min_messages: Option<f64>,
    /// Largest number of messages
    #[arg(long, value_name = "N")]
    pub(crate) max_messages: Option<f64>,
    /// Smallest number of tokens
    #[arg(long, value_name = "N")]
    pub(crate) min_tokens: Option<f64>,
    /// Largest number of tokens
    #[arg(long, value_name = "N")]
    pub(crate) max_tokens: Option<f64>,
    /// Lowest cost in dollars
    #[arg(long, value_name = "DOLLARS")]
    pub(crate) min_cost: Option<f64>,
    /// Highest cost in dollars
    #[arg(long, value_name = "DOLLARS")]
    pub(crate) max_cost: Option<f64>,
    /// Smallest number of tool calls
    #[arg(long, value_name = "N")]
    pub(crate) min_tool_calls: Option<f64>,
    /// Largest number of tool calls
    #[arg(long, value_name = "N")]
    pub(crate) max_tool_calls: Option<f64>,
}

impl SessionFilterArguments {
    /// Tells whether no filter is set.
    pub(crate) fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}
