//! Finds skills that say what a new one is about to say.

use std::collections::BTreeSet;

use crate::skills::front_matter::{SkillDocument, bounded_text};
use crate::skills::{Skill, SkillSet, SkillStatus};

/// The share of common words from which two texts count as the same.
const SAME_DESCRIPTION: f64 = 0.6;
const SAME_CONTENT: f64 = 0.55;
/// The share of common words in descriptions from which contents are compared.
const RELATED: f64 = 0.15;
/// The most skills whose contents are compared.
const MAX_COMPARED: usize = 40;
const COMPARED_CHARS: usize = 20_000;
const MAX_SIMILAR: usize = 5;

/// A skill that resembles another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SimilarSkill {
    pub name: String,
    pub description: String,
    /// What is the same: `name`, `description` or `content`.
    pub same: &'static str,
}

impl SkillSet {
    /// Returns the skills that a new one with this name and text would repeat.
    pub fn similar(&self, name: &str, content: &str) -> Vec<SimilarSkill> {
        let document = SkillDocument::parse(content);
        let own_name = document.text("name").unwrap_or_default();
        let description = words(&document.text("description").unwrap_or_default());
        let mut compared: Vec<(f64, &Skill)> = Vec::new();
        let mut similar = Vec::new();
        let add = |skill: &Skill, same| SimilarSkill {
            name: skill.name.clone(),
            description: skill.list_description(),
            same,
        };
        for skill in self.all().filter(|skill| skill.status != SkillStatus::Shadowed) {
            let likeness = likeness(&description, &words(&skill.list_description()));
            let is_named_alike = [name, own_name.as_str()]
                .iter()
                .any(|given| plain(given) == plain(&skill.name) || plain(given) == plain(&skill.own_name));
            if is_named_alike {
                similar.push(add(skill, "name"));
            } else if likeness >= SAME_DESCRIPTION {
                similar.push(add(skill, "description"));
            } else if likeness >= RELATED {
                compared.push((likeness, skill));
            }
        }
        compared.sort_by(|a, b| b.0.total_cmp(&a.0));
        let body = words(&document.body);
        for (_, skill) in compared.into_iter().take(MAX_COMPARED) {
            let other = bounded_text(&skill.folder.join("SKILL.md"), COMPARED_CHARS).unwrap_or_default();
            if likeness(&body, &words(&SkillDocument::parse(&other).body)) >= SAME_CONTENT {
                similar.push(add(skill, "content"));
            }
        }
        similar.truncate(MAX_SIMILAR);
        similar
    }
}

/// Returns a name without what separates its words.
fn plain(name: &str) -> String {
    name.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}

fn words(text: &str) -> BTreeSet<String> {
    let words = text.split(|c: char| !c.is_alphanumeric()).filter(|word| word.chars().count() > 2);
    words.map(str::to_lowercase).collect()
}

/// Returns the share of words that two texts have in common. Texts of few words resemble nothing.
fn likeness(a: &BTreeSet<String>, b: &BTreeSet<String>) -> f64 {
    if a.len().min(b.len()) < 3 {
        return 0.0;
    }
    #[expect(clippy::cast_precision_loss, reason = "numbers of words")]
    let share = a.intersection(b).count() as f64 / a.union(b).count() as f64;
    share
}
