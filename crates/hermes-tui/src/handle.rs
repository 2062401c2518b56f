//! The screen as the program uses it: a handle that shows and asks, and the operations that come back.
//!
//! Invariant: a call on the handle never blocks and never fails; after the screen ended, questions are unavailable.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use hermes_types::{BoxFuture, Cancel, Clock, Frontend, TurnEvent, UserAnswer, UserQuestion};
use tokio::sync::{mpsc, oneshot};

use crate::banner::Banner;
use crate::completion::{CommandItem, CompletionSource};
use crate::dialog::{DialogId, PickerSpec, SUDO};
use crate::editor::{FoldLimits, InputHistory};
use crate::error::Error;
use crate::picture::{PictureDisplay, PictureProtocol, PictureSupport, TerminalPicture};
use crate::screen::{
    BarVisibility, BusyInputMode, Operation, ScreenInput, ScreenSetup, ScreenState, TimeLabels,
};
use crate::shell::{ExternalEditor, ImageSource, OpenTerminal, ScreenShell, ShellPorts, TerminalBackup};
use crate::status::StatusFields;
use crate::theme::{Background, Theme};
use crate::transcript::TranscriptOptions;
use crate::voice::{KeyChord, VoiceActivity};

/// The size of a cell in pixels where the terminal does not tell.
const USUAL_CELL: (u16, u16) = (10, 20);

/// Makes the theme once the terminal said what its background is.
pub type ThemeBuilder = Box<dyn FnOnce(Background) -> Theme + Send>;

/// The time limits for answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AnswerLimits {
    pub approve: Duration,
    pub clarify: Duration,
    pub secret: Duration,
    pub sudo: Duration,
}

impl Default for AnswerLimits {
    fn default() -> Self {
        Self {
            approve: Duration::from_mins(1),
            clarify: Duration::from_mins(2),
            secret: Duration::from_mins(2),
            sudo: Duration::from_secs(45),
        }
    }
}

/// How the background of the terminal becomes known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ThemeMode {
    /// The terminal is asked; without an answer it is dark.
    #[default]
    Auto,
    Fixed(Background),
}

/// What a screen is opened with.
#[expect(missing_debug_implementations, reason = "it holds ports")]
pub struct ScreenOptions {
    pub clock: Arc<dyn Clock>,
    pub theme_mode: ThemeMode,
    pub theme: ThemeBuilder,
    pub transcript: TranscriptOptions,
    pub busy_input: BusyInputMode,
    pub bell_on_complete: bool,
    pub limits: AnswerLimits,
    pub commands: Vec<CommandItem>,
    pub placeholder: String,
    /// What the status bar shows first.
    pub status: StatusFields,
    pub times: Option<TimeLabels>,
    pub fold: FoldLimits,
    pub history: Option<Arc<dyn InputHistory>>,
    pub completion: Option<Arc<dyn CompletionSource>>,
    pub editor: Option<Arc<dyn ExternalEditor>>,
    pub images: Option<Arc<dyn ImageSource>>,
    pub backup: Option<Arc<dyn TerminalBackup>>,
    pub pictures: PictureSupport,
    /// The key that starts and ends a recording in voice mode.
    pub record_key: KeyChord,
    /// Ends the screen.
    pub cancel: Cancel,
}

/// A message to the task of the screen.
pub(crate) enum ScreenRequest {
    Input(Box<ScreenInput>),
    Ask {
        id: DialogId,
        question: UserQuestion,
        time_limit: Option<Duration>,
        answer: oneshot::Sender<UserAnswer>,
    },
    Pick {
        id: DialogId,
        spec: PickerSpec,
        picked: oneshot::Sender<Option<usize>>,
    },
    Close(oneshot::Sender<()>),
}

/// The screen of a terminal chat.
#[derive(Debug)]
pub struct Screen;

