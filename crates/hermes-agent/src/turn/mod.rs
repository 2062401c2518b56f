//! The outside of a turn: taking the lease, storing the input, and the work after the turn has ended.

mod answer;
mod batch;
pub(crate) mod calls;
mod capacity;
mod charges;
pub(crate) mod gauge;
pub(crate) mod iteration_notice;
mod long_results;
mod model_call;
pub(crate) mod open_calls;
pub(crate) mod reply;
pub(crate) mod request;
mod scope;
mod transcript;
mod turn_loop;

use futures_util::future::{Either, select};
use hermes_store::{LeaseOutcome, NewMessage, NewSession, TurnOpening};
use hermes_types::{
    BoxFuture, Cancel, Frontend, InboxId, Message, MessageContent, Role, Turn, TurnEvent, TurnId, TurnState,
};

use crate::agent::Agent;
use crate::compress::{CompressionPass, CompressionReport};
use crate::conversation::{Conversation, UnfinishedTurn};
use crate::error::Error;
use crate::result::TurnResult;
use crate::{lease, log, prompt};

pub(crate) use capacity::TurnCapacity;
pub(crate) use charges::CallUsage;
use open_calls::answer_waiting_calls;
pub(crate) use scope::TurnScope;
pub(crate) use transcript::TurnTranscript;
use turn_loop::{ModelInput, RunningTurn};

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
    /// Runs one turn to its end. Only a database that cannot be written, or another process that works in the
    /// same conversation, is an error; everything else is a result.
    pub fn run_turn<'a>(
        &'a self,
        conversation: &'a mut Conversation,
        said: TurnInput,
        frontend: &'a dyn Frontend,
        cancel: &'a Cancel,
    ) -> BoxFuture<'a, Result<TurnResult, Error>> {
        self.run_turn_as(TurnId::generate(), conversation, said, frontend, cancel)
    }

    /// Runs a turn under an id the caller has stored before.
    ///
    /// Boxed, because a turn may start subagents, whose turns this same function creates.
    pub fn run_turn_as<'a>(
        &'a self,
        id: TurnId,
        conversation: &'a mut Conversation,
        said: TurnInput,
        frontend: &'a dyn Frontend,
        cancel: &'a Cancel,
    ) -> BoxFuture<'a, Result<TurnResult, Error>> {
        Box::pin(async move {
            answer_waiting_calls(self, conversation).await?;
            self.open_turn(conversation, &id, &said).await?;
            let asked = ModelInput { differs_from_stored: said.stored.is_some(), content: said.content };
            let ended = self.run_with_lease(conversation, id, asked, frontend, cancel).await;
            lease::release(self, conversation);
            ended
        })
    }

    /// Resumes a turn that was cut off. Its calls already have their answers.
    pub(crate) async fn resume_turn(
        &self,
        conversation: &mut Conversation,
        cut_off: &UnfinishedTurn,
        frontend: &dyn Frontend,
        cancel: &Cancel,
    ) -> Result<TurnResult, Error> {
        lease::acquire(self, conversation).await?;
        let asked = conversation.messages.iter().rfind(|message| message.role == Role::User);
        let content = asked.map(|message| message.content.clone()).unwrap_or_default();
        let asked = ModelInput { content, differs_from_stored: false };
        let ended = self.run_with_lease(conversation, cut_off.turn.id.clone(), asked, frontend, cancel).await;
        lease::release(self, conversation);
        ended
    }

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
        lease::acquire(self, conversation).await?;
        answer_waiting_calls(self, conversation).await?;
        let ended = {
            let scope = TurnScope::new(self, conversation, TurnId::generate(), frontend, cancel);
            let capacity = TurnCapacity::new(&scope);
            let mut transcript = TurnTranscript::new(&scope, conversation);
            CompressionPass::new(&mut transcript, &capacity).run(Some(focus.unwrap_or_default())).await
        };
        lease::release(self, conversation);
        Ok(ended?)
    }

    /// Takes the lease and stores the turn and its input, in one step.
    async fn open_turn(
        &self,
        conversation: &mut Conversation,
        id: &TurnId,
        said: &TurnInput,
    ) -> Result<(), Error> {
        let now = self.clock.now();
        let is_new = conversation.system.is_none();
        if is_new {
            conversation.system = Some(prompt::join(&self.prompt_layers(&conversation.session)));
        }
        let mut session = NewSession::new(
            conversation.session.clone(),
            conversation.source.clone(),
            conversation.started_at,
        );
        session.model = Some(self.models.name.clone());
        session.user_id.clone_from(&conversation.user_id);
        session.system_prompt.clone_from(&conversation.system);
        session.model_config = Some(model_config(self, conversation));
        session.parent.clone_from(&conversation.delegated_by);
        session.cwd = Some(self.prompt.folder.display().to_string());
        let message = Message::user(said.stored.as_ref().unwrap_or(&said.content).clone());
        let turn = Turn {
            id: id.clone(),
            session: conversation.session.clone(),
            inbox: said.inbox_rows.first().copied(),
            state: TurnState::Running,
            started_at: now,
            deadline_at: Some(now.plus(self.limits.time)),
            cap: self.limits.cap,
            cut_offs: 0,
        };
        let said_now = said.earlier_messages.iter().cloned().chain([message]);
        let messages: Vec<Message> = said_now.collect();
        let rows = messages.iter().map(|message| NewMessage::new(message.clone(), now)).collect();
        let opening = TurnOpening { session, messages: rows, turn, inbox: said.inbox_rows.clone() };
        let begin = || self.store.begin_turn(opening.clone(), &self.holder, lease::LEASE_DURATION);
        if begin().await? != LeaseOutcome::Granted {
            // The holder may be dead; then this takes its lease over.
            lease::acquire(self, conversation).await?;
            if let LeaseOutcome::HeldBy { holder, .. } = begin().await? {
                return Err(Error::Busy { holder });
            }
        }
        if let Some(hooks) = self.hooks.as_ref().filter(|_| is_new) {
            hooks.session_started(&conversation.session);
        }
        conversation.messages.extend(messages);
        Ok(())
    }

    /// Runs the turn and renews its lease meanwhile.
    async fn run_with_lease(
        &self,
        conversation: &mut Conversation,
        id: TurnId,
        asked: ModelInput,
        frontend: &dyn Frontend,
        cancel: &Cancel,
    ) -> Result<TurnResult, Error> {
        frontend.show(TurnEvent::TurnStarted { session: conversation.session.clone() });
        let scope = TurnScope::new(self, conversation, id, frontend, cancel);
        let mut running = RunningTurn::new(&scope, conversation, asked);
        let ended = {
            let renewal =
                std::pin::pin!(lease::keep_renewed(self, running.transcript.leased_session.clone()));
            let turn = std::pin::pin!(running.run_loop());
            match select(turn, renewal).await {
                Either::Left((ended, _)) => ended,
                Either::Right((never, _)) => match never {},
            }
        };
        let ended = match running.transcript.charges.wait().await {
            Ok(()) => ended,
            Err(error) => ended.and(Err(error)),
        };
        let mut result = running.result;
        if ended.is_err() {
            result.state = TurnState::Failed;
        }
        result.session = conversation.session.clone();
        self.store.close_turn(&scope.turn, result.state, result.error.clone(), self.clock.now()).await?;
        ended?;
        self.after_turn(conversation, &result).await;
        frontend.show(TurnEvent::TurnEnded { session: conversation.session.clone() });
        Ok(result)
    }

    /// Runs what follows an answer; no failure here affects the turn.
    async fn after_turn(&self, conversation: &Conversation, result: &TurnResult) {
        log::write_after_turn(self, conversation);
        if let Some(hooks) = &self.hooks {
            hooks.after_turn(&conversation.session, result.response.as_deref());
        }
        if let (Some(memory), Some(answer), TurnState::Done) =
            (&self.external_memory, &result.response, result.state)
        {
            let asked = conversation.messages.iter().rfind(|message| message.role == Role::User);
            let asked = asked.map(|message| message.content.text().into_owned()).unwrap_or_default();
            memory.store_turn(&asked, answer).await;
        }
    }
}

/// Returns the settings that are stored with a session.
fn model_config(agent: &Agent, conversation: &Conversation) -> String {
    let mut config = serde_json::json!({
        "max_iterations": agent.limits.iterations,
        "reasoning_config": agent.request_options.effort.map(|effort| serde_json::json!({"effort": effort.as_str()})),
        "max_tokens": agent.request_options.max_tokens,
    });
    if let Some(parent) = &conversation.delegated_by {
        config["_delegate_from"] = serde_json::json!(parent.as_str());
    }
    config.to_string()
}
