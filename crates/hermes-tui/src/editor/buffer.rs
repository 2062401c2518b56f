//! The text being typed and the place of the cursor in it.
//!
//! Knows nothing of keys, rows or colours. Invariants: the cursor is at a grapheme boundary; a folded paste is one grapheme,
//! so that nothing can take a part of it.

use unicode_segmentation::{GraphemeCursor, UnicodeSegmentation as _};

/// The first of the private characters that stand for folded pastes.
const FIRST_FOLD: u32 = 0x000f_0000;
const LAST_FOLD: u32 = 0x000f_fffd;
const MAX_UNDO: usize = 200;

/// Returns the character that stands for the paste with this index.
pub(super) fn fold_char(index: usize) -> Option<char> {
    char::from_u32(FIRST_FOLD + u32::try_from(index).ok()?).filter(|c| fold_index(*c).is_some())
}

/// Returns the index of the paste a character stands for.
pub(super) fn fold_index(c: char) -> Option<usize> {
    let code = u32::from(c);
    (FIRST_FOLD..=LAST_FOLD).contains(&code).then(|| usize::try_from(code - FIRST_FOLD).unwrap_or_default())
}

/// Where the cursor goes, or up to where something is removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Motion {
    Left,
    Right,
    WordLeft,
    WordRight,
    /// To the left, up to the blank before the word, whatever it consists of.
    BlankLeft,
    LineStart,
    LineEnd,
    Start,
    End,
}

/// What the last change was, so that a run of the same kind is undone at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum EditKind {
    #[default]
    Other,
    Typing,
    Erasing,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Snapshot {
    text: String,
    cursor: usize,
}

/// An editable text with undo.
#[derive(Debug, Clone, Default)]
pub struct TextBuffer {
    text: String,
    cursor: usize,
    undo: Vec<Snapshot>,
    redo: Vec<Snapshot>,
    last: EditKind,
    /// The column that moves up and down aim for.
    goal: Option<usize>,
}

impl TextBuffer {
    pub fn text(&self) -> &str {
        &self.text
    }

    pub fn cursor(&self) -> usize {
        self.cursor
    }

    pub fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    /// Returns the text before the cursor.
    pub fn before(&self) -> &str {
        self.text.get(..self.cursor).unwrap_or_default()
    }

    /// Returns the text from the cursor on.
    pub fn after(&self) -> &str {
        self.text.get(self.cursor..).unwrap_or_default()
    }

    /// Replaces everything and puts the cursor at the end.
    pub fn set(&mut self, text: &str) {
        self.remember(EditKind::Other);
        text.clone_into(&mut self.text);
        self.cursor = self.text.len();
    }

    /// Inserts at the cursor.
    pub fn insert(&mut self, text: &str) {
        if text.is_empty() {
            return;
        }
        // Each word is undone by itself.
        let kind = if text.trim().is_empty() { EditKind::Other } else { EditKind::Typing };
        self.remember(kind);
        self.text.insert_str(self.cursor, text);
        self.cursor += text.len();
        self.align();
    }

    /// Removes from the cursor to where the motion leads, and returns what was removed.
    pub fn erase(&mut self, motion: Motion) -> String {
        let target = self.target(motion);
        let (from, to) = (self.cursor.min(target), self.cursor.max(target));
        if from == to {
            return String::new();
        }
        self.remember(EditKind::Erasing);
        let removed = self.text.drain(from..to).collect();
        self.cursor = from;
        self.align();
        removed
    }

    /// Replaces the bytes before the cursor, for completion.
    pub fn replace_before(&mut self, bytes: usize, text: &str) {
        let from = self.cursor.saturating_sub(bytes);
        if self.text.is_char_boundary(from) {
            self.remember(EditKind::Other);
            self.text.replace_range(from..self.cursor, text);
            self.cursor = from + text.len();
            self.align();
        }
    }

    pub fn move_to(&mut self, motion: Motion) {
        self.cursor = self.target(motion);
        self.last = EditKind::Other;
        self.goal = None;
    }

    /// Moves a line up; returns false on the first line.
    pub fn move_up(&mut self) -> bool {
        let start = self.line_start(self.cursor);
        if start == 0 {
            return false;
        }
        let goal = self.goal_column();
        self.move_into(self.line_start(start - 1), start - 1, goal);
        true
    }

    /// Moves a line down; returns false on the last line.
    pub fn move_down(&mut self) -> bool {
        let end = self.line_end(self.cursor);
        if end == self.text.len() {
            return false;
        }
        let goal = self.goal_column();
        self.move_into(end + 1, self.line_end(end + 1), goal);
        true
    }

