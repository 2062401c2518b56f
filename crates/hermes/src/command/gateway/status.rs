//! Looking at the gateway from outside, and ending it.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use hermes_gateway::process;
use hermes_store::{QueueDepth, Store};
use hermes_task::SystemClock;
use hermes_types::{Clock, Timestamp};
use rustix::process::Signal;
use serde_json::Value;

use crate::context::{Context, now};
use crate::output::Output;

const LOOK_EVERY: Duration = Duration::from_millis(100);
/// How long a gateway gets to end before it is said that it does not.
const ENDS_WITHIN: Duration = Duration::from_mins(1);
const LOG_LINES: usize = 20;

pub(crate) fn show(deep: bool, context: &Context, output: &Output) -> Result<ExitCode> {
    let running = process::running(&context.home);
    match running {
        Some(pid) => output.line(&format!("✓ Gateway is running (PID: {pid})")),
        None => {
            output.line("✗ Gateway is not running");
            output.line("  hermes gateway run      run it in the foreground");
            output.line("  hermes gateway install  install it as a service");
        }
    }
    health(context, output);
    queues(context, output)?;
    if deep {
        let text = std::fs::read_to_string(context.home.gateway_log()).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        output.line("\nRecent log:");
        for line in lines.iter().skip(lines.len().saturating_sub(LOG_LINES)) {
            output.line(&format!("  {line}"));
        }
    }
    Ok(if running.is_some() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// What the last process wrote about itself.
fn health(context: &Context, output: &Output) {
    let Ok(text) = std::fs::read_to_string(context.home.join("gateway_state.json")) else { return };
    let Ok(state) = serde_json::from_str::<Value>(&text) else { return };
    let mut lines = Vec::new();
    for (name, platform) in state.get("platforms").and_then(Value::as_object).into_iter().flatten() {
        let text = |key: &str| platform.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
        match text("error_message").as_str() {
            "" => lines.push(format!("  ✓ {name}: {}", text("state"))),
            error => lines.push(format!("  ⚠ {name}: {error}")),
        }
    }
    let phase = state.get("gateway_state").and_then(Value::as_str).unwrap_or_default();
    if let Some(reason) = state.get("exit_reason").and_then(Value::as_str) {
        let what = if phase == "startup_failed" { "Last startup issue" } else { "Last shutdown reason" };
        lines.push(format!("  ⚠ {what}: {reason}"));
    }
    if !lines.is_empty() {
        output.line("\nRecent gateway health:");
        lines.iter().for_each(|line| output.line(line));
    }
}

fn queues(context: &Context, output: &Output) -> Result<()> {
    if !context.database().exists() {
        return Ok(());
    }
    let store: Store = context.store(output)?;
    let (inbox, outbox) = (store.inbox_depth().wait()?, store.outbox_depth().wait()?);
    let now = now();
    output.line(&format!("\nWaiting to be answered: {}", depth(inbox, now)));
    output.line(&format!("Waiting to be sent:     {}", depth(outbox, now)));
    store.close().wait()?;
    Ok(())
}

fn depth(depth: QueueDepth, now: Timestamp) -> String {
    match depth.oldest {
        Some(oldest) if depth.waiting > 0 => {
            format!("{}, the oldest for {} s", depth.waiting, now.since(oldest).as_secs())
        }
        _ => "nothing".to_owned(),
    }
}

pub(crate) fn stop(context: &Context, output: &Output) -> Result<ExitCode> {
    let Some(pid) = process::signal_running(&context.home, Signal::TERM) else {
        output.line("✗ No gateway processes found");
        return Ok(ExitCode::SUCCESS);
    };
    if !ended(context) {
        output.error(&format!("the gateway (PID {pid}) does not end; `kill -9 {pid}` ends it, nothing that was acknowledged is lost"));
        return Ok(ExitCode::FAILURE);
    }
    output.line("✓ Stopped 1 gateway process(es)");
    Ok(ExitCode::SUCCESS)
}

/// Lets what is being done come to its end, takes nothing new, then stops.
pub(crate) fn drain(context: &Context, output: &Output) -> Result<ExitCode> {
    let Some(pid) = process::signal_running(&context.home, Signal::USR1) else {
        output.line("✗ Gateway is not running");
        return Ok(ExitCode::FAILURE);
    };
    output.line(&format!("The gateway (PID {pid}) takes no new turns and ends when the running ones have."));
    Ok(ExitCode::SUCCESS)
}

fn ended(context: &Context) -> bool {
    let clock = SystemClock::new();
    let began = clock.monotonic();
    while process::running(&context.home).is_some() {
        if clock.monotonic().saturating_sub(began) > ENDS_WITHIN {
            return false;
        }
        std::thread::sleep(LOOK_EVERY);
    }
    true
}
