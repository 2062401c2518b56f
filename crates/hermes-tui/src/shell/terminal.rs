//! The terminal's modes: taken over, given back whatever happens, and asked for its background.
//!
//! Invariant: the terminal is as it was when the guard is dropped, when the program panics, and after `restore_terminal`. For a
//! program that is killed, a `TerminalBackup` outside the process does the same.

use std::cell::Cell;
use std::io::{self, Write as _};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Once, PoisonError};
use std::time::Duration;

use crossterm::terminal::{disable_raw_mode, enable_raw_mode};
use hermes_types::Clock;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::painter::ResizeBehavior;
use crate::picture::PictureProtocol;
use crate::theme::{Background, background_of_answer};

/// Marks pastes, and does not break rows: a row that is too long, because the window just became narrower, would move the cursor.
const TAKE_OVER: &str = "\u{1b}[?2004h\u{1b}[?7l";
/// Ends an unfinished update, shows the cursor, plain text, breaks rows, no marks around pastes.
const GIVE_BACK: &str = "\u{1b}[?2026l\u{1b}[0m\u{1b}[?7h\u{1b}[?2004l\u{1b}[?25h";
/// Asks for the background colour and for the kind of terminal, and then what every terminal answers, so that a terminal without
/// an answer to the first questions is noticed at once.
const QUESTIONS: &str = "\u{1b}]11;?\u{7}\u{1b}[>c\u{1b}[c";
const ANSWER_LIMIT: Duration = Duration::from_millis(150);

static IS_TAKEN_OVER: AtomicBool = AtomicBool::new(false);
static BACKUP: Mutex<Option<Arc<dyn TerminalBackup>>> = Mutex::new(None);
/// Held while a frame is drawn: the terminal is not given back in the middle of one.
static DRAWING: Mutex<()> = Mutex::new(());
/// Set when a panic gave the terminal back, until the program asks for something again.
static HAS_PANICKED: AtomicBool = AtomicBool::new(false);
static PANIC_HOOK: Once = Once::new();

thread_local! {
    static DRAWS: Cell<bool> = const { Cell::new(false) };
}

/// Restores the terminal when the program is killed and cannot do it.
pub trait TerminalBackup: Send + Sync {
    /// Called before the terminal's settings are changed.
    fn before_take_over(&self);

    /// Called when they are. The sequence undoes what else is changed.
    fn taken_over(&self, sequence: &str);

    /// Called when the program has restored the terminal itself.
    fn given_back(&self);
}

