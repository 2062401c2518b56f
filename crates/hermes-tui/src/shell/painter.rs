//! Writes frames to a terminal: finished rows above, the block below, and of the block only what changed.
//!
//! Moves the cursor only relative to the block, so it needs to know neither where on the screen the block is nor what is above
//! it, and uses no scrolling region, so that every terminal keeps the finished rows in its scrollback. Invariants: each row of
//! the block takes one row of the terminal; after a paint the cursor is in the block, in a row the painter knows; a row that
//! becomes shorter is erased as a whole first, because multiplexers count blanks that were erased singly when they reflow.

use std::fmt::Write as _;
use std::io::{self, Write};

use ratatui_core::style::{Color, Modifier, Style};

use crate::glyphs::{Glyph, StyledLine, glyphs};
use crate::picture::TerminalPicture;
use crate::screen::ScreenFrame;

const BEGIN_UPDATE: &str = "\u{1b}[?2026h";
const END_UPDATE: &str = "\u{1b}[?2026l";
const HIDE_CURSOR: &str = "\u{1b}[?25l";
const SHOW_CURSOR: &str = "\u{1b}[?25h";
const ERASE_LINE: &str = "\u{1b}[2K";
const ERASE_BELOW: &str = "\u{1b}[J";
const SAVE_CURSOR: &str = "\u{1b}7";
const RESTORE_CURSOR: &str = "\u{1b}8";

const CLEAR_TERMINAL: &str = "\u{1b}[2J\u{1b}[H";

/// What a terminal does with rows that are too long after its width shrank.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ResizeBehavior {
    /// It breaks them, as nearly all terminals do.
    #[default]
    Reflows,
    Cuts,
}

/// A painter of frames.
#[derive(Debug)]
pub struct Painter<W> {
    out: W,
    width: usize,
    height: usize,
    resize_behavior: ResizeBehavior,
    rows: Vec<StyledLine>,
    /// Row and column of the cursor in the block.
    cursor: (usize, usize),
    /// The rows of the terminal between the top of the block and the cursor: more than rows of the block after a resize.
    rows_above: usize,
    cursor_is_shown: bool,
    /// True when the terminal may show something else than `rows`.
    is_stale: bool,
}

impl<W: Write> Painter<W> {
    pub fn new(out: W, width: u16, height: u16, resize_behavior: ResizeBehavior) -> Self {
        Self {
            out,
            width: usize::from(width.max(1)),
            height: usize::from(height.max(1)),
            resize_behavior,
            rows: Vec::new(),
            cursor: (0, 0),
            rows_above: 0,
            cursor_is_shown: true,
            is_stale: true,
        }
    }

    /// Returns what is written to, for tests.
    pub fn output_mut(&mut self) -> &mut W {
        &mut self.out
    }

    /// Notes the new size. The rows above the cursor may take more rows of the terminal than before.
    pub fn resize(&mut self, width: u16, height: u16) {
        let (width, height) = (usize::from(width.max(1)), usize::from(height.max(1)));
        if (width, height) == (self.width, self.height) {
            return;
        }
        if self.resize_behavior == ResizeBehavior::Reflows {
            let taken = |row: &StyledLine| painted_columns(row).div_ceil(width).max(1);
            let above: usize = self.rows.iter().take(self.cursor.0).map(taken).sum();
            self.rows_above = above + self.cursor.1 / width;
        }
        self.rows_above = self.rows_above.min(height - 1);
        (self.width, self.height) = (width, height);
        self.is_stale = true;
    }

    /// Makes the next paint draw everything.
    pub fn invalidate(&mut self) {
        self.is_stale = true;
    }

    /// Notes that other output left the cursor at the beginning of an empty line.
    pub fn restart(&mut self) {
        self.rows.clear();
        self.cursor = (0, 0);
        self.rows_above = 0;
        self.is_stale = true;
    }

    /// Writes finished rows and the block below them.
    pub fn paint(&mut self, finished: &[StyledLine], frame: &ScreenFrame) -> io::Result<()> {
        let same_rows = !self.is_stale && finished.is_empty() && frame.rows == self.rows;
        let same_cursor = frame.cursor.is_some() == self.cursor_is_shown
            && frame.cursor.is_none_or(|cursor| cursor == self.cursor);
        if same_rows && same_cursor {
            return Ok(());
        }
        let mut pen = Pen { text: String::with_capacity(256), at: self.rows_above, style: Style::new() };
        if !same_rows {
            pen.text.push_str(BEGIN_UPDATE);
            pen.text.push_str(HIDE_CURSOR);
            if self.is_stale || !finished.is_empty() {
                self.paint_all(&mut pen, finished, frame);
            } else {
                self.paint_changes(&mut pen, frame);
            }
        }
        let shown = frame.cursor.filter(|_| !frame.rows.is_empty());
        if let Some((row, column)) = shown {
            pen.go_to(row, column);
            if !same_rows || !self.cursor_is_shown {
                pen.text.push_str(SHOW_CURSOR);
            }
        } else if same_rows {
            pen.text.push_str(HIDE_CURSOR);
        }
        if !same_rows {
            pen.text.push_str(END_UPDATE);
        }
        self.rows_above = pen.at;
        self.cursor = (pen.at, shown.map_or(0, |(_, column)| column));
        self.cursor_is_shown = shown.is_some();
        self.rows.clone_from(&frame.rows);
        self.is_stale = false;
        self.out.write_all(pen.text.as_bytes())?;
        self.out.flush()
    }

