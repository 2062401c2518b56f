//! Runs one script through a client, from start to end within a time limit.
//!
//! The call is over when the script reports its end, not when the client exits: a client may wait for every
//! process that still holds the remote end open. However the wait ends, the remote process group is ended
//! with it, also when the caller has dropped the call. The client's input stays open until then: where it is
//! closed without a message, because Hermes was killed, a remote process ends the group (`script.rs`).

use std::ops::ControlFlow;
use std::time::Duration;

use hermes_task::spawn_named;
use hermes_types::{BoxFuture, Cancel, Clock};

use super::cli::{CliError, CliTransport, ProfileLoading};
use super::frame_parser::{FrameParser, FramedOutput};
use super::script::{FrameMarks, InputEnd, payload};
use crate::child::{RunningChild, StdioMode};
use crate::run::{AfterInput, ExitCause, RunContext, read_until_end};

/// The time a silent pipe is still read after the end.
const IDLE: Duration = Duration::from_millis(300);
/// The time a silent pipe is still read when the command is stopped.
const MOMENT: Duration = Duration::from_millis(20);
/// The longest time a pipe that never falls silent is read after the end.
const LONGEST_DRAIN: Duration = Duration::from_secs(2);
const CHUNK: usize = 16 * 1024;

/// Describes a script for a remote shell, with its input, marks and profile loading.
#[derive(Debug)]
pub(crate) struct ScriptRequest<'a> {
    pub(crate) script: &'a str,
    pub(crate) stdin: Option<&'a [u8]>,
    pub(crate) marks: FrameMarks,
    pub(crate) profile: ProfileLoading,
}

/// The result of a script. `Exited` holds the client's exit code, which is meaningful only if the shell
/// reported none.
#[derive(Debug)]
pub(crate) struct ScriptResponse {
    pub(crate) framed: FramedOutput,
    pub(crate) exit_cause: ExitCause,
}

/// Runs a script in a remote shell and returns its result.
pub(crate) trait ScriptTransport: Send + Sync {
    fn clock(&self) -> &dyn Clock;

    /// Tells whether the remote side can detect the end of Hermes by the end of its input.
    fn input(&self) -> InputEnd {
        InputEnd::Known
    }

    fn run_script<'a>(
        &'a self,
        request: ScriptRequest<'a>,
        watch: RunContext<'a>,
    ) -> BoxFuture<'a, Result<ScriptResponse, CliError>>;
}

impl ScriptTransport for CliTransport {
    fn clock(&self) -> &dyn Clock {
        &*self.cli.clock
    }

    fn input(&self) -> InputEnd {
        InputEnd::WithUs
    }

    fn run_script<'a>(
        &'a self,
        request: ScriptRequest<'a>,
        watch: RunContext<'a>,
    ) -> BoxFuture<'a, Result<ScriptResponse, CliError>> {
        Box::pin(run_script_over_cli(self, request, watch))
    }
}

async fn run_script_over_cli(
    reach: &CliTransport,
    request: ScriptRequest<'_>,
    watch: RunContext<'_>,
) -> Result<ScriptResponse, CliError> {
    let RunContext { clock, bounds, .. } = watch;
    let ScriptRequest { script, stdin, marks, profile } = request;
    let bytes = payload(script, stdin);
    let launch = reach.cli.launch(&reach.arguments(profile), StdioMode::InputAndOutput);
    let mut running = launch.start().await.map_err(|error| reach.cli.not_started(error))?;
    let mut frames = FrameParser::new(marks, bounds);
    let mut leash = KillGroupOnDrop { transport: reach, group: None };
    let ending = read_until_end(&mut running, (Some(&bytes), AfterInput::Hold), watch, |heard| {
        frames.push(heard);
        leash.group = frames.group();
        if frames.is_ended() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })
    .await
    .map_err(|error| reach.cli.not_started(error))?;
    if matches!(ending, ExitCause::Exited(_)) {
        leash.group = None;
        drain(&running, &mut frames, clock, IDLE).await;
    } else {
        // Only the output until now counts: a shell that is being ended writes messages about it.
        drain(&running, &mut frames, clock, MOMENT).await;
        leash.group = frames.group();
        if let Some(group) = leash.group {
            reach.end_group(group).await;
        }
        leash.group = None;
    }
    end_client(&mut running, clock).await;
    Ok(ScriptResponse { framed: frames.finish(), exit_cause: ending })
}

/// Ends the remote process group if the call is dropped before it is over.
#[derive(Debug)]
struct KillGroupOnDrop<'a> {
    transport: &'a CliTransport,
    group: Option<u32>,
}

impl Drop for KillGroupOnDrop<'_> {
    fn drop(&mut self) {
        let Some(group) = self.group.take() else { return };
        if tokio::runtime::Handle::try_current().is_ok() {
            let reach = self.transport.clone();
            spawn_named(format!("end {group}"), &Cancel::new(), async move { reach.end_group(group).await });
        }
    }
}

async fn end_client(running: &mut RunningChild, clock: &dyn Clock) {
    let group = running.group();
    let ((), code) = tokio::join!(group.terminate(clock), running.wait());
    if let Err(error) = code {
        tracing::debug!(%error, "a client could not be waited for");
    }
}

async fn drain(running: &RunningChild, frames: &mut FrameParser, clock: &dyn Clock, patience: Duration) {
    let mut buffer = vec![0; CHUNK];
    let mut enough = clock.sleep(LONGEST_DRAIN);
    loop {
        let mut idle = clock.sleep(patience);
        tokio::select! {
            biased;
            read = running.output.read(&mut buffer) => match read {
                Ok(count @ 1..) => frames.push(buffer.get(..count).unwrap_or_default()),
                Ok(0) | Err(_) => return,
            },
            () = &mut idle => return,
            () = &mut enough => return,
        }
    }
}
