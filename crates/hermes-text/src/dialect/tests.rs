//! The dialects against arbitrary texts, and a list of tricky ones.

use hermes_testkit::telegram::{FormattedText, parse_markdown_v2};
use proptest::prelude::*;

use super::{html, plain, signal, slack, telegram, whatsapp};

/// Tricky texts, as models sometimes write them.
const PAGE: &[(&str, &str)] = &[
    ("emphasis", "**bold** and __bold__, *it* and _it_, ***both***, ~~gone~~, ||hidden||"),
    ("nested", "**bold *and italic* and `code`** _and **bold** in it_ **a *b***"),
    ("adjacent", "*a*_b_ **a****b** ||a||||b||"),
    ("inside words", "a*b*c 2**3**4 snake_case_name paths_with_underscores/_private_/x __init__.py a||b||c"),
    ("CJK", "这是**重点**内容，*斜体*也行"),
    ("unbalanced", "**bold and *it and `code and [link](http and ~~x and ||y"),
    ("spaces", "2 * 3 * 4, a ** b ** c, x || y || z, ~~ no ~~"),
    ("escapes", r"\*not it\* C:\dir \\ 1\. \(math\)"),
    ("heading", "# Title with **bold** and `code`\n####### seven\n#hashtag\n##"),
    (
        "links",
        "[a_b](https://en.wikipedia.org/wiki/A_(b)) [x](rel/path.md) [](https://e.org) [t](https://e.org \"title\") f[i](x)",
    ),
    (
        "images",
        "![a picture](https://e.org/p.png) [![badge](https://e.org/b.svg)](https://e.org) ![](https://e.org/q.png)",
    ),
    ("addresses", "see https://e.org/_a_/b_c?d=*e* and <https://e.org/x> and <b>html</b> & more"),
    ("quote", "> first\n>second **b**\n> > deeper\n\nafter > all"),
    ("lists", "- one\n* two\n+ three\n1. four\n   - five!"),
    ("code", "```rust\nlet a = \"\\\\`\"; // *not bold*\n```\nthen `a*b_c`, ``x ` y``, `` ` ``"),
    ("nested fences", "````markdown\n```sh\nls\n```\n````\nafter"),
    ("open fence", "text\n```python\nprint(1)"),
    ("part of a text", "```sh\nls -l\n``` (1/2)"),
    ("table", "| Name | **What** |\n|------|----------|\n| `a`  | one_two  |\n| b    | x > y    |\nend"),
    ("rule", "a\n---\n***\nb"),
    ("right to left", "שלום **עולם** (שלום)!"),
    ("emoji", "👍🏽 **👨‍👩‍👧** _é_ 𝄞"),
    ("windows lines", "a **b**\r\n```\r\nc\r\n```\r\n"),
];

fn page(render: fn(&str) -> String) -> String {
    let shown: Vec<String> = PAGE.iter().map(|(name, text)| format!("── {name}\n{}", render(text))).collect();
    shown.join("\n")
}

#[test]
fn telegram_page() {
    for (name, text) in PAGE {
        parse_markdown_v2(&telegram(text))
            .unwrap_or_else(|error| panic!("{name}: {error}\n{}", telegram(text)));
    }
    insta::assert_snapshot!(page(telegram));
}

#[test]
fn a_table_without_a_word_is_not_longer_than_its_source() {
    for text in ["||\n|---|\n*", "|a|\n|-|\n*", "||\n|---|\n||"] {
        assert!(plain(text).trim().len() <= text.len(), "{text:?}: {:?}", plain(text));
        let read = parse_markdown_v2(&telegram(text)).unwrap();
        assert!(read.text.trim().len() <= text.len(), "{text:?}: {:?}", read.text);
    }
}

