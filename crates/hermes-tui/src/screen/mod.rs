//! The state of the screen: inputs change it, effects come out, `view` draws it.
//!
//! Pure: no terminal, no clock, no runtime. Invariants: `view` depends on the state, the size and the time alone; a row that was
//! taken for the scrollback is never drawn again; text of the model or of a tool is cleaned before it is a row.

mod attachment;
mod input;
mod keys;
mod message;
mod view;

use std::collections::VecDeque;
use std::time::Duration;

use hermes_types::{TurnEvent, UserAnswer};
use ratatui_core::text::{Line, Span};

use self::input::InputBox;
pub use message::{BarVisibility, BusyInputMode, Operation, ScreenEffect, ScreenInput, TimeLabels};
pub use view::ScreenFrame;

use crate::completion::CommandItem;
use crate::dialog::{DialogBox, DialogOutcome};
use crate::editor::{EditedText, FoldLimits, KeyUse};
use crate::glyphs::{StyledLine, clean, clean_line, cut, line_columns, styled, wrap_words};
use crate::markdown::MarkdownStream;
use crate::status::StatusFields;
use crate::theme::Theme;
use crate::transcript::{RowContext, ShownTurn, TranscriptOptions};
use crate::voice::{KeyChord, VoiceActivity};

/// The time in which a second Ctrl-C counts as one.
const DOUBLE_PRESS: Duration = Duration::from_secs(2);
const ANIMATION_TIME: Duration = Duration::from_millis(100);
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
    pub fold: FoldLimits,
    /// How the time of day is shown beside messages, if it is.
    pub times: Option<TimeLabels>,
    /// The text that stands in the empty input.
    pub placeholder: String,
    pub width: u16,
    pub height: u16,
    /// The key that starts and ends a recording.
    pub record_key: KeyChord,
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
    voice: VoiceActivity,
    /// The output that is shown whole, if one is.
    open_output: Option<OpenOutput>,
    /// True after Ctrl-X, which begins a sequence of two keys.
    after_ctrl_x: bool,
    /// The time of day as messages show it, if they do.
    time: Option<String>,
    finished: Vec<StyledLine>,
}

/// An output that is shown whole.
#[derive(Debug, Clone, Copy, Default)]
struct OpenOutput {
    /// Which one, counted from the newest.
    age: usize,
    scroll: usize,
}

