//! `/model`: shows the model, or chooses another.

use hermes_config::Config;

use super::{CommandReply, SessionChange};
use crate::command;
use crate::context::ProgramContext;

/// Runs on its own thread, because it may wait for the network.
pub(super) async fn run(arguments: &str, context: ProgramContext, config: Config) -> CommandReply {
    let wanted = Some(arguments.to_owned()).filter(|wanted| !wanted.is_empty());
    let chooses = wanted.is_some();
    let (answer, done) = tokio::sync::oneshot::channel();
    let started = std::thread::Builder::new().name("model".to_owned()).spawn(move || {
        // There is no receiver any more when the program ends.
        let _ = answer.send(command::model::answer(wanted.as_deref(), None, &context, config));
    });
    if let Err(error) = started {
        return CommandReply::text(format!("⚠️ {error}"));
    }
    let text = match done.await {
        Ok(Ok(lines)) => lines.join("\n"),
        Ok(Err(error)) => format!("⚠️ {error:#}"),
        Err(_) => "⚠️ The choice ended without an answer.".to_owned(),
    };
    let reply = CommandReply::text(text);
    if chooses { reply.changing(SessionChange::Model) } else { reply }
}
