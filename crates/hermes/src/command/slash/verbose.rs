//! `/verbose`: cycles how much of tool calls is shown: off, new, all, verbose, then off again.

use hermes_config::settings::ToolProgress;
use hermes_config::yaml::YamlValue;

use super::{CommandReply, SessionChange, save_setting};
use crate::context::ProgramContext;

pub(super) fn run(current: Option<ToolProgress>, context: &ProgramContext) -> CommandReply {
    let (next, name) = match current {
        None => {
            return CommandReply::text(
                "/verbose is turned off (`display.tool_progress_command` in config.yaml).",
            );
        }
        Some(ToolProgress::Off) => (ToolProgress::New, "new"),
        Some(ToolProgress::New) => (ToolProgress::All, "all"),
        Some(ToolProgress::All) => (ToolProgress::Verbose, "verbose"),
        Some(ToolProgress::Verbose) => (ToolProgress::Off, "off"),
    };
    CommandReply::text(format!("Tool progress: {name}"))
        .changing(SessionChange::ToolProgress(next))
        .saved(save_setting(context, "display.tool_progress", YamlValue::Str(name.to_owned())))
}
