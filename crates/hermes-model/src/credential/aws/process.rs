//! A program that prints keys.

use hermes_types::Cancel;

use super::super::Means;
use super::super::command::{CommandLine, run_command};
use super::fetch::read_keys;
use super::{Granted, missing};
use crate::client::Unavailable;

/// Runs what a profile names; what it printed is in no error.
pub(super) async fn run(
    means: &Means,
    profile: &str,
    command: &str,
    cancel: &Cancel,
) -> Result<Granted, Unavailable> {
    let failed = |why: &str| missing(&format!("the credential_process of the AWS profile `{profile}` {why}"));
    let line = CommandLine::split(command).ok_or_else(|| failed("cannot be read"))?;
    let printed = run_command(means, &line, cancel).await.map_err(|why| failed(&why.to_string()))?;
    read_keys(&printed).ok_or_else(|| failed("printed no keys"))
}
