//! Everything the program prints goes through here: results to standard output, notices and errors to standard error.

use std::io::{self, ErrorKind, IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};

use crate::menu;

/// The two streams. Symbols and colour are left to the texts themselves, which make sense without either.
#[derive(Debug)]
pub(crate) struct Console {
    interactive: bool,
    /// A reader that goes away does not end the program.
    ignores_closed_stdout: AtomicBool,
    /// Something of a result could not be written.
    failed: AtomicBool,
}

#[expect(clippy::unused_self, reason = "printing is a capability: who holds an `Output` may")]
impl Console {
    pub(crate) fn new() -> Self {
        let interactive = io::stdin().is_terminal() && io::stderr().is_terminal();
        Self { interactive, ignores_closed_stdout: AtomicBool::new(false), failed: AtomicBool::new(false) }
    }

    /// From now on work goes on when nobody reads any more: a turn is stored, whoever watches.
    pub(crate) fn ignore_closed_stdout(&self) {
        self.ignores_closed_stdout.store(true, Ordering::Relaxed);
    }

    /// Tells whether something of a result could not be written.
    pub(crate) fn failed(&self) -> bool {
        self.failed.load(Ordering::Relaxed)
    }

    /// One line of a result.
    pub(crate) fn line(&self, text: &str) {
        self.text(&format!("{text}\n"));
    }

    /// A result as it stands.
    pub(crate) fn text(&self, text: &str) {
        let mut stdout = io::stdout().lock();
        if let Err(error) = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
            // A reader that went away, such as `head`, has seen enough; anything else is worth a word.
            if error.kind() == ErrorKind::BrokenPipe {
                if self.ignores_closed_stdout.load(Ordering::Relaxed) {
                    return;
                }
                std::process::exit(0);
            }
            // Said once, however much there is to write.
            if !self.failed.swap(true, Ordering::Relaxed) {
                self.error(&format!("cannot write to standard output: {error}"));
            }
        }
    }

    /// Rings the terminal's bell. Does nothing where standard output is no terminal.
    pub(crate) fn ring(&self) {
        if io::stdout().is_terminal() {
            self.text("\u{7}");
        }
    }

    /// Something to know beside the result.
    pub(crate) fn notice(&self, text: &str) {
        // Nothing can be done about a standard error that does not take it.
        let _ = writeln!(io::stderr(), "{text}");
    }

    pub(crate) fn error(&self, text: &str) {
        self.notice(&format!("error: {text}"));
    }

    /// Asks for a line. Nothing where nobody can answer, or at the end of what is typed.
    pub(crate) fn ask(&self, question: &str) -> Option<String> {
        if !self.interactive {
            return None;
        }
        let _ = write!(io::stderr(), "{question}");
        let mut line = String::new();
        match io::stdin().read_line(&mut line) {
            Ok(0) | Err(_) => None,
            Ok(_) => Some(line),
        }
    }

    /// Whether somebody can be asked.
    pub(crate) fn can_ask(&self) -> bool {
        self.interactive
    }

    /// Asks for a line that is not shown while it is typed.
    pub(crate) fn ask_secret(&self, question: &str) -> Option<String> {
        if self.interactive { menu::read_hidden_line(question) } else { None }
    }

    /// Lets a person choose one of the rows. Nothing, when they leave or nobody is there.
    pub(crate) fn choose(&self, title: &str, rows: &[String], first: usize) -> Option<usize> {
        if self.interactive { menu::choose(title, rows, first) } else { None }
    }

    /// Asks a yes-or-no question. Where nobody can answer, the answer is no.
    pub(crate) fn confirm(&self, question: &str) -> Confirmation {
        if !self.interactive {
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

/// What a person answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Confirmation {
    Yes,
    No,
    NotInteractive,
}
