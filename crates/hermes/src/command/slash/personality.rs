//! `/personality`: lists personalities, or switches to one.

use hermes_config::yaml::YamlValue;
use hermes_config::{Config, set};
use hermes_knowledge::{Personality, personality, personality_names};

use super::{CommandReply, SessionChange, save_setting};
use crate::context::ProgramContext;

const KEY: &str = "agent.system_prompt";

pub(super) fn run(name: &str, context: &ProgramContext, config: &Config) -> CommandReply {
    let names = personality_names(config);
    if name.is_empty() {
        return CommandReply::emphasized(format!(
            "🎭 **Personalities**\n{names}, none\n\n`/personality NAME` puts one on."
        ));
    }
    let (prompt, saved) = match personality(name, config) {
        None => return CommandReply::text(format!("Unknown personality '{name}'. There are: {names}")),
        Some(Personality::Plain) => (None, remove(context)),
        Some(Personality::Prompt(text)) => {
            (Some(text.clone()), save_setting(context, KEY, YamlValue::Str(text)))
        }
    };
    CommandReply::emphasized(format!("🎭 Personality set to **{name}**"))
        .changing(SessionChange::SystemPrompt(prompt))
        .saved(saved)
}

fn remove(context: &ProgramContext) -> hermes_config::Result<()> {
    match set::unset(&context.home, &context.env, KEY) {
        // A value that was not set before is already in the wanted state.
        Ok(_) | Err(hermes_config::Error::NotSet { .. }) => Ok(()),
        Err(error) => Err(error),
    }
}