    /// Removes the block and leaves the cursor where it began.
    pub fn clear(&mut self) -> io::Result<()> {
        let mut pen = Pen { text: String::new(), at: self.rows_above, style: Style::new() };
        pen.go_to(0, 0);
        pen.text.push_str(ERASE_BELOW);
        pen.text.push_str(SHOW_CURSOR);
        self.restart();
        self.cursor_is_shown = true;
        self.out.write_all(pen.text.as_bytes())?;
        self.out.flush()
    }

    /// Draws a picture above the block, which has to be painted again afterwards. Makes room for its rows first, because what
    /// terminals do with the cursor after a picture differs.
    pub fn paint_picture(&mut self, picture: &TerminalPicture) -> io::Result<()> {
        let rows = picture.rows;
        let mut pen = Pen { text: String::new(), at: self.rows_above, style: Style::new() };
        pen.go_to(0, 0);
        pen.text.push_str(ERASE_BELOW);
        pen.text.push_str(&"\r\n".repeat(usize::from(rows)));
        let _ = write!(pen.text, "\u{1b}[{rows}A\u{1b}[2C{SAVE_CURSOR}");
        pen.text.push_str(&picture.sequence);
        let _ = write!(pen.text, "{RESTORE_CURSOR}\u{1b}[{rows}B\r");
        self.restart();
        self.out.write_all(pen.text.as_bytes())?;
        self.out.flush()
    }

    /// Writes a sequence that changes nothing that is shown.
    pub fn write_sequence(&mut self, sequence: &str) -> io::Result<()> {
        self.out.write_all(sequence.as_bytes())?;
        self.out.flush()
    }

    /// Clears the visible part of the terminal, and goes on at its top.
    pub fn clear_terminal(&mut self) -> io::Result<()> {
        self.restart();
        self.out.write_all(CLEAR_TERMINAL.as_bytes())?;
        self.out.flush()
    }

    fn paint_all(&self, pen: &mut Pen, finished: &[StyledLine], frame: &ScreenFrame) {
        pen.go_to(0, 0);
        if self.is_stale {
            pen.text.push_str(ERASE_BELOW);
        }
        // What stands in each row now.
        let mut old = self.rows.iter().filter(|_| !self.is_stale).map(painted_columns);
        for row in finished {
            write_row(pen, &glyphs(row), old.next().unwrap_or(0));
            pen.text.push_str("\r\n");
        }
        // From here on rows are counted from the top of the new block.
        pen.at = 0;
        for (at, row) in frame.rows.iter().enumerate() {
            if at > 0 {
                pen.next_row();
            }
            let mut replaced = old.next().unwrap_or(0);
            if at + 1 == frame.rows.len() {
                pen.text.push_str(ERASE_BELOW);
                replaced = 0;
            }
            write_row(pen, &glyphs(row), replaced);
        }
    }

    fn paint_changes(&self, pen: &mut Pen, frame: &ScreenFrame) {
        for (at, row) in frame.rows.iter().enumerate() {
            match self.rows.get(at) {
                Some(old) if old == row => {}
                Some(old) => paint_row_change(pen, at, &glyphs(old), &glyphs(row)),
                None => {
                    pen.go_to(at.saturating_sub(1), 0);
                    pen.next_row();
                    write_row(pen, &glyphs(row), 0);
                }
            }
        }
        if frame.rows.len() < self.rows.len() {
            pen.go_to(frame.rows.len(), 0);
            pen.text.push_str(ERASE_BELOW);
            if !frame.rows.is_empty() {
                pen.go_to(frame.rows.len() - 1, 0);
            }
        }
    }
}

/// Writes a row from its beginning, in place of one that takes `replaced` columns.
fn write_row(pen: &mut Pen, row: &[Glyph], replaced: usize) {
    if replaced > count_columns(row) {
        pen.text.push_str(ERASE_LINE);
    }
    pen.write(row, 0);
}

