//! What an IMAP server says: one response, with the literals in it. Pure.

/// The end of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum TaggedResult {
    Ok,
    No(String),
    Bad(String),
}

/// A response. Literals are kept apart from its text, which has a mark in their places.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct ImapResponse {
    text: String,
    literals: Vec<Vec<u8>>,
}

/// Stands for a literal; no response contains it.
const MARK: char = '\0';
const SHOWN: usize = 200;

impl ImapResponse {
    /// Appends a line. Returns the size of the literal that follows it, if one does.
    pub(super) fn push_line(&mut self, line: &[u8]) -> Option<usize> {
        let line = String::from_utf8_lossy(line).replace(MARK, " ");
        let Some((start, size)) = literal_size(&line) else {
            self.text.push_str(&line);
            return None;
        };
        self.text.push_str(start);
        self.text.push(MARK);
        Some(size)
    }

    pub(super) fn push_literal(&mut self, bytes: Vec<u8>) {
        self.literals.push(bytes);
    }

    pub(super) fn size(&self) -> usize {
        self.literals.iter().map(Vec::len).sum::<usize>() + self.text.len()
    }

    /// Returns the text for a message to people.
    pub(super) fn shown(&self) -> String {
        let text: String = self.text.chars().filter(|c| !c.is_control()).collect();
        hermes_text::head(text.trim_start_matches("* "), SHOWN).to_owned()
    }

    pub(super) fn is_continuation(&self) -> bool {
        self.text.starts_with('+')
    }

    /// Tells whether it is an untagged response of that name.
    pub(super) fn is_untagged(&self, name: &str) -> bool {
        self.after(name).is_some()
    }

    /// Returns what follows the name of an untagged response.
    pub(super) fn after(&self, name: &str) -> Option<&str> {
        let rest = self.text.strip_prefix("* ")?;
        let start = rest.get(..name.len())?;
        let rest = rest.get(name.len()..)?;
        (start.eq_ignore_ascii_case(name) && (rest.is_empty() || rest.starts_with(' '))).then_some(rest)
    }

    /// Returns the result, if it ends the command with that tag.
    pub(super) fn tagged(&self, tag: &str) -> Option<TaggedResult> {
        let rest = self.text.strip_prefix(tag)?.strip_prefix(' ')?;
        let (word, _) = rest.split_once(' ').unwrap_or((rest, ""));
        let why = || hermes_text::head(rest, SHOWN).chars().filter(|c| !c.is_control()).collect();
        Some(match word.to_ascii_uppercase().as_str() {
            "OK" => TaggedResult::Ok,
            "NO" => TaggedResult::No(why()),
            _ => TaggedResult::Bad(why()),
        })
    }

    /// Tells whether it announces mail: `* 7 EXISTS`.
    pub(super) fn tells_of_mail(&self) -> bool {
        let mut words = self.text.split_whitespace();
        words.next() == Some("*")
            && words.next().is_some_and(|word| word.bytes().all(|byte| byte.is_ascii_digit()))
            && words.next().is_some_and(|word| word.eq_ignore_ascii_case("EXISTS"))
    }

    /// Returns the number of a response code: `* OK [UIDNEXT 7]`.
    pub(super) fn code_number(&self, name: &str) -> Option<u32> {
        let (_, code) = self.after("OK")?.split_once('[')?;
        let (code, _) = code.split_once(']')?;
        let (known, value) = code.split_once(' ')?;
        known.eq_ignore_ascii_case(name).then(|| value.trim().parse().ok()).flatten()
    }

    /// Returns a number of a fetched mail: `* 1 FETCH (UID 7 RFC822.SIZE 90)`.
    pub(super) fn fetched_number(&self, name: &str) -> Option<u32> {
        let items = self.items()?;
        let mut words = items.split([' ', '(', ')']).filter(|word| !word.is_empty());
        while let Some(word) = words.next() {
            if word.eq_ignore_ascii_case(name) {
                return words.next()?.parse().ok();
            }
        }
        None
    }

