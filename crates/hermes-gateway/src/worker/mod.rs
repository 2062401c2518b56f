//! One worker per busy conversation: takes the waiting messages in order and processes them.
//!
//! `dispatch` decides what a new message means for a busy conversation. Invariant: a row of the inbox is closed in
//! the same step in which its answer is queued, and not before.

mod dispatch;

use std::sync::Arc;
use std::time::Duration;

use hermes_store::{Error as StoreError, InboxCloseReason, Store, WaitingMessage};
use hermes_task::TaskGroup;
use hermes_types::{Clock, Envelope};

use crate::active_conversations::{ActiveConversations, ArrivalAction};
use crate::authorise;
use crate::deliver::{Outbox, ReplyTarget};
use crate::inbox::Inbox;
use crate::questions::ChatQuestions;
use crate::resources::{DrainSwitch, GatewayResources};
use crate::settings::LiveSettings;
use crate::slash::{self, BusyPolicy, ChatCommands, CommandSurface, ParsedCommand, SlashCommandOutcome};
use crate::turn::{STORE_RETRY_DELAY, TurnRunner, is_background, is_goal_step};

/// The time after which a user who keeps writing gets an answer anyway.
const MAX_GATHERING_TIME: Duration = Duration::from_secs(10);

/// A worker's next piece of work.
enum WorkItem {
    Command(Box<WaitingMessage>, ParsedCommand),
    /// The messages of one turn.
    Turn(Vec<WaitingMessage>),
}

impl WorkItem {
    /// Returns the newest of the messages that would begin a turn.
    fn newest(&self) -> Option<&WaitingMessage> {
        match self {
            Self::Turn(rows) => rows.last().filter(|row| row.turn.is_none()),
            Self::Command(..) => None,
        }
    }
}

/// A waiting message, with the command it holds.
struct ParsedMessage {
    row: WaitingMessage,
    command: Option<ParsedCommand>,
}

impl ParsedMessage {
    /// Tells whether the message is text for the model that no turn has taken.
    fn begins_turn(&self) -> bool {
        self.row.turn.is_none() && self.command.is_none()
    }
}

/// The workers of all conversations.
pub(crate) struct ConversationWorkers {
    store: Store,
    clock: Arc<dyn Clock>,
    settings: LiveSettings,
    conversations: Arc<ActiveConversations>,
    inbox: Inbox,
    outbox: Outbox,
    questions: ChatQuestions,
    commands: ChatCommands,
    runner: TurnRunner,
    draining: DrainSwitch,
    tasks: Arc<TaskGroup>,
    turns: Arc<TaskGroup>,
}

/// What messages are passed to.
pub(crate) struct WorkerParts {
    pub(crate) conversations: Arc<ActiveConversations>,
    pub(crate) inbox: Inbox,
    pub(crate) outbox: Outbox,
    pub(crate) questions: ChatQuestions,
    pub(crate) commands: ChatCommands,
    pub(crate) runner: TurnRunner,
}

impl ConversationWorkers {
    pub(crate) fn new(resources: &GatewayResources, parts: WorkerParts) -> Self {
        let WorkerParts { conversations, inbox, outbox, questions, commands, runner } = parts;
        Self {
            store: resources.store.clone(),
            clock: resources.clock.clone(),
            settings: resources.settings.clone(),
            conversations,
            inbox,
            outbox,
            questions,
            commands,
            runner,
            draining: resources.draining.clone(),
            tasks: resources.tasks.clone(),
            turns: resources.turns.clone(),
        }
    }

    /// Starts a worker for each conversation with waiting messages or a cut-off turn.
    pub(crate) async fn resume(self: &Arc<Self>) -> Result<(), StoreError> {
        for key in self.store.waiting_conversations().await? {
            self.wake_worker(&key);
        }
        Ok(())
    }

