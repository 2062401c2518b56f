//! Session titles: the allowed characters, and the name of the next title in a series.

use thiserror::Error;

/// The longest title, in characters.
const MAX_CHARS: usize = 100;

/// A sanitised title: one line, nothing invisible, 1 to 100 characters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Title(String);

/// The error for a title that is too long, the only reason for a refusal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("Title too long ({0} chars, max {MAX_CHARS})")]
pub struct TitleTooLong(pub usize);

impl Title {
    /// Drops control and invisible characters, collapses whitespace and trims. Returns `None` when nothing is left.
    pub fn sanitise(text: &str) -> Result<Option<Self>, TitleTooLong> {
        let visible: String = text.chars().filter(|c| !is_invisible(*c)).collect();
        let title = visible.split_whitespace().collect::<Vec<_>>().join(" ");
        match title.chars().count() {
            0 => Ok(None),
            count if count > MAX_CHARS => Err(TitleTooLong(count)),
            _ => Ok(Some(Self(title))),
        }
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

fn is_invisible(c: char) -> bool {
    matches!(
        c,
        '\u{0}'..='\u{8}' | '\u{b}' | '\u{c}' | '\u{e}'..='\u{1f}' | '\u{7f}' | '\u{80}'..='\u{84}' | '\u{86}'..='\u{9f}'
            | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}'
            | '\u{feff}' | '\u{fffc}' | '\u{fff9}'..='\u{fffb}'
    )
}

/// Returns the title without its ` #N`.
pub fn title_base(title: &str) -> &str {
    split_number(title).map_or(title, |(base, _)| base)
}

fn split_number(title: &str) -> Option<(&str, u64)> {
    let (base, digits) = title.rsplit_once(" #")?;
    let all_digits = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    (all_digits && !base.is_empty()).then_some(())?;
    Some((base, digits.parse().ok()?))
}

/// Returns the name for a continuation: `base`, or `base #(max+1)` when the series exists. The bare name counts as
/// 1.
pub fn next_title<'a>(title: &str, taken: impl IntoIterator<Item = &'a str>) -> String {
    let base = title_base(title);
    let highest = taken
        .into_iter()
        .filter_map(|other| match split_number(other) {
            _ if other == base => Some(1),
            Some((other_base, number)) if other_base == base => Some(number),
            _ => None,
        })
        .max();
    match highest {
        Some(number) => format!("{base} #{}", number.saturating_add(1)),
        None => base.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: Option<&str>) {
        let title = Title::sanitise(text).unwrap();
        assert_eq!(title.as_ref().map(Title::as_str), expected, "{text:?}");
    }

    #[test]
    fn titles_are_cleaned() {
        check("  My\tproject \n plan ", Some("My project plan"));
        check("a\u{200b}b\u{202e}c\u{7}\u{feff}", Some("abc"));
        check("\u{200b} \n", None);
        check("a\u{9b}31m\u{85}b", Some("a31m b"));
        check("", None);
        check(&"é".repeat(100), Some(&"é".repeat(100)));
        let error = Title::sanitise(&"x".repeat(101)).unwrap_err();
        assert_eq!(error.to_string(), "Title too long (101 chars, max 100)");
    }

    #[test]
    fn a_series_goes_on_after_its_highest_number() {
        assert_eq!(next_title("plan", []), "plan");
        assert_eq!(next_title("plan #4", []), "plan");
        assert_eq!(next_title("plan", ["plan"]), "plan #2");
        assert_eq!(next_title("plan #2", ["plan", "plan #2", "plan #9", "planet #30"]), "plan #10");
        assert_eq!(next_title("issue #x", ["issue #x"]), "issue #x #2");
    }
}
