//! One conversation while it is being worked on: its session, its prompt, its messages.
//!
//! Everything in it can be had again from the database; dropping it loses nothing. Invariant: `messages` is what the
//! session's transcript holds, in the same order.

use hermes_store::{EndReason, StoredMessage, ToolCallRecord};
use hermes_types::{
    Message, Role, SessionId, SessionKind, TaskId, Timestamp, Tool, ToolEvent, Turn, TurnId, Usage,
};

use crate::agent::Agent;
use crate::error::Error;
use crate::gauge::Gauge;
use crate::open_calls::can_ask_again;
use crate::prompt;
use crate::{iteration_notice, review};

/// A conversation in memory.
#[derive(Debug, Clone)]
pub struct Conversation {
    pub(crate) session: SessionId,
    pub(crate) task: TaskId,
    pub(crate) source: String,
    pub(crate) user_id: Option<String>,
    pub(crate) kind: SessionKind,
    /// Built for the first turn, or what the session was begun with.
    pub(crate) system: Option<String>,
    pub(crate) messages: Vec<Message>,
    pub(crate) gauge: Gauge,
    /// The window the provider was found to have, when smaller than thought.
    pub(crate) window: Option<u64>,
    pub(crate) usage: Usage,
    pub(crate) pressure_reported: bool,
    /// The user knows that the model's price is not known.
    pub(crate) unknown_price_reported: bool,
    pub(crate) started_at: Timestamp,
    /// The session whose turn handed this work on; its own is then no continuation of that one.
    pub(crate) delegated_by: Option<SessionId>,
    /// The turn a person started, when this is a part of it.
    pub(crate) root: Option<TurnId>,
}

/// What was found when a conversation was taken up.
#[derive(Debug, Clone)]
pub struct LoadedConversation {
    pub conversation: Conversation,
    pub title: Option<String>,
    /// A turn that a dead process left unfinished.
    pub unfinished_turn: Option<UnfinishedTurn>,
}

/// A turn that did not come to its end.
#[derive(Debug, Clone)]
pub struct UnfinishedTurn {
    pub turn: Turn,
    /// Cut off too often: it is not tried again by itself.
    pub parked: bool,
    /// Calls that may or may not have happened.
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

    /// The prompt this session goes with; absent before its first turn.
    pub fn system(&self) -> Option<&str> {
        self.system.as_deref()
    }

    /// Tokens used by the whole session.
    pub fn usage(&self) -> Usage {
        self.usage
    }

    pub fn source(&self) -> &str {
        &self.source
    }

    /// Lets tools find the state of an earlier turn of the same chat. For a conversation that has not begun.
    #[must_use]
    pub fn with_task(self, task: TaskId) -> Self {
        Self { task, ..self }
    }

    /// Whose conversation it is, where surfaces have many people.
    #[must_use]
    pub fn with_user(self, user_id: Option<String>) -> Self {
        Self { user_id, ..self }
    }

    pub(crate) fn user_turns(&self) -> usize {
        self.messages.iter().filter(|message| message.role == Role::User).count()
    }
}

impl Agent {
    /// How many tokens the model takes in this conversation, as far as is known.
    pub fn window(&self, conversation: &Conversation) -> u64 {
        let known = self.model.context_window(&self.model_name);
        conversation.window.map_or(known, |learnt| learnt.min(known))
    }

    /// A conversation that has not begun. Nothing is stored before its first message.
    pub fn new_conversation(&self, source: impl Into<String>, kind: SessionKind) -> Conversation {
        self.new_conversation_with_id(SessionId::generate(kind, self.today()), source, kind)
    }

    /// The same under an id of the caller's.
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

    /// Takes a stored conversation up where it stands: in the session that compression has moved it to. A turn that was
    /// cut off is brought to order: every call has an answer, and those nobody knows the outcome of say so. Only calls a
    /// person was being asked about wait, to be asked about again.
    pub async fn load_conversation(&self, session: &SessionId) -> Result<LoadedConversation, Error> {
        self.load_conversation_as(session, TaskId::generate()).await
    }

