//! Personalities that a user can switch on and off. They never enter the stored prompt.

use hermes_config::Config;
use hermes_config::yaml::YamlValue;

const TEXTS: &str = include_str!("texts/personalities.txt");

/// The built-in names, in the order in which they are listed.
pub use hermes_config::keys::PERSONALITIES as BUILT_IN;

/// The meaning of a personality name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Personality {
    /// The prompt text for the model.
    Prompt(String),
    /// No personality.
    Plain,
}

/// The configuration keys under which users define personalities.
const OWN: [&str; 2] = ["agent.personalities", "personalities"];

/// Lists all names for people to choose from, the user's own first.
pub fn personality_names(config: &Config) -> String {
    let mut names: Vec<String> = Vec::new();
    let own = OWN.iter().flat_map(|key| {
        let map = config.map(key);
        map.iter().map(|(name, _)| name.to_owned()).collect::<Vec<_>>()
    });
    for name in own.chain(BUILT_IN.iter().map(|name| (*name).to_owned())) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names.join(", ")
}

/// Looks up a name, first in the user's definitions, then in the built-in ones.
pub fn personality(name: &str, config: &Config) -> Option<Personality> {
    let name = name.trim().to_lowercase();
    if matches!(name.as_str(), "none" | "default" | "neutral") {
        return Some(Personality::Plain);
    }
    let own = OWN.iter().find_map(|key| {
        let map = config.map(key);
        map.iter()
            .find(|(known, _)| known.eq_ignore_ascii_case(&name))
            .and_then(|(_, value)| prompt_text(value))
    });
    own.or_else(|| built_in(&name)).map(Personality::Prompt)
}

fn built_in(name: &str) -> Option<String> {
    TEXTS
        .lines()
        .filter_map(|line| line.split_once(": "))
        .find_map(|(known, text)| (known == name).then(|| text.to_owned()))
}

/// Returns the prompt of a definition, which is a text or a map with a prompt, a tone and a style.
fn prompt_text(value: &YamlValue) -> Option<String> {
    if let Some(text) = value.as_str() {
        return Some(text.to_owned());
    }
    let field = |name: &str| value.get(name).and_then(YamlValue::as_str).map(str::to_owned);
    let prompt = field("system_prompt").or_else(|| field("description"))?;
    let tone = field("tone").map(|tone| format!("Tone: {tone}"));
    let style = field("style").map(|style| format!("Style: {style}"));
    Some([Some(prompt), tone, style].into_iter().flatten().collect::<Vec<_>>().join("\n"))
}
