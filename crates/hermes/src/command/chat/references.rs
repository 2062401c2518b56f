//! Expands the `@` references of a typed message.

use anyhow::Result;
use hermes_agent::{Agent, Conversation, TurnInput};
use hermes_config::Config;
use hermes_tools::ReferenceResult;
use hermes_types::Cancel;

use crate::context::ProgramContext;
use crate::wiring::{references, working_folder};

pub(crate) enum ReferenceOutcome {
    Resolved {
        input: TurnInput,
        /// A line that says how much was attached, if anything was.
        status: Option<String>,
    },
    /// The reason why the message was not sent.
    TooLarge(String),
}

pub(crate) async fn with_references(
    text: String,
    agent: &Agent,
    conversation: &Conversation,
    context: &ProgramContext,
    config: &Config,
) -> Result<ReferenceOutcome> {
    // Most messages have no reference; then nothing is looked up, not even the working folder.
    if !text.contains('@') {
        return Ok(ReferenceOutcome::Resolved { input: TurnInput::text(text), status: None });
    }
    let references = references(working_folder(context, config)?, context, config, agent.clock().clone())?;
    Ok(match references.attach(&text, agent.window(conversation), &Cancel::new()).await {
        ReferenceResult::NoReferences => {
            ReferenceOutcome::Resolved { input: TurnInput::text(text), status: None }
        }
        ReferenceResult::Attached { text, status } => {
            ReferenceOutcome::Resolved { input: TurnInput::text(text), status: Some(status) }
        }
        ReferenceResult::TooLarge(words) => ReferenceOutcome::TooLarge(words),
    })
}
