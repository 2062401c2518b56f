//! The arguments of `hermes hooks` and `hermes plugins`.

use clap::Subcommand;

#[derive(Debug, Default, Subcommand)]
pub(crate) enum HooksCommand {
    /// List the hooks of the configuration, and whether they are approved
    #[default]
    #[command(visible_alias = "ls", after_help = "Example: hermes hooks list")]
    List,
    /// Run the hooks of an event once, with made-up input, and show what they answer
    #[command(after_help = "Example: hermes hooks test pre_tool_call --for-tool terminal")]
    Test {
        /// Event, such as pre_tool_call
        event: String,
        /// Tool that the event is about
        #[arg(long, value_name = "TOOL")]
        for_tool: Option<String>,
        /// JSON file with facts to add to the input
        #[arg(long, value_name = "FILE")]
        payload_file: Option<std::path::PathBuf>,
    },
    /// Remove the approvals of a command
    #[command(
        visible_alias = "rm",
        alias = "remove",
        after_help = "Example: hermes hooks revoke '~/bin/guard.sh --strict'"
    )]
    Revoke {
        /// Command as it is written in config.yaml
        command: String,
    },
    /// Check every hook: whether it exists, is approved, and answers with JSON
    #[command(after_help = "Example: hermes hooks doctor")]
    Doctor,
}

#[derive(Debug, Default, Subcommand)]
pub(crate) enum PluginsCommand {
    /// List the plugins
    #[default]
    #[command(visible_alias = "ls", after_help = "Example: hermes plugins list")]
    List,
    /// Install a plugin from a git repository or a folder
    #[command(
        after_help = "Examples: hermes plugins install owner/repo\n          hermes plugins install ./my-plugin --enable"
    )]
    Install {
        /// owner/repo, the URL of a git repository, or a folder
        source: String,
        /// Replace an installed plugin of the same name
        #[arg(short, long)]
        force: bool,
        /// Enable it without asking
        #[arg(long)]
        enable: bool,
    },
    /// Fetch the latest version of a plugin that was installed from a git repository
    #[command(after_help = "Example: hermes plugins update weather")]
    Update {
        /// Name of the plugin
        name: String,
    },
    /// Remove a plugin
    #[command(
        visible_alias = "rm",
        alias = "uninstall",
        after_help = "Example: hermes plugins remove weather"
    )]
    Remove {
        /// Name of the plugin
        name: String,
    },
    /// Load a plugin from the next start on
    #[command(after_help = "Example: hermes plugins enable weather")]
    Enable {
        /// Name of the plugin
        name: String,
    },
    /// Do not load a plugin
    #[command(after_help = "Example: hermes plugins disable weather")]
    Disable {
        /// Name of the plugin
        name: String,
    },
}
