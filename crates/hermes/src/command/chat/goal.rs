//! The goal of a terminal chat: what is done about it between two turns.

use anyhow::Result;
use hermes_agent::{GoalStep, Goals, TurnEnding, TurnResult};
use hermes_gateway::goal_turns;
use hermes_gateway::slash::{self, GoalWork};
use hermes_types::Cancel;

use super::chat_loop::ChatLoop;
use super::drive::{TypedLinePolicy, drive};

/// What is due for the goal before the next message is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DueGoalWork {
    Nothing,
    Step,
    Pause(&'static str),
}

impl DueGoalWork {
    /// Decides what the end of a turn means for the goal.
    pub(super) fn after(result: &TurnResult) -> Self {
        match result.ending() {
            TurnEnding::Answered(_) | TurnEnding::CutShort(_) => Self::Step,
            TurnEnding::Interrupted { .. } => Self::Pause("it was stopped"),
            TurnEnding::Silent { .. } | TurnEnding::Failed { .. } => Self::Pause("the last turn failed"),
        }
    }
}

/// Returns the prompt of the goal's next turn, if one is due. A message that waits comes first: its turn has the goal looked at
/// again.
pub(super) async fn next_prompt(chat: &mut ChatLoop<'_>) -> Result<Option<String>> {
    if !chat.queue.is_empty() {
        return Ok(None);
    }
    let due = std::mem::replace(&mut chat.due_goal_work, DueGoalWork::Nothing);
    if due == DueGoalWork::Nothing {
        return Ok(None);
    }
    let goals = Goals::new(&chat.runtime.agent);
    let session = chat.opened.conversation.session();
    if let DueGoalWork::Pause(reason) = due {
        if let Some(text) = goals.pause(session, reason).await? {
            chat.output.line(&text);
        }
        return Ok(None);
    }
    if chat.signals.exit_code().is_some() || !goals.is_active(session).await? {
        return Ok(None);
    }
    let cancel = Cancel::new();
    let checked = drive(
        goals.next_step(&chat.opened.conversation, &cancel),
        &chat.terminal,
        &mut chat.input,
        &mut chat.signals,
        &cancel,
        TypedLinePolicy::Interrupt,
    )
    .await;
    chat.queue.extend(checked.typed);
    match checked.result? {
        GoalStep::Turn { prompt, number, limit } if chat.queue.is_empty() && !cancel.is_cancelled() => {
            chat.output.line(&format!("🎯 Turn {number} of {limit} for the goal"));
            Ok(Some(prompt))
        }
        GoalStep::Ended(text) => {
            chat.output.line(&hermes_text::escape_terminal(&text));
            Ok(None)
        }
        GoalStep::Turn { .. } | GoalStep::Nothing => {
            chat.due_goal_work = DueGoalWork::Step;
            if cancel.is_cancelled()
                && chat.queue.is_empty()
                && let Some(text) = goals.pause(session, "it was stopped").await?
            {
                chat.due_goal_work = DueGoalWork::Nothing;
                chat.output.line(&text);
            }
            Ok(None)
        }
    }
}

/// Runs `/goal`.
pub(super) async fn run_goal_command(chat: &mut ChatLoop<'_>, arguments: &str) -> Result<()> {
    let limit = goal_turns(&chat.runtime.config);
    let session = chat.opened.conversation.session();
    let (text, work) = slash::goal(Goals::new(&chat.runtime.agent), session, arguments, limit).await?;
    chat.output.line(&hermes_text::escape_terminal(&text));
    if work == GoalWork::Begin {
        chat.due_goal_work = DueGoalWork::Step;
    }
    Ok(())
}

/// Runs `/subgoal`.
pub(super) async fn run_subgoal_command(chat: &mut ChatLoop<'_>, arguments: &str) -> Result<()> {
    let session = chat.opened.conversation.session();
    let text = slash::subgoal(Goals::new(&chat.runtime.agent), session, arguments).await?;
    chat.output.line(&hermes_text::escape_terminal(&text));
    Ok(())
}
