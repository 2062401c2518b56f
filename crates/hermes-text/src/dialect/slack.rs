//! Slack's mrkdwn.
//!
//! `&`, `<` and `>` are always escaped: what stands between unescaped brackets is a link or a mention, and a text must
//! not be able to mention anybody.

use super::block::{Block, read};
use super::span::{Span, Style};

pub fn slack(markdown: &str) -> String {
    let block = |block: Block| match block {
        Block::Line(spans) => render(&spans),
        Block::Quote(spans) => format!(">{}", render(&spans)),
        Block::Code { text, .. } | Block::Table(text) => format!("```\n{}\n```", escape(&apart(&text))),
    };
    read(markdown).into_iter().map(block).collect::<Vec<_>>().join("\n")
}

fn render(spans: &[Span]) -> String {
    let span = |span: &Span| match span {
        Span::Text(text) => escape(text),
        Span::Code(text) => format!("`{}`", escape(text)),
        Span::Styled(Style::Bold, inner) => format!("*{}*", render(inner)),
        Span::Styled(Style::Italic, inner) => format!("_{}_", render(inner)),
        Span::Styled(Style::Strike, inner) => format!("~{}~", render(inner)),
        Span::Styled(Style::Spoiler, inner) => render(inner),
        Span::Link { label, url } => match render(label) {
            label if label == escape(url) => format!("<{}>", address(url)),
            label => format!("<{}|{label}>", address(url)),
        },
    };
    spans.iter().map(span).collect()
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

fn address(url: &str) -> String {
    escape(url).replace('|', "%7C")
}

/// Three ticks in a row would end the block; there is no other way to write them.
fn apart(code: &str) -> String {
    code.replace("```", "`\u{200B}`\u{200B}`")
}
