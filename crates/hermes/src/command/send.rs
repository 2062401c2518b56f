//! `hermes send`: a message to a chat, from the shell. It leaves through the gateway that runs.

use std::io::Read as _;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context as _, Result, bail};
use hermes_agent::Agent;
use hermes_config::Env;
use hermes_gateway::{Agents, Gateway, Live, NoServices, NoWatchers, Ports, Wish, process};
use hermes_task::SystemClock;
use hermes_types::{Cancel, Clock, Courier as _};

use crate::context::{Context, local_time};
use crate::output::Output;

/// Nobody is asked for a turn here.
struct NoAgents;

impl Agents for NoAgents {
    fn agent(&self, _: &Wish<'_>) -> Result<Agent, String> {
        Err("no turns are run here".to_owned())
    }
}

pub(crate) fn run(
    target: Option<&str>,
    words: &[String],
    context: &Context,
    output: &Output,
) -> Result<ExitCode> {
    let store = context.store(output)?;
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let live = Live::new(context.home.clone(), Env::process(), context.home.path().to_owned());
    let ports =
        Ports { agents: Arc::new(NoAgents), services: Arc::new(NoServices), watchers: Arc::new(NoWatchers) };
    let gateway = Gateway::new(store.clone(), clock, Arc::new(local_time), live, ports, &Cancel::new());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("no runtime")?;
    let Some(target) = target else {
        let targets = runtime.block_on(gateway.targets());
        if targets.is_empty() {
            output.line("No chats are known yet. A chat is known once somebody has written in it.");
        }
        for line in &targets {
            output.line(line);
        }
        return Ok(ExitCode::SUCCESS);
    };
    let text = message(words)?;
    if process::running(&context.home).is_none() {
        bail!("the gateway is not running, so nothing can be sent; `hermes gateway run` starts it");
    }
    let sent = runtime.block_on(gateway.deliver(target, &text));
    store.close().wait()?;
    match sent {
        Ok(sent) if sent.receipt.message_ids.is_empty() => {
            output.line(&format!(
                "Queued for {}:{}; it leaves when the platform takes it.",
                sent.platform, sent.chat_id
            ));
            Ok(ExitCode::SUCCESS)
        }
        Ok(sent) => {
            output.line(&format!("✓ Sent to {}:{}", sent.platform, sent.chat_id));
            Ok(ExitCode::SUCCESS)
        }
        Err(error) => {
            output.error(&error.to_string());
            Ok(ExitCode::FAILURE)
        }
    }
}

fn message(words: &[String]) -> Result<String> {
    let mut text = words.join(" ");
    if text.is_empty() || text == "-" {
        text.clear();
        std::io::stdin().read_to_string(&mut text).context("standard input is not text")?;
    }
    match text.trim() {
        "" => bail!("there is nothing to send"),
        text => Ok(text.to_owned()),
    }
}
