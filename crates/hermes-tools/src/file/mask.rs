//! Masks secrets in a file's text. Secrets are recognized in the whole text but masked line by line, so that
//! line numbers and diffs stay valid.

use std::borrow::Cow;
use std::collections::HashSet;

use hermes_guard::{Assignments, PhoneNumbers, Redaction, redact};

use super::state::FilePage;
use super::{FileTools, SecretMasking};

const MASK: &str = "***";
const BEGINS: &str = "-----BEGIN ";
const ENDS: &str = "-----END ";
/// The size above which only `LINES_AROUND` lines before and after the shown page are searched for secrets.
const MOST_BYTES: usize = 1024 * 1024;
const LINES_AROUND: usize = 1000;

impl FileTools {
    /// Masks the secrets of a text and keeps its lines.
    pub(crate) fn masked(&self, text: &str) -> String {
        match self.options.secrets {
            SecretMasking::Show => text.to_owned(),
            SecretMasking::Mask => mask(text),
        }
    }

    /// Masks the secrets of a text as far as one page of it needs.
    pub(crate) fn masked_page(&self, text: &str, page: &FilePage) -> String {
        if text.len() <= MOST_BYTES {
            return self.masked(text);
        }
        let first = page.offset.saturating_sub(LINES_AROUND);
        let last = page.offset.saturating_add(page.limit).saturating_add(LINES_AROUND);
        let (mut before, mut around, mut after) = (String::new(), String::new(), String::new());
        for (at, line) in text.split_inclusive('\n').enumerate() {
            let part = match at + 1 {
                number if number < first => &mut before,
                number if number <= last => &mut around,
                _ => &mut after,
            };
            part.push_str(line);
        }
        format!("{before}{}{after}", self.masked(&around))
    }
}

fn mask(text: &str) -> String {
    let text = without_keys(text);
    let what = Redaction { assignments: Assignments::ConfigStyle, phone_numbers: PhoneNumbers::Keep };
    let masked = redact(&text, what);
    if count(&masked) == count(&text) {
        return masked.into_owned();
    }
    // A secret of several lines was replaced as one: each of its lines is masked separately.
    let kept: HashSet<&str> = masked.lines().collect();
    let line = |line: &str| {
        let (body, end) = line.strip_suffix('\n').map_or((line, ""), |body| (body, "\n"));
        let shown =
            if kept.contains(body.trim_end_matches('\r')) { redact(body, what) } else { Cow::Borrowed(MASK) };
        format!("{shown}{end}")
    };
    text.split_inclusive('\n').map(line).collect()
}

fn count(text: &str) -> usize {
    text.bytes().filter(|byte| *byte == b'\n').count()
}

/// Masks the bodies of private keys, including a key whose beginning or end is not in the text.
fn without_keys(text: &str) -> Cow<'_, str> {
    if !text.contains("PRIVATE KEY") {
        return Cow::Borrowed(text);
    }
    let is_key = |line: &str, sign: &str| {
        line.find(sign).is_some_and(|at| line.get(at..).is_some_and(|rest| rest.contains("PRIVATE KEY")))
    };
    let mut lines: Vec<Cow<'_, str>> = text.split_inclusive('\n').map(Cow::Borrowed).collect();
    let mut inside = None;
    let mut first_end = None;
    for (at, line) in text.split_inclusive('\n').enumerate() {
        if is_key(line, BEGINS) && !is_key(line, ENDS) {
            inside = Some(at);
        } else if is_key(line, ENDS) {
            match inside.take() {
                Some(begin) => hide(&mut lines, begin + 1, at),
                None if first_end.is_none() && !is_key(line, BEGINS) => hide(&mut lines, 0, at),
                None => {}
            }
            first_end = Some(at);
        }
    }
    if let Some(begin) = inside {
        let end = lines.len();
        hide(&mut lines, begin + 1, end);
    }
    Cow::Owned(lines.concat())
}

fn hide(lines: &mut [Cow<'_, str>], from: usize, to: usize) {
    for line in lines.iter_mut().take(to).skip(from) {
        let end = if line.ends_with('\n') { "\n" } else { "" };
        *line = Cow::Owned(format!("{MASK}{end}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXktdjEAAAAA\nQyNTUxOQAAACD8\n-----END OPENSSH PRIVATE KEY-----\n";

    #[test]
    fn a_key_is_masked_line_for_line() {
        for (text, lines) in [
            (format!("a\n{KEY}b\n"), 6),
            (KEY.replace('\n', "\r\n"), 4),
            (KEY.lines().take(2).collect::<Vec<_>>().join("\n"), 1),
            (KEY.lines().skip(2).collect::<Vec<_>>().join("\n"), 1),
            (format!("{KEY}{KEY}"), 8),
        ] {
            let masked = mask(&text);
            assert_eq!(count(&masked), count(&text), "{masked}");
            assert!(!masked.contains("b3Blbn") && !masked.contains("QyNTUx"), "{masked}");
            assert_eq!(lines, masked.lines().count().min(lines), "{masked}");
        }
        let plain = "a\n\nb # PRIVATE KEY of nobody\n";
        assert_eq!(mask(plain), plain);
    }
}
