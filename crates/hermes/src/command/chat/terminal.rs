//! A frontend that prints events line by line and asks questions as text, without full-screen control.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hermes_config::Config;
use hermes_config::settings::{ApprovalSettings, DisplaySettings, ToolProgress};
use hermes_text::escape_terminal;
use hermes_types::{
    ApprovalDecision, BoxFuture, CallId, Cancel, Clock, Delta, Frontend, OutcomeStatus, Secret, ToolDisplay,
    TurnEvent, UserAnswer, UserQuestion,
};
use tokio::sync::oneshot;

use super::input::{ChatInput, Typing};
use super::tool_lines;
use crate::cli::ChatArguments;
use crate::context::ProgramContext;
use crate::output::Console;
use crate::wiring::AgentRuntime;

/// Says how much is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DisplayMode {
    Full,
    /// Shows nothing during the turn; the caller prints the answer.
    Quiet,
}

/// The time limits for answers to questions.
#[derive(Debug, Clone, Copy)]
pub(crate) struct QuestionTimeouts {
    pub(crate) approve: Duration,
    pub(crate) clarify: Duration,
}

impl QuestionTimeouts {
    pub(crate) fn from_config(config: &Config) -> Self {
        let approve = ApprovalSettings::from_config(config).timeout;
        Self { approve, clarify: config.seconds("clarify.timeout") }
    }
}

/// Returns how much is shown according to the configuration; `--verbose` overrides it.
pub(crate) fn display_settings(
    wired: &AgentRuntime,
    arguments: &ChatArguments,
    context: &ProgramContext,
) -> DisplaySettings {
    let mut display = DisplaySettings::resolve(&wired.config, &context.env);
    if arguments.verbose {
        display.tool_progress = ToolProgress::Verbose;
    }
    display
}

/// The frontend of a terminal chat.
pub(crate) struct TerminalFrontend<'a> {
    output: &'a Console,
    display_mode: DisplayMode,
    pub(crate) display: DisplaySettings,
    clock: Arc<dyn Clock>,
    timeouts: QuestionTimeouts,
    /// The terminal input, if a person can answer questions.
    typing: Option<Arc<Typing>>,
    state: Mutex<TerminalState>,
}

#[derive(Default)]
struct TerminalState {
    /// The part of the current answer on the screen, as the model wrote it.
    written: String,
    /// The text before the last tool call.
    before_tools: String,
    /// Reasoning that is not on the screen yet, because answers are not streamed.
    reasoning: String,
    /// True when the cursor is not at the beginning of a line.
    mid_line: bool,
    /// True while the box around the reasoning is open.
    in_reasoning: bool,
    running: HashMap<CallId, RunningCall>,
    calls: usize,
    last_tool: String,
    /// The question that waits for the next typed line.
    waiting: Option<oneshot::Sender<String>>,
}

/// A tool call in progress.
#[derive(Debug)]
struct RunningCall {
    number: usize,
    preview: String,
    display: ToolDisplay,
    began: Duration,
}

impl<'a> TerminalFrontend<'a> {
    pub(crate) fn new(
        output: &'a Console,
        display_mode: DisplayMode,
        display: DisplaySettings,
        clock: Arc<dyn Clock>,
        timeouts: QuestionTimeouts,
        input: &ChatInput,
    ) -> Self {
        Self {
            output,
            display_mode,
            display,
            clock,
            timeouts,
            typing: input.typing(),
            state: Mutex::default(),
        }
    }

    fn state(&self) -> MutexGuard<'_, TerminalState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Passes a typed line to the open question; returns the line if there is none.
    pub(super) fn answer(&self, line: String) -> Option<String> {
        match self.state().waiting.take() {
            Some(waiting) => waiting.send(line).err(),
            None => Some(line),
        }
    }

    /// Shows the part of the answer that is not on the screen yet.
    pub(crate) fn finish(&self, response: &str) {
        let (written, before_tools) = {
            let mut state = self.state();
            (std::mem::take(&mut state.written), std::mem::take(&mut state.before_tools))
        };
        if self.display_mode == DisplayMode::Quiet {
            return;
        }
        self.show_reasoning();
        let response = response.trim();
        // After an empty last answer, the text before the tools is the answer, and it is on the screen.
        let is_shown =
            if written.trim().is_empty() { before_tools.trim() } else { written.trim() } == response;
        self.end_line();
        if !is_shown {
            self.output.line(&escape_terminal(response));
        }
        if self.display.bell_on_complete {
            self.output.ring();
        }
    }

    /// Prints a part of an answer.
    fn write(&self, text: &str) {
        let mut state = self.state();
        // The first words of an answer are not preceded by blank lines.
        let text = if state.written.is_empty() { text.trim_start() } else { text };
        if text.is_empty() {
            return;
        }
        state.written.push_str(text);
        drop(state);
        self.close_reasoning();
        self.put(text);
    }

