//! A session as Markdown, with its facts as front matter.

use std::fmt::Write as _;

use super::document::{DocumentPart, SessionDocument};

pub(super) fn render(document: &SessionDocument) -> String {
    let mut text = format!("---\ntitle: {}\n", quoted(&document.title));
    for (name, value) in &document.facts {
        let _ = writeln!(text, "{name}: {}", quoted(value));
    }
    let _ = write!(text, "---\n\n# {}\n", document.title);
    for part in &document.parts {
        match part {
            DocumentPart::Text { author, at, text: said } => {
                let _ = write!(text, "\n## {author} ({at})\n\n{}\n", said.trim_end());
            }
            DocumentPart::ToolCall { name, arguments } => {
                let _ = write!(text, "\n**Tool call: {name}**\n\n{}", fenced(arguments, "json"));
            }
            DocumentPart::ToolResult { name, text: result } => {
                let _ = write!(text, "\n**Result of {name}**\n\n{}", fenced(result, ""));
            }
        }
    }
    text
}

/// Quotes a text for YAML; JSON strings are YAML strings.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// Puts a text between fences that are longer than any in it.
fn fenced(text: &str, language: &str) -> String {
    let mut longest = 0;
    let mut run = 0;
    for c in text.chars() {
        run = if c == '`' { run + 1 } else { 0 };
        longest = longest.max(run);
    }
    let fence = "`".repeat(longest.max(2) + 1);
    format!("{fence}{language}\n{}\n{fence}\n", text.trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fence_is_longer_than_any_in_the_text() {
        assert_eq!(fenced("x", "json"), "```json\nx\n```\n");
        assert_eq!(fenced("a\n```\nb\n```\n", ""), "````\na\n```\nb\n```\n````\n");
    }
}
