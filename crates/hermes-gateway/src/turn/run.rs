//! One turn of a chat: finds its conversation, composes the input, runs the turn and settles its messages.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use hermes_agent::{
    Agent, Conversation, Error as AgentError, GoalStep, Goals, Naming, STOP_GRACE, TurnOutcome, TurnRequest,
    TurnResult, TurnWork, UnfinishedTurn,
};
use hermes_store::{
    Error as StoreError, FollowUpWork, InboxCloseReason, SessionFilter, Store, WaitingMessage,
};
use hermes_task::TaskGroup;
use hermes_text::head;
use hermes_types::{
    Cancel, Clock, Envelope, MessageStatus, PlatformKind, PlatformTrait, SessionId, Turn, TurnId, TurnState,
    platform_facts, platform_has, platform_label,
};

use super::STORE_RETRY_DELAY;
use super::background::{BackgroundTurns, is_background};
use super::final_message::final_message;
use super::goal::{self, GoalOutcome, GoalSteps};
use super::message::{MessageReader, ModelReader};
use super::presenter::{Presenter, ShownDrafts, TurnDisplay};
use crate::active_conversations::ActiveConversations;
use crate::chat_agents::ChatAgents;
use crate::chat_sessions::{ChatSessions, OpenedChat};
use crate::deliver::{self, Outbox, ReplyTarget};
use crate::inbox::Inbox;
use crate::ports::EventObserver;
use crate::resources::GatewayResources;
use crate::settings::LiveSettings;

/// The instruction for the model when there has been no other conversation.
const INTRODUCE: &str = include_str!("introduce.md").trim_ascii();
/// The most characters of a message or an answer that hooks receive.
const MAX_HOOK_TEXT: usize = 500;
/// The delay before a conversation that another process holds is tried again.
const BUSY_RETRY_DELAY: Duration = Duration::from_secs(2);

/// The reason why no turn ran.
enum TurnError {
    /// The message is settled with this text for the user.
    Rejected(String),
    /// Another process holds the conversation.
    Busy,
    /// The turn did not stop and was abandoned.
    Abandoned,
    /// The turn was cut off too often; the user gets this text.
    Parked(TurnId, String),
    Store(StoreError),
}

impl From<StoreError> for TurnError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl From<AgentError> for TurnError {
    fn from(error: AgentError) -> Self {
        match error {
            AgentError::Busy { .. } => Self::Busy,
            AgentError::Store(error) => Self::Store(error),
            AgentError::NotFound(session) => {
                Self::Rejected(format!("Session {session} no longer exists. /new starts another."))
            }
        }
    }
}

/// Runs the turns of chats.
pub(crate) struct TurnRunner {
    store: Store,
    clock: Arc<dyn Clock>,
    settings: LiveSettings,
    conversations: Arc<ActiveConversations>,
    agents: ChatAgents,
    sessions: Arc<ChatSessions>,
    inbox: Inbox,
    outbox: Outbox,
    display: TurnDisplay,
    messages: MessageReader,
    background: BackgroundTurns,
    goals: GoalSteps,
    observer: Arc<dyn EventObserver>,
    tasks: Arc<TaskGroup>,
    /// Set when there has been more than one conversation.
    has_other_sessions: AtomicBool,
}

/// What a turn of a chat passes through.
pub(crate) struct TurnParts {
    pub(crate) conversations: Arc<ActiveConversations>,
    pub(crate) agents: ChatAgents,
    pub(crate) sessions: Arc<ChatSessions>,
    pub(crate) inbox: Inbox,
    pub(crate) outbox: Outbox,
    pub(crate) display: TurnDisplay,
    pub(crate) messages: MessageReader,
}

impl TurnRunner {
    pub(crate) fn new(resources: &GatewayResources, parts: TurnParts) -> Self {
        let TurnParts { conversations, agents, sessions, inbox, outbox, display, messages } = parts;
        let (store, clock) = (resources.store.clone(), resources.clock.clone());
        let background =
            BackgroundTurns::new(store.clone(), clock.clone(), agents.clone(), inbox.clone(), outbox.clone());
        let goals = GoalSteps {
            agents: agents.clone(),
            sessions: sessions.clone(),
            conversations: conversations.clone(),
        };
        Self {
            store,
            clock,
            settings: resources.settings.clone(),
            conversations,
            agents,
            sessions,
            inbox,
            outbox,
            display,
            messages,
            background,
            goals,
            observer: resources.observer.clone(),
            tasks: resources.tasks.clone(),
            has_other_sessions: AtomicBool::new(false),
        }
    }

