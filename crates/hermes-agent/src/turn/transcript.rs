//! The transcript a turn writes: the conversation it works in, the session it holds the lease of, and what is
//! stored with its messages.
//!
//! Decides nothing about the turn. Invariant: a message is stored before it is part of the conversation.

use hermes_store::{Error as StoreError, FinishedCall, NewMessage};
use hermes_types::{Message, Role, ToolCall};

use super::charges::TurnCharges;
use super::long_results::ResultStore;
use super::scope::TurnScope;
use crate::conversation::Conversation;
use crate::lease::LeasedSession;

/// The conversation of a running turn and the writes to it.
pub(crate) struct TurnTranscript<'a> {
    pub(crate) scope: &'a TurnScope<'a>,
    pub(crate) conversation: &'a mut Conversation,
    pub(crate) charges: TurnCharges<'a>,
    pub(crate) result_store: ResultStore,
    /// The session this turn holds the lease of.
    pub(crate) leased_session: LeasedSession,
}

impl<'a> TurnTranscript<'a> {
    pub(super) fn new(scope: &'a TurnScope<'a>, conversation: &'a mut Conversation) -> Self {
        Self {
            scope,
            charges: TurnCharges::new(scope),
            result_store: ResultStore::new(scope.agent.folders.results.clone()),
            leased_session: LeasedSession::new(conversation.session.clone()),
            conversation,
        }
    }

    /// Stores a message, then adds it to the conversation.
    pub(super) async fn persist(&mut self, message: Message) -> Result<(), StoreError> {
        self.persist_all(vec![message]).await
    }

    pub(super) async fn persist_all(&mut self, messages: Vec<Message>) -> Result<(), StoreError> {
        let now = self.scope.agent.clock.now();
        let rows = messages.iter().map(|message| NewMessage::new(message.clone(), now)).collect();
        let kept = self.scope.agent.store.append_all(&self.conversation.session, rows);
        self.charges.wait().await?;
        kept.await?;
        self.conversation.messages.extend(messages);
        Ok(())
    }

    /// Answers calls without running them.
    pub(super) async fn answer_without_running(
        &mut self,
        calls: &[ToolCall],
        answers: Vec<String>,
    ) -> Result<(), StoreError> {
        let messages = calls.iter().zip(answers).map(|(call, words)| Message::tool(call, words)).collect();
        self.persist_all(messages).await
    }

    /// Stores the result of a call and its message in one step, then adds the message to the conversation.
    pub(super) async fn finish_call(&mut self, finished: FinishedCall) -> Result<(), StoreError> {
        let message = finished.message.message.clone();
        self.scope.agent.store.finish_call(finished).await?;
        self.conversation.messages.push(message);
        Ok(())
    }

    /// Returns the last text from `first` on that stood beside a call, and its index.
    pub(super) fn text_beside_calls(&self, first: usize) -> Option<(usize, String)> {
        let messages = self.conversation.messages.iter().enumerate().skip(first);
        messages
            .filter(|(_, message)| message.role == Role::Assistant && !message.tool_calls.is_empty())
            .filter_map(|(at, message)| {
                let text = message.content.text();
                let text = hermes_text::strip_think(&text).trim().to_owned();
                (!text.is_empty()).then_some((at, text))
            })
            .next_back()
    }

    /// Replaces the text that became the answer, so that it is not in the transcript twice.
    pub(super) async fn replace_text_beside_calls(&mut self, at: usize) -> Result<(), StoreError> {
        let from_end = self.conversation.messages.len().saturating_sub(at);
        let Some(message) = self.conversation.messages.get_mut(at) else { return Ok(()) };
        let names: Vec<&str> = message.tool_calls.iter().map(|call| call.name.as_str()).collect();
        let plural = if names.len() == 1 { "tool" } else { "tools" };
        let words = format!("Calling the {} {plural}…", names.join(", "));
        message.content = words.clone().into();
        self.scope.agent.store.replace_message_content(&self.conversation.session, from_end, words).await
    }
}
