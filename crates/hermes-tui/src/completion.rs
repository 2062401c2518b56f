//! The completion menu: commands, their sub-commands, and candidates that a port finds for `@` references and paths.

use ratatui_core::text::{Line, Span};

use crate::glyphs::{StyledLine, clean_line, columns, cut, cut_text, pad};
use crate::theme::Theme;

const MAX_ROWS: usize = 12;
const MAX_CANDIDATES: usize = 200;

/// A slash command as the menu lists it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CommandItem {
    /// The name without the slash.
    pub name: String,
    pub description: String,
    pub aliases: Vec<String>,
    /// The words that may follow the name.
    pub arguments: Vec<String>,
}

/// An entry of the completion menu.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompletionItem {
    /// The text that replaces the word.
    pub insert: String,
    /// The text in the menu.
    pub label: String,
    /// A remark beside it, such as a size.
    pub detail: String,
}

/// Finds completions that depend on the outside: files, folders, references.
pub trait CompletionSource: Send + Sync {
    /// Returns the candidates for a word such as `@src/ma` or `./Car`; the menu ranks them.
    fn candidates(&self, word: &str) -> Vec<CompletionItem>;
}

/// What kind of word stands before the cursor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CompletionWord<'a> {
    /// The name of a command.
    Command(&'a str),
    /// A word after a command's name.
    Argument { command: &'a str, word: &'a str },
    /// A reference or a path: the source is asked.
    Outside(&'a str),
}

impl CompletionWord<'_> {
    /// Returns the word before the cursor that can be completed.
    pub(crate) fn before(text: &str) -> Option<CompletionWord<'_>> {
        let word = text.rsplit(|c: char| c.is_whitespace()).next().unwrap_or_default();
        if let Some(line) = text.strip_prefix('/').filter(|line| !line.contains('\n')) {
            match line.split_once(' ') {
                None if !line.contains('/') => return Some(CompletionWord::Command(line)),
                Some((command, rest)) if !rest.contains(' ') => {
                    return Some(CompletionWord::Argument { command, word: rest });
                }
                _ => {}
            }
        }
        let is_path = ["./", "../", "~/", "/"].iter().any(|start| word.starts_with(start));
        (word.starts_with('@') || is_path).then_some(CompletionWord::Outside(word))
    }
}

/// The open menu.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CompletionMenu {
    pub(crate) items: Vec<CompletionItem>,
    pub(crate) selected: usize,
    /// The bytes before the cursor that an entry replaces.
    pub(crate) replaces: usize,
    /// True once an entry was selected with a key.
    pub(crate) is_used: bool,
}

impl CompletionMenu {
    pub(crate) fn of(items: Vec<CompletionItem>, replaces: usize) -> Option<Self> {
        (!items.is_empty()).then_some(Self { items, selected: 0, replaces, is_used: false })
    }

    pub(crate) fn step(&mut self, back: bool) {
        self.is_used = true;
        let count = self.items.len().max(1);
        self.selected = if back { (self.selected + count - 1) % count } else { (self.selected + 1) % count };
    }

    pub(crate) fn current(&self) -> Option<&CompletionItem> {
        self.items.get(self.selected)
    }

    pub(crate) fn render(&self, width: usize, max_rows: usize, theme: &Theme) -> Vec<StyledLine> {
        let rows = max_rows.min(MAX_ROWS).min(self.items.len());
        let from = visible_from(self.selected, self.items.len(), rows);
        let shown = self.items.iter().enumerate().skip(from).take(rows);
        let label_width =
            self.items.iter().map(|item| columns(&item.label)).max().unwrap_or(0).min(width / 2 + 4).min(32);
        shown
            .map(|(at, item)| {
                let (mark, style) =
                    if at == self.selected { ("❯ ", theme.accent) } else { ("  ", theme.text) };
                let label = Line::from(Span::styled(cut_text(&clean_line(&item.label), label_width), style));
                let mut line = pad(label, label_width + 2, theme.text);
                line.spans.insert(0, Span::styled(mark, theme.accent));
                line.spans.push(Span::styled(clean_line(&item.detail), theme.dim));
                cut(&line, width)
            })
            .collect()
    }
}

/// Returns the first visible entry, so that the selected one is among `rows`.
pub(crate) fn visible_from(selected: usize, count: usize, rows: usize) -> usize {
    selected.saturating_sub(rows / 2).min(count.saturating_sub(rows))
}

