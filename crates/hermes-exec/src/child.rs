//! Starts child processes.
//!
//! Holds what every child has in common: a session and process group of its own, no descriptor but its three
//! standard ones, a parent-death signal if it is bound to Hermes, and the sandbox if there is one. The module
//! does not decide what is run or when it ends.

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;

use rustix::pipe::{PipeFlags, pipe_with};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use tokio::io::Interest;
use tokio::process::{Child, Command};

use crate::group::{KillScope, ProcessGroup};
use crate::mark::ProcessMark;
use crate::sandbox::{BoundToParent, ChildSandbox, monitor};
use crate::spawner;
use crate::stream::Stream;
use crate::watchdog;

const ROWS: u16 = 30;
const COLUMNS: u16 = 120;

/// Describes a child to be started.
#[derive(Debug)]
pub(crate) struct Launch {
    pub(crate) program: PathBuf,
    pub(crate) arguments: Vec<OsString>,
    /// The complete environment of the child: nothing is inherited.
    pub(crate) variables: Vec<(String, String)>,
    pub(crate) directory: PathBuf,
    pub(crate) lifetime: Lifetime,
    pub(crate) scope: KillScope,
    pub(crate) stdio: StdioMode,
    pub(crate) sandbox: Option<Arc<ChildSandbox>>,
}

/// Selects whether a child may outlive Hermes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lifetime {
    /// The child dies with this process, however this process ends.
    Bound,
    /// A server that the user wants to keep; the next start finds it by its pid.
    Detached,
}

/// Selects what the child's three standard descriptors are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StdioMode {
    /// One pipe for both outputs; no input.
    OutputOnly,
    /// One pipe for both outputs and one for the input.
    InputAndOutput,
    /// A pipe for standard output and one for standard error; no input.
    SeparateStderr,
    /// A pipe for each of the three.
    Pipes,
    /// A terminal for all three.
    Terminal,
}

/// A running child. Dropping it before it has exited kills it with all processes it started, if it is bound.
#[derive(Debug)]
pub(crate) struct RunningChild {
    child: Child,
    group: ProcessGroup,
    lifetime: Lifetime,
    pub(crate) output: Stream,
    /// The standard error of the child, where it has a pipe of its own.
    pub(crate) stderr: Option<Stream>,
    pub(crate) input: Option<Stream>,
    ended: bool,
    sandbox: Option<Arc<ChildSandbox>>,
    /// The registration that ends a detached child with Hermes as long as the next start would not know the
    /// child.
    waiting: Option<AnnouncedChild>,
}

impl RunningChild {
    /// Returns the registration that ends a detached child with Hermes; dropping the registration releases
    /// the child.
    pub(crate) fn take_tie(&mut self) -> Option<AnnouncedChild> {
        self.waiting.take()
    }

    pub(crate) fn group(&self) -> ProcessGroup {
        self.group
    }

    /// Restores protected files that the child changed.
    pub(crate) fn restore_protected_files(&self) {
        if let Some(fence) = &self.sandbox {
            fence.restore_protected_files();
        }
    }

    /// Reaps the child. The future may be dropped and the method called again.
    pub(crate) async fn wait(&mut self) -> io::Result<i32> {
        self.output_and_reaper().1.wait().await
    }

    /// Returns the output and the reaper, so that a caller can wait for both at the same time.
    pub(crate) fn output_and_reaper(&mut self) -> (&Stream, ChildReaper<'_>) {
        let (output, _, reaper) = self.outputs_and_reaper();
        (output, reaper)
    }

    /// Returns both outputs and the reaper, so that a caller can wait for all at the same time.
    pub(crate) fn outputs_and_reaper(&mut self) -> (&Stream, Option<&Stream>, ChildReaper<'_>) {
        let reaper = ChildReaper { child: &mut self.child, ended: &mut self.ended };
        (&self.output, self.stderr.as_ref(), reaper)
    }
}

/// Waits for a child to exit.
#[derive(Debug)]
pub(crate) struct ChildReaper<'a> {
    child: &'a mut Child,
    ended: &'a mut bool,
}

impl ChildReaper<'_> {
    pub(crate) async fn wait(&mut self) -> io::Result<i32> {
        let status = self.child.wait().await?;
        *self.ended = true;
        Ok(exit_code(status))
    }
}

