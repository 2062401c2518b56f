//! `/goal` and `/subgoal`: what the conversation works towards by itself, turn after turn.

use std::fmt::Write as _;

use hermes_agent::{Goal, GoalState, Goals};
use hermes_store::Error;
use hermes_types::SessionId;

const NO_GOAL: &str =
    "This conversation has no goal. `/goal TEXT` sets one, and I work on it until it is reached.";

/// What follows the reply to a goal command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GoalWork {
    /// The next step of the goal is due.
    Begin,
    Nothing,
}

/// Sets, shows, pauses, resumes or removes the goal of a session. `limit` is the number of turns a new goal may take.
pub async fn goal(
    goals: Goals<'_>,
    session: &SessionId,
    arguments: &str,
    limit: u32,
) -> Result<(String, GoalWork), Error> {
    let current = goals.get(session).await?;
    let nothing = |text: &str| Ok((text.to_owned(), GoalWork::Nothing));
    match (arguments, current) {
        ("" | "status" | "show", Some(goal)) => Ok((describe(&goal), GoalWork::Nothing)),
        ("pause", Some(goal)) if goal.state == GoalState::Active => {
            let paused = goals.pause(session, "you paused it").await?;
            Ok((paused.unwrap_or_default(), GoalWork::Nothing))
        }
        ("pause", Some(_)) => nothing("The goal is not active."),
        ("resume", Some(goal)) if goal.state == GoalState::Active => nothing("The goal is active already."),
        ("resume", Some(mut goal)) => {
            goal.resume(limit);
            goals.set(session, Some(&goal)).await?;
            Ok((format!("▶ Going on with the goal (up to {limit} turns): {}", goal.text), GoalWork::Begin))
        }
        ("clear" | "stop" | "done", Some(_)) => {
            goals.set(session, None).await?;
            nothing("The goal is removed.")
        }
        ("" | "status" | "show" | "pause" | "resume" | "clear" | "stop" | "done", None) => nothing(NO_GOAL),
        (text, before) => {
            let goal = Goal::new(text.to_owned(), limit);
            goals.set(session, Some(&goal)).await?;
            let replaced = if before.is_some() { " It replaces the one before." } else { "" };
            let text = format!(
                "🎯 Goal set. I work on it for up to {limit} turns; a message from you comes first, and \
                 `/goal pause` stops it.{replaced}"
            );
            Ok((text, GoalWork::Begin))
        }
    }
}

/// Shows, adds or removes what must hold besides the goal.
pub async fn subgoal(goals: Goals<'_>, session: &SessionId, arguments: &str) -> Result<String, Error> {
    let Some(mut goal) = goals.get(session).await? else { return Ok(NO_GOAL.to_owned()) };
    let (word, rest) = arguments.split_once(char::is_whitespace).unwrap_or((arguments, ""));
    let text = match (word, rest.trim()) {
        ("", _) => return Ok(describe(&goal)),
        ("clear", "") => {
            goal.requirements.clear();
            "All requirements are removed.".to_owned()
        }
        ("remove", number) => match number.parse::<usize>().ok().and_then(|number| number.checked_sub(1)) {
            Some(at) if at < goal.requirements.len() => {
                format!("Removed: {}", goal.requirements.remove(at))
            }
            _ => return Ok(format!("There is no requirement \"{number}\".\n{}", describe(&goal))),
        },
        _ => {
            goal.requirements.push(arguments.to_owned());
            format!("Added requirement {}: {arguments}", goal.requirements.len())
        }
    };
    goals.set(session, Some(&goal)).await?;
    Ok(text)
}

fn describe(goal: &Goal) -> String {
    let state = match goal.state {
        GoalState::Active => format!("active, turn {} of {}", goal.turns, goal.limit),
        GoalState::Paused => "paused".to_owned(),
        GoalState::Reached => "reached".to_owned(),
    };
    let mut text = format!("🎯 Goal ({state}): {}", goal.text);
    for (at, requirement) in goal.requirements.iter().enumerate() {
        let _ = write!(text, "\n{}. {requirement}", at + 1);
    }
    if let Some(reason) = &goal.reason {
        let _ = write!(text, "\nLast: {reason}");
    }
    text
}
