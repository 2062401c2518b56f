//! Goals: what a conversation works towards over several turns, and the check between two of them.
//!
//! Holds the goal, its next step and the check by a side model. Who runs the turns is the surface's business.
//! Invariant: a goal takes at most `limit` turns before a person resumes it, and a check that fails stops it.

use std::fmt::Write as _;

use hermes_store::Error as StoreError;
use hermes_text::{single_line, tail};
use hermes_types::{Cancel, Deadline, Message, ModelRequest, Role, SessionId};
use serde::{Deserialize, Serialize};

use crate::agent::Agent;
use crate::conversation::Conversation;
use crate::review::record_usage;
use crate::turn::reply::final_text;

const CHECK_INSTRUCTIONS: &str = include_str!("texts/goal_check.md").trim_ascii();
const CONTINUE: &str = include_str!("texts/goal_continue.md").trim_ascii();
/// The most characters of an answer that a check reads, from its end.
const MAX_ANSWER_CHARS: usize = 6000;
const CHECK_FAILED: &str = "the check whether it is reached failed";
const MAX_REASON_CHARS: usize = 300;
const MAX_TOKENS: u64 = 200;
/// How often a check is asked for before the goal is paused.
const CHECK_ATTEMPTS: usize = 2;

/// The state of a goal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum GoalState {
    Active,
    Paused,
    Reached,
}

/// What a conversation works towards.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Goal {
    pub text: String,
    /// What must hold besides, each added by the user.
    #[serde(default)]
    pub requirements: Vec<String>,
    pub state: GoalState,
    /// The turns taken since the goal was set or resumed.
    #[serde(default)]
    pub turns: u32,
    /// The turns it may take before a person resumes it.
    pub limit: u32,
    /// What the last check said, or why the goal is paused.
    #[serde(default)]
    pub reason: Option<String>,
}

impl Goal {
    pub fn new(text: String, limit: u32) -> Self {
        Self { text, requirements: Vec::new(), state: GoalState::Active, turns: 0, limit, reason: None }
    }

    /// Makes the goal active for up to `limit` further turns. The next step is a turn.
    pub fn resume(&mut self, limit: u32) {
        self.state = GoalState::Active;
        self.limit = limit;
        self.turns = 0;
    }

    /// Describes the goal with its requirements, for the model.
    fn description(&self) -> String {
        let mut text = format!("Goal: {}", self.text);
        for (at, requirement) in self.requirements.iter().enumerate() {
            let _ = write!(text, "\nRequirement {}: {requirement}", at + 1);
        }
        text
    }
}

/// What happens next with the goal of a conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GoalStep {
    /// There is no goal, or it is not active.
    Nothing,
    /// Another turn begins with this prompt.
    Turn { prompt: String, number: u32, limit: u32 },
    /// The goal is reached or paused; the text is for the user.
    Ended(String),
}

/// What a check said.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Verdict {
    Done(String),
    Continue(String),
    Blocked(String),
}

/// The goals of an agent's conversations.
#[derive(Clone, Copy)]
#[expect(missing_debug_implementations, reason = "it holds an agent")]
pub struct Goals<'a> {
    agent: &'a Agent,
}

impl<'a> Goals<'a> {
    pub fn new(agent: &'a Agent) -> Self {
        Self { agent }
    }

    /// Returns the goal of a session. One that cannot be read counts as none.
    pub async fn get(&self, session: &SessionId) -> Result<Option<Goal>, StoreError> {
        let Some(stored) = self.agent.store.goal(session).await? else { return Ok(None) };
        match serde_json::from_str(&stored) {
            Ok(goal) => Ok(Some(goal)),
            Err(error) => {
                tracing::warn!(%error, session = session.as_str(), "a goal could not be read");
                Ok(None)
            }
        }
    }

    /// Stores the goal of a session, or removes it.
    pub async fn set(&self, session: &SessionId, goal: Option<&Goal>) -> Result<(), StoreError> {
        let stored = goal.and_then(|goal| serde_json::to_string(goal).ok());
        self.agent.store.set_goal(session, stored, self.agent.clock.now()).await
    }

    /// Tells whether the conversation goes on by itself after a turn.
    pub async fn is_active(&self, session: &SessionId) -> Result<bool, StoreError> {
        Ok(self.get(session).await?.is_some_and(|goal| goal.state == GoalState::Active))
    }

    /// Pauses an active goal. Returns a line about it for the user.
    pub async fn pause(&self, session: &SessionId, reason: &str) -> Result<Option<String>, StoreError> {
        match self.get(session).await? {
            Some(goal) if goal.state == GoalState::Active => {
                self.store_paused(session, goal, reason).await.map(Some)
            }
            _ => Ok(None),
        }
    }

