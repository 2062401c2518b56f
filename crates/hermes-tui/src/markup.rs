//! The markup in the art of skin files: `[bold #FFD700]text[/]`.
//!
//! Invariant: what is no known tag is text.

use ratatui_core::style::{Modifier, Style};
use ratatui_core::text::{Line, Span};

use crate::glyphs::{StyledLine, clean};
use crate::theme::Theme;

/// Returns the lines of marked-up text, without empty ones before and after.
pub(crate) fn lines(text: &str, theme: &Theme) -> Vec<StyledLine> {
    let text = clean(text);
    let mut style = Style::new();
    text.trim_matches('\n').split('\n').map(|line| spans(line.trim_end(), &mut style, theme)).collect()
}

/// Reads one line; a style lasts until its end tag, also on later lines.
fn spans(line: &str, style: &mut Style, theme: &Theme) -> StyledLine {
    let mut spans: Vec<Span<'static>> = Vec::new();
    let mut text = String::new();
    let mut rest = line;
    while let Some((before, after)) = rest.split_once('[') {
        let tag = after.split_once(']').and_then(|(tag, after)| Some((tag_style(tag, theme)?, after)));
        text.push_str(before);
        let Some((change, behind)) = tag else {
            text.push('[');
            rest = after;
            continue;
        };
        if !text.is_empty() {
            spans.push(Span::styled(std::mem::take(&mut text), *style));
        }
        *style = change;
        rest = behind;
    }
    text.push_str(rest);
    if !text.is_empty() {
        spans.push(Span::styled(text, *style));
    }
    Line::from(spans)
}

/// Returns the style a tag begins; the plain one for an end tag, nothing if it is no tag.
fn tag_style(tag: &str, theme: &Theme) -> Option<Style> {
    if tag.starts_with('/') {
        return Some(Style::new());
    }
    let mut style = Style::new();
    for word in tag.split_whitespace() {
        style = match word {
            "bold" | "b" => style.add_modifier(Modifier::BOLD),
            "dim" => style.add_modifier(Modifier::DIM),
            "italic" | "i" => style.add_modifier(Modifier::ITALIC),
            word => theme.color(word)?.map_or(style, |color| style.fg(color)),
        };
    }
    (!tag.trim().is_empty()).then_some(style)
}

#[cfg(test)]
mod tests {
    use ratatui_core::style::Color;

    use super::*;
    use crate::glyphs::plain_text;
    use crate::theme::{Background, ColorDepth};

    #[test]
    fn tags_color_text_and_brackets_that_are_no_tags_stay() {
        let theme = Theme::built_in(Background::Dark, ColorDepth::True);
        let found = lines("\n[bold #010203]a[/] [x] [1]\n[dim]b\nc[/dim]d\n", &theme);
        let texts: Vec<String> = found.iter().map(plain_text).collect();
        assert_eq!(texts, ["a [x] [1]", "b", "cd"]);
        assert_eq!(found[0].spans[0].style.fg, Some(Color::Rgb(1, 2, 3)));
        assert!(found[2].spans[0].style.add_modifier.contains(Modifier::DIM));
        assert_eq!(found[2].spans[1].style, Style::new());
        let plain = Theme::built_in(Background::Dark, ColorDepth::None);
        assert_eq!(lines("[#010203]a[/]", &plain)[0].spans[0].style.fg, None);
    }
}
