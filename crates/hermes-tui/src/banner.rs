//! The banner at the beginning of a chat: a panel with what the agent is and what it can use.
//!
//! Holds the layout only; what is shown comes from the program. Invariant: no row is wider than the screen, and nothing of the
//! program's texts reaches the terminal as a control sequence.

use ratatui_core::style::{Modifier, Style};
use ratatui_core::text::{Line, Span};

use crate::glyphs::{StyledLine, clean, clean_line, columns, cut, line_columns, pad, styled, wrap_words};
use crate::markup;
use crate::theme::Theme;

/// The narrowest screen with two columns.
const WIDE: usize = 80;
/// The narrowest screen with the logo of a skin.
const LOGO_WIDTH: usize = 95;
const MOST_PANEL_COLUMNS: usize = 120;
const MOST_LEFT_COLUMNS: usize = 44;
/// The rows a section takes at most.
const MOST_SECTION_ROWS: usize = 6;
/// What stands in the place of a skin's own picture: a winged staff.
const STAFF: &str = include_str!("staff.txt");

/// What the banner says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Banner {
    /// The name of the agent, with its version.
    pub title: String,
    /// The model, the folder and the session, a line each.
    pub facts: Vec<String>,
    pub sections: Vec<BannerSection>,
    /// How much of everything there is.
    pub summary: String,
    /// What a small banner says in the place of facts and sections.
    pub short: String,
    /// Markup art of a skin above the panel.
    pub logo: String,
    /// Markup art of a skin in the panel.
    pub hero: String,
    pub size: BannerSize,
}

/// How much the banner shows where there is room.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum BannerSize {
    #[default]
    Full,
    Small,
}

/// A part of the banner: names with what belongs to each.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BannerSection {
    pub title: String,
    pub rows: Vec<(String, String)>,
}

impl Banner {
    /// Lays the banner out for a screen.
    pub(crate) fn rows(&self, width: usize, theme: &Theme) -> Vec<StyledLine> {
        if width < WIDE || self.size == BannerSize::Small {
            return self.small(width, theme);
        }
        let mut rows = Vec::new();
        if width >= LOGO_WIDTH && !self.logo.trim().is_empty() {
            rows.extend(markup::lines(&self.logo, theme).iter().map(|line| cut(line, width)));
        }
        let panel = width.min(MOST_PANEL_COLUMNS);
        let left = self.left(theme);
        let left_width = left.iter().map(line_columns).max().unwrap_or(0).min(MOST_LEFT_COLUMNS);
        // The border takes two columns at each side, the gap between the columns three.
        let right_width = panel.saturating_sub(left_width + 7);
        let right = self.right(right_width, theme);
        rows.push(self.top(panel, theme));
        for at in 0..left.len().max(right.len()) {
            let cell = |column: &[StyledLine], width: usize| {
                pad(cut(column.get(at).unwrap_or(&Line::default()), width), width, Style::new())
            };
            let mut row = styled("│ ", theme.banner_border);
            row.spans.extend(cell(&left, left_width).spans);
            row.spans.push(Span::raw("   "));
            row.spans.extend(cell(&right, right_width).spans);
            row.spans.push(Span::styled(" │", theme.banner_border));
            rows.push(row);
        }
        rows.push(styled(format!("╰{}╯", "─".repeat(panel - 2)), theme.banner_border));
        rows
    }

    fn top(&self, panel: usize, theme: &Theme) -> StyledLine {
        let title = cut(&styled(clean_line(&self.title), theme.banner_title), panel.saturating_sub(6));
        let rest = panel.saturating_sub(line_columns(&title) + 5);
        let mut row = styled("╭─ ", theme.banner_border);
        row.spans.extend(title.spans);
        row.spans.push(Span::styled(format!(" {}╮", "─".repeat(rest)), theme.banner_border));
        row
    }

