//! Long series of tests, each by one command.

use std::process::{Command, ExitCode};

use anyhow::Result;

use crate::workspace;

/// The tests that attack the sandbox, the file tools and the judge of commands.
const ATTACKS: &str = "package(hermes-guard) | (package(hermes-exec) & test(/escape|sandbox|planted_files|sockets|builds/)) | \
                       (package(hermes-tools) & test(/sandbox|secret/))";

/// Runs two hundred conversations over all platforms with faults and kills, for each seed in a range such as `1..4`.
pub(crate) fn chaos(seeds: Option<&str>) -> Result<ExitCode> {
    let arguments =
        ["test", "-p", "hermes", "--test", "all", "two_hundred", "--", "--ignored", "--nocapture"];
    cargo(&arguments, &[("CHAOS_SEEDS", seeds.unwrap_or("1..2"))])
}

pub(crate) fn red_team() -> Result<ExitCode> {
    cargo(&["nextest", "run", "--workspace", "-E", ATTACKS], &[])
}

#[expect(clippy::disallowed_methods, reason = "a chore runs cargo; the product is not involved")]
fn cargo(arguments: &[&str], variables: &[(&str, &str)]) -> Result<ExitCode> {
    let ended = Command::new(env!("CARGO"))
        .args(arguments)
        .envs(variables.iter().copied())
        .current_dir(workspace::root())
        .status()?;
    Ok(if ended.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
