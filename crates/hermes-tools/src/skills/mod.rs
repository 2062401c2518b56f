//! `skills_list` and `skill_view`: find and load skills. `hermes-knowledge` holds the skills and their rules.
//!
//! Nothing here changes a skill, asks for a secret or shows one: of a variable only its name is told.

mod list;
mod view;

use hermes_config::{Config, Env, Home};
use hermes_knowledge::{SkillFilter, SkillSet, SkillUse};

pub(crate) use list::DESCRIPTOR as LIST_DESCRIPTOR;
pub use list::SkillsListTool;
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
}

impl SkillSource {
    fn load(&self, usage: SkillUse) -> SkillSet {
        let filter = SkillFilter::from_config(&self.config, &self.env, &self.platform).for_use(usage);
        SkillSet::load(&self.home, &self.config, &self.env, &filter)
    }
}
