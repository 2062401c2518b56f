//! What goes into the state of the screen, and what comes out.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crossterm::event::KeyEvent;
use hermes_types::{TurnEvent, UserAnswer, UserQuestion};

use crate::banner::Banner;
use crate::completion::{CommandItem, CompletionItem};
use crate::dialog::{DialogId, PickerSpec};
use crate::editor::EditedText;
use crate::glyphs::clean_line;
use crate::picture::TerminalPicture;
use crate::status::StatusFields;
use crate::theme::Theme;
use crate::transcript::TranscriptOptions;
use crate::voice::VoiceActivity;

/// Something that happened.
#[derive(Debug, Clone)]
pub enum ScreenInput {
    Key(KeyEvent),
    Paste(String),
    Resize {
        width: u16,
        height: u16,
    },
    Turn(TurnEvent),
    /// The turn is over, and this is its answer; what of it is not on the screen is shown.
    TurnFinished(Option<String>),
    Ask {
        id: DialogId,
        question: UserQuestion,
        time_limit: Option<Duration>,
    },
    Pick {
        id: DialogId,
        spec: PickerSpec,
    },
    /// Nobody waits for the answer any more.
    Withdraw {
        id: DialogId,
    },
    /// The banner of the chat, for the scrollback.
    Banner(Box<Banner>),
    /// Plain text for the scrollback.
    Print(String),
    /// Markdown for the scrollback.
    PrintMarkdown(String),
    /// An answer of a prompt in the background: a remark for its head, and the text.
    PrintAnswer {
        remark: String,
        text: String,
    },
    /// An event of a prompt in the background.
    Background {
        label: String,
        event: TurnEvent,
    },
    /// Lists the agents that work besides the conversation.
    ListAgents,
    /// How the time of day is shown beside messages from now on; nothing hides it.
    Times(Option<TimeLabels>),
    Notice(String),
    /// A remark above the input that goes away by itself.
    Hint(String),
    Status(StatusFields),
    StatusBar(BarVisibility),
    Theme(Box<Theme>),
    Transcript(TranscriptOptions),
    BusyInput(BusyInputMode),
    /// The commands that the menu offers from now on.
    Commands(Vec<CommandItem>),
    /// Clears the visible part of the terminal.
    Clear,
    /// What voice mode does.
    Voice(VoiceActivity),
    /// Shows a message of the user that was not typed.
    Echo(String),
    /// Draws a picture above the input.
    Picture(Box<TerminalPicture>),
    Redraw,
    /// Copies a text to the clipboard.
    Copy(String),
    /// A slow command runs: this is shown, and nothing can be typed. Nothing ends it.
    Lock(Option<String>),
    /// The answer to `ScreenEffect::Complete`.
    Candidates {
        word: String,
        items: Vec<CompletionItem>,
    },
    /// The text after the external editor; nothing when it failed.
    Edited(Option<String>),
    /// A picture that goes with the next message.
    Attach(PathBuf),
    /// The answer to `ScreenEffect::FindImage`: the picture the text names, if it names one.
    ImageFound {
        text: String,
        image: Option<PathBuf>,
    },
    /// Time passed.
    Tick,
}

/// Formats the time of day at an instant of the screen's clock.
#[derive(Clone)]
pub struct TimeLabels(Arc<dyn Fn(Duration) -> String + Send + Sync>);

impl TimeLabels {
    pub fn new(label: impl Fn(Duration) -> String + Send + Sync + 'static) -> Self {
        Self(Arc::new(label))
    }

    pub(super) fn at(&self, now: Duration) -> String {
        clean_line(&(self.0)(now))
    }
}

impl fmt::Debug for TimeLabels {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("TimeLabels")
    }
}

/// Whether the status bar is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BarVisibility {
    Shown,
    Hidden,
    /// The opposite of what it is.
    Toggled,
}

/// Something the surroundings of the screen do.
#[derive(Debug, Clone, PartialEq)]
pub enum ScreenEffect {
    Operate(Operation),
    Answer {
        id: DialogId,
        answer: UserAnswer,
    },
    Picked {
        id: DialogId,
        index: Option<usize>,
    },
    /// Adds an input to the history.
    Remember(String),
    /// Finds candidates for a word.
    Complete(String),
    /// Opens the text in an external editor.
    Edit(String),
    /// Looks whether a pasted text is the path of a picture.
    FindImage(String),
    /// Looks for a picture in the clipboard.
    PasteImage,
    /// Stops the process until the shell continues it.
    Suspend,
    /// Draws everything anew.
    Repaint,
    Bell,
    /// Draws a picture below the rows that are finished.
    Picture(Box<TerminalPicture>),
    ClearTerminal,
    Copy(String),
}

/// What the user wants from the program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Operation {
    /// A message for the model, while no turn runs.
    Submit(EditedText),
    /// A slash command, at any time.
    Command(String),
    /// A message for the next turn, because one runs. In the mode `interrupt`, `Interrupt` follows.
    Queue(EditedText),
    /// A message for the turn that runs.
    Steer(EditedText),
    /// Stops the turn.
    Interrupt,
    /// Starts or ends a recording.
    Record,
    /// Throws a recording away.
    CancelRecording,
    /// Ends the program although the turn has not stopped.
    ForceQuit,
    Quit,
}

/// What a message does that is sent while a turn runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum BusyInputMode {
    #[default]
    Interrupt,
    Queue,
    Steer,
}
