//! `/profile`: the profile in use, and the others.

use super::CommandReply;
use crate::command;
use crate::context::ProgramContext;

pub(super) fn run(context: &ProgramContext) -> CommandReply {
    match command::profile::describe(context) {
        Ok(text) => CommandReply::text(text),
        Err(error) => CommandReply::text(format!("⚠️ {error:#}")),
    }
}