    /// Returns the body of a fetched mail.
    pub(super) fn into_body(mut self) -> Option<Vec<u8>> {
        let items = self.items()?;
        let at = items.to_ascii_uppercase().find("BODY[]")?;
        let rest = items.get(at..)?;
        let (_, value) = rest.split_once(' ')?;
        if value.starts_with(MARK) {
            let before = items.get(..at)?.matches(MARK).count();
            return (before < self.literals.len()).then(|| self.literals.swap_remove(before));
        }
        // A short mail may come as a quoted string.
        let inner = value.strip_prefix('"')?;
        let (mut text, mut escaped) = (String::new(), false);
        for c in inner.chars() {
            match c {
                _ if escaped => {
                    text.push(c);
                    escaped = false;
                }
                '\\' => escaped = true,
                '"' => return Some(text.into_bytes()),
                c => text.push(c),
            }
        }
        None
    }

    fn items(&self) -> Option<&str> {
        let rest = self.text.strip_prefix("* ")?;
        let (number, rest) = rest.split_once(' ')?;
        let (word, items) = rest.split_once(' ')?;
        (number.bytes().all(|byte| byte.is_ascii_digit()) && word.eq_ignore_ascii_case("FETCH"))
            .then_some(items)
    }
}

/// Splits `… {123}` into the text before it and the size.
fn literal_size(line: &str) -> Option<(&str, usize)> {
    let (start, size) = line.strip_suffix('}')?.rsplit_once('{')?;
    let size = size.strip_suffix('+').unwrap_or(size);
    let is_number = !size.is_empty() && size.bytes().all(|byte| byte.is_ascii_digit());
    // A number that is too large for this machine is still a literal, which is then refused.
    is_number.then(|| (start, size.parse().unwrap_or(usize::MAX)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(lines: &[&str]) -> ImapResponse {
        let mut response = ImapResponse::default();
        let mut lines = lines.iter();
        while let Some(line) = lines.next() {
            if response.push_line(line.as_bytes()).is_some() {
                response.push_literal(lines.next().unwrap().as_bytes().to_vec());
            }
        }
        response
    }

    #[test]
    fn bodies_come_as_literals_or_quoted() {
        let fetched = of(&["* 3 FETCH (UID 9 BODY[] {5}", "hello", ")"]);
        assert_eq!(fetched.fetched_number("UID"), Some(9));
        assert_eq!(fetched.into_body().unwrap(), b"hello");
        let fetched = of(&["* 3 FETCH (BODY[HEADER] {2}", "h\r", " BODY[]<0> {4}", "body", " UID 9)"]);
        assert_eq!(fetched.fetched_number("UID"), Some(9));
        assert_eq!(fetched.into_body().unwrap(), b"body");
        assert_eq!(of(&[r#"* 3 FETCH (UID 9 BODY[] "a \"b\"")"#]).into_body().unwrap(), b"a \"b\"");
        assert_eq!(of(&["* 3 FETCH (UID 9 BODY[] NIL)"]).into_body(), None);
        assert_eq!(of(&["* 3 FETCH (FLAGS (\\Seen))"]).into_body(), None);
    }

    #[test]
    fn numbers_results_and_news() {
        assert_eq!(of(&["* OK [UIDVALIDITY 42] fine"]).code_number("UIDVALIDITY"), Some(42));
        assert_eq!(of(&["* OK [UIDNEXT x]"]).code_number("UIDNEXT"), None);
        assert_eq!(of(&["h1 OK done"]).tagged("h1"), Some(TaggedResult::Ok));
        assert_eq!(of(&["h1 NO bad"]).tagged("h1"), Some(TaggedResult::No("NO bad".to_owned())));
        assert_eq!(of(&["h10 OK done"]).tagged("h1"), None);
        assert!(of(&["* 23 EXISTS"]).tells_of_mail() && !of(&["* OK Still here"]).tells_of_mail());
        assert_eq!(of(&["* SEARCH 1 2"]).after("SEARCH"), Some(" 1 2"));
    }

    proptest! {
        #[test]
        fn nothing_panics(line in "(\\* )?([0-9]{1,3} FETCH \\()?(UID 7 )?(BODY\\[\\] )?.{0,40}(\\{[0-9]{1,25}\\+?\\})?") {
            let mut response = ImapResponse::default();
            response.push_line(line.as_bytes());
            response.tagged("h1");
            response.fetched_number("UID");
            response.code_number("UIDNEXT");
            response.shown();
            response.into_body();
        }
    }
}
