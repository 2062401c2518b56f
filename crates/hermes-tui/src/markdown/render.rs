//! Turns Markdown into styled rows of a given width. Pure.

use pulldown_cmark::{CodeBlockKind, Event, HeadingLevel, Options, Parser, Tag, TagEnd};
use ratatui_core::style::{Modifier, Style};
use ratatui_core::text::{Line, Span};

use super::highlight::CodeHighlighter;
use super::table::MarkdownTable;
use crate::glyphs::{Breaks, StyledLine, clean, wrap};
use crate::theme::Theme;

pub(super) const CODE_INDENT: &str = "  ";

pub(super) fn options() -> Options {
    Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS
}

/// Renders a text. `ordinal` replaces the number of the first item when the text continues an ordered list.
pub(super) fn render(source: &str, width: usize, theme: &Theme, ordinal: Option<u64>) -> Vec<StyledLine> {
    let mut renderer = MarkdownRenderer {
        theme,
        width,
        ordinal,
        rows: Vec::new(),
        prefixes: Vec::new(),
        lines: vec![Vec::new()],
        styles: vec![theme.text],
        lists: Vec::new(),
        gap: false,
        code: None,
        table: None,
        links: Vec::new(),
    };
    for event in Parser::new_ext(source, options()) {
        renderer.event(event);
    }
    renderer.flush();
    renderer.rows
}

/// Renders a line of code.
pub(super) fn code_rows(spans: Vec<Span<'static>>, width: usize) -> Vec<StyledLine> {
    let indent = [Span::raw(CODE_INDENT)];
    wrap(&Line::from(spans), width, Breaks::Anywhere, &indent, &indent)
}

/// What stands before the rows of a quote or a list item.
struct RowPrefix {
    first: Span<'static>,
    rest: Span<'static>,
    is_used: bool,
}

struct MarkdownRenderer<'t> {
    theme: &'t Theme,
    width: usize,
    ordinal: Option<u64>,
    rows: Vec<StyledLine>,
    prefixes: Vec<RowPrefix>,
    /// The lines of the block that is being read.
    lines: Vec<Vec<Span<'static>>>,
    styles: Vec<Style>,
    /// The number of the next item of each open list.
    lists: Vec<Option<u64>>,
    /// True when the next block is set apart by an empty row.
    gap: bool,
    code: Option<(String, String)>,
    table: Option<MarkdownTable>,
    links: Vec<(String, usize)>,
}

