//! `hermes send`: sends a message to a chat. The gateway sends it if one runs, else this process does.

use std::io::Read as _;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context as _, Result, bail};
use hermes_config::Env;
use hermes_gateway::{LiveSettings, NoServices, process};
use hermes_task::SystemClock;
use hermes_types::{ChannelError, Clock, MessageSender as _, SendOutcome};
use serde_json::json;

use crate::cli::SendArguments;
use crate::context::ProgramContext;
use crate::output::Console;
use crate::wiring::temporary_delivery::OutboxMessageSender;

pub(crate) fn run(arguments: &SendArguments, context: &ProgramContext, output: &Console) -> Result<ExitCode> {
    context.usable_config(output)?;
    let (target, words) = match (&arguments.to, arguments.words.split_first()) {
        (Some(target), _) => (Some(target.as_str()), arguments.words.as_slice()),
        (None, Some((target, words))) => (Some(target.as_str()), words),
        (None, None) => (None, [].as_slice()),
    };
    let store = context.store(output)?;
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let live = LiveSettings::new(context.home.clone(), Env::process(), context.home.path().to_owned());
    let messenger = OutboxMessageSender::new(live, store.clone(), clock, Arc::new(NoServices));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("no runtime")?;
    let Some(target) = target.filter(|_| !arguments.list) else {
        list(&runtime.block_on(messenger.targets()), arguments.json, output);
        return Ok(ExitCode::SUCCESS);
    };
    let text = message(arguments, words)?;
    let sent = runtime.block_on(messenger.deliver(target, &text, None));
    store.close().wait()?;
    let report = SendReport { arguments, context, output };
    Ok(match sent {
        Ok(sent) => report.sent(&sent),
        // Without an attempt, no platform has refused anything.
        Err(ChannelError::Refused(reason)) => report.failed(&reason),
        Err(error) => report.failed(&error.to_string()),
    })
}

fn list(targets: &[String], as_json: bool, output: &Console) {
    if as_json {
        return output.line(&json!({"targets": targets}).to_string());
    }
    if targets.is_empty() {
        output.line("No known chats. A chat becomes known with its first message.");
    }
    for line in targets {
        output.line(line);
    }
}

/// Reports the result.
struct SendReport<'a> {
    arguments: &'a SendArguments,
    context: &'a ProgramContext,
    output: &'a Console,
}

impl SendReport<'_> {
    fn sent(&self, sent: &SendOutcome) -> ExitCode {
        let queued = sent.receipt.message_ids.is_empty();
        if self.arguments.json {
            let result = json!({
                "success": true,
                "queued": queued,
                "platform": sent.platform,
                "chat_id": sent.chat_id,
                "message_ids": sent.receipt.message_ids,
                "note": sent.note,
            });
            self.output.line(&result.to_string());
        } else if queued {
            let when = match process::running_pid(&self.context.home) {
                Some(_) => "when the platform takes it",
                None => "when a gateway runs (`hermes gateway run`) and the platform takes it",
            };
            self.output.line(&format!("Queued for {}:{}; it leaves {when}.", sent.platform, sent.chat_id));
            if let Some(why) = &sent.note {
                self.output.notice(why);
            }
        } else if !self.arguments.quiet {
            self.output.line(&format!("✓ Sent to {}:{}", sent.platform, sent.chat_id));
        }
        ExitCode::SUCCESS
    }

    fn failed(&self, reason: &str) -> ExitCode {
        if self.arguments.json {
            self.output.line(&json!({"success": false, "error": reason}).to_string());
        } else {
            self.output.error(reason);
        }
        ExitCode::FAILURE
    }
}

fn message(arguments: &SendArguments, words: &[String]) -> Result<String> {
    let mut text = match &arguments.file {
        Some(_) if !words.is_empty() => bail!("give a message or --file, not both"),
        Some(path) => {
            std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?
        }
        None => words.join(" "),
    };
    if text.is_empty() || text == "-" {
        text.clear();
        std::io::stdin().read_to_string(&mut text).context("standard input is not text")?;
    }
    let text = text.trim();
    if text.is_empty() {
        bail!("there is nothing to send");
    }
    Ok(match arguments.subject.as_deref().map(str::trim).filter(|subject| !subject.is_empty()) {
        Some(subject) => format!("{subject}\n\n{text}"),
        None => text.to_owned(),
    })
}
