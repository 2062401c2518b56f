//! The commands that look after an installation: set-up, checks, logs, keys, profiles, backups.

use std::path::PathBuf;

use clap::{Subcommand, ValueEnum};

/// A part of the set-up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum SetupSection {
    Model,
    Terminal,
    Agent,
    Gateway,
    Tools,
}

/// Without flags, questions are asked.
#[derive(Debug, Default, clap::Args)]
#[command(after_help = "Examples:\n  hermes setup\n  hermes setup model\n  \
                        hermes setup --provider custom --base-url http://localhost:11434/v1 --model qwen3:8b")]
pub(crate) struct SetupArguments {
    /// Set up only this part
    pub(crate) section: Option<SetupSection>,
    /// Ask nothing; without other flags, print how to set up by commands
    #[arg(long)]
    pub(crate) non_interactive: bool,
    /// Ask nothing; keep current values or use defaults
    #[arg(short, long)]
    pub(crate) yes: bool,
    /// Begin with the defaults; the old config.yaml is kept as config.yaml.bak
    #[arg(long)]
    pub(crate) reset: bool,
    /// Provider of the model, such as openrouter, anthropic or custom
    #[arg(long)]
    pub(crate) provider: Option<String>,
    /// Key of the provider; `-` reads it from standard input
    #[arg(long, value_name = "KEY")]
    pub(crate) api_key: Option<String>,
    /// Address of an endpoint of your own, up to and with /v1
    #[arg(long, value_name = "URL")]
    pub(crate) base_url: Option<String>,
    /// Model to use
    #[arg(long)]
    pub(crate) model: Option<String>,
    /// Where commands run: local, docker, ssh, singularity, modal or daytona
    #[arg(long, value_name = "BACKEND")]
    pub(crate) terminal: Option<String>,
    /// Image of the container that commands run in
    #[arg(long)]
    pub(crate) image: Option<String>,
    /// Maximum number of model calls per turn
    #[arg(long, value_name = "N")]
    pub(crate) max_turns: Option<u64>,
    /// What is shown of tool calls: all, new, verbose or off
    #[arg(long, value_name = "MODE")]
    pub(crate) tool_progress: Option<String>,
    /// When a chat begins a new session: both, idle, daily or none
    #[arg(long, value_name = "MODE")]
    pub(crate) session_reset: Option<String>,
}

impl SetupArguments {
    /// Tells whether a flag answers a question.
    pub(crate) fn has_values(&self) -> bool {
        let texts = [
            &self.provider,
            &self.api_key,
            &self.base_url,
            &self.model,
            &self.terminal,
            &self.image,
            &self.tool_progress,
            &self.session_reset,
        ];
        texts.iter().any(|text| text.is_some()) || self.max_turns.is_some()
    }
}

#[derive(Debug, Clone, clap::Args)]
#[command(after_help = "Examples:\n  hermes logs -f\n  hermes logs gateway -n 200 --level warning\n  \
                        hermes logs --session 20261116_101500_a1b2c3")]
pub(crate) struct LogsArguments {
    /// errors, gateway, agent, gateway.error, or all of them
    #[arg(default_value = "all")]
    pub(crate) name: String,
    /// Number of lines
    #[arg(short = 'n', long, default_value_t = 50)]
    pub(crate) lines: usize,
    /// Print new lines as they are written
    #[arg(short, long)]
    pub(crate) follow: bool,
    /// Lowest level: debug, info, warning or error
    #[arg(long)]
    pub(crate) level: Option<String>,
    /// Only lines that name this session
    #[arg(long, value_name = "ID")]
    pub(crate) session: Option<String>,
    /// Only lines from this long ago on, such as 30m, 2h or 1d
    #[arg(long, value_name = "AGE")]
    pub(crate) since: Option<String>,
    /// Only lines of this part, such as hermes_gateway
    #[arg(long, value_name = "NAME")]
    pub(crate) component: Option<String>,
}

#[derive(Debug, Clone, Default, clap::Args)]
#[command(after_help = "Examples:\n  hermes doctor\n  hermes doctor --fix")]
pub(crate) struct DoctorArguments {
    /// Mend what can be mended without losing anything
    #[arg(long)]
    pub(crate) fix: bool,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Don't ask any server
    #[arg(long)]
    pub(crate) offline: bool,
}

