//! The command line: names, help texts and types of every command and flag.

mod curator;
mod extensions;
mod mcp;
mod service;
mod skills;
mod upkeep;

use clap::{CommandFactory, Parser, Subcommand};
use clap_complete::Shell;

pub(crate) use curator::{BundlesCommand, CuratorCommand};
pub(crate) use extensions::{HooksCommand, PluginsCommand};
pub(crate) use mcp::{McpAddArguments, McpCommand, McpInstallArguments};
pub(crate) use service::{
    CronCommand, GatewayCommand, GatewaySetupArguments, JobArguments, PairingCommand, WebhookCommand,
};
pub(crate) use skills::{
    ListedSkills, PublishTarget, SkillSwitches, SkillsCommand, SnapshotCommand, TapCommand,
};
pub(crate) use upkeep::{
    AuthCommand, BackupArguments, CreateProfileArguments, DoctorArguments, FallbackCommand, ImportArguments,
    LogsArguments, ProfileCommand, SetupArguments, SetupSection, ToolsCommand, UninstallArguments,
};

/// The text after the help, which lists the exit codes.
const AFTER_HELP: &str = "Exit codes: 0 success, 1 failure, 2 usage error, 78 gateway configuration, 130 interrupted.\n\
                          The whole table is in docs/reference/exit-codes.md.";

