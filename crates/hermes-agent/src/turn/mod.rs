//! The turn: what an agent does between a message and its answer.
//!
//! `leased_turn` is the outside of a turn, `turn_loop` its inside; the other modules are their parts. Surfaces run
//! turns through the driver.

mod answer;
mod batch;
pub(crate) mod calls;
mod capacity;
mod charges;
pub(crate) mod gauge;
pub(crate) mod iteration_notice;
mod leased_turn;
mod long_results;
mod model_call;
pub(crate) mod open_calls;
pub(crate) mod others_words;
pub(crate) mod reply;
pub(crate) mod request;
mod scope;
mod transcript;
mod turn_loop;

use hermes_types::{Cancel, Frontend, InboxId, Message, MessageContent, TurnId, TurnState};

use crate::agent::Agent;
use crate::compress::{CompressionPass, CompressionReport};
use crate::conversation::{Conversation, UnfinishedTurn};
use crate::error::Error;
use crate::lease::{self, LeaseGuard};

pub(crate) use capacity::TurnCapacity;
pub(crate) use charges::CallUsage;
pub(crate) use leased_turn::LeasedTurn;
use open_calls::answer_waiting_calls;
pub(crate) use scope::TurnScope;
pub(crate) use transcript::TurnTranscript;

/// The input of a turn.
#[derive(Debug, Clone)]
pub struct TurnInput {
    /// The content the model reads.
    pub content: MessageContent,
    /// The content stored instead, when the model's version holds more than the user wrote.
    pub stored: Option<MessageContent>,
    /// Messages from elsewhere that become part of the conversation with this turn.
    pub earlier_messages: Vec<Message>,
    /// The inbox rows the input came from.
    pub inbox_rows: Vec<InboxId>,
}

impl TurnInput {
    pub fn text(text: impl Into<String>) -> Self {
        Self {
            content: MessageContent::Text(text.into()),
            stored: None,
            earlier_messages: Vec::new(),
            inbox_rows: Vec::new(),
        }
    }
}

impl Agent {
    /// Closes a cut-off turn without resuming it: the user sent something else, or it was cut off too often.
    pub async fn drop_turn(&self, cut_off: &UnfinishedTurn) -> Result<(), Error> {
        let note = Some("cut off, not resumed".to_owned());
        let state = if cut_off.parked { TurnState::Parked } else { TurnState::Interrupted };
        Ok(self.store.close_turn(&cut_off.turn.id, state, note, self.clock.now()).await?)
    }

    /// Compresses a conversation at the user's request. Returns `None` when it cannot be made shorter.
    pub async fn compress(
        &self,
        conversation: &mut Conversation,
        focus: Option<&str>,
        frontend: &dyn Frontend,
        cancel: &Cancel,
    ) -> Result<Option<CompressionReport>, Error> {
        // A compression that does not stop is dropped, and the conversation must be free then.
        let _lease = LeaseGuard::acquire(self, conversation).await?;
        answer_waiting_calls(self, conversation).await?;
        let ended = {
            let scope = TurnScope::new(self, conversation, TurnId::generate(), frontend, cancel);
            let capacity = TurnCapacity::new(&scope);
            let mut transcript = TurnTranscript::new(&scope, conversation);
            CompressionPass::new(&mut transcript, &capacity).run(Some(focus.unwrap_or_default())).await
        };
        // Compression may have moved the lease to another session.
        lease::release(self, conversation);
        Ok(ended?)
    }
}
