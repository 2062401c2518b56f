//! Colours of code. The grammars are loaded when the first code block is shown.

use std::sync::OnceLock;

use ratatui_core::style::Style;
use ratatui_core::text::Span;
use syntect::parsing::{ParseState, Scope, ScopeStack, SyntaxReference, SyntaxSet};

use crate::glyphs::clean;
use crate::theme::Theme;

/// A longer line is data, not code to read.
const MAX_LINE_BYTES: usize = 2_000;

static SYNTAXES: OnceLock<SyntaxSet> = OnceLock::new();
static CLASSES: OnceLock<Vec<(Scope, TokenClass)>> = OnceLock::new();

/// Scope prefixes, the more specific ones first.
const SCOPES: [(&str, TokenClass); 16] = [
    ("comment", TokenClass::Comment),
    ("punctuation.definition.comment", TokenClass::Comment),
    ("string", TokenClass::String),
    ("constant.numeric", TokenClass::Number),
    ("constant.language", TokenClass::Number),
    ("constant.character", TokenClass::String),
    ("entity.name.function", TokenClass::Function),
    ("support.function", TokenClass::Function),
    ("variable.function", TokenClass::Function),
    ("entity.name.tag", TokenClass::Keyword),
    ("entity.name", TokenClass::Type),
    ("support.type", TokenClass::Type),
    ("storage", TokenClass::Keyword),
    ("keyword.operator", TokenClass::Plain),
    ("keyword", TokenClass::Keyword),
    ("variable.language", TokenClass::Keyword),
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TokenClass {
    Plain,
    Comment,
    String,
    Number,
    Function,
    Type,
    Keyword,
}

impl TokenClass {
    fn style(self, theme: &Theme) -> Style {
        match self {
            Self::Plain => theme.text,
            Self::Comment => theme.comment,
            Self::String => theme.string,
            Self::Number => theme.number,
            Self::Function => theme.function,
            Self::Type => theme.type_name,
            Self::Keyword => theme.keyword,
        }
    }
}

/// Colours the lines of one code block, in order.
#[derive(Debug, Clone)]
pub(crate) struct CodeHighlighter(Option<(ParseState, ScopeStack)>);

impl CodeHighlighter {
    /// Begins a block; code in an unknown language stays plain.
    pub(crate) fn new(language: &str) -> Self {
        Self(find_syntax(language).map(|syntax| (ParseState::new(syntax), ScopeStack::new())))
    }

    /// Colours the next line, which has no line break.
    pub(crate) fn line(&mut self, line: &str, theme: &Theme) -> Vec<Span<'static>> {
        let (Some((state, stack)), true) = (&mut self.0, line.len() <= MAX_LINE_BYTES) else {
            return vec![Span::styled(clean(line), theme.text)];
        };
        let syntaxes = SYNTAXES.get_or_init(SyntaxSet::load_defaults_newlines);
        let with_break = format!("{line}\n");
        let Ok(changes) = state.parse_line(&with_break, syntaxes) else {
            return vec![Span::styled(clean(line), theme.text)];
        };
        let mut spans = Vec::new();
        let mut from = 0;
        for (at, change) in changes {
            push(&mut spans, line.get(from..at.min(line.len())), stack, theme);
            from = at;
            // A grammar that contradicts itself costs colours only.
            let _ = stack.apply(&change);
        }
        push(&mut spans, line.get(from..), stack, theme);
        spans
    }
}

fn push(spans: &mut Vec<Span<'static>>, text: Option<&str>, stack: &ScopeStack, theme: &Theme) {
    if let Some(text) = text.filter(|text| !text.is_empty()) {
        spans.push(Span::styled(clean(text), classify(stack).style(theme)));
    }
}

fn classify(stack: &ScopeStack) -> TokenClass {
    let classes = CLASSES.get_or_init(|| {
        SCOPES.iter().filter_map(|(name, class)| Some((Scope::new(name).ok()?, *class))).collect()
    });
    let of_scope = |scope: &Scope| classes.iter().find(|(prefix, _)| prefix.is_prefix_of(*scope));
    stack.as_slice().iter().rev().find_map(of_scope).map_or(TokenClass::Plain, |(_, class)| *class)
}

fn find_syntax(language: &str) -> Option<&'static SyntaxReference> {
    if language.is_empty() {
        return None;
    }
    let token = match language.to_ascii_lowercase().as_str() {
        "ts" | "tsx" | "typescript" | "jsx" | "mjs" => "js".to_owned(),
        "shell" | "console" | "zsh" => "sh".to_owned(),
        "jsonc" | "json5" => "json".to_owned(),
        "py3" | "python3" => "py".to_owned(),
        other => other.to_owned(),
    };
    SYNTAXES.get_or_init(SyntaxSet::load_defaults_newlines).find_syntax_by_token(&token)
}