#[test]
fn slack_mentions_people_and_channels_not_everybody() {
    let check = |text: &str, rendered: &str| assert_eq!(slack(text), rendered);
    check("ask <@U2AB> in <#C9>", "ask <@U2AB> in <#C9>");
    check(
        "<!here> <!channel> <@everyone> <@U> <@U2|ann>",
        "&lt;!here&gt; &lt;!channel&gt; &lt;@everyone&gt; &lt;@U&gt; &lt;@U2|ann&gt;",
    );
    check("`<@U2>` 1 < 2 <@U2", "`&lt;@U2&gt;` 1 &lt; 2 &lt;@U2");
}

#[test]
fn slack_page() {
    insta::assert_snapshot!(page(slack));
}

#[test]
fn plain_page() {
    insta::assert_snapshot!(page(plain));
}

#[test]
fn long_lines_of_marks_are_read_in_no_time() {
    for piece in ["*", "_a ", "[", "`", "**a ", "![", "[a](", "<", "|| ", "`a``b", "***a", "\\", "aaaa", "> "]
    {
        let line = piece.repeat(20_000 / piece.len());
        assert!(parse_markdown_v2(&telegram(&line)).is_ok(), "{piece}");
    }
}

#[test]
fn markup_for_mail_is_escaped_and_keeps_lines() {
    let check = |text: &str, body: &str| {
        assert_eq!(html(text), format!("<html><body>\n{body}</body></html>\n"));
    };
    check(
        "# Title\n\n**a** _b_ ~~c~~ `<d>`",
        "<b>Title</b><br>\n<br>\n<b>a</b> <i>b</i> <s>c</s> <code>&lt;d&gt;</code>\n",
    );
    check("- a\n  - b", "- a<br>\n&nbsp;&nbsp;- b\n");
    check("> a\n> b", "<blockquote>a<br>\nb</blockquote>\n");
    check("```\nx < y\n```", "<pre>x &lt; y</pre>\n");
    check("[a](https://e.org/?a=1&b=\"x\")", "<a href=\"https://e.org/?a=1&amp;b=&quot;x&quot;\">a</a>\n");
    check("<script>alert(1)</script>", "&lt;script&gt;alert(1)&lt;/script&gt;\n");
}

#[test]
fn whatsapp_has_its_own_marks() {
    let check = |text: &str, rendered: &str| assert_eq!(whatsapp(text), rendered);
    check("# Title", "*Title*");
    check("**b** *i* ~~s~~ `c` ||x||", "*b* _i_ ~s~ `c` x");
    check("[a](https://e.org) https://e.org", "a (https://e.org) https://e.org");
    check("```rust\nlet a;\n```\n> q", "```\nlet a;\n```\n> q");
}

#[test]
fn signal_counts_in_utf16() {
    let styled = signal("𝄞 **b _i_** `c`\n- item");
    assert_eq!(styled.text, "𝄞 b i c\n• item");
    let ranges: Vec<_> = styled.styles.iter().map(|range| (range.start, range.length, range.style)).collect();
    assert_eq!(ranges, [(3, 3, "BOLD"), (5, 1, "ITALIC"), (7, 1, "MONOSPACE")]);
}

/// Generates texts from all significant characters, in any order.
fn texts() -> impl Strategy<Value = String> {
    let pieces = prop::sample::select(vec![
        "*",
        "**",
        "***",
        "_",
        "__",
        "~~",
        "||",
        "|",
        "`",
        "``",
        "```",
        "~~~",
        "\n",
        "\n\n",
        " ",
        "> ",
        "# ",
        "- ",
        "[",
        "](",
        ")",
        "(",
        "![",
        "https://e.org/a_b",
        "<",
        ">",
        "\\",
        "word",
        "x",
        "é",
        "𝄞",
        "中",
        "\r\n",
        "|---|",
        "```rust\n",
        "\n```\n",
        ".",
        "!",
        "{",
        "}",
        "=",
        "+",
        "(1/2)",
        "\t",
        "&",
        "\"",
    ]);
    prop_oneof![prop::collection::vec(pieces, 0..60).prop_map(|pieces| pieces.concat()), any::<String>()]
}