impl ScreenState {
    pub fn new(setup: ScreenSetup) -> Self {
        Self {
            width: usize::from(setup.width.max(1)),
            height: usize::from(setup.height.max(1)),
            input: InputBox::new(setup.history.clone(), setup.fold, setup.commands.clone()),
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
            voice: VoiceActivity::Off,
            open_output: None,
            after_ctrl_x: false,
            time: None,
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
        // A row may have been made for a wider terminal. Nothing of it is lost.
        let fit = |row: StyledLine| match line_columns(&row) {
            columns if columns <= self.width => vec![row],
            _ => crate::glyphs::wrap(&row, self.width, crate::glyphs::Breaks::Anywhere, &[], &[]),
        };
        rows.into_iter().flat_map(fit).collect()
    }

    /// Returns the time after which the screen looks different without any input.
    pub fn next_tick(&self, now: Duration) -> Duration {
        if self.running_since.is_some() || self.lock.is_some() || self.transcript.has_agents() {
            return ANIMATION_TIME;
        }
        // An idle screen wakes up only when the time in the status bar changes.
        let elapsed = now.saturating_sub(self.setup.now);
        let unit: u128 = if self.hint.is_some() || !self.dialogs.is_empty() { 1_000 } else { 60_000 };
        let passed = u64::try_from(elapsed.as_millis() % unit).unwrap_or(0);
        Duration::from_millis(u64::try_from(unit).unwrap_or(0).saturating_sub(passed))
    }

    /// Takes an input.
    pub fn update(&mut self, input: ScreenInput, now: Duration) -> Vec<ScreenEffect> {
        let mut effects = Vec::new();
        if self.setup.times.is_some() {
            self.time = self.setup.times.as_ref().map(|times| times.at(now));
        }
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
            ScreenInput::Banner(banner) => {
                self.finished.extend(banner.rows(self.width, &self.setup.theme));
            }
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
            ScreenInput::PrintAnswer { remark, text } => {
                self.with_transcript(now, |transcript, at, rows| {
                    transcript.show_other_answer(&clean_line(&remark), &text, at, rows);
                });
                if self.setup.bell_on_complete {
                    effects.push(ScreenEffect::Bell);
                }
            }
            ScreenInput::Background { label, event } => self.with_transcript(now, |transcript, at, rows| {
                transcript.background_event(&label, event, at, rows);
            }),
            ScreenInput::ListAgents => {
                let rows = self.transcript.agent_rows(self.row_context(now));
                self.finished.extend(rows);
            }
            ScreenInput::Times(labels) => {
                self.setup.times = labels;
                self.time = None;
            }
            ScreenInput::Notice(text) => self.print_line(&text),
            ScreenInput::Hint(text) => self.set_hint(&clean_line(&text), now),
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
            ScreenInput::Commands(commands) => self.input.set_commands(commands),
            ScreenInput::Voice(activity) => self.voice = activity,
            ScreenInput::Echo(text) => {
                self.echo(&EditedText { label: text, ..EditedText::default() });
            }
            ScreenInput::Picture(picture) => effects.push(ScreenEffect::Picture(picture)),
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
            ScreenInput::Attach(image) | ScreenInput::ImageFound { image: Some(image), .. } => {
                self.input.images.push(image);
            }
            ScreenInput::ImageFound { text, image: None } => self.insert_paste(&text, &mut effects),
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
        RowContext { width: self.width, now, theme: &self.setup.theme, time: self.time.as_deref() }
    }

    fn with_transcript(
        &mut self,
        now: Duration,
        work: impl FnOnce(&mut ShownTurn, RowContext<'_>, &mut Vec<StyledLine>),
    ) {
        let at = RowContext { width: self.width, now, theme: &self.setup.theme, time: self.time.as_deref() };
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
        if let Some(time) = &self.time {
            line.spans.push(Span::styled(format!("  {time}"), theme.dim));
        }
        let (mark, indent) = ([Span::styled("● ", theme.accent)], [Span::raw("  ")]);
        let breaks = crate::glyphs::Breaks::Words;
        if !first.is_empty() {
            self.finished.extend(crate::glyphs::wrap(&line, self.width, breaks, &mark, &indent));
        }
        if !text.images.is_empty() {
            let mut line = styled(attachment::describe(text.images.len()), theme.label);
            line.spans.insert(0, Span::raw("  "));
            self.finished.push(line);
        }
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
        if text.is_empty() {
            // What terminals paste when the clipboard holds a picture.
            effects.push(ScreenEffect::PasteImage);
        } else if attachment::may_be_image_path(text) {
            effects.push(ScreenEffect::FindImage(text.to_owned()));
        } else {
            self.insert_paste(text, effects);
        }
    }

    fn insert_paste(&mut self, text: &str, effects: &mut Vec<ScreenEffect>) {
        self.input.search = None;
        self.input.editor.paste(text);
        self.input.edited(effects);
    }

    /// Sends what was typed.
    fn submit(&mut self, now: Duration, effects: &mut Vec<ScreenEffect>) {
        let mut text = self.input.editor.edited();
        if text.text.trim().is_empty() && self.input.images.is_empty() {
            return;
        }
        self.input.editor.clear();
        self.input.close_menu();
        let typed = text.text.trim_end();
        if !typed.is_empty() && self.input.editor.history.add(typed) {
            effects.push(ScreenEffect::Remember(typed.to_owned()));
        }
        if is_command(&text.text) {
            let line = text.text.trim().to_owned();
            let shown = cut(&styled(format!("⚙️  {}", clean_line(&line)), self.setup.theme.dim), self.width);
            self.finished.push(shown);
            effects.push(ScreenEffect::Operate(Operation::Command(line)));
            return;
        }
        text.images = std::mem::take(&mut self.input.images);
        if self.running_since.is_none() {
            self.echo(&text);
            effects.push(ScreenEffect::Operate(Operation::Submit(text)));
            return;
        }
        match self.setup.busy_input {
            // A remark is text; a message with pictures waits for its own turn.
            BusyInputMode::Steer if text.images.is_empty() => {
                self.set_hint("Sent to the running turn", now);
                self.echo(&text);
                effects.push(ScreenEffect::Operate(Operation::Steer(text)));
            }
            BusyInputMode::Queue | BusyInputMode::Steer => {
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
