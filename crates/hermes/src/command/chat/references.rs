//! A typed message with what it points at.

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
        /// How much was attached, if anything.
        status: Option<String>,
    },
    /// Why it was not said.
    TooLarge(String),
}

pub(crate) async fn with_references(
    text: String,
    agent: &Agent,
    conversation: &Conversation,
    context: &ProgramContext,
    config: &Config,
) -> Result<ReferenceOutcome> {
    // Most messages point at nothing; then nothing is looked up, the folder least of all.
    if !text.contains('@') {
        return Ok(ReferenceOutcome::Resolved { input: TurnInput::text(text), status: None });
    }
    let references = references(working_folder(context, config)?, context, config, agent.clock.clone())?;
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
