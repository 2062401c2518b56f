//! The commands that look into an installation: checkpoints, memory, security, reports, the manifest of a Slack app.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

#[derive(Debug, Clone, Copy, Subcommand)]
pub(crate) enum CheckpointsCommand {
    /// Show the projects with checkpoints and the space they take
    #[command(visible_alias = "list", after_help = "Example: hermes checkpoints status --limit 5")]
    Status {
        /// Number of projects
        #[arg(long, value_name = "N", default_value_t = 20)]
        limit: usize,
    },
    /// Remove checkpoints of projects that are gone, unused for long, or beyond the total size
    #[command(after_help = "Example: hermes checkpoints prune --retention-days 3 --max-size-mb 200")]
    Prune {
        /// Days since the last checkpoint of a project
        #[arg(long, value_name = "N", default_value_t = 7)]
        retention_days: u32,
        /// Total size; the least recently used projects are removed first
        #[arg(long, value_name = "N", default_value_t = 500)]
        max_size_mb: u64,
        /// Keep checkpoints of projects whose folder is gone
        #[arg(long)]
        keep_orphans: bool,
    },
    /// Remove all checkpoints
    #[command(after_help = "Example: hermes checkpoints clear -f")]
    Clear {
        /// Don't ask for confirmation
        #[arg(short, long)]
        force: bool,
    },
    /// Remove archives of an older format that other releases kept
    #[command(after_help = "Example: hermes checkpoints clear-legacy -f")]
    ClearLegacy {
        /// Don't ask for confirmation
        #[arg(short, long)]
        force: bool,
    },
}

impl Default for CheckpointsCommand {
    fn default() -> Self {
        Self::Status { limit: 20 }
    }
}

/// A file of the built-in memory.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum MemorySelection {
    #[default]
    All,
    /// MEMORY.md: notes of the agent
    Memory,
    /// USER.md: facts about you
    User,
}

#[derive(Debug, Clone, Default, Subcommand)]
pub(crate) enum MemoryCommand {
    /// Show how full the files are, and which memory is in use
    #[command(after_help = "Example: hermes memory status")]
    #[default]
    Status,
    /// Choose a memory service, such as Honcho or Mem0
    #[command(
        after_help = "Examples:\n  hermes memory setup\n  hermes memory setup mem0\n  hermes memory setup hindsight --url http://localhost:8888"
    )]
    Setup {
        /// The service; asked for if it is left out
        service: Option<String>,
        /// The key of the service; asked for if it is left out
        #[arg(long, value_name = "KEY")]
        key: Option<String>,
        /// The address of a server of your own
        #[arg(long, value_name = "URL")]
        url: Option<String>,
    },
    /// Print what is remembered
    #[command(after_help = "Examples:\n  hermes memory show\n  hermes memory show user --person telegram:42")]
    Show {
        /// What to print
        #[arg(value_enum, default_value_t)]
        target: MemorySelection,
        /// Whose profile is meant, by an account such as telegram:42; yours if it is left out
        #[arg(long, value_name = "ACCOUNT")]
        person: Option<String>,
    },
    /// Open a file in $EDITOR; a text that is too long, or holds orders to the agent, is not saved
    #[command(after_help = "Example: hermes memory edit user")]
    Edit {
        /// The file to edit
        #[arg(value_enum, default_value = "memory")]
        target: MemorySelection,
        /// Whose profile is meant, by an account such as telegram:42; yours if it is left out
        #[arg(long, value_name = "ACCOUNT")]
        person: Option<String>,
    },
    /// Find what was said earlier, as the agent does before each turn
    #[command(after_help = "Example: hermes memory search dentist")]
    Search {
        /// The words to look for
        #[arg(required = true)]
        words: Vec<String>,
    },
    /// List the changes to the files
    #[command(after_help = "Example: hermes memory log --limit 5")]
    Log {
        /// The number of changes to list
        #[arg(long, default_value_t = 20)]
        limit: usize,
        /// Whose profile is meant, by an account such as telegram:42; yours if it is left out
        #[arg(long, value_name = "ACCOUNT")]
        person: Option<String>,
    },
    /// Take back a change; the newest if none is named
    #[command(after_help = "Example: hermes memory undo 12")]
    Undo {
        /// The number of the change, from `hermes memory log`
        number: Option<u64>,
        /// Whose profile is meant, by an account such as telegram:42; yours if it is left out
        #[arg(long, value_name = "ACCOUNT")]
        person: Option<String>,
    },
    /// Merge notes that say the same, and mark those that a later one contradicts
    #[command(
        after_help = "Examples:\n  hermes memory consolidate --dry-run\n  hermes memory consolidate --yes"
    )]
    Consolidate {
        /// Print what would be changed, and change nothing
        #[arg(long)]
        dry_run: bool,
        /// Don't ask for confirmation
        #[arg(short, long)]
        yes: bool,
    },
    /// Forget what is remembered; the files are kept with the ending .before-reset
    #[command(after_help = "Example: hermes memory reset --target user")]
    Reset {
        /// What to forget
        #[arg(long, value_enum, default_value_t)]
        target: MemorySelection,
        /// Don't ask for confirmation
        #[arg(short, long)]
        yes: bool,
    },
    /// Use no external memory service; the built-in memory stays
    #[command(after_help = "Example: hermes memory off")]
    Off,
}

/// How bad a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(crate) enum AuditLevel {
    Low,
    Moderate,
    High,
    Critical,
}

