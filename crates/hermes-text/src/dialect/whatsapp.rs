//! The markup of WhatsApp: `*bold*`, `_italic_`, `~struck~`, code in backticks. It has no escapes.

use super::block::{MarkdownBlock, read};
use super::span::{MarkdownSpan, SpanStyle, plain_text};

pub fn whatsapp(markdown: &str) -> String {
    let block = |block: MarkdownBlock| match block {
        MarkdownBlock::Line(spans) => render(&spans),
        MarkdownBlock::Quote(spans) => format!("> {}", render(&spans).trim_start()),
        MarkdownBlock::Code { text, .. } | MarkdownBlock::Table(text) => format!("```\n{text}\n```"),
    };
    read(markdown).into_iter().map(block).collect::<Vec<_>>().join("\n")
}

fn render(spans: &[MarkdownSpan]) -> String {
    let span = |span: &MarkdownSpan| match span {
        MarkdownSpan::Text(text) => text.clone(),
        MarkdownSpan::Code(text) => format!("`{text}`"),
        MarkdownSpan::Styled(SpanStyle::Bold, inner) => format!("*{}*", render(inner)),
        MarkdownSpan::Styled(SpanStyle::Italic, inner) => format!("_{}_", render(inner)),
        MarkdownSpan::Styled(SpanStyle::Strike, inner) => format!("~{}~", render(inner)),
        MarkdownSpan::Styled(SpanStyle::Spoiler, inner) => render(inner),
        MarkdownSpan::Link { label, url } => match plain_text(label) {
            label if label == *url => label,
            label => format!("{label} ({url})"),
        },
    };
    spans.iter().map(span).collect()
}
