//! `hermes pairing`: manages which users may talk to the agent.

use std::process::ExitCode;

use anyhow::Result;
use hermes_gateway::pairing::{PairingResult, PairingStore};

use crate::cli::PairingCommand;
use crate::context::{ProgramContext, now};
use crate::output::Console;

pub(crate) fn run(command: &PairingCommand, context: &ProgramContext, output: &Console) -> Result<ExitCode> {
    let pairing = PairingStore::new(&context.home);
    match command {
        PairingCommand::List => list(&pairing, output),
        PairingCommand::Approve { platform, code } => {
            let platform = platform.to_lowercase();
            match pairing.approve(&platform, code, now())? {
                PairingResult::Approved { user_id, user_name } => {
                    let name = user_name.map(|name| format!(" ({name})")).unwrap_or_default();
                    output.line(&format!("✓ Approved {user_id}{name} on {platform}"));
                }
                PairingResult::UnknownCode => {
                    output.error(&format!(
                        "the code is not known or has run out on {platform}; `hermes pairing list` shows those that wait"
                    ));
                }
                PairingResult::LockedOut => {
                    output.error(&format!("too many wrong codes on {platform}; try again in an hour"));
                    return Ok(ExitCode::FAILURE);
                }
            }
        }
        PairingCommand::Revoke { platform, user_id } => {
            let platform = platform.to_lowercase();
            if !pairing.revoke(&platform, user_id)? {
                output.error(&format!("{user_id} is not approved on {platform}"));
                return Ok(ExitCode::SUCCESS);
            }
            output.line(&format!("✓ Revoked {user_id} on {platform}"));
        }
        PairingCommand::ClearPending => {
            output.line(&format!("✓ Cleared {} pending request(s)", pairing.clear_pending(now())?));
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn list(pairing: &PairingStore, output: &Console) {
    let (pending, approved) = (pairing.pending(now()), pairing.approved());
    if pending.is_empty() && approved.is_empty() {
        output.line("No pending or approved users.");
        return;
    }
    if !pending.is_empty() {
        output.line("Pending:");
        for (platform, code, request) in pending {
            let minutes = now().since(hermes_types::Timestamp(request.created_at)).as_secs() / 60;
            let name = request.user_name.unwrap_or_default();
            output.line(&format!(
                "  {platform:<12} {code:<10} {:<20} {name:<20} {minutes} min ago",
                request.user_id
            ));
        }
    }
    if !approved.is_empty() {
        output.line("Approved:");
        for (platform, id, person) in approved {
            output.line(&format!("  {platform:<12} {id:<20} {}", person.user_name.unwrap_or_default()));
        }
    }
}
