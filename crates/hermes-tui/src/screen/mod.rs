//! The state of the screen: inputs change it, effects come out, `view` draws it.
//!
//! Pure: no terminal, no clock, no runtime. Invariants: `view` depends on the state, the size and the time alone; a row that was
//! taken for the scrollback is never drawn again; text of the model or of a tool is cleaned before it is a row.

mod input;
mod keys;
mod message;
mod view;

use std::collections::VecDeque;
use std::time::Duration;

use hermes_types::{TurnEvent, UserAnswer};
use ratatui_core::text::{Line, Span};

use self::input::InputBox;
pub use message::{BarVisibility, BusyInputMode, Operation, ScreenEffect, ScreenInput};
pub use view::ScreenFrame;

use crate::completion::CommandItem;
use crate::dialog::{DialogBox, DialogOutcome};
use crate::editor::{EditedText, KeyUse};
use crate::glyphs::{StyledLine, clean, clean_line, cut, styled, wrap_words};
use crate::markdown::MarkdownStream;
use crate::status::StatusFields;
use crate::theme::Theme;
use crate::transcript::{RowContext, ShownTurn, TranscriptOptions};

/// The time in which a second Ctrl-C counts as one.
const DOUBLE_PRESS: Duration = Duration::from_secs(2);
const HINT_TIME: Duration = Duration::from_secs(4);
const ECHO_RULE_COLUMNS: usize = 40;

/// Everything the state starts from.
#[derive(Debug, Clone)]
pub struct ScreenSetup {
    pub theme: Theme,
    pub transcript: TranscriptOptions,
    pub busy_input: BusyInputMode,
    pub bell_on_complete: bool,
    pub commands: Vec<CommandItem>,
    /// Earlier inputs, oldest first.
    pub history: Vec<String>,
    /// The text that stands in the empty input.
    pub placeholder: String,
    pub width: u16,
    pub height: u16,
    /// The time at which the session began.
    pub now: Duration,
}

/// The state of the screen.
#[derive(Debug)]
pub struct ScreenState {
    setup: ScreenSetup,
    width: usize,
    height: usize,
    input: InputBox,
    transcript: ShownTurn,
    dialogs: VecDeque<DialogBox>,
    status: StatusFields,
    shows_status: bool,
    /// The time at which the running turn began.
    running_since: Option<Duration>,
    /// Messages that wait for the end of the turn.
    queued: Vec<EditedText>,
    last_interrupt: Option<Duration>,
    hint: Option<(String, Duration)>,
    lock: Option<String>,
    /// The scroll position of the last call's output, while it is shown whole.
    output_scroll: Option<usize>,
    /// True after Ctrl-X, which begins a sequence of two keys.
    after_ctrl_x: bool,
    finished: Vec<StyledLine>,
}

impl ScreenState {
    pub fn new(setup: ScreenSetup) -> Self {
        Self {
            width: usize::from(setup.width.max(1)),
            height: usize::from(setup.height.max(1)),
            input: InputBox::new(setup.history.clone(), setup.commands.clone()),
            transcript: ShownTurn::new(setup.transcript),
            setup,
            dialogs: VecDeque::new(),
            status: StatusFields::default(),
            shows_status: true,
            running_since: None,
            queued: Vec::new(),
            last_interrupt: None,
            hint: None,
            lock: None,
            output_scroll: None,
            after_ctrl_x: false,
            finished: Vec::new(),
        }
    }

    /// Returns the text in the editor as it would be sent.
    pub fn typed(&self) -> EditedText {
        self.input.editor.edited()
    }

    /// Takes the rows that belong into the scrollback.
    pub fn take_finished(&mut self) -> Vec<StyledLine> {
        let rows = std::mem::take(&mut self.finished);
        // Heads and rules have a least width.
        rows.into_iter().map(|row| cut(&row, self.width)).collect()
    }

    /// Returns the time after which the screen looks different without any input.
    pub fn next_tick(&self) -> Duration {
        let is_animated = self.running_since.is_some() || self.lock.is_some();
        Duration::from_millis(if is_animated { 100 } else { 1_000 })
    }

