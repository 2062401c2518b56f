//! Decides what a new message means for its conversation: it waits, interrupts the turn, or is handled beside it.

use std::sync::Arc;

use hermes_store::WaitingMessage;
use hermes_types::{ApprovalDecision, Envelope, InboxId, UserAnswer};

use super::ConversationWorkers;
use crate::active_conversations::{BusyState, QuestionKind, StopReason, WorkerPhase};
use crate::authorise;
use crate::deliver::ReplyTarget;
use crate::questions::ApprovalSelector;
use crate::slash::{
    self, BusyPolicy, ChatCommand, CommandSurface, ParsedCommand, SlashCommandId, SlashCommandOutcome,
};
use crate::turn::is_goal_step;

/// The immediate action for a message in a busy conversation.
enum BusyAction {
    Nothing,
    Interrupt,
    /// The message waits for the next turn, as the user requested.
    Queue,
    /// The turn is stopped; the worker then handles the message.
    Stop,
    Run(SideAction),
}

/// An action outside the worker while a turn runs.
enum SideAction {
    Stop,
    Command(ParsedCommand),
    Refuse(&'static str),
    Approve(ApprovalDecision),
    Clarify(String),
}

impl ConversationWorkers {
    /// Assigns a stored message to a worker, or handles it at once, outside the worker, if it concerns the
    /// running turn.
    pub(crate) fn dispatch(self: &Arc<Self>, row: WaitingMessage) {
        let key = row.conversation.clone();
        let Some(busy) = self.conversations.busy_state(&key) else {
            if !self.draining.is_draining() {
                self.wake_worker(&key);
            }
            return;
        };
        if is_goal_step(&row) {
            return self.wake_worker(&key);
        }
        let waits = self.settings.current().display.busy_input_mode == "queue";
        match decide_busy_action(&row.envelope, self.parse_command(&row.envelope), busy) {
            BusyAction::Interrupt if waits && !self.draining.is_draining() => self.say_queued(&row),
            BusyAction::Nothing => {}
            // The running turn may finish; the message waits for the next process.
            BusyAction::Interrupt if self.draining.is_draining() => {}
            BusyAction::Interrupt => {
                self.conversations.stop_turn(&key, StopReason::NewMessage);
            }
            BusyAction::Queue => self.say_queued(&row),
            BusyAction::Stop => {
                self.conversations.stop_turn(&key, StopReason::UserRequest);
            }
            BusyAction::Run(action) => {
                self.conversations.mark_side_row(&key, row.id);
                let workers = self.clone();
                let work = async move { workers.run_side_action(row, action).await };
                return drop(self.tasks.spawn("beside a turn", work));
            }
        }
        self.wake_worker(&key);
    }

    fn say_queued(&self, row: &WaitingMessage) {
        let text = "⏳ Queued for the next turn.".to_owned();
        let reply = ReplyTarget::of(&row.envelope).reply(text, format!("queued:{}", row.id));
        let (outbox, key) = (self.outbox.clone(), row.conversation.clone());
        drop(self.tasks.spawn("saying that it waits", async move { outbox.say(&key, reply).await }));
    }

    async fn run_side_action(self: &Arc<Self>, row: WaitingMessage, action: SideAction) {
        let key = row.conversation.clone();
        let text = match action {
            SideAction::Approve(approval) => {
                Some(self.questions.resolve_approval(&key, approval, ApprovalSelector::Oldest, None))
            }
            SideAction::Clarify(text) => {
                self.conversations.answer(&key, QuestionKind::Clarification, None, UserAnswer::Text(text));
                None
            }
            SideAction::Refuse(name) => Some(format!(
                "⏳ I am busy; /{name} has to wait until I am done. /stop ends what I am doing."
            )),
            SideAction::Command(typed) => match self.commands.run(&row, &typed).await {
                SlashCommandOutcome::Reply(text) => text,
                SlashCommandOutcome::Prompt(_) => None,
                SlashCommandOutcome::Start(text, work) => {
                    if let Some(message) = self.inbox.answer_with_work(&row, text, *work).await {
                        self.dispatch(message);
                    }
                    return self.finish_side_row(&key, row.id);
                }
            },
            SideAction::Stop => Some(self.stop_turn(&row).await.to_owned()),
        };
        self.inbox.answer(&row, text).await;
        self.finish_side_row(&key, row.id);
    }

