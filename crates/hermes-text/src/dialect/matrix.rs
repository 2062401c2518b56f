//! The markup of Matrix: a part of HTML, beside the text itself.

use super::block::{MarkdownBlock, read};
use super::html::{escape, indented, quote, render};

/// Returns a text as the markup that Matrix programs show, or `None` where the markup says nothing that the text does not say.
pub fn matrix(markdown: &str) -> Option<String> {
    let mut out = String::new();
    let mut blocks = read(markdown).into_iter().peekable();
    while let Some(block) = blocks.next() {
        match block {
            MarkdownBlock::Line(spans) => {
                out.push_str(&indented(&render(&spans)));
                if matches!(blocks.peek(), Some(MarkdownBlock::Line(_))) {
                    out.push_str("<br>\n");
                }
            }
            MarkdownBlock::Quote(spans) => quote(&mut out, &spans, &mut blocks),
            MarkdownBlock::Code { language, text } => {
                let plain = language.chars().all(|c| c.is_alphanumeric() || "+-#_".contains(c));
                let class =
                    (plain && !language.is_empty()).then(|| format!(" class=\"language-{language}\""));
                code(&mut out, &class.unwrap_or_default(), &text);
            }
            MarkdownBlock::Table(text) => code(&mut out, "", &text),
        }
    }
    let out = out.trim_end().to_owned();
    let is_plain = out.replace("<br>\n", "\n") == escape(markdown.trim_end());
    (!is_plain).then_some(out)
}

fn code(out: &mut String, class: &str, text: &str) {
    out.push_str("<pre><code");
    out.push_str(class);
    out.push('>');
    out.push_str(&escape(text));
    out.push_str("</code></pre>\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_markup_that_says_something() {
        for plain in ["hi", "a\nb", "1 < 2 & 3", "", "hi\n"] {
            assert_eq!(matrix(plain), None, "{plain:?}");
        }
        for (text, expected) in [
            ("**a**\nb", "<b>a</b><br>\nb"),
            ("> q\n> r\nx", "<blockquote>q<br>\nr</blockquote>\nx"),
            (
                "a\n```rust\nlet x = 1 < 2;\n```\nb",
                "a<pre><code class=\"language-rust\">let x = 1 &lt; 2;</code></pre>\nb",
            ),
            ("```a\"b\nx\n```", "<pre><code>x</code></pre>"),
            ("[a](https://e.org/?a=1&b=2)", "<a href=\"https://e.org/?a=1&amp;b=2\">a</a>"),
        ] {
            assert_eq!(matrix(text).as_deref(), Some(expected), "{text:?}");
        }
    }
}