impl Screen {
    /// Takes the terminal over and starts the screen. Standard input and output must be a terminal.
    pub fn open(options: ScreenOptions) -> Result<(ScreenHandle, Operations), Error> {
        let terminal =
            OpenTerminal::take_over(&*options.clock, options.backup.clone()).map_err(Error::Terminal)?;
        let background = match options.theme_mode {
            ThemeMode::Auto => terminal.background.unwrap_or_default(),
            ThemeMode::Fixed(background) => background,
        };
        let pictures = match options.pictures {
            PictureSupport::Ask => terminal.pictures,
            PictureSupport::Known(protocol) => Some(protocol),
            PictureSupport::Off => None,
        };
        let history = options.history.as_ref().map(|history| history.load()).unwrap_or_default();
        let now = options.clock.monotonic();
        let mut state = ScreenState::new(ScreenSetup {
            theme: (options.theme)(background),
            transcript: options.transcript,
            busy_input: options.busy_input,
            bell_on_complete: options.bell_on_complete,
            commands: options.commands,
            history,
            placeholder: options.placeholder,
            times: options.times,
            fold: options.fold,
            width: terminal.width,
            height: terminal.height,
            record_key: options.record_key,
            now,
        });
        drop(state.update(ScreenInput::Status(options.status), now));
        if !terminal.typed.is_empty() {
            drop(state.update(ScreenInput::Paste(terminal.typed.clone()), now));
        }
        let (requests, received) = mpsc::unbounded_channel();
        let (operations, operated) = mpsc::unbounded_channel();
        let ports = ShellPorts {
            clock: options.clock,
            history: options.history,
            completion: options.completion,
            editor: options.editor,
            images: options.images,
            requests: requests.downgrade(),
            cancel: options.cancel.clone(),
        };
        let shell = ScreenShell::new(state, terminal, ports, received, operations);
        // The screen outlives its task handle: it ends with its token, or when it is closed.
        drop(hermes_task::spawn_cooperative("screen", &options.cancel, |cancel| shell.run(cancel)));
        let handle =
            ScreenHandle { requests, limits: options.limits, background, pictures, next: Arc::default() };
        Ok((handle, Operations { receiver: operated }))
    }
}

/// What the user wants, in order.
#[derive(Debug)]
pub struct Operations {
    receiver: mpsc::UnboundedReceiver<Operation>,
}

impl Operations {
    /// Returns the next operation; nothing when the screen has ended.
    pub async fn next(&mut self) -> Option<Operation> {
        self.receiver.recv().await
    }
}

/// Shows on the screen and asks there.
#[derive(Debug, Clone)]
pub struct ScreenHandle {
    requests: mpsc::UnboundedSender<ScreenRequest>,
    limits: AnswerLimits,
    background: Background,
    pictures: Option<PictureProtocol>,
    next: Arc<AtomicU64>,
}

impl ScreenHandle {
    /// Shows the banner above the input.
    pub fn print_banner(&self, banner: Banner) {
        self.send(ScreenInput::Banner(Box::new(banner)));
    }

    /// Shows plain text above the input.
    pub fn print(&self, text: impl Into<String>) {
        self.send(ScreenInput::Print(text.into()));
    }

    /// Shows Markdown above the input.
    pub fn print_markdown(&self, text: impl Into<String>) {
        self.send(ScreenInput::PrintMarkdown(text.into()));
    }

    /// Shows a remark of the program above the input.
    pub fn notice(&self, text: impl Into<String>) {
        self.send(ScreenInput::Notice(text.into()));
    }

    /// Ends the turn on the screen and shows the part of the answer that was not streamed.
    pub fn finish_turn(&self, response: Option<String>) {
        self.send(ScreenInput::TurnFinished(response));
    }

    pub fn set_status(&self, status: StatusFields) {
        self.send(ScreenInput::Status(status));
    }

    pub fn show_status_bar(&self, visibility: BarVisibility) {
        self.send(ScreenInput::StatusBar(visibility));
    }

    /// Changes how turns are shown from now on.
    pub fn set_transcript(&self, options: TranscriptOptions) {
        self.send(ScreenInput::Transcript(options));
    }

    /// Changes what typing during a turn does.
    pub fn set_busy_input(&self, mode: BusyInputMode) {
        self.send(ScreenInput::BusyInput(mode));
    }

    /// Shows the answer of a prompt in the background.
    pub fn print_answer(&self, remark: impl Into<String>, text: impl Into<String>) {
        self.send(ScreenInput::PrintAnswer { remark: remark.into(), text: text.into() });
    }

    /// Shows what a prompt in the background does.
    pub fn show_background(&self, label: impl Into<String>, event: TurnEvent) {
        self.send(ScreenInput::Background { label: label.into(), event });
    }

    /// Lists the agents that work besides the conversation.
    pub fn list_agents(&self) {
        self.send(ScreenInput::ListAgents);
    }

    /// Shows the time of day beside messages from now on, or hides it.
    pub fn show_times(&self, labels: Option<TimeLabels>) {
        self.send(ScreenInput::Times(labels));
    }

    /// Adds a picture to the next message.
    pub fn attach(&self, image: PathBuf) {
        self.send(ScreenInput::Attach(image));
    }

    /// Shows a remark above the input for a moment.
    pub fn hint(&self, text: impl Into<String>) {
        self.send(ScreenInput::Hint(text.into()));
    }

    /// Changes the commands that the menu offers.
    pub fn set_commands(&self, commands: Vec<CommandItem>) {
        self.send(ScreenInput::Commands(commands));
    }

    /// Draws everything again.
    pub fn redraw(&self) {
        self.send(ScreenInput::Redraw);
    }

    /// Asks the terminal to copy a text to the clipboard.
    pub fn copy(&self, text: impl Into<String>) {
        self.send(ScreenInput::Copy(text.into()));
    }

