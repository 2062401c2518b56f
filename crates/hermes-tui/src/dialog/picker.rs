//! A list to pick from, with a filter and a preview: sessions, models.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui_core::text::{Line, Span};

use super::DialogOutcome;
use crate::completion::{fuzzy_score, visible_from};
use crate::editor::Editor;
use crate::glyphs::{StyledLine, clean, clean_line, cut, cut_text, pad, styled};
use crate::status::titled_rule;
use crate::theme::Theme;

const MAX_ROWS: usize = 10;
const MAX_PREVIEW_ROWS: usize = 5;

/// An entry of a picker.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PickerItem {
    pub label: String,
    /// A remark beside the label, such as an age.
    pub detail: String,
    /// The text shown below the list while the entry is selected.
    pub preview: String,
}

/// A question with many answers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PickerSpec {
    pub title: String,
    pub items: Vec<PickerItem>,
    /// The entry that is selected first.
    pub selected: usize,
}

#[derive(Debug, Clone)]
pub(super) struct PickerDialog {
    spec: PickerSpec,
    pub(super) filter: Editor,
    /// The entries that match, best first.
    matches: Vec<usize>,
    selected: usize,
}

impl PickerDialog {
    pub(super) fn new(spec: PickerSpec) -> Self {
        let matches: Vec<usize> = (0..spec.items.len()).collect();
        let selected = spec.selected.min(matches.len().saturating_sub(1));
        Self { spec, filter: Editor::default(), matches, selected }
    }

    /// Handles a key; returns the choice when the key makes one.
    pub(super) fn key(&mut self, key: KeyEvent) -> Option<DialogOutcome> {
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        let last = self.matches.len().saturating_sub(1);
        match key.code {
            KeyCode::Enter => {
                return self.matches.get(self.selected).map(|picked| DialogOutcome::Picked(Some(*picked)));
            }
            KeyCode::Up => self.selected = self.selected.checked_sub(1).unwrap_or(last),
            KeyCode::Char('p') if control => self.selected = self.selected.checked_sub(1).unwrap_or(last),
            KeyCode::Down => self.selected = if self.selected >= last { 0 } else { self.selected + 1 },
            KeyCode::Char('n') if control => {
                self.selected = if self.selected >= last { 0 } else { self.selected + 1 }
            }
            KeyCode::PageUp => self.selected = self.selected.saturating_sub(MAX_ROWS),
            KeyCode::PageDown => self.selected = (self.selected + MAX_ROWS).min(last),
            _ => {
                let before = self.filter.buffer().text().to_owned();
                self.filter.key(key);
                if self.filter.buffer().text() != before {
                    self.refilter();
                }
            }
        }
        None
    }

    /// Finds the matching entries anew, because the filter changed.
    pub(super) fn refilter(&mut self) {
        let wanted = self.filter.buffer().text().to_lowercase();
        let mut scored: Vec<(u32, usize)> = self
            .spec
            .items
            .iter()
            .enumerate()
            .filter_map(|(at, item)| {
                Some((fuzzy_score(&format!("{} {}", item.label, item.detail), &wanted)?, at))
            })
            .collect();
        if !wanted.is_empty() {
            scored.sort_by(|a, b| b.0.cmp(&a.0).then(a.1.cmp(&b.1)));
        }
        self.matches = scored.into_iter().map(|(_, at)| at).collect();
        self.selected = 0;
    }

    pub(super) fn render(&self, width: usize, max_rows: usize, theme: &Theme) -> Vec<StyledLine> {
        let mut panel = vec![titled_rule("─", &self.spec.title, "", width, theme)];
        let preview = self.preview(width, max_rows, theme);
        let room = max_rows.saturating_sub(2 + preview.len()).clamp(1, MAX_ROWS);
        let from = visible_from(self.selected, self.matches.len(), room);
        for (at, index) in self.matches.iter().enumerate().skip(from).take(room) {
            let Some(item) = self.spec.items.get(*index) else { continue };
            let (mark, style) = if at == self.selected { ("❯ ", theme.accent) } else { ("  ", theme.text) };
            let detail = cut_text(&clean_line(&item.detail), width / 3);
            let label_width = width.saturating_sub(crate::glyphs::columns(&detail) + 4);
            let label = styled(cut_text(&clean_line(&item.label), label_width), style);
            let mut line = pad(label, label_width + 1, theme.text);
            line.spans.insert(0, Span::styled(mark, theme.accent));
            line.spans.push(Span::styled(detail, theme.dim));
            panel.push(cut(&line, width));
        }
        let count = format!("  {} of {}", self.matches.len(), self.spec.items.len());
        panel.push(cut(&styled(count, theme.dim), width));
        panel.extend(preview);
        panel
    }

    fn preview(&self, width: usize, max_rows: usize, theme: &Theme) -> Vec<StyledLine> {
        let item = self.matches.get(self.selected).and_then(|index| self.spec.items.get(*index));
        let Some(item) = item.filter(|item| !item.preview.is_empty() && max_rows > 12) else {
            return Vec::new();
        };
        let text = clean(&item.preview);
        let lines = text.lines().take(MAX_PREVIEW_ROWS);
        lines
            .map(|text| {
                let line = Line::from(vec![
                    Span::styled("  │ ", theme.border),
                    Span::styled(text.to_owned(), theme.dim),
                ]);
                cut(&line, width)
            })
            .collect()
    }
}
