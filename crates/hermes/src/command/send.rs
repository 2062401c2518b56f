//! `hermes send`: a message to a chat, from the shell. It leaves through the gateway where one runs, else from here.

use std::io::Read as _;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context as _, Result, bail};
use hermes_config::Env;
use hermes_gateway::{Live, process};
use hermes_task::SystemClock;
use hermes_types::{ChannelError, Clock, Courier as _};

use crate::context::Context;
use crate::output::Output;
use crate::wiring::stand_in::Messenger;

pub(crate) fn run(
    target: Option<&str>,
    words: &[String],
    context: &Context,
    output: &Output,
) -> Result<ExitCode> {
    let store = context.store(output)?;
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let live = Live::new(context.home.clone(), Env::process(), context.home.path().to_owned());
    let messenger = Messenger::new(live, store.clone(), clock);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("no runtime")?;
    let Some(target) = target else {
        let targets = runtime.block_on(messenger.targets());
        if targets.is_empty() {
            output.line("No chats are known yet. A chat is known once somebody has written in it.");
        }
        for line in &targets {
            output.line(line);
        }
        return Ok(ExitCode::SUCCESS);
    };
    let text = message(words)?;
    let sent = runtime.block_on(messenger.deliver(target, &text));
    store.close().wait()?;
    match sent {
        Ok(sent) if sent.receipt.message_ids.is_empty() => {
            let when = match process::running(&context.home) {
                Some(_) => "when the platform takes it",
                None => "when a gateway runs (`hermes gateway run`) and the platform takes it",
            };
            output.line(&format!("Queued for {}:{}; it leaves {when}.", sent.platform, sent.chat_id));
            if let Some(why) = &sent.note {
                output.notice(why);
            }
            Ok(ExitCode::SUCCESS)
        }
        Ok(sent) => {
            output.line(&format!("✓ Sent to {}:{}", sent.platform, sent.chat_id));
            Ok(ExitCode::SUCCESS)
        }
        // Where it was never tried, no platform has refused anything.
        Err(ChannelError::Refused(reason)) => {
            output.error(&reason);
            Ok(ExitCode::FAILURE)
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
