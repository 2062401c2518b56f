//! Finds references in a message: `@file:notes.md:3-9`, `@folder:src`, `@diff`, `@staged`, `@git:3`, `@url:…`.

use std::ops::Range;

/// The target of a reference.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ReferenceTarget {
    /// A file, with an optional inclusive range of lines.
    File {
        path: String,
        lines: Option<(usize, usize)>,
    },
    Folder(String),
    Diff,
    Staged,
    Log(u32),
    Page(String),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FoundReference {
    /// The reference as the user typed it.
    pub(super) raw: String,
    pub(super) range: Range<usize>,
    pub(super) target: ReferenceTarget,
}

const MOST_COMMITS: u32 = 10;

pub(super) fn find(text: &str) -> Vec<FoundReference> {
    let mut found = Vec::new();
    let mut from = 0;
    while let Some(start) = text.get(from..).and_then(|rest| rest.find('@')).map(|at| from + at) {
        let before = text.get(..start).and_then(|before| before.chars().next_back());
        let word = text.get(start + 1..).unwrap_or_default();
        let word = word.split(char::is_whitespace).next().unwrap_or_default();
        let stands_alone = !before.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == '/');
        match read(word).filter(|_| stands_alone) {
            Some((target, length)) => {
                let at = start..start + 1 + length;
                found.push(FoundReference {
                    raw: text.get(at.clone()).unwrap_or_default().to_owned(),
                    range: at,
                    target,
                });
                from = start + 1 + length;
            }
            None => from = start + 1,
        }
    }
    found
}

/// Removes the references from a text.
pub(super) fn without(text: &str, found: &[FoundReference]) -> String {
    let mut rest = String::new();
    let mut from = 0;
    for one in found {
        rest.push_str(text.get(from..one.range.start).unwrap_or_default());
        from = one.range.end;
        if rest.is_empty() || rest.ends_with(char::is_whitespace) {
            from += text.get(from..).map_or(0, |behind| usize::from(behind.starts_with(' ')));
        }
    }
    rest.push_str(text.get(from..).unwrap_or_default());
    rest.trim().to_owned()
}

/// Parses the text after `@`. Returns the target and the length of the reference.
fn read(word: &str) -> Option<(ReferenceTarget, usize)> {
    for (name, target) in [("diff", ReferenceTarget::Diff), ("staged", ReferenceTarget::Staged)] {
        let behind = word.strip_prefix(name);
        if behind.is_some_and(|rest| !rest.starts_with(|c: char| c.is_alphanumeric() || c == '_')) {
            return Some((target, name.len()));
        }
    }
    let (kind, value) = word.split_once(':')?;
    // A single dot is the folder itself.
    let value = Some(without_closing(value)).filter(|shorter| !shorter.is_empty()).unwrap_or(value);
    if value.is_empty() {
        return None;
    }
    let target = match kind {
        "file" => file(value),
        "folder" => ReferenceTarget::Folder(value.to_owned()),
        "git" => ReferenceTarget::Log(value.parse().unwrap_or(1).clamp(1, MOST_COMMITS)),
        "url" => ReferenceTarget::Page(value.to_owned()),
        _ => return None,
    };
    Some((target, kind.len() + 1 + value.len()))
}

/// Removes punctuation that belongs to the surrounding sentence.
fn without_closing(mut value: &str) -> &str {
    while let Some(last) = value.chars().next_back() {
        let open = match last {
            ',' | '.' | ';' | '!' | '?' => None,
            ')' => Some('('),
            ']' => Some('['),
            '}' => Some('{'),
            '>' => Some('<'),
            _ => break,
        };
        let count = |sign: char| value.chars().filter(|c| *c == sign).count();
        if open.is_some_and(|open| count(open) >= count(last)) {
            break;
        }
        value = value.get(..value.len() - last.len_utf8()).unwrap_or_default();
    }
    value
}

fn file(value: &str) -> ReferenceTarget {
    let whole = || ReferenceTarget::File { path: value.to_owned(), lines: None };
    let Some((path, range)) = value.rsplit_once(':').filter(|(path, _)| !path.is_empty()) else {
        return whole();
    };
    let number = |text: &str| text.parse::<usize>().ok().filter(|number| *number > 0);
    let lines = match range.split_once('-') {
        Some((first, last)) => number(first).zip(number(last)).filter(|(first, last)| first <= last),
        None => number(range).map(|line| (line, line)),
    };
    match lines {
        Some(lines) => ReferenceTarget::File { path: path.to_owned(), lines: Some(lines) },
        None => whole(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn targets(text: &str) -> Vec<ReferenceTarget> {
        find(text).into_iter().map(|found| found.target).collect()
    }

    fn file(path: &str, lines: Option<(usize, usize)>) -> ReferenceTarget {
        ReferenceTarget::File { path: path.to_owned(), lines }
    }

    #[test]
    fn references_are_told_from_addresses_and_words() {
        assert_eq!(
            targets("see @file:a.rs:10-25, @file:b.md:42 and (@folder:src) @diff. @staged @git:99 @git:x"),
            [
                file("a.rs", Some((10, 25))),
                file("b.md", Some((42, 42))),
                ReferenceTarget::Folder("src".to_owned()),
                ReferenceTarget::Diff,
                ReferenceTarget::Staged,
                ReferenceTarget::Log(10),
                ReferenceTarget::Log(1),
            ]
        );
        assert_eq!(targets("@file:notes(1).txt!"), [file("notes(1).txt", None)]);
        assert_eq!(targets("@file:a.rs:9-3"), [file("a.rs:9-3", None)]);
        assert_eq!(
            targets("@url:https://x.example/a?b=1"),
            [ReferenceTarget::Page("https://x.example/a?b=1".to_owned())]
        );
        for none in
            ["me@diff.com", "/@file:x", "@different", "@file:", "@staged_files", "@file", "mail@file:x"]
        {
            assert_eq!(targets(none), [], "{none}");
        }
    }

    #[test]
    fn what_is_left_reads_on() {
        let left = |text: &str| without(text, &find(text));
        assert_eq!(left("review @file:a.rs please"), "review please");
        assert_eq!(left("@diff what changed?"), "what changed?");
        assert_eq!(left("why (@file:a.rs)?"), "why ()?");
        assert_eq!(left("@diff"), "");
        assert_eq!(left("ä @git:2 ö"), "ä ö");
    }
}
