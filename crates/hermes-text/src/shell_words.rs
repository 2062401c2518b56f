//! Splits a line into words as a shell does: blanks separate, quotes and backslashes join.

/// Splits a line into words. Returns `None` when a quote is not closed.
pub fn split_words(line: &str) -> Option<Vec<String>> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote: Option<char> = None;
    let mut chars = line.chars();
    while let Some(c) = chars.next() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (None | Some('"'), '\\') => word.get_or_insert_default().extend(chars.next()),
            (None, '"' | '\'') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None, c) if c.is_whitespace() => words.extend(word.take()),
            (_, c) => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    quote.is_none().then_some(words)
}

#[cfg(test)]
mod tests {
    use super::split_words;

    #[test]
    fn quotes_hold_words_together() {
        let words = |line: &str| split_words(line).unwrap();
        assert_eq!(
            words(r#"add "every 2h"  it's\ fine 'a "b"' """#.replace("it's", "its").as_str()),
            ["add", "every 2h", "its fine", "a \"b\"", ""]
        );
        assert_eq!(words("  "), Vec::<String>::new());
        assert_eq!(words(r#"a"b c"d"#), ["ab cd"]);
        assert_eq!(split_words("it's"), None);
    }
}
