//! One conversation in memory: its session, its prompt, its messages.
//!
//! All of it can be loaded again from the database; dropping it loses nothing. Invariant: `messages` is what the
//! session's transcript holds, in the same order.

use hermes_store::{EndReason, StoredMessage, ToolCallRecord};
use hermes_types::{
    HookEvent, MemorySessionChange, Message, Role, SessionId, SessionKind, TaskId, Timestamp, Tool,
    ToolDescriptor, ToolEvent, Turn, TurnId, Usage,
};

use crate::agent::{Agent, memory_place};
use crate::error::Error;
use crate::hooks;
use crate::prompt;
use crate::review;
use crate::turn::gauge::Gauge;
use crate::turn::iteration_notice;
use crate::turn::open_calls::{answer_open_calls, can_ask_again};

/// A conversation in memory.
#[derive(Debug, Clone)]
pub struct Conversation {
    pub(crate) session: SessionId,
    pub(crate) task: TaskId,
    pub(crate) source: String,
    pub(crate) user_id: Option<String>,
    pub(crate) kind: SessionKind,
    /// The system prompt: built for the first turn, or loaded with the session.
    pub(crate) system: Option<String>,
    pub(crate) messages: Vec<Message>,
    pub(crate) gauge: Gauge,
    /// The context window the provider reported, when smaller than expected.
    pub(crate) window: Option<u64>,
    pub(crate) usage: Usage,
    pub(crate) pressure_reported: bool,
    /// Set once the user has been told that the model's price is unknown.
    pub(crate) unknown_price_reported: bool,
    pub(crate) started_at: Timestamp,
    /// The session whose turn delegated this work; this conversation's session does not continue that one.
    pub(crate) delegated_by: Option<SessionId>,
    /// The turn a person started, when this conversation is a part of it.
    pub(crate) root: Option<TurnId>,
}

/// The result of loading a conversation.
#[derive(Debug, Clone)]
pub struct LoadedConversation {
    pub conversation: Conversation,
    pub title: Option<String>,
    /// A turn that an ended process left unfinished.
    pub unfinished_turn: Option<UnfinishedTurn>,
}

/// A turn that was cut off before it ended.
#[derive(Debug, Clone)]
pub struct UnfinishedTurn {
    pub turn: Turn,
    /// Set when the turn was cut off too often: it is not resumed automatically.
    pub parked: bool,
    /// Calls whose outcome is unknown.
    pub unknown_calls: Vec<String>,
}

impl Conversation {
    pub fn session(&self) -> &SessionId {
        &self.session
    }

    pub fn task(&self) -> &TaskId {
        &self.task
    }

    pub fn messages(&self) -> &[Message] {
        &self.messages
    }

    /// Returns the session's system prompt; absent before its first turn.
    pub fn system(&self) -> Option<&str> {
        self.system.as_deref()
    }

    /// Returns the tokens used by the whole session.
    pub fn usage(&self) -> Usage {
        self.usage
    }

    pub fn source(&self) -> &str {
        &self.source
    }

    /// Sets the task id under which tools find the state of an earlier turn of the same chat. Only for a
    /// conversation without turns.
    #[must_use]
    pub fn with_task(self, task: TaskId) -> Self {
        Self { task, ..self }
    }

    /// Sets the user the conversation belongs to, on platforms with many users.
    #[must_use]
    pub fn with_user(self, user_id: Option<String>) -> Self {
        Self { user_id, ..self }
    }

    pub(crate) fn user_turns(&self) -> usize {
        self.messages.iter().filter(|message| message.role == Role::User).count()
    }
}

