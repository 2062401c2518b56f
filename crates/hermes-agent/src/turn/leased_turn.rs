//! A turn from its lease to the work after its end: stores the input, runs the loop while the lease is renewed,
//! closes the row of the turn.
//!
//! Calls no model. Invariant: a turn whose loop has ended, also by an error, is closed before its result is
//! returned; dropping its future leaves it running, for the next process to resume.

use futures_util::future::{Either, select};
use hermes_store::{LeaseOutcome, NewMessage, NewSession, TurnOpening};
use hermes_types::{
    BoxFuture, Cancel, FinishedTurn, Frontend, HookEvent, Message, Role, ToolEvent, Turn, TurnEvent, TurnId,
    TurnState,
};

use super::TurnInput;
use super::open_calls::answer_waiting_calls;
use super::scope::TurnScope;
use super::turn_loop::{ModelInput, RunningTurn};
use crate::agent::{Agent, memory_place};
use crate::conversation::{Conversation, UnfinishedTurn};
use crate::error::Error;
use crate::hooks;
use crate::result::TurnResult;
use crate::{lease, log, prompt, working_place};

/// A turn in a conversation whose lease it takes and releases.
pub(crate) struct LeasedTurn<'a> {
    agent: &'a Agent,
    conversation: &'a mut Conversation,
    frontend: &'a dyn Frontend,
    cancel: &'a Cancel,
}

impl<'a> LeasedTurn<'a> {
    pub(crate) fn new(
        agent: &'a Agent,
        conversation: &'a mut Conversation,
        frontend: &'a dyn Frontend,
        cancel: &'a Cancel,
    ) -> Self {
        Self { agent, conversation, frontend, cancel }
    }

    /// Runs a new turn under this id.
    ///
    /// Boxed, because a turn may start subagents, whose turns this same function creates.
    pub(crate) fn begin(mut self, id: TurnId, said: TurnInput) -> BoxFuture<'a, Result<TurnResult, Error>> {
        Box::pin(async move {
            answer_waiting_calls(self.agent, self.conversation).await?;
            self.open(&id, &said).await?;
            let asked = ModelInput { differs_from_stored: said.stored.is_some(), content: said.content };
            let ended = self.run(id, asked).await;
            lease::release(self.agent, self.conversation);
            ended
        })
    }

    /// Resumes a turn that was cut off. Its calls already have their answers.
    pub(crate) async fn resume(mut self, cut_off: &UnfinishedTurn) -> Result<TurnResult, Error> {
        lease::acquire(self.agent, self.conversation).await?;
        let asked = self.conversation.messages.iter().rfind(|message| message.role == Role::User);
        let content = asked.map(|message| message.content.clone()).unwrap_or_default();
        let asked = ModelInput { content, differs_from_stored: false };
        let ended = self.run(cut_off.turn.id.clone(), asked).await;
        lease::release(self.agent, self.conversation);
        ended
    }

    /// Takes the lease and stores the turn and its input, in one step.
    async fn open(&mut self, id: &TurnId, said: &TurnInput) -> Result<(), Error> {
        let now = self.agent.clock.now();
        let is_new = self.conversation.system.is_none();
        if is_new {
            self.conversation.system =
                Some(prompt::join(&self.agent.prompt_layers(&self.conversation.session)));
        }
        let mut session = NewSession::new(
            self.conversation.session.clone(),
            self.conversation.source.clone(),
            self.conversation.started_at,
        );
        session.model = Some(self.agent.models.name.clone());
        session.user_id.clone_from(&self.conversation.user_id);
        session.system_prompt.clone_from(&self.conversation.system);
        session.model_config = Some(model_config(self.agent, self.conversation));
        session.parent.clone_from(&self.conversation.delegated_by);
        working_place::record(&mut session, &self.agent.prompt.folder);
        let message = Message::user(said.stored.as_ref().unwrap_or(&said.content).clone());
        let turn = Turn {
            id: id.clone(),
            session: self.conversation.session.clone(),
            inbox: said.inbox_rows.first().copied(),
            state: TurnState::Running,
            started_at: now,
            deadline_at: Some(now.plus(self.agent.limits.time)),
            cap: self.agent.limits.cap,
            cut_offs: 0,
        };
        let said_now = said.earlier_messages.iter().cloned().chain([message]);
        let messages: Vec<Message> = said_now.collect();
        let rows = messages.iter().map(|message| NewMessage::new(message.clone(), now)).collect();
        let (inbox, speaker) = (said.inbox_rows.clone(), self.agent.speaker.clone());
        let opening = TurnOpening { session, messages: rows, turn, inbox, speaker };
        let begin =
            || self.agent.store.begin_turn(opening.clone(), &self.agent.holder, lease::LEASE_DURATION);
        if begin().await? != LeaseOutcome::Granted {
            // The holder may be dead; then this takes its lease over.
            lease::acquire(self.agent, self.conversation).await?;
            if let LeaseOutcome::HeldBy { holder, .. } = begin().await? {
                return Err(Error::Busy { holder });
            }
        }
        if is_new {
            let conversation = &*self.conversation;
            hooks::notify(self.agent, HookEvent::OnSessionStart, || {
                hooks::session_input(self.agent, conversation)
            });
        }
        self.conversation.messages.extend(messages);
        Ok(())
    }

    /// Runs the turn and renews its lease meanwhile.
    async fn run(&mut self, id: TurnId, asked: ModelInput) -> Result<TurnResult, Error> {
        self.frontend.show(TurnEvent::TurnStarted { session: self.conversation.session.clone() });
        let scope = TurnScope::new(self.agent, self.conversation, id, self.frontend, self.cancel);
        let mut running = RunningTurn::new(&scope, self.conversation, asked);
        let ended = {
            let renewal =
                std::pin::pin!(lease::keep_renewed(self.agent, running.transcript.leased_session.clone()));
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
        result.session = self.conversation.session.clone();
        self.agent
            .store
            .close_turn(&scope.turn, result.state, result.error.clone(), self.agent.clock.now())
            .await?;
        ended?;
        self.finish(&result);
        self.frontend.show(TurnEvent::TurnEnded { session: self.conversation.session.clone() });
        Ok(result)
    }

    /// Runs what follows an answer; no failure here affects the turn.
    fn finish(&self, result: &TurnResult) {
        log::write_after_turn(self.agent, self.conversation);
        if result.state == TurnState::Done {
            for tool in &self.agent.tools {
                tool.on_event(&self.conversation.task, ToolEvent::TurnCompleted);
            }
        }
        let asked = self.conversation.messages.iter().rfind(|message| message.role == Role::User);
        let asked = asked.map(|message| message.content.text().into_owned()).unwrap_or_default();
        hooks::notify_turn_end(self.agent, self.conversation, &asked, result);
        if let (Some(memory), Some(answer), TurnState::Done) =
            (&self.agent.external_memory, &result.response, result.state)
        {
            let turn = FinishedTurn { user: &asked, assistant: answer };
            memory.store_turn(memory_place(self.agent, &self.conversation.session), turn);
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
