//! The command line of `hermes skills` and `/skills`.

use clap::{Args, Subcommand};

#[derive(Debug, Subcommand)]
pub(crate) enum SkillsCommand {
    /// List the installed skills
    #[command(after_help = "Example: hermes skills list --source local")]
    List {
        /// Which of them
        #[arg(long, value_enum, default_value = "all")]
        source: ListedSkills,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Search the registries
    #[command(after_help = "Example: hermes skills search pdf --limit 5")]
    Search {
        /// Words to search for
        #[arg(required = true, num_args = 1..)]
        query: Vec<String>,
        /// Ask only this registry
        #[arg(long, value_name = "REGISTRY")]
        source: Option<String>,
        /// Number of results
        #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u16).range(1..=100))]
        limit: u16,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// List what the registries have, page by page
    #[command(after_help = "Example: hermes skills browse --source official --page 2")]
    Browse {
        /// Page to show
        #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..))]
        page: u16,
        /// Skills on a page
        #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u16).range(1..=100))]
        size: u16,
        /// all, official, skills-sh, well-known, github, clawhub, claude-marketplace or lobehub
        #[arg(long, default_value = "all", value_name = "REGISTRY")]
        source: String,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Show a skill before it is installed
    #[command(after_help = "Example: hermes skills inspect openai/skills/skills/pdf")]
    Inspect {
        /// Identifier, as `hermes skills search` lists it
        id: String,
    },
    /// Install a skill: from a registry, a repository, an address, a folder or a zip file
    #[command(after_help = INSTALL_EXAMPLES)]
    Install {
        /// Identifier, owner/repo/path, address, folder or zip file
        id: String,
        /// Folder to install it into
        #[arg(long)]
        category: Option<String>,
        /// Install it although it is installed, or although the scanner objects
        #[arg(long)]
        force: bool,
        /// Don't ask for confirmation
        #[arg(short, long)]
        yes: bool,
        /// Name of a skill that does not say its own
        #[arg(long)]
        name: Option<String>,
    },
    /// Check installed skills for updates
    #[command(after_help = "Example: hermes skills check")]
    Check {
        /// Name of the skill [default: all]
        name: Option<String>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Update installed skills
    #[command(after_help = "Example: hermes skills update pdf")]
    Update {
        /// Name of the skill [default: all]
        name: Option<String>,
    },
    /// Scan installed skills again; changes nothing
    #[command(after_help = "Example: hermes skills audit")]
    Audit {
        /// Name of the skill [default: all]
        name: Option<String>,
    },
    /// Remove a skill that came from a registry
    #[command(after_help = "Example: hermes skills uninstall pdf")]
    Uninstall {
        /// Name of the skill
        name: String,
        /// Don't ask for confirmation
        #[arg(short, long)]
        yes: bool,
    },
    /// Offer a skill to a repository, as a pull request
    #[command(after_help = "Example: hermes skills publish devops/deploy --repo owner/skills")]
    Publish {
        /// Folder of the skill; relative to the home's skills
        path: String,
        /// Where to publish it
        #[arg(long, value_enum, default_value = "github")]
        to: PublishTarget,
        /// Repository to offer it to
        #[arg(long, value_name = "OWNER/REPO")]
        repo: Option<String>,
    },
    /// Save the list of installed skills, or install such a list
    #[command(after_help = "Example: hermes skills snapshot export skills.json")]
    Snapshot {
        #[command(subcommand)]
        command: SnapshotCommand,
    },
    /// Manage repositories that are searched for skills
    #[command(after_help = "Example: hermes skills tap add owner/skills")]
    Tap {
        #[command(subcommand)]
        command: Option<TapCommand>,
    },
    /// Choose which skills are offered
    #[command(after_help = "Example: hermes skills config --disable excalidraw --platform telegram")]
    Config(SkillSwitches),
    /// Undo the last change that the agent made to a skill
    #[command(after_help = "Example: hermes skills undo deploy")]
    Undo {
        /// Name of the skill
        name: String,
    },
    /// List the changes that the agent made to a skill
    #[command(after_help = "Example: hermes skills history deploy")]
    History {
        /// Name of the skill
        name: String,
    },
    /// List skills of the agent that were not used lately
    #[command(after_help = "Example: hermes skills stale --days 60")]
    Stale {
        /// Days without use
        #[arg(long, default_value_t = 30)]
        days: u32,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Move a skill to skills/.archive, where it is not offered
    #[command(after_help = "Example: hermes skills archive deploy")]
    Archive {
        /// Name of the skill
        name: String,
    },
    /// List the bundled skills that you changed
    #[command(after_help = "Example: hermes skills list-modified")]
    ListModified {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Show what you changed in a bundled skill
    #[command(after_help = "Example: hermes skills diff plan")]
    Diff {
        /// Name of the skill
        name: String,
    },
    /// Forget that a bundled skill was installed
    #[command(after_help = "Example: hermes skills reset plan --restore")]
    Reset {
        /// Name of the skill
        name: String,
        /// Put the bundled copy in its place at once
        #[arg(long)]
        restore: bool,
    },
    /// Install no further bundled skills
    #[command(after_help = "Example: hermes skills opt-out")]
    OptOut,
    /// Install bundled skills again
    #[command(after_help = "Example: hermes skills opt-in")]
    OptIn,
}

/// The text after the help of the command group.
pub(super) const EXIT_CODES: &str =
    "Exit codes: 0, also when the output says that something could not be done; 2 usage error.";
const INSTALL_EXAMPLES: &str = "Examples: hermes skills install pdf\n          \
                                hermes skills install owner/repo/skills/pdf --category documents\n          \
                                hermes skills install ./my-skill";

impl Default for SkillsCommand {
    fn default() -> Self {
        Self::List { source: ListedSkills::All, json: false }
    }
}

/// The installed skills to list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum ListedSkills {
    All,
    Hub,
    Builtin,
    Local,
}

/// Where a skill is published.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum PublishTarget {
    Github,
    Clawhub,
}

#[derive(Debug, Subcommand)]
pub(crate) enum SnapshotCommand {
    /// Write the list; `-` writes to standard output
    #[command(after_help = "Example: hermes skills snapshot export skills.json")]
    Export {
        /// File to write
        file: String,
    },
    /// Install what a list names
    #[command(after_help = "Example: hermes skills snapshot import skills.json")]
    Import {
        /// File that `hermes skills snapshot export` wrote
        file: String,
        /// Install skills again that are installed
        #[arg(long)]
        force: bool,
    },
}

#[derive(Debug, Default, Subcommand)]
pub(crate) enum TapCommand {
    /// List the repositories
    #[command(after_help = "Example: hermes skills tap list")]
    #[default]
    List,
    /// Add a repository
    #[command(after_help = "Example: hermes skills tap add owner/skills")]
    Add {
        /// Repository, as owner/name
        repo: String,
    },
    /// Remove a repository
    #[command(after_help = "Example: hermes skills tap remove owner/skills")]
    Remove {
        /// Repository, as owner/name
        repo: String,
    },
}

#[derive(Debug, Clone, Default, Args)]
pub(crate) struct SkillSwitches {
    /// Skills not to offer
    #[arg(long, value_name = "NAME")]
    pub(crate) disable: Vec<String>,
    /// Skills to offer again
    #[arg(long, value_name = "NAME")]
    pub(crate) enable: Vec<String>,
    /// Only on this platform, such as telegram
    #[arg(long)]
    pub(crate) platform: Option<String>,
}
