//! The arguments of `hermes honcho`.

use std::path::PathBuf;

use clap::{Subcommand, ValueEnum};

#[derive(Debug, Clone, Default, Subcommand)]
pub(crate) enum HonchoCommand {
    /// Show the settings, and whether Honcho answers
    #[command(after_help = "Example: hermes honcho status")]
    #[default]
    Status,
    /// Ask for a key and use Honcho as the memory service
    #[command(
        after_help = "Examples:\n  hermes honcho setup\n  hermes honcho setup --url http://localhost:8000"
    )]
    Setup {
        /// The address of a server of your own
        #[arg(long, value_name = "URL")]
        url: Option<String>,
        /// The key; asked for if it is left out
        #[arg(long, value_name = "KEY")]
        key: Option<String>,
        /// Your name in Honcho
        #[arg(long, value_name = "NAME")]
        peer: Option<String>,
    },
    /// List the folders with a session of their own
    #[command(after_help = "Example: hermes honcho sessions")]
    Sessions,
    /// Name the session of the current folder, or show the names
    #[command(after_help = "Example: hermes honcho map my-project")]
    Map {
        /// The name: letters, digits, - and _
        name: Option<String>,
    },
    /// Show or change the names in Honcho, and how much it thinks
    #[command(after_help = "Example: hermes honcho peer --user olga --reasoning medium")]
    Peer {
        /// Your name
        #[arg(long, value_name = "NAME")]
        user: Option<String>,
        /// The name of the agent
        #[arg(long, value_name = "NAME")]
        ai: Option<String>,
        /// How much Honcho thinks about a question
        #[arg(long, value_enum)]
        reasoning: Option<HonchoReasoning>,
    },
    /// Show or change where memories are written
    #[command(after_help = "Example: hermes honcho mode honcho")]
    Mode {
        /// hybrid: Honcho and the files; honcho: Honcho only; local: the files only
        #[arg(value_enum)]
        mode: Option<HonchoMode>,
    },
    /// Show or change the limits of recalled text
    #[command(after_help = "Example: hermes honcho tokens --context 800 --dialectic 600")]
    Tokens {
        /// The most tokens of recalled text; 0 is no limit
        #[arg(long, value_name = "TOKENS")]
        context: Option<usize>,
        /// The most characters of what Honcho says about you; 0 asks nothing
        #[arg(long, value_name = "CHARS")]
        dialectic: Option<usize>,
    },
    /// Show what Honcho knows of the agent, or tell it from a file
    #[command(after_help = "Examples:\n  hermes honcho identity --show\n  hermes honcho identity SOUL.md")]
    Identity {
        /// A text about the agent, such as SOUL.md
        file: Option<PathBuf>,
        /// Show what is known
        #[arg(long)]
        show: bool,
    },
    /// Say how to move memories to Honcho
    #[command(after_help = "Example: hermes honcho migrate")]
    Migrate,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum HonchoMode {
    Hybrid,
    Honcho,
    Local,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum HonchoReasoning {
    Minimal,
    Low,
    Medium,
    High,
    Max,
}