#[derive(Debug, Clone, Subcommand)]
pub(crate) enum ToolsCommand {
    /// List the toolsets and whether each is on
    #[command(visible_alias = "ls", after_help = "Example: hermes tools list --platform telegram")]
    List {
        /// Platform, such as cli or telegram
        #[arg(long, default_value = "cli")]
        platform: String,
    },
    /// Switch toolsets on, or tools of an MCP server (server:tool)
    #[command(after_help = "Example: hermes tools enable skills --platform telegram")]
    Enable {
        /// Toolsets, or tools of an MCP server as server:tool
        #[arg(required = true)]
        names: Vec<String>,
        /// Platform, such as cli or telegram
        #[arg(long, default_value = "cli")]
        platform: String,
    },
    /// Switch toolsets off, or tools of an MCP server (server:tool)
    #[command(after_help = "Example: hermes tools disable execute_code git:push")]
    Disable {
        /// Toolsets, or tools of an MCP server as server:tool
        #[arg(required = true)]
        names: Vec<String>,
        /// Platform, such as cli or telegram
        #[arg(long, default_value = "cli")]
        platform: String,
    },
}

impl Default for ToolsCommand {
    fn default() -> Self {
        Self::List { platform: "cli".to_owned() }
    }
}

#[derive(Debug, Clone, Default, Subcommand)]
pub(crate) enum AuthCommand {
    /// List the stored keys of all providers
    #[command(after_help = "Example: hermes auth list")]
    #[default]
    List,
    /// Store another key of a provider; requests rotate through them
    #[command(
        after_help = "Examples:\n  hermes auth add openrouter\n  hermes auth add openrouter --label work < key.txt"
    )]
    Add {
        /// Provider, such as openrouter
        provider: String,
        /// The key; without it, it is asked for, or read from standard input
        #[arg(long, value_name = "KEY")]
        api_key: Option<String>,
        /// Name of the key in lists
        #[arg(long)]
        label: Option<String>,
        /// Address the key is for, if the provider has several
        #[arg(long, value_name = "URL")]
        base_url: Option<String>,
    },
    /// Remove a stored key, by its number, id or label
    #[command(visible_alias = "rm", after_help = "Example: hermes auth remove openrouter 2")]
    Remove {
        /// Provider, such as openrouter
        provider: String,
        /// Number, id or label of the key
        key: String,
    },
    /// Use exhausted keys of a provider again
    #[command(after_help = "Example: hermes auth reset openrouter")]
    Reset {
        /// Provider, such as openrouter
        provider: String,
    },
    /// Show which sign-ins and keys a provider has
    #[command(after_help = "Example: hermes auth status anthropic")]
    Status {
        /// Provider [default: all]
        provider: Option<String>,
    },
    /// Sign out of a provider
    #[command(after_help = "Example: hermes auth logout nous")]
    Logout {
        /// Provider [default: the last one signed in to]
        provider: Option<String>,
    },
}

#[derive(Debug, Clone, Default, Subcommand)]
pub(crate) enum FallbackCommand {
    /// List the models used when the main one fails
    #[command(visible_alias = "ls", after_help = "Example: hermes fallback list")]
    #[default]
    List,
    /// Add a model to the end of the list
    #[command(after_help = "Example: hermes fallback add anthropic:claude-sonnet-4.6")]
    Add {
        /// provider:model
        model: String,
        /// Address of the endpoint, for a provider without one
        #[arg(long, value_name = "URL")]
        base_url: Option<String>,
    },
    /// Remove a model, by its number or as provider:model
    #[command(visible_alias = "rm", after_help = "Example: hermes fallback remove 1")]
    Remove {
        /// Number in the list, or provider:model
        model: String,
    },
    /// Remove all
    #[command(after_help = "Example: hermes fallback clear")]
    Clear,
}

