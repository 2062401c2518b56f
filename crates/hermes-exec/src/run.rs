//! Runs one command from start to end within a time limit.
//!
//! Reads the output while waiting, writes the input concurrently, and stops reading soon after the shell has
//! exited even if a process it left running still holds the pipe. However the wait ends, the child is reaped.

use std::io;
use std::ops::ControlFlow;
use std::time::Duration;

use hermes_types::{Cancel, Clock};

use crate::capture::{CapturedOutput, OutputBounds, OutputCapture};
use crate::child::{Launch, RunningChild};

/// The time a silent pipe is still read after the shell has exited.
const IDLE: Duration = Duration::from_millis(300);
/// The longest time a pipe that never falls silent is read after the shell has exited.
const LONGEST_DRAIN: Duration = Duration::from_secs(2);
const CHUNK: usize = 16 * 1024;

/// The result of a command.
#[derive(Debug)]
pub(crate) struct CommandOutcome {
    pub(crate) output: CapturedOutput,
    pub(crate) exit_cause: ExitCause,
}

/// The reasons why a command is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ExitCause {
    Exited(i32),
    TimedOut,
    Interrupted,
}

/// The conditions under which a command runs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RunContext<'a> {
    pub(crate) limit: Duration,
    pub(crate) clock: &'a dyn Clock,
    pub(crate) cancel: &'a Cancel,
    pub(crate) bounds: OutputBounds,
}

pub(crate) async fn run(
    launch: Launch,
    stdin: Option<&[u8]>,
    watch: RunContext<'_>,
) -> io::Result<CommandOutcome> {
    let mut running = launch.start().await?;
    let mut output = OutputCapture::new(watch.bounds);
    let ending = read_until_end(&mut running, (stdin, AfterInput::Close), watch, |bytes| {
        output.push(bytes);
        ControlFlow::Continue(())
    })
    .await?;
    if !matches!(ending, ExitCause::Exited(_)) {
        end(&mut running, watch.clock).await?;
    }
    drain(&running, &mut output, watch.clock, watch.cancel).await;
    Ok(CommandOutcome { output: output.finish(), exit_cause: ending })
}

/// Selects what happens to a child's input when all of it was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AfterInput {
    Close,
    /// The input stays open and returns to the child's handle, because the remote side takes its end for the
    /// end of Hermes.
    Hold,
}

/// Writes the input and passes on the output of a child until it exits, its time limit expires, it is
/// interrupted, or the receiver needs no more.
pub(crate) async fn read_until_end(
    running: &mut RunningChild,
    (stdin, after): (Option<&[u8]>, AfterInput),
    watch: RunContext<'_>,
    mut heard: impl FnMut(&[u8]) -> ControlFlow<()>,
) -> io::Result<ExitCause> {
    let RunContext { limit, clock, cancel, .. } = watch;
    let input = running.input.take();
    let feed = async {
        if let (Some(input), Some(bytes)) = (&input, stdin) {
            // A program that does not read its whole input is no failure.
            let _ = input.write_all(bytes).await;
        }
        input.filter(|_| after == AfterInput::Hold)
    };
    let mut feed = std::pin::pin!(feed);
    let mut fed = false;
    let mut held = None;
    let mut out_of_time = clock.sleep(limit);
    let mut buffer = vec![0; CHUNK];
    let mut open = true;
    let (pipe, mut reaper) = running.output_and_reaper();
    let ending = loop {
        tokio::select! {
            biased;
            () = cancel.cancelled() => break ExitCause::Interrupted,
            () = &mut out_of_time => break ExitCause::TimedOut,
            left = &mut feed, if !fed => {
                fed = true;
                held = left;
            }
            read = pipe.read(&mut buffer), if open => match read {
                Ok(count @ 1..) => {
                    if heard(buffer.get(..count).unwrap_or_default()).is_break() {
                        break ExitCause::Exited(0);
                    }
                }
                Ok(0) | Err(_) => open = false,
            },
            code = reaper.wait() => break ExitCause::Exited(code?),
        }
    };
    running.input = held;
    Ok(ending)
}

/// Ends the process group and reaps the child.
async fn end(running: &mut RunningChild, clock: &dyn Clock) -> io::Result<()> {
    let group = running.group();
    let ((), code) = tokio::join!(group.terminate(clock), running.wait());
    code.map(|_| ())
}

async fn drain(running: &RunningChild, output: &mut OutputCapture, clock: &dyn Clock, cancel: &Cancel) {
    let mut buffer = vec![0; CHUNK];
    let mut enough = clock.sleep(LONGEST_DRAIN);
    loop {
        let mut idle = clock.sleep(IDLE);
        tokio::select! {
            biased;
            read = running.output.read(&mut buffer) => match read {
                Ok(count @ 1..) => output.push(buffer.get(..count).unwrap_or_default()),
                Ok(0) | Err(_) => return,
            },
            () = &mut idle => return,
            () = &mut enough => return,
            () = cancel.cancelled() => return,
        }
    }
}
