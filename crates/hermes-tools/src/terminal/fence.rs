//! On which side of the sandbox's fence a command runs, and what the model reads about it.
//!
//! A command runs inside. Where the fence refused it something, a person may let it run once more outside; nothing else
//! does, and nothing is run again without being asked for.

use hermes_exec::{FenceReport, Reachable, Refusal};
use hermes_types::{Cancel, Command, Finished, RunError, TaskId, ToolContext};
use serde_json::{Map, Value, json};

use super::Terminal;
use super::shells::Place;
use super::sudo::Provided;

const AGREED: &str = "outside the sandbox";

/// Which side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    Inside,
    Outside,
}

/// A command that has run.
pub(super) struct Ran {
    pub(super) finished: Finished,
    pub(super) fence: FenceReport,
    /// What somebody agreed to for it.
    pub(super) agreed: Option<String>,
}

impl Side {
    pub(super) async fn run(
        self,
        place: &Place,
        request: Command<'_>,
        cancel: &Cancel,
    ) -> Result<(Finished, FenceReport), RunError> {
        match (place, self) {
            (Place::Here(local), Self::Inside) => local.run_fenced(request, cancel).await,
            (Place::Here(local), Self::Outside) => {
                local.run_outside(request, cancel).await.map(|finished| (finished, FenceReport::default()))
            }
            (Place::There(_), _) => place
                .environment()
                .run(request, cancel)
                .await
                .map(|finished| (finished, FenceReport::default())),
        }
    }
}

impl Terminal {
    /// Runs a command inside, and outside if that was agreed to, before or on being asked now.
    pub(super) async fn run_by_the_fence(
        &self,
        place: &Place,
        request: Command<'_>,
        task: &TaskId,
        context: ToolContext<'_>,
    ) -> Result<Ran, RunError> {
        let here = matches!(place, Place::Here(_));
        let agreed = Some(AGREED.to_owned());
        if here && self.approvals.lets_out(request.shell, task) {
            let (finished, fence) = self.run_with_password(place, request, Side::Outside, context).await?;
            return Ok(Ran { finished, fence, agreed });
        }
        let (finished, fence) = self.run_with_password(place, request, Side::Inside, context).await?;
        if let Some(refused) = fence.refused.as_ref().filter(|_| !context.cancel.is_cancelled())
            && self.approvals.may_leave(request.shell, &in_words(refused), task, context).await
        {
            let (finished, _) = self.run_with_password(place, request, Side::Outside, context).await?;
            let fence = FenceReport { refused: None, ..fence };
            return Ok(Ran { finished, fence, agreed });
        }
        Ok(Ran { finished, fence, agreed: None })
    }
}

impl Terminal {
    /// Runs a command with what `sudo` in it asks for. Inside the fence nobody can become another user, so nobody is asked.
    async fn run_with_password(
        &self,
        place: &Place,
        request: Command<'_>,
        side: Side,
        context: ToolContext<'_>,
    ) -> Result<(Finished, FenceReport), RunError> {
        let pointless = match place {
            Place::Here(local) => side == Side::Inside && local.is_fenced(),
            Place::There(_) => self.shells.reachable() == Reachable::Nothing,
        };
        let provided =
            if pointless { None } else { self.sudo.provide(request.shell, context, &*self.clock).await };
        let request = match &provided {
            Some(Provided { command, input }) => {
                Command { shell: command, stdin: Some(input.expose().as_bytes()), ..request }
            }
            None => request,
        };
        let (mut finished, report) = self.try_running(place, request, side, context).await?;
        self.sudo.learn(&mut finished.output);
        Ok((finished, report))
    }
}

/// What the model reads; nothing where the fence had nothing to do with it.
pub(crate) fn told(report: &FenceReport) -> Option<Value> {
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

fn in_words(Refusal { path, rule, setting }: &Refusal) -> String {
    let what = path.as_ref().map_or_else(|| "something".to_owned(), |path| path.display().to_string());
    format!("{what} ({rule}; {setting} would allow it for good)")
}