    /// Shows reasoning as it arrives, or keeps it until the answer is shown.
    fn reason(&self, text: &str) {
        if !self.display.streaming {
            self.state().reasoning.push_str(text);
            return;
        }
        if !std::mem::replace(&mut self.state().in_reasoning, true) {
            self.end_line();
            self.output.line(tool_lines::REASONING_BEGINS);
        }
        self.put(text);
    }

    fn close_reasoning(&self) {
        if std::mem::take(&mut self.state().in_reasoning) {
            self.end_line();
            self.output.line(tool_lines::REASONING_ENDS);
        }
    }

    /// Shows the reasoning that was kept, and closes the box of what was streamed.
    fn show_reasoning(&self) {
        self.close_reasoning();
        let kept = std::mem::take(&mut self.state().reasoning);
        if !kept.trim().is_empty() {
            self.end_line();
            self.output.text(&escape_terminal(&tool_lines::reasoning(&kept)));
        }
    }

    fn put(&self, text: &str) {
        self.state().mid_line = !text.ends_with('\n');
        self.output.text(&escape_terminal(text));
    }

    /// Moves the cursor to the beginning of a line.
    fn end_line(&self) {
        if std::mem::take(&mut self.state().mid_line) {
            self.output.line("");
        }
    }

    /// Prints a line of its own, wherever the cursor is.
    pub(super) fn print_note(&self, text: &str) {
        self.end_line();
        self.output.line(&escape_terminal(text));
    }

    fn tool_started(&self, id: CallId, name: &str, preview: String, arguments: &str, display: ToolDisplay) {
        let number = {
            let mut state = self.state();
            state.calls += 1;
            let call = RunningCall { number: state.calls, preview, display, began: self.clock.monotonic() };
            state.running.insert(id, call);
            state.calls
        };
        if self.display_mode == DisplayMode::Full && self.display.tool_progress == ToolProgress::Verbose {
            self.show_reasoning();
            self.print_note(&tool_lines::verbose_start(number, name, arguments));
        }
    }

    fn tool_ended(&self, id: &CallId, name: &str, status: OutcomeStatus, result: &str) {
        let (call, repeated) = {
            let mut state = self.state();
            let Some(call) = state.running.remove(id) else { return };
            let repeated = state.last_tool == name;
            name.clone_into(&mut state.last_tool);
            (call, repeated)
        };
        let seconds = self.clock.monotonic().saturating_sub(call.began).as_secs_f64();
        let suffix = match status {
            OutcomeStatus::Done => "",
            OutcomeStatus::Cancelled => " [cancelled]",
            OutcomeStatus::Failed | OutcomeStatus::Unknown => " [error]",
        };
        let line = match self.display.tool_progress {
            ToolProgress::Off => return,
            ToolProgress::New if repeated => return,
            ToolProgress::New | ToolProgress::All => {
                tool_lines::tool_line(&call.display, &call.preview, seconds, suffix)
            }
            ToolProgress::Verbose => tool_lines::verbose_end(call.number, seconds, suffix, result),
        };
        self.show_reasoning();
        self.print_note(&line);
    }

    /// Prints a subagent's calls and notices, one line each.
    fn show_child(&self, label: &str, event: &TurnEvent) {
        match event {
            TurnEvent::ToolStarted { name, preview, .. } => {
                self.print_note(&format!("  ├─ [{label}] {name} {}", hermes_text::head(preview, 35)));
            }
            TurnEvent::TurnEnded { .. } => self.print_note(&format!("  └─ [{label}] done")),
            TurnEvent::Notice { text, .. } => self.print_note(&format!("  ├─ [{label}] {text}")),
            TurnEvent::TurnStarted { .. }
            | TurnEvent::Step { .. }
            | TurnEvent::Delta(_)
            | TurnEvent::SegmentEnded
            | TurnEvent::ToolEnded { .. }
            | TurnEvent::Spent { .. }
            | TurnEvent::Child { .. } => {}
        }
    }

    /// Waits a limited time for the next typed line; returns the reason if there is none.
    async fn wait_for_line(&self, wait: Duration, cancel: &Cancel) -> Result<String, UserAnswer> {
        let (sender, receiver) = oneshot::channel();
        self.state().waiting = Some(sender);
        let line = tokio::select! {
            line = receiver => line.map_err(|_| UserAnswer::Unavailable),
            () = cancel.cancelled() => Err(UserAnswer::Unavailable),
            () = self.clock.sleep(wait) => Err(UserAnswer::TimedOut),
        };
        self.state().waiting = None;
        line
    }

