//! Reviews a conversation for what is worth keeping in memory or as a skill.
//!
//! A review runs in the background, never delays an answer and never enters the transcript.

use std::sync::Arc;
use std::time::Duration;

use hermes_store::{Error as StoreError, ModelCharge};
use hermes_types::{Cancel, Message, OutcomeStatus, Role, Tool, ToolRole};
use serde_json::Value;

use crate::agent::Agent;
use crate::conversation::Conversation;
use crate::side_task::{SideTaskOutcome, SideTaskRun};
use crate::turn::CallUsage;

const FLUSH: &str = include_str!("texts/flush.md").trim_ascii();
const REVIEW_MEMORY: &str = include_str!("texts/review_memory.md").trim_ascii();
const REVIEW_SKILLS: &str = include_str!("texts/review_skills.md").trim_ascii();
/// The prefix of every review instruction, by which one that got into a transcript is recognized.
const REVIEW_MARK: &str = "[System: Review the conversation above";
const REVIEW_ITERATIONS: u32 = 8;
const FLUSH_TOKENS: u64 = 5_120;
const FLUSH_TIMEOUT: Duration = Duration::from_secs(30);
const REVIEW_TIMEOUT: Duration = Duration::from_mins(5);
/// The number of messages below which a conversation is not reviewed.
const MIN_MESSAGES: usize = 3;

/// The reviews that are due after a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct ReviewDue {
    pub(crate) memory: bool,
    pub(crate) skills: bool,
}

impl ReviewDue {
    pub(crate) fn is_any(self) -> bool {
        self.memory || self.skills
    }
}

/// Tells which reviews the turn that just ended makes due. They are counted in the transcript, so that it
/// does not matter which process runs the next turn.
pub(crate) fn review_due(agent: &Agent, conversation: &Conversation) -> ReviewDue {
    let messages = conversation.messages();
    let memory_tools = tools_with_roles(&agent.tools, &[ToolRole::Memory]);
    let skill_tools = tools_with_roles(&agent.tools, &[ToolRole::SkillEditor]);
    let turns = |from: usize| messages.iter().skip(from).filter(|message| message.role == Role::User).count();
    let steps =
        |from: usize| messages.iter().skip(from).filter(|message| !message.tool_calls.is_empty()).count();
    let this_turn = messages.iter().rposition(|message| message.role == Role::User).unwrap_or_default();
    let crossed = |every: usize, before: usize, now: usize| every > 0 && now / every > before / every;
    let memory_from = since_last_call(messages, &memory_tools);
    let memory_turns = turns(memory_from);
    let skills_from = since_last_call(messages, &skill_tools);
    let skill_steps = steps(skills_from);
    let new_steps = steps(this_turn.max(skills_from));
    ReviewDue {
        memory: !memory_tools.is_empty()
            && crossed(agent.review_intervals.memory_every, memory_turns.saturating_sub(1), memory_turns),
        skills: !skill_tools.is_empty()
            && crossed(
                agent.review_intervals.skills_every,
                skill_steps.saturating_sub(new_steps),
                skill_steps,
            ),
    }
}

/// Reviews a conversation and stores what is worth keeping. Returns a summary of the changes, for the user.
pub(crate) async fn review(
    agent: &Agent,
    conversation: &Conversation,
    due: ReviewDue,
    cancel: &Cancel,
) -> Option<String> {
    let tools =
        tools_with_roles(&agent.tools, &[ToolRole::Memory, ToolRole::SkillEditor, ToolRole::SkillReader]);
    if tools.is_empty() || !due.is_any() {
        return None;
    }
    let mut words = format!("{REVIEW_MARK}. ");
    if due.memory {
        words.push_str(REVIEW_MEMORY);
        words.push(' ');
    }
    if due.skills {
        words.push_str(REVIEW_SKILLS);
        words.push(' ');
    }
    words.push_str("If there is nothing, answer: Nothing to save.]");
    let mut messages = conversation.messages.clone();
    messages.push(Message::user(words));
    let aside = SideTaskRun {
        model: agent.models.reviews.clone().unwrap_or_else(|| agent.models.main.clone()),
        model_name: agent.models.name.clone(),
        system: conversation.system.clone().unwrap_or_default(),
        messages,
        tools,
        session: conversation.session.clone(),
        task: conversation.task.clone(),
        iterations: REVIEW_ITERATIONS,
        max_tokens: None,
        timeout: REVIEW_TIMEOUT,
    };
    let came = aside.run(agent, cancel).await;
    record_side_task_costs(agent, conversation, &came).await;
    summarize_changes(&came)
}

