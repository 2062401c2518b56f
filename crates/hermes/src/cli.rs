//! The command line, as one table: names, words and types of every command and flag.

use clap::{CommandFactory, Parser, Subcommand};
use clap_complete::Shell;

/// A personal AI agent in one binary.
#[derive(Debug, Parser)]
#[command(name = "hermes", version = long_version(), disable_help_subcommand = true, arg_required_else_help = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Ask something
    Chat(ChatArguments),
    /// Show which model answers, or choose another
    Model {
        /// A model, also as provider:model; without it, the current one is shown
        name: Option<String>,
    },
    /// Show and change the configuration
    Config {
        #[command(subcommand)]
        command: Option<ConfigCommand>,
    },
    /// List, search, export and remove stored conversations
    Sessions {
        #[command(subcommand)]
        command: SessionsCommand,
    },
    /// Check, copy and repair the database
    Db {
        #[command(subcommand)]
        command: DbCommand,
    },
    /// Print a completion script for a shell
    Completion { shell: Shell },
    /// Print the version
    Version,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ChatArguments {
    /// The question; without it, standard input is read
    #[arg(short, long)]
    pub(crate) query: Option<String>,
    /// The model, also as provider:model
    #[arg(short, long)]
    pub(crate) model: Option<String>,
    /// The provider, or the name of an endpoint of your own
    #[arg(long)]
    pub(crate) provider: Option<String>,
    /// Print the answer and nothing else
    #[arg(short = 'Q', long)]
    pub(crate) quiet: bool,
    /// The most calls to the model in this turn
    #[arg(long)]
    pub(crate) max_turns: Option<usize>,
    /// Go on with this session, by its id or title
    #[arg(short, long)]
    pub(crate) resume: Option<String>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Show what is configured; keys are masked
    Show,
    /// Open config.yaml in $EDITOR
    Edit,
    /// Set a value; secrets go to .env, the rest to config.yaml
    Set {
        /// A dotted path such as model.default, or a variable such as OPENROUTER_API_KEY
        key: Option<String>,
        value: Option<String>,
    },
    /// Print the value in force
    Get { key: String },
    /// Remove a value from config.yaml
    Unset { key: String },
    /// Print where config.yaml is
    Path,
    /// Print where .env is
    EnvPath,
    /// Look for mistakes and for options that are new
    Check,
    /// Bring config.yaml up to the current version, keeping comments
    Migrate,
}

#[derive(Debug, Subcommand)]
pub(crate) enum SessionsCommand {
    /// The newest conversations
    List {
        /// Only this source, such as cli or telegram
        #[arg(long)]
        source: Option<String>,
        #[arg(long, default_value_t = 20)]
        limit: usize,
    },
    /// Look for words in all conversations
    Search {
        #[arg(required = true, num_args = 1..)]
        words: Vec<String>,
        #[arg(long, default_value_t = 10)]
        limit: usize,
    },
    /// Write conversations as JSON lines; `-` is standard output
    Export {
        file: String,
        #[arg(long)]
        source: Option<String>,
        /// One session, by its id or the beginning of it
        #[arg(long)]
        session_id: Option<String>,
    },
    /// Remove a conversation
    Delete {
        id: String,
        /// Do not ask
        #[arg(short, long)]
        yes: bool,
    },
    /// Remove ended conversations that began long ago
    Prune {
        /// Days
        #[arg(long, default_value_t = 90)]
        older_than: u32,
        #[arg(long)]
        source: Option<String>,
        /// Do not ask
        #[arg(short, long)]
        yes: bool,
    },
    /// Give a conversation a title
    Rename {
        id: String,
        #[arg(required = true, num_args = 1..)]
        title: Vec<String>,
    },
    /// Totals
    Stats,
}

#[derive(Debug, Subcommand)]
pub(crate) enum DbCommand {
    /// Check the whole file; changes nothing
    Check,
    /// Copy the database while it is in use
    Backup { file: std::path::PathBuf },
    /// Save what can be read of a damaged database into a sound one
    Repair,
}

pub(crate) fn version() -> String {
    format!("Hermes Agent v{}", long_version())
}

fn long_version() -> &'static str {
    env!("CARGO_PKG_VERSION")
}

pub(crate) fn completion(shell: Shell) -> String {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "hermes", &mut script);
    String::from_utf8_lossy(&script).into_owned()
}
