//! Loads and writes the files that shape the agent: memory, `SOUL.md`, project context files, personalities and
//! skills.
//!
//! This crate reads and writes those files and renders them for the prompt. It calls no model and keeps nothing
//! in memory between calls. Invariants: a file is replaced as a whole or not at all; text from a file is
//! scanned and truncated before a caller gets it; an unreadable file is left out and never fails the turn.

mod consolidation_schedule;
mod context_files;
mod invocation;
mod memory;
mod memory_history;
mod memory_merge;
mod memory_origin;
mod person;
mod personality;
mod recall;
mod sanitize;
mod skill_group;
mod skills;
mod soul;

pub use consolidation_schedule::{ConsolidationSchedule, ConsolidationTarget};
pub use context_files::project_context;
pub use invocation::{LEARN, PLAN, PreloadedSkills, invoke_text};
pub use memory::{
    MemoryChange, MemoryFile, MemoryLimits, MemoryRefusal, MemoryState, MemoryStore, USAGE_RULE,
};
pub use memory_history::{MemoryAuthor, MemoryRecord};
pub use memory_merge::{
    ConsolidatedFile, ConsolidationPlan, ConsolidationRequest, ContradictedNote, MergedNotes,
};
pub use person::{ChatIdentity, People, PersonName};
pub use personality::{BUILT_IN as BUILT_IN_PERSONALITIES, Personality, personality, personality_names};
pub use recall::{
    MAX_RECALLED, RecallEvidence, RecalledStatement, SimilarStatement, Statement, choose as choose_recalled,
    recall_words, render as render_recalled,
};
pub use skill_group::SkillGroup;
pub use skills::store::bundle::BundleSource;
pub use skills::store::curator::{
    ArchivedSkill, CuratorMode, CuratorReport, CuratorSettings, CuratorState, SkillBackup, archive_skill,
    archived_skills, back_up_skills, curator_state, pause_curator, pin_skill, prune_skills, restore_skill,
    roll_back_skills, run_curator, run_curator_if_due, skill_backups,
};
pub use skills::store::edit::{AgentSkillGuard, EditedSkill, SkillAuthor, SkillEdit, SkillEditor};
pub use skills::store::history::{
    ChangedFile, SkillChange, StoredContent, iso_time, skill_history, undo_skill_change,
};
pub use skills::store::inspect::{scan_files, scan_folder};
pub use skills::store::similar::SimilarSkill;
pub use skills::store::sync::{
    ModifiedSkill, ModifiedSkillFile, SkillRestore, SkillSyncReport, bundled_skill_names, has_opted_out,
    modified_bundled_skills, opt_in_to_bundled_skills, opt_out_of_bundled_skills, reset_bundled_skill,
    sync_bundled_skills,
};
pub use skills::store::tree::{TreeFile, read as read_tree, write as write_tree};
pub use skills::store::usage::{
    SkillUsage, SkillUsageEvent, all_skill_usage, record_skill_usage, skill_usage,
};
pub use skills::store::{
    SkillStoreError, SkillsLock, lock_skills, remove_skill_folder, replace_skill_folder, skill_header,
};
pub use skills::{
    RequiredVariable, Skill, SkillFile, SkillFileError, SkillFilter, SkillSet, SkillSetting, SkillStatus,
    SkillUse, SkillView, fill_in_outputs,
};
pub use soul::{IDENTITY, create_soul, soul};
