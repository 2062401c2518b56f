//! Markup for mail: a few elements without styles, so that every program shows them.

use super::block::{MarkdownBlock, read};
use super::span::{MarkdownSpan, SpanStyle};

/// Returns a text as an HTML document. What the text itself has of markup is shown as it was written.
pub fn html(markdown: &str) -> String {
    let mut out = String::from("<html><body>\n");
    let mut blocks = read(markdown).into_iter().peekable();
    while let Some(block) = blocks.next() {
        match block {
            MarkdownBlock::Line(spans) => {
                out.push_str(&indented(&render(&spans)));
                let is_last_line = !matches!(blocks.peek(), Some(MarkdownBlock::Line(_)));
                out.push_str(if is_last_line { "\n" } else { "<br>\n" });
            }
            MarkdownBlock::Quote(spans) => quote(&mut out, &spans, &mut blocks),
            MarkdownBlock::Code { text, .. } | MarkdownBlock::Table(text) => {
                out.push_str("<pre>");
                out.push_str(&escape(&text));
                out.push_str("</pre>\n");
            }
        }
    }
    out.push_str("</body></html>\n");
    out
}

/// Writes the lines of a quotation, of which the first has been read.
pub(super) fn quote(
    out: &mut String,
    first: &[MarkdownSpan],
    blocks: &mut std::iter::Peekable<std::vec::IntoIter<MarkdownBlock>>,
) {
    out.push_str("<blockquote>");
    out.push_str(render(first).trim_start());
    while let Some(MarkdownBlock::Quote(more)) =
        blocks.next_if(|next| matches!(next, MarkdownBlock::Quote(_)))
    {
        out.push_str("<br>\n");
        out.push_str(render(&more).trim_start());
    }
    out.push_str("</blockquote>\n");
}

pub(super) fn render(spans: &[MarkdownSpan]) -> String {
    let span = |span: &MarkdownSpan| match span {
        MarkdownSpan::Text(text) => escape(text),
        MarkdownSpan::Code(text) => format!("<code>{}</code>", escape(text)),
        MarkdownSpan::Styled(SpanStyle::Bold, inner) => format!("<b>{}</b>", render(inner)),
        MarkdownSpan::Styled(SpanStyle::Italic, inner) => format!("<i>{}</i>", render(inner)),
        MarkdownSpan::Styled(SpanStyle::Strike, inner) => format!("<s>{}</s>", render(inner)),
        MarkdownSpan::Styled(SpanStyle::Spoiler, inner) => render(inner),
        MarkdownSpan::Link { label, url } => format!("<a href=\"{}\">{}</a>", escape(url), render(label)),
    };
    spans.iter().map(span).collect()
}

/// Keeps the blanks at the start of a line, which show the levels of a list.
pub(super) fn indented(line: &str) -> String {
    let rest = line.trim_start_matches(' ');
    format!("{}{rest}", "&nbsp;".repeat(line.len() - rest.len()))
}

pub(super) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            c => out.push(c),
        }
    }
    out
}
