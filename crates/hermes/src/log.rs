//! The log files: `logs/errors.log` for warnings and errors, `logs/gateway.log` for the gateway's events.
//!
//! Events of all crates, one line each with the name of the task, with secrets masked, in files of limited size. If the
//! home is not writable, there is no log.

mod task_names;

use std::fmt::{self, Write as _};
use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use hermes_config::Config;
use hermes_guard::{Assignments, PhoneNumbers, Redaction, redact};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

use self::task_names::TaskNames;
use crate::context::{local_time, now};
use crate::output::Console;

const MEGABYTE: u64 = 1024 * 1024;

/// Says whether secrets are masked; decided once, at the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LogMasking {
    Mask,
    Show,
}

struct FileLogger {
    secrets: LogMasking,
    errors: RollingFile,
    /// The file for all events, in a process that runs for months.
    all: Option<RollingFile>,
    /// Says which events are also printed.
    echo: LogEcho,
    /// The lowest level that is written.
    lowest: Level,
    tasks: TaskNames,
}

/// Says which events are also printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LogEcho {
    Nothing,
    /// Prints errors and the state of the service: that it runs, what it is connected to, that it stops.
    Life,
    Errors,
    Everything,
}

/// The target of events that [`LogEcho::Life`] prints.
pub(crate) const LIFE: &str = "hermes::life";

/// Starts the log of this process.
pub(crate) fn start(folder: &Path, secrets: LogMasking, lowest: Level) {
    // This file keeps only warnings and errors, whatever the level of other logs is.
    let lowest = lowest.min(Level::WARN);
    let (errors, echo) = (errors(folder), LogEcho::Nothing);
    install_logger(FileLogger { secrets, errors, all: None, echo, lowest, tasks: TaskNames::default() });
}

/// Starts the log of a process whose events are also printed on standard error.
pub(crate) fn start_verbose(folder: &Path, secrets: LogMasking, lowest: Level) {
    let (errors, echo) = (errors(folder), LogEcho::Everything);
    install_logger(FileLogger { secrets, errors, all: None, echo, lowest, tasks: TaskNames::default() });
}

/// Returns the level `logging.level` names; an unknown one is INFO.
pub(crate) fn level(config: &Config) -> Level {
    match config.text("logging.level").trim().to_uppercase().as_str() {
        "DEBUG" | "TRACE" => Level::DEBUG,
        "WARNING" | "WARN" => Level::WARN,
        "ERROR" | "CRITICAL" | "FATAL" => Level::ERROR,
        _ => Level::INFO,
    }
}

/// Starts the log of the gateway, which also has a file for all events.
pub(crate) fn start_gateway(folder: &Path, secrets: LogMasking, echo: LogEcho, lowest: Level) {
    let all = RollingFile::new(folder.join("gateway.log"), 5 * MEGABYTE, 3);
    let errors = errors(folder);
    install_logger(FileLogger { secrets, errors, all: Some(all), echo, lowest, tasks: TaskNames::default() });
}

fn install_logger(log: FileLogger) {
    // A second call changes nothing: one log per process.
    let _ = tracing::subscriber::set_global_default(log);
}

fn errors(folder: &Path) -> RollingFile {
    RollingFile::new(folder.join("errors.log"), 2 * MEGABYTE, 2)
}

/// A file that is rotated when it is full.
struct RollingFile {
    path: PathBuf,
    most: u64,
    backups: u32,
    /// The open file; it is opened with the first line.
    file: Mutex<Option<File>>,
}

impl RollingFile {
    fn new(path: PathBuf, most: u64, backups: u32) -> Self {
        Self { path, most, backups, file: Mutex::default() }
    }

