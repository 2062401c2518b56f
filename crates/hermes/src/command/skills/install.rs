//! Installing, updating and removing skills.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};
use hermes_guard::{InstallPermission, PolicyOverride, Severity, SkillTrust, SkillVerdict};
use hermes_hub::{CategoryChoice, FetchedSkill, ReplaceInstalled, SkillSnapshot, StagedSkill, UpdateState};
use hermes_knowledge::skill_header;
use hermes_text::single_line;
use serde_json::{Value, json};

use super::{PromptUpdate, SkillsRun, SkillsSurface};
use crate::cli::{self, SnapshotCommand};
use crate::command::table::table;
use crate::output::Confirmation;

const THIRD_PARTY: &str = "This skill comes from a third party. Hermes has not reviewed it. Read it before you use it: its text \
     instructs the agent, and its scripts can run on this machine.";
const OFFICIAL: &str = "This skill comes with Hermes.";

/// What the user asked to install.
pub(super) struct InstallRequest {
    pub(super) id: String,
    pub(super) category: Option<String>,
    pub(super) force: bool,
    pub(super) yes: bool,
    pub(super) name: Option<String>,
}

impl SkillsRun<'_> {
    pub(super) async fn install(&self, request: InstallRequest) -> Result<()> {
        let Some((identifier, _)) = self.resolve(&request.id).await else { return Ok(()) };
        let skill = self.hub.fetch_skill(&identifier, request.name.as_deref()).await?;
        if let Some(known) = self.hub.state().find(&skill.name) {
            self.output.line(&format!("'{}' is already installed from {}.", skill.name, known.identifier));
            if !request.force {
                self.output.line("Use --force to install it again.");
                return Ok(());
            }
        }
        let staged = self.hub.stage(skill)?;
        // In a chat nobody can confirm what the scanner objects to.
        let is_forced = request.force && self.surface == SkillsSurface::Shell;
        let forced = if is_forced { PolicyOverride::Force } else { PolicyOverride::None };
        let decision = staged.decide(forced);
        self.output.text(&hermes_guard::strip_ansi(&format!("{}\n", staged.report(&decision))));
        if decision.permission != InstallPermission::Allowed {
            self.hub.record_blocked(&staged)?;
            self.output.line(&format!("Installation blocked: {}", decision.reason));
            return Ok(());
        }
        if !self.agrees(&staged, &request) {
            self.output.line("Installation cancelled.");
            return Ok(());
        }
        let category = request.category.map_or(CategoryChoice::Usual, CategoryChoice::Named);
        let replace = if request.force { ReplaceInstalled::Replace } else { ReplaceInstalled::Refuse };
        let installed = self.hub.install(&staged, &category, replace)?;
        self.output.line(&format!("Installed: {}", installed.folder.display()));
        for file in &installed.files {
            self.output.line(&format!("  {file}"));
        }
        if self.surface == SkillsSurface::Chat {
            tell_model(self, &installed.folder);
        }
        Ok(())
    }

    /// Asks the user, where that is needed.
    fn agrees(&self, staged: &StagedSkill, request: &InstallRequest) -> bool {
        let official = staged.skill.trust == SkillTrust::Builtin;
        self.output.line(&format!("\n{}", if official { OFFICIAL } else { THIRD_PARTY }));
        if staged.scan.verdict == SkillVerdict::Dangerous && !official {
            for finding in
                staged.scan.findings.iter().filter(|finding| finding.severity == Severity::Critical)
            {
                self.output.line(&format!("  {}:{}: {}", finding.file, finding.line, finding.description));
            }
            if request.yes {
                return true;
            }
            let question =
                format!("Type the name of the skill ({}) to install it anyway: ", staged.skill.name);
            return self.output.ask(&question).is_some_and(|typed| typed.trim() == staged.skill.name);
        }
        let is_agreed = request.yes || request.force || self.surface == SkillsSurface::Chat;
        is_agreed || self.output.confirm("Confirm") == Confirmation::Yes
    }

    pub(super) async fn check(&self, name: Option<&str>, json: bool) {
        let states = self.hub.check_updates(name).await;
        if json {
            let rows: Value = states
                .iter()
                .map(|state| {
                    json!({
                        "name": state.installed.name,
                        "source": state.installed.source,
                        "status": state.state.as_str(),
                        "reason": state.reason,
                    })
                })
                .collect();
            self.output.line(&format!("{rows:#}"));
            return;
        }
        let rows: Vec<Vec<String>> = states
            .iter()
            .map(|state| {
                let status = match &state.reason {
                    Some(reason) => format!("{} ({reason})", state.state.as_str()),
                    None => state.state.as_str().to_owned(),
                };
                vec![state.installed.name.clone(), state.installed.source.clone(), status]
            })
            .collect();
        self.output.text(&table(&["Name", "Source", "Status"], &[40, 20, 120], &rows));
        let updates = states.iter().filter(|state| state.state == UpdateState::Available).count();
        self.output.line(&format!("{updates} update(s) available across {} checked skill(s)", states.len()));
    }

    pub(super) async fn update(&self, name: Option<&str>) -> Result<()> {
        let mut updated = 0;
        for state in self.hub.check_updates(name).await {
            if let Some(reason) = &state.reason {
                self.output.notice(&format!("note: {}: {reason}", state.installed.name));
            }
            let category = state.installed.category().map(str::to_owned);
            let Some(offered) = state.offered else { continue };
            updated += usize::from(self.install_silently(offered, category, ReplaceInstalled::Replace)?);
        }
        self.output.line(&match updated {
            0 => "No updates available.".to_owned(),
            updated => format!("Updated {updated} skill(s)."),
        });
        Ok(())
    }

    /// Installs a skill without questions. The policy is never overridden. Tells whether it was installed.
    fn install_silently(
        &self,
        skill: FetchedSkill,
        category: Option<String>,
        replace: ReplaceInstalled,
    ) -> Result<bool> {
        let staged = self.hub.stage(skill)?;
        let decision = staged.decide(PolicyOverride::None);
        if decision.permission != InstallPermission::Allowed {
            self.hub.record_blocked(&staged)?;
            self.output.text(&hermes_guard::strip_ansi(&format!("{}\n", staged.report(&decision))));
            self.output.line(&format!("Installation blocked: {}", decision.reason));
            return Ok(false);
        }
        let category = category.map_or(CategoryChoice::Usual, CategoryChoice::Named);
        let installed = self.hub.install(&staged, &category, replace)?;
        self.output.line(&format!("Installed: {}", installed.folder.display()));
        Ok(true)
    }

    pub(super) fn audit(&self, name: Option<&str>) {
        let installed = self.hub.state().installed();
        let mut scanned = 0;
        for skill in installed.iter().filter(|skill| name.is_none_or(|name| name == skill.name)) {
            scanned += 1;
            match self.hub.audit_installed(skill) {
                Ok(report) => self.output.text(&hermes_guard::strip_ansi(&format!("{report}\n\n"))),
                Err(error) => self.output.line(&format!("{}: {error}\n", skill.name)),
            }
        }
        self.output.line(&format!("{scanned} hub-installed skill(s) scanned; nothing was changed."));
    }

    pub(super) fn uninstall(&self, name: &str, yes: bool) -> Result<()> {
        if self.hub.state().find(name).is_none() {
            self.output.line(&format!("'{name}' is not a hub-installed skill (may be a builtin)"));
            return Ok(());
        }
        let is_agreed = yes || self.surface == SkillsSurface::Chat;
        if !is_agreed && self.output.confirm("Confirm") != Confirmation::Yes {
            self.output.line("Nothing was removed.");
            return Ok(());
        }
        let removed = self.hub.uninstall(name)?;
        self.output.line(&format!("Uninstalled: {} ({})", removed.name, removed.identifier));
        Ok(())
    }

    pub(super) async fn snapshot(&self, command: SnapshotCommand) -> Result<()> {
        match command {
            SnapshotCommand::Export { file } => {
                let text = self.hub.snapshot(&cli::version());
                if file == "-" {
                    self.output.text(&text);
                    return Ok(());
                }
                hermes_config::write::write_output(file.as_ref(), text.as_bytes())?;
                self.output.line(&format!("Written: {file}"));
            }
            SnapshotCommand::Import { file, force } => {
                let text = fs::read_to_string(&file).with_context(|| file.clone())?;
                let snapshot = SkillSnapshot::parse(&text)?;
                for tap in &snapshot.taps {
                    if self.hub.state().add_tap(&tap.repository)? {
                        self.output.line(&format!("Added tap: {}", tap.repository));
                    }
                }
                let replace = if force { ReplaceInstalled::Replace } else { ReplaceInstalled::Refuse };
                for skill in snapshot.skills {
                    let done = match self.hub.fetch_skill(&skill.identifier, Some(&skill.name)).await {
                        Ok(fetched) => self.install_silently(fetched, skill.category, replace),
                        Err(error) => Err(error.into()),
                    };
                    if let Err(error) = done {
                        self.output.line(&format!("{}: {error}", skill.name));
                    }
                }
            }
        }
        Ok(())
    }
}

/// Lets the model of the running chat know of a skill, if that was asked for.
fn tell_model(run: &SkillsRun<'_>, folder: &Path) {
    if run.prompt == PromptUpdate::NextSession {
        run.output
            .line("The model sees it in the next session; /new starts one. With --now it is told at once.");
        return;
    }
    let text = fs::read_to_string(folder.join("SKILL.md")).unwrap_or_default();
    let (_, description) = skill_header(&text);
    let name = folder.file_name().unwrap_or_default().to_string_lossy();
    let about = single_line(&description.unwrap_or_default());
    *run.note_for_model.borrow_mut() = Some(format!(
        "Since this session began, the user installed the skill {name}: {about} It is used like those in \
         <available_skills>: load it with skill_view(\"{name}\")."
    ));
    run.output.line("The model knows of it from the next message on.");
}