    fn small(&self, width: usize, theme: &Theme) -> Vec<StyledLine> {
        let title = styled(clean_line(&self.title), theme.banner_title);
        let short = styled(clean_line(&self.short), theme.banner_text);
        if width < 20 {
            return [title, short].iter().flat_map(|line| wrap_words(line, width.max(1))).collect();
        }
        let inside = line_columns(&title).max(columns(&self.short)).min(width - 4);
        let mut rows = vec![self.top(inside + 4, theme)];
        for line in wrap_words(&short, inside) {
            let mut row = styled("│ ", theme.banner_border);
            row.spans.extend(pad(line, inside, Style::new()).spans);
            row.spans.push(Span::styled(" │", theme.banner_border));
            rows.push(row);
        }
        rows.push(styled(format!("╰{}╯", "─".repeat(inside + 2)), theme.banner_border));
        rows
    }

    fn left(&self, theme: &Theme) -> Vec<StyledLine> {
        let mut rows = match self.hero.trim() {
            "" => STAFF.lines().map(|line| styled(line.to_owned(), theme.banner_accent)).collect(),
            _ => markup::lines(&self.hero, theme),
        };
        rows.push(Line::default());
        for (at, fact) in self.facts.iter().enumerate() {
            let style = if at == 0 { theme.banner_text } else { theme.banner_dim };
            rows.extend(wrap_words(&styled(clean(fact), style), MOST_LEFT_COLUMNS));
        }
        rows
    }

    fn right(&self, width: usize, theme: &Theme) -> Vec<StyledLine> {
        let mut rows = Vec::new();
        for section in self.sections.iter().filter(|section| !section.rows.is_empty()) {
            let title = theme.banner_accent.add_modifier(Modifier::BOLD);
            rows.push(styled(clean_line(&section.title), title));
            let shown = if section.rows.len() > MOST_SECTION_ROWS {
                MOST_SECTION_ROWS - 1
            } else {
                section.rows.len()
            };
            for (name, text) in section.rows.iter().take(shown) {
                let mut row = styled(clean_line(name), theme.banner_dim);
                if !text.is_empty() {
                    row.spans.push(Span::styled(format!(": {}", clean_line(text)), theme.banner_text));
                }
                rows.push(cut(&row, width));
            }
            if shown < section.rows.len() {
                let rest = section.rows.len() - shown;
                rows.push(styled(format!("(and {rest} more)"), theme.banner_dim));
            }
            rows.push(Line::default());
        }
        rows.extend(wrap_words(&styled(clean_line(&self.summary), theme.banner_dim), width));
        rows
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::glyphs::plain_text;
    use crate::theme::{Background, ColorDepth};

    fn banner() -> Banner {
        Banner {
            title: "Hermes Agent v1.2.3".to_owned(),
            facts: vec!["a-model · 128K context".to_owned(), "/home/ann/東京 project".to_owned()],
            sections: vec![BannerSection {
                title: "Available tools".to_owned(),
                rows: (0..20).map(|at| (format!("set-{at}"), "one, two, three ".repeat(at))).collect(),
            }],
            summary: "20 tools · /help for commands".to_owned(),
            short: "● a-model · 20 tools".to_owned(),
            hero: "[bold #ff0000]\u{1b}[2Jart[/]".to_owned(),
            ..Banner::default()
        }
    }

    #[test]
    fn no_row_is_wider_than_the_screen_and_the_panel_is_closed() {
        for (depth, width) in [
            (ColorDepth::True, 200),
            (ColorDepth::None, 80),
            (ColorDepth::Sixteen, 44),
            (ColorDepth::True, 7),
        ] {
            let theme = Theme::built_in(Background::Dark, depth);
            let rows = banner().rows(width, &theme);
            let widths: Vec<usize> = rows.iter().map(line_columns).collect();
            assert!(widths.iter().all(|columns| *columns <= width), "{width}: {widths:?}");
            if width >= 20 {
                assert!(widths.iter().all(|columns| *columns == widths[0]), "{width}: {widths:?}");
            }
            let text: String = rows.iter().map(plain_text).collect();
            assert!(!text.contains('\u{1b}'), "{text:?}");
        }
    }

    #[test]
    fn a_long_section_says_how_much_is_missing() {
        let theme = Theme::built_in(Background::Dark, ColorDepth::True);
        let text: Vec<String> = banner().rows(120, &theme).iter().map(plain_text).collect();
        let text = text.join("\n");
        assert!(text.contains("(and 15 more)") && text.contains("art"), "{text}");
        let small = Banner { size: BannerSize::Small, ..banner() };
        assert_eq!(small.rows(120, &theme).len(), 3);
    }
}
