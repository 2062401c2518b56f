//! `/reasoning`: sets how much the model reasons, or whether that is shown.

use hermes_config::yaml::YamlValue;
use hermes_types::ReasoningEffort;

use super::{CommandReply, SessionChange, save_setting};
use crate::context::ProgramContext;

pub(super) fn run(level: &str, current: Option<ReasoningEffort>, context: &ProgramContext) -> CommandReply {
    let shown = match level {
        "" => {
            let effort = current.map_or("medium (the default)", ReasoningEffort::as_str);
            return CommandReply::text(format!("🧠 Reasoning effort: {effort}"));
        }
        "show" | "on" => true,
        "hide" | "off" => false,
        level => return set_effort(level, context),
    };
    let text = if shown { "🧠 Reasoning is shown." } else { "🧠 Reasoning is hidden." };
    CommandReply::text(text).changing(SessionChange::ShowReasoning(shown)).saved(save_setting(
        context,
        "display.show_reasoning",
        YamlValue::Bool(shown),
    ))
}

fn set_effort(level: &str, context: &ProgramContext) -> CommandReply {
    let Some(effort) = ReasoningEffort::parse(level) else {
        return CommandReply::text("Usage: /reasoning [none|minimal|low|medium|high|xhigh|show|hide]");
    };
    let value = YamlValue::Str(effort.as_str().to_owned());
    CommandReply::text(format!("🧠 Reasoning effort: {}", effort.as_str()))
        .changing(SessionChange::Effort(effort))
        .saved(save_setting(context, "agent.reasoning_effort", value))
}