#[derive(Debug, Clone, Copy, Subcommand)]
pub(crate) enum SecurityCommand {
    /// Check settings, files, skills and MCP servers for what others could use
    #[command(
        after_help = "Examples:\n  hermes security audit\n  hermes security audit --json --fail-on high"
    )]
    Audit {
        /// Print JSON
        #[arg(long)]
        json: bool,
        /// Exit with 1 if a finding is at least this bad
        #[arg(long, value_enum, value_name = "LEVEL", default_value = "critical")]
        fail_on: AuditLevel,
        /// Don't check MCP servers
        #[arg(long)]
        skip_mcp: bool,
        /// Don't scan skills
        #[arg(long)]
        skip_skills: bool,
    },
}

#[derive(Debug, Clone, Subcommand)]
pub(crate) enum DebugCommand {
    /// Write a report for support to a file, without secrets and conversations; nothing is uploaded
    #[command(
        after_help = "Examples:\n  hermes debug share\n  hermes debug share --lines 500 -o report.md\n  \
                            hermes debug share --local"
    )]
    Share {
        /// Number of lines of each log
        #[arg(long, value_name = "N", default_value_t = 200)]
        lines: usize,
        /// File to write [default: hermes-debug-DATE.md in this folder]
        #[arg(short, long, value_name = "FILE")]
        output: Option<PathBuf>,
        /// Print the report instead
        #[arg(long, conflicts_with = "output")]
        local: bool,
    },
}

#[derive(Debug, Clone, Args)]
#[command(after_help = "Examples:\n  hermes whatsapp\n  hermes whatsapp --mode bot --allow 4915112345678")]
pub(crate) struct WhatsAppArguments {
    /// self-chat: the agent shares your number; bot: it has its own
    #[arg(long, value_name = "MODE")]
    pub(crate) mode: Option<String>,
    /// Numbers that may talk to it: country code and digits, comma separated
    #[arg(long, value_name = "NUMBERS")]
    pub(crate) allow: Option<String>,
    /// Show a code to type on this phone, in place of a QR code
    #[arg(long, value_name = "NUMBER")]
    pub(crate) phone: Option<String>,
    /// Link again where a phone is linked already
    #[arg(long)]
    pub(crate) again: bool,
}

#[derive(Debug, Clone, Copy, Subcommand)]
pub(crate) enum MatrixCommand {
    /// Compare the emoji of a device that wants to be verified with those it shows
    #[command(after_help = "Examples:\n  hermes matrix verify\n  hermes matrix verify --yes")]
    Verify {
        /// Confirm that both sides show the same
        #[arg(short, long, conflicts_with = "no")]
        yes: bool,
        /// Say that they differ, which ends the verification
        #[arg(long)]
        no: bool,
    },
}

#[derive(Debug, Clone, Subcommand)]
#[expect(clippy::option_option, reason = "a flag that may have a value")]
pub(crate) enum SlackCommand {
    /// Print the manifest of a Slack app with every command of Hermes
    #[command(after_help = "Examples:\n  hermes slack manifest\n  hermes slack manifest --write\n  \
                            hermes slack manifest --slashes-only")]
    Manifest {
        /// Write it to a file [default: slack-manifest.json in the home]
        #[arg(long, value_name = "FILE")]
        write: Option<Option<PathBuf>>,
        /// Name of the bot
        #[arg(long, default_value = "Hermes")]
        name: String,
        /// Short description of the bot
        #[arg(long, value_name = "TEXT", default_value = "A personal AI agent")]
        description: String,
        /// Long description, 175 to 4,000 characters
        #[arg(long, value_name = "TEXT")]
        long_description: Option<String>,
        /// File with the long description
        #[arg(long, value_name = "FILE", conflicts_with = "long_description")]
        long_description_file: Option<PathBuf>,
        /// Print only the list of slash commands
        #[arg(long, conflicts_with_all = ["long_description", "long_description_file"])]
        slashes_only: bool,
    },
}

/// What is taken over from OpenClaw.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum ClawPreset {
    /// Persona, memory, skills and settings
    #[default]
    Full,
    /// Persona, memory and skills
    UserData,
}

/// What happens to a skill whose name is taken.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum SkillConflict {
    /// Keep the present skill
    #[default]
    Skip,
    /// Replace the present skill
    Overwrite,
    /// Add the other one as NAME-imported
    Rename,
}

#[derive(Debug, Clone, Subcommand)]
pub(crate) enum ClawCommand {
    /// Show what can be taken over, and take it over after a confirmation
    #[command(
        after_help = "Examples:\n  hermes claw migrate --dry-run\n  hermes claw migrate --preset user-data -y\n  \
                            hermes claw migrate --source /mnt/old/.openclaw --migrate-secrets"
    )]
    Migrate(MigrateClawArguments),
}

#[derive(Debug, Clone, Default, clap::Args)]
#[expect(clippy::struct_excessive_bools, reason = "one field per flag")]
pub(crate) struct MigrateClawArguments {
    /// Folder of OpenClaw [default: ~/.openclaw, ~/.clawdbot or ~/.moltbot]
    #[arg(long, value_name = "FOLDER")]
    pub(crate) source: Option<PathBuf>,
    /// Show what would be taken over, and change nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// What to take over
    #[arg(long, value_enum, default_value_t)]
    pub(crate) preset: ClawPreset,
    /// Replace files and settings that exist
    #[arg(long)]
    pub(crate) overwrite: bool,
    /// Also take over keys and tokens
    #[arg(long)]
    pub(crate) migrate_secrets: bool,
    /// Don't back up the home first
    #[arg(long)]
    pub(crate) no_backup: bool,
    /// Folder to put AGENTS.md into
    #[arg(long, value_name = "FOLDER")]
    pub(crate) workspace_target: Option<PathBuf>,
    /// What to do about a skill whose name is taken
    #[arg(long, value_enum, default_value_t)]
    pub(crate) skill_conflict: SkillConflict,
    /// Don't ask for confirmation
    #[arg(short, long)]
    pub(crate) yes: bool,
}
