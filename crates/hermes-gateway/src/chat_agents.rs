//! Agents for chats.

use std::fmt::Write as _;
use std::sync::Arc;

use hermes_agent::Agent;
use hermes_types::{ChatAddress, ChatKind, Envelope, Sender, TaskId};

use crate::authorise::delivers_external_events;
use crate::chat_prompt::context_prompt;
use crate::deliver::Delivery;
use crate::ports::{AgentProvider, AgentRequest, ChatAccount};
use crate::session::{ConversationSharing, SessionIsolation};
use crate::session_variables::chat_variables;
use crate::settings::LiveSettings;

/// A chat and the person in it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ChatParty<'a> {
    pub(crate) platform: &'a str,
    pub(crate) place: &'a ChatAddress,
    pub(crate) sender: &'a Sender,
}

impl<'a> ChatParty<'a> {
    /// Returns the account of the person, and who hears what is said to it. Events of other services are handled for
    /// the owner.
    fn account(&self, isolation: SessionIsolation) -> Option<ChatAccount<'a>> {
        if delivers_external_events(self.platform) {
            return None;
        }
        let is_private = self.place.kind == ChatKind::Dm;
        let sharing = if is_private { ConversationSharing::PerUser } else { isolation.of(self.place) };
        let user_id = self.sender.user_id.as_deref();
        let chat_id = Some(self.place.chat_id.as_str());
        Some(ChatAccount { platform: self.platform, user_id, chat_id, is_private, sharing })
    }
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
        let settings = self.settings.current();
        let context = context_prompt(chat, &settings, &self.delivery.platforms());
        self.agents.agent(&AgentRequest {
            platform: chat.platform,
            context: Some(context),
            account: chat.account(settings.isolation),
            ..AgentRequest::default()
        })
    }

    /// Tells the commands of a task which chat they work for.
    pub(crate) fn pass_chat(&self, task: &TaskId, key: &str, envelope: &Envelope) {
        self.agents.pass_variables(task, chat_variables(&envelope.platform, key, &envelope.place));
    }

    /// Returns the agent for background work of a chat, which knows whom it works for, and not the chat.
    pub(crate) fn background_agent<'a>(&self, chat: impl Into<ChatParty<'a>>) -> Result<Agent, String> {
        let chat = chat.into();
        let account = chat.account(self.settings.current().isolation);
        self.agents.agent(&AgentRequest { platform: chat.platform, account, ..AgentRequest::default() })
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
