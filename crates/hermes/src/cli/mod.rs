//! The command line: names, help texts and types of every command and flag.

mod care;
mod curator;
mod extensions;
mod honcho;
mod mcp;
mod research;
mod secrets;
mod service;
mod sessions;
mod skills;
mod update;
mod upkeep;

use clap::{CommandFactory, Parser, Subcommand};
use clap_complete::Shell;

pub(crate) use care::{
    AuditLevel, CheckpointsCommand, ClawCommand, ClawPreset, DebugCommand, MatrixCommand, MemoryCommand,
    MemorySelection, MigrateClawArguments, SecurityCommand, SkillConflict, SlackCommand, WhatsAppArguments,
};
pub(crate) use curator::{BundlesCommand, CuratorCommand};
pub(crate) use extensions::{HooksCommand, PluginsCommand};
pub(crate) use honcho::{HonchoCommand, HonchoMode};
pub(crate) use mcp::{McpAddArguments, McpCommand, McpInstallArguments};
pub(crate) use research::{
    BatchAction, BatchArguments, CompressArguments, EnvArguments, JobLaunchArguments, RlArguments,
    SampleCompressArguments, SweRunArguments,
};
pub(crate) use secrets::{BitwardenCommand, OnePasswordCommand, SecretsCommand};
pub(crate) use service::{
    CronCommand, GatewayCommand, GatewayInstallArguments, GatewayRunArguments, GatewayServiceArguments,
    GatewaySetupArguments, GatewayStatusArguments, JobArguments, PairingCommand, SubscribeArguments,
    WebhookCommand,
};
pub(crate) use sessions::{
    ExportArguments, ExportFormat, ExportLineage, ExportedPart, SessionFilterArguments, SessionsCommand,
};
pub(crate) use skills::{
    ListedSkills, PublishTarget, SkillSwitches, SkillsCommand, SnapshotCommand, TapCommand,
};
pub(crate) use update::UpdateArguments;
pub(crate) use upkeep::{
    AuthCommand, BackupArguments, CreateProfileArguments, DoctorArguments, FallbackCommand, ImportArguments,
    InstallProfileArguments, LogsArguments, ProfileCommand, SetupArguments, SetupSection, ToolsCommand,
    UninstallArguments,
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
    #[command(
        after_help = "Examples:\n  hermes chat -q 'What changed in this repository today?'\n  hermes chat -c\n  hermes chat -s plan -w"
    )]
    Chat(ChatArguments),
    /// Show the current model, choose another, or list those there are
    #[command(
        after_help = "Examples:\n  hermes model anthropic/claude-opus-4.6\n  hermes model custom:qwen3:8b\n  \
                            hermes model --list\n  hermes model --list openrouter: --refresh"
    )]
    Model(ModelArguments),
    /// Sign in to a provider with a device code
    Login(LoginArguments),
    /// Sign out of a provider
    #[command(after_help = "Example: hermes logout --provider nous")]
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
    #[command(after_help = "Example: hermes dump > report.md")]
    Dump,
    /// Show and remove the checkpoints that /rollback uses
    Checkpoints {
        #[command(subcommand)]
        command: Option<CheckpointsCommand>,
    },
    /// Show what the agent remembers, or let it forget
    Memory {
        #[command(subcommand)]
        command: Option<MemoryCommand>,
    },
    /// Take keys from a secret manager instead of .env
    Secrets {
        #[command(subcommand)]
        command: SecretsCommand,
    },
    /// Check the installation for what others could use
    Security {
        #[command(subcommand)]
        command: SecurityCommand,
    },
    /// Write a report for support to a file
    Debug {
        #[command(subcommand)]
        command: DebugCommand,
    },
    /// Help with the set-up of a Slack app
    Slack {
        #[command(subcommand)]
        command: SlackCommand,
    },
    /// Verify devices of Matrix
    Matrix {
        #[command(subcommand)]
        command: MatrixCommand,
    },
    /// Link a phone to WhatsApp, with a QR code
    #[command(name = "whatsapp")]
    WhatsApp(WhatsAppArguments),
    /// Take over what an OpenClaw installation has
    Claw {
        #[command(subcommand)]
        command: ClawCommand,
    },
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
    #[command(after_help = "Example: hermes insights --days 7 --source telegram")]
    Insights {
        /// Number of days to include
        #[arg(long, default_value_t = 30)]
        days: u32,
        /// Include only this source
        #[arg(long)]
        source: Option<String>,
    },
    /// Show what is set up: model, keys, platforms, gateway, jobs
    #[command(after_help = "Example: hermes status --deep")]
    Status {
        /// Include providers and keys that are not set
        #[arg(long)]
        all: bool,
        /// Also check whether the model's provider and the API server respond
        #[arg(long)]
        deep: bool,
    },
    /// Show the size of the prompt by layer and tool
    #[command(after_help = "Example: hermes prompt-size --platform telegram")]
    PromptSize {
        /// Platform, such as cli or telegram
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
    #[command(after_help = "Example: hermes acp")]
    Acp,
    /// Run the agent over a dataset of prompts and write training data
    Batch(Box<BatchArguments>),
    /// Shorten trajectories: turns in the middle are replaced by a summary
    Compress(CompressArguments),
    /// Train models with an agent that has the tools for it
    Rl(RlArguments),
    /// Draw long trajectories from several datasets and shorten them
    SampleCompress(SampleCompressArguments),
    /// Let a model solve software tasks with a terminal, and write training data
    SweRun(Box<SweRunArguments>),
    /// Run an environment for reinforcement learning: for a trainer, for files, or as an evaluation
    Env(EnvArguments),
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
    /// Use Honcho as the memory service, and change its settings
    Honcho {
        #[command(subcommand)]
        command: Option<HonchoCommand>,
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
    Update(UpdateArguments),
    /// Print a completion script for a shell
    #[command(
        after_help = "Examples:\n  hermes completion bash >> ~/.bashrc\n  hermes completion fish > ~/.config/fish/completions/hermes.fish"
    )]
    Completion {
        /// bash, zsh, fish, elvish or powershell
        #[arg(default_value = "bash")]
        shell: Shell,
    },
    /// Print the words that can stand at the end of a command line, for completion scripts
    #[command(hide = true)]
    CompleteWords {
        /// Words that were typed, the one at the cursor last
        #[arg(last = true)]
        words: Vec<String>,
    },
    /// Write the manual pages to a folder, or print the one of a command
    #[command(after_help = "Examples:\n  hermes man chat\n  hermes man --output ~/.local/share/man/man1")]
    Man {
        /// Folder to write all pages to
        #[arg(long, value_name = "FOLDER")]
        output: Option<std::path::PathBuf>,
        /// Print a page of the reference: `commands` or `slash-commands`
        #[arg(long, hide = true, value_name = "PAGE", conflicts_with_all = ["output", "command"])]
        reference: Option<String>,
        /// Command to print the page of [default: hermes itself]
        command: Option<String>,
    },
    /// Print the version
    #[command(after_help = "Example: hermes version")]
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
    /// Use the defaults instead of config.yaml; keys in .env still count
    #[arg(long)]
    pub(crate) ignore_user_config: bool,
    /// Leave out everything of your own: config.yaml, context files, memory, skills, plugins, hooks and MCP servers
    #[arg(long)]
    pub(crate) safe_mode: bool,
    /// Resume in this folder, not in the one the session worked in
    #[arg(long)]
    pub(crate) no_restore_cwd: bool,
    /// Skills that are in force for the whole session; several with commas
    #[arg(short, long, value_delimiter = ',')]
    pub(crate) skills: Vec<String>,
    /// Attach a picture to the question, or to the first message; may be given several times
    #[arg(long = "image", value_name = "PATH")]
    pub(crate) images: Vec<String>,
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
    /// Accepted for compatibility; there is one screen, and nothing of it to build
    #[arg(long, hide = true)]
    pub(crate) dev: bool,
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
            ignore_user_config: self.ignore_user_config || before.ignore_user_config,
            safe_mode: self.safe_mode || before.safe_mode,
            no_restore_cwd: self.no_restore_cwd || before.no_restore_cwd,
            skills: if self.skills.is_empty() { before.skills } else { self.skills },
            images: if self.images.is_empty() { before.images } else { self.images },
            worktree: self.worktree || before.worktree,
            list_tools: self.list_tools || before.list_tools,
            list_toolsets: self.list_toolsets || before.list_toolsets,
            cli: self.cli || before.cli,
            tui: self.tui || before.tui,
            dev: self.dev || before.dev,
        }
    }
}

