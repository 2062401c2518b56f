//! Fills in what depends on the home and the session when the text of a skill is shown to the model: variables, the
//! user's settings, the output of commands.
//!
//! Runs nothing: commands are found here and run by the caller.

use std::path::Path;

use hermes_config::Config;
use hermes_config::yaml::YamlValue;

use super::front_matter::scalar;
use super::hermes_data;

/// The most characters of a command's output that are filled in.
const MAX_OUTPUT: usize = 4_000;
/// The most commands of one text that are run.
const MAX_COMMANDS: usize = 20;

/// How texts of skills are filled in.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct SkillRendering {
    fills_variables: bool,
    runs_commands: bool,
    settings: YamlValue,
}

/// A setting that a skill asks for, with its present value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkillSetting {
    pub key: String,
    pub value: String,
    pub description: Option<String>,
}

impl SkillRendering {
    pub(crate) fn from_config(config: &Config) -> Self {
        Self {
            fills_variables: config.flag("skills.template_vars"),
            runs_commands: config.flag("skills.inline_shell"),
            settings: config.get("skills.config").unwrap_or(YamlValue::Null),
        }
    }

    /// Returns a text with its variables filled in. A session that is not known yet stays a variable.
    pub(crate) fn fill(&self, text: &str, folder: &Path, session: Option<&str>) -> String {
        if !self.fills_variables {
            return text.to_owned();
        }
        let filled = text.replace("${HERMES_SKILL_DIR}", &folder.to_string_lossy());
        match session {
            Some(session) => filled.replace("${HERMES_SESSION_ID}", session),
            None => filled,
        }
    }

    /// Returns the commands in a text that are to be run, in order.
    pub(crate) fn commands(&self, text: &str) -> Vec<String> {
        if !self.runs_commands {
            return Vec::new();
        }
        spans(text).into_iter().take(MAX_COMMANDS).map(|(_, _, command)| command).collect()
    }

    /// Returns the settings that the front matter of a skill names.
    pub(crate) fn settings(&self, data: &YamlValue) -> Vec<SkillSetting> {
        let entries = hermes_data(data).and_then(|own| own.get("config")).and_then(YamlValue::as_seq);
        let setting = |entry: &YamlValue| {
            let key = scalar(entry, "key")?;
            let set = self.settings.lookup(&key).or_else(|| self.settings.get(&key));
            let value = set.and_then(YamlValue::scalar_text).or_else(|| scalar(entry, "default"));
            Some(SkillSetting {
                value: value.unwrap_or_default(),
                description: scalar(entry, "description"),
                key,
            })
        };
        entries.unwrap_or_default().iter().filter_map(setting).collect()
    }
}

/// Returns a text with the outputs of its commands, in order, in their place. A command without an output stays.
pub fn fill_in_outputs(text: &str, outputs: &[String]) -> String {
    let mut filled = String::with_capacity(text.len());
    let mut rest = 0;
    for ((start, end, _), output) in spans(text).into_iter().zip(outputs) {
        filled.push_str(text.get(rest..start).unwrap_or_default());
        filled.push_str(hermes_text::head(output.trim_end(), MAX_OUTPUT));
        rest = end;
    }
    filled.push_str(text.get(rest..).unwrap_or_default());
    filled
}

/// Finds `` !`command` `` in a text: where it begins and ends, and the command.
fn spans(text: &str) -> Vec<(usize, usize, String)> {
    let mut found = Vec::new();
    let mut from = 0;
    while let Some(start) = text.get(from..).and_then(|rest| rest.find("!`")).map(|at| at + from) {
        let body = start + 2;
        let Some(length) = text.get(body..).and_then(|rest| rest.find('`')) else { break };
        let command = text.get(body..body + length).unwrap_or_default();
        if !command.trim().is_empty() && !command.contains('\n') {
            found.push((start, body + length + 1, command.trim().to_owned()));
        }
        from = body + length + 1;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_found_and_replaced_in_order() {
        let text = "On !`uname -s` with !`` and `!not` and !`date +%Y`.";
        let commands: Vec<String> = spans(text).into_iter().map(|(_, _, command)| command).collect();
        assert_eq!(commands, ["uname -s", "date +%Y"]);
        let outputs = ["Linux\n".to_owned(), "2026".to_owned()];
        assert_eq!(fill_in_outputs(text, &outputs), "On Linux with !`` and `!not` and 2026.");
        assert_eq!(fill_in_outputs(text, &outputs[..1]), "On Linux with !`` and `!not` and !`date +%Y`.");
        assert_eq!(fill_in_outputs("!`open", &outputs), "!`open");
        assert_eq!(fill_in_outputs("é!`a`é", &["ü".to_owned()]), "éüé");
    }
}
