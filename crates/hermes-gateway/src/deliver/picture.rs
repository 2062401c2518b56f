//! Finds images an answer shows by URL: `![words](https://…)` and `<img src="https://…">`.
//!
//! Pure: nothing is fetched here. Invariant: an image removed from the text is in the list, with its caption; a
//! URL that cannot be an image, is inside code or must not be shared stays in the text as it is.

use std::ops::Range;
use std::sync::LazyLock;

use hermes_guard::{PrivateAddresses, UrlPolicy};
use hermes_types::WebImage;
use regex::{Captures, Match, Regex};

const ENDINGS: [&str; 5] = [".png", ".jpg", ".jpeg", ".gif", ".webp"];
/// Hosts whose image URLs have no image extension.
const HOSTS: [&str; 3] = ["fal.media", "fal-cdn", "replicate.delivery"];
/// The length every platform accepts in one message, even as text.
const LONGEST_ADDRESS: usize = 1000;
const LONGEST_CAPTION: usize = 500;

/// Matches an image in Markdown. The URL may contain one pair of brackets and be followed by a title.
static MARKDOWN: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let address = r"<?(?<url>https?://[^\s<>()]+(?:\([^\s<>()]*\)[^\s<>()]*)*)>?";
    let title = r#"(?:\s+(?:"[^"\n]*"|'[^'\n]*'))?"#;
    Regex::new(&format!(r"(?i)!\[(?<words>[^\]\n]*)\]\(\s*{address}{title}\s*\)")).ok()
});

/// Matches an image in HTML.
static HTML: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let value =
        r#"(?:"(?<double>https?://[^"\s]+)"|'(?<single>https?://[^'\s]+)'|(?<bare>https?://[^\s>"']+))"#;
    Regex::new(&format!(r"(?i)<img(?:\s[^>]*?)?\ssrc\s*=\s*{value}[^>]*>")).ok()
});

static ALT: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r#"(?i)\salt\s*=\s*(?:"([^"]*)"|'([^']*)')"#).ok());

/// Extracts the images from a text, each URL once.
pub(super) fn extract_pictures(text: &mut String) -> Vec<WebImage> {
    let mut pictures: Vec<WebImage> = Vec::new();
    for (pattern, read) in
        [(&MARKDOWN, parse_markdown as PictureParser), (&HTML, parse_html as PictureParser)]
    {
        let Some(pattern) = pattern.as_ref().filter(|pattern| pattern.is_match(text)) else { continue };
        let code = code_ranges(text);
        let mut rest = String::with_capacity(text.len());
        let mut end = 0;
        for captures in pattern.captures_iter(text) {
            let (Some(whole), Some(picture)) = (captures.get(0), read(&captures)) else { continue };
            if code.iter().any(|range| range.contains(&whole.start())) || !is_showable(&picture) {
                continue;
            }
            rest.push_str(text.get(end..whole.start()).unwrap_or_default());
            rest.push_str(replacement_text(text, whole, &picture));
            end = whole.end();
            if !pictures.iter().any(|known| known.url == picture.url) {
                pictures.push(picture);
            }
        }
        rest.push_str(text.get(end..).unwrap_or_default());
        *text = rest;
    }
    pictures
}

/// Parses an image from the captures of a pattern.
type PictureParser = fn(&Captures<'_>) -> Option<WebImage>;

fn parse_markdown(found: &Captures<'_>) -> Option<WebImage> {
    let words = found.name("words").map(|words| words.as_str());
    Some(WebImage { url: found.name("url")?.as_str().to_owned(), caption: caption(words) })
}

fn parse_html(found: &Captures<'_>) -> Option<WebImage> {
    let url = ["double", "single", "bare"].into_iter().find_map(|name| found.name(name))?;
    let words = ALT.as_ref().and_then(|alt| alt.captures(found.get(0)?.as_str()));
    let words = words.as_ref().and_then(|words| words.get(1).or(words.get(2)));
    Some(WebImage {
        url: url.as_str().replace("&amp;", "&"),
        caption: caption(words.map(|words| words.as_str())),
    })
}

fn caption(words: Option<&str>) -> Option<String> {
    words.map(str::trim).filter(|words| !words.is_empty()).map(str::to_owned)
}

/// Returns the text that replaces an image: inside a link it is the caption, so that the link stays readable.
fn replacement_text<'a>(text: &str, whole: Match<'_>, picture: &'a WebImage) -> &'a str {
    let linked = text.get(..whole.start()).is_some_and(|before| before.ends_with('['))
        && text.get(whole.end()..).is_some_and(|after| after.starts_with("]("));
    if linked { picture.caption.as_deref().unwrap_or(&picture.url) } else { "" }
}

/// Tells whether a URL looks like an image, fits into a message, and may be shared with a platform, which then
/// knows the URL.
fn is_showable(picture: &WebImage) -> bool {
    let lower = picture.url.to_lowercase();
    let host = lower.split('/').nth(2).unwrap_or_default();
    let is_picture =
        ENDINGS.iter().any(|ending| lower.contains(ending)) || HOSTS.iter().any(|known| host.contains(known));
    let fits = picture.url.len() <= LONGEST_ADDRESS
        && picture.caption.as_ref().is_none_or(|caption| caption.chars().count() <= LONGEST_CAPTION);
    // Whether private addresses may be opened is decided where they are opened.
    let policy = UrlPolicy { private: PrivateAddresses::Allow, ..UrlPolicy::default() };
    is_picture && fits && policy.parse(&picture.url).is_ok_and(|url| policy.check_shareable(&url).is_ok())
}

/// Returns the ranges of code: between fences, and between backticks on a line.
fn code_ranges(text: &str) -> Vec<Range<usize>> {
    let mut code = Vec::new();
    let mut fence: Option<&str> = None;
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        let mark = ["```", "~~~"].into_iter().find(|mark| line.trim_start().starts_with(mark));
        match (fence, mark) {
            (None, Some(_)) => fence = mark,
            (Some(open), Some(mark)) if open == mark => fence = None,
            (None, None) => code.extend(code_spans(line).map(|span| at + span.start..at + span.end)),
            _ => {}
        }
        if fence.is_some() {
            code.push(at..at + line.len());
        }
        at += line.len();
    }
    code
}

