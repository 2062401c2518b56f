//! The screen of the terminal chat: it takes events, draws them, and sends back what the user wants.
//!
//! Knows no agent, no store and no configuration. A pure core (`ScreenState`: inputs in, effects and frames out) under a thin
//! shell (terminal, keys, time, painting). The transcript goes to the terminal's own scrollback; only the block at the bottom is
//! ever drawn again. Invariant: nothing a model or a tool wrote reaches the terminal as a control sequence.

mod banner;
mod completion;
mod dialog;
mod editor;
mod error;
mod glyphs;
mod handle;
mod markdown;
mod markup;
mod picture;
mod screen;
mod shell;
mod skin;
mod status;
mod theme;
mod transcript;
mod voice;

pub use banner::{Banner, BannerSection, BannerSize};
pub use completion::{CommandItem, CompletionItem, CompletionSource};
pub use dialog::{DialogId, DialogOutcome, PickerItem, PickerSpec};
pub use editor::{
    EditedText, Editor, FoldLimits, InputHistory, KeyUse, Motion, TextBuffer, format_history_entry,
    parse_history,
};
pub use error::Error;
pub use glyphs::StyledLine;
pub use handle::{
    AnswerLimits, Operations, PictureCanvas, Screen, ScreenHandle, ScreenOptions, ThemeBuilder, ThemeMode,
};
pub use picture::{PictureDisplay, PicturePixels, PictureProtocol, PictureSupport, TerminalPicture};
pub use screen::{
    BarVisibility, BusyInputMode, Operation, ScreenEffect, ScreenFrame, ScreenInput, ScreenSetup,
    ScreenState, TimeLabels,
};
pub use shell::{
    ExternalEditor, ImageSource, Painter, ResizeBehavior, TerminalBackup, clipboard_sequence,
    restore_terminal,
};
pub use skin::Skin;
pub use status::StatusFields;
pub use theme::{Background, ColorDepth, Theme};
pub use transcript::{DiffDisplay, MarkdownDisplay, ReasoningDisplay, ToolFeedMode, TranscriptOptions};
pub use voice::{KeyChord, VoiceActivity};
