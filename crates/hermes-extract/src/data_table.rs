//! A long table as Markdown, in one pass over its cells.
//!
//! The converter for pages parses markup again and keeps every cell; a table of thousands of rows takes it longer than the parser. Only
//! tables of plain cells are read here: words, links, emphasis, code and pictures.

use std::fmt::Write as _;

use dom_query::{Document, NodeRef};

/// Elements whose content is a part of a line.
const INLINE: [&str; 23] = [
    "a", "abbr", "b", "bdi", "big", "br", "cite", "code", "em", "font", "i", "img", "kbd", "mark", "s",
    "small", "span", "strong", "sub", "sup", "time", "tt", "u",
];

/// A table with so many rows is data and not a layout.
const LONG: usize = 200;
/// What stands for a table while the rest of a page is converted.
const MARK: char = '\u{f8ff}';

/// The long tables of a page, which were taken out of it.
#[derive(Debug)]
pub(crate) struct DataTables {
    mark: String,
    rows: Vec<String>,
}

impl DataTables {
    /// Takes the long tables of plain cells out of a page and leaves marks in their places.
    pub(crate) fn take_from(document: &Document, markup: &str) -> Self {
        let mut mark = MARK.to_string();
        while markup.contains(&mark) {
            mark.push(MARK);
        }
        let mut rows = Vec::new();
        for table in document.select("table").nodes() {
            let is_long = table.descendants_it().filter(|node| is_named(node, "tr")).count() >= LONG;
            if is_long && let Some(text) = rows_of(table) {
                table.replace_with_html(format!("<p>{mark}{}{mark}</p>", rows.len()));
                rows.push(text);
            }
        }
        Self { mark, rows }
    }

    /// Puts the tables back into the text of the page.
    pub(crate) fn put_into(self, text: String) -> String {
        let put = |text: String, (number, rows): (usize, &String)| {
            text.replace(&format!("{0}{number}{0}", self.mark), rows.trim_end())
        };
        self.rows.iter().enumerate().fold(text, put)
    }

    /// Returns how many characters the tables have.
    pub(crate) fn size(&self) -> usize {
        self.rows.iter().map(String::len).sum()
    }
}

/// Returns the rows of a table, or nothing if a cell has more than a line in it.
fn rows_of(table: &NodeRef<'_>) -> Option<String> {
    let mut text = String::new();
    let mut is_first = true;
    for part in table.children_it(false) {
        match name_of(&part).as_deref() {
            Some("caption") => {
                push_line(part, &mut text)?;
                text.push_str("\n\n");
            }
            Some("tr") => push_row(part, &mut text, &mut is_first)?,
            Some("thead" | "tbody" | "tfoot") => {
                for row in part.children_it(false).filter(|row| is_named(row, "tr")) {
                    push_row(row, &mut text, &mut is_first)?;
                }
            }
            _ => {}
        }
    }
    Some(text)
}

fn push_row(row: NodeRef<'_>, text: &mut String, is_first: &mut bool) -> Option<()> {
    let (mut cells, mut headings) = (0, 0);
    for cell in row.children_it(false) {
        match name_of(&cell).as_deref() {
            Some("th") => headings += 1,
            Some("td") => {}
            _ => continue,
        }
        cells += 1;
        text.push_str("| ");
        push_line(cell, text)?;
        text.push(' ');
    }
    if cells > 0 {
        text.push_str("|\n");
        if *is_first && headings == cells {
            text.push_str(&"| --- ".repeat(cells));
            text.push_str("|\n");
        }
        *is_first = false;
    }
    Some(())
}

/// Adds the content of an element as a part of a line.
fn push_line(element: NodeRef<'_>, text: &mut String) -> Option<()> {
    let begin = text.len();
    push_children(element, text)?;
    // Blanks are joined while they are added; those at the ends remain.
    if text.as_bytes().get(begin) == Some(&b' ') {
        text.remove(begin);
    }
    let end = text.trim_end_matches(' ').len().max(begin);
    text.truncate(end);
    Some(())
}

fn push_children(element: NodeRef<'_>, text: &mut String) -> Option<()> {
    for child in element.children_it(false) {
        if child.is_text() {
            push_words(&child.text(), text);
            continue;
        }
        let Some(name) = name_of(&child) else { continue };
        if !INLINE.contains(&&*name) {
            return None;
        }
        match &*name {
            "br" => push_words(" ", text),
            "img" => {
                let attribute = |name| child.attr(name).unwrap_or_default();
                let _ = write!(text, "![");
                push_words(&attribute("alt"), text);
                let _ = write!(text, "]({})", attribute("src"));
            }
            "a" => push_marked(
                child,
                text,
                "[",
                &child.attr("href").map_or_else(|| "]".to_owned(), |to| format!("]({to})")),
            )?,
            "b" | "strong" => push_marked(child, text, "**", "**")?,
            "i" | "em" => push_marked(child, text, "*", "*")?,
            "code" | "tt" | "kbd" => push_marked(child, text, "`", "`")?,
            _ => push_children(child, text)?,
        }
    }
    Some(())
}

/// Adds the content of an element between two marks, or nothing if it has none.
fn push_marked(element: NodeRef<'_>, text: &mut String, before: &str, after: &str) -> Option<()> {
    let begin = text.len();
    text.push_str(before);
    push_line(element, text)?;
    if text.len() == begin + before.len() {
        text.truncate(begin);
    } else {
        text.push_str(after);
    }
    Some(())
}

/// Adds words with their blanks joined, so that they cannot end a cell.
fn push_words(words: &str, text: &mut String) {
    for c in words.chars() {
        match c {
            c if c.is_whitespace() => {
                if !text.ends_with(' ') {
                    text.push(' ');
                }
            }
            '|' => text.push_str("\\|"),
            c => text.push(c),
        }
    }
}

fn is_named(node: &NodeRef<'_>, name: &str) -> bool {
    node.element_ref().is_some_and(|element| &*element.name.local == name)
}

/// Returns the name of an element.
fn name_of(node: &NodeRef<'_>) -> Option<String> {
    node.element_ref().map(|element| element.name.local.to_string())
}
