//! Lines a person types, read beside everything else.

use std::io::BufRead;

use tokio::sync::mpsc;

/// Where lines come from.
pub(crate) enum Input {
    /// Somebody sits at the terminal; reading begins when the first line is wanted.
    Person(Option<mpsc::UnboundedReceiver<String>>),
    /// Nobody: a pipe, a service.
    Nobody,
}

impl Input {
    /// The next line; nothing when there will be no more.
    pub(crate) async fn next(&mut self) -> Option<String> {
        match self {
            Self::Person(lines) => lines.get_or_insert_with(read).recv().await,
            Self::Nobody => std::future::pending().await,
        }
    }

    pub(crate) fn is_anybody(&self) -> bool {
        matches!(self, Self::Person(_))
    }
}

/// Reads on a thread of its own, for reading standard input blocks. It ends with the process.
fn read() -> mpsc::UnboundedReceiver<String> {
    let (lines, receiver) = mpsc::unbounded_channel();
    let reader = std::thread::Builder::new().name("standard-input".to_owned());
    let started = reader.spawn(move || {
        for line in std::io::stdin().lock().lines() {
            let Ok(line) = line else { break };
            if lines.send(line).is_err() {
                break;
            }
        }
    });
    if let Err(error) = started {
        tracing::warn!(%error, "standard input cannot be read");
    }
    receiver
}
