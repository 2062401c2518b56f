//! One agent with one conversation: the interface for programs that embed this crate.

use std::sync::{Arc, Mutex, PoisonError};

use hermes_store::EndReason;
use hermes_types::{Cancel, Frontend, SessionKind};

use crate::agent::Agent;
use crate::compress::CompressionReport;
use crate::conversation::Conversation;
use crate::error::Error;
use crate::result::TurnResult;
use crate::turn::TurnInput;

/// A conversation with its agent. [`Interrupt::trigger`] may be called from any thread.
#[expect(missing_debug_implementations, reason = "it holds ports")]
pub struct Chat {
    agent: Arc<Agent>,
    conversation: Conversation,
    frontend: Arc<dyn Frontend>,
    running: Arc<Mutex<Cancel>>,
}

/// Stops the running turn of a chat; cheap to clone and to send.
#[derive(Debug, Clone)]
pub struct Interrupt(Arc<Mutex<Cancel>>);

impl Interrupt {
    pub fn trigger(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).cancel();
    }
}

impl Chat {
    /// Starts a new conversation.
    pub fn new(agent: Arc<Agent>, frontend: Arc<dyn Frontend>, source: &str) -> Self {
        let conversation = agent.new_conversation(source, SessionKind::Local);
        Self::with_conversation(agent, conversation, frontend)
    }

    /// Wraps a conversation that was started or loaded elsewhere.
    pub fn with_conversation(
        agent: Arc<Agent>,
        conversation: Conversation,
        frontend: Arc<dyn Frontend>,
    ) -> Self {
        Self { agent, conversation, frontend, running: Arc::new(Mutex::new(Cancel::new())) }
    }

    pub fn conversation(&self) -> &Conversation {
        &self.conversation
    }

    pub fn interrupt(&self) -> Interrupt {
        Interrupt(self.running.clone())
    }

    /// Runs one turn.
    pub async fn run(&mut self, said: TurnInput) -> Result<TurnResult, Error> {
        let cancel = self.fresh_cancel();
        self.agent.run_turn(&mut self.conversation, said, &*self.frontend, &cancel).await
    }

    /// Runs one turn and returns only its answer.
    pub async fn say(&mut self, text: &str) -> Result<Option<String>, Error> {
        Ok(self.run(TurnInput::text(text)).await?.response)
    }

    /// Shortens the conversation now. Returns `None` when it cannot be made shorter.
    pub async fn compress(&mut self, focus: Option<&str>) -> Result<Option<CompressionReport>, Error> {
        let cancel = self.fresh_cancel();
        self.agent.compress(&mut self.conversation, focus, &*self.frontend, &cancel).await
    }

    pub async fn flush_memories(&self) {
        self.agent.flush_memories(&self.conversation, &Cancel::new()).await;
    }

    /// Ends this conversation and starts a new one.
    pub async fn reset_session(&mut self) -> Result<(), Error> {
        if self.agent.flush_due(&self.conversation) {
            self.flush_memories().await;
        }
        self.agent.end_conversation(&self.conversation, EndReason::NewSession).await?;
        let source = self.conversation.source().to_owned();
        self.conversation = self.agent.new_conversation(source, SessionKind::Local);
        Ok(())
    }

    /// Ends the conversation.
    pub async fn close(self) -> Result<(), Error> {
        self.agent.end_conversation(&self.conversation, EndReason::CliClose).await
    }

    /// Installs a fresh cancel token, so that an interrupt between two turns does not cancel the next one.
    fn fresh_cancel(&self) -> Cancel {
        let cancel = Cancel::new();
        *self.running.lock().unwrap_or_else(PoisonError::into_inner) = cancel.clone();
        cancel
    }
}
