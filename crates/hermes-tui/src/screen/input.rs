//! The input: the editor with its menu, its ghost text and the search through its history.

use std::path::PathBuf;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::ScreenEffect;
use crate::completion::{
    CommandItem, CompletionItem, CompletionMenu, CompletionWord, complete_argument, complete_command, rank,
};
use crate::editor::{Editor, FoldLimits, HistorySearch, Motion};

/// The input at the bottom of the screen.
#[derive(Debug, Default)]
pub(super) struct InputBox {
    pub(super) editor: Editor,
    pub(super) menu: Option<CompletionMenu>,
    /// True while the menu stays closed although the word could be completed.
    pub(super) menu_is_dismissed: bool,
    pub(super) search: Option<HistorySearch>,
    /// The pictures that go with the next message.
    pub(super) images: Vec<PathBuf>,
    commands: Vec<CommandItem>,
}

/// What became of a key during a search.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SearchKey {
    Used,
    /// The search ended, and the key means what it means without one.
    Passed,
}

/// Why the menu is looked at again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RefreshReason {
    Typing,
    /// The user asked for it.
    Asked,
}

impl InputBox {
    pub(super) fn new(history: Vec<String>, fold: FoldLimits, commands: Vec<CommandItem>) -> Self {
        Self { editor: Editor::with_history(history, fold), commands, ..Self::default() }
    }

    pub(super) fn set_commands(&mut self, commands: Vec<CommandItem>) {
        self.commands = commands;
    }

    /// Tells whether there is nothing to send.
    pub(super) fn is_blank(&self) -> bool {
        self.editor.is_empty() && self.images.is_empty()
    }

    /// Opens, renews or closes the menu after the text changed.
    pub(super) fn edited(&mut self, effects: &mut Vec<ScreenEffect>) {
        if let Some(menu) = &mut self.menu {
            menu.is_used = false;
        }
        self.refresh_menu(RefreshReason::Typing, effects);
    }

    fn refresh_menu(&mut self, reason: RefreshReason, effects: &mut Vec<ScreenEffect>) {
        let before = self.editor.buffer().before().to_owned();
        let word = CompletionWord::before(&before);
        if word.is_none() {
            self.menu_is_dismissed = false;
        }
        if self.menu_is_dismissed && reason == RefreshReason::Typing {
            self.menu = None;
            return;
        }
        self.menu_is_dismissed = false;
        self.menu = match word {
            Some(CompletionWord::Command(name)) => {
                let items = complete_command(&self.commands, name);
                CompletionMenu::of(items, name.len() + 1)
            }
            Some(CompletionWord::Argument { command, word }) => {
                let items = complete_argument(&self.commands, command, word);
                CompletionMenu::of(items, word.len())
            }
            Some(CompletionWord::Outside(word))
                if word.starts_with('@') || reason == RefreshReason::Asked =>
            {
                effects.push(ScreenEffect::Complete(word.to_owned()));
                // The entries of the word before stay until the new ones arrive.
                self.menu.take()
            }
            _ => None,
        };
    }

    pub(super) fn offer(&mut self, word: &str, items: Vec<CompletionItem>) {
        let is_current =
            CompletionWord::before(self.editor.buffer().before()) == Some(CompletionWord::Outside(word));
        if is_current && !self.menu_is_dismissed {
            self.menu = CompletionMenu::of(rank(items, word), word.len());
        }
    }

    pub(super) fn accept_menu_entry(&mut self, effects: &mut Vec<ScreenEffect>) -> bool {
        let Some(menu) = self.menu.take() else { return false };
        let Some(item) = menu.current() else { return false };
        self.editor.complete(menu.replaces, &item.insert);
        self.edited(effects);
        true
    }

    pub(super) fn close_menu(&mut self) {
        self.menu = None;
        self.menu_is_dismissed = false;
    }

    /// Returns the text that is offered behind the cursor.
    pub(super) fn ghost(&self) -> Option<String> {
        let buffer = self.editor.buffer();
        if buffer.is_empty() || !buffer.after().is_empty() || self.search.is_some() {
            return None;
        }
        if let Some(CompletionWord::Command(name)) = CompletionWord::before(buffer.text()) {
            let command = self.commands.iter().find(|command| command.name.starts_with(name));
            let rest = command.and_then(|command| command.name.get(name.len()..));
            return rest.filter(|rest| !rest.is_empty() && !name.is_empty()).map(str::to_owned);
        }
        self.editor.suggestion().map(str::to_owned)
    }

    pub(super) fn newline(&mut self, effects: &mut Vec<ScreenEffect>) {
        self.editor.insert("\n");
        self.edited(effects);
    }

    pub(super) fn tab(&mut self, effects: &mut Vec<ScreenEffect>) {
        if !self.accept_menu_entry(effects) && !self.accept_ghost(effects) {
            self.refresh_menu(RefreshReason::Asked, effects);
        }
    }

    pub(super) fn accept_ghost(&mut self, effects: &mut Vec<ScreenEffect>) -> bool {
        let Some(ghost) = self.ghost() else { return false };
        self.editor.insert(&ghost);
        self.edited(effects);
        true
    }

    pub(super) fn step_menu(&mut self, back: bool) {
        if let Some(menu) = &mut self.menu {
            menu.step(back);
        }
    }

    /// Handles a key while the history is searched.
    pub(super) fn search_key(&mut self, key: KeyEvent) -> SearchKey {
        let Some(mut search) = self.search.take() else { return SearchKey::Passed };
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        match key.code {
            KeyCode::Esc => return SearchKey::Used,
            KeyCode::Char('g') if control => return SearchKey::Used,
            KeyCode::Char('r') if control => search.next_older(&self.editor.history),
            KeyCode::Backspace => {
                search.query.pop();
                search.restart(&self.editor.history);
            }
            KeyCode::Char(c) if !control && !c.is_control() => {
                search.query.push(c);
                search.restart(&self.editor.history);
            }
            code => {
                // Any other key takes what was found, and then does what it does; Enter only takes it.
                if let Some(found) = search.found(&self.editor.history).map(str::to_owned) {
                    self.editor.set(&found);
                    self.editor.move_to(Motion::End);
                }
                let is_used = matches!(code, KeyCode::Enter | KeyCode::Tab);
                return if is_used { SearchKey::Used } else { SearchKey::Passed };
            }
        }
        self.search = Some(search);
        SearchKey::Used
    }
}
