//! What goes into the state of the screen, and what comes out.

use crossterm::event::KeyEvent;
use hermes_types::{TurnEvent, UserAnswer, UserQuestion};

use crate::completion::CompletionItem;
use crate::dialog::{DialogId, PickerSpec};
use crate::editor::EditedText;
use crate::status::StatusFields;
use crate::theme::Theme;
use crate::transcript::TranscriptOptions;

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
        time_limit: Option<std::time::Duration>,
    },
    Pick {
        id: DialogId,
        spec: PickerSpec,
    },
    /// Nobody waits for the answer any more.
    Withdraw {
        id: DialogId,
    },
    /// Plain text for the scrollback.
    Print(String),
    /// Markdown for the scrollback.
    PrintMarkdown(String),
    Notice(String),
    Status(StatusFields),
    StatusBar(BarVisibility),
    Theme(Box<Theme>),
    Transcript(TranscriptOptions),
    BusyInput(BusyInputMode),
    /// Clears the visible part of the terminal.
    Clear,
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
    /// Time passed.
    Tick,
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
    /// Stops the process until the shell continues it.
    Suspend,
    /// Draws everything anew.
    Repaint,
    Bell,
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
