//! Words without marks, for platforms that have none and for texts a platform could not read.

use super::block::{Block, read};
use super::span::{Span, bare};

/// The text as it would be read aloud, with the addresses of its links behind their labels.
pub fn plain(markdown: &str) -> String {
    let block = |block: Block| match block {
        Block::Line(spans) => words(&spans),
        Block::Quote(spans) => format!(">{}", words(&spans)),
        Block::Code { text, .. } | Block::Table(text) => text,
    };
    read(markdown).into_iter().map(block).collect::<Vec<_>>().join("\n")
}

fn words(spans: &[Span]) -> String {
    spans
        .iter()
        .map(|span| match span {
            Span::Text(text) | Span::Code(text) => text.clone(),
            Span::Styled(_, inner) => words(inner),
            Span::Link { label, url } => match bare(label) {
                label if label == *url => label,
                label => format!("{label} ({url})"),
            },
        })
        .collect()
}