/// A personal AI agent in one binary.
#[derive(Debug, Parser)]
#[command(name = "hermes", display_name = "Hermes Agent", version = VERSION, disable_help_subcommand = true, after_help = AFTER_HELP)]
pub(crate) struct Cli {
    /// Without a command, Hermes runs `chat`; its flags also work here
    #[command(flatten)]
    pub(crate) chat: ChatArguments,
    /// Approve all shell hooks of the configuration without asking
    #[arg(long, global = true)]
    pub(crate) accept_hooks: bool,
    #[command(subcommand)]
    pub(crate) command: Option<CliCommand>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum CliCommand {
    /// Start a chat, or ask one question with -q
    Chat(ChatArguments),
    /// Show the current model, or choose another
    Model {
        /// Model name or provider:model; shows the current model if omitted
        name: Option<String>,
    },
    /// Sign in to a provider with a device code
    Login(LoginArguments),
    /// Sign out of a provider
    Logout {
        /// nous, openai-codex or copilot [default: the last one signed in to]
        #[arg(long)]
        provider: Option<String>,
    },
    /// Set up the model, the terminal, the agent and the gateway
    Setup(SetupArguments),
    /// Check the installation, and say what mends it
    Doctor(DoctorArguments),
    /// Show the log files
    Logs(LogsArguments),
    /// Choose the toolsets of each platform
    Tools {
        #[command(subcommand)]
        command: Option<ToolsCommand>,
    },
    /// Manage stored keys and sign-ins
    Auth {
        #[command(subcommand)]
        command: Option<AuthCommand>,
    },
    /// Manage the models used when the main one fails
    Fallback {
        #[command(subcommand)]
        command: Option<FallbackCommand>,
    },
    /// Manage profiles: homes with settings, memory and sessions of their own
    Profile {
        #[command(subcommand)]
        command: Option<ProfileCommand>,
    },
    /// Write the home to one file
    Backup(BackupArguments),
    /// Read a file that `hermes backup` wrote
    Import(ImportArguments),
    /// Print a report for support, without secrets
    Dump,
    /// Remove Hermes from this machine
    Uninstall(UninstallArguments),
    /// Show and change the configuration
    Config {
        #[command(subcommand)]
        command: Option<ConfigCommand>,
    },
    /// List, search, export and delete stored sessions
    Sessions {
        #[command(subcommand)]
        command: Option<SessionsCommand>,
    },
    /// Show usage: sessions, tokens, cost, tools, times of day
    Insights {
        /// Number of days to include
        #[arg(long, default_value_t = 30)]
        days: u32,
        /// Include only this source
        #[arg(long)]
        source: Option<String>,
    },
    /// Show what is set up: model, keys, platforms, gateway, jobs
    Status {
        /// Include keys that are not set
        #[arg(long)]
        all: bool,
        /// Also check whether the API server responds
        #[arg(long)]
        deep: bool,
    },
    /// Show the size of the prompt by layer and tool
    PromptSize {
        #[arg(long, default_value = "cli")]
        platform: String,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Run the always-on service: chats, API server, scheduled jobs
    Gateway {
        #[command(subcommand)]
        command: Option<GatewayCommand>,
    },
    /// Manage who may talk to the agent in chats
    Pairing {
        #[command(subcommand)]
        command: Option<PairingCommand>,
    },
    /// Send a message to a chat; without a target, list the chats
    Send(SendArguments),
    /// Receive events from other services (webhooks)
    Webhook {
        #[command(subcommand)]
        command: Option<WebhookCommand>,
    },
    /// Serve an editor over standard input and output (Agent Client Protocol)
    Acp,
    /// Manage scheduled jobs
    Cron {
        #[command(subcommand)]
        command: Option<CronCommand>,
    },
    /// Manage MCP servers, whose tools the agent may call
    Mcp {
        #[command(subcommand)]
        command: Option<McpCommand>,
    },
    /// Find, install and manage skills
    #[command(after_help = skills::EXIT_CODES)]
    Skills {
        #[command(subcommand)]
        command: Option<SkillsCommand>,
    },
    /// Put unused skills away, bring them back, and copy all skills
    Curator {
        #[command(subcommand)]
        command: Option<CuratorCommand>,
    },
    /// Group skills under one command
    Bundles {
        #[command(subcommand)]
        command: Option<BundlesCommand>,
    },
    /// List, test and revoke shell hooks: programs that run at the steps of a turn
    Hooks {
        #[command(subcommand)]
        command: Option<HooksCommand>,
    },
    /// Install, enable and remove plugins
    Plugins {
        #[command(subcommand)]
        command: Option<PluginsCommand>,
    },
    /// Check, back up and repair the database
    Db {
        #[command(subcommand)]
        command: Option<DbCommand>,
    },
    /// Update Hermes the way it was installed
    Update {
        /// Finish an update after the new program is in place
        #[arg(long, hide = true)]
        installed: bool,
    },
    /// Print a completion script for a shell
    Completion {
        #[arg(default_value = "bash")]
        shell: Shell,
    },
    /// Write the manual pages to a folder, or print the one of a command
    Man {
        /// Folder to write all pages to
        #[arg(long, value_name = "FOLDER")]
        output: Option<std::path::PathBuf>,
        /// Command to print the page of [default: hermes itself]
        command: Option<String>,
    },
    /// Print the version
    Version,
}

#[derive(Debug, Clone, Default, clap::Args)]
#[expect(clippy::struct_excessive_bools, reason = "one field per flag")]
pub(crate) struct ChatArguments {
    /// Ask one question and exit; without it, start a chat or read the question from standard input
    #[arg(short, long)]
    pub(crate) query: Option<String>,
    /// Ask one question, print only the answer, and run every command without approval
    #[arg(short = 'z', long, conflicts_with = "query")]
    pub(crate) oneshot: Option<String>,
    /// With --oneshot, write the usage to this file as JSON
    #[arg(long, requires = "oneshot")]
    pub(crate) usage_file: Option<std::path::PathBuf>,
    /// Model name or provider:model
    #[arg(short, long)]
    pub(crate) model: Option<String>,
    /// Provider, or the name of a custom endpoint
    #[arg(long)]
    pub(crate) provider: Option<String>,
    /// Comma-separated toolsets to use; `all` enables all of them
    #[arg(short, long)]
    pub(crate) toolsets: Option<String>,
    /// Print only the answer
    #[arg(short = 'Q', long)]
    pub(crate) quiet: bool,
    /// Show the arguments and results of tools
    #[arg(short, long)]
    pub(crate) verbose: bool,
    /// Resume the session with this id or title
    #[arg(short, long, value_name = "SESSION", num_args = 0..=1, default_missing_value = "")]
    pub(crate) resume: Option<String>,
    /// Continue the latest session, or the named one
    #[arg(short = 'c', long = "continue", value_name = "NAME", num_args = 0..=1, default_missing_value = "")]
    pub(crate) go_on: Option<String>,
    /// Run dangerous commands without approval
    #[arg(long)]
    pub(crate) yolo: bool,
    /// Include the session id in the prompt
    #[arg(long)]
    pub(crate) pass_session_id: bool,
    /// Save checkpoints of files before changing them, regardless of the configuration
    #[arg(long)]
    pub(crate) checkpoints: bool,
    /// Source under which the session is listed
    #[arg(long, value_name = "TAG")]
    pub(crate) source: Option<String>,
    /// Maximum number of model calls per turn
    #[arg(long, value_name = "N")]
    pub(crate) max_turns: Option<usize>,
    /// Don't load context files, memory or skills
    #[arg(long)]
    pub(crate) ignore_rules: bool,
    /// Skills that are in force for the whole session; several with commas
    #[arg(short, long, value_delimiter = ',')]
    pub(crate) skills: Vec<String>,
    /// Work in a git worktree of its own, which is removed at the end unless something in it was not committed
    #[arg(short, long)]
    pub(crate) worktree: bool,
    /// List the tools by toolset
    #[arg(long)]
    pub(crate) list_tools: bool,
    /// List the toolsets
    #[arg(long)]
    pub(crate) list_toolsets: bool,
    /// Use the line interface instead of the screen
    #[arg(long)]
    pub(crate) cli: bool,
    /// Accepted for compatibility; the screen is the default in a terminal
    #[arg(long, hide = true)]
    pub(crate) tui: bool,
}

impl ChatArguments {
    /// Merges flags given before and after `chat`; those after it win.
    pub(crate) fn merge_over(self, before: Self) -> Self {
        Self {
            query: self.query.or(before.query),
            oneshot: self.oneshot.or(before.oneshot),
            usage_file: self.usage_file.or(before.usage_file),
            model: self.model.or(before.model),
            provider: self.provider.or(before.provider),
            toolsets: self.toolsets.or(before.toolsets),
            quiet: self.quiet || before.quiet,
            verbose: self.verbose || before.verbose,
            resume: self.resume.or(before.resume),
            go_on: self.go_on.or(before.go_on),
            yolo: self.yolo || before.yolo,
            pass_session_id: self.pass_session_id || before.pass_session_id,
            checkpoints: self.checkpoints || before.checkpoints,
            source: self.source.or(before.source),
            max_turns: self.max_turns.or(before.max_turns),
            ignore_rules: self.ignore_rules || before.ignore_rules,
            skills: if self.skills.is_empty() { before.skills } else { self.skills },
            worktree: self.worktree || before.worktree,
            list_tools: self.list_tools || before.list_tools,
            list_toolsets: self.list_toolsets || before.list_toolsets,
            cli: self.cli || before.cli,
            tui: self.tui || before.tui,
        }
    }
}

/// The commands of other releases that this one does not have.
const UNAVAILABLE_COMMANDS: &[&str] = &["batch", "claw", "dashboard", "honcho", "memory", "whatsapp"];

/// Returns the message for an unknown command: how to ask a question, or that the command is not available.
pub(crate) fn unknown_command(error: &clap::Error, first: Option<&str>) -> Option<String> {
    use clap::error::{ContextKind, ContextValue, ErrorKind};
    if error.kind() != ErrorKind::InvalidSubcommand {
        return None;
    }
    let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidSubcommand) else { return None };
    // For subcommands clap's own message is better.
    if first != Some(word.as_str()) {
        return None;
    }
    if UNAVAILABLE_COMMANDS.contains(&word.as_str()) {
        return Some(format!(
            "'hermes {word}' is not available in this release; `hermes --help` lists what is"
        ));
    }
    let near = match error.get(ContextKind::SuggestedSubcommand) {
        Some(ContextValue::Strings(names)) => names.first().cloned(),
        Some(ContextValue::String(name)) => Some(name.clone()),
        _ => None,
    };
    let near = near.map(|name| format!("; did you mean 'hermes {name}'?")).unwrap_or_default();
    Some(format!(
        "unknown command '{word}'{near}\nTo ask something: hermes -q '{word}'\n\n\
         Usage: hermes [OPTIONS] [COMMAND]\nFor more information, try '--help'."
    ))
}

#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct LoginArguments {
    /// nous, openai-codex or copilot
    #[arg(long, default_value = "nous")]
    pub(crate) provider: String,
    /// Nous: URL of the portal
    #[arg(long, value_name = "URL")]
    pub(crate) portal_url: Option<String>,
    /// Nous: URL of the inference API
    #[arg(long, value_name = "URL")]
    pub(crate) inference_url: Option<String>,
    /// Nous: client id
    #[arg(long, value_name = "ID")]
    pub(crate) client_id: Option<String>,
    /// Nous: scope to request
    #[arg(long)]
    pub(crate) scope: Option<String>,
    /// Print the URL instead of opening a browser
    #[arg(long)]
    pub(crate) no_browser: bool,
    /// Seconds to wait for confirmation
    #[arg(long, value_name = "SECONDS")]
    pub(crate) timeout: Option<u64>,
    /// Nous: file with CA certificates to trust
    #[arg(long, value_name = "FILE")]
    pub(crate) ca_bundle: Option<std::path::PathBuf>,
    /// Nous: don't verify certificates
    #[arg(long)]
    pub(crate) insecure: bool,
}