    /// Has the messages of a conversation processed: by its worker or, where there is none, by a new one.
    fn wake_worker(self: &Arc<Self>, key: &str) {
        if self.conversations.record_arrival(key) == ArrivalAction::Queued {
            return;
        }
        let (workers, key) = (self.clone(), key.to_owned());
        drop(self.turns.spawn(format!("conversation {key}"), async move {
            let mut guard = WorkerGuard { conversations: &workers.conversations, key: Some(&key) };
            workers.run_worker(&key).await;
            // The worker has ended normally; the slot may belong to another worker by now.
            guard.key = None;
        }));
    }

    /// Processes messages until none waits.
    async fn run_worker(self: &Arc<Self>, key: &str) {
        while !self.draining.is_draining() {
            let seen = self.conversations.arrivals(key);
            self.conversations.start_preparing(key);
            match self.next_gathered_work(key).await {
                Ok(Some(work)) => self.run_work_item(key, work).await,
                Ok(None) if self.conversations.end_worker_if_idle(key, seen) => return,
                Ok(None) => {}
                Err(error) => {
                    tracing::error!(%error, key, "what waits cannot be read; trying again");
                    self.clock.sleep(STORE_RETRY_DELAY).await;
                }
            }
        }
        self.conversations.remove_worker(key);
    }

    /// Waits for the pieces of long messages and albums, which arrive separately.
    async fn next_gathered_work(&self, key: &str) -> Result<Option<WorkItem>, StoreError> {
        let began = self.clock.monotonic();
        let mut work = self.next_work(key).await?;
        loop {
            let Some(last) = work.as_ref().and_then(WorkItem::newest) else { return Ok(work) };
            let quiet = Duration::from_millis(last.envelope.quiet_ms).min(MAX_GATHERING_TIME);
            let rest = quiet.saturating_sub(self.clock.now().since(last.envelope.received_at));
            if rest.is_zero() || self.clock.monotonic().saturating_sub(began) > MAX_GATHERING_TIME {
                return Ok(work);
            }
            let newest = last.id;
            self.clock.sleep(rest).await;
            work = self.next_work(key).await?;
            if work.as_ref().and_then(WorkItem::newest).is_some_and(|last| last.id == newest) {
                return Ok(work);
            }
        }
    }

    async fn next_work(&self, key: &str) -> Result<Option<WorkItem>, StoreError> {
        let mut rows = self.inbox.waiting(key).await?;
        rows.retain(|row| !self.conversations.is_side_row(key, row.id));
        let mut messages: Vec<ParsedMessage> = rows.into_iter().map(|row| self.parse(row)).collect();
        self.drop_superseded(&mut messages).await?;
        self.drop_stale(&mut messages).await?;
        self.drop_outrun_goal_steps(&mut messages).await?;
        let Some(ParsedMessage { row: first, command }) = messages.first() else { return Ok(None) };
        if first.turn.is_some() {
            let rows = messages.iter().map(|message| &message.row).filter(|row| row.turn == first.turn);
            return Ok(Some(WorkItem::Turn(rows.cloned().collect())));
        }
        if let Some(command) = command {
            return Ok(Some(WorkItem::Command(Box::new(first.clone()), command.clone())));
        }
        let together = messages.into_iter().take_while(ParsedMessage::begins_turn);
        Ok(Some(WorkItem::Turn(together.map(|message| message.row).collect())))
    }

    /// Drops messages that a later `/new` or `/stop` supersedes.
    async fn drop_superseded(&self, messages: &mut Vec<ParsedMessage>) -> Result<(), StoreError> {
        let stops = |message: &ParsedMessage| {
            let typed = message.command.as_ref();
            let found = typed.and_then(|typed| slash::find(&typed.name, CommandSurface::Chat));
            found.is_some_and(|command| command.busy_policy == BusyPolicy::StopTurn)
        };
        let Some(last) = messages.iter().rposition(stops) else { return Ok(()) };
        for message in messages.drain(..last) {
            self.inbox.drop_message(message.row.id, "overtaken by a later command").await?;
        }
        Ok(())
    }

