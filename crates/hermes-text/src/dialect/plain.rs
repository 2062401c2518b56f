//! Text without marks, for platforms without formatting and for texts that a platform could not parse.

use super::block::{MarkdownBlock, read};
use super::span::{MarkdownSpan, plain_text};

/// Returns the text without marks, with the URLs of its links after their labels.
pub fn plain(markdown: &str) -> String {
    let block = |block: MarkdownBlock| match block {
        MarkdownBlock::Line(spans) => render_spans(&spans),
        MarkdownBlock::Quote(spans) => format!(">{}", render_spans(&spans)),
        MarkdownBlock::Code { text, .. } | MarkdownBlock::Table(text) => text,
    };
    read(markdown).into_iter().map(block).collect::<Vec<_>>().join("\n")
}

fn render_spans(spans: &[MarkdownSpan]) -> String {
    spans
        .iter()
        .map(|span| match span {
            MarkdownSpan::Text(text) | MarkdownSpan::Code(text) => text.clone(),
            MarkdownSpan::Styled(_, inner) => render_spans(inner),
            MarkdownSpan::Link { label, url } => match plain_text(label) {
                label if label == *url => label,
                label => format!("{label} ({url})"),
            },
        })
        .collect()
}
