//! Work that reads or writes files, on a thread of its own so that a slow disk or a large tree does not hold up the
//! runtime.

use hermes_types::ToolOutcome;
use tokio::sync::oneshot;

/// Runs the work and waits for it. When the caller is dropped the work still ends in order; nobody hears of it.
pub(crate) async fn off_thread<T: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, ToolOutcome> {
    let (answer, done) = oneshot::channel();
    let started = std::thread::Builder::new().name(name.to_owned()).spawn(move || {
        // Nobody waits any more when the turn was cancelled.
        let _ = answer.send(work());
    });
    match started {
        Ok(_) => done.await.map_err(|_| ToolOutcome::failed(format!("{name} ended without an answer"))),
        Err(error) => Err(ToolOutcome::failed(format!("{name} could not be started: {error}"))),
    }
}
