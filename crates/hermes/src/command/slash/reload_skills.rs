//! `/reload-skills`: the skills as they are now, each of which is a command.

use hermes_config::Config;
use hermes_gateway::slash::CommandSurface;

use super::{CommandReply, SessionChange};
use crate::context::ProgramContext;
use crate::wiring::skills::SkillCommands;

pub(super) fn run(context: &ProgramContext, config: &Config, surface: CommandSurface) -> CommandReply {
    let platform = match surface {
        CommandSurface::Chat => "gateway",
        CommandSurface::Terminal => "cli",
    };
    let skills = SkillCommands::for_platform(&context.home, config, &context.env, platform);
    let commands = skills.commands(surface);
    let names: Vec<String> = commands.iter().map(|(name, _)| format!("/{name}")).collect();
    let text = match names.as_slice() {
        [] => "There are no skills. `hermes skills browse` shows those you can install.".to_owned(),
        [only] => format!("1 skill: {only}"),
        _ => format!("{} skills: {}", names.len(), names.join(", ")),
    };
    CommandReply::text(text).changing(SessionChange::Skills)
}
