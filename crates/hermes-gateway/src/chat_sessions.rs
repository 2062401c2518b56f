//! Opens, replaces and ends the conversations of chats.

use std::sync::Arc;

use hermes_agent::{Agent, Calendar, Conversation, Error as AgentError, UnfinishedTurn};
use hermes_config::settings::SessionResetSettings;
use hermes_store::{EndReason, Error, Store};
use hermes_task::TaskGroup;
use hermes_types::{CivilTime, Clock, Envelope, SessionId, SessionKind, TaskId, Turn};
use serde_json::{Value, json};

use crate::chat_agents::{ChatAgents, ChatParty};
use crate::deliver::{Outbox, ReplyTarget};
use crate::ports::{EventObserver, ProcessInfo};
use crate::resources::GatewayResources;
use crate::session::{ChatOrigin, ResetReason, SessionEntry, SessionIndex, reset_reason};
use crate::settings::LiveSettings;

/// The number of messages below which a conversation has nothing worth keeping.
const MIN_MESSAGES: usize = 4;
/// The key of an entry that says that its memories were saved.
const FLUSHED: &str = "memory_flushed";

/// A chat's conversation, ready for a turn.
pub(crate) struct OpenedChat {
    pub(crate) conversation: Conversation,
    pub(crate) entry: SessionEntry,
    /// Set when the conversation begins with this turn.
    pub(crate) is_new: bool,
    pub(crate) reset: Option<ResetReason>,
    pub(crate) unfinished_turn: Option<UnfinishedTurn>,
}

/// A chat's conversation with the agent that loaded it.
pub(crate) struct LoadedChat {
    pub(crate) agent: Agent,
    pub(crate) conversation: Conversation,
    pub(crate) entry: SessionEntry,
}

