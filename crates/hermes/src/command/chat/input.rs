//! Messages a person types, read beside everything else.
//!
//! On a terminal lines are edited here (`line_buffer`). Invariant: the terminal is as it was when the input is dropped, and
//! before the program exits early (`restore_terminal`).

use std::io::{IsTerminal as _, Read as _, StdinLock, Write as _};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use hermes_tui::{Operation, Operations};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::termios::{LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcsetattr};
use tokio::sync::mpsc;

use super::line_buffer::{LineBuffer, Typed};

/// What is already there, or comes within this time of a line, was pasted with it, and is one message.
const PASTE_INTERVAL: Timespec = Timespec { tv_sec: 0, tv_nsec: 15_000_000 };
const MARK_PASTES: &str = "\u{1b}[?2004h";
const DO_NOT_MARK_PASTES: &str = "\u{1b}[?2004l";

/// How the terminal was before lines were edited here.
static TERMINAL_BEFORE: Mutex<Option<Termios>> = Mutex::new(None);

/// Where messages come from.
pub(crate) enum ChatInput {
    /// Somebody sits at the terminal; reading begins when the first line is wanted.
    Interactive { messages: Option<mpsc::UnboundedReceiver<String>>, typing: Arc<Typing> },
    /// Somebody sits at the screen.
    Screen(Operations),
    /// Nobody: a pipe, a service.
    NonInteractive,
}

/// What a person did.
pub(crate) enum ChatEvent {
    /// A line of the line chat.
    Line(String),
    Screen(Operation),
}

/// What the reader of the terminal is told while it waits.
#[derive(Debug, Default)]
pub(crate) struct Typing {
    /// Nothing that is typed is shown.
    hidden: AtomicBool,
    /// What was typed of the current line is forgotten.
    discard: AtomicBool,
}

impl Typing {
    pub(crate) fn hide(&self, hidden: bool) {
        self.hidden.store(hidden, Ordering::Relaxed);
    }

    pub(crate) fn discard_line(&self) {
        self.discard.store(true, Ordering::Relaxed);
    }
}

impl ChatInput {
    pub(crate) fn person() -> Self {
        Self::Interactive { messages: None, typing: Arc::default() }
    }

    /// The next message; nothing when there will be no more. Pasted lines are one message; a command stands for itself.
    pub(crate) async fn next(&mut self) -> Option<ChatEvent> {
        match self {
            Self::Interactive { messages, typing } => {
                let messages = messages.get_or_insert_with(|| spawn_reader(typing.clone()));
                messages.recv().await.map(ChatEvent::Line)
            }
            Self::Screen(operations) => operations.next().await.map(ChatEvent::Screen),
            Self::NonInteractive => std::future::pending().await,
        }
    }

    /// Returns what the reader can be told; nothing where nobody types.
    pub(crate) fn typing(&self) -> Option<Arc<Typing>> {
        match self {
            Self::Interactive { typing, .. } => Some(typing.clone()),
            Self::Screen(_) | Self::NonInteractive => None,
        }
    }
}

impl Drop for ChatInput {
    fn drop(&mut self) {
        restore_terminal();
    }
}

/// Puts the terminal back as it was. Safe to call at any time.
pub(crate) fn restore_terminal() {
    hermes_tui::restore_terminal();
    let before = TERMINAL_BEFORE.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some(before) = before {
        show(DO_NOT_MARK_PASTES);
        let _ = tcsetattr(std::io::stdin(), OptionalActions::Now, &before);
    }
}