    /// Runs a turn for these rows and settles them. A temporary failure is retried.
    pub(crate) async fn run(&self, key: &str, rows: Vec<WaitingMessage>, words: Option<String>) {
        let Some(last) = rows.last() else { return };
        if is_background(key) {
            return self.background.run(last).await;
        }
        let words = if goal::is_goal_step(last) && last.turn.is_none() {
            match self.next_goal_prompt(key, last).await {
                Some(prompt) => Some(prompt),
                None => return,
            }
        } else {
            words
        };
        let envelope = last.envelope.clone();
        let mut told = false;
        loop {
            match self.try_turn(key, &rows, words.as_deref()).await {
                Ok(()) => return,
                Err(TurnError::Rejected(text)) => {
                    return self.inbox.report(&rows, InboxCloseReason::Reported, Some(text)).await;
                }
                Err(TurnError::Abandoned) => {
                    return self.inbox.report(&rows, InboxCloseReason::Done, None).await;
                }
                // The reply has the turn's key, as after the next start: however often the turn is found, it is
                // reported once.
                Err(TurnError::Parked(turn, text)) => {
                    match self.settle(&rows, &turn, Some(&text), None, None).await {
                        Ok(()) => return,
                        Err(error) => {
                            tracing::error!(%error, key, "a notice could not be written down; trying again");
                            self.clock.sleep(STORE_RETRY_DELAY).await;
                        }
                    }
                }
                Err(TurnError::Busy) => {
                    if !told {
                        told = true;
                        let text = "This conversation is open in another Hermes; I go on when it is free."
                            .to_owned();
                        let reply = ReplyTarget::of(&envelope).reply(text, format!("taken:{}", last.id));
                        self.outbox.say(key, reply).await;
                    }
                    self.clock.sleep(BUSY_RETRY_DELAY).await;
                }
                Err(TurnError::Store(error)) => {
                    tracing::error!(%error, key, "a turn could not be written down; trying again");
                    self.clock.sleep(STORE_RETRY_DELAY).await;
                }
            }
        }
    }

    /// Returns the prompt of a goal's next turn. Without one, the row that stands for it is settled.
    async fn next_goal_prompt(&self, key: &str, row: &WaitingMessage) -> Option<String> {
        let rows = std::slice::from_ref(row);
        loop {
            match self.goals.next(key, row).await {
                Ok(GoalStep::Turn { prompt, .. }) => return Some(prompt),
                Ok(GoalStep::Ended(text)) => {
                    self.inbox.report(rows, InboxCloseReason::Done, Some(text)).await;
                    return None;
                }
                Ok(GoalStep::Nothing) => {
                    self.inbox.report(rows, InboxCloseReason::Done, None).await;
                    return None;
                }
                Err(error) => {
                    tracing::error!(%error, key, "the next step of a goal could not be found; trying again");
                    self.clock.sleep(STORE_RETRY_DELAY).await;
                }
            }
        }
    }

    async fn try_turn(
        &self,
        key: &str,
        rows: &[WaitingMessage],
        words: Option<&str>,
    ) -> Result<(), TurnError> {
        let Some(first) = rows.first() else { return Ok(()) };
        let envelope = rows.last().map_or(&first.envelope, |last| &last.envelope);
        let agent = self.agents.agent_for(envelope).map_err(TurnError::Rejected)?;
        let begun = match &first.turn {
            Some(turn) => self.store.turn(turn).await?,
            None => None,
        };
        let mut opened = match begun {
            Some(turn) if turn.state == TurnState::Running => {
                self.sessions.open_unfinished(&agent, key, envelope, &turn).await?
            }
            Some(turn) => {
                let reply = undelivered_reply(&agent, &turn).await?;
                // The process that ran the turn ended before it could store what follows.
                let goes_on =
                    turn.state == TurnState::Done && Goals::new(&agent).is_active(&turn.session).await?;
                let next =
                    goes_on.then(|| goal::goal_step(envelope, key, turn.id.as_str(), self.clock.now()));
                self.settle(rows, &turn.id, reply.as_deref(), None, next).await?;
                return Ok(());
            }
            None => self.sessions.open(&agent, key, envelope).await?,
        };
        let agent = self.introduce(agent, opened.conversation.session()).await?;
        if opened.is_new {
            self.suggest_home_channel(key, envelope).await;
        }
        let cancel = Cancel::new();
        let presenter = self.display.present(key, envelope, opened.conversation.session());
        let marks = self.display.mark_seen(rows);
        let is_resumed =
            opened.unfinished_turn.as_ref().is_some_and(|cut_off| is_turn_for_rows(rows, cut_off));
        self.conversations.start_turn(key, cancel.clone(), is_resumed.then(|| self.clock.now()));
        let about = about_turn(envelope, opened.conversation.session());
        self.observer.emit("agent:start", about.clone());
        self.agents.pass_chat(opened.conversation.task(), key, envelope);
        let ran = self.drive_turn(&agent, &mut opened, rows, words, &presenter, &cancel).await;
        let stopped = self.conversations.end_turn(key);
        let shown = presenter.finish().await;
        let result = match ran {
            Ok(result) => result,
            Err(reason) => {
                self.display.remove_cursor(shown, envelope).await;
                return Err(reason);
            }
        };
        let mut reply = final_message(
            &result,
            stopped,
            self.settings.current().display_on(&envelope.platform).show_reasoning,
        );
        deliver::attach_tool_files(&mut reply, opened.conversation.messages(), agent.tools());
        self.after_turn(&agent, opened, &result).await?;
        marks.replace_with(if result.failure.is_none() && reply.is_some() {
            MessageStatus::Answered
        } else {
            MessageStatus::Failed
        });
        self.emit_turn_ended(about, reply.as_deref());
        if reply.is_none() {
            self.display.remove_cursor(shown.clone(), envelope).await;
        }
        if let Some(answer) = reply.take_if(|_| result.failure.is_none()) {
            reply = Some(self.messages.with_speech(answer, rows, &cancel).await);
        }
        let next = match goal::after_turn(&agent, &result, stopped).await? {
            GoalOutcome::Nothing => None,
            GoalOutcome::GoesOn => {
                Some(goal::goal_step(envelope, key, result.turn.as_str(), self.clock.now()))
            }
            GoalOutcome::Paused(text) => {
                let notice = ReplyTarget::of(envelope).reply(text, format!("goal:{}", result.turn));
                self.outbox.say(key, notice).await;
                None
            }
        };
        self.settle(rows, &result.turn, reply.as_deref(), Some(shown), next).await?;
        Ok(())
    }