    async fn approve(&self, command: &str, reason: &str, cancel: &Cancel) -> UserAnswer {
        self.print_note(&format!(
            "⚠️  Dangerous Command: {reason}\n    {command}\n    [o]nce  |  [s]ession  |  [a]lways  |  [d]eny"
        ));
        self.output.text("Choice [o/s/a/D]: ");
        let line = match self.wait_for_line(self.timeouts.approve, cancel).await {
            Ok(line) => line,
            Err(none) => {
                if none == UserAnswer::TimedOut {
                    self.print_note("⏱ Timeout — denying command");
                }
                return none;
            }
        };
        UserAnswer::Approval(match line.trim().to_lowercase().as_str() {
            "o" | "once" => ApprovalDecision::Once,
            "s" | "session" => ApprovalDecision::Session,
            "a" | "always" => ApprovalDecision::Always,
            _ => ApprovalDecision::Deny,
        })
    }

    async fn clarify(&self, question: &str, choices: &[String], cancel: &Cancel) -> UserAnswer {
        self.print_note(&format!("Hermes needs your input: {question}"));
        for (at, choice) in choices.iter().enumerate() {
            self.output.line(&format!("  {}. {choice}", at + 1));
        }
        if !choices.is_empty() {
            self.output.line("  (a number, or an answer of your own)");
        }
        self.output.text("> ");
        let line = match self.wait_for_line(self.timeouts.clarify, cancel).await {
            Ok(line) => line,
            Err(none) => return none,
        };
        let chosen = line.trim().parse::<usize>().ok().and_then(|number| choices.get(number.checked_sub(1)?));
        UserAnswer::Text(chosen.cloned().unwrap_or_else(|| line.trim().to_owned()))
    }
}

impl TerminalFrontend<'_> {
    /// Asks for a value that is not shown while it is typed.
    async fn ask_secret(&self, prompt: &str, cancel: &Cancel) -> UserAnswer {
        self.end_line();
        let Some(typing) = &self.typing else { return UserAnswer::Unavailable };
        typing.hide(true);
        self.output.text(&format!("{prompt}: "));
        let line = self.wait_for_line(self.timeouts.approve, cancel).await;
        typing.hide(false);
        match line {
            Ok(line) => UserAnswer::Secret(Secret::new(line.trim_end_matches(['\n', '\r']))),
            Err(none) => none,
        }
    }
}

impl Frontend for TerminalFrontend<'_> {
    fn show(&self, event: TurnEvent) {
        match event {
            TurnEvent::ToolStarted { id, name, preview, arguments, display } => {
                self.tool_started(id, &name, preview, &arguments, display);
            }
            _ if self.display_mode == DisplayMode::Quiet => {}
            TurnEvent::ToolEnded { id, name, status, result } => self.tool_ended(&id, &name, status, &result),
            TurnEvent::Delta(Delta::Text(text)) if self.display.streaming => self.write(&text),
            TurnEvent::Delta(Delta::Reasoning(text)) if self.display.show_reasoning => self.reason(&text),
            TurnEvent::Delta(Delta::Restart) => {
                self.close_reasoning();
                self.print_note("(the connection was lost; the answer starts again)");
                self.state().written.clear();
            }
            TurnEvent::Child { label, event } => self.show_child(&label, &event),
            TurnEvent::SegmentEnded => {
                self.show_reasoning();
                let text = std::mem::take(&mut self.state().written);
                if !text.is_empty() {
                    self.print_note("");
                    self.state().before_tools = text;
                }
            }
            TurnEvent::Notice { text, .. } | TurnEvent::Delta(Delta::Status(text)) => {
                self.print_note(&format!("  ┊ {text}"));
            }
            TurnEvent::TurnStarted { .. } => {
                let mut state = self.state();
                state.before_tools.clear();
                state.calls = 0;
            }
            TurnEvent::Delta(Delta::Text(_) | Delta::Reasoning(_) | Delta::ToolStarted { .. })
            | TurnEvent::Step { .. }
            | TurnEvent::Spent { .. }
            | TurnEvent::TurnEnded { .. } => {}
        }
    }

    fn ask<'a>(&'a self, question: UserQuestion, cancel: &'a Cancel) -> BoxFuture<'a, UserAnswer> {
        Box::pin(async move {
            if self.typing.is_none() {
                return UserAnswer::Unavailable;
            }
            match question {
                UserQuestion::Approve { command, danger } => {
                    self.approve(&command, &danger.reason, cancel).await
                }
                UserQuestion::Clarify { question, choices } => {
                    self.clarify(&question, &choices, cancel).await
                }
                UserQuestion::Secret { prompt, .. } => self.ask_secret(&prompt, cancel).await,
            }
        })
    }
}