/// Returns what Telegram shows, in the format of `plain`.
fn shown(formatted: &FormattedText) -> String {
    let units: Vec<u16> = formatted.text.encode_utf16().collect();
    let mut insertions: Vec<(usize, String)> = Vec::new();
    for entity in &formatted.entities {
        let end = entity.offset + entity.length;
        let label = String::from_utf16_lossy(&units[entity.offset..end]);
        match (&entity.url, entity.kind) {
            (Some(url), _) if *url != label => insertions.push((end, format!("({url})"))),
            (_, "blockquote") => {
                let starts = label.encode_utf16().enumerate().filter(|(_, unit)| *unit == 10);
                insertions.push((entity.offset, ">".to_owned()));
                insertions.extend(starts.map(|(at, _)| (entity.offset + at + 1, ">".to_owned())));
            }
            _ => {}
        }
    }
    insertions.sort_by_key(|(at, _)| *at);
    let mut out = String::new();
    let mut from = 0;
    for (at, text) in insertions {
        out.push_str(&String::from_utf16_lossy(&units[from..at]));
        out.push_str(&text);
        from = at;
    }
    out + &String::from_utf16_lossy(&units[from..])
}

fn ink(text: &str) -> String {
    text.chars().filter(|c| !c.is_whitespace()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn telegram_reads_every_rendering_and_shows_every_character(text in texts()) {
        let rendered = telegram(&text);
        let read = match parse_markdown_v2(&rendered) {
            Ok(read) => read,
            Err(error) => return Err(TestCaseError::fail(format!("{error}: {rendered:?}"))),
        };
        // A quote without words is not an entity, so its sign is not shown.
        let (seen, meant) = (ink(&shown(&read)), ink(&plain(&text)));
        if meant.contains('>') {
            prop_assert_eq!(seen.replace('>', ""), meant.replace('>', ""));
        } else {
            prop_assert_eq!(seen, meant);
        }
    }

    #[test]
    fn styles_lie_within_the_text(text in texts()) {
        let styled = signal(&text);
        let length = styled.text.encode_utf16().count();
        for range in &styled.styles {
            prop_assert!(range.length > 0 && range.start + range.length <= length, "{:?}", styled);
        }
        prop_assert_eq!(ink(&styled.text).replace(['•', '*'], "-"), ink(&plain(&text)).replace(['•', '*'], "-"));
        whatsapp(&text);
        html(&text);
    }

    #[test]
    fn a_rendering_is_not_longer_than_its_source(text in texts()) {
        let units = |text: &str| text.encode_utf16().count();
        let read = parse_markdown_v2(&telegram(&text)).map_err(TestCaseError::fail)?;
        prop_assert!(units(read.text.trim()) <= units(&text), "{:?}", read.text);
        prop_assert!(units(plain(&text).trim()) <= units(&text), "{:?}", plain(&text));
    }

    #[test]
    fn code_stays_as_it_is(code in "[^\r\n]{0,20}(\n[^\r\n]{0,20}){0,4}", language in "[a-z]{0,6}") {
        prop_assume!(!code.lines().any(|line| line.trim().starts_with("````")));
        let read = parse_markdown_v2(&telegram(&format!("````{language}\n{code}\n````"))).map_err(TestCaseError::fail)?;
        prop_assert_eq!(read.text, format!("{code}\n"));
    }

    #[test]
    fn letters_are_never_lost(text in "([a-z]{1,3}|[*_~|`#> ]{1,3}|\n){0,40}") {
        let letters = |text: &str| text.chars().filter(char::is_ascii_lowercase).collect::<String>();
        // The word after a fence names a language, which Telegram receives and others do not.
        prop_assume!(!text.contains("```") && !text.contains("~~~"));
        prop_assert_eq!(letters(&plain(&text)), letters(&text));
        prop_assert_eq!(letters(&slack(&text).replace("&gt;", ">")), letters(&text));
    }

    #[test]
    fn nobody_is_mentioned_by_accident(text in texts()) {
        let rendered = slack(&text);
        prop_assert!(!rendered.contains("<!") && !rendered.contains("<@") && !rendered.contains("<#"), "{}", rendered);
    }
}
