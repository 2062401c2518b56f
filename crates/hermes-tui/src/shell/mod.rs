//! The shell around the state of the screen: the terminal, the input, the time, the painting.
//!
//! Holds no decision about what is shown. Invariant: one task reads keys, updates the state and paints; everything else reaches
//! it through its channel.

mod painter;
mod terminal;

use std::collections::HashMap;
use std::io::{self, Stdout};
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use crossterm::event::{Event, EventStream};
use futures_util::StreamExt as _;
use hermes_types::{Cancel, Clock, UserAnswer};
use rustix::process::{Signal, kill_current_process_group};
use tokio::sync::{mpsc, oneshot};

pub use painter::{Painter, ResizeBehavior};
pub use terminal::{TerminalBackup, restore_terminal};

use self::terminal::{FrameGuard, TerminalAnswer, TerminalGuard};
use crate::completion::CompletionSource;
use crate::dialog::DialogId;
use crate::editor::InputHistory;
use crate::handle::ScreenRequest;
use crate::picture::PictureProtocol;
use crate::screen::{Operation, ScreenEffect, ScreenInput, ScreenState};
use crate::theme::Background;

/// The most keys that are taken before the next paint.
const MAX_KEYS_PER_PAINT: usize = 512;
/// The shortest time between two paints while events stream in.
const FRAME_TIME: Duration = Duration::from_millis(16);

/// Edits a text in the user's editor, while the screen does not use the terminal.
pub trait ExternalEditor: Send + Sync {
    /// Returns the edited text; nothing when it could not be edited.
    fn edit(&self, text: String) -> hermes_types::BoxFuture<'_, Option<String>>;
}

/// Finds pictures for a message, outside the screen.
pub trait ImageSource: Send + Sync {
    /// Returns the picture whose path was pasted; nothing if the text is no path of a picture.
    fn find(&self, pasted: &str) -> Option<PathBuf>;

    /// Stores the picture in the clipboard and returns its path, or says why there is none.
    fn clipboard(&self) -> hermes_types::BoxFuture<'static, Result<PathBuf, String>>;
}

/// The ports of the shell.
#[derive(Clone)]
pub(crate) struct ShellPorts {
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) history: Option<Arc<dyn InputHistory>>,
    pub(crate) completion: Option<Arc<dyn CompletionSource>>,
    pub(crate) editor: Option<Arc<dyn ExternalEditor>>,
    pub(crate) images: Option<Arc<dyn ImageSource>>,
    /// The way back to the screen for what is found in the background.
    pub(crate) requests: mpsc::WeakUnboundedSender<ScreenRequest>,
    pub(crate) cancel: Cancel,
}

/// A terminal that was taken over and not yet used.
pub(crate) struct OpenTerminal {
    guard: TerminalGuard,
    pub(crate) background: Option<Background>,
    resize_behavior: ResizeBehavior,
    /// How the terminal draws pictures, if it said so.
    pub(crate) pictures: Option<PictureProtocol>,
    /// What was typed before the screen was there.
    pub(crate) typed: String,
    pub(crate) width: u16,
    pub(crate) height: u16,
}

impl OpenTerminal {
    pub(crate) fn take_over(clock: &dyn Clock, backup: Option<Arc<dyn TerminalBackup>>) -> io::Result<Self> {
        let guard = TerminalGuard::take_over(backup)?;
        let (width, height) = crossterm::terminal::size()?;
        let TerminalAnswer { background, resize_behavior, pictures, typed } = terminal::ask(clock);
        Ok(Self { guard, background, resize_behavior, pictures, typed, width, height })
    }
}

/// The running screen.
pub(crate) struct ScreenShell {
    state: ScreenState,
    painter: Painter<Stdout>,
    /// The size that was painted for last.
    size: (u16, u16),
    guard: TerminalGuard,
    ports: ShellPorts,
    keys: Option<EventStream>,
    requests: mpsc::UnboundedReceiver<ScreenRequest>,
    operations: mpsc::UnboundedSender<Operation>,
    answers: HashMap<DialogId, oneshot::Sender<UserAnswer>>,
    picks: HashMap<DialogId, oneshot::Sender<Option<usize>>>,
    is_closed: bool,
}

impl ScreenShell {
    pub(crate) fn new(
        state: ScreenState,
        terminal: OpenTerminal,
        ports: ShellPorts,
        requests: mpsc::UnboundedReceiver<ScreenRequest>,
        operations: mpsc::UnboundedSender<Operation>,
    ) -> Self {
        let (width, height) = (terminal.width, terminal.height);
        let painter = Painter::new(io::stdout(), width, height, terminal.resize_behavior);
        Self {
            state,
            painter,
            size: (width, height),
            guard: terminal.guard,
            ports,
            keys: None,
            requests,
            operations,
            answers: HashMap::new(),
            picks: HashMap::new(),
            is_closed: false,
        }
    }

