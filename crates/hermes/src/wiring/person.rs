//! The memory of the person on whose behalf an agent works: their profile, and what they said earlier.

use std::sync::Arc;

use hermes_agent::{Agent, TranscriptRecall};
use hermes_config::{Config, Env, Home};
use hermes_gateway::authorise::only_user;
use hermes_gateway::pairing::PairingStore;
use hermes_gateway::{ChatAccount, ConversationSharing};
use hermes_knowledge::{ChatIdentity, People, PersonName};
use hermes_store::RecallScope;
use hermes_tools::MemoryTool;
use hermes_types::{PLATFORM_FACTS, Tool, ToolRole};

use super::program_runtime::{ProgramConfig, ProgramRuntime};
use super::settings::{MemoryStores, memory_limits};

/// The sources of conversations that the owner has on this machine.
const OWN_SOURCES: [&str; 4] = ["cli", "tui", "acp", "local"];

/// The value of `memory.provider` that recalls nothing.
const NO_RECALL: &str = "none";

/// Tells whether conversations of a source are the owner's, on this machine.
pub(crate) fn is_own_source(source: &str) -> bool {
    OWN_SOURCES.contains(&source)
}

/// Whose conversations belong together in one home.
pub(crate) struct Accounts<'a> {
    people: People,
    home: &'a Home,
    env: &'a Env,
}

impl<'a> Accounts<'a> {
    pub(crate) fn new(config: &Config, home: &'a Home, env: &'a Env) -> Self {
        Self { people: People::from_setting(config.get("memory.people").as_ref()), home, env }
    }

    /// Returns whose account this is.
    pub(crate) fn person(&self, account: &ChatIdentity) -> PersonName {
        self.people.person(account, self.only_user(&account.platform).as_ref() == Some(&account.user_id))
    }

    /// Returns the conversations of a person that may be recalled.
    pub(crate) fn scope(&self, person: &PersonName, current: Option<&ChatIdentity>) -> RecallScope {
        let mut accounts = self.people.accounts(person, current);
        let own_sources = match person {
            PersonName::Owner => {
                accounts.extend(PLATFORM_FACTS.iter().filter_map(|facts| {
                    let account = ChatIdentity::new(facts.name, &self.only_user(facts.name)?);
                    (self.person(&account) == PersonName::Owner).then_some(account)
                }));
                OWN_SOURCES.map(str::to_owned).to_vec()
            }
            PersonName::Other(_) => Vec::new(),
        };
        let people = accounts.into_iter().map(|account| (account.platform, account.user_id)).collect();
        RecallScope { people, own_sources, current: None }
    }

    /// Returns the only person who may talk to the agent on a platform.
    fn only_user(&self, platform: &str) -> Option<String> {
        let approved = PairingStore::new(self.home).approved();
        let paired = approved.into_iter().filter(|(known, ..)| known == platform).map(|(_, user, _)| user);
        only_user(platform, paired, self.env)
    }
}

/// Returns the memory of past conversations for agents that work for the owner; none where it is switched off.
pub(crate) fn owner_recall(runtime: &ProgramRuntime, from: ProgramConfig<'_>) -> Option<TranscriptRecall> {
    let accounts = Accounts::new(from.config, &from.context.home, &from.context.env);
    recall(runtime, from.config, accounts.scope(&PersonName::Owner, None))
}

/// Gives an agent the memory of the account that it works for.
pub(crate) fn for_account(
    agent: Agent,
    account: ChatAccount<'_>,
    runtime: &ProgramRuntime,
    from: ProgramConfig<'_>,
) -> Agent {
    let ProgramConfig { context, config } = from;
    let accounts = Accounts::new(config, &context.home, &context.env);
    let identity = account.user_id.map(|id| ChatIdentity::new(account.platform, id));
    let person = identity.as_ref().map(|identity| accounts.person(identity));
    let stores = MemoryStores::open(hermes_agent::ContextFiles::Load, from);
    let profile = person.as_ref().filter(|_| stores.profile.is_some()).map(|person| {
        hermes_knowledge::MemoryStore::in_folder(person.folder(&context.home), memory_limits(config))
            .recorded(hermes_knowledge::MemoryAuthor::Agent, runtime.clock.clone())
    });
    let is_shared = account.sharing == ConversationSharing::Shared;
    let scope = match (&person, account.is_private) {
        (Some(person), true) => accounts.scope(person, identity.as_ref()),
        // What somebody said in private is not repeated before others.
        _ => RecallScope::default(),
    };
    let recall = recall(runtime, config, scope)
        .map(|recall| recall.with_profile(profile.clone().filter(|_| is_shared)));
    let tools: Vec<Arc<dyn Tool>> = agent
        .tools()
        .iter()
        .map(|tool| match tool.descriptor().role {
            Some(ToolRole::Memory) => Arc::new(MemoryTool::new(stores.notes.clone(), profile.clone())),
            _ => tool.clone(),
        })
        .collect();
    let in_prompt = profile.filter(|_| !is_shared);
    agent
        .into_builder()
        .tools(tools)
        .user_profile(in_prompt)
        .external_memory(recall.map(|r| Arc::new(r) as _))
        .build()
}

fn recall(runtime: &ProgramRuntime, config: &Config, scope: RecallScope) -> Option<TranscriptRecall> {
    let is_wanted = config.non_empty_text("memory.provider").as_deref() != Some(NO_RECALL)
        && config.flag("memory.memory_enabled");
    is_wanted.then(|| TranscriptRecall::new(runtime.store.clone(), runtime.clock.clone(), scope))
}
