//! One turn of a chat: finds its conversation, composes the input, runs the turn and settles its messages.

use std::sync::atomic::Ordering;
use std::time::Duration;

use hermes_agent::{
    Agent, Conversation, Error as AgentError, TurnInput, TurnOutcome, TurnRequest, TurnResult, TurnWork,
    UnfinishedTurn,
};
use hermes_store::{EndReason, Error as StoreError, InboxCloseReason, SessionFilter, WaitingMessage};
use hermes_text::head;
use hermes_types::{
    Cancel, Envelope, MessageContent, MessageStatus, OutgoingMessage, PlatformKind, PlatformTrait, Role,
    SessionId, SessionKind, TaskId, Turn, TurnId, TurnState, platform_facts, platform_label,
};

use super::GRACE;
use super::background;
use super::context::context_prompt;
use super::presenter::Presenter;
use super::settle::final_message;
use crate::deliver;
use crate::gateway::Gateway;
use crate::intake::reply_to;
use crate::ports::AgentRequest;
use crate::session::{ResetReason, SessionEntry, reset_reason};

/// The instruction for the model when there has been no other conversation.
const INTRODUCE: &str = include_str!("introduce.md").trim_ascii();
/// The most characters of a message or an answer that hooks receive.
const MAX_HOOK_TEXT: usize = 500;
/// The delay before a conversation that another process holds is tried again.
const BUSY_RETRY_DELAY: Duration = Duration::from_secs(2);

/// A chat's conversation, ready for a turn.
struct OpenedChat {
    conversation: Conversation,
    entry: SessionEntry,
    /// Set when the conversation begins with this turn.
    is_new: bool,
    reset: Option<ResetReason>,
    unfinished_turn: Option<UnfinishedTurn>,
}

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
                Self::Rejected(format!("The session {session} is gone. /new begins another."))
            }
        }
    }
}

