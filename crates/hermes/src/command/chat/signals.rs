//! The signals a chat handles: Ctrl-C, and those that end it.
//!
//! A chat that ends stores its turn as far as it came and ends its background processes, so closing the terminal
//! window must not end the process at once.

use std::io;
use std::process::ExitCode;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// The file in which the kernel lists the signals that the parent process set to be ignored.
const OWN_STATE: &str = "/proc/self/status";

/// The request a signal makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ChatSignal {
    /// Ctrl-C was pressed.
    Interrupt,
    /// The chat is to end; from now on [`ChatSignals::exit_code`] returns a code.
    End,
}

/// The signals a chat listens to.
#[derive(Debug)]
pub(crate) struct ChatSignals {
    interrupt: Signal,
    terminate: Signal,
    /// `None` under `nohup`.
    hang_up: Option<Signal>,
    ending: Option<SignalKind>,
}

impl ChatSignals {
    pub(crate) fn listen() -> io::Result<Self> {
        let state = std::fs::read_to_string(OWN_STATE).unwrap_or_default();
        let hang_up = SignalKind::hangup();
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hang_up: if is_ignored(hang_up, &state) { None } else { Some(signal(hang_up)?) },
            ending: None,
        })
    }

    /// Waits for the next signal. The future may be dropped and the method called again.
    pub(crate) async fn next(&mut self) -> ChatSignal {
        let hung_up = async {
            match &mut self.hang_up {
                Some(hang_up) => hang_up.recv().await,
                None => std::future::pending().await,
            }
        };
        let ending = tokio::select! {
            biased;
            _ = self.terminate.recv() => SignalKind::terminate(),
            _ = hung_up => SignalKind::hangup(),
            _ = self.interrupt.recv() => return ChatSignal::Interrupt,
        };
        self.ending = Some(ending);
        ChatSignal::End
    }

    /// Returns the exit code if a signal ended the chat: 128 plus its number, as in shells.
    pub(crate) fn exit_code(&self) -> Option<ExitCode> {
        let number = self.ending?.as_raw_value();
        Some(u8::try_from(128 + number).map_or(ExitCode::FAILURE, ExitCode::from))
    }
}

/// Tells whether a signal is in the set of ignored signals.
fn is_ignored(kind: SignalKind, state: &str) -> bool {
    let list = state.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = list.and_then(|digits| u64::from_str_radix(digits.trim(), 16).ok()).unwrap_or(0);
    mask >> (kind.as_raw_value() - 1) & 1 == 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nohup_asks_for_is_seen() {
        let state = "Name:\thermes\nSigBlk:\t0000000000000001\nSigIgn:\t0000000000001001\n";
        assert!(is_ignored(SignalKind::hangup(), state));
        assert!(!is_ignored(SignalKind::terminate(), state));
        assert!(!is_ignored(SignalKind::hangup(), ""));
    }
}
