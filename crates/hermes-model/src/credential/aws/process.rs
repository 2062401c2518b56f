//! Runs a program that prints keys.

use hermes_types::Cancel;

use super::super::CredentialContext;
use super::super::command::{ProgramInvocation, run_command};
use super::fetch::read_keys;
use super::{TemporaryKeys, unavailable_error};
use crate::client::CredentialUnavailable;

/// Runs the program that a profile names; no error contains its output.
pub(super) async fn run(
    means: &CredentialContext,
    profile: &str,
    command: &str,
    cancel: &Cancel,
) -> Result<TemporaryKeys, CredentialUnavailable> {
    let failed = |why: &str| {
        unavailable_error(&format!("the credential_process of the AWS profile `{profile}` {why}"))
    };
    let line = ProgramInvocation::split(command).ok_or_else(|| failed("cannot be read"))?;
    let printed = run_command(means, &line, cancel).await.map_err(|why| failed(&why.to_string()))?;
    read_keys(&printed).ok_or_else(|| failed("printed no keys"))
}
