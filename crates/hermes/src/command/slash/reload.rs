//! `/reload`: config.yaml and .env take effect as they are now.

use hermes_config::{Config, Env};

use super::{CommandReply, SessionChange};
use crate::context::ProgramContext;

pub(super) fn run(context: &ProgramContext) -> CommandReply {
    let env = Env::process().with_files(&context.home, None);
    let config = Config::load(&context.home, &env);
    if let Err(error) = config.require_usable(&env) {
        return CommandReply::text(format!("⚠️ {error} Nothing was changed."));
    }
    let mut lines = vec!["config.yaml and .env take effect as they are now.".to_owned()];
    lines.extend(config.warnings().iter().map(|warning| format!("⚠️ {warning}")));
    CommandReply::text(lines.join("\n")).changing(SessionChange::Settings)
}