fn backup() -> Option<Arc<dyn TerminalBackup>> {
    BACKUP.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

/// The right to draw a frame.
pub(super) struct FrameGuard {
    _drawing: MutexGuard<'static, ()>,
}

impl FrameGuard {
    pub(super) fn acquire() -> Self {
        let drawing = DRAWING.lock().unwrap_or_else(PoisonError::into_inner);
        DRAWS.set(true);
        Self { _drawing: drawing }
    }
}

impl Drop for FrameGuard {
    fn drop(&mut self) {
        DRAWS.set(false);
    }
}

/// Puts the terminal back as it was. Safe to call at any time and more than once, as before the program exits on a signal.
pub fn restore_terminal() {
    if IS_TAKEN_OVER.swap(false, Ordering::SeqCst) {
        // A thread that panicked while it drew must not wait for itself.
        let _drawn = (!DRAWS.get()).then(|| DRAWING.lock().unwrap_or_else(PoisonError::into_inner));
        // A terminal that is gone needs nothing.
        let _ = write_out(GIVE_BACK);
        let _ = disable_raw_mode();
        if let Some(backup) = backup() {
            backup.given_back();
        }
    }
}

/// The terminal while the screen has it.
#[derive(Debug)]
pub(super) struct TerminalGuard;

impl TerminalGuard {
    pub(super) fn take_over(backup: Option<Arc<dyn TerminalBackup>>) -> io::Result<Self> {
        *BACKUP.lock().unwrap_or_else(PoisonError::into_inner) = backup;
        PANIC_HOOK.call_once(|| {
            let before = std::panic::take_hook();
            std::panic::set_hook(Box::new(move |info| {
                // A panic in a task is caught and logged; one on the thread that owns the process ends it.
                if std::thread::current().name() == Some("main") {
                    HAS_PANICKED.store(true, Ordering::SeqCst);
                    restore_terminal();
                }
                before(info);
            }));
        });
        // Made first, so that a failure half-way is undone.
        let guard = Self;
        Self::resume()?;
        Ok(guard)
    }

    /// Tells whether the screen has the terminal. It has not after a panic that something else caught.
    pub(super) fn is_held() -> bool {
        IS_TAKEN_OVER.load(Ordering::SeqCst)
    }

    /// Tells whether a panic gave the terminal back, and nothing shows that the program goes on. What is drawn then would
    /// stand below its last message.
    pub(super) fn has_panicked() -> bool {
        HAS_PANICKED.load(Ordering::SeqCst)
    }

    /// Records that the program goes on after a panic.
    pub(super) fn forget_panic() {
        HAS_PANICKED.store(false, Ordering::SeqCst);
    }

    /// Takes the terminal over again after it was given to another program.
    pub(super) fn resume() -> io::Result<()> {
        let backup = backup();
        if let Some(backup) = &backup {
            backup.before_take_over();
        }
        enable_raw_mode()?;
        IS_TAKEN_OVER.store(true, Ordering::SeqCst);
        if let Some(backup) = &backup {
            backup.taken_over(GIVE_BACK);
        }
        write_out(TAKE_OVER)
    }
}

impl Drop for TerminalGuard {
    fn drop(&mut self) {
        restore_terminal();
    }
}

fn write_out(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}

/// What the terminal answered, and what a person typed meanwhile.
pub(super) struct TerminalAnswer {
    pub(super) background: Option<Background>,
    pub(super) resize_behavior: ResizeBehavior,
    /// How it draws pictures, if it said so.
    pub(super) pictures: Option<PictureProtocol>,
    pub(super) typed: String,
}

/// Asks the terminal what it is like. Waits a bounded time; nobody else may read the input meanwhile.
pub(super) fn ask(clock: &dyn Clock) -> TerminalAnswer {
    let mut bytes = Vec::new();
    if write_out(QUESTIONS).is_ok() {
        let until = clock.monotonic() + ANSWER_LIMIT;
        loop {
            let left = until.saturating_sub(clock.monotonic());
            if left.is_zero() || !read_ready(left, &mut bytes) || primary_answer(&bytes).is_some() {
                break;
            }
        }
    }
    let text = String::from_utf8_lossy(&bytes);
    TerminalAnswer {
        background: background_of_answer(&text),
        resize_behavior: resize_behavior(&text),
        pictures: PictureProtocol::of_attributes(&text),
        typed: typed_in(&text),
    }
}

/// Tells from a terminal's answer what it does with rows that are too long after its width shrank.
fn resize_behavior(answer: &str) -> ResizeBehavior {
    // The kinds are 41, xterm, and 83, GNU screen. All others in use reflow.
    let cuts = ["\u{1b}[>41;", "\u{1b}[>83;"].iter().any(|kind| answer.contains(kind));
    if cuts { ResizeBehavior::Cuts } else { ResizeBehavior::Reflows }
}

/// Reads what is there within the time; false when nothing came.
fn read_ready(limit: Duration, bytes: &mut Vec<u8>) -> bool {
    let input = io::stdin();
    let mut waited_for = [PollFd::new(&input, PollFlags::IN)];
    let limit = Timespec { tv_sec: 0, tv_nsec: i64::from(limit.subsec_nanos()) };
    if !poll(&mut waited_for, Some(&limit)).is_ok_and(|ready| ready > 0) {
        return false;
    }
    let mut read = [0; 256];
    // Not through the standard input's own buffer, in which the rest would be lost to the reader of keys.
    let Ok(count) = rustix::io::read(&input, &mut read) else { return false };
    bytes.extend(read.get(..count).unwrap_or_default());
    count > 0
}

/// Finds the end of the answer that every terminal gives: `ESC [ ? … c`.
fn primary_answer(bytes: &[u8]) -> Option<usize> {
    let start = bytes.windows(3).position(|window| window == b"\x1b[?")?;
    let end = bytes.get(start..)?.iter().position(|byte| *byte == b'c')?;
    Some(start + end)
}

/// Returns the plain characters between the answers.
fn typed_in(text: &str) -> String {
    let mut typed = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('\u{1b}') {
        typed.push_str(before);
        rest = if let Some(command) = after.strip_prefix(']') {
            let end = command.find(['\u{7}', '\u{1b}']).unwrap_or(command.len());
            let end = command.get(end..).unwrap_or_default();
            end.strip_prefix('\u{7}').or_else(|| end.strip_prefix("\u{1b}\\")).unwrap_or_default()
        } else if let Some(sequence) = after.strip_prefix('[') {
            let end = sequence.find(|c: char| ('@'..='~').contains(&c)).map_or(sequence.len(), |end| end + 1);
            sequence.get(end..).unwrap_or_default()
        } else {
            after
        };
    }
    typed.push_str(rest);
    typed.retain(|c| !c.is_control());
    typed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terminals_that_do_not_reflow_are_known() {
        for (answer, behavior) in [
            ("\u{1b}[>41;390;0c\u{1b}[?64;1c", ResizeBehavior::Cuts),
            ("\u{1b}[>83;40900;0c", ResizeBehavior::Cuts),
            ("\u{1b}[>84;0;0c", ResizeBehavior::Reflows),
            ("\u{1b}[>1;4000;19c\u{1b}[?62c", ResizeBehavior::Reflows),
            ("", ResizeBehavior::Reflows),
        ] {
            assert_eq!(resize_behavior(answer), behavior, "{answer:?}");
        }
    }

    #[test]
    fn what_is_typed_around_the_answers_is_kept() {
        for (text, typed) in [
            ("\u{1b}]11;rgb:0/0/0\u{7}\u{1b}[?62;4c", ""),
            ("he\u{1b}]11;rgb:0/0/0\u{1b}\\\u{1b}[?62cllo", "hello"),
            ("\u{1b}[Ahi\r", "hi"),
            ("a\u{1b}[>41;390;0cb", "ab"),
            ("\u{1b}]11;rgb:", ""),
        ] {
            assert_eq!(typed_in(text), typed, "{text:?}");
        }
    }
}
