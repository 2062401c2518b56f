//! The arguments of `hermes update`.

use clap::Args;

#[derive(Debug, Clone, Default, Args)]
#[expect(clippy::struct_excessive_bools, reason = "one field per flag")]
#[command(
    after_help = "Examples:\n  hermes update --check\n  hermes update --backup\n  hermes update --branch v2026.11.1"
)]
pub(crate) struct UpdateArguments {
    /// Tell whether there is an update, and change nothing
    #[arg(long)]
    pub(crate) check: bool,
    /// Back up the whole home first, not only settings, keys, memory, skills and jobs
    #[arg(long)]
    pub(crate) backup: bool,
    /// Back up nothing first
    #[arg(long, conflicts_with = "backup")]
    pub(crate) no_backup: bool,
    /// Don't ask: migrate the configuration if the new release has a newer version of it
    #[arg(short, long)]
    pub(crate) yes: bool,
    /// Branch or tag to install, now and with later updates
    #[arg(long, value_name = "REF")]
    pub(crate) branch: Option<String>,
    /// Install releases without a signature, checked by their checksums alone, now and with later updates
    #[arg(long)]
    pub(crate) allow_unsigned: bool,
    /// Check the new program, which the installer has put beside this one, and put it in place
    #[arg(long, hide = true, conflicts_with = "installed")]
    pub(crate) staged: bool,
    /// Finish an update after the new program is in place
    #[arg(long, hide = true)]
    pub(crate) installed: bool,
}
