//! A terminal without a screen of its own: what happens goes out line by line, questions are asked in words.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hermes_config::Config;
use hermes_config::settings::{ApprovalSettings, DisplaySettings, ToolProgress};
use hermes_text::escape_terminal;
use hermes_types::{
    Answer, Approval, BoxFuture, CallId, Cancel, Clock, Delta, Event, Frontend, OutcomeStatus, Question,
    Secret,
};
use tokio::sync::oneshot;

use super::feed;
use super::input::{Input, Typing, is_command, restore_terminal};
use super::signals::{Heard, Signals};
use crate::cli::ChatArguments;
use crate::context::Context;
use crate::output::Output;
use crate::wiring::Wired;

/// How much is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shown {
    Everything,
    /// The answer comes from whoever runs the turn; nothing is shown on the way.
    Nothing,
}

/// How long questions wait for an answer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Patience {
    approve: Duration,
    clarify: Duration,
}

impl Patience {
    pub(crate) fn from_config(config: &Config) -> Self {
        let seconds = config.number("clarify.timeout").filter(|seconds| *seconds > 0.0).unwrap_or(120.0);
        let clarify = Duration::try_from_secs_f64(seconds).unwrap_or(Duration::from_mins(2));
        Self { approve: ApprovalSettings::from_config(config).timeout, clarify }
    }
}

/// Returns how much is shown: what the configuration says, and `--verbose` over it.
pub(crate) fn display_settings(
    wired: &Wired,
    arguments: &ChatArguments,
    context: &Context,
) -> DisplaySettings {
    let mut display = DisplaySettings::resolve(&wired.config, &context.env);
    if arguments.verbose {
        display.tool_progress = ToolProgress::Verbose;
    }
    display
}

/// The surface of a chat in a terminal.
pub(crate) struct Terminal<'a> {
    output: &'a Output,
    shown: Shown,
    pub(crate) display: DisplaySettings,
    clock: Arc<dyn Clock>,
    patience: Patience,
    /// Somebody who can answer a question.
    typing: Option<Arc<Typing>>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// What of the current answer is on the screen, as the model wrote it.
    written: String,
    /// The text before the last tool call.
    before_tools: String,
    /// Reasoning that is not on the screen yet, because answers are not streamed.
    reasoning: String,
    /// Whether the cursor stands behind something.
    mid_line: bool,
    /// Whether the box around the reasoning is open.
    in_reasoning: bool,
    running: HashMap<CallId, RunningCall>,
    calls: usize,
    last_tool: String,
    /// Who waits for the next line typed.
    waiting: Option<oneshot::Sender<String>>,
}

/// A tool call that has begun.
#[derive(Debug, Default)]
struct RunningCall {
    number: usize,
    preview: String,
    began: Duration,
}

