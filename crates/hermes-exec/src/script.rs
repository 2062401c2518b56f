//! A script from start to end: its two outputs apart, bounded, within a time.
//!
//! It runs inside the fence that commands of its folder have. Whatever ends it, all it started ends with it: a script is
//! one piece of work, and what shall run on is started as a background process.

use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use hermes_types::{Cancel, Clock, Finished, RunError};

use crate::child::{Launch, Lifetime, Running, Wiring};
use crate::clip::{Clip, Clipped};
use crate::group::Scope;
use crate::program::ProgramEnd;
use crate::sandbox::{FenceReport, Sandbox, Stay};
use crate::stream::Stream;
use crate::variables::Variables;

/// What a script gets to end by itself when its time is over.
const GRACE: Duration = Duration::from_secs(5);
/// And when somebody waits for it to stop.
const SHORT_GRACE: Duration = Duration::from_secs(1);
/// How long a pipe is still listened to that something outside the group holds open.
const IDLE: Duration = Duration::from_millis(300);
const CHUNK: usize = 16 * 1024;

/// Runs scripts on this machine.
#[derive(Debug, Clone)]
pub struct Scripts {
    sandbox: Sandbox,
    clock: Arc<dyn Clock>,
}

/// A script to be run.
#[derive(Debug, Clone)]
pub struct Script<'a> {
    pub program: &'a Path,
    pub arguments: Vec<OsString>,
    /// All of it: nothing is inherited.
    pub variables: &'a Variables,
    pub directory: &'a Path,
    /// The folder whose fence holds it in.
    pub fenced_to: &'a Path,
    pub limit: Duration,
    /// Bytes kept of the beginning and of the end of what it says.
    pub output: (usize, usize),
    /// Bytes kept of the beginning of what it complains about.
    pub complaints: usize,
}

/// What a script came to.
#[derive(Debug)]
pub struct ScriptRun {
    pub output: Clipped,
    pub complaints: Clipped,
    pub end: ProgramEnd,
    pub fence: FenceReport,
}

impl Scripts {
    pub fn new(sandbox: Sandbox, clock: Arc<dyn Clock>) -> Self {
        Self { sandbox, clock }
    }

    pub async fn run(&self, script: Script<'_>, cancel: &Cancel) -> Result<ScriptRun, RunError> {
        let fence = self
            .sandbox
            .around(script.fenced_to, script.directory, Stay::Short)
            .map_err(RunError::Refused)?
            .map(Arc::new);
        let mut variables = script.variables.pairs();
        let caches = self.sandbox.variables().into_iter();
        let caches = caches.filter(|(name, _)| script.variables.get(name).is_none());
        variables.extend(caches.map(|(name, value)| (name.to_owned(), value)));
        let launch = Launch {
            program: script.program.to_owned(),
            arguments: script.arguments,
            variables,
            directory: script.directory.to_owned(),
            lifetime: Lifetime::Bound,
            scope: Scope::Kin,
            wiring: Wiring::Apart,
            fence: fence.clone(),
        };
        let mut ears = Ears {
            output: Clip::new(script.output.0, script.output.1),
            complaints: Clip::new(script.complaints, 0),
        };
        let end = self.follow(launch, script.limit, cancel, &mut ears).await;
        let end = end.map_err(|error| RunError::Unavailable(error.to_string()))?;
        let (output, complaints) = (ears.output.finish(), ears.complaints.finish());
        let exit_code = if let ProgramEnd::Exited(code) = end { code } else { -1 };
        let said = Finished { output: complaints.head.clone(), exit_code };
        let report = fence.map(|fence| fence.report(&said, script.directory));
        Ok(ScriptRun { output, complaints, end, fence: report.unwrap_or_default() })
    }

    async fn follow(
        &self,
        launch: Launch,
        limit: Duration,
        cancel: &Cancel,
        ears: &mut Ears,
    ) -> io::Result<ProgramEnd> {
        let mut running = launch.start().await?;
        let clock = &*self.clock;
        let end = ears.listen(&mut running, limit, clock, cancel).await?;
        let grace = match end {
            ProgramEnd::Exited(_) => Duration::ZERO,
            ProgramEnd::TooSlow => GRACE,
            ProgramEnd::Cancelled => SHORT_GRACE,
        };
        let group = running.group();
        if !matches!(end, ProgramEnd::Exited(_)) {
            let ((), code) = tokio::join!(group.end_within(grace, clock), running.wait());
            code?;
        }
        group.kill();
        ears.drain(&running, clock).await;
        Ok(end)
    }
}

/// What is heard of a script.
struct Ears {
    output: Clip,
    complaints: Clip,
}

impl Ears {
    async fn listen(
        &mut self,
        running: &mut Running,
        limit: Duration,
        clock: &dyn Clock,
        cancel: &Cancel,
    ) -> io::Result<ProgramEnd> {
        let mut out_of_time = clock.sleep(limit);
        let (mut first, mut second) = (vec![0; CHUNK], vec![0; CHUNK]);
        let (mut talks, mut complains) = (true, true);
        let (output, errors, mut reaper) = running.parts_apart();
        loop {
            tokio::select! {
                biased;
                () = cancel.cancelled() => return Ok(ProgramEnd::Cancelled),
                () = &mut out_of_time => return Ok(ProgramEnd::TooSlow),
                count = heard(Some(output), &mut first), if talks => {
                    talks = count > 0;
                    self.output.push(first.get(..count).unwrap_or_default());
                }
                count = heard(errors, &mut second), if complains => {
                    complains = count > 0;
                    self.complaints.push(second.get(..count).unwrap_or_default());
                }
                code = reaper.wait() => return Ok(ProgramEnd::Exited(code?)),
            }
        }
    }

    /// What is left in the pipes. Everything in the group is gone, so they end unless something left it on purpose.
    async fn drain(&mut self, running: &Running, clock: &dyn Clock) {
        let mut buffer = vec![0; CHUNK];
        for (stream, clip) in
            [(Some(&running.output), &mut self.output), (running.errors.as_ref(), &mut self.complaints)]
        {
            let mut enough = clock.sleep(IDLE);
            loop {
                tokio::select! {
                    biased;
                    count = heard(stream, &mut buffer) => {
                        if count == 0 {
                            break;
                        }
                        clip.push(buffer.get(..count).unwrap_or_default());
                    }
                    () = &mut enough => break,
                }
            }
        }
    }
}

/// The next bytes; none once it is over.
async fn heard(stream: Option<&Stream>, buffer: &mut [u8]) -> usize {
    match stream {
        Some(stream) => stream.read(buffer).await.unwrap_or(0),
        None => 0,
    }
}