    /// Decides what happens next with the goal: its first turn, another one after a check, or its end. The decision is stored
    /// before it is returned. A check that is cancelled changes nothing.
    pub async fn next_step(
        &self,
        conversation: &Conversation,
        cancel: &Cancel,
    ) -> Result<GoalStep, StoreError> {
        let session = &conversation.session;
        let Some(mut goal) = self.get(session).await?.filter(|goal| goal.state == GoalState::Active) else {
            return Ok(GoalStep::Nothing);
        };
        if goal.turns > 0 {
            let checked = check(self.agent, conversation, &goal, cancel).await;
            // The user may have changed or cleared the goal meanwhile.
            match self.get(session).await? {
                Some(now) if now.state == GoalState::Active => goal = now,
                _ => return Ok(GoalStep::Nothing),
            }
            match checked {
                Some(Verdict::Done(reason)) => {
                    goal.state = GoalState::Reached;
                    goal.reason = Some(reason.clone());
                    self.set(session, Some(&goal)).await?;
                    return Ok(GoalStep::Ended(format!("🎯 Goal reached: {reason}")));
                }
                Some(Verdict::Continue(reason)) => goal.reason = Some(reason),
                Some(Verdict::Blocked(reason)) => return self.stop(session, goal, &reason).await,
                None if cancel.is_cancelled() => return Ok(GoalStep::Nothing),
                None => return self.stop(session, goal, CHECK_FAILED).await,
            }
            if goal.turns >= goal.limit {
                let reason = format!("{} turns are used up", goal.limit);
                return self.stop(session, goal, &reason).await;
            }
        }
        let prompt = match &goal.reason {
            None if goal.requirements.is_empty() => goal.text.clone(),
            None => goal.description(),
            Some(reason) => format!("{CONTINUE}\n\n{}\nWhat was said last: {reason}", goal.description()),
        };
        goal.turns += 1;
        let (number, limit) = (goal.turns, goal.limit);
        self.set(session, Some(&goal)).await?;
        Ok(GoalStep::Turn { prompt, number, limit })
    }

    async fn stop(&self, session: &SessionId, goal: Goal, reason: &str) -> Result<GoalStep, StoreError> {
        self.store_paused(session, goal, reason).await.map(GoalStep::Ended)
    }

    async fn store_paused(
        &self,
        session: &SessionId,
        mut goal: Goal,
        reason: &str,
    ) -> Result<String, StoreError> {
        goal.state = GoalState::Paused;
        goal.reason = Some(reason.to_owned());
        self.set(session, Some(&goal)).await?;
        Ok(format!("⏸ Goal paused: {reason}. `/goal resume` goes on with it."))
    }
}

/// Asks the side model whether the goal is reached. Nothing when it does not say.
async fn check(agent: &Agent, conversation: &Conversation, goal: &Goal, cancel: &Cancel) -> Option<Verdict> {
    let answer = conversation
        .messages
        .iter()
        .rev()
        .find(|message| message.role == Role::Assistant)
        .and_then(final_text)
        .unwrap_or_default();
    let question = format!(
        "{}\n\nEnd of the last answer:\n<answer>\n{}\n</answer>",
        goal.description(),
        tail(&answer, MAX_ANSWER_CHARS)
    );
    for _ in 0..CHECK_ATTEMPTS {
        let side = agent.models.side();
        let request = ModelRequest {
            model: side.name.clone(),
            system: CHECK_INSTRUCTIONS.to_owned(),
            messages: vec![Message::user(question.clone())],
            tools: std::sync::Arc::default(),
            max_tokens: Some(MAX_TOKENS),
            temperature: Some(0.0),
            effort: None,
            session: None,
            deadline: Deadline::after(&*agent.clock, side.timeout),
            cancel: cancel.clone(),
        };
        let completion = match agent.models.ask_side(&*agent.clock, request).await {
            Ok(completion) => completion,
            Err(error) => {
                tracing::warn!(%error, "a goal could not be checked");
                continue;
            }
        };
        if let Err(error) = record_usage(agent, conversation, (&completion).into()).await {
            tracing::warn!(%error, "a charge was not recorded");
        }
        if let Some(verdict) = parse_verdict(&completion.message.content.text()) {
            return Some(verdict);
        }
    }
    None
}

/// Reads the first line that begins with a verdict.
fn parse_verdict(text: &str) -> Option<Verdict> {
    let text = hermes_text::strip_think(text);
    text.lines().find_map(|line| {
        let line = line.trim().trim_start_matches(['*', '#', '-', '>', '`', '"', ' ']);
        let end = line.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(line.len());
        let (word, rest) = line.split_at_checked(end)?;
        let reason = rest.trim_start_matches(|c: char| !c.is_alphanumeric()).trim();
        let reason = match reason {
            "" => "no reason was given".to_owned(),
            reason => {
                hermes_text::head(&single_line(reason), MAX_REASON_CHARS).trim_end_matches('.').to_owned()
            }
        };
        match word.to_ascii_uppercase().as_str() {
            "DONE" => Some(Verdict::Done(reason)),
            "CONTINUE" => Some(Verdict::Continue(reason)),
            "BLOCKED" => Some(Verdict::Blocked(reason)),
            _ => None,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::{Verdict, parse_verdict};

    #[test]
    fn verdicts_are_read_however_they_are_decorated() {
        let done = |reason: &str| Some(Verdict::Done(reason.to_owned()));
        for (text, verdict) in [
            ("DONE: all tests pass.", done("all tests pass")),
            ("**DONE**: ok", done("ok")),
            ("<think>CONTINUE: no</think>\n\ndone - fertig", done("fertig")),
            ("Done", done("no reason was given")),
            ("I looked.\nCONTINUE: two tests fail", Some(Verdict::Continue("two tests fail".to_owned()))),
            ("BLOCKED: a password is needed", Some(Verdict::Blocked("a password is needed".to_owned()))),
            ("DONEISH: x", None),
            ("yes", None),
            ("", None),
        ] {
            assert_eq!(parse_verdict(text), verdict, "{text}");
        }
    }
}
