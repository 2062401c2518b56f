//! What is installed: the list, the bundled skills, the agent's own ones and their history.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::Result;
use hermes_config::Config;
use hermes_knowledge::{
    SkillFilter, SkillRestore, SkillSet, SkillUse, all_skill_usage, archive_skill, bundled_skill_names,
    has_opted_out, iso_time, modified_bundled_skills, opt_in_to_bundled_skills, opt_out_of_bundled_skills,
    reset_bundled_skill, skill_history, undo_skill_change,
};
use hermes_text::unified_diff;
use serde_json::{Value, json};

use super::SkillsRun;
use crate::cli::ListedSkills;
use crate::command::table::table;
use crate::context::now;
use crate::wiring::bundled_skills;

/// The number of days after which a skill of the agent counts as unused.
const STALE_DAYS: u32 = 30;

impl SkillsRun<'_> {
    /// Returns all skills of the home and of external folders, disabled or not.
    pub(super) fn skills(&self) -> SkillSet {
        let config = Config::load(&self.context.home, &self.context.env);
        let filter = SkillFilter::from_config(&config, &self.context.env, "cli").for_use(SkillUse::Command);
        SkillSet::load(&self.context.home, &config, &self.context.env, &filter)
    }

    pub(super) fn list(&self, wanted: ListedSkills, as_json: bool) {
        let bundled: BTreeSet<String> = bundled_skill_names(&self.context.home).into_iter().collect();
        let hub = self.hub.state().installed();
        let (mut from_hub, mut builtin, mut local) = (0_usize, 0_usize, 0_usize);
        let mut rows: Vec<Vec<String>> = Vec::new();
        for skill in self.skills().all() {
            let (kind, source, trust) = match hub.iter().find(|locked| locked.name == skill.name) {
                Some(locked) => {
                    from_hub += 1;
                    (ListedSkills::Hub, locked.source.as_str(), locked.trust_level.as_str())
                }
                None if bundled.contains(&skill.name) => {
                    builtin += 1;
                    (ListedSkills::Builtin, "builtin", "builtin")
                }
                None => {
                    local += 1;
                    (ListedSkills::Local, "local", "local")
                }
            };
            if wanted == ListedSkills::All || wanted == kind {
                let row = [skill.name.as_str(), skill.category.as_str(), source, trust];
                rows.push(row.map(str::to_owned).to_vec());
            }
        }
        let header = ["Name", "Category", "Source", "Trust"];
        if as_json {
            let object = |row: &Vec<String>| -> Value {
                let fields = header.iter().zip(row).map(|(key, cell)| (key.to_lowercase(), json!(cell)));
                Value::Object(fields.collect())
            };
            self.output.line(&format!("{:#}", rows.iter().map(object).collect::<Value>()));
            return;
        }
        self.output.text(&table(&header, &[40, 30, 20, 14], &rows));
        self.output.line(&format!("\n{from_hub} hub-installed, {builtin} builtin, {local} local"));
        let stale = self.stale_skills(STALE_DAYS).len();
        if stale > 0 {
            self.output.line(&format!(
                "{stale} of the agent's skills were not used for {STALE_DAYS} days: hermes skills stale"
            ));
        }
    }

    pub(super) fn undo(&self, name: &str) -> Result<()> {
        let change = undo_skill_change(&self.context.home, name)?;
        self.output
            .line(&format!("Undone: {} of '{name}' ({}, by {}).", change.action, change.at, change.by));
        Ok(())
    }

    pub(super) fn history(&self, name: &str) {
        let changes = skill_history(&self.context.home, name);
        if changes.is_empty() {
            self.output.line(&format!("No change of '{name}' is recorded."));
        }
        for change in changes {
            let files: Vec<&str> = change.files.iter().map(|file| file.path.as_str()).collect();
            let session = change.session.map(|session| format!(", session {session}")).unwrap_or_default();
            let (files, by) = (files.join(", "), change.by);
            self.output.line(&format!("{}  {:<11} {files} (by {by}{session})", change.at, change.action));
        }
    }

    /// Returns the agent's skills that nothing happened to for so many days, with the last time.
    fn stale_skills(&self, days: u32) -> Vec<(String, String)> {
        let limit = iso_time(now().minus(Duration::from_hours(24) * days));
        let installed = self.skills();
        let usage = all_skill_usage(&self.context.home).into_iter();
        usage
            .filter(|(name, usage)| {
                usage.created_by.as_deref() == Some("agent") && installed.find(name).is_some()
            })
            .filter_map(|(name, usage)| Some((name, usage.last_activity()?.to_owned())))
            .filter(|(_, last)| *last < limit)
            .collect()
    }

    pub(super) fn stale(&self, days: u32, as_json: bool) {
        let stale = self.stale_skills(days);
        if as_json {
            let rows: Value = stale.iter().map(|(name, last)| json!({"name": name, "last": last})).collect();
            self.output.line(&format!("{rows:#}"));
        } else if stale.is_empty() {
            self.output.line(&format!("Every skill of the agent was used within {days} days."));
        } else {
            for (name, last) in &stale {
                self.output.line(&format!("{name:<40} last used {last}"));
            }
            self.output.line("\nTo put one away: hermes skills archive NAME. Nothing is deleted.");
        }
    }

    pub(super) fn archive(&self, name: &str) -> Result<()> {
        let target = archive_skill(&self.context.home, name, now())?;
        self.output
            .line(&format!("Moved to {}. `hermes curator restore {name}` brings it back.", target.display()));
        Ok(())
    }

    pub(super) fn list_modified(&self, as_json: bool) -> Result<()> {
        let source = bundled_skills::source(&self.context.env);
        let modified = modified_bundled_skills(&self.context.home, &source)?;
        let files = |skill: &hermes_knowledge::ModifiedSkill| -> Vec<String> {
            skill.files.iter().map(|file| file.path.clone()).collect()
        };
        if as_json {
            let rows: Value =
                modified.iter().map(|skill| json!({"name": skill.name, "files": files(skill)})).collect();
            self.output.line(&format!("{rows:#}"));
            return Ok(());
        }
        if modified.is_empty() {
            self.output.line("You changed none of the bundled skills.");
        }
        for skill in &modified {
            self.output.line(&format!("{}: {}", skill.name, files(skill).join(", ")));
        }
        Ok(())
    }

    pub(super) fn diff(&self, name: &str) -> Result<()> {
        let source = bundled_skills::source(&self.context.env);
        let modified = modified_bundled_skills(&self.context.home, &source)?;
        let Some(skill) = modified.into_iter().find(|skill| skill.name == name) else {
            self.output.line(&format!("'{name}' is not a bundled skill that you changed."));
            return Ok(());
        };
        for file in skill.files {
            let (bundled, own) = (file.bundled.unwrap_or_default(), file.own.unwrap_or_default());
            let (from, to) = (format!("bundled/{}", file.path), format!("own/{}", file.path));
            self.output.text(&unified_diff(&bundled, &own, &from, &to));
        }
        Ok(())
    }

    pub(super) fn reset(&self, name: &str, restore: bool) -> Result<()> {
        let restore = if restore { SkillRestore::Replace } else { SkillRestore::Keep };
        let source = bundled_skills::source(&self.context.env);
        reset_bundled_skill(&self.context.home, &source, name, restore)?;
        self.output.line(&match restore {
            SkillRestore::Replace => format!("'{name}' is the bundled copy again."),
            SkillRestore::Keep => format!("'{name}' counts as new at the next start; your copy is kept."),
        });
        Ok(())
    }

    pub(super) fn opt_out(&self) -> Result<()> {
        opt_out_of_bundled_skills(&self.context.home)?;
        self.output.line("No further bundled skills are installed. Those that are there stay.");
        Ok(())
    }

    pub(super) fn opt_in(&self) -> Result<()> {
        let was_out = has_opted_out(&self.context.home);
        opt_in_to_bundled_skills(&self.context.home)?;
        let again = "Bundled skills are installed again.";
        self.output.line(if was_out { again } else { "Bundled skills were not turned off." });
        bundled_skills::sync_aloud(self.context, self.output);
        Ok(())
    }
}