impl CliCommand {
    /// Tells whether the command uses keys, so that those of secret managers have to be there.
    pub(crate) fn uses_keys(&self) -> bool {
        matches!(
            self,
            Self::Chat(_)
                | Self::Model(_)
                | Self::Doctor(_)
                | Self::Status { .. }
                | Self::Send(_)
                | Self::Acp
                | Self::Batch(_)
                | Self::Compress(_)
                | Self::Env(_)
                | Self::Rl(_)
                | Self::SampleCompress(_)
                | Self::SweRun(_)
                | Self::Mcp { .. }
                | Self::Gateway { command: None | Some(GatewayCommand::Run(_) | GatewayCommand::Restart(_)) }
                | Self::Cron { command: Some(CronCommand::Tick) }
        )
    }
}

/// The commands of other releases that this one does not have.
const UNAVAILABLE_COMMANDS: &[&str] = &["dashboard"];

/// Returns the message for an unknown command: the nearest one, how to ask a question, or that the command is not
/// available. `words` are the arguments that are not flags.
pub(crate) fn unknown_command(error: &clap::Error, words: &[String]) -> Option<String> {
    use clap::error::{ContextKind, ContextValue, ErrorKind};
    if error.kind() != ErrorKind::InvalidSubcommand {
        return None;
    }
    let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidSubcommand) else { return None };
    let at = words.iter().position(|other| other == word)?;
    let above: Vec<&str> = std::iter::once("").chain(words.iter().take(at).map(String::as_str)).collect();
    let path = above.join(" ");
    if at == 0 && UNAVAILABLE_COMMANDS.contains(&word.as_str()) {
        return Some(format!(
            "'hermes {word}' is not available in this release; `hermes --help` lists what is"
        ));
    }
    let near = match error.get(ContextKind::SuggestedSubcommand) {
        // The last one is the most similar.
        Some(ContextValue::Strings(names)) => names.last().cloned(),
        Some(ContextValue::String(name)) => Some(name.clone()),
        _ => None,
    };
    let near = near.map(|name| format!("; did you mean 'hermes{path} {name}'?")).unwrap_or_default();
    let ask = if at == 0 { format!("To ask something: hermes -q '{word}'\n\n") } else { String::new() };
    let usage = if at == 0 { " [OPTIONS] [COMMAND]".to_owned() } else { format!("{path} [COMMAND]") };
    Some(format!(
        "unknown command 'hermes{path} {word}'{near}\n{ask}Usage: hermes{usage}\n\
         For more information, try 'hermes{path} --help'."
    ))
}

