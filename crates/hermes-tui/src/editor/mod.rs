//! The editor of the input: text, kill ring, history, folded pastes.
//!
//! Holds the meaning of editing keys and no more: Enter, Tab, Escape and Ctrl-C belong to the screen. Pure.

mod buffer;
mod history;

use std::collections::VecDeque;
use std::path::PathBuf;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use unicode_segmentation::UnicodeSegmentation as _;

pub use buffer::{Motion, TextBuffer};
pub(crate) use history::{HistoryBrowser, HistorySearch};
pub use history::{InputHistory, format_history_entry, parse_history};

use buffer::{fold_char, fold_index};

const MAX_KILLS: usize = 32;

/// From when on a paste is folded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FoldLimits {
    /// A paste with at least as many line breaks is folded.
    pub line_breaks: usize,
    /// A paste with more characters is folded.
    pub chars: usize,
}

impl Default for FoldLimits {
    fn default() -> Self {
        Self { line_breaks: 5, chars: 2_000 }
    }
}

/// What is done to the text that was removed last, so that a run of removals is one entry of the kill ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum LastCommand {
    #[default]
    Other,
    Kill,
    Yank {
        bytes: usize,
    },
}

/// Whether the editor knew a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyUse {
    Used,
    Unused,
}

/// The editor of one text.
#[derive(Debug, Clone, Default)]
pub struct Editor {
    buffer: TextBuffer,
    kills: VecDeque<String>,
    last: LastCommand,
    pastes: Vec<String>,
    fold: FoldLimits,
    pub(crate) history: HistoryBrowser,
}

/// The text of an editor when it is sent.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EditedText {
    /// The text with every paste in full.
    pub text: String,
    /// The text as it was shown, with labels for folded pastes.
    pub label: String,
    /// The folded pastes, in the order of the text.
    pub pastes: Vec<String>,
    /// The pictures that go with the text.
    pub images: Vec<PathBuf>,
}

impl Editor {
    pub fn with_history(entries: Vec<String>, fold: FoldLimits) -> Self {
        Self { history: HistoryBrowser::new(entries), fold, ..Self::default() }
    }

    pub fn buffer(&self) -> &TextBuffer {
        &self.buffer
    }

    pub fn is_empty(&self) -> bool {
        self.buffer.is_empty()
    }

    /// Replaces the text, as after a step in the history or an external editor.
    pub fn set(&mut self, text: &str) {
        self.buffer.set(&sanitize(text));
        self.last = LastCommand::Other;
    }

    pub fn insert(&mut self, text: &str) {
        self.buffer.insert(&sanitize(text));
        self.last = LastCommand::Other;
    }

    /// Inserts pasted text; a long one is folded to a label that is edited as one character.
    pub fn paste(&mut self, text: &str) {
        let text = sanitize(&text.replace("\r\n", "\n").replace('\r', "\n"));
        let is_long =
            text.matches('\n').count() >= self.fold.line_breaks || text.chars().count() > self.fold.chars;
        let fold = fold_char(self.pastes.len()).filter(|_| is_long && !self.buffer.text().starts_with('/'));
        match fold {
            Some(fold) => {
                self.pastes.push(text);
                self.buffer.insert(&fold.to_string());
            }
            None => self.buffer.insert(&text),
        }
        self.last = LastCommand::Other;
    }

    /// Takes the text out of the editor.
    pub fn take(&mut self) -> EditedText {
        let edited = self.edited();
        self.clear();
        edited
    }

    /// Returns the text as it would be sent.
    pub fn edited(&self) -> EditedText {
        let mut edited = EditedText::default();
        for c in self.buffer.text().chars() {
            if let Some(paste) = fold_index(c).and_then(|index| self.pastes.get(index)) {
                edited.text.push_str(paste);
                edited.label.push_str(&fold_label(fold_index(c).unwrap_or_default(), paste));
                edited.pastes.push(paste.clone());
            } else {
                edited.text.push(c);
                edited.label.push(c);
            }
        }
        edited
    }

    /// Forgets the text, its former states and its pastes. The kill ring and the history stay.
    pub fn clear(&mut self) {
        self.buffer.clear();
        self.pastes.clear();
        self.history.reset();
        self.last = LastCommand::Other;
    }

    /// Returns what a grapheme of the buffer is shown as.
    pub(crate) fn shown(&self, symbol: &str) -> Option<String> {
        let index = symbol.chars().next().and_then(fold_index)?;
        Some(self.pastes.get(index).map_or_else(String::new, |paste| fold_label(index, paste)))
    }

    /// Replaces the text before the cursor, for completion.
    pub(crate) fn complete(&mut self, bytes: usize, text: &str) {
        self.buffer.replace_before(bytes, &sanitize(text));
        self.last = LastCommand::Other;
    }

    pub(crate) fn move_to(&mut self, motion: Motion) {
        self.buffer.move_to(motion);
        self.last = LastCommand::Other;
    }

    /// Returns the rest of an earlier input that begins with this text.
    pub(crate) fn suggestion(&self) -> Option<&str> {
        self.buffer.after().is_empty().then(|| self.history.suggestion(self.buffer.text())).flatten()
    }

    pub(crate) fn older(&mut self) {
        if let Some(entry) = self.history.older(self.buffer.text()) {
            self.set(&entry);
        }
    }

    pub(crate) fn newer(&mut self) {
        if let Some(entry) = self.history.newer() {
            self.set(&entry);
        }
    }