impl<'a> Terminal<'a> {
    pub(crate) fn new(
        output: &'a Output,
        shown: Shown,
        display: DisplaySettings,
        clock: Arc<dyn Clock>,
        patience: Patience,
        input: &Input,
    ) -> Self {
        Self { output, shown, display, clock, patience, typing: input.typing(), state: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Hands a typed line to a question, if one is open.
    fn answer(&self, line: String) -> Option<String> {
        match self.state().waiting.take() {
            Some(waiting) => waiting.send(line).err(),
            None => Some(line),
        }
    }

    /// Shows the end of an answer, whatever of it has been shown already.
    pub(crate) fn finish(&self, response: &str) {
        let (written, before_tools) = {
            let mut state = self.state();
            (std::mem::take(&mut state.written), std::mem::take(&mut state.before_tools))
        };
        if self.shown == Shown::Nothing {
            return;
        }
        self.show_reasoning();
        let response = response.trim();
        // After an empty last answer the text before the tools is the answer, and it is on the screen.
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

    /// Puts a part of an answer on the screen.
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

    /// Shows reasoning as it comes, or keeps it until the answer is shown.
    fn reason(&self, text: &str) {
        if !self.display.streaming {
            self.state().reasoning.push_str(text);
            return;
        }
        if !std::mem::replace(&mut self.state().in_reasoning, true) {
            self.end_line();
            self.output.line(feed::REASONING_BEGINS);
        }
        self.put(text);
    }

    fn close_reasoning(&self) {
        if std::mem::take(&mut self.state().in_reasoning) {
            self.end_line();
            self.output.line(feed::REASONING_ENDS);
        }
    }

    /// Shows the reasoning that was kept, and closes the box of what was streamed.
    fn show_reasoning(&self) {
        self.close_reasoning();
        let kept = std::mem::take(&mut self.state().reasoning);
        if !kept.trim().is_empty() {
            self.end_line();
            self.output.text(&escape_terminal(&feed::reasoning(&kept)));
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

    /// Shows a line of its own, wherever the cursor stands.
    fn note(&self, text: &str) {
        self.end_line();
        self.output.line(&escape_terminal(text));
    }

    fn tool_started(&self, id: CallId, name: &str, preview: String, arguments: &str) {
        let number = {
            let mut state = self.state();
            state.calls += 1;
            let call = RunningCall { number: state.calls, preview, began: self.clock.monotonic() };
            state.running.insert(id, call);
            state.calls
        };
        if self.shown == Shown::Everything && self.display.tool_progress == ToolProgress::Verbose {
            self.show_reasoning();
            self.note(&feed::verbose_start(number, name, arguments));
        }
    }

    fn tool_ended(&self, id: &CallId, name: &str, status: OutcomeStatus, result: &str) {
        let (call, repeated) = {
            let mut state = self.state();
            let call = state.running.remove(id).unwrap_or_default();
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
            ToolProgress::New | ToolProgress::All => feed::line(name, &call.preview, seconds, suffix),
            ToolProgress::Verbose => feed::verbose_end(call.number, seconds, suffix, result),
        };
        self.show_reasoning();
        self.note(&line);
    }

    /// A subagent's calls and notices, one line each.
    fn show_child(&self, label: &str, event: &Event) {
        match event {
            Event::ToolStarted { name, preview, .. } => {
                self.note(&format!("  ├─ [{label}] {name} {}", hermes_text::head(preview, 35)));
            }
            Event::TurnEnded { .. } => self.note(&format!("  └─ [{label}] done")),
            Event::Notice { text, .. } => self.note(&format!("  ├─ [{label}] {text}")),
            _ => {}
        }
    }

    /// Waits for the next line typed, for a while; without one, why there is none.
    async fn line(&self, wait: Duration, cancel: &Cancel) -> Result<String, Answer> {
        let (sender, receiver) = oneshot::channel();
        self.state().waiting = Some(sender);
        let line = tokio::select! {
            line = receiver => line.map_err(|_| Answer::Unavailable),
            () = cancel.cancelled() => Err(Answer::Unavailable),
            () = self.clock.sleep(wait) => Err(Answer::Silence),
        };
        self.state().waiting = None;
        line
    }

    async fn approve(&self, command: &str, reason: &str, cancel: &Cancel) -> Answer {
        self.note(&format!(
            "⚠️  Dangerous Command: {reason}\n    {command}\n    [o]nce  |  [s]ession  |  [a]lways  |  [d]eny"
        ));
        self.output.text("Choice [o/s/a/D]: ");
        let line = match self.line(self.patience.approve, cancel).await {
            Ok(line) => line,
            Err(none) => {
                if none == Answer::Silence {
                    self.note("⏱ Timeout — denying command");
                }
                return none;
            }
        };
        Answer::Approval(match line.trim().to_lowercase().as_str() {
            "o" | "once" => Approval::Once,
            "s" | "session" => Approval::Session,
            "a" | "always" => Approval::Always,
            _ => Approval::Deny,
        })
    }

    async fn clarify(&self, question: &str, choices: &[String], cancel: &Cancel) -> Answer {
        self.note(&format!("Hermes needs your input: {question}"));
        for (at, choice) in choices.iter().enumerate() {
            self.output.line(&format!("  {}. {choice}", at + 1));
        }
        if !choices.is_empty() {
            self.output.line("  (a number, or an answer of your own)");
        }
        self.output.text("> ");
        let line = match self.line(self.patience.clarify, cancel).await {
            Ok(line) => line,
            Err(none) => return none,
        };
        let chosen = line.trim().parse::<usize>().ok().and_then(|number| choices.get(number.checked_sub(1)?));
        Answer::Text(chosen.cloned().unwrap_or_else(|| line.trim().to_owned()))
    }
}

impl Terminal<'_> {
    /// Asks for something that is not shown while it is typed.
    async fn ask_secret(&self, prompt: &str, cancel: &Cancel) -> Answer {
        self.end_line();
        let Some(typing) = &self.typing else { return Answer::Unavailable };
        typing.hide(true);
        self.output.text(&format!("{prompt}: "));
        let line = self.line(self.patience.approve, cancel).await;
        typing.hide(false);
        match line {
            Ok(line) => Answer::Secret(Secret::new(line.trim_end_matches(['\n', '\r']))),
            Err(none) => none,
        }
    }
}

impl Frontend for Terminal<'_> {
    fn show(&self, event: Event) {
        match event {
            Event::ToolStarted { id, name, preview, arguments } => {
                self.tool_started(id, &name, preview, &arguments);
            }
            _ if self.shown == Shown::Nothing => {}
            Event::ToolEnded { id, name, status, result } => self.tool_ended(&id, &name, status, &result),
            Event::Delta(Delta::Text(text)) if self.display.streaming => self.write(&text),
            Event::Delta(Delta::Reasoning(text)) if self.display.show_reasoning => self.reason(&text),
            Event::Delta(Delta::Restart) => {
                self.close_reasoning();
                self.note("(the connection was lost; the answer starts again)");
                self.state().written.clear();
            }
            Event::Child { label, event } => self.show_child(&label, &event),
            Event::SegmentEnded => {
                self.show_reasoning();
                let text = std::mem::take(&mut self.state().written);
                if !text.is_empty() {
                    self.note("");
                    self.state().before_tools = text;
                }
            }
            Event::Notice { text, .. } | Event::Delta(Delta::Status(text)) => {
                self.note(&format!("  ┊ {text}"));
            }
            Event::TurnStarted { .. } => {
                let mut state = self.state();
                state.before_tools.clear();
                state.calls = 0;
            }
            Event::Delta(Delta::Text(_) | Delta::Reasoning(_) | Delta::ToolStarted { .. })
            | Event::Step { .. }
            | Event::Spent { .. }
            | Event::TurnEnded { .. } => {}
        }
    }

    fn ask<'a>(&'a self, question: Question, cancel: &'a Cancel) -> BoxFuture<'a, Answer> {
        Box::pin(async move {
            if self.typing.is_none() {
                return Answer::Unavailable;
            }
            match question {
                Question::Approve { command, danger } => self.approve(&command, &danger.reason, cancel).await,
                Question::Clarify { question, choices } => self.clarify(&question, &choices, cancel).await,
                Question::Secret { prompt, .. } => self.ask_secret(&prompt, cancel).await,
            }
        })
    }
}

/// What a line means that is typed while a turn runs and answers no question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WhileRunning {
    /// The next message, which stops the turn unless the settings say that it waits.
    Interrupt,
    /// Nothing: there is no next turn.
    Ignore,
}

/// What a turn came to, and what was typed while it ran.
pub(crate) struct Driven<T> {
    pub(crate) result: T,
    pub(crate) typed: Vec<String>,
}

/// Runs a turn while somebody may type, answer or interrupt. The first Ctrl-C stops the turn, the second the program; a
/// signal that ends the chat stops the turn too.
pub(crate) async fn drive<T>(
    turn: impl Future<Output = T>,
    terminal: &Terminal<'_>,
    input: &mut Input,
    signals: &mut Signals,
    cancel: &Cancel,
    while_running: WhileRunning,
) -> Driven<T> {
    let mut turn = std::pin::pin!(turn);
    let mut typed = Vec::new();
    let mut listening = true;
    loop {
        tokio::select! {
            biased;
            result = &mut turn => return Driven { result, typed },
            heard = signals.next() => match heard {
                Heard::Interrupt if cancel.is_cancelled() => {
                    restore_terminal();
                    std::process::exit(130)
                }
                Heard::Interrupt | Heard::End => cancel.cancel(),
            },
            line = input.next(), if listening => match line {
                None => listening = false,
                Some(line) => {
                    if let Some(line) = terminal.answer(line).filter(|line| !line.trim().is_empty()) {
                        // A command waits for the end of the turn; only what is said to the model stops it.
                        let interrupts = while_running == WhileRunning::Interrupt
                            && terminal.display.busy_input_mode != "queue"
                            && !is_command(&line);
                        if interrupts && !cancel.is_cancelled() {
                            terminal.note("⚡ New message detected, interrupting...");
                            cancel.cancel();
                        }
                        typed.push(line);
                    }
                }
            },
        }
    }
}