    /// Adds the introduction while there is only one conversation: the same text in each of its turns, so that
    /// the provider's cache stays valid.
    async fn introduce(&self, agent: Agent, own: &SessionId) -> Result<Agent, StoreError> {
        if self.has_other_sessions.load(Ordering::Relaxed) {
            return Ok(agent);
        }
        let sessions = self.store.list_sessions(SessionFilter::default(), 2).await?;
        self.has_other_sessions.store(sessions.len() > 1, Ordering::Relaxed);
        if sessions.iter().all(|session| session.id == *own) {
            return Ok(agent.into_builder().system_text(INTRODUCE).build());
        }
        Ok(agent)
    }

    fn emit_turn_ended(&self, mut about: serde_json::Value, reply: Option<&str>) {
        about["response"] = serde_json::json!(head(reply.unwrap_or_default(), MAX_HOOK_TEXT));
        self.observer.emit("agent:end", about);
    }

    /// Tells a new chat once how to set a home channel, if the platform has none.
    async fn suggest_home_channel(&self, key: &str, envelope: &Envelope) {
        let platform = envelope.platform.as_str();
        if platform_has(platform, PlatformTrait::SilentAboutHome)
            || self.settings.current().home_channel(platform).is_some()
        {
            return;
        }
        let text = format!(
            "📬 No home channel is set for {}. /sethome makes this chat the place for what comes unasked, such as \
             scheduled jobs.",
            platform_label(platform)
        );
        let key_of_notice = format!("home:{platform}:{}", envelope.place.chat_id);
        self.outbox.say(key, ReplyTarget::of(envelope).reply(text, key_of_notice)).await;
    }

    /// Runs the turn. A turn that does not stop when told to is abandoned.
    async fn drive_turn(
        &self,
        agent: &Agent,
        opened: &mut OpenedChat,
        rows: &[WaitingMessage],
        words: Option<&str>,
        presenter: &Presenter,
        cancel: &Cancel,
    ) -> Result<TurnResult, TurnError> {
        let work = match opened.unfinished_turn.take() {
            Some(cut_off) if is_turn_for_rows(rows, &cut_off) => {
                self.notify_resumed(rows, &cut_off).await;
                TurnWork::Resume(cut_off)
            }
            cut_off => {
                if let Some(cut_off) = cut_off {
                    agent.drop_turn(&cut_off).await?;
                }
                let window = agent.window(&opened.conversation);
                let reader = ModelReader { name: &agent.models().name, window, cancel };
                let input =
                    self.messages.compose(rows, words, opened, reader).await.map_err(TurnError::Rejected)?;
                TurnWork::begin(input)
            }
        };
        let request = TurnRequest { work, frontend: presenter.frontend(), cancel, grace: Some(STOP_GRACE) };
        match agent.drive(&mut opened.conversation, request).await? {
            TurnOutcome::Ended(result) => Ok(*result),
            TurnOutcome::Abandoned => Err(TurnError::Abandoned),
            TurnOutcome::Parked(cut_off) => {
                Err(TurnError::Parked(cut_off.turn.id.clone(), parked_message(&cut_off)))
            }
        }
    }

