//! Decides whether a command runs inside or outside the sandbox, and reports it to the model.
//!
//! A command runs inside. If the sandbox refused it something, a person may approve another run outside; no
//! command runs outside or is repeated without an approval.

use hermes_exec::{HostExposure, SandboxRefusal, SandboxReport};
use hermes_types::{Cancel, CommandOutput, RunError, ShellCommand, TaskId, ToolContext};
use serde_json::{Map, Value, json};

use super::TerminalTool;
use super::shells::TaskEnvironment;
use super::sudo::SudoCommand;

const AGREED: &str = "outside the sandbox";

/// Selects whether a command runs inside or outside the sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SandboxPlacement {
    Inside,
    Outside,
}

/// The result of a command that has run.
pub(super) struct TerminalRun {
    pub(super) finished: CommandOutput,
    pub(super) sandbox: SandboxReport,
    /// The approval that a person gave for it.
    pub(super) approved: Option<String>,
}

impl SandboxPlacement {
    pub(super) async fn run(
        self,
        place: &TaskEnvironment,
        request: ShellCommand<'_>,
        cancel: &Cancel,
    ) -> Result<(CommandOutput, SandboxReport), RunError> {
        match (place, self) {
            (TaskEnvironment::Local(local), Self::Inside) => local.run_sandboxed(request, cancel).await,
            (TaskEnvironment::Local(local), Self::Outside) => local
                .run_unsandboxed(request, cancel)
                .await
                .map(|finished| (finished, SandboxReport::default())),
            (TaskEnvironment::Remote(_), _) => place
                .environment()
                .run(request, cancel)
                .await
                .map(|finished| (finished, SandboxReport::default())),
        }
    }
}

impl TerminalTool {
    /// Runs a command inside the sandbox, or outside if a person has approved it before or approves it now.
    pub(super) async fn run_with_sandbox(
        &self,
        place: &TaskEnvironment,
        request: ShellCommand<'_>,
        task: &TaskId,
        context: ToolContext<'_>,
    ) -> Result<TerminalRun, RunError> {
        let here = matches!(place, TaskEnvironment::Local(_));
        let agreed = Some(AGREED.to_owned());
        if here && self.approvals.may_run_unsandboxed(request.shell, task) {
            let (finished, fence) =
                self.run_with_password(place, request, SandboxPlacement::Outside, context).await?;
            return Ok(TerminalRun { finished, sandbox: fence, approved: agreed });
        }
        let (finished, fence) =
            self.run_with_password(place, request, SandboxPlacement::Inside, context).await?;
        if let Some(refused) = fence.refused.as_ref().filter(|_| !context.cancel.is_cancelled())
            && self.approvals.ask_unsandboxed(request.shell, &refusal_text(refused), task, context).await
        {
            let (finished, _) =
                self.run_with_password(place, request, SandboxPlacement::Outside, context).await?;
            let fence = SandboxReport { refused: None, ..fence };
            return Ok(TerminalRun { finished, sandbox: fence, approved: agreed });
        }
        Ok(TerminalRun { finished, sandbox: fence, approved: None })
    }
}

impl TerminalTool {
    /// Runs a command and supplies the password that `sudo` in it needs. Inside the sandbox a command cannot
    /// change its user, so the user is not asked.
    async fn run_with_password(
        &self,
        place: &TaskEnvironment,
        request: ShellCommand<'_>,
        side: SandboxPlacement,
        context: ToolContext<'_>,
    ) -> Result<(CommandOutput, SandboxReport), RunError> {
        let pointless = match place {
            TaskEnvironment::Local(local) => side == SandboxPlacement::Inside && local.is_sandboxed(),
            TaskEnvironment::Remote(_) => self.shells.host_exposure() == HostExposure::Isolated,
        };
        let provided =
            if pointless { None } else { self.sudo.provide(request.shell, context, &*self.clock).await };
        let request = match &provided {
            Some(SudoCommand { command, password: input }) => {
                ShellCommand { shell: command, stdin: Some(input.expose().as_bytes()), ..request }
            }
            None => request,
        };
        let (mut finished, report) = self.try_running(place, request, side, context).await?;
        self.sudo.check_output(&mut finished.output);
        Ok((finished, report))
    }
}

/// Describes the effect of the sandbox for the model. Returns `None` if it had none.
pub(crate) fn report_json(report: &SandboxReport) -> Option<Value> {
    let mut fields = Map::new();
    if let Some(refused) = &report.refused {
        let what = refused.path.as_ref().map(|path| path.display().to_string());
        fields.insert("refused".to_owned(), json!(what));
        fields.insert("rule".to_owned(), json!(refused.rule));
        fields.insert("setting".to_owned(), json!(format!("{} would allow it", refused.setting)));
    }
    if !report.restored.is_empty() {
        fields.insert("restored".to_owned(), json!(report.restored));
        fields.insert(
            "restored_rule".to_owned(),
            json!("commands may not leave what other programs run by themselves (git hooks and settings, start-up files); this was put back as it was"),
        );
    }
    (!fields.is_empty()).then_some(Value::Object(fields))
}

fn refusal_text(SandboxRefusal { path, rule, setting }: &SandboxRefusal) -> String {
    let what = path.as_ref().map_or_else(|| "something".to_owned(), |path| path.display().to_string());
    format!("{what} ({rule}; {setting} would allow it for good)")
}