    /// Runs until the screen is closed or the terminal is gone, and gives the terminal back.
    pub(crate) async fn run(mut self, cancel: Cancel) {
        self.keys = Some(EventStream::new());
        if let Err(error) = self.run_until_closed(&cancel).await {
            tracing::warn!(%error, "the screen ended");
            // Without a terminal nobody can say anything any more.
            let _ = self.operations.send(Operation::Quit);
        }
        // Rows that are finished are shown, whatever ended the screen.
        let rows = self.state.take_finished();
        let _ = self.painter.paint(&rows, &crate::screen::ScreenFrame::default());
        let _ = self.painter.clear();
        drop(self.guard);
    }

    async fn run_until_closed(&mut self, cancel: &Cancel) -> io::Result<()> {
        self.paint()?;
        let mut painted_at = self.ports.clock.monotonic();
        let mut needs_paint = false;
        while !self.is_closed {
            let wait = if needs_paint {
                FRAME_TIME.saturating_sub(self.ports.clock.monotonic().saturating_sub(painted_at))
            } else {
                self.state.next_tick(self.ports.clock.monotonic())
            };
            let next = tokio::select! {
                biased;
                () = cancel.cancelled() => break,
                event = next_event(&mut self.keys) => NextInput::Terminal(event),
                request = self.requests.recv() => NextInput::Request(request),
                () = self.ports.clock.sleep(wait) => NextInput::Tick,
            };
            match next {
                NextInput::Terminal(None) => return Err(io::ErrorKind::UnexpectedEof.into()),
                // While a window is dragged, one size follows another: the last one is painted for.
                NextInput::Terminal(Some(Ok(Event::Resize(..)))) => {
                    (painted_at, needs_paint) = (self.ports.clock.monotonic(), true);
                }
                NextInput::Terminal(Some(event)) => {
                    self.terminal_event(event?).await?;
                    // Keys that are already there are painted together: a fast typist, or a paste that is not marked.
                    for _ in 0..MAX_KEYS_PER_PAINT {
                        if self.keys.is_none() || self.is_closed || !crossterm::event::poll(Duration::ZERO)? {
                            break;
                        }
                        self.terminal_event(crossterm::event::read()?).await?;
                    }
                    // A key is answered at once.
                    self.paint()?;
                    (painted_at, needs_paint) = (self.ports.clock.monotonic(), false);
                }
                NextInput::Request(None) => break,
                NextInput::Request(Some(request)) => {
                    TerminalGuard::forget_panic();
                    self.request(request).await?;
                    // What is already there is painted together.
                    while let Ok(request) = self.requests.try_recv() {
                        self.request(request).await?;
                    }
                    let passed = self.ports.clock.monotonic().saturating_sub(painted_at);
                    needs_paint = passed < FRAME_TIME;
                    if !needs_paint {
                        self.paint()?;
                        painted_at = self.ports.clock.monotonic();
                    }
                }
                NextInput::Tick => {
                    self.update(ScreenInput::Tick).await?;
                    self.paint()?;
                    (painted_at, needs_paint) = (self.ports.clock.monotonic(), false);
                }
            }
        }
        Ok(())
    }

    fn paint(&mut self) -> io::Result<()> {
        let now = self.ports.clock.monotonic();
        let _drawing = FrameGuard::acquire();
        if !TerminalGuard::is_held() && !self.is_closed {
            if TerminalGuard::has_panicked() {
                return Ok(());
            }
            TerminalGuard::resume()?;
            self.painter.invalidate();
        }
        // The size is asked for each time, because a row of an older width would be broken.
        let size = crossterm::terminal::size()?;
        if size != self.size {
            self.resize(size, now);
        }
        let finished = self.state.take_finished();
        self.painter.paint(&finished, &self.state.view(now))
    }

    async fn terminal_event(&mut self, event: Event) -> io::Result<()> {
        let input = match event {
            Event::Key(key) => ScreenInput::Key(key),
            Event::Paste(text) => ScreenInput::Paste(text),
            // The size is looked at before each paint.
            Event::Resize(..) | Event::FocusGained | Event::FocusLost | Event::Mouse(_) => return Ok(()),
        };
        self.update(input).await
    }

    async fn request(&mut self, request: ScreenRequest) -> io::Result<()> {
        match request {
            ScreenRequest::Input(input) => {
                if let ScreenInput::Withdraw { id } = &*input {
                    self.answers.remove(id);
                    self.picks.remove(id);
                }
                self.update(*input).await
            }
            ScreenRequest::Ask { id, question, time_limit, answer } => {
                self.answers.insert(id, answer);
                self.update(ScreenInput::Ask { id, question, time_limit }).await
            }
            ScreenRequest::Pick { id, spec, picked } => {
                self.picks.insert(id, picked);
                self.update(ScreenInput::Pick { id, spec }).await
            }
            ScreenRequest::Close(done) => {
                self.is_closed = true;
                let rows = self.state.take_finished();
                self.painter.paint(&rows, &crate::screen::ScreenFrame::default())?;
                self.painter.clear()?;
                restore_terminal();
                // Whoever asked may have stopped waiting.
                let _ = done.send(());
                Ok(())
            }
        }
    }

