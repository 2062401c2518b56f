//! The watchdog process, a small process that outlives Hermes briefly and ends what Hermes was running.
//!
//! The kernel ends a bound child with Hermes, but not the processes that child started. The watchdog knows
//! the running process groups. When the write end of its pipe closes, however Hermes ended, it kills the
//! groups that are left with all processes in their control groups or with their marks, and removes the
//! remaining temporary files of Hermes. It is started with the first command.

use std::collections::BTreeSet;
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, Command, Stdio};
use std::sync::{LazyLock, Mutex, PoisonError};

use hermes_types::random_hex;

use crate::cgroup;
use crate::group::ProcessGroup;
use crate::mark::ProcessMark;
use crate::procfs::own_cgroup;
use crate::run_record;
use crate::tty_settings::TtySettings;

const SCRIPT: &str = include_str!("watchdog.sh");

static PIPE: LazyLock<Mutex<Option<ChildStdin>>> = LazyLock::new(|| Mutex::new(start()));

/// The part of a file name that distinguishes the files of this process from those of other Hermes processes.
static MARK: LazyLock<String> = LazyLock::new(|| random_hex(12));

/// The paths that the watchdog was told to remove, each once.
static REMOVE_ON_EXIT: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

/// Announces that a child with this mark is about to be started: if Hermes dies before the child's pid is
/// known, or before the child may outlive Hermes, the watchdog ends all processes with the mark.
pub(crate) fn announce_child(mark: ProcessMark) {
    run_record::add(mark);
    send_line(&format!("+ m{0} {0}", mark.number()));
}

/// Cancels the announcement of a child that could not be started, or may outlive Hermes.
pub(crate) fn cancel_announcement(mark: ProcessMark) {
    run_record::remove(mark);
    send_line(&format!("- m{}", mark.number()));
}

/// Registers a running group that must not outlive Hermes.
pub(crate) fn register_group(group: ProcessGroup) {
    if let Some(mark) = group.mark() {
        run_record::set_pid(mark, group.pid());
    }
    let number = group.mark().map_or(0, ProcessMark::number);
    send_line(&format!("+ {} {number}\n- m{number}", group.pid()));
}

/// Unregisters a group that has ended, or may outlive Hermes.
pub(crate) fn unregister_group(group: ProcessGroup) {
    if let Some(mark) = group.mark() {
        run_record::remove(mark);
    }
    send_line(&format!("- {}", group.pid()));
}

/// Returns a unique path. If Hermes does not remove what is created there, the watchdog does so afterwards.
pub fn remove_on_exit(folder: &Path, name: &str) -> PathBuf {
    let beginning = folder.join(format!("{name}{}", *MARK));
    if REMOVE_ON_EXIT.lock().unwrap_or_else(PoisonError::into_inner).insert(beginning.clone()) {
        remove_after_us(&beginning);
    }
    let mut path = beginning.into_os_string();
    path.push(format!("-{}", random_hex(12)));
    path.into()
}

/// Has the watchdog remove everything whose path begins with `beginning` and a hyphen when Hermes has ended.
pub(crate) fn remove_after_us(beginning: &Path) {
    match beginning.to_str() {
        Some(text) if !text.contains('\n') => send_line(&format!("* {text}")),
        _ => {}
    }
}

/// Has the watchdog restore the terminal if Hermes is killed: to the settings `before`, as long as it has those from `during`,
/// with a sequence that undoes what was written to it.
pub fn restore_terminal_if_killed(before: &TtySettings, during: &TtySettings, sequence: &str) {
    send_line(&format!("t {} {} {} {sequence}", before.device, before.values, during.values));
}

/// Takes `restore_terminal_if_killed` back.
pub fn keep_terminal_if_killed() {
    send_line("t");
}

fn send_line(line: &str) {
    let mut pipe = PIPE.lock().unwrap_or_else(PoisonError::into_inner);
    let told = pipe.as_mut().map(|pipe| pipe.write_all(format!("{line}\n").as_bytes()));
    if let Some(Err(error)) = told {
        tracing::warn!(%error, "the watchdog of child processes has ended");
        *pipe = None;
    }
}

fn start() -> Option<ChildStdin> {
    let prefix = cgroup::prefix().unwrap_or_default();
    let folder = prefix.rsplit_once('/').map_or("", |(folder, _)| folder);
    #[expect(clippy::disallowed_methods, reason = "this is the crate that starts processes")]
    let mut command = Command::new("/bin/sh");
    command
        .args(["-c", SCRIPT, "hermes-watchdog", &prefix, folder, own_cgroup().unwrap_or_default()])
        .env_clear()
        .current_dir("/")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        // The watchdog has a group of its own: a signal to the group of Hermes must not end it first.
        .process_group(0);
    let started = command.spawn().and_then(|mut child| {
        let pipe = child.stdin.take();
        child.wait().map(|_| pipe)
    });
    started.unwrap_or_else(|error| {
        tracing::warn!(%error, "no watchdog of child processes could be started");
        None
    })
}