    /// Takes an input.
    pub fn update(&mut self, input: ScreenInput, now: Duration) -> Vec<ScreenEffect> {
        let mut effects = Vec::new();
        match input {
            ScreenInput::Key(key) => effects = self.key(key, now),
            ScreenInput::Paste(text) => self.paste(&text, now, &mut effects),
            ScreenInput::Resize { width, height } => {
                (self.width, self.height) = (usize::from(width.max(1)), usize::from(height.max(1)));
            }
            ScreenInput::Turn(event) => self.turn_event(event, now),
            ScreenInput::TurnFinished(response) => {
                self.with_transcript(now, |transcript, at, rows| {
                    transcript.show_response(response.as_deref().unwrap_or_default(), at, rows);
                });
                self.turn_over();
                if self.setup.bell_on_complete {
                    effects.push(ScreenEffect::Bell);
                }
            }
            ScreenInput::Ask { id, question, time_limit } => {
                self.dialogs.push_back(DialogBox::question(id, question, time_limit));
            }
            ScreenInput::Pick { id, spec } => self.dialogs.push_back(DialogBox::picker(id, spec)),
            ScreenInput::Withdraw { id } => self.dialogs.retain(|dialog| dialog.id != id),
            ScreenInput::Print(text) => {
                for line in clean(&text).trim_end_matches('\n').split('\n') {
                    self.finished.extend(wrap_words(&styled(line, self.setup.theme.text), self.width));
                }
            }
            ScreenInput::PrintMarkdown(text) => {
                let mut stream = MarkdownStream::default();
                stream.push(&text);
                self.finished.extend(stream.finish(self.width, &self.setup.theme));
            }
            ScreenInput::Notice(text) => self.print_line(&text),
            ScreenInput::Status(status) => self.status = status,
            ScreenInput::StatusBar(visibility) => {
                self.shows_status = match visibility {
                    BarVisibility::Shown => true,
                    BarVisibility::Hidden => false,
                    BarVisibility::Toggled => !self.shows_status,
                };
            }
            ScreenInput::Theme(theme) => self.setup.theme = *theme,
            ScreenInput::Transcript(options) => self.transcript.options = options,
            ScreenInput::BusyInput(mode) => self.setup.busy_input = mode,
            ScreenInput::Redraw => effects.push(ScreenEffect::Repaint),
            ScreenInput::Copy(text) => effects.push(ScreenEffect::Copy(text)),
            ScreenInput::Clear => {
                self.finished.clear();
                effects.push(ScreenEffect::ClearTerminal);
            }
            ScreenInput::Lock(status) => self.lock = status.map(|status| clean_line(&status)),
            ScreenInput::Candidates { word, items } => self.input.offer(&word, items),
            ScreenInput::Edited(text) => {
                if let Some(text) = text {
                    self.input.editor.set(text.trim_end_matches('\n'));
                }
                effects.push(ScreenEffect::Repaint);
            }
            ScreenInput::Tick => {}
        }
        if let Some(dialog) = self.dialogs.front_mut() {
            dialog.show_at(now);
        }
        self.expire_dialog(now, &mut effects);
        if self.hint.as_ref().is_some_and(|(_, until)| now >= *until) {
            self.hint = None;
        }
        effects
    }

