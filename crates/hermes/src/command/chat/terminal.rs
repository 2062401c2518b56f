//! A terminal without a screen of its own: what happens goes out line by line, questions are asked in words.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hermes_config::Config;
use hermes_config::settings::{ApprovalSettings, DisplaySettings, ToolProgress};
use hermes_types::{
    Answer, Approval, BoxFuture, CallId, Cancel, Clock, Delta, Event, Frontend, OutcomeStatus, Question,
};
use tokio::sync::oneshot;

use super::feed;
use super::input::{Input, is_command};
use super::signals::{Heard, Signals};
use crate::output::Output;

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

/// The surface of a chat in a terminal.
pub(crate) struct Terminal<'a> {
    output: &'a Output,
    shown: Shown,
    display: DisplaySettings,
    clock: Arc<dyn Clock>,
    patience: Patience,
    /// Whether somebody can answer a question.
    somebody: bool,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// What of the current answer is on the screen.
    written: String,
    running: HashMap<CallId, (String, Duration)>,
    last_tool: String,
    /// Who waits for the next line typed.
    waiting: Option<oneshot::Sender<String>>,
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
        let somebody = input.is_anybody();
        Self { output, shown, display, clock, patience, somebody, state: Mutex::default() }
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
        let written = std::mem::take(&mut self.state().written);
        if self.shown == Shown::Nothing {
            return;
        }
        if written.trim() == response.trim() && !written.is_empty() {
            if !written.ends_with('\n') {
                self.output.line("");
            }
        } else {
            if !written.is_empty() && !written.ends_with('\n') {
                self.output.line("");
            }
            self.output.line(response);
        }
    }

    fn write(&self, text: &str) {
        let mut state = self.state();
        // The first words of an answer are not preceded by blank lines.
        let text = if state.written.is_empty() { text.trim_start() } else { text };
        if text.is_empty() {
            return;
        }
        state.written.push_str(text);
        drop(state);
        self.output.text(text);
    }

    /// A line of its own, wherever the cursor stands.
    fn note(&self, text: &str) {
        let mut state = self.state();
        let open = !state.written.is_empty() && !state.written.ends_with('\n');
        if open {
            state.written.push('\n');
        }
        drop(state);
        if open {
            self.output.line("");
        }
        self.output.line(text);
    }

    fn tool_ended(&self, id: &CallId, name: &str, status: OutcomeStatus) {
        let (preview, repeated) = {
            let mut state = self.state();
            let began = state.running.remove(id);
            let repeated = state.last_tool == name;
            name.clone_into(&mut state.last_tool);
            (began, repeated)
        };
        let (preview, began) = preview.unwrap_or_default();
        let wanted = match self.display.tool_progress {
            ToolProgress::Off => false,
            ToolProgress::New => !repeated,
            ToolProgress::All | ToolProgress::Verbose => true,
        };
        if !wanted {
            return;
        }
        let seconds = self.clock.monotonic().saturating_sub(began).as_secs_f64();
        let suffix = match status {
            OutcomeStatus::Done => "",
            OutcomeStatus::Cancelled => " [cancelled]",
            OutcomeStatus::Failed | OutcomeStatus::Unknown => " [error]",
        };
        self.note(&feed::line(name, &preview, seconds, suffix));
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

impl Frontend for Terminal<'_> {
    fn show(&self, event: Event) {
        match event {
            Event::ToolStarted { id, preview, .. } => {
                self.state().running.insert(id, (preview, self.clock.monotonic()));
            }
            _ if self.shown == Shown::Nothing => {}
            Event::ToolEnded { id, name, status, .. } => self.tool_ended(&id, &name, status),
            Event::Delta(Delta::Text(text)) if self.display.streaming => self.write(&text),
            Event::Delta(Delta::Restart) => {
                self.note("(the connection was lost; the answer starts again)");
                self.state().written.clear();
            }
            Event::Child { label, event } => self.show_child(&label, &event),
            Event::SegmentEnded => {
                let open = !self.state().written.is_empty();
                if open {
                    self.note("");
                    self.state().written.clear();
                }
            }
            Event::Notice { text, .. } | Event::Delta(Delta::Status(text)) => {
                self.note(&format!("  ┊ {text}"));
            }
            _ => {}
        }
    }

    fn ask<'a>(&'a self, question: Question, cancel: &'a Cancel) -> BoxFuture<'a, Answer> {
        Box::pin(async move {
            if !self.somebody {
                return Answer::Unavailable;
            }
            match question {
                Question::Approve { command, danger } => self.approve(&command, &danger.reason, cancel).await,
                Question::Clarify { question, choices } => self.clarify(&question, &choices, cancel).await,
                // A secret must not be shown while it is typed, and a terminal without a screen cannot hide it.
                Question::Secret { .. } => Answer::Unavailable,
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
                Heard::Interrupt if cancel.is_cancelled() => std::process::exit(130),
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
