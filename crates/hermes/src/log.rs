//! `logs/errors.log`: what went wrong without stopping anything.
//!
//! Warnings and errors of all crates, one line each, without secrets, in a file that never grows beyond its bound. A
//! home that cannot be written to goes without a log.

use std::fmt::{self, Write as _};
use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use hermes_guard::{Assignments, PhoneNumbers, Redaction, redact};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

use crate::context::{local_time, now};

const MOST_BYTES: u64 = 2 * 1024 * 1024;
const BACKUPS: u32 = 2;

/// Whether secrets are taken out; decided once, at the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Secrets {
    Mask,
    Show,
}

struct Log {
    path: PathBuf,
    secrets: Secrets,
    /// Opened with the first line.
    file: Mutex<Option<File>>,
}

/// Starts writing to the log of this process.
pub(crate) fn start(folder: &Path, secrets: Secrets) {
    let log = Log { path: folder.join("errors.log"), secrets, file: Mutex::default() };
    // A second call changes nothing: one log per process.
    let _ = tracing::subscriber::set_global_default(log);
}

impl Log {
    fn write(&self, line: &str) {
        let mut slot = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        let too_long =
            slot.as_ref().and_then(|file| file.metadata().ok()).is_some_and(|found| found.len() > MOST_BYTES);
        if too_long {
            *slot = None;
            self.rotate();
        }
        if slot.is_none() {
            if fs::metadata(&self.path).is_ok_and(|found| found.len() > MOST_BYTES) {
                self.rotate();
            }
            *slot = OpenOptions::new().create(true).append(true).mode(0o600).open(&self.path).ok();
        }
        if let Some(file) = slot.as_mut() {
            // A full disk must not stop the program because of its log.
            let _ = file.write_all(line.as_bytes());
        }
    }

    fn rotate(&self) {
        let numbered = |number: u32| self.path.with_added_extension(number.to_string());
        for number in (1..BACKUPS).rev() {
            let _ = fs::rename(numbered(number), numbered(number + 1));
        }
        let _ = fs::rename(&self.path, numbered(1));
    }
}

impl Subscriber for Log {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= Level::WARN
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut words = Words::default();
        event.record(&mut words);
        let metadata = event.metadata();
        let text = format!("{}{}", words.message, words.fields).replace('\n', "\\n");
        let what = Redaction { assignments: Assignments::AnyCase, phone_numbers: PhoneNumbers::Mask };
        let text = match self.secrets {
            Secrets::Mask => redact(&text, what).into_owned(),
            Secrets::Show => text,
        };
        let time = local_time(now()).to_string().replace('T', " ");
        self.write(&format!("{time} {} {}: {text}\n", metadata.level(), metadata.target()));
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

#[derive(Default)]
struct Words {
    message: String,
    fields: String,
}

impl Visit for Words {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        // Writing to a `String` cannot fail.
        let _ = match field.name() {
            "message" => write!(self.message, "{value:?}"),
            name => write!(self.fields, " {name}={value:?}"),
        };
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.record_debug(field, &format_args!("{value}"));
    }
}
