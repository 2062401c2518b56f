//! Whom a skill comes from, and what its verdict then means.

use super::SkillVerdict;

const TRUSTED_REPOSITORIES: [&str; 2] = ["openai/skills", "anthropics/skills"];
/// Prefixes of a catalogue that lists skills of repositories, with its usual misspellings.
const CATALOGUE_PREFIXES: [&str; 4] = ["skills-sh/", "skills.sh/", "skils-sh/", "skils.sh/"];

/// Whom a skill comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum SkillTrust {
    /// It comes with the program.
    Builtin,
    /// It comes from a repository that is trusted by name.
    Trusted,
    /// Anybody may have written it.
    Community,
    /// The agent wrote it in this home.
    AgentCreated,
}

/// Says whether the user overrides the policy for one installation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PolicyOverride {
    #[default]
    None,
    Force,
}

/// What may be done with a skill.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InstallPermission {
    Allowed,
    Blocked,
    /// A person has to agree.
    NeedsConfirmation,
}

/// A decision, with the reason for a report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InstallDecision {
    pub permission: InstallPermission,
    pub reason: String,
}

impl SkillTrust {
    /// Returns the trust that an identifier or a source id deserves.
    pub fn of(source: &str) -> Self {
        if source == "agent-created" {
            return Self::AgentCreated;
        }
        if source == "official" || source.starts_with("official/") {
            return Self::Builtin;
        }
        let plain =
            CATALOGUE_PREFIXES.iter().find_map(|prefix| source.strip_prefix(prefix)).unwrap_or(source);
        let is_from = |repository: &str| {
            plain.strip_prefix(repository).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        if TRUSTED_REPOSITORIES.iter().any(|name| is_from(name)) { Self::Trusted } else { Self::Community }
    }

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Builtin => "builtin",
            Self::Trusted => "trusted",
            Self::Community => "community",
            Self::AgentCreated => "agent-created",
        }
    }
}

impl InstallPermission {
    pub(super) fn label(self) -> &'static str {
        match self {
            Self::Allowed => "ALLOWED",
            Self::Blocked => "BLOCKED",
            Self::NeedsConfirmation => "NEEDS CONFIRMATION",
        }
    }
}

/// Decides whether a skill with this many findings may be installed.
pub fn decide_installation(
    trust: SkillTrust,
    verdict: SkillVerdict,
    findings: usize,
    forced: PolicyOverride,
) -> InstallDecision {
    let (source, word) = (trust.as_str(), verdict.as_str());
    let permission = match (trust, verdict) {
        (_, SkillVerdict::Safe)
        | (SkillTrust::Builtin, _)
        | (SkillTrust::Trusted | SkillTrust::AgentCreated, SkillVerdict::Caution) => {
            InstallPermission::Allowed
        }
        (SkillTrust::AgentCreated, SkillVerdict::Dangerous) => InstallPermission::NeedsConfirmation,
        (SkillTrust::Trusted | SkillTrust::Community, _) => InstallPermission::Blocked,
    };
    let (permission, reason) = match permission {
        InstallPermission::Allowed => (permission, format!("Allowed ({source} source, {word} verdict)")),
        _ if forced == PolicyOverride::Force => (
            InstallPermission::Allowed,
            format!("Force-installed despite {word} verdict ({findings} findings)"),
        ),
        InstallPermission::Blocked => (
            permission,
            format!(
                "Blocked ({source} source + {word} verdict, {findings} findings). Use --force to override."
            ),
        ),
        InstallPermission::NeedsConfirmation => (
            permission,
            format!("Requires confirmation ({source} source + {word} verdict, {findings} findings)"),
        ),
    };
    InstallDecision { permission, reason }
}
