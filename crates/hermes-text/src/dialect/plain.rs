//! Words without marks, for platforms that have none and for texts a platform could not read.

use super::block::{MarkdownBlock, read};
use super::span::{MarkdownSpan, plain_text};

/// The text as it would be read aloud, with the addresses of its links behind their labels.
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
