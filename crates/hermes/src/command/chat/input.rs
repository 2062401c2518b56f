//! Lines a person types, read beside everything else.

use std::io::{BufRead, StdinLock};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tokio::sync::mpsc;

/// What is already there, or comes within this time of a line, was pasted with it, and is one message.
const PASTED_WITHIN: Timespec = Timespec { tv_sec: 0, tv_nsec: 15_000_000 };

/// Where messages come from.
pub(crate) enum Input {
    /// Somebody sits at the terminal; reading begins when the first line is wanted.
    Person(Option<mpsc::UnboundedReceiver<String>>),
    /// Nobody: a pipe, a service.
    Nobody,
}

impl Input {
    /// The next message; nothing when there will be no more. Pasted lines are one message; a command stands for itself.
    pub(crate) async fn next(&mut self) -> Option<String> {
        match self {
            Self::Person(messages) => messages.get_or_insert_with(read).recv().await,
            Self::Nobody => std::future::pending().await,
        }
    }

    pub(crate) fn is_anybody(&self) -> bool {
        matches!(self, Self::Person(_))
    }
}

/// Reads on a thread of its own, for reading standard input blocks. It ends with the process.
fn read() -> mpsc::UnboundedReceiver<String> {
    let (messages, receiver) = mpsc::unbounded_channel();
    let reader = std::thread::Builder::new().name("standard-input".to_owned());
    let started = reader.spawn(move || {
        let mut input = std::io::stdin().lock();
        let mut waiting = None;
        while let Some(first) = waiting.take().or_else(|| next_line(&mut input)) {
            let mut message = first;
            while may_go_on(&message) && is_more_there(&input) {
                match next_line(&mut input) {
                    None => break,
                    Some(line) if is_command(&line) => {
                        waiting = Some(line);
                        break;
                    }
                    Some(line) => {
                        message.push('\n');
                        message.push_str(&line);
                    }
                }
            }
            if messages.send(message).is_err() {
                break;
            }
        }
    });
    if let Err(error) = started {
        tracing::warn!(%error, "standard input cannot be read");
    }
    receiver
}

/// The next line; what is no text becomes text with marks in it, because a stray byte must not end a conversation.
fn next_line(input: &mut StdinLock<'_>) -> Option<String> {
    let mut line = Vec::new();
    let read = input.read_until(b'\n', &mut line).is_ok_and(|count| count > 0);
    read.then(|| String::from_utf8_lossy(&line).trim_end_matches(['\n', '\r']).to_owned())
}

fn is_more_there(input: &StdinLock<'_>) -> bool {
    let mut waited_for = [PollFd::new(input, PollFlags::IN)];
    poll(&mut waited_for, Some(&PASTED_WITHIN)).is_ok_and(|ready| ready > 0)
}

fn may_go_on(message: &str) -> bool {
    !is_command(message) && !message.trim().is_empty()
}

/// Tells whether a line is a command rather than something to say. A path is no command.
pub(crate) fn is_command(line: &str) -> bool {
    let Some(rest) = line.trim_start().strip_prefix('/') else { return false };
    let name = rest.split_whitespace().next().unwrap_or_default();
    !name.is_empty() && !name.contains('/') && !std::path::Path::new("/").join(name).exists()
}