#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct ModelArguments {
    /// Model name or provider:model; shows the current model if omitted
    pub(crate) name: Option<String>,
    /// List the models of the provider; NAME selects a provider, as in `openrouter:`
    #[arg(short, long)]
    pub(crate) list: bool,
    /// Ask the provider for its models now instead of using a list of the last hour
    #[arg(long)]
    pub(crate) refresh: bool,
    /// Address of an OpenAI-compatible server, such as Ollama, that has the model (provider custom)
    #[arg(long, value_name = "URL", requires = "name", conflicts_with = "list")]
    pub(crate) base_url: Option<String>,
    #[command(flatten)]
    pub(crate) sign_in: SignInArguments,
}

#[derive(Debug, Clone, Default, clap::Args)]
#[command(after_help = "Examples:\n  hermes login\n  hermes login --provider openai-codex --no-browser")]
pub(crate) struct LoginArguments {
    /// nous, openai-codex or copilot
    #[arg(long, default_value = "nous")]
    pub(crate) provider: String,
    #[command(flatten)]
    pub(crate) sign_in: SignInArguments,
}

/// How to sign in to a provider.
#[derive(Debug, Clone, Default, PartialEq, Eq, clap::Args)]
#[command(next_help_heading = "Sign-in")]
pub(crate) struct SignInArguments {
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
#[command(after_help = "Examples:\n  hermes send telegram 'The backup is done'\n  \
                        hermes send --to slack:#ops --subject CI -f build.log\n  hermes send --list")]
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
    #[command(after_help = "Example: hermes config show")]
    Show,
    /// Open config.yaml in $EDITOR
    #[command(after_help = "Example: hermes config edit")]
    Edit,
    /// Set a value; secrets go to .env, the rest to config.yaml
    #[command(after_help = "Examples:\n  hermes config set model.default anthropic/claude-opus-4.6\n  \
                            hermes config set OPENROUTER_API_KEY sk-or-…")]
    Set {
        /// A dotted path such as model.default, or a variable such as OPENROUTER_API_KEY
        key: Option<String>,
        /// New value; lists and sections as JSON
        #[arg(allow_hyphen_values = true)]
        value: Option<String>,
        /// Write the value even if it cannot be used, also in the place of another kind of value
        #[arg(long)]
        force: bool,
    },
    /// Print the effective value
    #[command(after_help = "Example: hermes config get terminal --json")]
    Get {
        /// A dotted path such as model.default, or a variable such as WEBHOOK_PORT
        key: String,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Remove a value from config.yaml
    #[command(after_help = "Example: hermes config unset model.base_url")]
    Unset {
        /// A dotted path such as model.default, or a variable such as OPENROUTER_API_KEY
        key: String,
    },
    /// Print the path of config.yaml
    #[command(after_help = "Example: hermes config path")]
    Path,
    /// Print the path of .env
    #[command(after_help = "Example: hermes config env-path")]
    EnvPath,
    /// Check for errors and new options
    #[command(after_help = "Example: hermes config check")]
    Check,
    /// Migrate config.yaml to the current version; keeps comments and a backup
    #[command(after_help = "Example: hermes config migrate --dry-run")]
    Migrate {
        /// Show the changes without writing them
        #[arg(long)]
        dry_run: bool,
    },
}

#[derive(Debug, Default, Subcommand)]
pub(crate) enum DbCommand {
    /// Check the database; changes nothing
    #[command(after_help = "Example: hermes db check")]
    #[default]
    Check,
    /// Back up the database while it is in use
    #[command(after_help = "Example: hermes db backup /mnt/usb/state.db")]
    Backup {
        /// File to write
        file: std::path::PathBuf,
    },
    /// Rescue what can be read from a damaged database
    #[command(after_help = "Example: hermes db repair")]
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

/// Returns the flags of a command that take no value.
pub(crate) fn switches_of(command: &str) -> Vec<String> {
    let definition = Cli::command();
    let Some(command) = definition.find_subcommand(command) else { return Vec::new() };
    let all = command.get_arguments().chain(command.get_subcommands().flat_map(clap::Command::get_arguments));
    let switches = all.filter(|argument| matches!(argument.get_action(), clap::ArgAction::SetTrue));
    switches.filter_map(|argument| argument.get_long().map(str::to_owned)).collect()
}

#[cfg(test)]
mod tests;