impl UnfinishedTurn {
    /// Describes a turn that is marked as running. Fails with [`Error::Busy`] when a live process holds it.
    async fn describe(agent: &Agent, session: &SessionId, turn: Turn) -> Result<Self, Error> {
        let holder = agent.store.lease_holder(session.as_str(), agent.clock.now()).await?;
        if let Some(holder) =
            holder.filter(|holder| *holder != agent.holder && hermes_task::may_be_alive(holder))
        {
            return Err(Error::Busy { holder });
        }
        let parked = agent.store.is_last_attempt(&turn.id).await?;
        let records = agent.store.tool_calls(&turn.id).await?;
        let is_unknown = |record: &ToolCallRecord| record.status.is_none() && !record.asking;
        let unknown = records.into_iter().filter(is_unknown).map(|record| record.name);
        Ok(Self { parked, unknown_calls: unknown.collect(), turn })
    }
}

impl Agent {
    /// Returns the context window of the model in this conversation, as far as it is known.
    pub fn window(&self, conversation: &Conversation) -> u64 {
        let known = self.models.window();
        conversation.window.map_or(known, |learnt| learnt.min(known))
    }

    /// Creates a conversation. Nothing is stored before its first message.
    pub fn new_conversation(&self, source: impl Into<String>, kind: SessionKind) -> Conversation {
        self.new_conversation_with_id(SessionId::generate(kind, self.today()), source, kind)
    }

    /// Creates a conversation with the caller's session id.
    pub fn new_conversation_with_id(
        &self,
        session: SessionId,
        source: impl Into<String>,
        kind: SessionKind,
    ) -> Conversation {
        Conversation {
            session,
            task: TaskId::generate(),
            source: source.into(),
            user_id: None,
            kind,
            system: None,
            messages: Vec::new(),
            gauge: Gauge::default(),
            window: None,
            usage: Usage::default(),
            pressure_reported: false,
            unknown_price_reported: false,
            started_at: self.clock.now(),
            delegated_by: None,
            root: None,
        }
    }

    /// Loads a stored conversation from the session that compression has moved it to. If its last turn was cut
    /// off, every call gets an answer, and an unknown outcome is reported as such. Only calls that waited for a
    /// person's answer stay open, so that the resumed turn can ask again.
    pub async fn load_conversation(&self, session: &SessionId) -> Result<LoadedConversation, Error> {
        self.load_conversation_as(session, TaskId::generate()).await
    }

    /// Loads a conversation with the tool state of an earlier turn.
    pub async fn load_conversation_as(
        &self,
        session: &SessionId,
        task: TaskId,
    ) -> Result<LoadedConversation, Error> {
        // The three reads are queued together, so that they cost one round trip.
        let (row, stored, running) =
            (self.store.session(session), self.store.transcript(session), self.store.running_turn(session));
        let row = row.await?.ok_or_else(|| Error::NotFound(session.clone()))?;
        if row.end_reason.as_deref() == Some(EndReason::Compression.as_str()) {
            let newest = self.store.continuation(session).await?.newest;
            if newest != *session {
                return Box::pin(self.load_conversation_as(&newest, task)).await;
            }
        }
        let stored = stored.await?;
        let cut_off = match running.await? {
            Some(turn) => Some(UnfinishedTurn::describe(self, session, turn).await?),
            None => None,
        };
        if row.ended_at.is_some() {
            self.store.reopen_session(session).await?;
        }
        let mut messages: Vec<Message> =
            stored.into_iter().map(|StoredMessage { message, .. }| message).collect();
        iteration_notice::strip_notices(&mut messages);
        review::strip_instructions(&mut messages);
        let mut conversation =
            self.new_conversation_with_id(session.clone(), row.source, SessionKind::Local).with_task(task);
        conversation.user_id = row.user_id;
        conversation.system = row.system_prompt.filter(|prompt| !prompt.is_empty());
        conversation.usage = row.usage;
        conversation.started_at = row.started_at;
        conversation.messages = messages;
        let records = match &cut_off {
            Some(cut_off) => self.store.tool_calls(&cut_off.turn.id).await?,
            None => Vec::new(),
        };
        // A question that was open is asked again when the turn is resumed; its call stays open until then.
        let resumable = cut_off.as_ref().is_some_and(|cut_off| !cut_off.parked);
        if !(resumable && can_ask_again(&conversation.messages, &records)) {
            answer_open_calls(self, &mut conversation, &records).await?;
        }
        for tool in &self.tools {
            tool.on_event(&conversation.task, ToolEvent::Resumed(&conversation.messages));
        }
        Ok(LoadedConversation { conversation, title: row.title, unfinished_turn: cut_off })
    }