    fn row_context(&self, now: Duration) -> RowContext<'_> {
        RowContext { width: self.width, now, theme: &self.setup.theme }
    }

    fn with_transcript(
        &mut self,
        now: Duration,
        work: impl FnOnce(&mut ShownTurn, RowContext<'_>, &mut Vec<StyledLine>),
    ) {
        let at = RowContext { width: self.width, now, theme: &self.setup.theme };
        work(&mut self.transcript, at, &mut self.finished);
    }

    fn turn_event(&mut self, event: TurnEvent, now: Duration) {
        match &event {
            TurnEvent::TurnStarted { .. } => {
                self.running_since = Some(now);
                self.last_interrupt = None;
                for text in std::mem::take(&mut self.queued) {
                    self.echo(&text);
                }
            }
            TurnEvent::TurnEnded { .. } => self.turn_over(),
            _ => {}
        }
        self.with_transcript(now, |transcript, at, rows| transcript.event(event, at, rows));
    }

    fn turn_over(&mut self) {
        self.running_since = None;
        self.last_interrupt = None;
        self.hint = None;
    }

    fn print_line(&mut self, text: &str) {
        let style = self.setup.theme.dim;
        for line in clean(text).trim_end_matches('\n').split('\n') {
            self.finished.extend(wrap_words(&styled(line, style), self.width));
        }
    }

    /// Shows what the user sent.
    fn echo(&mut self, text: &EditedText) {
        let theme = &self.setup.theme;
        let mut lines = text.label.trim().lines();
        let first = lines.next().unwrap_or_default().to_owned();
        let more = lines.count();
        let rule = "─".repeat(self.width.min(ECHO_RULE_COLUMNS));
        self.finished.push(Line::default());
        self.finished.push(styled(rule, theme.rule));
        let mut line = Line::from(Span::styled(clean(&first), theme.prompt));
        if more > 0 {
            line.spans.push(Span::styled(format!(" (+{more} lines)"), theme.dim));
        }
        let (mark, indent) = ([Span::styled("● ", theme.accent)], [Span::raw("  ")]);
        let breaks = crate::glyphs::Breaks::Words;
        self.finished.extend(crate::glyphs::wrap(&line, self.width, breaks, &mark, &indent));
        self.finished.push(Line::default());
    }

    fn paste(&mut self, text: &str, now: Duration, effects: &mut Vec<ScreenEffect>) {
        if self.lock.is_some() {
            return;
        }
        if let Some(dialog) = self.dialogs.front_mut() {
            dialog.paste(text, now);
            return;
        }
        self.input.search = None;
        self.input.editor.paste(text);
        self.input.edited(effects);
    }

    /// Sends what was typed.
    fn submit(&mut self, now: Duration, effects: &mut Vec<ScreenEffect>) {
        let text = self.input.editor.edited();
        if text.text.trim().is_empty() {
            return;
        }
        self.input.editor.clear();
        self.input.close_menu();
        if self.input.editor.history.add(text.text.trim_end()) {
            effects.push(ScreenEffect::Remember(text.text.trim_end().to_owned()));
        }
        if is_command(&text.text) {
            let line = text.text.trim().to_owned();
            let shown = cut(&styled(format!("⚙️  {}", clean_line(&line)), self.setup.theme.dim), self.width);
            self.finished.push(shown);
            effects.push(ScreenEffect::Operate(Operation::Command(line)));
            return;
        }
        if self.running_since.is_none() {
            self.echo(&text);
            effects.push(ScreenEffect::Operate(Operation::Submit(text)));
            return;
        }
        match self.setup.busy_input {
            BusyInputMode::Steer => {
                self.set_hint("Sent to the running turn", now);
                self.echo(&text);
                effects.push(ScreenEffect::Operate(Operation::Steer(text)));
            }
            BusyInputMode::Queue => {
                self.queued.push(text.clone());
                effects.push(ScreenEffect::Operate(Operation::Queue(text)));
            }
            BusyInputMode::Interrupt => {
                self.set_hint("⚡ New message detected, interrupting...", now);
                self.queued.push(text.clone());
                effects.push(ScreenEffect::Operate(Operation::Queue(text)));
                effects.push(ScreenEffect::Operate(Operation::Interrupt));
            }
        }
    }

    fn set_hint(&mut self, text: &str, now: Duration) {
        self.hint = Some((text.to_owned(), now.saturating_add(HINT_TIME)));
    }

    fn finish_dialog(&mut self, outcome: DialogOutcome, now: Duration, effects: &mut Vec<ScreenEffect>) {
        let Some(dialog) = self.dialogs.pop_front() else { return };
        let id = dialog.id;
        effects.push(match outcome {
            DialogOutcome::Answered(answer) => ScreenEffect::Answer { id, answer },
            DialogOutcome::Picked(index) => ScreenEffect::Picked { id, index },
        });
        if let Some(next) = self.dialogs.front_mut() {
            next.show_at(now);
        }
    }

    /// Closes a dialog nobody answered in time.
    fn expire_dialog(&mut self, now: Duration, effects: &mut Vec<ScreenEffect>) {
        let Some(dialog) = self.dialogs.front().filter(|dialog| dialog.is_expired(now)) else { return };
        let note = dialog.expiry_note();
        self.finish_dialog(DialogOutcome::Answered(UserAnswer::TimedOut), now, effects);
        self.print_line(note);
    }
}

/// Tells whether a text is a command rather than a message. A path is no command.
pub(crate) fn is_command(text: &str) -> bool {
    let Some(rest) = text.trim_start().strip_prefix('/') else { return false };
    let name = rest.split_whitespace().next().unwrap_or_default();
    !name.is_empty() && !name.contains('/')
}

impl KeyUse {
    fn is_used(self) -> bool {
        self == Self::Used
    }
}