    /// Updates the state and does what follows from it.
    fn update(&mut self, input: ScreenInput) -> Pin<Box<dyn Future<Output = io::Result<()>> + Send + '_>> {
        Box::pin(async move {
            for effect in self.state.update(input, self.ports.clock.monotonic()) {
                self.perform(effect).await?;
            }
            Ok(())
        })
    }

    async fn perform(&mut self, effect: ScreenEffect) -> io::Result<()> {
        match effect {
            ScreenEffect::Operate(operation) => {
                // Nobody receives operations any more: the program is ending.
                let _ = self.operations.send(operation);
            }
            ScreenEffect::Answer { id, answer } => {
                if let Some(asker) = self.answers.remove(&id) {
                    let _ = asker.send(answer);
                }
            }
            ScreenEffect::Picked { id, index } => {
                if let Some(asker) = self.picks.remove(&id) {
                    let _ = asker.send(index);
                }
            }
            ScreenEffect::Remember(text) => {
                if let Some(history) = &self.ports.history {
                    history.append(&text);
                }
            }
            ScreenEffect::Complete(word) => {
                if let Some(source) = &self.ports.completion {
                    let items = source.candidates(&word);
                    return self.update(ScreenInput::Candidates { word, items }).await;
                }
            }
            ScreenEffect::Edit(text) => return self.edit(text).await,
            ScreenEffect::FindImage(text) => {
                let image = self.ports.images.as_ref().and_then(|images| images.find(&text));
                return self.update(ScreenInput::ImageFound { text, image }).await;
            }
            ScreenEffect::PasteImage => self.paste_image(),
            ScreenEffect::Suspend => return self.suspend(),
            ScreenEffect::Repaint => self.painter.invalidate(),
            ScreenEffect::Picture(picture) => {
                // What stands above the picture is painted first.
                self.paint()?;
                let _drawing = FrameGuard::acquire();
                self.painter.paint_picture(&picture)?;
            }
            ScreenEffect::ClearTerminal => self.painter.clear_terminal()?,
            ScreenEffect::Bell => self.painter.write_sequence("\u{7}")?,
            ScreenEffect::Copy(text) => self.painter.write_sequence(&clipboard_sequence(&text))?,
        }
        Ok(())
    }

    /// Looks for a picture in the clipboard, in the background, because another program has to be asked.
    fn paste_image(&self) {
        let Some(images) = &self.ports.images else { return };
        let (looking, requests) = (images.clipboard(), self.ports.requests.clone());
        drop(hermes_task::spawn_named("clipboard", &self.ports.cancel, async move {
            let input = match looking.await {
                Ok(image) => ScreenInput::Attach(image),
                Err(reason) => ScreenInput::Hint(reason),
            };
            if let Some(requests) = requests.upgrade() {
                // The screen has ended when nobody receives this.
                let _ = requests.send(ScreenRequest::Input(Box::new(input)));
            }
        }));
    }

    async fn edit(&mut self, text: String) -> io::Result<()> {
        let Some(editor) = self.ports.editor.clone() else { return Ok(()) };
        // The stream of keys is dropped, so that the editor gets what is typed.
        self.keys = None;
        self.painter.clear()?;
        restore_terminal();
        let edited = editor.edit(text).await;
        self.come_back()?;
        self.update(ScreenInput::Edited(edited)).await
    }

    fn suspend(&mut self) -> io::Result<()> {
        self.keys = None;
        self.painter.clear()?;
        restore_terminal();
        // The process stops here until it is continued.
        let stopped = kill_current_process_group(Signal::TSTP);
        self.come_back()?;
        stopped.map_err(io::Error::from)
    }

    /// Takes the terminal over again after another program had it.
    fn come_back(&mut self) -> io::Result<()> {
        TerminalGuard::resume()?;
        self.keys = Some(EventStream::new());
        self.painter.restart();
        Ok(())
    }

    fn resize(&mut self, (width, height): (u16, u16), now: Duration) {
        self.size = (width, height);
        self.painter.resize(width, height);
        // Nothing follows from a size.
        drop(self.state.update(ScreenInput::Resize { width, height }, now));
    }
}

/// Returns the sequence that asks a terminal to copy a text to the clipboard (OSC 52).
pub fn clipboard_sequence(text: &str) -> String {
    format!("\u{1b}]52;c;{}\u{7}", data_encoding::BASE64.encode(text.as_bytes()))
}

enum NextInput {
    Terminal(Option<io::Result<Event>>),
    Request(Option<ScreenRequest>),
    Tick,
}

async fn next_event(keys: &mut Option<EventStream>) -> Option<io::Result<Event>> {
    match keys {
        Some(keys) => keys.next().await,
        None => std::future::pending().await,
    }
}
