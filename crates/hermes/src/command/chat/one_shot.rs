//! A single question: runs one turn and prints the answer.

use std::io::IsTerminal;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Result, bail};
use hermes_agent::{TurnEnding, TurnResult, TurnWork};
use hermes_store::EndReason;
use hermes_types::{Cancel, Usage};
use serde_json::json;

use super::chat_loop::drive_turn;
use super::drive::{TypedLinePolicy, drive};
use super::frontend::{ChatFrontend, ChatView};
use super::images::{ChatImages, add_images};
use super::input::ChatInput;
use super::opening::{self, OpenedConversation};
use super::references::{ReferenceOutcome, with_references};
use super::signals::ChatSignals;
use super::summary;
use super::terminal::{DisplayMode, QuestionTimeouts, TerminalFrontend, display_settings};
use crate::cli::ChatArguments;
use crate::context::ProgramContext;
use crate::output::Console;
use crate::wiring::{AgentRuntime, working_folder};

/// The wait for MCP servers that are still being connected.
const SERVER_TIMEOUT: Duration = Duration::from_secs(10);

pub(crate) async fn run(
    wired: &mut AgentRuntime,
    mut opened: OpenedConversation,
    text: String,
    arguments: &ChatArguments,
    context: &ProgramContext,
    output: &Console,
) -> Result<ExitCode> {
    let quiet = arguments.quiet || arguments.oneshot.is_some();
    let shown = if quiet { DisplayMode::Quiet } else { DisplayMode::Full };
    let display = display_settings(wired, arguments, context);
    let mut input = if std::io::stdin().is_terminal() && !quiet {
        ChatInput::person()
    } else {
        ChatInput::NonInteractive
    };
    // A question has no later turn in which a slow server could still be used.
    for notice in wired.take_up_servers(context, SERVER_TIMEOUT).await {
        output.notice(&notice);
    }
    let agent = &wired.agent;
    let patience = QuestionTimeouts::from_config(&wired.config);
    let clock = agent.clock().clone();
    let lines = TerminalFrontend::new(output, shown, display.clone(), clock, patience, &input);
    let terminal =
        ChatFrontend::new(ChatView::Lines(Box::new(lines)), display).with_trajectories(&wired.config);
    if let Some(cut_off) = &opened.unfinished_turn {
        output.notice(&opening::describe_unfinished_turn(cut_off));
        agent.drop_turn(cut_off).await?;
    }
    if !quiet {
        if opened.resumed {
            output.line(&opening::greeting(&opened));
        }
        output.line(&format!("Query: {text}\n"));
    }
    let began = agent.clock().now();
    let cancel = Cancel::new();
    let mut signals = ChatSignals::listen()?;
    let folder = working_folder(context, &wired.config)?;
    let finder = ChatImages::new(context.home.clone(), context.env.clone(), folder, agent.clock().clone());
    let images = arguments.images.iter().map(|typed| finder.resolve(typed).map_err(anyhow::Error::msg));
    let images = images.collect::<Result<Vec<_>>>()?;
    let mut said = match with_references(text, agent, &opened.conversation, context, &wired.config).await? {
        ReferenceOutcome::Resolved { input: said, status } => {
            if let Some(status) = status.filter(|_| !quiet) {
                output.line(&status);
            }
            said
        }
        ReferenceOutcome::TooLarge(words) => bail!(words),
    };
    add_images(&mut said, &images, agent).map_err(anyhow::Error::msg)?;
    let turn = drive_turn(agent, &mut opened.conversation, TurnWork::begin(said), &terminal, &cancel);
    let driven = drive(turn, &terminal, &mut input, &mut signals, &cancel, TypedLinePolicy::Ignore).await;
    let result = driven.result?;
    agent.end_conversation(&opened.conversation, EndReason::CliClose).await?;
    if let Some(path) = &arguments.usage_file {
        write_usage(path, &result, opened.conversation.usage())?;
    }
    let code = report(&result, quiet, &terminal, output);
    if quiet {
        output.notice(&format!("\nsession_id: {}", result.session));
        if std::io::stdout().is_terminal() {
            output.line(&format!("\nsession_id: {}", result.session));
        }
    } else {
        let row = agent.store().session(&result.session).await?;
        let title = row.and_then(|row| row.title);
        let seconds = agent.clock().now().since(began).as_secs();
        output.text(&summary::exit_summary(&opened.conversation, title.as_deref(), seconds));
    }
    Ok(signals.exit_code().unwrap_or(code))
}

/// Prints the answer, or the reason why there is none, and returns the exit code.
fn report(result: &TurnResult, quiet: bool, terminal: &ChatFrontend<'_>, output: &Console) -> ExitCode {
    let response = result.response.as_deref().unwrap_or_default();
    if !response.is_empty() {
        if quiet { output.line(response) } else { terminal.finish(Some(response)) }
    }
    if let Some(error) = &result.error {
        output.notice(&format!("Error: {error}"));
    }
    match result.ending() {
        TurnEnding::Interrupted { .. } => ExitCode::from(130),
        TurnEnding::Failed { .. } | TurnEnding::Silent { reason: Some(_) } => ExitCode::FAILURE,
        TurnEnding::Answered(_) | TurnEnding::CutShort(_) | TurnEnding::Silent { reason: None } => {
            ExitCode::SUCCESS
        }
    }
}

fn write_usage(path: &Path, result: &TurnResult, usage: Usage) -> Result<()> {
    #[expect(clippy::cast_precision_loss, reason = "millionths of a dollar stay far below 2^52")]
    let dollars = result.cost.micro_usd.map(|micro| micro as f64 / 1e6);
    let report = json!({
        "session_id": result.session.as_str(),
        "model": result.model,
        "provider": result.provider,
        "api_calls": result.api_calls,
        "completed": result.completed(),
        "failed": result.failed(),
        "error": result.error,
        "input_tokens": usage.input,
        "output_tokens": usage.output,
        "cache_read_tokens": usage.cache_read,
        "cache_write_tokens": usage.cache_write,
        "reasoning_tokens": usage.reasoning,
        "total_tokens": usage.total(),
        "estimated_cost_usd": dollars,
        "cost_status": result.cost.status.as_str(),
    });
    Ok(hermes_config::write::write_output(path, serde_json::to_string_pretty(&report)?.as_bytes())?)
}