/// Reads on a thread of its own, for reading standard input blocks. It ends with the process.
fn spawn_reader(typing: Arc<Typing>) -> mpsc::UnboundedReceiver<String> {
    let (messages, receiver) = mpsc::unbounded_channel();
    let mut lines =
        Lines { typing, edits: take_over_terminal(), buffer: LineBuffer::default(), bytes: Vec::new() };
    let reader = std::thread::Builder::new().name("standard-input".to_owned());
    let started = reader.spawn(move || {
        let mut input = std::io::stdin().lock();
        let mut waiting = None;
        while let Some(first) = waiting.take().or_else(|| lines.next(&mut input)) {
            let mut message = first;
            while accepts_more_lines(&message) && lines.has_pending_input(&input) {
                match lines.next(&mut input) {
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

/// Makes the terminal hand over each key, so that lines are edited here; tells whether it does.
fn take_over_terminal() -> bool {
    if !std::io::stdin().is_terminal() || !std::io::stdout().is_terminal() {
        return false;
    }
    let Ok(before) = tcgetattr(std::io::stdin()) else { return false };
    let is_set = set_key_mode(&before);
    if is_set {
        *TERMINAL_BEFORE.lock().unwrap_or_else(PoisonError::into_inner) = Some(before);
        show(MARK_PASTES);
    }
    is_set
}

fn set_key_mode(before: &Termios) -> bool {
    let mut mode = before.clone();
    mode.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO);
    mode.special_codes[SpecialCodeIndex::VMIN] = 1;
    mode.special_codes[SpecialCodeIndex::VTIME] = 0;
    tcsetattr(std::io::stdin(), OptionalActions::Now, &mode).is_ok()
}

/// Shows what a person types where they type it.
fn show(text: &str) {
    let mut screen = std::io::stdout().lock();
    // A screen that is gone shows nothing.
    let _ = screen.write_all(text.as_bytes()).and_then(|()| screen.flush());
}

/// Lines as they come from standard input.
struct Lines {
    typing: Arc<Typing>,
    /// Whether keys come one by one.
    edits: bool,
    buffer: LineBuffer,
    /// What was read and not looked at, the next byte last.
    bytes: Vec<u8>,
}

impl Lines {
    /// Returns the next line; nothing at the end. What is no text becomes text with marks in it, because a stray byte must
    /// not end a conversation.
    fn next(&mut self, input: &mut StdinLock<'_>) -> Option<String> {
        loop {
            let Some(byte) = self.next_byte(input) else { return self.buffer.take_rest() };
            if self.typing.discard.swap(false, Ordering::Relaxed) {
                self.buffer.clear();
            }
            match self.buffer.push(byte) {
                Typed::Echo(text) => self.echo(&text),
                Typed::Line(line) => {
                    if self.edits {
                        show("\n");
                    }
                    return Some(line);
                }
                Typed::EndOfInput => return None,
                Typed::Nothing => {}
            }
        }
    }

    fn next_byte(&mut self, input: &mut StdinLock<'_>) -> Option<u8> {
        if let Some(byte) = self.bytes.pop() {
            return Some(byte);
        }
        let mut read = [0; 4096];
        let count = loop {
            match input.read(&mut read) {
                Ok(count) => break count,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(_) => return None,
            }
        };
        self.bytes.extend(read.get(..count)?.iter().rev());
        self.bytes.pop()
    }

    fn echo(&self, text: &str) {
        if self.edits && !self.typing.hidden.load(Ordering::Relaxed) {
            show(text);
        }
    }

    fn has_pending_input(&self, input: &StdinLock<'_>) -> bool {
        if !self.bytes.is_empty() {
            return true;
        }
        let mut waited_for = [PollFd::new(input, PollFlags::IN)];
        poll(&mut waited_for, Some(&PASTE_INTERVAL)).is_ok_and(|ready| ready > 0)
    }
}

fn accepts_more_lines(message: &str) -> bool {
    !is_command(message) && !message.trim().is_empty()
}

/// Tells whether a line is a command rather than something to say. A path is no command.
pub(crate) fn is_command(line: &str) -> bool {
    let Some(rest) = line.trim_start().strip_prefix('/') else { return false };
    let name = rest.split_whitespace().next().unwrap_or_default();
    !name.is_empty() && !name.contains('/') && !std::path::Path::new("/").join(name).exists()
}
