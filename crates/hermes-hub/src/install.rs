//! Installs, updates and removes skills.
//!
//! A fetched skill is written to quarantine, scanned there, and moved to its place in one step; the lock file and the log
//! follow under the same lock. A skill that is not installed leaves nothing but its line in the log.

use std::fs;
use std::path::PathBuf;

use hermes_guard::{InstallDecision, PolicyOverride, SkillScan, SkillTrust, decide_installation};
use hermes_knowledge::{
    TreeFile, lock_skills, read_tree, remove_skill_folder, replace_skill_folder, scan_folder, write_tree,
};
use sha2::{Digest as _, Sha256};

use crate::Error;
use crate::http::SkillHub;
use crate::identifier::SkillRegistry;
use crate::source::{FetchedSkill, check_name};
use crate::state::{HubState, LockedSkill};

/// A skill in quarantine, with what the scanner says. It is removed unless it is installed.
#[derive(Debug)]
pub struct StagedSkill {
    pub skill: FetchedSkill,
    pub scan: SkillScan,
    folder: PathBuf,
}

/// The category of a new skill.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum CategoryChoice {
    /// That of the identifier for the program's own skills, otherwise none.
    #[default]
    Usual,
    Named(String),
}

/// Says whether a skill that is installed is replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ReplaceInstalled {
    #[default]
    Refuse,
    Replace,
}

/// A skill that was installed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InstalledSkill {
    pub name: String,
    pub folder: PathBuf,
    pub path: String,
    pub files: Vec<String>,
}

/// Whether an installed skill is still what its registry offers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UpdateState {
    UpToDate,
    Available,
    Unavailable,
}

impl UpdateState {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::UpToDate => "up_to_date",
            Self::Available => "update_available",
            Self::Unavailable => "unavailable",
        }
    }
}

/// The state of one installed skill.
#[derive(Debug)]
pub struct UpdateStatus {
    pub installed: LockedSkill,
    pub state: UpdateState,
    /// What the registry offers now, where that differs.
    pub offered: Option<FetchedSkill>,
    pub reason: Option<String>,
}

impl StagedSkill {
    /// Decides whether it may be installed.
    pub fn decide(&self, forced: PolicyOverride) -> InstallDecision {
        decide_installation(self.skill.trust, self.scan.verdict, self.scan.findings.len(), forced)
    }

    /// Renders what the scanner found.
    pub fn report(&self, decision: &InstallDecision) -> String {
        self.scan.report(&self.skill.name, &self.skill.identifier, self.skill.trust, decision)
    }
}

impl Drop for StagedSkill {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

impl SkillHub {
    /// Writes a fetched skill to quarantine and scans it there.
    pub fn stage(&self, skill: FetchedSkill) -> Result<StagedSkill, Error> {
        self.client.state.ensure()?;
        let folder = self.client.state.folder().join("quarantine").join(&skill.name);
        if folder.symlink_metadata().is_ok() {
            fs::remove_dir_all(&folder).map_err(Error::io(&folder))?;
        }
        write_tree(&folder, &skill.files).map_err(Error::io(&folder))?;
        let scan = scan_folder(&folder).map_err(Error::io(&folder))?;
        Ok(StagedSkill { skill, scan, folder })
    }

    /// Records that a skill was not installed because of the policy.
    pub fn record_blocked(&self, staged: &StagedSkill) -> Result<(), Error> {
        let StagedSkill { skill, scan, .. } = staged;
        let count = scan.findings.len();
        self.client.state.audit(
            self.client.clock.now(),
            &format!(
                "BLOCKED {} {}:{} {} {count}_findings",
                skill.name,
                skill.source.as_str(),
                skill.trust.as_str(),
                scan.verdict.as_str()
            ),
        )
    }

    /// Moves a skill from quarantine to its place.
    pub fn install(
        &self,
        staged: &StagedSkill,
        category: &CategoryChoice,
        replace: ReplaceInstalled,
    ) -> Result<InstalledSkill, Error> {
        let category = match category {
            CategoryChoice::Named(name) => {
                name.split('/').try_for_each(check_name)?;
                Some(name.clone())
            }
            CategoryChoice::Usual => official_category(&staged.skill),
        };
        let StagedSkill { skill, scan, .. } = staged;
        let path =
            category.map_or_else(|| skill.name.clone(), |category| format!("{category}/{}", skill.name));
        let folder = self.client.home.skills().join(&path);
        let _lock = lock_skills(&self.client.home)?;
        let before = self.client.state.find(&skill.name);
        if replace == ReplaceInstalled::Refuse {
            if let Some(before) = &before {
                return Err(Error::Invalid(format!(
                    "'{}' is already installed from {}. Use --force to install it again.",
                    skill.name, before.identifier
                )));
            }
            if folder.symlink_metadata().is_ok() {
                return Err(Error::Invalid(format!(
                    "{} exists and did not come from the hub. Use --force to replace it.",
                    folder.display()
                )));
            }
        }
        replace_skill_folder(&self.client.home, &folder, &skill.files)?;
        if let Some(moved) =
            before.as_ref().filter(|before| before.install_path != path && !before.install_path.is_empty())
        {
            self.remove_installed(moved)?;
        }
        let now = hermes_knowledge::iso_time(self.client.clock.now());
        let hash = content_hash(&skill.files);
        self.client.state.lock(&LockedSkill {
            name: skill.name.clone(),
            source: skill.source.as_str().to_owned(),
            identifier: skill.identifier.clone(),
            trust_level: skill.trust.as_str().to_owned(),
            scan_verdict: scan.verdict.as_str().to_owned(),
            content_hash: hash.clone(),
            install_path: path.clone(),
            files: skill.files.iter().map(|file| file.path.clone()).collect(),
            metadata: skill.metadata.clone(),
            installed_at: before.map_or_else(|| now.clone(), |before| before.installed_at),
            updated_at: now,
        })?;
        let (source, trust, verdict) = (skill.source.as_str(), skill.trust.as_str(), scan.verdict.as_str());
        self.client.state.audit(
            self.client.clock.now(),
            &format!("INSTALL {} {source}:{trust} {verdict} {hash}", skill.name),
        )?;
        Ok(InstalledSkill {
            name: skill.name.clone(),
            folder,
            path,
            files: skill.files.iter().map(|file| file.path.clone()).collect(),
        })
    }