/// Returns the ranges between runs of backticks of equal length.
fn code_spans(line: &str) -> impl Iterator<Item = Range<usize>> {
    let mut runs: Vec<Range<usize>> = Vec::new();
    for (at, _) in line.match_indices('`') {
        match runs.last_mut() {
            Some(run) if run.end == at => run.end += 1,
            _ => runs.push(at..at + 1),
        }
    }
    let mut rest = runs.into_iter().peekable();
    std::iter::from_fn(move || {
        loop {
            let open = rest.next()?;
            let closing = rest.clone().position(|run| run.len() == open.len());
            if let Some(close) = closing.and_then(|count| rest.nth(count)) {
                return Some(open.start..close.end);
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, left: &str, expected: &[(&str, Option<&str>)]) {
        let mut rest = text.to_owned();
        let found = extract_pictures(&mut rest);
        let found: Vec<_> =
            found.iter().map(|picture| (picture.url.as_str(), picture.caption.as_deref())).collect();
        assert_eq!((rest.as_str(), found.as_slice()), (left, expected), "{text}");
    }

    #[test]
    fn pictures_leave_the_text() {
        let cat = "https://e.org/cat.png";
        check("See ![a cat](https://e.org/cat.png)!", "See !", &[(cat, Some("a cat"))]);
        check("![](<https://e.org/cat.png> \"title\")", "", &[(cat, None)]);
        check("![x](https://e.org/cat.png) ![y](https://e.org/cat.png)", " ", &[(cat, Some("x"))]);
        check("![x](HTTPS://E.org/a_(1).JPG?w=1#x)", "", &[("HTTPS://E.org/a_(1).JPG?w=1#x", Some("x"))]);
        check("![x](https://v3.fal.media/files/abc)", "", &[("https://v3.fal.media/files/abc", Some("x"))]);
        check(
            "a <img width=3 src='https://e.org/a.gif?x=1&amp;y=2' alt=\"moving\"/> b",
            "a  b",
            &[("https://e.org/a.gif?x=1&y=2", Some("moving"))],
        );
        check("<IMG SRC=https://e.org/cat.png>", "", &[(cat, None)]);
        check(
            "![a](https://e.org/1.webp)\n<img src=\"https://e.org/2.jpeg\">",
            "\n",
            &[("https://e.org/1.webp", Some("a")), ("https://e.org/2.jpeg", None)],
        );
    }

    #[test]
    fn a_link_around_a_picture_stays_a_link() {
        check(
            "[![build](https://e.org/b.png)](https://e.org/ci) ok",
            "[build](https://e.org/ci) ok",
            &[("https://e.org/b.png", Some("build"))],
        );
        check(
            "[![](https://e.org/b.png)](/x)",
            "[https://e.org/b.png](/x)",
            &[("https://e.org/b.png", None)],
        );
    }

    #[test]
    fn everything_else_stays() {
        let long = format!("![{}](https://e.org/a.png)", "x".repeat(501));
        for text in [
            "![logo](https://e.org/logo.svg)",
            "![x](ftp://e.org/a.png) ![y](/tmp/a.png) ![z](a.png)",
            "[not shown](https://e.org/a.png) and https://e.org/a.png",
            "`![x](https://e.org/a.png)` and ``a ` ![x](https://e.org/a.png)``",
            "```md\n![x](https://e.org/a.png)\n```\n~~~\n```\n<img src=\"https://e.org/a.png\">\n~~~",
            "![x](https://me:secret@e.org/a.png)",
            "![x](https://e.org/a.png?access_token=abc)",
            "![x](http://169.254.169.254/a.png)",
            "<img data-src=\"https://e.org/a.png\">",
            &long,
        ] {
            check(text, text, &[]);
        }
        check("`` ` ![x](https://e.org/a.png)", "`` ` ", &[("https://e.org/a.png", Some("x"))]);
    }
}