    fn finish_side_row(self: &Arc<Self>, key: &str, row: InboxId) {
        self.conversations.clear_side_row(key, row);
        // The worker may have skipped this row while it was handled here.
        self.wake_worker(key);
    }

    /// Stops the running turn and drops the waiting messages.
    async fn stop_turn(&self, row: &WaitingMessage) -> &'static str {
        let key = &row.conversation;
        let starting =
            self.conversations.busy_state(key).is_some_and(|busy| busy.phase == WorkerPhase::Starting);
        let stopped = self.conversations.stop_turn(key, StopReason::UserRequest);
        self.inbox.drop_before(row).await;
        match (stopped, starting) {
            (true, _) => "⚡ Force-stopped. The session is unlocked; you can send something new.",
            (false, true) => "⚡ Force-stopped. The agent was still starting — session unlocked.",
            (false, false) => "No active task to stop.",
        }
    }
}

fn decide_busy_action(envelope: &Envelope, typed: Option<ParsedCommand>, busy: BusyState) -> BusyAction {
    let text = envelope.text();
    if let Some(typed) = typed {
        let Some(command) = slash::find(&typed.name, CommandSurface::Chat) else {
            return interrupt_or_queue(envelope, busy);
        };
        return match command.busy_policy {
            BusyPolicy::StopTurn if command.id == SlashCommandId::Chat(ChatCommand::Stop) => {
                BusyAction::Run(SideAction::Stop)
            }
            BusyPolicy::StopTurn => BusyAction::Stop,
            BusyPolicy::Queue if !typed.arguments.is_empty() => BusyAction::Queue,
            BusyPolicy::RunNow | BusyPolicy::Queue => BusyAction::Run(SideAction::Command(typed)),
            BusyPolicy::Refuse => BusyAction::Run(SideAction::Refuse(command.name)),
        };
    }
    match busy.question.filter(|_| !authorise::delivers_external_events(&envelope.platform)) {
        Some(QuestionKind::Approval) => {
            if let Some(approval) = parse_plain_approval(&text) {
                return BusyAction::Run(SideAction::Approve(approval));
            }
        }
        Some(QuestionKind::Clarification) if !text.trim().is_empty() => {
            return BusyAction::Run(SideAction::Clarify(text));
        }
        _ => {}
    }
    if envelope.files().next().is_some() {
        return BusyAction::Nothing;
    }
    interrupt_or_queue(envelope, busy)
}

fn interrupt_or_queue(envelope: &Envelope, busy: BusyState) -> BusyAction {
    match busy.phase {
        // The message was written while the gateway was down: it comes after the unfinished turn.
        WorkerPhase::Running if busy.resumed_at.is_some_and(|at| envelope.received_at < at) => {
            BusyAction::Nothing
        }
        WorkerPhase::Running => BusyAction::Interrupt,
        WorkerPhase::Starting => BusyAction::Nothing,
    }
}

/// Parses a plain word as the answer to an approval question; only used while one is open.
fn parse_plain_approval(text: &str) -> Option<ApprovalDecision> {
    match text.trim().to_lowercase().as_str() {
        "yes" | "y" | "ok" | "okay" | "approve" | "confirm" | "go" | "👍" => Some(ApprovalDecision::Once),
        "session" => Some(ApprovalDecision::Session),
        "always" => Some(ApprovalDecision::Always),
        "no" | "n" | "deny" | "reject" | "cancel" | "👎" => Some(ApprovalDecision::Deny),
        _ => None,
    }
}