/// Writes what differs between two rows: from the first change to the last one.
fn paint_row_change(pen: &mut Pen, at: usize, old: &[Glyph], new: &[Glyph]) {
    // Where the characters of such a row are is not known for certain, so the row is drawn as a whole.
    let is_disputed = old.iter().chain(new).any(Glyph::is_disputed);
    if is_disputed || count_columns(old) > count_columns(new) {
        pen.go_to(at, 0);
        write_row(pen, new, usize::MAX);
        return;
    }
    let same = old.iter().zip(new).take_while(|(a, b)| a == b).count();
    let (old, new, before) = (&old[same..], &new[same..], &new[..same]);
    let tail = if count_columns(old) == count_columns(new) {
        old.iter().rev().zip(new.iter().rev()).take_while(|(a, b)| a == b).count()
    } else {
        0
    };
    let changed = &new[..new.len() - tail];
    if !changed.is_empty() {
        let column = count_columns(before);
        pen.go_to(at, column);
        pen.write(changed, column);
    }
}

fn count_columns(row: &[Glyph]) -> usize {
    row.iter().map(|glyph| glyph.columns).sum()
}

/// Returns the columns of a row that a terminal keeps: trailing blanks without a background were never written.
fn painted_columns(row: &StyledLine) -> usize {
    count_columns(&glyphs(row))
}

/// Control sequences being written, and the row of the block they are in.
struct Pen {
    text: String,
    at: usize,
    style: Style,
}

impl Pen {
    fn go_to(&mut self, row: usize, column: usize) {
        let (up, down) = (self.at.saturating_sub(row), row.saturating_sub(self.at));
        if up > 0 {
            let _ = write!(self.text, "\u{1b}[{up}A");
        }
        if down > 0 {
            let _ = write!(self.text, "\u{1b}[{down}B");
        }
        self.text.push('\r');
        if column > 0 {
            let _ = write!(self.text, "\u{1b}[{column}C");
        }
        self.at = row;
    }

    fn next_row(&mut self) {
        self.text.push_str("\r\n");
        self.at += 1;
    }

    /// Writes graphemes from a column on. Behind one whose width terminals disagree about, the column is set again.
    fn write(&mut self, row: &[Glyph], column: usize) {
        let mut column = column;
        for (at, glyph) in row.iter().enumerate() {
            self.set_style(glyph.style);
            self.text.push_str(&glyph.symbol);
            column += glyph.columns;
            if glyph.is_disputed() && at + 1 < row.len() {
                let _ = write!(self.text, "\r\u{1b}[{column}C");
            }
        }
        self.set_style(Style::new());
    }

    fn set_style(&mut self, style: Style) {
        if style == self.style {
            return;
        }
        self.style = style;
        if style == Style::new() {
            return self.text.push_str("\u{1b}[m");
        }
        self.text.push_str("\u{1b}[0");
        for (modifier, code) in [
            (Modifier::BOLD, 1),
            (Modifier::DIM, 2),
            (Modifier::ITALIC, 3),
            (Modifier::UNDERLINED, 4),
            (Modifier::REVERSED, 7),
            (Modifier::CROSSED_OUT, 9),
        ] {
            if style.add_modifier.contains(modifier) && !style.sub_modifier.contains(modifier) {
                let _ = write!(self.text, ";{code}");
            }
        }
        if let Some(color) = style.fg {
            push_color(&mut self.text, color, 30);
        }
        if let Some(color) = style.bg {
            push_color(&mut self.text, color, 40);
        }
        self.text.push('m');
    }
}

/// Appends a colour; `base` is 30 for the text and 40 for the background.
fn push_color(text: &mut String, color: Color, base: u8) {
    let code = match color {
        Color::Reset => base + 9,
        Color::Black => base,
        Color::Red => base + 1,
        Color::Green => base + 2,
        Color::Yellow => base + 3,
        Color::Blue => base + 4,
        Color::Magenta => base + 5,
        Color::Cyan => base + 6,
        Color::Gray => base + 7,
        Color::DarkGray => base + 60,
        Color::LightRed => base + 61,
        Color::LightGreen => base + 62,
        Color::LightYellow => base + 63,
        Color::LightBlue => base + 64,
        Color::LightMagenta => base + 65,
        Color::LightCyan => base + 66,
        Color::White => base + 67,
        Color::Indexed(index) => {
            let _ = write!(text, ";{};5;{index}", base + 8);
            return;
        }
        Color::Rgb(red, green, blue) => {
            let _ = write!(text, ";{};2;{red};{green};{blue}", base + 8);
            return;
        }
    };
    let _ = write!(text, ";{code}");
}
