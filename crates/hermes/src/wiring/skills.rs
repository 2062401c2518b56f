//! Skills as commands.

use std::collections::BTreeMap;

use hermes_config::{Config, Env, Home};
use hermes_gateway::slash::{self, CommandSurface};
use hermes_knowledge::{
    LEARN, PLAN, PreloadedSkills, SkillFilter, SkillGroup, SkillSet, SkillUse, invoke_text,
};
use hermes_types::CivilTime;

const LONGEST_SLUG: usize = 48;
const MAX_WORDS: usize = 8;

/// The current skills of a home, by command name.
pub(crate) struct SkillCommands {
    skills: SkillSet,
    home: Home,
}

impl SkillCommands {
    pub(crate) fn for_platform(home: &Home, config: &Config, env: &Env, platform: &str) -> Self {
        let filter = SkillFilter::from_config(config, env, platform).for_use(SkillUse::Command);
        Self { skills: SkillSet::load(home, config, env, &filter), home: home.clone() }
    }

    /// Returns the text the model gets when a skill is called; `None` if there is no skill of this name.
    pub(crate) fn invoke(&self, name: &str, request: &str, now: CivilTime) -> Option<String> {
        if name == "learn" {
            return Some(match request.trim() {
                "" => LEARN.trim().to_owned(),
                what => format!("{}\n\nThe user said with it: {what}", LEARN.trim()),
            });
        }
        if name != "plan" {
            if let Some(group) = SkillGroup::find(&self.home, name) {
                return Some(group.invoke(&self.skills, request));
            }
            return self.skills.invoke(name, request, None);
        }
        let note = format!("write the plan to {}", plan_file(request, now));
        let own = self.skills.invoke(name, request, Some(&note));
        Some(own.unwrap_or_else(|| invoke_text(name, PLAN, request, Some(&note))))
    }

    /// Renders skills for a whole session, or returns the names that no skill has.
    pub(crate) fn preload(&self, identifiers: &[String]) -> Result<PreloadedSkills, Vec<String>> {
        self.skills.preload(identifiers)
    }

    /// Returns the names of the skills that are offered, by category.
    pub(crate) fn names_by_category(&self) -> BTreeMap<String, Vec<String>> {
        let mut names: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for skill in self.skills.skills() {
            names.entry(skill.category.clone()).or_default().push(skill.name.clone());
        }
        names
    }

    /// Lists the commands that reach a skill. A built-in command takes precedence over a skill of its name.
    pub(crate) fn commands(&self, surface: CommandSurface) -> Vec<(String, String)> {
        let mut commands: Vec<(String, String)> =
            SkillGroup::all(&self.home).into_iter().map(|group| (group.name, group.description)).collect();
        commands.extend(self.skills.commands());
        commands.retain(|(name, _)| slash::find(name, surface).is_none());
        commands
    }
}

fn plan_file(request: &str, now: CivilTime) -> String {
    let CivilTime { year, month, day, hour, minute, second, .. } = now;
    let name = slug(request);
    format!(".hermes/plans/{year:04}-{month:02}-{day:02}_{hour:02}{minute:02}{second:02}-{name}.md")
}

fn slug(request: &str) -> String {
    let words = request.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    let joined = words.take(MAX_WORDS).map(str::to_lowercase).collect::<Vec<_>>().join("-");
    let short: String = joined.chars().take(LONGEST_SLUG).collect();
    match short.trim_matches('-') {
        "" => "conversation-plan".to_owned(),
        slug => slug.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_is_named_after_what_is_asked() {
        assert_eq!(slug("Move the API: to v2, please!"), "move-the-api-to-v2-please");
        assert_eq!(slug("  …"), "conversation-plan");
        assert_eq!(
            slug("one two three four five six seven eight nine"),
            "one-two-three-four-five-six-seven-eight"
        );
        assert_eq!(slug(&"word".repeat(20)).len(), LONGEST_SLUG);
        assert_eq!(slug("Größe ändern"), "größe-ändern");
    }
}