impl Drop for RunningChild {
    fn drop(&mut self) {
        if self.lifetime == Lifetime::Detached && !self.ended {
            return;
        }
        if !self.ended {
            self.group.kill();
        }
        self.group.release();
        match (self.lifetime, self.sandbox.take()) {
            // Processes that the child left running are monitored, and die with Hermes.
            (Lifetime::Bound, Some(fence)) => monitor(fence, self.group, BoundToParent::Yes),
            (Lifetime::Bound, None) => watchdog::unregister_group(self.group),
            (Lifetime::Detached, _) => {}
        }
    }
}

/// Returns the exit code as a shell counts it: for a signal, 128 plus its number.
fn exit_code(status: ExitStatus) -> i32 {
    use std::os::unix::process::ExitStatusExt;
    status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(-1)
}

impl Launch {
    pub(crate) async fn start(self) -> io::Result<RunningChild> {
        let StdioPipes { ours_out, ours_errors, ours_in, stdin, stdout, stderr } =
            StdioPipes::open(self.stdio)?;
        #[expect(clippy::disallowed_methods, reason = "this is the crate that starts processes")]
        let mut command = Command::new(&self.program);
        command
            .args(&self.arguments)
            .env_clear()
            .envs(self.variables.iter().map(|(name, value)| (name, value)))
            .current_dir(&self.directory)
            .stdin(stdin)
            .stdout(stdout)
            .stderr(stderr)
            .kill_on_drop(self.lifetime == Lifetime::Bound);
        let mark = ProcessMark::new();
        prepare(&mut command, self.lifetime, (self.scope, mark), self.stdio, self.sandbox.clone());
        let waiting = AnnouncedChild::new(mark);
        let child = spawner::start(command).await?;
        let group = child.id().and_then(|pid| ProcessGroup::with_leader(pid, self.scope, mark));
        let group = group.ok_or_else(|| io::Error::other("it has no pid"))?;
        group.register();
        let waiting = if self.lifetime == Lifetime::Bound {
            watchdog::register_group(group);
            std::mem::forget(waiting);
            None
        } else {
            Some(waiting)
        };
        let interest = if self.stdio == StdioMode::Terminal {
            Interest::READABLE | Interest::WRITABLE
        } else {
            Interest::READABLE
        };
        let output = Stream::new(ours_out, interest)?;
        let input = match (self.stdio, ours_in) {
            (StdioMode::Terminal, _) => Some(output.try_clone(Interest::WRITABLE)?),
            (_, Some(end)) => Some(Stream::new(end, Interest::WRITABLE)?),
            (_, None) => None,
        };
        let errors = ours_errors.map(|end| Stream::new(end, Interest::READABLE)).transpose()?;
        if let (Lifetime::Detached, Some(fence)) = (self.lifetime, &self.sandbox) {
            monitor(Arc::clone(fence), group, BoundToParent::No);
        }
        let (lifetime, fence) = (self.lifetime, self.sandbox);
        Ok(RunningChild {
            child,
            group,
            lifetime,
            output,
            stderr: errors,
            input,
            ended: false,
            sandbox: fence,
            waiting,
        })
    }
}

/// A registered child that is known by its mark alone and is ended with Hermes. Dropping the value cancels
/// that.
#[derive(Debug)]
pub(crate) struct AnnouncedChild(ProcessMark);

impl AnnouncedChild {
    fn new(mark: ProcessMark) -> Self {
        watchdog::announce_child(mark);
        Self(mark)
    }
}

impl Drop for AnnouncedChild {
    fn drop(&mut self) {
        watchdog::cancel_announcement(self.0);
    }
}

struct StdioPipes {
    ours_out: OwnedFd,
    ours_errors: Option<OwnedFd>,
    ours_in: Option<OwnedFd>,
    stdin: Stdio,
    stdout: Stdio,
    stderr: Stdio,
}

impl StdioPipes {
    fn open(wiring: StdioMode) -> io::Result<Self> {
        if wiring == StdioMode::Terminal {
            let (ours, theirs) = open_terminal()?;
            return Ok(Self {
                ours_out: ours,
                ours_errors: None,
                ours_in: None,
                stdin: Stdio::from(theirs.try_clone()?),
                stdout: Stdio::from(theirs.try_clone()?),
                stderr: Stdio::from(theirs),
            });
        }
        // Unless the caller separates them, both outputs share one pipe, so they arrive in the order in which
        // they were written.
        let (ours_out, theirs_out) = pipe_with(PipeFlags::CLOEXEC)?;
        let (ours_in, stdin) = if matches!(wiring, StdioMode::InputAndOutput | StdioMode::Pipes) {
            let (theirs_in, ours_in) = pipe_with(PipeFlags::CLOEXEC)?;
            (Some(ours_in), Stdio::from(theirs_in))
        } else {
            (None, Stdio::null())
        };
        if matches!(wiring, StdioMode::SeparateStderr | StdioMode::Pipes) {
            let (ours, theirs) = pipe_with(PipeFlags::CLOEXEC)?;
            let (stdout, stderr) = (Stdio::from(theirs_out), Stdio::from(theirs));
            return Ok(Self { ours_out, ours_errors: Some(ours), ours_in, stdin, stdout, stderr });
        }
        let stdout = Stdio::from(theirs_out.try_clone()?);
        let stderr = Stdio::from(theirs_out);
        Ok(Self { ours_out, ours_errors: None, ours_in, stdin, stdout, stderr })
    }
}