    /// Returns the background of the terminal.
    pub fn background(&self) -> Background {
        self.background
    }

    /// Returns what draws pictures in the window as it is now; nothing if the terminal shows none.
    pub fn pictures(&self) -> Option<PictureCanvas> {
        let protocol = self.pictures?;
        let window = crossterm::terminal::window_size().ok()?;
        let cell = |pixels: u16, cells: u16, usual: u16| match pixels / cells.max(1) {
            0 => usual,
            cell => cell,
        };
        let display = PictureDisplay {
            protocol,
            cell: (
                cell(window.width, window.columns, USUAL_CELL.0),
                cell(window.height, window.rows, USUAL_CELL.1),
            ),
            window: (window.columns, window.rows),
        };
        Some(PictureCanvas { display, screen: self.clone() })
    }

    /// Shows what voice mode does.
    pub fn set_voice(&self, activity: VoiceActivity) {
        self.send(ScreenInput::Voice(activity));
    }

    /// Shows a message of the user that was not typed.
    pub fn echo(&self, text: impl Into<String>) {
        self.send(ScreenInput::Echo(text.into()));
    }

    /// Clears the visible part of the terminal; the scrollback stays.
    pub fn clear(&self) {
        self.send(ScreenInput::Clear);
    }

    pub fn set_theme(&self, theme: Theme) {
        self.send(ScreenInput::Theme(Box::new(theme)));
    }

    /// Locks the input while a slow command runs, and shows the text; `None` unlocks it.
    pub fn lock_input(&self, status: Option<String>) {
        self.send(ScreenInput::Lock(status));
    }

    /// Lets the user pick an entry. Returns nothing when the picker was left or the screen ended.
    pub async fn pick(&self, spec: PickerSpec) -> Option<usize> {
        let id = self.next_id();
        let (picked, receiver) = oneshot::channel();
        self.requests.send(ScreenRequest::Pick { id, spec, picked }).ok()?;
        let withdrawal = Withdrawal { handle: self, id: Some(id) };
        let index = receiver.await.ok().flatten();
        withdrawal.forget();
        index
    }

    /// Ends the screen. Returns once the terminal is as it was.
    pub async fn close(&self) {
        let (done, closed) = oneshot::channel();
        if self.requests.send(ScreenRequest::Close(done)).is_ok() {
            // An error means that the screen had already ended.
            let _ = closed.await;
        }
    }

    fn send(&self, input: ScreenInput) {
        // After the screen ended there is nowhere to show anything.
        let _ = self.requests.send(ScreenRequest::Input(Box::new(input)));
    }

    fn next_id(&self) -> DialogId {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    fn limit(&self, question: &UserQuestion) -> Duration {
        match question {
            UserQuestion::Approve { .. } => self.limits.approve,
            UserQuestion::Clarify { .. } => self.limits.clarify,
            UserQuestion::Secret { name, .. } if name == SUDO => self.limits.sudo,
            UserQuestion::Secret { .. } => self.limits.secret,
        }
    }
}

/// Draws pictures above the input.
#[derive(Debug, Clone)]
pub struct PictureCanvas {
    pub display: PictureDisplay,
    screen: ScreenHandle,
}

impl PictureCanvas {
    pub fn show(&self, picture: TerminalPicture) {
        self.screen.send(ScreenInput::Picture(Box::new(picture)));
    }
}

/// Closes a dialog when the one who asked stops waiting.
struct Withdrawal<'a> {
    handle: &'a ScreenHandle,
    id: Option<DialogId>,
}

impl Withdrawal<'_> {
    /// Leaves the dialog alone, because it was answered.
    fn forget(mut self) {
        self.id = None;
    }
}

impl Drop for Withdrawal<'_> {
    fn drop(&mut self) {
        if let Some(id) = self.id {
            self.handle.send(ScreenInput::Withdraw { id });
        }
    }
}

impl Frontend for ScreenHandle {
    fn show(&self, event: TurnEvent) {
        self.send(ScreenInput::Turn(event));
    }

    fn ask<'a>(&'a self, question: UserQuestion, cancel: &'a Cancel) -> BoxFuture<'a, UserAnswer> {
        Box::pin(async move {
            let id = self.next_id();
            let limit = self.limit(&question);
            let (answer, receiver) = oneshot::channel();
            let request = ScreenRequest::Ask { id, question, time_limit: Some(limit), answer };
            if self.requests.send(request).is_err() {
                return UserAnswer::Unavailable;
            }
            let withdrawal = Withdrawal { handle: self, id: Some(id) };
            tokio::select! {
                biased;
                answer = receiver => {
                    withdrawal.forget();
                    answer.unwrap_or(UserAnswer::Unavailable)
                }
                () = cancel.cancelled() => UserAnswer::Unavailable,
            }
        })
    }
}