/// The error of a conversation that could not be loaded.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LoadError {
    #[error(transparent)]
    Agent(#[from] AgentError),
    #[error(transparent)]
    Store(#[from] Error),
    /// There is no agent, for this reason.
    #[error("{0}")]
    NoAgent(String),
}

/// The sessions of chats.
pub(crate) struct ChatSessions {
    store: Store,
    clock: Arc<dyn Clock>,
    calendar: Calendar,
    settings: LiveSettings,
    index: Arc<SessionIndex>,
    agents: ChatAgents,
    outbox: Outbox,
    processes: Arc<dyn ProcessInfo>,
    observer: Arc<dyn EventObserver>,
    tasks: Arc<TaskGroup>,
}

impl ChatSessions {
    pub(crate) fn new(
        resources: &GatewayResources,
        index: Arc<SessionIndex>,
        agents: ChatAgents,
        outbox: Outbox,
        processes: Arc<dyn ProcessInfo>,
    ) -> Self {
        Self {
            store: resources.store.clone(),
            clock: resources.clock.clone(),
            calendar: resources.calendar.clone(),
            settings: resources.settings.clone(),
            index,
            agents,
            outbox,
            processes,
            observer: resources.observer.clone(),
            tasks: resources.tasks.clone(),
        }
    }

    /// Returns the user's local time.
    pub(crate) fn local_time(&self) -> CivilTime {
        (self.calendar)(self.clock.now())
    }

    /// Returns the entry of a chat.
    pub(crate) async fn find(&self, key: &str) -> Result<Option<SessionEntry>, Error> {
        self.index.find(key).await
    }

    /// Stores an entry as used now.
    pub(crate) async fn persist_used(&self, entry: SessionEntry) -> Result<(), Error> {
        self.index.persist_used(entry, self.clock.now()).await
    }

    /// Opens the chat's conversation: the current one, or a new one where there is none or it has expired.
    pub(crate) async fn open(
        &self,
        agent: &Agent,
        key: &str,
        envelope: &Envelope,
    ) -> Result<OpenedChat, AgentError> {
        let entry = self.index.find(key).await?;
        let policy = self.settings.current().reset_policy(&envelope.platform, envelope.place.kind);
        let task = TaskId::new(key);
        let over = entry.as_ref().and_then(|entry| self.is_over(entry, &policy));
        if let (Some(entry), None) = (&entry, over) {
            return self.open_current(agent, task, entry.clone(), envelope).await;
        }
        if let (Some(entry), Some(reason)) = (&entry, over) {
            self.flush_in_background(envelope, entry);
            self.end(entry, EndReason::SessionReset).await?;
            agent.release_task(&task);
            self.notify_reset(envelope, entry, reason, &policy).await;
        }
        let entry = self.bind_new(key, envelope).await?;
        let conversation =
            new_chat_conversation(agent, SessionId::new(entry.session_id.clone()), envelope, task);
        self.emit("session:start", envelope, &entry);
        Ok(OpenedChat { conversation, entry, is_new: true, reset: over, unfinished_turn: None })
    }

    async fn open_current(
        &self,
        agent: &Agent,
        task: TaskId,
        mut entry: SessionEntry,
        envelope: &Envelope,
    ) -> Result<OpenedChat, AgentError> {
        let session = SessionId::new(entry.session_id.clone());
        entry.origin = Some(ChatOrigin::from_envelope(envelope));
        match agent.load_conversation_as(&session, task.clone()).await {
            Ok(taken) => {
                let is_new = taken.conversation.messages().is_empty();
                let (conversation, unfinished_turn) = (taken.conversation, taken.unfinished_turn);
                Ok(OpenedChat { conversation, entry, is_new, reset: None, unfinished_turn })
            }
            // The session is bound but has no messages yet.
            Err(AgentError::NotFound(_)) => {
                let conversation = new_chat_conversation(agent, session, envelope, task);
                Ok(OpenedChat { conversation, entry, is_new: true, reset: None, unfinished_turn: None })
            }
            Err(error) => Err(error),
        }
    }

    /// Opens the conversation of an unfinished turn, in its current session, however long ago it began.
    pub(crate) async fn open_unfinished(
        &self,
        agent: &Agent,
        key: &str,
        envelope: &Envelope,
        turn: &Turn,
    ) -> Result<OpenedChat, AgentError> {
        let taken = agent.load_conversation_as(&turn.session, TaskId::new(key)).await?;
        let session = taken.conversation.session().clone();
        let mut entry = match self.index.find(key).await? {
            Some(entry) => entry,
            None => SessionEntry::new(key, &session, envelope, self.local_time()),
        };
        session.as_str().clone_into(&mut entry.session_id);
        entry.origin = Some(ChatOrigin::from_envelope(envelope));
        let (conversation, unfinished_turn) = (taken.conversation, taken.unfinished_turn);
        Ok(OpenedChat { conversation, entry, is_new: false, reset: None, unfinished_turn })
    }

    /// Loads a chat's current conversation and drops its unfinished turn. Returns `None` when it has no messages
    /// yet.
    pub(crate) async fn load_current(
        &self,
        key: &str,
        envelope: &Envelope,
    ) -> Result<Option<LoadedChat>, LoadError> {
        let agent = self.agents.agent_for(envelope).map_err(LoadError::NoAgent)?;
        let Some(entry) = self.index.find(key).await? else { return Ok(None) };
        let session = SessionId::new(entry.session_id.clone());
        let taken = match agent.load_conversation_as(&session, TaskId::new(key)).await {
            Err(AgentError::NotFound(_)) => return Ok(None),
            taken => taken?,
        };
        if let Some(cut_off) = &taken.unfinished_turn {
            agent.drop_turn(cut_off).await?;
        }
        Ok(Some(LoadedChat { agent, conversation: taken.conversation, entry }))
    }

    /// Begins a new session in a chat. Returns whether there was one before.
    pub(crate) async fn replace(&self, key: &str, envelope: &Envelope) -> Result<bool, Error> {
        let old = self.index.find(key).await?;
        if let Some(entry) = &old {
            self.flush_in_background(envelope, entry);
            self.end(entry, EndReason::SessionReset).await?;
            // Approvals remembered for the old conversation end with it.
            if let Ok(agent) = self.agents.agent_for(envelope) {
                agent.release_task(&TaskId::new(key));
            }
            self.emit("session:end", envelope, entry);
        }
        let entry = self.bind_new(key, envelope).await?;
        self.emit("session:reset", envelope, &entry);
        Ok(old.is_some())
    }

    /// Makes a stored session the current one of a chat.
    pub(crate) async fn switch(
        &self,
        key: &str,
        envelope: &Envelope,
        session: &SessionId,
    ) -> Result<(), Error> {
        if let Some(entry) = self.index.find(key).await? {
            self.flush_in_background(envelope, &entry);
            self.end(&entry, EndReason::SessionSwitch).await?;
        }
        self.store.reopen_session(session).await?;
        self.persist_used(SessionEntry::new(key, session, envelope, self.local_time())).await
    }

    /// Saves the memories of a conversation that nobody has used for long, once.
    pub(crate) async fn flush_expired(&self, mut entry: SessionEntry) {
        let Some(origin) = entry.origin.as_ref().filter(|_| !is_flushed(&entry)) else { return };
        let (place, sender) = (origin.place(), origin.sender());
        let policy = self.settings.current().reset_policy(&origin.platform, place.kind);
        if self.is_over(&entry, &policy).is_none() {
            return;
        }
        let party = ChatParty { platform: &origin.platform, place: &place, sender: &sender };
        if let Ok(agent) = self.agents.agent_for(party) {
            flush_memories(&agent, &entry, &self.tasks).await;
        }
        entry.more.insert(FLUSHED.to_owned(), Value::Bool(true));
        if let Err(error) = self.index.persist(&entry, self.clock.now()).await {
            tracing::warn!(%error, "that notes were taken could not be written down");
        }
    }

    /// Stores a new session for a chat.
    async fn bind_new(&self, key: &str, envelope: &Envelope) -> Result<SessionEntry, Error> {
        let civil = self.local_time();
        let session = SessionId::generate(SessionKind::Gateway, civil);
        let entry = SessionEntry::new(key, &session, envelope, civil);
        self.persist_used(entry.clone()).await?;
        Ok(entry)
    }

    async fn end(&self, entry: &SessionEntry, reason: EndReason) -> Result<(), Error> {
        self.store.end_session(&SessionId::new(entry.session_id.clone()), reason, self.clock.now()).await
    }

    /// Returns why a chat's conversation is over. While a process it started still runs, it is not.
    fn is_over(&self, entry: &SessionEntry, policy: &SessionResetSettings) -> Option<ResetReason> {
        let reason = reset_reason(policy, entry.last_used()?, self.local_time())?;
        let task = TaskId::new(entry.session_key.clone());
        (!self.processes.has_running_process(&task)).then_some(reason)
    }

    /// Saves what is worth keeping before a conversation is replaced, in the background.
    fn flush_in_background(&self, envelope: &Envelope, entry: &SessionEntry) {
        if is_flushed(entry) {
            return;
        }
        let Ok(agent) = self.agents.agent_for(envelope) else { return };
        let (entry, tasks) = (entry.clone(), self.tasks.clone());
        drop(self.tasks.spawn("noting what was learnt", async move {
            flush_memories(&agent, &entry, &tasks).await;
        }));
    }

    async fn notify_reset(
        &self,
        envelope: &Envelope,
        entry: &SessionEntry,
        reason: ResetReason,
        policy: &SessionResetSettings,
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
            self.agents.describe_model(envelope)
        );
        let reply = ReplyTarget::of(envelope).reply(text, format!("reset:{}", entry.session_id));
        self.outbox.say(&entry.session_key, reply).await;
    }

    fn emit(&self, event: &str, envelope: &Envelope, entry: &SessionEntry) {
        self.observer.emit(
            event,
            json!({
                "platform": envelope.platform,
                "user_id": envelope.sender.user_id,
                "session_id": entry.session_id,
                "session_key": entry.session_key,
            }),
        );
    }
}

async fn flush_memories(agent: &Agent, entry: &SessionEntry, tasks: &TaskGroup) {
    if entry.session_id.starts_with("cron_") {
        return;
    }
    let session = SessionId::new(entry.session_id.clone());
    let Ok(taken) = agent.load_conversation(&session).await else { return };
    if taken.conversation.messages().len() >= MIN_MESSAGES && agent.flush_due(&taken.conversation) {
        agent.flush_memories(&taken.conversation, tasks.cancel_token()).await;
    }
}

fn is_flushed(entry: &SessionEntry) -> bool {
    entry.more.get(FLUSHED).and_then(Value::as_bool).unwrap_or(false)
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
