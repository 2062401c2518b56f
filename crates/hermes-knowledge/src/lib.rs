//! The files the agent lives by: what it remembers, who it is, what a project asks of it, which skills it has.
//!
//! Reads and writes those files and renders them for the prompt; it asks no model and keeps nothing in memory between
//! calls. Invariants: a file is replaced whole or not at all; what came from a file is scanned and bounded before it is
//! handed on; a file that cannot be read is left out, never an error of the turn.

mod context_files;
mod invocation;
mod memory;
mod personality;
mod sanitize;
mod skills;
mod soul;

pub use context_files::project_context;
pub use invocation::{PLAN, invoke_text};
pub use memory::{
    MemoryChange, MemoryFile, MemoryLimits, MemoryRefusal, MemoryState, MemoryStore, USAGE_RULE,
};
pub use personality::{BUILT_IN as BUILT_IN_PERSONALITIES, Personality, personality, personality_names};
pub use skills::{Skill, SkillFilter, SkillSet, ToolConditions};
pub use soul::{IDENTITY, create_soul, soul};
