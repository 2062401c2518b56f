//! Draws the state: the rows of the block at the bottom, and where the cursor is.

use std::time::Duration;

use ratatui_core::style::{Modifier, Style};
use ratatui_core::text::{Line, Span};
use unicode_segmentation::UnicodeSegmentation as _;

use super::attachment::badges;
use super::{OpenOutput, ScreenState};
use crate::dialog::{InputVisibility, masked};
use crate::editor::Editor;
use crate::glyphs::{StyledLine, clean, clean_line, columns, cut, cut_text, styled, wrap_words};
use crate::status::{duration, spinner, titled_rule};
use crate::transcript::THINKING;

const MAX_INPUT_ROWS: usize = 8;
const MAX_MENU_ROWS: usize = 12;
/// How long a word of a skin is shown while the agent thinks.
const VERB_SECONDS: u64 = 6;
/// A terminal lower than this has no room for rules and spacers.
const ROOMY_ROWS: usize = 12;

/// The block at the bottom of the screen.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ScreenFrame {
    pub rows: Vec<StyledLine>,
    /// Row and column of the cursor; hidden when there is none.
    pub cursor: Option<(usize, usize)>,
}

/// The rows of the input, and where the cursor is in them.
struct InputRows {
    rows: Vec<StyledLine>,
    cursor: (usize, usize),
}

impl ScreenState {
    /// Draws the block. It is never higher than the terminal.
    pub fn view(&self, now: Duration) -> ScreenFrame {
        let theme = &self.setup.theme;
        let is_roomy = self.height >= ROOMY_ROWS;
        let input = self.input_rows(now);
        let menu_room = (self.height / 2).clamp(1, MAX_MENU_ROWS);
        let menu = self.input.menu.as_ref().filter(|_| self.dialogs.is_empty());
        let menu = menu.map_or_else(Vec::new, |menu| menu.render(self.width, menu_room, theme));
        let rule = || styled("─".repeat(self.width), theme.rule);
        let mut bottom = Vec::new();
        bottom.extend(self.hint_row(now));
        if self.shows_status && self.height > 3 {
            bottom.push(self.status.render(self.width, now.saturating_sub(self.setup.now), theme));
        }
        if is_roomy {
            bottom.push(rule());
        }
        if self.dialogs.is_empty() {
            bottom.extend(badges(&self.input.images, self.width, theme));
        }
        let cursor_row = bottom.len() + input.cursor.0;
        bottom.extend(input.rows);
        if is_roomy {
            bottom.push(rule());
        }
        bottom.extend(menu);
        let room = self.height.saturating_sub(bottom.len());
        let mut top = self.upper_rows(now, room);
        let missing = top.len().saturating_sub(room);
        top.drain(..missing.min(top.len()));
        let cursor = (top.len() + cursor_row, input.cursor.1.min(self.width.saturating_sub(1)));
        let mut rows = top;
        rows.extend(bottom);
        // The lowest rows give way last, because the cursor is there.
        let excess = rows.len().saturating_sub(self.height);
        rows.drain(..excess);
        let cursor = (cursor.0.saturating_sub(excess).min(rows.len().saturating_sub(1)), cursor.1);
        let rows = rows.into_iter().map(|row| cut(&row, self.width)).collect();
        let is_hidden = self.lock.is_some() && self.dialogs.is_empty();
        ScreenFrame { rows, cursor: (!is_hidden).then_some(cursor) }
    }

    /// Draws what stands above the hint line: the turn, an open dialog, the whole output of a call.
    fn upper_rows(&self, now: Duration, room: usize) -> Vec<StyledLine> {
        let theme = &self.setup.theme;
        if let Some(dialog) = self.dialogs.front() {
            let panel = dialog.render(self.width, room, theme);
            let mut rows = self.transcript.live_rows(self.row_context(now));
            let keep = room.saturating_sub(panel.len() + 1).min(rows.len());
            rows.drain(..rows.len() - keep);
            rows.extend(panel);
            return rows;
        }
        let mut rows = self.transcript.live_rows(self.row_context(now));
        for text in &self.queued {
            let label = clean_line(&text.label);
            rows.push(styled(
                format!("📨 Queued: {}", cut_text(&label, self.width.saturating_sub(11))),
                theme.dim,
            ));
        }
        if let Some(open) = self.open_output {
            let panel = self.output_rows(open, room);
            let keep = room.saturating_sub(panel.len()).min(rows.len());
            rows.drain(..rows.len() - keep);
            rows.extend(panel);
        }
        rows
    }