    /// Handles an editing key.
    pub fn key(&mut self, key: KeyEvent) -> KeyUse {
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        let alt = key.modifiers.contains(KeyModifiers::ALT);
        let last = std::mem::take(&mut self.last);
        match key.code {
            KeyCode::Char(c) if control && !alt => return self.control_key(c.to_ascii_lowercase(), last),
            KeyCode::Char(c) if alt && !control => return self.alt_key(c.to_ascii_lowercase(), last),
            // Control and Alt together are how some keyboards type further characters.
            KeyCode::Char(c) => self.buffer.insert(&sanitize(&c.to_string())),
            KeyCode::Backspace if alt || control => self.kill(Motion::WordLeft, last),
            KeyCode::Backspace => drop(self.buffer.erase(Motion::Left)),
            KeyCode::Delete if alt || control => self.kill(Motion::WordRight, last),
            KeyCode::Delete => drop(self.buffer.erase(Motion::Right)),
            KeyCode::Left if alt || control => self.buffer.move_to(Motion::WordLeft),
            KeyCode::Left => self.buffer.move_to(Motion::Left),
            KeyCode::Right if alt || control => self.buffer.move_to(Motion::WordRight),
            KeyCode::Right => self.buffer.move_to(Motion::Right),
            KeyCode::Home if control => self.buffer.move_to(Motion::Start),
            KeyCode::Home => self.buffer.move_to(Motion::LineStart),
            KeyCode::End if control => self.buffer.move_to(Motion::End),
            KeyCode::End => self.buffer.move_to(Motion::LineEnd),
            KeyCode::Up => self.up(),
            KeyCode::Down => self.down(),
            _ => return KeyUse::Unused,
        }
        KeyUse::Used
    }

    fn control_key(&mut self, c: char, last: LastCommand) -> KeyUse {
        match c {
            'a' => self.buffer.move_to(Motion::LineStart),
            'e' => self.buffer.move_to(Motion::LineEnd),
            'b' => self.buffer.move_to(Motion::Left),
            'f' => self.buffer.move_to(Motion::Right),
            'p' => self.up(),
            'n' => self.down(),
            'd' => drop(self.buffer.erase(Motion::Right)),
            'h' => drop(self.buffer.erase(Motion::Left)),
            'u' => self.kill(Motion::LineStart, last),
            'k' if self.buffer.after().starts_with('\n') => self.kill(Motion::Right, last),
            'k' => self.kill(Motion::LineEnd, last),
            'w' => self.kill(Motion::BlankLeft, last),
            'y' => self.yank(),
            't' => self.buffer.transpose(),
            // Terminals send the same for Ctrl-/, Ctrl-7 and Ctrl-_.
            '_' | '/' | '7' | 'z' => drop(self.buffer.undo()),
            _ => return KeyUse::Unused,
        }
        KeyUse::Used
    }

    fn alt_key(&mut self, c: char, last: LastCommand) -> KeyUse {
        match c {
            'b' => self.buffer.move_to(Motion::WordLeft),
            'f' => self.buffer.move_to(Motion::WordRight),
            'd' => self.kill(Motion::WordRight, last),
            'y' => self.yank_older(last),
            '_' | '/' => drop(self.buffer.redo()),
            '<' => self.buffer.move_to(Motion::Start),
            '>' => self.buffer.move_to(Motion::End),
            _ => return KeyUse::Unused,
        }
        KeyUse::Used
    }

    fn up(&mut self) {
        if !self.buffer.move_up() {
            self.older();
        }
    }

    fn down(&mut self) {
        if !self.buffer.move_down() {
            self.newer();
        }
    }

    fn kill(&mut self, motion: Motion, last: LastCommand) {
        let is_backward = matches!(motion, Motion::WordLeft | Motion::BlankLeft | Motion::LineStart);
        let removed = self.buffer.erase(motion);
        if removed.is_empty() {
            return;
        }
        self.last = LastCommand::Kill;
        match self.kills.front_mut().filter(|_| last == LastCommand::Kill) {
            Some(front) if is_backward => front.insert_str(0, &removed),
            Some(front) => front.push_str(&removed),
            None => {
                self.kills.push_front(removed);
                self.kills.truncate(MAX_KILLS);
            }
        }
    }

    fn yank(&mut self) {
        if let Some(text) = self.kills.front() {
            self.buffer.insert(text);
            self.last = LastCommand::Yank { bytes: text.len() };
        }
    }

    /// Replaces what was just yanked by the kill before it.
    fn yank_older(&mut self, last: LastCommand) {
        let LastCommand::Yank { bytes } = last else { return };
        self.kills.rotate_left(1.min(self.kills.len()));
        if let Some(text) = self.kills.front() {
            self.buffer.replace_before(bytes, text);
            self.last = LastCommand::Yank { bytes: text.len() };
        }
    }
}

/// Returns the text without the private characters that stand for pastes, and with line breaks of one kind.
fn sanitize(text: &str) -> String {
    text.chars().filter(|c| fold_index(*c).is_none() && *c != '\r').collect()
}

fn fold_label(index: usize, paste: &str) -> String {
    format!("[Pasted text #{}: {} lines]", index + 1, paste.lines().count())
}

/// Returns the number of graphemes, for hidden input.
pub(crate) fn grapheme_count(text: &str) -> usize {
    text.graphemes(true).count()
}
