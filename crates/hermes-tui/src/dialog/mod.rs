//! The dialogs over the input: questions of a running turn, and pickers.
//!
//! Pure: keys in, an outcome out. Invariant: a key pressed shortly after a dialog appeared was meant for the input below it, and
//! never answers.

mod picker;

use std::time::Duration;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use hermes_types::{ApprovalDecision, Secret, UserAnswer, UserQuestion};
use ratatui_core::text::{Line, Span};

pub use picker::{PickerItem, PickerSpec};

use self::picker::PickerDialog;
use crate::editor::{Editor, KeyUse, grapheme_count};
use crate::glyphs::{Breaks, StyledLine, clean, clean_line, cut, pad, styled, wrap, wrap_words};
use crate::status::titled_rule;
use crate::theme::Theme;

/// The time in which keys are taken as typed before the dialog was seen.
const GRACE: Duration = Duration::from_millis(300);
/// The name of the hidden value that is the password of `sudo`.
pub(crate) const SUDO: &str = "SUDO_PASSWORD";
const MIN_WIDTH: usize = 46;
const MAX_WIDTH: usize = 76;

/// The number of a dialog, by which its answer finds the asker.
pub type DialogId = u64;

/// What a dialog came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DialogOutcome {
    Answered(UserAnswer),
    /// The index of the picked entry; nothing when the picker was left.
    Picked(Option<usize>),
}

/// What a dialog asks.
#[derive(Debug, Clone)]
enum DialogKind {
    Choice { choices: Vec<Choice>, selected: usize, scroll: usize, other: Option<Editor> },
    Hidden { editor: Editor, is_sudo: bool },
    Picker(PickerDialog),
}

#[derive(Debug, Clone)]
struct Choice {
    label: String,
    key: Option<char>,
    answer: ChoiceAnswer,
}

#[derive(Debug, Clone)]
enum ChoiceAnswer {
    Give(UserAnswer),
    /// Opens an input line.
    Type,
}

/// An open dialog.
#[derive(Debug, Clone)]
pub(crate) struct DialogBox {
    pub(crate) id: DialogId,
    kind: DialogKind,
    title: String,
    /// The text above the choices.
    body: String,
    /// A command, shown whole.
    command: Option<String>,
    shown_at: Option<Duration>,
    time_limit: Option<Duration>,
}

impl DialogBox {
    pub(crate) fn question(id: DialogId, question: UserQuestion, time_limit: Option<Duration>) -> Self {
        let dialog = |kind, title: &str, body: String, command| Self {
            id,
            kind,
            title: title.to_owned(),
            body,
            command,
            shown_at: None,
            time_limit,
        };
        match question {
            UserQuestion::Approve { command, danger } => {
                let choice = |label: &str, key, decision| Choice {
                    label: label.to_owned(),
                    key: Some(key),
                    answer: ChoiceAnswer::Give(UserAnswer::Approval(decision)),
                };
                let choices = vec![
                    choice("Allow once", 'o', ApprovalDecision::Once),
                    choice("Allow for this session", 's', ApprovalDecision::Session),
                    choice("Add to permanent allowlist", 'a', ApprovalDecision::Always),
                    choice("Deny", 'd', ApprovalDecision::Deny),
                ];
                let kind = DialogKind::Choice { choices, selected: 0, scroll: 0, other: None };
                dialog(kind, "⚠ Dangerous Command", danger.reason, Some(command))
            }
            UserQuestion::Clarify { question, choices } => {
                let other = choices.is_empty().then(Editor::default);
                let mut listed: Vec<Choice> = choices
                    .into_iter()
                    .enumerate()
                    .map(|(at, label)| Choice {
                        key: u32::try_from(at + 1).ok().and_then(|at| char::from_digit(at, 10)),
                        answer: ChoiceAnswer::Give(UserAnswer::Text(label.clone())),
                        label,
                    })
                    .collect();
                if !listed.is_empty() {
                    let label = "Other (type your answer)".to_owned();
                    let key = u32::try_from(listed.len() + 1).ok().and_then(|at| char::from_digit(at, 10));
                    listed.push(Choice { label, key, answer: ChoiceAnswer::Type });
                }
                let kind = DialogKind::Choice { choices: listed, selected: 0, scroll: 0, other };
                dialog(kind, "Hermes needs your input", question, None)
            }
            UserQuestion::Secret { name, prompt } => {
                let kind = DialogKind::Hidden { editor: Editor::default(), is_sudo: name == SUDO };
                let (title, body) = match name.as_str() {
                    SUDO => ("🔐 Sudo Password Required", prompt),
                    "" => ("🔑 Hidden Input", prompt),
                    name => ("🔑 Skill Setup Required", format!("{prompt}\n({name})")),
                };
                dialog(kind, title, body, None)
            }
        }
    }