    /// The same, with the tools' state of an earlier turn.
    pub async fn load_conversation_as(
        &self,
        session: &SessionId,
        task: TaskId,
    ) -> Result<LoadedConversation, Error> {
        // Asked together, so that they cost one way there and back.
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
            Some(turn) => Some(self.describe_unfinished_turn(session, turn).await?),
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
        // A question that was open is asked again when the turn is resumed; its call waits for that.
        let resumable = cut_off.as_ref().is_some_and(|cut_off| !cut_off.parked);
        if !(resumable && can_ask_again(&conversation.messages, &records)) {
            self.answer_open_calls(&mut conversation, &records).await?;
        }
        for tool in &self.tools {
            tool.on_event(&conversation.task, ToolEvent::Resumed(&conversation.messages));
        }
        Ok(LoadedConversation { conversation, title: row.title, unfinished_turn: cut_off })
    }

    /// Ends a conversation: its session is closed and tools forget it.
    pub async fn end_conversation(
        &self,
        conversation: &Conversation,
        reason: EndReason,
    ) -> Result<(), Error> {
        self.release_task(&conversation.task);
        if let Some(memory) = &self.external_memory {
            memory.session_ended(&conversation.session);
        }
        if let Some(hooks) = &self.hooks {
            hooks.session_ended(&conversation.session);
        }
        if !conversation.messages.is_empty() {
            self.store.end_session(&conversation.session, reason, self.clock.now()).await?;
        }
        Ok(())
    }

    /// Lets tools forget what they kept for a conversation nobody will go on with in this process.
    pub fn release_task(&self, task: &TaskId) {
        for tool in &self.tools {
            tool.on_event(task, ToolEvent::Ended);
        }
    }

    /// Takes the last exchange back: everything from the user's last words on. Answers with those words.
    pub async fn undo_last_exchange(&self, conversation: &mut Conversation) -> Result<Option<String>, Error> {
        let Some(at) = conversation.messages.iter().rposition(|message| message.role == Role::User) else {
            return Ok(None);
        };
        let last = conversation.messages.len() - at;
        self.store.remove_last_messages(&conversation.session, last).await?;
        let taken = conversation.messages.split_off(at);
        conversation.gauge = Gauge::default();
        Ok(taken.first().map(|message| message.content.text().into_owned()))
    }

    /// The system prompt of a session, layer by layer.
    pub fn prompt_layers(&self, session: &SessionId) -> Vec<hermes_types::ContextItem> {
        let mut names: Vec<&str> = self.tools.iter().map(|tool| tool.spec().name.as_str()).collect();
        names.sort_unstable();
        let external = self.external_memory.as_ref().and_then(|memory| memory.prompt_block());
        self.prompt.layers(&prompt::PromptInputs {
            session,
            model: &self.model_name,
            tools: &names,
            now: self.today(),
            external_memory: external.as_deref(),
        })
    }

    /// Returns the newest session of a source if a process that died left its turn unfinished there.
    pub async fn find_unfinished_session(&self, source: &str) -> Result<Option<SessionId>, Error> {
        let Some(session) = self.store.newest_session(source).await? else { return Ok(None) };
        let Some(turn) = self.store.running_turn(&session).await? else { return Ok(None) };
        match self.describe_unfinished_turn(&session, turn).await {
            Ok(_) => Ok(Some(session)),
            // It runs in another terminal.
            Err(Error::Busy { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// What a turn that says it runs came to, although no living process holds it.
    async fn describe_unfinished_turn(
        &self,
        session: &SessionId,
        turn: Turn,
    ) -> Result<UnfinishedTurn, Error> {
        let holder = self.store.lease_holder(session.as_str(), self.clock.now()).await?;
        if let Some(holder) =
            holder.filter(|holder| *holder != self.holder && hermes_task::may_be_alive(holder))
        {
            return Err(Error::Busy { holder });
        }
        let parked = self.store.is_last_attempt(&turn.id).await?;
        let records = self.store.tool_calls(&turn.id).await?;
        let is_unknown = |record: &ToolCallRecord| record.status.is_none() && !record.asking;
        let unknown = records.into_iter().filter(is_unknown).map(|record| record.name);
        Ok(UnfinishedTurn { parked, unknown_calls: unknown.collect(), turn })
    }
}

/// The words of tools that must outlive a compression.
pub(crate) fn collect_carry_over(tools: &[std::sync::Arc<dyn Tool>], task: &TaskId) -> Option<String> {
    let texts: Vec<String> = tools.iter().filter_map(|tool| tool.carry_over(task)).collect();
    (!texts.is_empty()).then(|| texts.join("\n\n"))
}