    /// Exchanges the graphemes around the cursor; at the end of a line the two before it.
    pub fn transpose(&mut self) {
        let line_end = self.line_end(self.cursor);
        let middle = if self.cursor == line_end { self.previous(self.cursor) } else { self.cursor };
        let (from, to) = (self.previous(middle), self.next(middle));
        let part = |from: usize, to: usize| self.text.get(from..to).unwrap_or_default().to_owned();
        let (left, right) = (part(from, middle), part(middle, to));
        if left.is_empty() || right.is_empty() || left.contains('\n') || right.contains('\n') {
            return;
        }
        self.remember(EditKind::Other);
        self.text.replace_range(from..to, &format!("{right}{left}"));
        self.cursor = to;
        self.align();
    }

    pub fn undo(&mut self) -> bool {
        let Some(before) = self.undo.pop() else { return false };
        self.redo.push(self.snapshot());
        self.restore(before);
        true
    }

    pub fn redo(&mut self) -> bool {
        let Some(after) = self.redo.pop() else { return false };
        self.undo.push(self.snapshot());
        self.restore(after);
        true
    }

    /// Forgets the text and every former state of it.
    pub fn clear(&mut self) {
        *self = Self::default();
    }

    fn snapshot(&self) -> Snapshot {
        Snapshot { text: self.text.clone(), cursor: self.cursor }
    }

    fn restore(&mut self, snapshot: Snapshot) {
        (self.text, self.cursor) = (snapshot.text, snapshot.cursor);
        self.last = EditKind::Other;
        self.goal = None;
    }

    fn remember(&mut self, kind: EditKind) {
        let continues = kind == self.last && kind != EditKind::Other;
        self.last = kind;
        self.goal = None;
        self.redo.clear();
        if continues {
            return;
        }
        self.undo.push(self.snapshot());
        if self.undo.len() > MAX_UNDO {
            self.undo.remove(0);
        }
    }

    /// Moves the cursor to a boundary: inserting may have joined graphemes around it.
    fn align(&mut self) {
        let mut cursor = GraphemeCursor::new(self.cursor, self.text.len(), true);
        if cursor.is_boundary(&self.text, 0) == Ok(false) {
            self.cursor = self.next(self.cursor);
        }
    }

    fn previous(&self, at: usize) -> usize {
        GraphemeCursor::new(at, self.text.len(), true)
            .prev_boundary(&self.text, 0)
            .ok()
            .flatten()
            .unwrap_or(0)
    }

    fn next(&self, at: usize) -> usize {
        let mut cursor = GraphemeCursor::new(at, self.text.len(), true);
        cursor.next_boundary(&self.text, 0).ok().flatten().unwrap_or(self.text.len())
    }

    fn line_start(&self, at: usize) -> usize {
        self.text.get(..at).and_then(|before| before.rfind('\n')).map_or(0, |found| found + 1)
    }

    fn line_end(&self, at: usize) -> usize {
        self.text.get(at..).and_then(|after| after.find('\n')).map_or(self.text.len(), |found| at + found)
    }

    fn goal_column(&mut self) -> usize {
        let start = self.line_start(self.cursor);
        let column = self.text.get(start..self.cursor).unwrap_or_default().graphemes(true).count();
        *self.goal.get_or_insert(column)
    }

    fn move_into(&mut self, start: usize, end: usize, goal: usize) {
        let line = self.text.get(start..end).unwrap_or_default();
        self.cursor = line.grapheme_indices(true).nth(goal).map_or(end, |(at, _)| start + at);
        self.last = EditKind::Other;
    }

    fn target(&self, motion: Motion) -> usize {
        match motion {
            Motion::Left => self.previous(self.cursor),
            Motion::Right => self.next(self.cursor),
            Motion::WordLeft => {
                let word = self.skip_left(self.cursor, |c| !is_word(c));
                self.skip_left(word, is_word)
            }
            Motion::WordRight => {
                let word = self.skip_right(self.cursor, |c| !is_word(c));
                self.skip_right(word, is_word)
            }
            Motion::BlankLeft => {
                let word = self.skip_left(self.cursor, char::is_whitespace);
                self.skip_left(word, |c| !c.is_whitespace())
            }
            Motion::LineStart => self.line_start(self.cursor),
            Motion::LineEnd => self.line_end(self.cursor),
            Motion::Start => 0,
            Motion::End => self.text.len(),
        }
    }

    /// Goes left over graphemes that begin with such a character.
    fn skip_left(&self, from: usize, accepts: impl Fn(char) -> bool) -> usize {
        let before = self.text.get(..from).unwrap_or_default();
        let kept = before.grapheme_indices(true).rev();
        kept.take_while(|(_, symbol)| symbol.starts_with(&accepts)).last().map_or(from, |(at, _)| at)
    }

    fn skip_right(&self, from: usize, accepts: impl Fn(char) -> bool) -> usize {
        let after = self.text.get(from..).unwrap_or_default();
        let skipped = after.graphemes(true).take_while(|symbol| symbol.starts_with(&accepts));
        from + skipped.map(str::len).sum::<usize>()
    }
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}