    async fn notify_resumed(&self, rows: &[WaitingMessage], cut_off: &UnfinishedTurn) {
        let Some(row) = rows.last().filter(|_| !cut_off.parked) else { return };
        let text = "⚠️ I was restarted in the middle of your request. I am going on with it.".to_owned();
        let key = format!("resumed:{}:{}", cut_off.turn.id, cut_off.turn.cut_offs);
        self.outbox.say(&row.conversation, ReplyTarget::of(&row.envelope).reply(text, key)).await;
    }

    /// Closes the messages of a turn together with its answer, and stores what is to follow.
    async fn settle(
        &self,
        rows: &[WaitingMessage],
        turn: &TurnId,
        text: Option<&str>,
        shown: Option<ShownDrafts>,
        next: Option<FollowUpWork>,
    ) -> Result<(), StoreError> {
        let mut replies = Vec::new();
        if let (Some(text), Some(last)) = (text, rows.last()) {
            replies = self.outbox.plan(ReplyTarget::of(&last.envelope), text, &format!("turn:{turn}"));
            deliver::replace_drafts(&mut replies, &shown.map(|shown| shown.drafts).unwrap_or_default());
        }
        match next {
            Some(next) => self.inbox.close_with_work(rows, replies, next).await,
            None => self.inbox.close(rows, InboxCloseReason::Done, replies).await,
        }
    }

    async fn after_turn(
        &self,
        agent: &Agent,
        mut opened: OpenedChat,
        result: &TurnResult,
    ) -> Result<(), StoreError> {
        // Compression may have moved the conversation to another session.
        opened.entry.session_id = result.session.as_str().to_owned();
        opened.entry.set_usage(opened.conversation.usage(), result.last_prompt_tokens);
        self.sessions.persist_used(opened.entry).await?;
        self.title_and_review(agent, opened.conversation);
        Ok(())
    }

    /// Names and reviews the conversation in the background.
    fn title_and_review(&self, agent: &Agent, conversation: Conversation) {
        let agent = agent.clone();
        // Nobody resumes the conversation of a single event, so it gets no title.
        let is_event =
            platform_facts(conversation.source()).is_some_and(|facts| facts.kind == PlatformKind::Requests);
        let naming = if is_event { Naming::Never } else { Naming::Automatic };
        drop(self.tasks.spawn_cooperative("looking back", move |cancel| async move {
            if let Some(note) = agent.follow_up(&conversation, naming, &cancel).await {
                tracing::info!(note, "a review stored something");
            }
        }));
    }
}

/// Tells whether a cut-off turn was the answer to these messages.
fn is_turn_for_rows(rows: &[WaitingMessage], cut_off: &UnfinishedTurn) -> bool {
    rows.iter().any(|row| row.turn.as_ref() == Some(&cut_off.turn.id))
}

/// Returns what hooks are told about a turn.
fn about_turn(envelope: &Envelope, session: &SessionId) -> serde_json::Value {
    serde_json::json!({
        "platform": envelope.platform,
        "user_id": envelope.sender.user_id,
        "chat_id": envelope.place.chat_id,
        "thread_id": envelope.place.thread_id,
        "chat_type": envelope.place.kind.as_str(),
        "session_id": session.as_str(),
        "message": head(&envelope.text(), MAX_HOOK_TEXT),
    })
}

const PARKED_MESSAGE: &str = "I was cut off twice while working on your message, so I have stopped trying. What was done until then is \
                      kept; tell me how to go on.";

pub(super) fn parked_message(cut_off: &UnfinishedTurn) -> String {
    if cut_off.unknown_calls.is_empty() {
        return PARKED_MESSAGE.to_owned();
    }
    format!("{PARKED_MESSAGE} I do not know whether these took effect: {}.", cut_off.unknown_calls.join(", "))
}

/// Returns the reply of a turn that is already closed, but whose reply was never queued.
pub(super) async fn undelivered_reply(agent: &Agent, turn: &Turn) -> Result<Option<String>, StoreError> {
    match turn.state {
        TurnState::Running | TurnState::Interrupted => Ok(None),
        TurnState::Done => {
            let Some(past) = agent.past_turn(&turn.id).await? else { return Ok(None) };
            let last = past.messages.get(past.first..).and_then(<[_]>::last);
            let text =
                last.map(|message| hermes_text::strip_think(&message.content.text()).trim().to_owned());
            Ok(past.answer().or(text).filter(|text| !text.is_empty()))
        }
        TurnState::Failed => Ok(Some("Sorry, I encountered an error. Please try again.".to_owned())),
        TurnState::Parked => Ok(Some(PARKED_MESSAGE.to_owned())),
    }
}