    pub(crate) fn picker(id: DialogId, spec: PickerSpec) -> Self {
        Self {
            id,
            title: spec.title.clone(),
            kind: DialogKind::Picker(PickerDialog::new(spec)),
            body: String::new(),
            command: None,
            shown_at: None,
            time_limit: None,
        }
    }

    /// Notes when the dialog became visible.
    pub(crate) fn show_at(&mut self, now: Duration) {
        self.shown_at.get_or_insert(now);
    }

    pub(crate) fn is_expired(&self, now: Duration) -> bool {
        let limit = self.time_limit.zip(self.shown_at);
        limit.is_some_and(|(limit, shown)| now.saturating_sub(shown) >= limit)
    }

    /// Says what follows when nobody answered in time.
    pub(crate) fn expiry_note(&self) -> &'static str {
        match &self.kind {
            DialogKind::Choice { .. } if self.command.is_some() => "⏱ Timeout — denying command",
            DialogKind::Hidden { .. } => "⏱ Timeout — continuing without the value",
            DialogKind::Choice { .. } | DialogKind::Picker(_) => "⏱ Timeout — continuing without an answer",
        }
    }

    /// Returns the sign before the cursor while the dialog is open.
    pub(crate) fn prompt(&self) -> &'static str {
        match &self.kind {
            DialogKind::Hidden { is_sudo: true, .. } => "🔐 ❯",
            DialogKind::Hidden { .. } => "🔑 ❯",
            DialogKind::Choice { .. } if self.command.is_some() => "⚠ ❯",
            DialogKind::Choice { other: Some(_), .. } => "✎ ❯",
            DialogKind::Choice { .. } => "? ❯",
            DialogKind::Picker(_) => "⌕ ❯",
        }
    }

    /// Returns the editor of the dialog, if text is typed into it, and whether the text is hidden.
    pub(crate) fn input(&self) -> Option<(&Editor, InputVisibility)> {
        match &self.kind {
            DialogKind::Choice { other, .. } => other.as_ref().map(|editor| (editor, InputVisibility::Shown)),
            DialogKind::Hidden { editor, .. } => Some((editor, InputVisibility::Hidden)),
            DialogKind::Picker(picker) => Some((&picker.filter, InputVisibility::Shown)),
        }
    }

    pub(crate) fn paste(&mut self, text: &str, now: Duration) {
        let is_early = self.is_early(now);
        if let Some(editor) = self.input_mut().filter(|_| !is_early) {
            editor.insert(text.trim_end_matches(['\n', '\r']));
        }
        if let DialogKind::Picker(picker) = &mut self.kind {
            picker.refilter();
        }
    }

    fn input_mut(&mut self) -> Option<&mut Editor> {
        match &mut self.kind {
            DialogKind::Choice { other, .. } => other.as_mut(),
            DialogKind::Hidden { editor, .. } => Some(editor),
            DialogKind::Picker(picker) => Some(&mut picker.filter),
        }
    }

    fn is_early(&self, now: Duration) -> bool {
        self.shown_at.is_none_or(|shown| now.saturating_sub(shown) < GRACE)
    }

    /// Handles a key; returns what the dialog came to when the key ends it.
    pub(crate) fn key(&mut self, key: KeyEvent, now: Duration) -> Option<DialogOutcome> {
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        // What is typed in the first moment was meant for the input.
        if self.is_early(now) {
            return None;
        }
        if key.code == KeyCode::Esc || (control && matches!(key.code, KeyCode::Char('c' | 'd'))) {
            return self.dismiss();
        }
        let is_approval = self.command.is_some();
        match &mut self.kind {
            DialogKind::Hidden { editor, .. } => {
                if key.code == KeyCode::Enter {
                    let typed = editor.edited().text;
                    editor.clear();
                    return Some(DialogOutcome::Answered(UserAnswer::Secret(Secret::new(typed))));
                }
                editor.key(key);
                None
            }
            DialogKind::Picker(picker) => picker.key(key),
            DialogKind::Choice { other: Some(editor), choices, .. } => {
                if key.code == KeyCode::Enter {
                    let text = editor.take().text;
                    if text.trim().is_empty() {
                        return None;
                    }
                    return Some(DialogOutcome::Answered(UserAnswer::Text(text.trim().to_owned())));
                }
                if editor.key(key) == KeyUse::Unused && key.code == KeyCode::Tab && !choices.is_empty() {
                    self.close_input();
                }
                None
            }
            DialogKind::Choice { choices, selected, scroll, other } => {
                let last = choices.len().saturating_sub(1);
                match key.code {
                    KeyCode::Up => *selected = selected.checked_sub(1).unwrap_or(last),
                    KeyCode::Down | KeyCode::Tab => {
                        *selected = if *selected >= last { 0 } else { *selected + 1 }
                    }
                    KeyCode::PageUp => *scroll = scroll.saturating_sub(5),
                    KeyCode::PageDown => *scroll += 5,
                    KeyCode::Enter => return choose(choices.get(*selected)?, other),
                    KeyCode::Char(c) if !control => {
                        let lower = c.to_ascii_lowercase();
                        let found = choices.iter().position(|choice| choice.key == Some(lower));
                        // A digit selects, because an answer may begin with one; a letter of an approval decides.
                        match found {
                            Some(at) if is_approval => return choose(choices.get(at)?, other),
                            Some(at) => *selected = at,
                            None => {}
                        }
                    }
                    _ => {}
                }
                None
            }
        }
    }

    fn close_input(&mut self) {
        if let DialogKind::Choice { other, .. } = &mut self.kind {
            *other = None;
        }
    }

    /// Ends the dialog without a choice; an input opened from a list of choices only closes.
    fn dismiss(&mut self) -> Option<DialogOutcome> {
        match &self.kind {
            DialogKind::Choice { other: Some(_), choices, .. } if !choices.is_empty() => {
                self.close_input();
                None
            }
            DialogKind::Choice { .. } if self.command.is_some() => {
                Some(DialogOutcome::Answered(UserAnswer::Approval(ApprovalDecision::Deny)))
            }
            DialogKind::Choice { .. } | DialogKind::Hidden { .. } => {
                Some(DialogOutcome::Answered(UserAnswer::Unavailable))
            }
            DialogKind::Picker(_) => Some(DialogOutcome::Picked(None)),
        }
    }

    /// Returns the hint under the panel, with the time that is left.
    pub(crate) fn hint(&self, now: Duration) -> String {
        let keys = match &self.kind {
            DialogKind::Hidden { .. } => "input is hidden · Enter on empty skips",
            DialogKind::Picker(_) => "↑↓ select · Enter take · Esc leave",
            DialogKind::Choice { other: Some(_), .. } => "Enter answers · Esc goes back",
            DialogKind::Choice { .. } if self.command.is_some() => "↑↓ select · Enter confirm · Esc deny",
            DialogKind::Choice { .. } => "↑↓ select · Enter confirm",
        };
        let left = self
            .time_limit
            .zip(self.shown_at)
            .map(|(limit, shown)| limit.saturating_sub(now.saturating_sub(shown)));
        match left {
            // The countdown moves in steps, so that it does not distract.
            Some(left) => format!("{}s · {keys}", left.as_secs().div_ceil(5) * 5),
            None => keys.to_owned(),
        }
    }

    /// Renders the panel in at most `max_rows` rows.
    pub(crate) fn render(&self, width: usize, max_rows: usize, theme: &Theme) -> Vec<StyledLine> {
        if let DialogKind::Picker(picker) = &self.kind {
            return picker.render(width, max_rows, theme);
        }
        let outer = width.min(MAX_WIDTH.max(MIN_WIDTH));
        let inner = outer.saturating_sub(4).max(1);
        let body: Vec<StyledLine> =
            clean(&self.body).lines().flat_map(|line| wrap_words(&styled(line, theme.text), inner)).collect();
        let choices = self.choice_rows(inner, theme);
        let frame = 2 + usize::from(!choices.is_empty());
        let room = max_rows.saturating_sub(frame + choices.len()).max(1);
        let mut rows = body;
        if self.command.is_some() && room > rows.len() + 2 {
            rows.push(Line::default());
        }
        rows.extend(self.command_rows(inner, theme));
        let rows = self.scrolled(rows, room, inner, theme);
        let side = |line: StyledLine| {
            let mut line = pad(line, inner, theme.text);
            line.spans.insert(0, Span::styled("│ ", theme.border));
            line.spans.push(Span::styled(" │", theme.border));
            line
        };
        let mut panel = vec![titled_rule("╭", &self.title, "╮", outer, theme)];
        panel.extend(rows.into_iter().map(side));
        if !choices.is_empty() {
            panel.push(side(Line::default()));
            panel.extend(choices.into_iter().map(side));
        }
        panel.push(styled(format!("╰{}╯", "─".repeat(outer.saturating_sub(2))), theme.border));
        panel
    }

    fn command_rows(&self, inner: usize, theme: &Theme) -> Vec<StyledLine> {
        let command = self.command.as_deref().unwrap_or_default();
        // Nothing of a command is hidden: neither what a terminal acts on nor what has no width.
        hermes_text::escape_control(command)
            .replace('\t', "    ")
            .lines()
            .flat_map(|line| wrap(&styled(line, theme.code), inner, Breaks::Anywhere, &[], &[]))
            .collect()
    }

    fn choice_rows(&self, inner: usize, theme: &Theme) -> Vec<StyledLine> {
        let DialogKind::Choice { choices, selected, other, .. } = &self.kind else { return Vec::new() };
        let mut rows = Vec::new();
        for (at, choice) in choices.iter().enumerate() {
            let is_selected = at == *selected && other.is_none();
            let (mark, style) = if is_selected { ("❯ ", theme.accent) } else { ("  ", theme.text) };
            let key = choice.key.map_or_else(String::new, |key| format!("[{key}] "));
            let prefix = [Span::styled(mark, theme.accent), Span::styled(key, theme.dim)];
            let indent: usize = prefix.iter().map(|span| crate::glyphs::columns(&span.content)).sum();
            let rest = [Span::raw(" ".repeat(indent))];
            let label = styled(clean_line(&choice.label), style);
            rows.extend(wrap(&label, inner, Breaks::Words, &prefix, &rest));
        }
        rows
    }

    /// Returns the rows that fit, and says how many do not.
    fn scrolled(&self, rows: Vec<StyledLine>, room: usize, inner: usize, theme: &Theme) -> Vec<StyledLine> {
        let DialogKind::Choice { scroll, .. } = &self.kind else {
            return rows.into_iter().take(room).collect();
        };
        if rows.len() <= room {
            return rows;
        }
        let shown = room.saturating_sub(1).max(1);
        let from = (*scroll).min(rows.len() - shown);
        let below = rows.len() - shown - from;
        let note = format!("↑ {from} · ↓ {below} more lines (PgUp, PgDn)");
        let mut visible: Vec<StyledLine> = rows.into_iter().skip(from).take(shown).collect();
        if room > 1 {
            visible.push(cut(&styled(note, theme.dim), inner));
        }
        visible
    }
}

/// Whether typed text is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum InputVisibility {
    Shown,
    Hidden,
}

/// Returns one dot for each grapheme.
pub(crate) fn masked(text: &str) -> String {
    "•".repeat(grapheme_count(text))
}

fn choose(choice: &Choice, other: &mut Option<Editor>) -> Option<DialogOutcome> {
    match &choice.answer {
        ChoiceAnswer::Give(answer) => Some(DialogOutcome::Answered(answer.clone())),
        ChoiceAnswer::Type => {
            *other = Some(Editor::default());
            None
        }
    }
}
