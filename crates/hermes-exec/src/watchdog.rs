//! A small process that outlives us by a moment and ends what we were running.
//!
//! A child that is bound to us dies with us by the kernel's doing, but what that child started does not. The guardian
//! knows the groups that run; when our end of its pipe closes, however we ended, it kills those that are left with all that
//! sits in their cells or carries their marks, and removes what files of ours are left. It is started with the first command.

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

const SCRIPT: &str = include_str!("guardian.sh");

static PIPE: LazyLock<Mutex<Option<ChildStdin>>> = LazyLock::new(|| Mutex::new(start()));

/// What sets our files apart from those of others like us.
static MARK: LazyLock<String> = LazyLock::new(|| random_hex(12));

/// What it was told of files, each once.
static REMOVE_ON_EXIT: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

/// A child with this mark is about to be started: should we die before its number is known, or before it may go on without
/// us, whoever carries the mark is ended.
pub(crate) fn announce_child(mark: ProcessMark) {
    run_record::add(mark);
    send_line(&format!("+ m{0} {0}", mark.number()));
}

/// It could not be started, or may go on by itself.
pub(crate) fn cancel_announcement(mark: ProcessMark) {
    run_record::remove(mark);
    send_line(&format!("- m{}", mark.number()));
}

/// A group that must not outlive us runs from now on.
pub(crate) fn register_group(group: ProcessGroup) {
    if let Some(mark) = group.mark() {
        run_record::set_pid(mark, group.pid());
    }
    let number = group.mark().map_or(0, ProcessMark::number);
    send_line(&format!("+ {} {number}\n- m{number}", group.pid()));
}

/// It has ended, or may go on by itself.
pub(crate) fn unregister_group(group: ProcessGroup) {
    if let Some(mark) = group.mark() {
        run_record::remove(mark);
    }
    send_line(&format!("- {}", group.pid()));
}

/// A path nobody else uses. If we do not remove what is made there, the guardian does after us.
pub fn remove_on_exit(folder: &Path, name: &str) -> PathBuf {
    let beginning = folder.join(format!("{name}{}", *MARK));
    if REMOVE_ON_EXIT.lock().unwrap_or_else(PoisonError::into_inner).insert(beginning.clone()) {
        remove_after_us(&beginning);
    }
    let mut path = beginning.into_os_string();
    path.push(format!("-{}", random_hex(12)));
    path.into()
}

/// Has everything whose path begins so, up to a hyphen, removed when we are gone.
pub(crate) fn remove_after_us(beginning: &Path) {
    match beginning.to_str() {
        Some(text) if !text.contains('\n') => send_line(&format!("* {text}")),
        _ => {}
    }
}

fn send_line(line: &str) {
    let mut pipe = PIPE.lock().unwrap_or_else(PoisonError::into_inner);
    let told = pipe.as_mut().map(|pipe| pipe.write_all(format!("{line}\n").as_bytes()));
    if let Some(Err(error)) = told {
        tracing::warn!(%error, "the guardian of child processes is gone");
        *pipe = None;
    }
}

fn start() -> Option<ChildStdin> {
    let prefix = cgroup::prefix().unwrap_or_default();
    let folder = prefix.rsplit_once('/').map_or("", |(folder, _)| folder);
    #[expect(clippy::disallowed_methods, reason = "this is the crate that starts processes")]
    let mut command = Command::new("/bin/sh");
    command
        .args(["-c", SCRIPT, "hermes-guardian", &prefix, folder, own_cgroup().unwrap_or_default()])
        .env_clear()
        .current_dir("/")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        // A group of its own: what ends ours must not end it first.
        .process_group(0);
    let started = command.spawn().and_then(|mut child| {
        let pipe = child.stdin.take();
        child.wait().map(|_| pipe)
    });
    started.unwrap_or_else(|error| {
        tracing::warn!(%error, "no guardian of child processes could be started");
        None
    })
}