fn open_terminal() -> io::Result<(OwnedFd, OwnedFd)> {
    let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)?;
    grantpt(&ours)?;
    unlockpt(&ours)?;
    let name = ptsname(&ours, Vec::new())?;
    let flags = rustix::fs::OFlags::RDWR | rustix::fs::OFlags::NOCTTY | rustix::fs::OFlags::CLOEXEC;
    let theirs = rustix::fs::open(name.as_c_str(), flags, rustix::fs::Mode::empty())?;
    tcsetwinsize(&theirs, Winsize { ws_row: ROWS, ws_col: COLUMNS, ws_xpixel: 0, ws_ypixel: 0 })?;
    Ok((ours, theirs))
}

/// Sets up what the child does between fork and exec.
fn prepare(
    command: &mut Command,
    lifetime: Lifetime,
    (scope, mark): (KillScope, ProcessMark),
    wiring: StdioMode,
    fence: Option<Arc<ChildSandbox>>,
) {
    let parent = rustix::process::getpid();
    let in_child = move || -> io::Result<()> {
        rustix::process::setsid()?;
        if wiring == StdioMode::Terminal {
            rustix::process::ioctl_tiocsctty(rustix::stdio::stdin().as_fd())?;
        }
        close_others();
        if scope == KillScope::Tree {
            become_subreaper()?;
            mark.apply_to_self();
        }
        if let Some(fence) = &fence {
            fence.enter()?;
        }
        // This comes last, because a change of credentials would clear the signal.
        if lifetime == Lifetime::Bound {
            die_with_parent(parent)?;
        }
        Ok(())
    };
    // SAFETY: the closure only makes system calls on values prepared before the fork; it neither allocates
    // nor locks.
    #[expect(unsafe_code, reason = "std has no safe way to act between fork and exec")]
    unsafe {
        command.pre_exec(in_child);
    }
}

#[cfg(target_os = "linux")]
fn die_with_parent(parent: rustix::process::Pid) -> io::Result<()> {
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
    // The parent may have died before the signal was set up, and then the kernel would not send it.
    if rustix::process::getppid() == Some(parent) {
        Ok(())
    } else {
        Err(io::Error::from_raw_os_error(libc::ESRCH))
    }
}

#[cfg(not(target_os = "linux"))]
#[expect(clippy::unnecessary_wraps, reason = "elsewhere it can fail")]
fn bind_to(_: rustix::process::Pid) -> io::Result<()> {
    Ok(())
}

/// Makes the child adopt orphaned descendants as long as it lives, instead of the system. Every process it
/// started therefore stays below it, also one that started a session of its own.
#[cfg(target_os = "linux")]
fn become_subreaper() -> io::Result<()> {
    Ok(rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?)
}

#[cfg(not(target_os = "linux"))]
#[expect(clippy::unnecessary_wraps, reason = "elsewhere it can fail")]
fn adopt_orphans() -> io::Result<()> {
    Ok(())
}

/// Marks every descriptor but the first three to be closed by exec. Descriptors that Hermes opened are marked
/// already; this covers those that the parent of Hermes left open. Marking instead of closing keeps the
/// descriptor through which a failed exec is reported.
#[cfg(target_os = "linux")]
fn close_others() {
    const FIRST: libc::c_uint = 3;
    // SAFETY: the call takes three numbers and touches no memory. An old kernel refuses it, which does no
    // harm.
    #[expect(unsafe_code, reason = "rustix does not have close_range")]
    unsafe {
        libc::syscall(libc::SYS_close_range, FIRST, libc::c_uint::MAX, libc::CLOSE_RANGE_CLOEXEC);
    }
}

#[cfg(not(target_os = "linux"))]
fn close_others() {}
