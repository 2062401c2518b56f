//! Agents for chats.

use std::fmt::Write as _;
use std::sync::Arc;

use hermes_agent::Agent;
use hermes_types::{ChatAddress, Envelope, Sender, TaskId};

use crate::chat_prompt::context_prompt;
use crate::deliver::Delivery;
use crate::ports::{AgentProvider, AgentRequest};
use crate::session_variables::chat_variables;
use crate::settings::LiveSettings;

/// A chat and the person in it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ChatParty<'a> {
    pub(crate) platform: &'a str,
    pub(crate) place: &'a ChatAddress,
    pub(crate) sender: &'a Sender,
}

impl<'a> From<&'a Envelope> for ChatParty<'a> {
    fn from(Envelope { platform, place, sender, .. }: &'a Envelope) -> Self {
        Self { platform, place, sender }
    }
}

/// Gets an agent for a chat, with a description of the chat.
#[derive(Clone)]
pub(crate) struct ChatAgents {
    agents: Arc<dyn AgentProvider>,
    settings: LiveSettings,
    delivery: Delivery,
}

impl ChatAgents {
    pub(crate) fn new(agents: Arc<dyn AgentProvider>, settings: LiveSettings, delivery: Delivery) -> Self {
        Self { agents, settings, delivery }
    }

    /// Returns the agent for a chat, or a message for the user that says why there is none.
    pub(crate) fn agent_for<'a>(&self, chat: impl Into<ChatParty<'a>>) -> Result<Agent, String> {
        let chat = chat.into();
        let context = context_prompt(chat, &self.settings.current(), &self.delivery.platforms());
        self.agents.agent(&AgentRequest {
            platform: chat.platform,
            context: Some(context),
            ..AgentRequest::default()
        })
    }

    /// Tells the commands of a task which chat they work for.
    pub(crate) fn pass_chat(&self, task: &TaskId, key: &str, envelope: &Envelope) {
        self.agents.pass_variables(task, chat_variables(&envelope.platform, key, &envelope.place));
    }

    /// Returns the agent for background work of a platform, which knows no chat.
    pub(crate) fn background_agent(&self, platform: &str) -> Result<Agent, String> {
        self.agents.agent(&AgentRequest { platform, ..AgentRequest::default() })
    }

    /// Describes the model of a chat: its name, its provider and its endpoint.
    pub(crate) fn describe_model<'a>(&self, chat: impl Into<ChatParty<'a>>) -> String {
        let Ok(agent) = self.agent_for(chat) else { return String::new() };
        let window = agent.models().window();
        let mut text = format!(
            "\n\n◆ Model: `{}`\n◆ Provider: {}\n◆ Context: {}K tokens",
            agent.models().name,
            agent.models().provider,
            window / 1000
        );
        if ["localhost", "127.0.0.1", "[::1]"].iter().any(|local| agent.models().base_url.contains(local)) {
            // Writing to a `String` cannot fail.
            let _ = write!(text, "\n◆ Endpoint: {}", agent.models().base_url);
        }
        text
    }
}
