//! `/platforms`: the gateway of this home, its platforms, and when chats begin a new session.

use hermes_config::Config;
use hermes_config::settings::{ResetMode, SessionResetSettings};
use hermes_gateway::process;

use super::CommandReply;
use crate::command;
use crate::context::ProgramContext;

pub(super) fn run(context: &ProgramContext, config: &Config) -> CommandReply {
    let mut lines = vec![match process::running_pid(&context.home) {
        Some(pid) => format!("Gateway: running (PID {pid})"),
        None => "Gateway: not running; `hermes gateway run` starts it".to_owned(),
    }];
    lines.extend(command::gateway::health_lines(&context.home));
    let reset = SessionResetSettings::resolve(config, &context.env);
    lines.push(match reset.mode {
        ResetMode::None => "New session: only with /new".to_owned(),
        ResetMode::Daily => format!("New session: each day at {}:00", reset.at_hour),
        ResetMode::Idle => format!("New session: after {} idle minutes", reset.idle_minutes),
        ResetMode::Both => {
            format!(
                "New session: each day at {}:00, and after {} idle minutes",
                reset.at_hour, reset.idle_minutes
            )
        }
    });
    CommandReply::text(lines.join("\n"))
}
