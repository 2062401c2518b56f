//! The keys of the screen: which part a key belongs to, and what it means there.

use std::time::Duration;

use crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use super::input::SearchKey;
use super::{DOUBLE_PRESS, OpenOutput, Operation, ScreenEffect, ScreenState};
use crate::editor::HistorySearch;
use crate::voice::VoiceActivity;

const OUTPUT_PAGE: usize = 8;

impl ScreenState {
    pub(super) fn key(&mut self, key: KeyEvent, now: Duration) -> Vec<ScreenEffect> {
        let mut effects = Vec::new();
        if key.kind == KeyEventKind::Release {
            return effects;
        }
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        let after_ctrl_x = std::mem::take(&mut self.after_ctrl_x);
        match key.code {
            KeyCode::Char('z') if control => effects.push(ScreenEffect::Suspend),
            KeyCode::Char('l') if control => effects.push(ScreenEffect::Repaint),
            _ if !self.dialogs.is_empty() => self.dialog_key(key, now, &mut effects),
            KeyCode::Char('c') if control && self.voice.is_recording() => {
                effects.push(ScreenEffect::Operate(Operation::CancelRecording));
            }
            KeyCode::Char('c') if control => self.interrupt_key(now, &mut effects),
            _ if self.voice != VoiceActivity::Off && self.setup.record_key.matches(&key) => {
                effects.push(ScreenEffect::Operate(Operation::Record));
            }
            // A slow command runs: what is typed would be lost, so it is not taken.
            _ if self.lock.is_some() => {}
            _ if self.input.search.is_some() => {
                if self.input.search_key(key) == SearchKey::Passed {
                    self.input_key(key, now, &mut effects);
                }
            }
            KeyCode::Char('e') if control && after_ctrl_x => {
                effects.push(ScreenEffect::Edit(self.input.editor.edited().text));
            }
            _ => self.input_key(key, now, &mut effects),
        }
        effects
    }

    fn dialog_key(&mut self, key: KeyEvent, now: Duration, effects: &mut Vec<ScreenEffect>) {
        let outcome = self.dialogs.front_mut().and_then(|dialog| dialog.key(key, now));
        if let Some(outcome) = outcome {
            self.finish_dialog(outcome, now, effects);
        }
    }

    /// Ctrl-C: stops the turn, then the program; without a turn clears the input, then ends.
    fn interrupt_key(&mut self, now: Duration, effects: &mut Vec<ScreenEffect>) {
        let again = self.last_interrupt.is_some_and(|before| now.saturating_sub(before) < DOUBLE_PRESS);
        self.last_interrupt = Some(now);
        if self.running_since.is_some() || self.lock.is_some() {
            if again {
                self.set_hint("⚡ Force exiting...", now);
                effects.push(ScreenEffect::Operate(Operation::ForceQuit));
            } else {
                self.interrupt(now, effects);
            }
        } else if self.input.search.take().is_some() || !self.input.is_blank() {
            self.input.editor.clear();
            self.input.images.clear();
            self.input.close_menu();
            self.open_output = None;
            self.last_interrupt = None;
        } else if again {
            effects.push(ScreenEffect::Operate(Operation::Quit));
        } else {
            self.set_hint("Press Ctrl+C again to quit", now);
        }
    }

    fn interrupt(&mut self, now: Duration, effects: &mut Vec<ScreenEffect>) {
        self.last_interrupt = Some(now);
        self.set_hint("⚡ Interrupting agent... (press Ctrl+C again to force exit)", now);
        effects.push(ScreenEffect::Operate(Operation::Interrupt));
    }

    fn input_key(&mut self, key: KeyEvent, now: Duration, effects: &mut Vec<ScreenEffect>) {
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        let alt = key.modifiers.contains(KeyModifiers::ALT);
        let shift = key.modifiers.contains(KeyModifiers::SHIFT);
        match key.code {
            KeyCode::Enter if alt || shift || control => self.input.newline(effects),
            KeyCode::Char('j') if control => self.input.newline(effects),
            KeyCode::Enter if self.input.editor.buffer().before().ends_with('\\') => {
                self.input.editor.complete(1, "\n");
                self.input.edited(effects);
            }
            KeyCode::Enter if self.input.menu.as_ref().is_some_and(|menu| menu.is_used) => {
                self.input.accept_menu_entry(effects);
            }
            KeyCode::Enter => self.submit(now, effects),
            KeyCode::Tab => self.input.tab(effects),
            KeyCode::BackTab => self.input.step_menu(true),
            KeyCode::Up if self.input.menu.is_some() => self.input.step_menu(true),
            KeyCode::Down if self.input.menu.is_some() => self.input.step_menu(false),
            KeyCode::Char('p') if control && self.input.menu.is_some() => self.input.step_menu(true),
            KeyCode::Char('n') if control && self.input.menu.is_some() => self.input.step_menu(false),
            KeyCode::Esc => self.escape(now, effects),
            KeyCode::Char('d') if control && self.input.is_blank() => {
                effects.push(ScreenEffect::Operate(Operation::Quit));
            }
            KeyCode::Char('r') if control => {
                self.input.close_menu();
                self.input.search = Some(HistorySearch::default());
            }
            KeyCode::Char('g') if control => {
                effects.push(ScreenEffect::Edit(self.input.editor.edited().text));
            }
            KeyCode::Char('v') if control || alt => effects.push(ScreenEffect::PasteImage),
            KeyCode::Backspace if self.input.editor.is_empty() && !self.input.images.is_empty() => {
                self.input.images.pop();
            }
            KeyCode::Char('x') if control => self.after_ctrl_x = true,
            KeyCode::Char('o') if control => {
                // Again for the one before; after the oldest none is open.
                let age = self.open_output.map_or(0, |open| open.age + 1);
                self.open_output = self.transcript.outputs.get(age).map(|_| OpenOutput { age, scroll: 0 });
            }
            KeyCode::PageUp | KeyCode::PageDown => self.scroll_output(key.code),
            KeyCode::Up | KeyCode::Down if self.open_output.is_some() && self.input.editor.is_empty() => {
                self.scroll_output(key.code);
            }
            KeyCode::Right | KeyCode::End if !control && self.input.ghost().is_some() => {
                self.input.accept_ghost(effects);
            }
            // An input that comes back is not being typed: the menu would take the next arrow.
            KeyCode::Up | KeyCode::Down => {
                self.input.editor.key(key);
                self.input.menu_is_dismissed = true;
            }
            _ => {
                if self.input.editor.key(key).is_used() {
                    self.input.edited(effects);
                }
            }
        }
    }

    /// Escape closes what is open, the innermost first; with nothing open it stops the turn.
    fn escape(&mut self, now: Duration, effects: &mut Vec<ScreenEffect>) {
        if self.input.menu.take().is_some() {
            self.input.menu_is_dismissed = true;
        } else if self.open_output.take().is_none() && self.running_since.is_some() {
            self.interrupt(now, effects);
        }
    }

    fn scroll_output(&mut self, key: KeyCode) {
        if let Some(open) = &mut self.open_output {
            open.scroll = match key {
                KeyCode::Up => open.scroll.saturating_sub(1),
                KeyCode::PageUp => open.scroll.saturating_sub(OUTPUT_PAGE),
                KeyCode::PageDown => open.scroll.saturating_add(OUTPUT_PAGE),
                _ => open.scroll.saturating_add(1),
            };
        }
    }
}