    fn output_rows(&self, open: OpenOutput, room: usize) -> Vec<StyledLine> {
        let theme = &self.setup.theme;
        let Some(output) = self.transcript.outputs.get(open.age) else { return Vec::new() };
        let text = clean(&output.text);
        let all: Vec<StyledLine> =
            text.lines().flat_map(|line| wrap_words(&styled(line, theme.text), self.width)).collect();
        let shown = room.saturating_sub(3).max(1);
        let from = open.scroll.min(all.len().saturating_sub(shown));
        let title = cut_text(&output.title, self.width.saturating_sub(8));
        let mut rows = vec![titled_rule("─", &title, "", self.width, theme)];
        let count = all.len();
        rows.extend(all.into_iter().skip(from).take(shown));
        let last = (from + shown).min(count);
        let older = match self.transcript.outputs.len() - open.age - 1 {
            0 => String::new(),
            older => format!(" · Ctrl+O older ({older})"),
        };
        let note = format!("  lines {}–{last} of {count} · PgUp PgDn{older} · Esc closes", from + 1);
        rows.push(cut(&styled(note, theme.dim), self.width));
        rows
    }

    /// Draws the line above the status bar: what goes on, or what can be done.
    fn hint_row(&self, now: Duration) -> Vec<StyledLine> {
        let theme = &self.setup.theme;
        let mut line = Line::default();
        if let Some(dialog) = self.dialogs.front() {
            line.spans.push(Span::styled(format!("  {}", dialog.hint(now)), theme.dim));
        } else if let Some((hint, _)) = &self.hint {
            line.spans.push(Span::styled(format!("  {hint}"), theme.warn));
        } else if let Some(status) = &self.lock {
            line.spans.push(Span::styled(format!("  {} ", spinner(now)), theme.accent));
            line.spans.push(Span::styled(format!("⏳ {status}"), theme.dim));
        } else if let Some(since) = self.running_since {
            let took = duration(now.saturating_sub(since));
            line.spans.push(Span::styled(format!("  {} ", spinner(now)), theme.accent));
            let activity = self.transcript.activity();
            let verbs = &theme.thinking_verbs;
            let spell = now.saturating_sub(since).as_secs() / VERB_SECONDS;
            let verb = usize::try_from(spell).unwrap_or(0).checked_rem(verbs.len());
            let verb = verb.and_then(|at| verbs.get(at)).filter(|_| activity == THINKING);
            let activity = verb.map_or_else(|| activity.to_owned(), |verb| clean_line(verb));
            line.spans.push(Span::styled(format!("{activity}… "), theme.text));
            line.spans.push(Span::styled(format!("{took} · Esc interrupts"), theme.dim));
        } else if self.height < ROOMY_ROWS {
            return Vec::new();
        }
        vec![cut(&line, self.width)]
    }

    fn input_rows(&self, now: Duration) -> InputRows {
        let theme = &self.setup.theme;
        let limit = MAX_INPUT_ROWS.min((self.height / 3).max(1));
        let arrow = &theme.prompt_symbol;
        if let Some(dialog) = self.dialogs.front() {
            let prompt = Span::styled(format!("{} ", dialog.prompt()), theme.prompt);
            return match dialog.input() {
                Some((editor, InputVisibility::Hidden)) => {
                    let dots = masked(editor.buffer().text());
                    let before = columns(&masked(editor.buffer().before()));
                    let room = self.width.saturating_sub(columns(&prompt.content) + 1).max(1);
                    let column = columns(&prompt.content) + before.min(room);
                    let line = Line::from(vec![prompt, Span::styled(cut_text(&dots, room), theme.text)]);
                    InputRows { rows: vec![line], cursor: (0, column) }
                }
                Some((editor, InputVisibility::Shown)) => self.editor_rows(editor, &prompt, limit, ""),
                None => {
                    let column = columns(&prompt.content);
                    InputRows { rows: vec![Line::from(prompt)], cursor: (0, column) }
                }
            };
        }
        if let Some(search) = &self.input.search {
            let found = search.found(&self.input.editor.history).map(clean_line).unwrap_or_default();
            let prompt = Span::styled(format!("⌕ {} ", clean_line(&search.query)), theme.prompt);
            let column = columns(&prompt.content).saturating_sub(1);
            let line = Line::from(vec![prompt, Span::styled(format!("→ {found}"), theme.dim)]);
            return InputRows { rows: vec![line], cursor: (0, column) };
        }
        let symbol = match (&self.lock, self.running_since) {
            (Some(_), _) => format!("{} {arrow} ", spinner(now)),
            (None, Some(_)) => format!("⚕ {arrow} "),
            (None, None) => match self.voice.sign() {
                Some(sign) => format!("{sign} {arrow} "),
                None => format!("{arrow} "),
            },
        };
        let spoken = self.voice.placeholder(&self.setup.record_key.label());
        let placeholder = match (&self.lock, self.running_since) {
            (Some(status), _) => status.as_str(),
            (None, Some(_)) => "type to interrupt, Ctrl+C cancels",
            (None, None) => spoken.as_deref().unwrap_or(&self.setup.placeholder),
        };
        self.editor_rows(&self.input.editor, &Span::styled(symbol, theme.prompt), limit, placeholder)
    }