#[derive(Debug, Clone, Default, Subcommand)]
pub(crate) enum ProfileCommand {
    /// List the profiles
    #[command(visible_alias = "ls", after_help = "Example: hermes profile list")]
    #[default]
    List,
    /// Show one profile
    #[command(after_help = "Example: hermes profile show work")]
    Show {
        /// Name of the profile
        name: String,
    },
    /// Create a profile: a home of its own
    #[command(
        after_help = "Examples:\n  hermes profile create work --clone\n  hermes profile create bare --no-skills --no-alias"
    )]
    Create(CreateProfileArguments),
    /// Use this profile unless -p names another
    #[command(after_help = "Example: hermes profile use work")]
    Use {
        /// Name of the profile; `default` is the home itself
        name: String,
    },
    /// Create a command that runs Hermes with this profile
    #[command(after_help = "Example: hermes profile alias work --name hermes-work")]
    Alias {
        /// Name of the profile
        name: String,
        /// Remove the command
        #[arg(long)]
        remove: bool,
        /// Name of the command [default: the profile's]
        #[arg(long = "name", value_name = "COMMAND")]
        command: Option<String>,
    },
    /// Show or set the text about a profile
    #[command(after_help = "Examples:\n  hermes profile describe work\n  \
                            hermes profile describe work --text 'Reads mail and writes summaries'")]
    Describe {
        /// Name of the profile [default: the current one]
        name: Option<String>,
        /// New text
        #[arg(long)]
        text: Option<String>,
    },
    /// Install a profile that somebody passes on as a folder or git repository
    #[command(after_help = "Examples:\n  hermes profile install github.com/kyle/telemetry --alias\n  \
                            hermes profile install ./telemetry --name monitoring -y")]
    Install(InstallProfileArguments),
    /// Fetch the distribution of a profile again; keys, sessions and memory stay
    #[command(after_help = "Example: hermes profile update telemetry")]
    Update {
        /// Name of the profile
        name: String,
        /// Also replace config.yaml
        #[arg(long)]
        force_config: bool,
        /// Don't ask for confirmation
        #[arg(short, long)]
        yes: bool,
    },
    /// Show the distribution that a profile came from
    #[command(after_help = "Example: hermes profile info telemetry")]
    Info {
        /// Name of the profile
        name: String,
    },
    /// Rename a profile
    #[command(after_help = "Example: hermes profile rename work job")]
    Rename {
        /// Name of the profile
        name: String,
        /// New name
        new_name: String,
    },
    /// Delete a profile with everything in it
    #[command(after_help = "Example: hermes profile delete work -y")]
    Delete {
        /// Name of the profile
        name: String,
        /// Don't ask for confirmation
        #[arg(short, long)]
        yes: bool,
    },
    /// Write a profile to a file, without keys and sign-ins
    #[command(after_help = "Example: hermes profile export work -o work.zip")]
    Export {
        /// Name of the profile
        name: String,
        /// File to write [default: NAME.zip]
        #[arg(short, long)]
        output: Option<PathBuf>,
    },
    /// Create a profile from an exported file
    #[command(after_help = "Example: hermes profile import work.zip --name copy")]
    Import {
        /// File that `hermes profile export` wrote
        file: PathBuf,
        /// Name of the profile [default: the file's]
        #[arg(long)]
        name: Option<String>,
    },
}

#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct InstallProfileArguments {
    /// Folder, or address of a git repository, with a distribution.yaml
    pub(crate) source: String,
    /// Name of the profile [default: the distribution's]
    #[arg(long)]
    pub(crate) name: Option<String>,
    /// Create a command of the profile's name
    #[arg(long)]
    pub(crate) alias: bool,
    /// Install over a profile of this name; what is yours stays
    #[arg(long)]
    pub(crate) force: bool,
    /// Don't ask for confirmation
    #[arg(short, long)]
    pub(crate) yes: bool,
}

#[derive(Debug, Clone, Default, clap::Args)]
#[expect(clippy::struct_excessive_bools, reason = "one field per flag")]
pub(crate) struct CreateProfileArguments {
    /// Name of the profile: small letters, digits, - and _
    pub(crate) name: String,
    /// Copy settings, keys, SOUL.md, skills and memory of the current profile
    #[arg(long)]
    pub(crate) clone: bool,
    /// Copy everything except sessions, backups and state
    #[arg(long)]
    pub(crate) clone_all: bool,
    /// Profile to copy from [default: the current one]
    #[arg(long, value_name = "NAME")]
    pub(crate) clone_from: Option<String>,
    /// Don't create a command of the profile's name
    #[arg(long)]
    pub(crate) no_alias: bool,
    /// Leave out the bundled skills
    #[arg(long)]
    pub(crate) no_skills: bool,
    /// Text about the profile, shown in lists
    #[arg(long)]
    pub(crate) description: Option<String>,
}

#[derive(Debug, Clone, Default, clap::Args)]
#[command(
    after_help = "Examples:\n  hermes backup\n  hermes backup -o /mnt/usb/hermes.zip\n  hermes import hermes.zip"
)]
pub(crate) struct BackupArguments {
    /// File to write [default: hermes-backup-DATE.zip in this folder]
    #[arg(short, long)]
    pub(crate) output: Option<PathBuf>,
    /// Only settings, keys, memory, skills and jobs
    #[arg(short, long)]
    pub(crate) quick: bool,
    /// List what would be written
    #[arg(short, long)]
    pub(crate) list: bool,
}

#[derive(Debug, Clone, Default, clap::Args)]
#[command(after_help = "Example: hermes import hermes.zip")]
pub(crate) struct ImportArguments {
    /// A file that `hermes backup` wrote
    pub(crate) file: PathBuf,
    /// Replace files that exist; each is kept with the ending .before-import
    #[arg(short, long)]
    pub(crate) force: bool,
}

#[derive(Debug, Clone, Default, clap::Args)]
#[command(after_help = "Example: hermes uninstall")]
pub(crate) struct UninstallArguments {
    /// Also delete the home: sessions, memory, settings, keys
    #[arg(long)]
    pub(crate) full: bool,
    /// Don't ask for confirmation
    #[arg(short, long)]
    pub(crate) yes: bool,
}
