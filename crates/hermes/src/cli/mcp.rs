//! The arguments of `hermes mcp`.

use clap::Subcommand;

#[derive(Debug, Subcommand)]
pub(crate) enum McpCommand {
    /// List the servers
    #[command(visible_alias = "ls", after_help = "Example: hermes mcp list")]
    List,
    /// Add a server
    #[command(
        after_help = "Examples:\n  hermes mcp add docs --url https://docs.example.org/mcp --auth oauth\n  hermes mcp add time --command uvx --args mcp-server-time==2026.1.1"
    )]
    Add(McpAddArguments),
    /// Remove a server, its tokens and its approvals
    #[command(visible_alias = "rm", after_help = "Example: hermes mcp remove docs")]
    Remove {
        /// Name of the server
        name: String,
        /// Don't ask for confirmation
        #[arg(short, long)]
        yes: bool,
    },
    /// Connect a server and list its tools
    #[command(after_help = "Example: hermes mcp test docs")]
    Test {
        /// Name of the server
        name: String,
    },
    /// Choose which tools are offered, and approve new and changed ones
    #[command(visible_alias = "config", after_help = "Example: hermes mcp configure docs")]
    Configure {
        /// Name of the server
        name: String,
    },
    /// List well-known servers
    #[command(after_help = "Example: hermes mcp catalog git")]
    Catalog {
        /// Text to look for
        query: Option<String>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Add a server of the catalog
    #[command(after_help = "Examples:\n  hermes mcp install linear\n  hermes mcp install filesystem ~/notes")]
    Install(McpInstallArguments),
    /// Choose a server of the catalog from a list, and add it
    #[command(after_help = "Example: hermes mcp picker")]
    Picker,
    /// Let other agents read conversations and send messages, over standard input and output
    #[command(after_help = "Example: hermes mcp serve")]
    Serve {
        /// Print log messages on standard error
        #[arg(short, long)]
        verbose: bool,
    },
    /// Sign in to a server with an address
    #[command(visible_alias = "reauth", after_help = "Example: hermes mcp login docs")]
    Login {
        /// Name of the server
        name: String,
    },
}

#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct McpInstallArguments {
    /// Name of a server of the catalog
    pub(crate) name: String,
    /// Name under which it is added [default: that of the catalog]
    #[arg(long = "as", value_name = "NAME")]
    pub(crate) as_name: Option<String>,
    /// Further arguments of its program, such as the folder of `filesystem`
    pub(crate) arguments: Vec<String>,
}

#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct McpAddArguments {
    /// Name of the server
    pub(crate) name: String,
    /// Address of a server
    #[arg(long)]
    pub(crate) url: Option<String>,
    /// Program to start
    #[arg(long, conflicts_with = "url")]
    pub(crate) command: Option<String>,
    /// How the server recognizes you: oauth, header for a key, or none
    #[arg(long, value_name = "oauth|header|none")]
    pub(crate) auth: Option<String>,
    /// Variable for the program
    #[arg(long, value_name = "NAME=VALUE", num_args = 1..)]
    pub(crate) env: Vec<String>,
    /// Seconds to connect
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) connect_timeout: Option<u32>,
    /// Arguments of the program; everything after it
    #[arg(long, value_name = "ARGUMENT", num_args = 0.., allow_hyphen_values = true)]
    pub(crate) args: Vec<String>,
}