    /// Ends a conversation: closes its session and lets tools drop its state.
    pub async fn end_conversation(
        &self,
        conversation: &Conversation,
        reason: EndReason,
    ) -> Result<(), Error> {
        self.release_task(&conversation.task);
        if let Some(memory) = &self.external_memory {
            memory.session_ended(memory_place(self, &conversation.session), &conversation.messages);
        }
        let describe = || {
            let mut facts = hooks::session_input(self, conversation);
            facts.insert("reason".to_owned(), reason.as_str().into());
            facts
        };
        hooks::notify(self, HookEvent::OnSessionFinalize, describe);
        if reason == EndReason::NewSession {
            hooks::notify(self, HookEvent::OnSessionReset, describe);
        }
        if !conversation.messages.is_empty() {
            self.store.end_session(&conversation.session, reason, self.clock.now()).await?;
        }
        Ok(())
    }

    /// Lets tools drop the state of a conversation that will not continue in this process.
    pub fn release_task(&self, task: &TaskId) {
        for tool in &self.tools {
            tool.on_event(task, ToolEvent::Ended);
        }
    }

    /// Removes the last exchange: everything from the user's last message on. Returns the text of that message.
    pub async fn undo_last_exchange(&self, conversation: &mut Conversation) -> Result<Option<String>, Error> {
        let Some(at) = conversation.messages.iter().rposition(|message| message.role == Role::User) else {
            return Ok(None);
        };
        let last = conversation.messages.len() - at;
        self.store.remove_last_messages(&conversation.session, last).await?;
        let taken = conversation.messages.split_off(at);
        if let Some(memory) = &self.external_memory {
            memory.session_changed(MemorySessionChange::Rewound(&conversation.session));
        }
        conversation.gauge = Gauge::default();
        Ok(taken.first().map(|message| message.content.text().into_owned()))
    }

    /// Returns the system prompt of a session, layer by layer.
    pub fn prompt_layers(&self, session: &SessionId) -> Vec<hermes_types::ContextItem> {
        let mut tools: Vec<ToolDescriptor<'_>> = self.tools.iter().map(|tool| tool.descriptor()).collect();
        tools.sort_unstable_by_key(|tool| tool.name);
        let external = self.external_memory.as_ref().and_then(|memory| memory.prompt_block());
        self.prompt.layers(&prompt::PromptInputs {
            session,
            models: &self.models,
            tools: &tools,
            now: self.today(),
            external_memory: external.as_deref(),
        })
    }

    /// Returns the newest session of a source if a process that died left a turn unfinished in it.
    pub async fn find_unfinished_session(&self, source: &str) -> Result<Option<SessionId>, Error> {
        let Some(session) = self.store.newest_session(source).await? else { return Ok(None) };
        let Some(turn) = self.store.running_turn(&session).await? else { return Ok(None) };
        match UnfinishedTurn::describe(self, &session, turn).await {
            Ok(_) => Ok(Some(session)),
            // The turn runs in another terminal.
            Err(Error::Busy { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// Collects the texts of tools that must survive a compression.
pub(crate) fn collect_carry_over(tools: &[std::sync::Arc<dyn Tool>], task: &TaskId) -> Option<String> {
    let texts: Vec<String> = tools.iter().filter_map(|tool| tool.carry_over(task)).collect();
    (!texts.is_empty()).then(|| texts.join("\n\n"))
}
