//! Slack's mrkdwn.
//!
//! `&`, `<` and `>` are escaped: text between unescaped brackets is a link or a mention. A user or a channel may be
//! mentioned, in Slack's own syntax; everyone at once may not.

use super::block::{MarkdownBlock, read};
use super::span::{MarkdownSpan, SpanStyle};

pub fn slack(markdown: &str) -> String {
    let block = |block: MarkdownBlock| match block {
        MarkdownBlock::Line(spans) => render(&spans),
        MarkdownBlock::Quote(spans) => format!(">{}", render(&spans)),
        MarkdownBlock::Code { text, .. } | MarkdownBlock::Table(text) => {
            format!("```\n{}\n```", escape(&break_backtick_runs(&text)))
        }
    };
    read(markdown).into_iter().map(block).collect::<Vec<_>>().join("\n")
}

fn render(spans: &[MarkdownSpan]) -> String {
    let span = |span: &MarkdownSpan| match span {
        MarkdownSpan::Text(text) => with_mentions(text),
        MarkdownSpan::Code(text) => format!("`{}`", escape(text)),
        MarkdownSpan::Styled(SpanStyle::Bold, inner) => format!("*{}*", render(inner)),
        MarkdownSpan::Styled(SpanStyle::Italic, inner) => format!("_{}_", render(inner)),
        MarkdownSpan::Styled(SpanStyle::Strike, inner) => format!("~{}~", render(inner)),
        MarkdownSpan::Styled(SpanStyle::Spoiler, inner) => render(inner),
        MarkdownSpan::Link { label, url } => match render(label) {
            label if label == escape(url) => format!("<{}>", address(url)),
            label => format!("<{}|{label}>", address(url)),
        },
    };
    spans.iter().map(span).collect()
}

/// Escapes everything but `<@U…>`, `<@W…>` and `<#C…>`.
fn with_mentions(text: &str) -> String {
    let mut rendered = String::new();
    let mut rest = text;
    while let Some(at) = rest.find('<') {
        let (before, from) = rest.split_at(at);
        rendered.push_str(&escape(before));
        let length = mention(from).unwrap_or(0);
        rendered.push_str(from.get(..length).unwrap_or_default());
        if length == 0 {
            rendered.push_str("&lt;");
        }
        rest = from.get(length.max(1)..).unwrap_or_default();
    }
    rendered.push_str(&escape(rest));
    rendered
}

/// Returns the length of the mention that the text begins with.
fn mention(text: &str) -> Option<usize> {
    let end = text.find('>')?;
    let id = ["<@U", "<@W", "<#C"].iter().find_map(|start| text.get(..end)?.strip_prefix(start))?;
    let whole = !id.is_empty() && id.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit());
    whole.then_some(end + 1)
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

fn address(url: &str) -> String {
    escape(url).replace('|', "%7C")
}

/// Separates three backticks in a row, which would end the block; there is no escape for them.
fn break_backtick_runs(code: &str) -> String {
    code.replace("```", "`\u{200B}`\u{200B}`")
}
