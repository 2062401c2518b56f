//! Large pages, in which no article is searched for.

use hermes_extract::extract;
use proptest::prelude::*;

fn text_of(page: &str) -> String {
    extract(page.as_bytes(), Some("text/html"), "https://example.com/folder/page.html").unwrap().text
}

fn table(rows: usize, row: &str) -> String {
    format!(
        "<table><caption>The  boats</caption><tr><th>name</th><th>berth</th></tr>{}</table>",
        row.repeat(rows)
    )
}

#[test]
fn a_long_table_keeps_its_cells_and_what_is_around_it() {
    let row = "<tr class=row><td class='cell'><a href='../boats/7'>Tide <b>runner</b></a></td><td>\n 7 | <code>a</code><br>b <img src=/x.png alt=sail> \
               <script>bad()</script><i> </i></td></tr>";
    let page = format!(
        "<html><head><title>Boats</title></head><body><nav>Home</nav><h1>All boats</h1><p>Of the harbour.</p>{}<p>The end.</p></body></html>",
        table(2000, row)
    );
    let text = text_of(&page);
    let mut lines = text.lines();
    let mut next = || lines.by_ref().find(|line| !line.is_empty());
    assert_eq!(next(), Some("# All boats"));
    assert_eq!(next(), Some("Of the harbour."));
    assert_eq!(next(), Some("The boats"));
    assert_eq!(next(), Some("| name | berth |"));
    assert_eq!(next(), Some("| --- | --- |"));
    let expected =
        "| [Tide **runner**](https://example.com/boats/7) | 7 \\| `a` b ![sail](https://example.com/x.png) |";
    for number in 0..2000 {
        assert_eq!(next(), Some(expected), "row {number}");
    }
    assert_eq!(next(), Some("The end."));
    assert_eq!(next(), None);
    assert!(!text.contains('\u{f8ff}') && !text.contains("Home") && !text.contains("bad()"));
}

#[test]
fn tables_of_more_than_lines_are_converted_as_on_small_pages() {
    let row =
        "<tr><td><p>Tide runner</p><p>is her name</p></td><td>berth seven, near the old crane</td></tr>";
    let text = text_of(&format!("<html><body>{}</body></html>", table(3000, row)));
    assert_eq!(text.matches("is her name").count(), 3000);
    assert_eq!(text.matches("berth seven").count(), 3000);
}

#[test]
fn a_page_that_has_the_marks_of_tables_in_its_text_keeps_them() {
    let row = "<tr><td>tide runner of the northern harbour</td><td>berth seven, near the old crane</td></tr>";
    let page = format!(
        "<html><body><p>\u{f8ff}0\u{f8ff} and \u{f8ff}\u{f8ff}</p>{}</body></html>",
        table(3000, row)
    );
    let text = text_of(&page);
    assert!(text.starts_with("\u{f8ff}0\u{f8ff} and \u{f8ff}\u{f8ff}"), "{:?}", text.lines().next());
    assert_eq!(text.matches("berth seven").count(), 3000);
}

#[test]
fn a_large_page_that_marks_its_article_has_only_that() {
    let paragraph = "<p>The harbour master keeps two ledgers, one for the tide and one for the boats.</p>\n";
    let body = paragraph.repeat(4000);
    for (open, close) in [("<article>", "</article>"), ("<main>", "</main>"), ("<div role=main>", "</div>")] {
        let page = format!(
            "<html><head><title>T</title></head><body><div class=menu>Menu of the site</div>{open}{body}{close}<div>Share it</div></body></html>"
        );
        let text = text_of(&page);
        assert_eq!(text.matches("two ledgers").count(), 4000, "{open}");
        assert!(!text.contains("Menu of") && !text.contains("Share it"), "{open}");
    }
    // Without a mark, the article is searched for.
    let text = text_of(&format!("<html><body><div>{body}</div></body></html>"));
    assert_eq!(text.matches("two ledgers").count(), 4000);
}

/// What a cell may hold.
const PIECES: [&str; 16] = [
    "word",
    " ",
    "\n",
    "|",
    "`",
    "*",
    "[",
    "](x)",
    "<b> bold</b>",
    "<a href='/y'>li|nk </a>",
    "<code></code>",
    "<br>",
    "<img src=a alt='p|q'>",
    "<p>",
    "&amp;",
    "\u{f8ff}0\u{f8ff}",
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn whatever_cells_hold_a_row_stays_a_row(cell in proptest::collection::vec(0..PIECES.len(), 0..12)) {
        let cell: String = cell.into_iter().map(|piece| PIECES[piece]).collect();
        let row = format!("<tr><td>first {cell}</td><td>last of the row, {}</td></tr>", "long ".repeat(8));
        let page = format!("<html><body>{}<p>behind</p></body></html>", table(3000, &row));
        let text = text_of(&page);
        prop_assert_eq!(text.matches("last of the row").count(), 3000);
        if !cell.contains("<p>") {
            prop_assert!(text.contains("behind"));
            let rows = text.lines().filter(|line| line.starts_with("| first") && line.ends_with(" |"));
            prop_assert_eq!(rows.count(), 3000, "{}", cell);
        }
    }
}
