//! Renewals that complete even if the waiting task is dropped.
//!
//! A refresh token works once. If the response with its successor is dropped half read, because a turn was
//! cancelled or a stream abandoned, the sign-in is lost.

use hermes_task::spawn_cooperative;
use hermes_types::Cancel;

use super::error::SignInError;

/// Runs a renewal as a separate task and waits for it; dropping the wait leaves the task running.
pub(super) async fn run_detached<T: Send + 'static>(
    renewal: impl Future<Output = Result<T, SignInError>> + Send + 'static,
) -> Result<T, SignInError> {
    // This token is never cancelled: the work has its own time limits.
    match spawn_cooperative("renew a sign-in", &Cancel::new(), |_| renewal).await {
        Ok(result) => result,
        Err(ended) => Err(SignInError::TryLater(format!("The renewal of a sign-in ended early: {ended}."))),
    }
}
