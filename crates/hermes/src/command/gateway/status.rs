//! The state of the gateway from outside: its service, process, health and queues.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Result, bail};
use hermes_config::Home;
use hermes_gateway::process;
use hermes_store::{QueueDepth, Store};
use hermes_types::Timestamp;
use rustix::process::Signal;
use serde_json::Value;

use super::service::{self, ReportWidth, ServiceResult};
use crate::cli::GatewayStatusArguments;
use crate::context::{ProgramContext, now};
use crate::output::Console;

const LOG_LINES: usize = 20;

pub(crate) fn show(
    arguments: &GatewayStatusArguments,
    context: &ProgramContext,
    output: &Console,
) -> Result<ExitCode> {
    if let Some(platform) = &arguments.platform {
        return show_platform(platform, context, output);
    }
    let width = if arguments.full { ReportWidth::Full } else { ReportWidth::Terminal };
    let (served, home) = service::report(arguments.system.into(), width, context, output)?;
    let running = process::running_pid(&home);
    match running {
        Some(pid) => output.line(&format!("✓ Gateway is running (PID: {pid})")),
        None if served == ServiceResult::Done => output.line("✗ Gateway is not running"),
        None => {
            output.line("✗ Gateway is not running");
            output.line("  hermes gateway run      run it in the foreground");
            output.line("  hermes gateway install  install it as a service");
        }
    }
    health(&home, output);
    if is_ours(&home.state_db()) {
        queues(&ProgramContext { home: home.clone(), env: context.env.clone() }, output)?;
    }
    if arguments.deep {
        let text = std::fs::read_to_string(home.gateway_log()).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        output.line("\nRecent log:");
        for line in lines.iter().skip(lines.len().saturating_sub(LOG_LINES)) {
            output.line(&format!("  {line}"));
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Prints the connection of one platform.
fn show_platform(platform: &str, context: &ProgramContext, output: &Console) -> Result<ExitCode> {
    let name = platform.to_lowercase();
    let is_server = ["api_server", "webhook"].contains(&name.as_str());
    if !is_server && !hermes_channels::PLATFORMS.iter().any(|known| known.name == name) {
        bail!(
            "`{platform}` is not a platform that this release has; `hermes gateway setup` lists those it has"
        );
    }
    let running = process::running_pid(&context.home);
    let state = running.and_then(|_| read_state(&context.home)).unwrap_or_default();
    match state.get("platforms").and_then(|platforms| platforms.get(&name)) {
        Some(found) => output.line(platform_line(&name, found).trim_start()),
        None if running.is_some() => output.line(&format!("✗ {name}: not set up")),
        None => output.line(&format!("✗ {name}: the gateway is not running")),
    }
    Ok(ExitCode::SUCCESS)
}

/// Reads the state the last process wrote.
fn read_state(home: &Home) -> Option<Value> {
    let text = std::fs::read_to_string(home.gateway_state()).ok()?;
    serde_json::from_str(&text).ok()
}

fn platform_line(name: &str, platform: &Value) -> String {
    let text = |key: &str| platform.get(key).and_then(Value::as_str).unwrap_or_default();
    match (text("error_message"), text("state")) {
        ("", "connected") => format!("  ✓ {name}: connected"),
        ("", state) => format!("  ✗ {name}: {state}"),
        (error, _) => format!("  ⚠ {name}: {error}"),
    }
}

/// Prints the state the last process wrote.
fn health(home: &Home, output: &Console) {
    let lines = health_lines(home);
    if !lines.is_empty() {
        output.line("\nRecent gateway health:");
        for line in &lines {
            output.line(line);
        }
    }
}

/// Describes the state the last process wrote, platform by platform.
pub(crate) fn health_lines(home: &Home) -> Vec<String> {
    let mut lines = Vec::new();
    let Some(state) = read_state(home) else { return lines };
    for (name, platform) in state.get("platforms").and_then(Value::as_object).into_iter().flatten() {
        lines.push(platform_line(name, platform));
    }
    let phase = state.get("gateway_state").and_then(Value::as_str).unwrap_or_default();
    if let Some(reason) = state.get("exit_reason").and_then(Value::as_str) {
        let what = if phase == "startup_failed" { "Last startup issue" } else { "Last shutdown reason" };
        lines.push(format!("  ⚠ {what}: {reason}"));
    }
    lines
}

/// Tells whether a file exists and belongs to this user. If root opened another user's database, SQLite would
/// create files beside it that the owner cannot write.
fn is_ours(file: &Path) -> bool {
    std::fs::metadata(file).is_ok_and(|found| found.uid() == rustix::process::geteuid().as_raw())
}

fn queues(context: &ProgramContext, output: &Console) -> Result<()> {
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

/// Tells the gateway to finish its running turns, accept no new ones, and then stop.
pub(crate) fn drain(context: &ProgramContext, output: &Console) -> ExitCode {
    let Some(pid) = process::signal_running(&context.home, Signal::USR1) else {
        output.line("✗ Gateway is not running");
        return ExitCode::SUCCESS;
    };
    output.line(&format!("The gateway (PID {pid}) takes no new turns and ends when the running ones have."));
    ExitCode::SUCCESS
}
