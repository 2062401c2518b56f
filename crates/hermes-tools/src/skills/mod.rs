//! `skills_list`, `skill_view` and `skill_manage`: find, load and change skills. `hermes-knowledge` holds the skills and
//! their rules.
//!
//! No secret is shown: of a variable only its name is told.

mod inline_shell;
mod list;
mod manage;
mod setup;
mod view;

use std::sync::Arc;

use hermes_config::{Config, Env, Home};
use hermes_knowledge::{SkillFilter, SkillSet, SkillUse};
use hermes_types::Clock;

pub use inline_shell::InlineShell;
pub(crate) use list::DESCRIPTOR as LIST_DESCRIPTOR;
pub use list::SkillsListTool;
pub(crate) use manage::DESCRIPTOR as MANAGE_DESCRIPTOR;
pub use manage::SkillManageTool;
pub(crate) use view::DESCRIPTOR as VIEW_DESCRIPTOR;
pub use view::SkillViewTool;

/// Where the skills of an agent come from, and where the agent runs.
#[derive(Debug, Clone)]
pub struct SkillSource {
    pub home: Home,
    pub config: Config,
    pub env: Env,
    /// The platform of the conversation, such as `cli` or `telegram`.
    pub platform: String,
    /// The place where commands run, such as `local` or `docker`.
    pub backend: String,
    pub clock: Arc<dyn Clock>,
}

impl SkillSource {
    fn load(&self, usage: SkillUse) -> SkillSet {
        let filter = SkillFilter::from_config(&self.config, &self.env, &self.platform).for_use(usage);
        SkillSet::load(&self.home, &self.config, &self.env, &filter)
    }
}