impl MarkdownRenderer<'_> {
    fn event(&mut self, event: Event<'_>) {
        match event {
            Event::Start(tag) => self.start(tag),
            Event::End(tag) => self.end(tag),
            Event::Text(text) => match &mut self.code {
                Some((_, code)) => code.push_str(&text),
                None => self.text(&text, self.style()),
            },
            Event::Code(code) => self.text(&code, self.style().patch(self.theme.code)),
            Event::Html(html) | Event::InlineHtml(html) => {
                for (at, line) in html.trim_end_matches('\n').split('\n').enumerate() {
                    if at > 0 {
                        self.lines.push(Vec::new());
                    }
                    self.text(line, self.style().patch(self.theme.dim));
                }
            }
            // Models break lines where they want a break.
            Event::SoftBreak | Event::HardBreak if self.table.is_none() => self.lines.push(Vec::new()),
            Event::SoftBreak | Event::HardBreak => self.text(" ", self.style()),
            Event::Rule => {
                self.flush();
                self.separate();
                self.lines = vec![vec![Span::styled("─".repeat(self.width.min(40)), self.theme.dim)]];
                self.flush();
                self.gap = true;
            }
            Event::TaskListMarker(is_done) => {
                self.text(if is_done { "☑ " } else { "☐ " }, self.style());
            }
            Event::FootnoteReference(text) | Event::InlineMath(text) | Event::DisplayMath(text) => {
                self.text(&text, self.style());
            }
        }
    }

    fn start(&mut self, tag: Tag<'_>) {
        match tag {
            Tag::Paragraph => self.begin_block(),
            Tag::Heading { level, .. } => {
                self.begin_block();
                let underline =
                    if level == HeadingLevel::H1 { Modifier::UNDERLINED } else { Modifier::empty() };
                self.styles.push(self.theme.heading.add_modifier(underline));
            }
            Tag::BlockQuote(_) => {
                self.begin_block();
                let bar = Span::styled("│ ", self.theme.dim);
                self.prefixes.push(RowPrefix { first: bar.clone(), rest: bar, is_used: false });
                self.styles.push(self.style().patch(self.theme.dim));
                self.gap = false;
            }
            Tag::CodeBlock(kind) => {
                self.begin_block();
                let language = match kind {
                    CodeBlockKind::Fenced(info) => {
                        info.split([' ', ',']).next().unwrap_or_default().to_owned()
                    }
                    CodeBlockKind::Indented => String::new(),
                };
                self.code = Some((language, String::new()));
            }
            Tag::List(first) => {
                self.flush();
                if self.lists.is_empty() {
                    self.separate();
                }
                self.gap = false;
                let number = first.map(|first| self.ordinal.take().unwrap_or(first));
                self.lists.push(number);
            }
            Tag::Item => {
                self.flush();
                self.gap = false;
                let marker = match self.lists.last_mut() {
                    Some(Some(number)) => {
                        *number += 1;
                        format!("{}. ", *number - 1)
                    }
                    _ => "• ".to_owned(),
                };
                let rest = " ".repeat(crate::glyphs::columns(&marker));
                let first = Span::styled(marker, self.theme.dim);
                self.prefixes.push(RowPrefix { first, rest: Span::raw(rest), is_used: false });
            }
            Tag::Table(alignments) => {
                self.begin_block();
                self.table = Some(MarkdownTable { alignments, rows: Vec::new() });
            }
            Tag::TableHead | Tag::TableRow => {
                if let Some(table) = &mut self.table {
                    table.rows.push(Vec::new());
                }
            }
            Tag::Emphasis => self.push_modifier(Modifier::ITALIC),
            Tag::Strong => self.push_modifier(Modifier::BOLD),
            Tag::Strikethrough => self.push_modifier(Modifier::CROSSED_OUT),
            Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. } => {
                let at = self.lines.last().map_or(0, Vec::len);
                self.links.push((dest_url.into_string(), at));
                self.styles.push(self.style().patch(self.theme.link));
            }
            _ => {}
        }
    }

    fn end(&mut self, tag: TagEnd) {
        match tag {
            TagEnd::Paragraph | TagEnd::HtmlBlock => {
                self.flush();
                self.gap = true;
            }
            TagEnd::Heading(_) => {
                self.flush();
                self.styles.pop();
                self.gap = true;
            }
            TagEnd::BlockQuote(_) => {
                self.flush();
                self.prefixes.pop();
                self.styles.pop();
                self.gap = true;
            }
            TagEnd::CodeBlock => self.end_code(),
            TagEnd::List(_) => {
                self.lists.pop();
                self.gap = self.lists.is_empty();
            }
            TagEnd::Item => {
                self.flush();
                if self.prefixes.last().is_some_and(|prefix| !prefix.is_used) {
                    self.push_rows(&Line::default());
                }
                self.prefixes.pop();
                self.gap = false;
            }
            TagEnd::TableCell => {
                let cell = Line::from(self.lines.concat());
                self.lines = vec![Vec::new()];
                if let Some(row) = self.table.as_mut().and_then(|table| table.rows.last_mut()) {
                    row.push(cell);
                }
            }
            TagEnd::Table => {
                let rows = self.table.take().unwrap_or_default().render(self.inner_width(), self.theme);
                for row in rows {
                    self.push_rows(&row);
                }
                self.gap = true;
            }
            TagEnd::Emphasis | TagEnd::Strong | TagEnd::Strikethrough => drop(self.styles.pop()),
            TagEnd::Link | TagEnd::Image => self.end_link(),
            _ => {}
        }
    }

    /// Shows the address after the words, unless the words are the address.
    fn end_link(&mut self) {
        self.styles.pop();
        let Some((url, from)) = self.links.pop() else { return };
        let words: String = self
            .lines
            .last()
            .map(|line| line.iter().skip(from).map(|span| span.content.as_ref()).collect())
            .unwrap_or_default();
        let address = url.split_once("://").map_or(url.as_str(), |(_, address)| address);
        let address = address.strip_prefix("mailto:").unwrap_or(address).trim_end_matches('/');
        if !url.is_empty() && words.trim_end_matches('/') != address && words != url {
            self.text(&format!(" ({url})"), self.style().patch(self.theme.dim));
        }
    }

    fn end_code(&mut self) {
        let Some((language, code)) = self.code.take() else { return };
        let mut highlighter = CodeHighlighter::new(&language);
        for line in code.trim_end_matches('\n').split('\n') {
            for row in code_rows(highlighter.line(line, self.theme), self.inner_width()) {
                self.push_rows(&row);
            }
        }
        self.gap = true;
    }

    fn style(&self) -> Style {
        self.styles.last().copied().unwrap_or_default()
    }

    fn push_modifier(&mut self, modifier: Modifier) {
        self.styles.push(self.style().add_modifier(modifier));
    }

    fn text(&mut self, text: &str, style: Style) {
        if let Some(line) = self.lines.last_mut() {
            line.push(Span::styled(clean(text).replace('\n', " "), style));
        }
    }

    fn begin_block(&mut self) {
        self.flush();
        self.separate();
    }

    fn separate(&mut self) {
        if std::mem::take(&mut self.gap) && !self.rows.is_empty() {
            self.push_rows(&Line::default());
        }
    }

    fn inner_width(&self) -> usize {
        let used: usize =
            self.prefixes.iter().map(|prefix| crate::glyphs::columns(&prefix.rest.content)).sum();
        self.width.saturating_sub(used).max(1)
    }

    fn flush(&mut self) {
        let lines = std::mem::replace(&mut self.lines, vec![Vec::new()]);
        if lines.iter().all(Vec::is_empty) {
            return;
        }
        for spans in lines {
            self.push_rows(&Line::from(spans));
        }
    }

    fn push_rows(&mut self, line: &StyledLine) {
        let rest: Vec<Span<'static>> = self.prefixes.iter().map(|prefix| prefix.rest.clone()).collect();
        let mut first = Vec::new();
        for prefix in &mut self.prefixes {
            let is_used = std::mem::replace(&mut prefix.is_used, true);
            first.push(if is_used { prefix.rest.clone() } else { prefix.first.clone() });
        }
        self.rows.extend(wrap(line, self.width, Breaks::Words, &first, &rest));
    }
}