    /// Drops the steps of a goal that a message or a later step stands behind: the turn of that one has the goal looked at.
    async fn drop_outrun_goal_steps(&self, messages: &mut Vec<ParsedMessage>) -> Result<(), StoreError> {
        let mut begins_turn = false;
        for at in (0..messages.len()).rev() {
            let Some(ParsedMessage { row, command }) = messages.get(at) else { continue };
            if begins_turn && row.turn.is_none() && is_goal_step(row) {
                let outrun = messages.remove(at);
                self.inbox.drop_message(outrun.row.id, "a later message comes first").await?;
            } else {
                begins_turn |= command.is_none();
            }
        }
        Ok(())
    }

    /// Drops messages that have waited too long and reports them in one line.
    async fn drop_stale(&self, messages: &mut Vec<ParsedMessage>) -> Result<(), StoreError> {
        let oldest = self.clock.now().minus(self.settings.current().stale_after);
        let stale: Vec<WaitingMessage> = messages
            .extract_if(.., |ParsedMessage { row, .. }| {
                row.turn.is_none() && row.envelope.received_at < oldest && !is_goal_step(row)
            })
            .map(|message| message.row)
            .collect();
        let Some(last) = stale.last() else { return Ok(()) };
        let text = match stale.len() {
            1 => "I was away too long when you wrote; I have not done anything about your message. Send it again if it still matters.".to_owned(),
            count => format!(
                "I was away too long: {count} of your messages had been waiting and I have not done anything about them. Send what still matters again."
            ),
        };
        let reply = ReplyTarget::of(&last.envelope).reply(text, format!("stale:{}", last.id));
        self.inbox.close(&stale, InboxCloseReason::Stale, vec![reply]).await
    }

    /// Parses a waiting message, once for all decisions about it.
    fn parse(&self, row: WaitingMessage) -> ParsedMessage {
        ParsedMessage { command: self.as_command(&row), row }
    }

    /// Returns the command a message holds, if it is one here and not text for the model.
    fn as_command(&self, row: &WaitingMessage) -> Option<ParsedCommand> {
        if is_background(&row.conversation) || is_goal_step(row) {
            return None;
        }
        let typed = self.parse_command(&row.envelope)?;
        if self.settings.current().quick_commands.contains_key(&typed.name) {
            return Some(typed);
        }
        if slash::find(&typed.name, CommandSurface::Chat).is_none()
            && self.commands.is_plugin_command(&typed.name)
        {
            return Some(typed);
        }
        let command = slash::find(&typed.name, CommandSurface::Chat)?;
        (command.busy_policy != BusyPolicy::Queue || typed.arguments.is_empty()).then_some(typed)
    }

    /// Parses a command; a configured reset trigger counts as `/new`.
    fn parse_command(&self, envelope: &Envelope) -> Option<ParsedCommand> {
        if authorise::delivers_external_events(&envelope.platform) {
            return None;
        }
        let text = envelope.text();
        let is_trigger = |trigger: &String| trigger.trim().eq_ignore_ascii_case(text.trim());
        if self.settings.current().reset_triggers.iter().any(is_trigger) {
            return Some(ParsedCommand { name: "new".to_owned(), arguments: String::new() });
        }
        slash::parse(&text)
    }

    async fn run_work_item(self: &Arc<Self>, key: &str, work: WorkItem) {
        match work {
            WorkItem::Command(row, typed) => match self.commands.run(&row, &typed).await {
                SlashCommandOutcome::Reply(text) => self.inbox.answer(&row, text).await,
                SlashCommandOutcome::Start(text, work) => {
                    if let Some(message) = self.inbox.answer_with_work(&row, text, *work).await {
                        self.dispatch(message);
                    }
                }
                SlashCommandOutcome::Prompt(words) => self.runner.run(key, vec![*row], Some(words)).await,
            },
            WorkItem::Turn(rows) => self.runner.run(key, rows, None).await,
        }
    }
}

/// Removes the worker's slot however the worker ends.
struct WorkerGuard<'a> {
    conversations: &'a ActiveConversations,
    key: Option<&'a str>,
}

impl Drop for WorkerGuard<'_> {
    fn drop(&mut self) {
        if let Some(key) = self.key {
            self.conversations.remove_worker(key);
        }
    }
}
