//! Finds skills in registries, judges them, and installs them into a home.
//!
//! This crate asks nobody and prints nothing: a caller shows what was found, and decides. Invariants: what was fetched is
//! written to quarantine, scanned, and only then moved to its place, in one step and under the lock of the skills; no path
//! of an archive or a registry leads out of the skill's folder; every download is bounded; a token is sent to GitHub alone.

mod auth;
mod error;
mod http;
mod identifier;
mod install;
mod publish;
mod search;
mod snapshot;
mod source;
mod state;
mod zip;

pub use auth::{GithubAuth, GithubCredential};
pub use error::Error;
pub use http::{HubAddresses, SkillHub};
pub use identifier::SkillRegistry;
pub use install::{CategoryChoice, InstalledSkill, ReplaceInstalled, StagedSkill, UpdateState, UpdateStatus};
pub use search::{HubListing, HubSearch, NameResolution};
pub use snapshot::{SkillSnapshot, SnapshotEntry};
pub use source::FetchedSkill;
pub use state::{HubState, LockedSkill, SkillTap};
pub use zip::unpack_zip;