impl Gateway {
    /// Runs a turn for these rows and settles them. A temporary failure is retried.
    pub(super) async fn run_turn_for_rows(
        &self,
        key: &str,
        rows: Vec<WaitingMessage>,
        words: Option<String>,
    ) {
        let Some(last) = rows.last() else { return };
        if background::is_key(key) {
            return background::run_background_turn(self, last).await;
        }
        let envelope = last.envelope.clone();
        let mut told = false;
        loop {
            match self.try_turn(key, &rows, words.as_deref()).await {
                Ok(()) => return,
                Err(TurnError::Rejected(text)) => {
                    return self
                        .settle_all(key, &rows, &envelope, InboxCloseReason::Reported, vec![text])
                        .await;
                }
                Err(TurnError::Abandoned) => {
                    return self.settle_all(key, &rows, &envelope, InboxCloseReason::Done, Vec::new()).await;
                }
                // The reply has the turn's key, as after the next start: however often the turn is found, it is
                // reported once.
                Err(TurnError::Parked(turn, text)) => {
                    match self.settle_turn(key, &rows, &envelope, &turn, Some(text), None).await {
                        Ok(()) => return,
                        Err(error) => {
                            tracing::error!(%error, key, "a notice could not be written down; trying again");
                            self.clock.sleep(super::STORE_RETRY_DELAY).await;
                        }
                    }
                }
                Err(TurnError::Busy) => {
                    if !told {
                        told = true;
                        let text = "This conversation is open in another Hermes; I go on when it is free."
                            .to_owned();
                        self.queue_reply(key, reply_to(&envelope, text, format!("taken:{}", last.id))).await;
                    }
                    self.clock.sleep(BUSY_RETRY_DELAY).await;
                }
                Err(TurnError::Store(error)) => {
                    tracing::error!(%error, key, "a turn could not be written down; trying again");
                    self.clock.sleep(super::STORE_RETRY_DELAY).await;
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
        let agent = self.agent_for(envelope).map_err(TurnError::Rejected)?;
        let begun = match &first.turn {
            Some(turn) => self.store.turn(turn).await?,
            None => None,
        };
        let mut opened = match begun {
            Some(turn) if turn.state == TurnState::Running => {
                self.open_unfinished(&agent, key, envelope, &turn).await?
            }
            Some(turn) => {
                let reply = undelivered_reply(&agent, &turn).await?;
                self.settle_turn(key, rows, envelope, &turn.id, reply, None).await?;
                return Ok(());
            }
            None => self.open_conversation(&agent, key, envelope).await?,
        };
        let agent = self.introduce(agent, opened.conversation.session()).await?;
        if opened.is_new {
            self.suggest_home_channel(key, envelope).await;
        }
        let cancel = Cancel::new();
        let presenter = Presenter::start(self, key, envelope, opened.conversation.session());
        let marks = self.mark_seen(rows);
        let is_resumed =
            opened.unfinished_turn.as_ref().is_some_and(|cut_off| is_turn_for_rows(rows, cut_off));
        self.conversations.start_turn(key, cancel.clone(), is_resumed.then(|| self.clock.now()));
        let about = about_turn(envelope, opened.conversation.session());
        self.ports.observer.emit("agent:start", about.clone());
        let ran = self.drive_turn(&agent, &mut opened, rows, words, &presenter, &cancel).await;
        let stopped = self.conversations.end_turn(key);
        let shown = presenter.finish().await;
        let result = match ran {
            Ok(result) => result,
            Err(reason) => {
                shown.remove_cursor(self, envelope).await;
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
            shown.clone().remove_cursor(self, envelope).await;
        }
        self.settle_turn(key, rows, envelope, &result.turn, reply, Some(shown)).await?;
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
        self.ports.observer.emit("agent:end", about);
    }

    /// Tells a new chat once how to set a home channel, if the platform has none.
    async fn suggest_home_channel(&self, key: &str, envelope: &Envelope) {
        let platform = envelope.platform.as_str();
        let facts = platform_facts(platform);
        if facts.is_some_and(|facts| facts.has(PlatformTrait::SilentAboutHome))
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
        self.queue_reply(key, reply_to(envelope, text, key_of_notice)).await;
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
                let said =
                    self.compose_input(rows, words, opened, window).await.map_err(TurnError::Rejected)?;
                TurnWork::Begin { id: TurnId::generate(), input: Box::new(said) }
            }
        };
        let request = TurnRequest { work, frontend: presenter.frontend(), cancel, grace: Some(GRACE) };
        match agent.drive(&mut opened.conversation, request).await? {
            TurnOutcome::Ended(result) => Ok(*result),
            TurnOutcome::Abandoned => Err(TurnError::Abandoned),
            TurnOutcome::Parked(cut_off) => {
                Err(TurnError::Parked(cut_off.turn.id.clone(), parked_message(&cut_off)))
            }
        }
    }

    /// Returns the agent for a message in its chat.
    pub(crate) fn agent_for(&self, envelope: &Envelope) -> Result<Agent, String> {
        let settings = self.settings.current();
        let context = context_prompt(envelope, &settings, &self.platforms());
        self.ports.agents.agent(&AgentRequest {
            platform: &envelope.platform,
            context: Some(context),
            ..AgentRequest::default()
        })
    }

    /// Opens the chat's conversation: the current one, or a new one where there is none or it has expired.
    async fn open_conversation(
        &self,
        agent: &Agent,
        key: &str,
        envelope: &Envelope,
    ) -> Result<OpenedChat, TurnError> {
        let now = self.clock.now();
        let civil = (self.calendar)(now);
        let entry = self.index.find(key).await?;
        let settings = self.settings.current();
        let policy = settings.reset_policy(&envelope.platform, envelope.place.kind);
        let task = TaskId::new(key);
        let over = entry.as_ref().and_then(|entry| self.is_over(key, entry, &policy));
        if let (Some(mut entry), None) = (entry.clone(), over) {
            let session = SessionId::new(entry.session_id.clone());
            entry.origin = Some(crate::session::ChatOrigin::from_envelope(envelope));
            return match agent.load_conversation_as(&session, task.clone()).await {
                Ok(taken) => {
                    let fresh = taken.conversation.messages().is_empty();
                    Ok(OpenedChat {
                        conversation: taken.conversation,
                        entry,
                        is_new: fresh,
                        reset: None,
                        unfinished_turn: taken.unfinished_turn,
                    })
                }
                // The session is bound but has no messages yet.
                Err(AgentError::NotFound(_)) => {
                    let conversation = new_chat_conversation(agent, session, envelope, task);
                    Ok(OpenedChat { conversation, entry, is_new: true, reset: None, unfinished_turn: None })
                }
                Err(error) => Err(error.into()),
            };
        }
        let session = SessionId::generate(SessionKind::Gateway, civil);
        if let (Some(entry), Some(reason)) = (&entry, over) {
            self.flush_in_background(envelope, entry);
            self.end_previous_session(entry).await?;
            agent.release_task(&task);
            self.notify_reset(key, envelope, entry, reason, &policy).await;
        }
        let entry = SessionEntry::new(key, &session, envelope, civil);
        self.index.persist_used(entry.clone(), now).await?;
        let conversation = new_chat_conversation(agent, session, envelope, task);
        self.emit("session:start", envelope, &entry);
        Ok(OpenedChat { conversation, entry, is_new: true, reset: over, unfinished_turn: None })
    }

    /// Returns why a chat's conversation is over. While a process it started still runs, it is not.
    pub(crate) fn is_over(
        &self,
        key: &str,
        entry: &SessionEntry,
        policy: &hermes_config::settings::SessionResetSettings,
    ) -> Option<ResetReason> {
        let now = (self.calendar)(self.clock.now());
        let reason = reset_reason(policy, entry.last_used()?, now)?;
        (!self.ports.services.has_running_process(&TaskId::new(key))).then_some(reason)
    }

    /// Opens the conversation of an unfinished turn, in its current session, however long ago it began.
    async fn open_unfinished(
        &self,
        agent: &Agent,
        key: &str,
        envelope: &Envelope,
        turn: &Turn,
    ) -> Result<OpenedChat, TurnError> {
        let taken = agent.load_conversation_as(&turn.session, TaskId::new(key)).await?;
        let session = taken.conversation.session().clone();
        let mut entry = match self.index.find(key).await? {
            Some(entry) => entry,
            None => SessionEntry::new(key, &session, envelope, (self.calendar)(self.clock.now())),
        };
        session.as_str().clone_into(&mut entry.session_id);
        entry.origin = Some(crate::session::ChatOrigin::from_envelope(envelope));
        Ok(OpenedChat {
            conversation: taken.conversation,
            entry,
            is_new: false,
            reset: None,
            unfinished_turn: taken.unfinished_turn,
        })
    }

    /// Ends the chat's previous session.
    pub(crate) async fn end_previous_session(&self, entry: &SessionEntry) -> Result<(), StoreError> {
        let session = SessionId::new(entry.session_id.clone());
        self.store.end_session(&session, EndReason::SessionReset, self.clock.now()).await
    }

    async fn notify_reset(
        &self,
        key: &str,
        envelope: &Envelope,
        entry: &SessionEntry,
        reason: ResetReason,
        policy: &hermes_config::settings::SessionResetSettings,
    ) {
        if !policy.notify
            || entry.total_tokens == 0
            || policy.notify_exclude_platforms.contains(&envelope.platform)
        {
            return;
        }
        let text = format!(
            "◐ Session automatically reset ({}). Conversation history cleared.\n/resume goes back to an earlier one; \
             `session_reset` in config.yaml says when this happens.{}",
            reason.user_text(),
            self.info_block(envelope)
        );
        self.queue_reply(key, reply_to(envelope, text, format!("reset:{}", entry.session_id))).await;
    }

    async fn notify_resumed(&self, rows: &[WaitingMessage], cut_off: &UnfinishedTurn) {
        let Some(row) = rows.last().filter(|_| !cut_off.parked) else { return };
        let text = "⚠️ I was restarted in the middle of your request. I am going on with it.".to_owned();
        let key = format!("resumed:{}:{}", cut_off.turn.id, cut_off.turn.cut_offs);
        self.queue_reply(&row.conversation, reply_to(&row.envelope, text, key)).await;
    }

    /// Composes the model's input from all messages.
    async fn compose_input(
        &self,
        rows: &[WaitingMessage],
        words: Option<&str>,
        opened: &OpenedChat,
        window: u64,
    ) -> Result<TurnInput, String> {
        let mut texts: Vec<String> = Vec::new();
        for row in rows {
            let text = match words {
                Some(words) => words.to_owned(),
                None => self.message_for_model(&row.envelope, &opened.conversation, window).await?,
            };
            // Every image of an album may carry its caption.
            if !text.is_empty() && !texts.contains(&text) {
                texts.push(text);
            }
        }
        let with_files = rows.iter().any(|row| row.envelope.files().next().is_some());
        let mut text = texts.join(if with_files { "\n\n" } else { "\n" });
        if let Some(reason) = opened.reset {
            text = format!("{}\n\n{text}", reason.model_text());
        } else if opened.is_new
            && let Some(skill) = rows.first().and_then(|row| row.envelope.skill.as_deref())
            && let Some(loaded) = self.ports.services.skill(skill, &text)
        {
            text = loaded;
        }
        Ok(TurnInput {
            content: MessageContent::Text(text),
            stored: None,
            earlier_messages: Vec::new(),
            inbox_rows: rows.iter().map(|row| row.id).collect(),
        })
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
        self.index.persist_used(opened.entry, self.clock.now()).await?;
        self.title_and_review(agent, opened.conversation);
        Ok(())
    }

    /// Names and reviews the conversation in the background.
    fn title_and_review(&self, agent: &Agent, conversation: Conversation) {
        let agent = agent.clone();
        drop(self.tasks.spawn_cooperative("looking back", move |cancel| async move {
            let said = conversation.messages().iter().filter(|message| message.role == Role::User).count();
            // Nobody resumes the conversation of a single event, so it gets no title.
            let is_event = platform_facts(conversation.source())
                .is_some_and(|facts| facts.kind == PlatformKind::Requests);
            if said == 1 && !is_event {
                let _ = agent.title_conversation(&conversation, &cancel).await;
            }
            let due = agent.review_due(&conversation);
            if due.is_any() {
                let _ = agent.review(&conversation, due, &cancel).await;
            }
        }));
    }

    /// Queues a reply.
    pub(crate) async fn queue_reply(&self, key: &str, reply: OutgoingMessage) {
        let platform = reply.platform.clone();
        for part in deliver::split_reply(reply, self.delivery.abilities(&platform)) {
            if let Err(error) = self.store.enqueue(key, part, self.clock.now()).await {
                tracing::error!(%error, key, "something could not be said");
            }
        }
        self.delivery.wake(&platform);
    }

    pub(crate) fn emit(&self, event: &str, envelope: &Envelope, entry: &SessionEntry) {
        self.ports.observer.emit(
            event,
            serde_json::json!({
                "platform": envelope.platform,
                "user_id": envelope.sender.user_id,
                "session_id": entry.session_id,
                "session_key": entry.session_key,
            }),
        );
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

fn new_chat_conversation(
    agent: &Agent,
    session: SessionId,
    envelope: &Envelope,
    task: TaskId,
) -> Conversation {
    agent
        .new_conversation_with_id(session, envelope.platform.clone(), SessionKind::Gateway)
        .with_task(task)
        .with_user(envelope.sender.user_id.clone())
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
