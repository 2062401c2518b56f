//! Which skills are offered: `skills.disabled` and `skills.platform_disabled`.

use std::collections::BTreeSet;

use anyhow::{Context as _, Result};
use hermes_config::yaml::{KeyPath, YamlValue};
use hermes_config::{Config, ManagedMode, set};
use hermes_knowledge::SkillSet;

use super::{SkillsRun, SkillsSurface};
use crate::cli::SkillSwitches;
use crate::output::Console;

impl SkillsRun<'_> {
    pub(super) fn configure(&self, switches: &SkillSwitches) -> Result<()> {
        let of_platform = |platform: &str| format!("skills.platform_disabled.{platform}");
        let key = switches.platform.as_deref().map_or_else(|| "skills.disabled".to_owned(), of_platform);
        let config = Config::load(&self.context.home, &self.context.env);
        // A platform without a list of its own starts from the general one.
        let from = if config.is_user_set(&key) { key.as_str() } else { "skills.disabled" };
        let mut disabled: BTreeSet<String> = config.list(from).into_iter().collect();
        if switches.disable.is_empty() && switches.enable.is_empty() {
            if self.surface == SkillsSurface::Chat || !self.output.can_ask() {
                print(self.output, &self.skills(), &disabled);
                return Ok(());
            }
            if !choose(self.output, &self.skills(), &mut disabled) {
                return Ok(());
            }
        }
        let skills = self.skills();
        for name in &switches.disable {
            if skills.find(name).is_none() {
                self.output.notice(&format!("note: there is no skill '{name}' now"));
            }
            disabled.insert(name.clone());
        }
        disabled.retain(|name| !switches.enable.contains(name));
        let path = KeyPath::parse(&key).context("the platform is not a name")?;
        let management = ManagedMode::detect(&self.context.home, &self.context.env);
        let list = YamlValue::Seq(disabled.iter().cloned().map(YamlValue::Str).collect());
        set::update_value(&self.context.home, management, &path, |_| Some(list))?;
        self.output.line(&format!("{key}: {} disabled", disabled.len()));
        Ok(())
    }
}

/// Lets the user switch skills until they are done. Tells whether anything is to be saved.
fn choose(output: &Console, skills: &SkillSet, disabled: &mut BTreeSet<String>) -> bool {
    let mut at = 0;
    loop {
        let mut rows = vec!["Save and leave".to_owned()];
        rows.extend(skills.all().map(|skill| row(&skill.category, &skill.name, disabled)));
        match output.choose("Skills that are offered", &rows, at) {
            None => return false,
            Some(0) => return true,
            Some(chosen) => {
                at = chosen;
                if let Some(skill) = skills.all().nth(chosen - 1)
                    && !disabled.remove(&skill.name)
                {
                    disabled.insert(skill.name.clone());
                }
            }
        }
    }
}

fn print(output: &Console, skills: &SkillSet, disabled: &BTreeSet<String>) {
    for skill in skills.all() {
        output.line(&row(&skill.category, &skill.name, disabled));
    }
    output.line("\nTo change it: --disable NAME, --enable NAME, --platform PLATFORM");
}

fn row(category: &str, name: &str, disabled: &BTreeSet<String>) -> String {
    let mark = if disabled.contains(name) { ' ' } else { 'x' };
    format!("[{mark}] {category}/{name}")
}
