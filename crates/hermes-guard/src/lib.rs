//! Pure decisions about what may be reached and what may be shown.
//!
//! Holds rules only: nothing here opens a socket, reads a file or reads a clock. A decision depends on its
//! arguments alone (except for the secrets of this installation, which are masked wherever they occur), and no
//! input, however hostile, causes a panic or more than linear time.

mod ansi;
mod command;
mod injection;
mod redact;
mod skill;
mod url;

pub use ansi::strip_ansi;
pub use command::{
    CommandJudgement, HomeFolders, covers, executed_words, is_same_key, judge, matches_pattern,
};
pub use injection::{InjectionFinding, TextOrigin, find_injections};
pub use redact::{Assignments, PhoneNumbers, Redaction, redact, register_secrets};
pub use skill::{
    InstallDecision, InstallPermission, LinkTarget, PolicyOverride, Severity, SkillEntry, SkillFinding,
    SkillScan, SkillTrust, SkillVerdict, ThreatCategory, decide_installation, scan_skill,
};
pub use url::{AddressKind, Blocklist, PrivateAddresses, UrlDenial, UrlDenialReason, UrlPolicy};
