//! A session as one web page. Every text is shown as it was written; the page loads nothing and runs nothing.

use std::fmt::Write as _;

use super::document::{DocumentPart, SessionDocument};

const STYLE: &str = include_str!("page.css");

pub(super) fn render(document: &SessionDocument) -> String {
    let title = escaped(&document.title);
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" \
         content=\"width=device-width\">\n<title>{title}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n\
         <h1>{title}</h1>\n<dl>\n"
    );
    for (name, value) in &document.facts {
        let _ = writeln!(page, "<dt>{name}</dt><dd>{}</dd>", escaped(value));
    }
    page.push_str("</dl>\n");
    for part in &document.parts {
        let _ = match part {
            DocumentPart::Text { author, at, text } => writeln!(
                page,
                "<section class=\"{}\"><h2>{author} <time>{}</time></h2>\n<pre>{}</pre></section>",
                author.to_lowercase(),
                escaped(at),
                escaped(text.trim_end())
            ),
            DocumentPart::ToolCall { name, arguments } => writeln!(
                page,
                "<details><summary>Tool call: {}</summary>\n<pre>{}</pre></details>",
                escaped(name),
                escaped(arguments)
            ),
            DocumentPart::ToolResult { name, text } => writeln!(
                page,
                "<details><summary>Result of {}</summary>\n<pre>{}</pre></details>",
                escaped(name),
                escaped(text)
            ),
        };
    }
    page.push_str("</body>\n</html>\n");
    page
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_in_a_text_becomes_markup() {
        let document = SessionDocument {
            title: "<script>1</script>".to_owned(),
            facts: vec![("model", "a & b".to_owned())],
            parts: vec![DocumentPart::ToolResult { name: "x\"y".to_owned(), text: "</pre><b>".to_owned() }],
        };
        let page = render(&document);
        assert!(!page.contains("<script>") && !page.contains("</pre><b>"), "{page}");
        assert!(page.contains("a &amp; b") && page.contains("x&quot;y"), "{page}");
    }
}
