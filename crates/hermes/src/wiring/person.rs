//! The memory of the person on whose behalf an agent works: their profile, and what they said earlier.

use std::sync::Arc;

use hermes_agent::{Agent, SpeakerProfile, TranscriptRecall};
use hermes_config::{Config, Env, Home};
use hermes_gateway::authorise::only_user;
use hermes_gateway::pairing::PairingStore;
use hermes_gateway::{ChatAccount, ConversationSharing};
use hermes_knowledge::{ChatIdentity, People, PersonName};
use hermes_memory::MemoryPerson;
use hermes_store::RecallScope;
use hermes_tools::MemoryTool;
use hermes_types::{ExternalMemory, PLATFORM_FACTS, Tool, ToolRole};

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
        RecallScope { people, own_sources, ..RecallScope::default() }
    }

    /// Returns the only person who may talk to the agent on a platform.
    fn only_user(&self, platform: &str) -> Option<String> {
        let approved = PairingStore::new(self.home).approved();
        let paired = approved.into_iter().filter(|(known, ..)| known == platform).map(|(_, user, _)| user);
        only_user(platform, paired, self.env)
    }
}

/// Returns the memory of past conversations for agents that work for the owner; none where it is switched off.
pub(crate) fn owner_memory(
    runtime: &ProgramRuntime,
    from: ProgramConfig<'_>,
) -> Option<Arc<dyn ExternalMemory>> {
    if let Some(service) = runtime.extensions.memory.active(&runtime.store, from) {
        return Some(Arc::new(service.of_person(MemoryPerson::default())));
    }
    let accounts = Accounts::new(from.config, &from.context.home, &from.context.env);
    Some(Arc::new(recall(runtime, from, accounts.scope(&PersonName::Owner, None))?))
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
    let memory = memory_of(person.as_ref(), identity.as_ref(), &account, &accounts, runtime, from);
    let is_shared = account.sharing == ConversationSharing::Shared;
    let memory = match profile.clone().filter(|_| is_shared) {
        Some(profile) => Some(Arc::new(SpeakerProfile::new(profile, memory)) as Arc<dyn ExternalMemory>),
        None => memory,
    };
    let services = memory.as_ref().map(|memory| memory.tools()).unwrap_or_default();
    let replaced = |tool: &Arc<dyn Tool>| -> Option<Arc<dyn Tool>> {
        match tool.descriptor().role {
            Some(ToolRole::Memory) => {
                let memory = MemoryTool::new(stores.notes.clone(), profile.clone());
                Some(Arc::new(memory.with_rules(stores.rules)))
            }
            // Of the tools that the agent has, those of the person it works for now.
            Some(ToolRole::MemoryService) => {
                services.iter().find(|own| own.spec().name == tool.spec().name).cloned()
            }
            _ => Some(tool.clone()),
        }
    };
    let tools: Vec<Arc<dyn Tool>> = agent.tools().iter().filter_map(replaced).collect();
    let in_prompt = profile.filter(|_| !is_shared);
    agent
        .into_builder()
        .tools(tools)
        .user_profile(in_prompt)
        .external_memory(memory)
        .speaker(account.user_id.map(str::to_owned))
        .build()
}

/// Returns what is recalled for an account: in private, what the person said; before others, what was said before
/// the same others.
fn memory_of(
    person: Option<&PersonName>,
    identity: Option<&ChatIdentity>,
    account: &ChatAccount<'_>,
    accounts: &Accounts<'_>,
    runtime: &ProgramRuntime,
    from: ProgramConfig<'_>,
) -> Option<Arc<dyn ExternalMemory>> {
    let scope = match (person, account.is_private) {
        (Some(person), true) => {
            if let Some(service) = runtime.extensions.memory.active(&runtime.store, from) {
                let account = match person {
                    PersonName::Owner => None,
                    PersonName::Other(first) => Some((first.platform.clone(), first.user_id.clone())),
                };
                return Some(Arc::new(service.of_person(MemoryPerson { account })));
            }
            accounts.scope(person, identity)
        }
        // What somebody said in private is not repeated before others.
        _ => RecallScope {
            chat: account
                .chat_id
                .filter(|_| !account.is_private)
                .map(|chat| (account.platform.to_owned(), chat.to_owned())),
            ..RecallScope::default()
        },
    };
    Some(Arc::new(recall(runtime, from, scope)?))
}

fn recall(runtime: &ProgramRuntime, from: ProgramConfig<'_>, scope: RecallScope) -> Option<TranscriptRecall> {
    let config = from.config;
    let is_wanted = config.non_empty_text("memory.provider").as_deref() != Some(NO_RECALL)
        && config.flag("memory.memory_enabled");
    if !is_wanted {
        return None;
    }
    let services = &runtime.extensions.memory;
    let recall = TranscriptRecall::new(runtime.store.clone(), runtime.clock.clone(), scope);
    Some(recall.with_notice(services.notice()).with_vectors(services.vectors(&runtime.store, from)))
}
