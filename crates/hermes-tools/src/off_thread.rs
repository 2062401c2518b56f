//! Runs file access on a separate thread, so that a slow disk or a large tree does not block the runtime.

use hermes_types::ToolOutcome;
use tokio::sync::oneshot;

/// Runs the work and waits for it. If the caller is dropped, the work still completes and its result is
/// discarded.
pub(crate) async fn off_thread<T: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, ToolOutcome> {
    let (answer, done) = oneshot::channel();
    let started = std::thread::Builder::new().name(name.to_owned()).spawn(move || {
        // The receiver is dropped if the turn was cancelled.
        let _ = answer.send(work());
    });
    match started {
        Ok(_) => done.await.map_err(|_| ToolOutcome::failed(format!("{name} ended without an answer"))),
        Err(error) => Err(ToolOutcome::failed(format!("{name} could not be started: {error}"))),
    }
}