    /// Removes a skill that came from the hub.
    pub fn uninstall(&self, name: &str) -> Result<LockedSkill, Error> {
        let _lock = lock_skills(&self.client.home)?;
        let Some(skill) = self.client.state.find(name) else {
            return Err(Error::Invalid(format!("'{name}' is not a hub-installed skill (may be a builtin)")));
        };
        self.remove_installed(&skill)?;
        self.client.state.unlock(name)?;
        let line = format!("UNINSTALL {name} {}:{} n/a user_request", skill.source, skill.trust_level);
        self.client.state.audit(self.client.clock.now(), &line)?;
        Ok(skill)
    }

    fn remove_installed(&self, skill: &LockedSkill) -> Result<(), Error> {
        // The lock file could have been edited: only a folder below the skills is removed.
        crate::source::check_path(&skill.install_path)?;
        Ok(remove_skill_folder(&self.client.home, &skill.install_path)?)
    }

    /// Compares installed skills with what their registries offer now.
    pub async fn check_updates(&self, name: Option<&str>) -> Vec<UpdateStatus> {
        let mut states = Vec::new();
        for installed in self.client.state.installed() {
            if name.is_some_and(|name| name != installed.name) {
                continue;
            }
            states.push(match self.fetch_address(&installed.identifier, Some(&installed.name)).await {
                Ok(Some(offered)) if content_hash(&offered.files) == installed.content_hash => {
                    UpdateStatus { installed, state: UpdateState::UpToDate, offered: None, reason: None }
                }
                Ok(Some(offered)) => UpdateStatus {
                    installed,
                    state: UpdateState::Available,
                    offered: Some(offered),
                    reason: None,
                },
                Ok(None) => {
                    UpdateStatus { installed, state: UpdateState::Unavailable, offered: None, reason: None }
                }
                Err(error) => UpdateStatus {
                    installed,
                    state: UpdateState::Unavailable,
                    offered: None,
                    reason: Some(error.to_string()),
                },
            });
        }
        states
    }

    /// Scans an installed skill again. Changes nothing.
    pub fn audit_installed(&self, skill: &LockedSkill) -> Result<String, Error> {
        crate::source::check_path(&skill.install_path)?;
        let folder = self.client.home.skills().join(&skill.install_path);
        let scan = scan_folder(&folder).map_err(Error::io(&folder))?;
        let trust = trust_of(skill);
        let decision = decide_installation(trust, scan.verdict, scan.findings.len(), PolicyOverride::None);
        let mut report = scan.report(&skill.name, &skill.identifier, trust, &decision);
        let files = read_tree(&folder).map_err(Error::io(&folder))?;
        if content_hash(&files) != skill.content_hash {
            report.push_str("\nIts files differ from those that were installed.");
        }
        Ok(report)
    }
}

impl HubState {
    /// Returns the number of skills in quarantine.
    pub fn quarantined(&self) -> usize {
        fs::read_dir(self.folder().join("quarantine")).into_iter().flatten().count()
    }
}

fn trust_of(skill: &LockedSkill) -> SkillTrust {
    match skill.trust_level.as_str() {
        "builtin" => SkillTrust::Builtin,
        "trusted" => SkillTrust::Trusted,
        _ => SkillTrust::Community,
    }
}

fn official_category(skill: &FetchedSkill) -> Option<String> {
    let path =
        skill.identifier.strip_prefix("official/").filter(|_| skill.source == SkillRegistry::Official)?;
    path.rsplit_once('/').map(|(category, _)| category.to_owned())
}

/// Returns the sum of the contents of sorted files, as the lock file has it.
pub(crate) fn content_hash(files: &[TreeFile]) -> String {
    let mut hash = Sha256::new();
    for file in files {
        hash.update(&file.bytes);
    }
    let digest = data_encoding::HEXLOWER.encode(&hash.finalize());
    format!("sha256:{}", digest.get(..16).unwrap_or_default())
}