    fn write(&self, line: &str) {
        let mut slot = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        let too_long =
            slot.as_ref().and_then(|file| file.metadata().ok()).is_some_and(|found| found.len() > self.most);
        if too_long {
            *slot = None;
            self.rotate();
        }
        if slot.is_none() {
            if fs::metadata(&self.path).is_ok_and(|found| found.len() > self.most) {
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
        for number in (1..self.backups).rev() {
            let _ = fs::rename(numbered(number), numbered(number + 1));
        }
        let _ = fs::rename(&self.path, numbered(1));
    }
}

impl Subscriber for FileLogger {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        let is_life = metadata.target() == LIFE && self.echo != LogEcho::Nothing;
        // A library that reports each of its steps would be most of the log.
        let lowest = if metadata.target().starts_with("matrix_sdk") { Level::WARN } else { self.lowest };
        let is_logged = (*metadata.level() <= lowest || is_life) && metadata.is_event();
        is_logged || TaskNames::is_task(metadata)
    }

    fn new_span(&self, attributes: &Attributes<'_>) -> Id {
        self.tasks.add(attributes)
    }

    fn clone_span(&self, id: &Id) -> Id {
        self.tasks.clone_handle(id);
        id.clone()
    }

    fn try_close(&self, id: Id) -> bool {
        self.tasks.drop_handle(&id)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut words = EventVisitor::default();
        event.record(&mut words);
        let metadata = event.metadata();
        let text = self.masked(&format!("{}{}", words.message, words.fields));
        // An event that names a task itself is about that one.
        let task = if words.names_task { None } else { self.tasks.current() };
        let task = task.map(|name| self.masked(&format!(" task={name}"))).unwrap_or_default();
        let time = local_time(now()).to_string().replace('T', " ");
        let line = format!("{time} {} {}: {text}{task}\n", metadata.level(), metadata.target());
        if *metadata.level() <= Level::WARN {
            self.errors.write(&line);
        }
        if let Some(all) = self.all.as_ref().filter(|_| *metadata.level() <= self.lowest) {
            all.write(&line);
        }
        match self.echo {
            LogEcho::Everything => Console::new().notice(line.trim_end()),
            LogEcho::Life if metadata.target() == LIFE || *metadata.level() == Level::ERROR => {
                Console::new().notice(&text);
            }
            LogEcho::Errors if *metadata.level() == Level::ERROR => Console::new().notice(&text),
            LogEcho::Life | LogEcho::Errors | LogEcho::Nothing => {}
        }
    }

    fn enter(&self, id: &Id) {
        TaskNames::enter(id);
    }

    fn exit(&self, id: &Id) {
        TaskNames::exit(id);
    }
}

impl FileLogger {
    /// Puts a text on one line, without the secrets that are to be masked.
    fn masked(&self, text: &str) -> String {
        let text = text.replace('\n', "\\n");
        let what = Redaction { assignments: Assignments::AnyCase, phone_numbers: PhoneNumbers::Mask };
        match self.secrets {
            LogMasking::Mask => redact(&text, what).into_owned(),
            LogMasking::Show => text,
        }
    }
}

#[derive(Default)]
struct EventVisitor {
    message: String,
    fields: String,
    /// Set when one of the fields is the name of a task.
    names_task: bool,
}

impl Visit for EventVisitor {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.names_task |= field.name() == "task";
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

#[cfg(test)]
mod tests {
    use hermes_task::spawn_named;
    use hermes_types::Cancel;

    use super::*;

    #[test]
    fn events_of_a_task_carry_its_name() {
        let folder = tempfile::tempdir().unwrap();
        let log = FileLogger {
            secrets: LogMasking::Mask,
            errors: errors(folder.path()),
            all: None,
            echo: LogEcho::Nothing,
            lowest: Level::WARN,
            tasks: TaskNames::default(),
        };
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        tracing::subscriber::with_default(log, || {
            runtime.block_on(async {
                let inner = || spawn_named("inner work", &Cancel::new(), async { tracing::warn!("deep") });
                let outer = async move {
                    inner().await.unwrap();
                    tracing::warn!(count = 2, "done");
                };
                spawn_named("outer work", &Cancel::new(), outer).await.unwrap();
                tracing::warn!("outside");
            });
        });
        let text = fs::read_to_string(folder.path().join("errors.log")).unwrap();
        let lines: Vec<&str> = text.lines().map(|line| line.split(": ").nth(1).unwrap_or(line)).collect();
        assert_eq!(lines, ["deep task=inner work", "done count=2 task=outer work", "outside"]);
    }
}