    /// Lays out a text with the cursor in it; of a long text the rows around the cursor are visible.
    fn editor_rows(
        &self,
        editor: &Editor,
        prompt: &Span<'static>,
        limit: usize,
        placeholder: &str,
    ) -> InputRows {
        let theme = &self.setup.theme;
        let indent = columns(&prompt.content);
        let room = self.width.saturating_sub(indent).max(2);
        let mut layout = EditorLayout { room, rows: vec![Line::default()], used: 0, cursor: (0, 0) };
        let buffer = editor.buffer();
        let mut at = 0;
        for symbol in buffer.text().graphemes(true) {
            if at == buffer.cursor() {
                layout.mark_cursor();
            }
            at += symbol.len();
            match editor.shown(symbol) {
                Some(label) => layout.push_text(&label, theme.label),
                None if symbol == "\n" || symbol == "\r\n" => layout.break_line(),
                None => layout.push_text(&clean(symbol), theme.text),
            }
        }
        if at == buffer.cursor() {
            layout.mark_cursor();
        }
        if buffer.is_empty() && !placeholder.is_empty() {
            let dim = theme.dim.remove_modifier(Modifier::BOLD);
            layout.push_text(&cut_text(&clean_line(placeholder), room.saturating_sub(1)), dim);
        } else if let Some(ghost) =
            self.input.ghost().filter(|_| std::ptr::eq(editor, &raw const self.input.editor))
        {
            let free = room.saturating_sub(layout.used + 1);
            layout.push_text(&cut_text(&clean_line(&ghost), free), theme.dim);
        }
        let from = (layout.cursor.0 + 1).saturating_sub(limit);
        let blank = Span::raw(" ".repeat(indent));
        let rows = layout.rows.into_iter().enumerate().skip(from).take(limit).map(|(at, mut row)| {
            row.spans.insert(0, if at == 0 { prompt.clone() } else { blank.clone() });
            row
        });
        InputRows { rows: rows.collect(), cursor: (layout.cursor.0 - from, indent + layout.cursor.1) }
    }
}

/// Breaks typed text into rows, grapheme by grapheme.
struct EditorLayout {
    room: usize,
    rows: Vec<StyledLine>,
    used: usize,
    cursor: (usize, usize),
}

impl EditorLayout {
    fn mark_cursor(&mut self) {
        // Behind a full row the cursor stands at the beginning of the next one.
        if self.used >= self.room {
            self.break_line();
        }
        self.cursor = (self.rows.len() - 1, self.used);
    }

    fn break_line(&mut self) {
        self.rows.push(Line::default());
        self.used = 0;
    }

    fn push_text(&mut self, text: &str, style: Style) {
        for symbol in text.graphemes(true) {
            let width = columns(symbol);
            if self.used + width > self.room {
                self.break_line();
            }
            self.used += width;
            if let Some(row) = self.rows.last_mut() {
                match row.spans.last_mut() {
                    Some(last) if last.style == style => last.content.to_mut().push_str(symbol),
                    _ => row.spans.push(Span::styled(symbol.to_owned(), style)),
                }
            }
        }
    }
}
