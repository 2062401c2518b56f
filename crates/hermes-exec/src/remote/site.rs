//! A place elsewhere at which several tasks may work.
//!
//! The site is the container, instance, sandbox or machine; a seat is one task's shell there, with a folder and exports of
//! its own. Nothing of one seat reaches another but through the files they share.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use hermes_types::{BoxFuture, Cancel, Command, Environment, Finished, RunError};

use super::{RemoteShell, script};
use crate::capture::Bounds;
use crate::child::Launch;
use crate::credential::Luggage;

const END_LIMIT: Duration = Duration::from_secs(8);

/// What can run a shell's commands. Made ready at the first of them, and anew when it is gone.
pub(crate) trait Site: Send + Sync + fmt::Debug {
    /// A shell that begins where commands begin here.
    fn new_shell(&self) -> RemoteShell;

    fn run_in<'a>(
        &'a self,
        shell: &'a RemoteShell,
        command: Command<'a>,
        cancel: &'a Cancel,
    ) -> BoxFuture<'a, Result<Finished, RunError>>;

    /// A client that runs a line on a terminal over there; none where there are no terminals.
    fn on_terminal(&self, _line: &str) -> Option<Launch> {
        None
    }

    /// Removes what a shell left behind, where that outlives it.
    fn leave<'a>(&'a self, shell: &'a RemoteShell) -> BoxFuture<'a, ()>;

    /// Which making of the place it is, if it is made: another name is another file system, or an emptied one.
    fn current(&self) -> BoxFuture<'_, Option<String>>;

    /// Ends it. One that is gone already is no failure; the next command makes it anew.
    fn end(&self) -> BoxFuture<'_, ()>;
}

/// A place elsewhere.
#[derive(Debug, Clone)]
pub struct Room {
    site: Arc<dyn Site>,
    luggage: Option<Arc<Luggage>>,
}

impl Room {
    /// Files in the luggage are brought before a command that may need them.
    pub(crate) fn new(site: Arc<dyn Site>, luggage: Option<Arc<Luggage>>) -> Self {
        Self { site, luggage }
    }

    /// A task's own shell.
    pub fn seat(&self) -> Seat {
        Seat {
            plain: Plain { shell: self.site.new_shell(), site: Arc::clone(&self.site) },
            luggage: self.luggage.clone(),
        }
    }

    /// Ends it. One that is gone already is no failure; the next command makes it anew.
    pub async fn close(&self) {
        self.site.end().await;
    }
}

/// One task's shell in a room.
#[derive(Debug)]
pub struct Seat {
    plain: Plain,
    luggage: Option<Arc<Luggage>>,
}

/// The shell alone.
#[derive(Debug)]
struct Plain {
    site: Arc<dyn Site>,
    shell: RemoteShell,
}

impl Seat {
    /// Where the next command starts, as it is called over there.
    pub fn directory(&self) -> String {
        self.plain.shell.directory()
    }

    /// How much of an output is kept.
    pub fn bounds(&self) -> Bounds {
        self.plain.shell.bounds()
    }

    /// A client that runs a line on a terminal over there; none where there are no terminals.
    pub(super) fn on_terminal(&self, line: &str) -> Option<Launch> {
        self.plain.site.on_terminal(line)
    }

    /// Ends a process group over there: a request, a second's grace, then the kill.
    pub(crate) async fn end_group(&self, group: u32) {
        let shell = format!("( {} )", script::end_group(group));
        let command = Command { shell: &shell, directory: None, stdin: None, limit: END_LIMIT };
        if let Err(error) = self.plain.run(command, &Cancel::new()).await {
            tracing::warn!(%error, group, "a process over there could not be ended");
        }
    }

    /// Removes what the shell left behind. The room stays.
    pub async fn leave(&self) {
        self.plain.site.leave(&self.plain.shell).await;
    }
}

impl Environment for Seat {
    fn run<'a>(
        &'a self,
        command: Command<'a>,
        cancel: &'a Cancel,
    ) -> BoxFuture<'a, Result<Finished, RunError>> {
        Box::pin(async move {
            if let Some(luggage) = &self.luggage {
                luggage.bring(&self.plain, &*self.plain.site, self.bounds(), cancel).await;
            }
            self.plain.run(command, cancel).await
        })
    }
}

impl Environment for Plain {
    fn run<'a>(
        &'a self,
        command: Command<'a>,
        cancel: &'a Cancel,
    ) -> BoxFuture<'a, Result<Finished, RunError>> {
        self.site.run_in(&self.shell, command, cancel)
    }
}
