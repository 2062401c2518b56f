//! All output of the program: results go to standard output, notices and errors to standard error.

use std::io::{self, ErrorKind, IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use hermes_tui::ScreenHandle;

use crate::menu;

/// The two output streams. Texts bring their own symbols and colours and make sense without either.
#[derive(Debug)]
pub(crate) struct Console {
    interactive: bool,
    /// True when a closed standard output does not end the program.
    ignores_closed_stdout: AtomicBool,
    /// True when a part of a result could not be written.
    failed: AtomicBool,
    /// The screen that has the terminal, if one is open.
    screen: Mutex<Option<ScreenHandle>>,
}

impl Console {
    pub(crate) fn new() -> Self {
        let interactive = io::stdin().is_terminal() && io::stderr().is_terminal();
        Self {
            interactive,
            ignores_closed_stdout: AtomicBool::new(false),
            failed: AtomicBool::new(false),
            screen: Mutex::default(),
        }
    }

    /// Shows everything on a screen from now on, or on the terminal itself again.
    pub(crate) fn show_on(&self, screen: Option<ScreenHandle>) {
        *self.screen.lock().unwrap_or_else(PoisonError::into_inner) = screen;
    }

    fn screen(&self) -> Option<ScreenHandle> {
        self.screen.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Copies a text to the clipboard, if the terminal allows it.
    pub(crate) fn copy(&self, text: &str) {
        match self.screen() {
            Some(screen) => screen.copy(text),
            None if io::stdout().is_terminal() => self.text(&hermes_tui::clipboard_sequence(text)),
            None => {}
        }
    }

    /// Draws the screen again, if there is one.
    pub(crate) fn redraw(&self) {
        if let Some(screen) = self.screen() {
            screen.redraw();
        }
    }

    /// Clears the visible part of the terminal.
    pub(crate) fn clear(&self) {
        match self.screen() {
            Some(screen) => screen.clear(),
            None => self.text("\u{1b}[2J\u{1b}[H"),
        }
    }

    /// Keeps the program running when the reader of standard output is gone, so that a turn is stored.
    pub(crate) fn ignore_closed_stdout(&self) {
        self.ignores_closed_stdout.store(true, Ordering::Relaxed);
    }

    /// Tells whether a part of a result could not be written.
    pub(crate) fn failed(&self) -> bool {
        self.failed.load(Ordering::Relaxed)
    }

    /// Prints one line of a result.
    pub(crate) fn line(&self, text: &str) {
        self.text(&format!("{text}\n"));
    }

    /// Prints a result unchanged.
    pub(crate) fn text(&self, text: &str) {
        if let Some(screen) = self.screen() {
            return screen.print(text);
        }
        let mut stdout = io::stdout().lock();
        if let Err(error) = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
            // A reader that closes the pipe, such as `head`, has enough; any other error is reported.
            if error.kind() == ErrorKind::BrokenPipe {
                if self.ignores_closed_stdout.load(Ordering::Relaxed) {
                    return;
                }
                std::process::exit(0);
            }
            // Reported once, however much is left to write.
            if !self.failed.swap(true, Ordering::Relaxed) {
                self.error(&format!("cannot write to standard output: {error}"));
            }
        }
    }

    /// Rings the terminal's bell. Does nothing where standard output is not a terminal.
    pub(crate) fn ring(&self) {
        if io::stdout().is_terminal() {
            self.text("\u{7}");
        }
    }

    /// Prints a notice to standard error.
    pub(crate) fn notice(&self, text: &str) {
        if let Some(screen) = self.screen() {
            return screen.notice(text);
        }
        // If standard error cannot be written to, there is nowhere to report it.
        let _ = writeln!(io::stderr(), "{text}");
    }

    /// Tells whether a line that changes can be drawn.
    pub(crate) fn draws_status() -> bool {
        io::stderr().is_terminal()
    }

    /// Draws a line in the place of the last one of standard error, where it can be drawn. An empty text removes it.
    pub(crate) fn status(text: &str) {
        if Self::draws_status() {
            let width =
                rustix::termios::tcgetwinsize(io::stderr()).map_or(80, |size| usize::from(size.ws_col));
            let width = if width == 0 { 79 } else { width - 1 };
            let _ = write!(io::stderr(), "\r\u{1b}[2K{}", hermes_text::head(text, width));
        }
    }

    pub(crate) fn error(&self, text: &str) {
        self.notice(&format!("error: {text}"));
    }

    /// Asks for a line. Returns `None` where the user cannot be asked, or at the end of input.
    pub(crate) fn ask(&self, question: &str) -> Option<String> {
        if !self.can_ask() {
            return None;
        }
        let _ = write!(io::stderr(), "{question}");
        let mut line = String::new();
        match io::stdin().read_line(&mut line) {
            Ok(0) | Err(_) => None,
            Ok(_) => Some(line),
        }
    }

    /// Tells whether the user can be asked.
    pub(crate) fn can_ask(&self) -> bool {
        self.interactive && self.screen().is_none()
    }

    /// Asks for a line that is not shown while it is typed.
    pub(crate) fn ask_secret(&self, question: &str) -> Option<String> {
        if self.can_ask() { menu::read_hidden_line(question) } else { None }
    }

    /// Lets the user choose one of the rows. Returns `None` when they leave or cannot be asked.
    pub(crate) fn choose(&self, title: &str, rows: &[String], first: usize) -> Option<usize> {
        if self.can_ask() { menu::choose(title, rows, first) } else { None }
    }

    /// Asks a yes-or-no question. Where the user cannot be asked, the answer is no.
    pub(crate) fn confirm(&self, question: &str) -> Confirmation {
        if !self.can_ask() {
            return Confirmation::NotInteractive;
        }
        let _ = write!(io::stderr(), "{question} [y/N] ");
        let mut line = String::new();
        match io::stdin().read_line(&mut line) {
            Ok(_) if matches!(line.trim().to_ascii_lowercase().as_str(), "y" | "yes") => Confirmation::Yes,
            _ => Confirmation::No,
        }
    }
}

/// The user's answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Confirmation {
    Yes,
    No,
    NotInteractive,
}