#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct SendArguments {
    /// Target and message; only the message with --to. Reads standard input if the message is omitted
    pub(crate) words: Vec<String>,
    /// A platform, platform:ID or platform:#name
    #[arg(short = 't', long, value_name = "TARGET")]
    pub(crate) to: Option<String>,
    /// Read the message from a file
    #[arg(short, long)]
    pub(crate) file: Option<std::path::PathBuf>,
    /// Subject line to put before the message
    #[arg(short, long, value_name = "LINE")]
    pub(crate) subject: Option<String>,
    /// List known chats
    #[arg(short, long)]
    pub(crate) list: bool,
    /// Print nothing on success
    #[arg(short, long)]
    pub(crate) quiet: bool,
    /// Print the result as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Show the configuration with masked keys
    Show,
    /// Open config.yaml in $EDITOR
    Edit,
    /// Set a value; secrets go to .env, the rest to config.yaml
    Set {
        /// A dotted path such as model.default, or a variable such as OPENROUTER_API_KEY
        key: Option<String>,
        #[arg(allow_hyphen_values = true)]
        value: Option<String>,
    },
    /// Print the effective value
    Get { key: String },
    /// Remove a value from config.yaml
    Unset { key: String },
    /// Print the path of config.yaml
    Path,
    /// Print the path of .env
    EnvPath,
    /// Check for errors and new options
    Check,
    /// Migrate config.yaml to the current version; keeps comments and a backup
    Migrate {
        /// Show the changes without writing them
        #[arg(long)]
        dry_run: bool,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum SessionsCommand {
    /// List the latest sessions
    List {
        /// Include only this source, such as cli or telegram
        #[arg(long)]
        source: Option<String>,
        #[arg(long, default_value_t = 20)]
        limit: usize,
    },
    /// Choose a session from a list and resume it
    Browse {
        /// Include only this source, such as cli or telegram
        #[arg(long)]
        source: Option<String>,
        #[arg(long, default_value_t = 50)]
        limit: usize,
    },
    /// Search all sessions
    Search {
        #[arg(required = true, num_args = 1..)]
        words: Vec<String>,
        #[arg(long, default_value_t = 10)]
        limit: usize,
    },
    /// Export sessions as JSON lines; `-` writes to standard output
    Export {
        file: String,
        #[arg(long)]
        source: Option<String>,
        /// Export one session, by its id or a unique prefix
        #[arg(long)]
        session_id: Option<String>,
    },
    /// Delete a session
    Delete {
        id: String,
        /// Don't ask for confirmation
        #[arg(short, long)]
        yes: bool,
    },
    /// Delete old sessions that have ended
    Prune {
        /// Age in days
        #[arg(long, default_value_t = 90)]
        older_than: u32,
        #[arg(long)]
        source: Option<String>,
        /// Don't ask for confirmation
        #[arg(short, long)]
        yes: bool,
    },
    /// Set the title of a session
    Rename {
        id: String,
        #[arg(required = true, num_args = 1..)]
        title: Vec<String>,
    },
    /// Show totals
    Stats,
}

impl Default for SessionsCommand {
    fn default() -> Self {
        Self::List { source: None, limit: 20 }
    }
}

#[derive(Debug, Default, Subcommand)]
pub(crate) enum DbCommand {
    /// Check the database; changes nothing
    #[default]
    Check,
    /// Back up the database while it is in use
    Backup { file: std::path::PathBuf },
    /// Rescue what can be read from a damaged database
    Repair,
}

const VERSION: &str = concat!("v", env!("CARGO_PKG_VERSION"));

/// Returns the text `version` and `--version` print.
pub(crate) fn version() -> String {
    format!("Hermes Agent {VERSION}")
}

/// Returns the definition of the command line.
pub(crate) fn definition() -> clap::Command {
    Cli::command()
}

/// Tells whether a word is a command.
pub(crate) fn is_command(word: &str) -> bool {
    Cli::command().get_subcommands().any(|command| command.get_name() == word)
}

pub(crate) fn completion(shell: Shell) -> String {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "hermes", &mut script);
    String::from_utf8_lossy(&script).into_owned()
}

#[cfg(test)]
mod tests {
    use super::definition;

    /// Lists what has no description: commands, and arguments that are not named by it.
    fn undescribed(command: &clap::Command, path: &str, found: &mut Vec<String>) {
        let path = format!("{path} {}", command.get_name());
        if command.get_about().is_none() {
            found.push(path.clone());
        }
        for argument in command.get_arguments().filter(|argument| !argument.is_hide_set()) {
            // A positional argument such as NAME tells by its name what it is.
            if argument.get_help().is_none() && !argument.is_positional() {
                found.push(format!("{path} --{}", argument.get_long().unwrap_or_default()));
            }
        }
        for child in command.get_subcommands() {
            undescribed(child, &path, found);
        }
    }

    #[test]
    fn every_command_and_flag_is_described() {
        let mut found = Vec::new();
        undescribed(&definition(), "", &mut found);
        assert!(found.is_empty(), "without a description: {found:#?}");
    }
}
