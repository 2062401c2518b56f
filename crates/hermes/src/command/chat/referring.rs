//! A typed message with what it points at.

use anyhow::Result;
use hermes_agent::{Agent, Conversation, Said};
use hermes_config::Config;
use hermes_tools::Referred;
use hermes_types::Cancel;

use crate::context::Context;
use crate::wiring::{references, working_folder};

pub(crate) enum Referring {
    Said {
        said: Said,
        /// How much was attached, if anything.
        status: Option<String>,
    },
    /// Why it was not said.
    TooMuch(String),
}

pub(crate) async fn with_references(
    text: String,
    agent: &Agent,
    conversation: &Conversation,
    context: &Context,
    config: &Config,
) -> Result<Referring> {
    // Most messages point at nothing; then nothing is looked up, the folder least of all.
    if !text.contains('@') {
        return Ok(Referring::Said { said: Said::text(text), status: None });
    }
    let references = references(working_folder(context, config)?, context, config, agent.clock.clone())?;
    Ok(match references.attach(&text, agent.window(conversation), &Cancel::new()).await {
        Referred::Nothing => Referring::Said { said: Said::text(text), status: None },
        Referred::Attached { text, status } => {
            Referring::Said { said: Said::text(text), status: Some(status) }
        }
        Referred::TooMuch(words) => Referring::TooMuch(words),
    })
}
