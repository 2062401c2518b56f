//! A program that keeps running and whose output is read as bytes: a recorder of sound.

use std::io;

use crate::child::RunningChild;

const CHUNK: usize = 16 * 1024;
/// The most bytes of its messages that are kept.
const MOST_MESSAGES: usize = 4 * 1024;

/// A running program. Dropping the value kills it with everything it started.
#[derive(Debug)]
pub struct OutputStream {
    running: RunningChild,
    messages: Vec<u8>,
    has_messages: bool,
}

impl OutputStream {
    pub(crate) fn new(running: RunningChild) -> Self {
        Self { running, messages: Vec::new(), has_messages: true }
    }

    /// Returns the next bytes of its standard output, or `None` when it has closed it. Dropping the future loses nothing.
    pub async fn next(&mut self) -> io::Result<Option<Vec<u8>>> {
        let (mut bytes, mut message) = (vec![0; CHUNK], vec![0; CHUNK]);
        let mut is_closed = false;
        loop {
            let (output, messages, mut reaper) = self.running.outputs_and_reaper();
            let next_message = async {
                match messages {
                    Some(messages) => messages.read(&mut message).await.unwrap_or(0),
                    None => 0,
                }
            };
            tokio::select! {
                biased;
                count = next_message, if self.has_messages => {
                    self.has_messages = count > 0;
                    let room = MOST_MESSAGES.saturating_sub(self.messages.len());
                    self.messages.extend(message.iter().take(count.min(room)));
                }
                count = output.read(&mut bytes), if !is_closed => match count? {
                    // What it says at its end belongs to it.
                    0 if self.has_messages => is_closed = true,
                    0 => return Ok(None),
                    count => {
                        bytes.truncate(count);
                        return Ok(Some(bytes));
                    }
                },
                _ = reaper.wait(), if is_closed => return Ok(None),
            }
            if is_closed && !self.has_messages {
                return Ok(None);
            }
        }
    }

    /// Returns what it has written to standard error, as far as it was read.
    pub fn messages(&self) -> String {
        String::from_utf8_lossy(&self.messages).trim().to_owned()
    }
}