/// Lists the commands whose name or alias begins with the word; those that only contain it come after.
pub(crate) fn complete_command(commands: &[CommandItem], word: &str) -> Vec<CompletionItem> {
    let wanted = word.to_lowercase();
    let mut found: Vec<(u32, CompletionItem)> = Vec::new();
    for command in commands {
        let item = |name: &str, detail: String| CompletionItem {
            insert: format!("/{name} "),
            label: format!("/{name}"),
            detail,
        };
        if command.name.starts_with(&wanted) {
            found.push((0, item(&command.name, command.description.clone())));
        } else if let Some(alias) = command.aliases.iter().find(|alias| alias.starts_with(&wanted)) {
            found.push((1, item(alias, format!("alias for /{}", command.name))));
        } else if fuzzy_score(&command.name, &wanted).is_some() && wanted.chars().count() > 1 {
            found.push((2, item(&command.name, command.description.clone())));
        }
    }
    found.sort_by_key(|(rank, _)| *rank);
    found.into_iter().map(|(_, item)| item).collect()
}

/// Lists the words that may follow a command's name.
pub(crate) fn complete_argument(commands: &[CommandItem], command: &str, word: &str) -> Vec<CompletionItem> {
    let command = command.to_lowercase();
    let of_name = |item: &&CommandItem| item.name == command || item.aliases.contains(&command);
    let arguments = commands.iter().find(of_name).map_or(&[][..], |item| &item.arguments);
    let matching = arguments.iter().filter(|argument| argument.starts_with(word) && *argument != word);
    matching
        .map(|argument| CompletionItem {
            insert: argument.clone(),
            label: argument.clone(),
            detail: String::new(),
        })
        .collect()
}

/// Orders candidates by how well they match the word, and drops those that do not.
pub(crate) fn rank(items: Vec<CompletionItem>, word: &str) -> Vec<CompletionItem> {
    let wanted = word.trim_start_matches('@').to_lowercase();
    let mut scored: Vec<(u32, CompletionItem)> = items
        .into_iter()
        .filter_map(|item| Some((fuzzy_score(item.insert.trim_start_matches('@'), &wanted)?, item)))
        .collect();
    scored.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.insert.len().cmp(&b.1.insert.len())));
    scored.truncate(MAX_CANDIDATES);
    scored.into_iter().map(|(_, item)| item).collect()
}

/// Scores how well a text contains the letters of a lower-case word in order; nothing when it does not.
pub(crate) fn fuzzy_score(text: &str, wanted: &str) -> Option<u32> {
    let mut score = 0;
    let mut previous = None;
    let mut letters = wanted.chars().peekable();
    for (at, c) in text.chars().enumerate() {
        let Some(letter) = letters.peek() else { break };
        if c.to_lowercase().eq(std::iter::once(*letter)) {
            letters.next();
            let follows = previous.is_some_and(|(before, _)| before + 1 == at);
            let begins_word = at == 0
                || text.chars().nth(at - 1).is_some_and(|before| {
                    "/_-. :".contains(before) || (before.is_lowercase() && c.is_uppercase())
                });
            score += 1 + if follows { 4 } else { 0 } + if begins_word { 6 } else { 0 };
            previous = Some((at, c));
        }
    }
    letters.peek().is_none().then_some(score)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_word_decides_what_is_completed() {
        for (text, word) in [
            ("/he", Some(CompletionWord::Command("he"))),
            ("/skin da", Some(CompletionWord::Argument { command: "skin", word: "da" })),
            ("look at @src", Some(CompletionWord::Outside("@src"))),
            ("open ./Ca", Some(CompletionWord::Outside("./Ca"))),
            ("hello", None),
            ("", None),
        ] {
            assert_eq!(CompletionWord::before(text), word, "{text:?}");
        }
    }

    #[test]
    fn better_matches_come_first() {
        let item =
            |name: &str| CompletionItem { insert: name.into(), label: name.into(), detail: String::new() };
        let items = vec![item("@file:some/random.rs"), item("@file:src/main.rs"), item("@file:notes.txt")];
        let ranked: Vec<String> = rank(items, "@srmain").into_iter().map(|item| item.insert).collect();
        assert_eq!(ranked, ["@file:src/main.rs"]);
    }
}
