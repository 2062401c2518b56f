//! The arguments of `hermes curator`, `hermes bundles`, `/curator` and `/bundles`.

use clap::Subcommand;

#[derive(Debug, Default, Subcommand)]
pub(crate) enum CuratorCommand {
    /// Show when the curator runs, and what it would do
    #[default]
    #[command(after_help = "Example: hermes curator status")]
    Status,
    /// Show how often skills were used
    #[command(after_help = "Example: hermes curator usage")]
    Usage,
    /// Put away skills of the agent that were not used for long, now
    #[command(after_help = "Example: hermes curator run --dry-run")]
    Run {
        /// Show what would be done
        #[arg(long)]
        dry_run: bool,
    },
    /// Keep the curator from running by itself
    #[command(after_help = "Example: hermes curator pause")]
    Pause,
    /// Let the curator run by itself again
    #[command(after_help = "Example: hermes curator resume")]
    Resume,
    /// Keep the curator from putting a skill away
    #[command(after_help = "Example: hermes curator pin deploy")]
    Pin {
        /// Name of the skill
        name: String,
    },
    /// Take the pin off a skill
    #[command(after_help = "Example: hermes curator unpin deploy")]
    Unpin {
        /// Name of the skill
        name: String,
    },
    /// Move a skill to the archive, where it is not offered
    #[command(after_help = "Example: hermes curator archive deploy")]
    Archive {
        /// Name of the skill
        name: String,
    },
    /// Move a skill back from the archive
    #[command(after_help = "Example: hermes curator restore deploy")]
    Restore {
        /// Name of the skill
        name: String,
    },
    /// List the archived skills
    #[command(after_help = "Example: hermes curator list-archived")]
    ListArchived,
    /// Archive all skills of the agent that were not used for some days
    #[command(after_help = "Example: hermes curator prune --days 60 --dry-run")]
    Prune {
        /// Days without use
        #[arg(long, default_value_t = 90)]
        days: u32,
        /// Show what would be done
        #[arg(long)]
        dry_run: bool,
        /// Don't ask for confirmation
        #[arg(short, long)]
        yes: bool,
    },
    /// Copy all skills, so that they can be put back
    #[command(after_help = "Example: hermes curator backup --reason 'before a clean-up'")]
    Backup {
        /// Why the copy is made
        #[arg(long, default_value = "asked for")]
        reason: String,
    },
    /// Put the skills back as they are in a copy; skills it does not have are archived
    #[command(after_help = "Example: hermes curator rollback --list")]
    Rollback {
        /// The copy [default: the latest one]
        id: Option<String>,
        /// List the copies
        #[arg(long)]
        list: bool,
        /// Don't ask for confirmation
        #[arg(short, long)]
        yes: bool,
    },
}

#[derive(Debug, Default, Subcommand)]
pub(crate) enum BundlesCommand {
    /// List the bundles
    #[default]
    #[command(visible_alias = "ls", after_help = "Example: hermes bundles list")]
    List,
    /// Show a bundle
    #[command(after_help = "Example: hermes bundles show release")]
    Show {
        /// Name of the bundle
        name: String,
    },
    /// Write a bundle: several skills under one command
    #[command(after_help = "Example: hermes bundles create release --skills code-review,github-pr-workflow")]
    Create {
        /// Name of the bundle; `/NAME` calls it
        name: String,
        /// Names of the skills
        #[arg(long, required = true, value_delimiter = ',')]
        skills: Vec<String>,
        /// What it is for
        #[arg(long, default_value = "")]
        description: String,
        /// What the model is told besides
        #[arg(long, default_value = "")]
        instruction: String,
        /// Replace a bundle of this name
        #[arg(long)]
        force: bool,
    },
    /// Remove a bundle; its skills stay
    #[command(visible_alias = "rm", after_help = "Example: hermes bundles delete release")]
    Delete {
        /// Name of the bundle
        name: String,
    },
    /// Read the bundles again, and say what is wrong with them
    #[command(after_help = "Example: hermes bundles reload")]
    Reload,
}