impl Agent {
    /// Gives the model one chance to store what must not be lost.
    pub async fn flush_memories(&self, conversation: &Conversation, cancel: &Cancel) {
        let tools = tools_with_roles(&self.tools, &[ToolRole::Memory]);
        if tools.is_empty() || conversation.messages.len() < MIN_MESSAGES {
            return;
        }
        let side = self.models.side();
        let mut messages = conversation.messages.clone();
        messages.push(Message::user(FLUSH));
        let aside = SideTaskRun {
            model: side.model,
            model_name: side.name,
            system: conversation.system.clone().unwrap_or_default(),
            messages,
            tools,
            session: conversation.session.clone(),
            task: conversation.task.clone(),
            iterations: 1,
            max_tokens: Some(FLUSH_TOKENS),
            timeout: FLUSH_TIMEOUT,
        };
        let came = aside.run(self, cancel).await;
        record_side_task_costs(self, conversation, &came).await;
    }

    /// Tells whether a conversation that ends should be reviewed once more.
    pub fn flush_due(&self, conversation: &Conversation) -> bool {
        self.review_intervals.flush_after > 0
            && conversation.user_turns() >= self.review_intervals.flush_after
            && conversation.messages.len() >= MIN_MESSAGES
    }
}

/// Records the cost of a side task in the same ledger as the turns.
async fn record_side_task_costs(agent: &Agent, conversation: &Conversation, came: &SideTaskOutcome) {
    for completion in &came.completions {
        if let Err(error) = record_usage(agent, conversation, completion.into()).await {
            tracing::warn!(%error, "a charge was not recorded");
        }
    }
}

pub(crate) async fn record_usage(
    agent: &Agent,
    conversation: &Conversation,
    spent: CallUsage,
) -> Result<(), StoreError> {
    agent
        .store
        .record_charge(ModelCharge {
            at: agent.clock.now(),
            session: conversation.session.clone(),
            turn: None,
            root_turn: None,
            job: agent.job.clone(),
            provider: spent.provider,
            model: spent.model,
            usage: spent.usage,
            cost: spent.cost,
        })
        .await
}

/// Returns the tools that have one of these roles.
fn tools_with_roles(tools: &[Arc<dyn Tool>], roles: &[ToolRole]) -> Vec<Arc<dyn Tool>> {
    let wanted = |tool: &&Arc<dyn Tool>| tool.descriptor().role.is_some_and(|role| roles.contains(&role));
    tools.iter().filter(wanted).cloned().collect()
}

/// Returns the index after the last call of one of these tools.
fn since_last_call(messages: &[Message], tools: &[Arc<dyn Tool>]) -> usize {
    let is_one = |name: &str| tools.iter().any(|tool| tool.spec().name == name);
    messages
        .iter()
        .rposition(|message| message.tool_calls.iter().any(|call| is_one(&call.name)))
        .map_or(0, |at| at + 1)
}

/// Formats the changes for the user: `💾 Entry added. · Skill updated.`
fn summarize_changes(came: &SideTaskOutcome) -> Option<String> {
    let words: Vec<String> = came
        .outcomes
        .iter()
        .filter(|(_, outcome)| outcome.status == OutcomeStatus::Done)
        .filter_map(|(_, outcome)| {
            let value: Value = serde_json::from_str(&outcome.content).ok()?;
            let message = value.get("message")?.as_str()?.to_owned();
            let lower = message.to_lowercase();
            ["added", "replaced", "removed", "created", "updated", "patched"]
                .iter()
                .any(|word| lower.contains(word))
                .then_some(message)
        })
        .collect();
    (!words.is_empty()).then(|| format!("💾 {}", words.join(" · ")))
}

/// Removes review instructions, and the answer after each, from a transcript they got into.
pub(crate) fn strip_instructions(messages: &mut Vec<Message>) {
    if !messages.iter().any(is_instruction) {
        return;
    }
    let mut after = false;
    messages.retain(|message| {
        if is_instruction(message) {
            after = true;
            return false;
        }
        if after && message.role == Role::User {
            after = false;
        }
        !after
    });
}

fn is_instruction(message: &Message) -> bool {
    message.role == Role::User && message.content.text().starts_with(REVIEW_MARK)
}
