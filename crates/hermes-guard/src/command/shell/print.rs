//! The output of `echo` and `printf`.

use super::quote::{ZeroEscape, unescape};
use super::{ShellScript, ShellWord};

/// The most times that a format is applied: it is reused while words are left.
const MOST_ROUNDS: usize = 64;
const LONGEST: usize = 100_000;

/// Returns what these words print, as far as it is known; unknown variables stay as they are.
pub(crate) fn printed(words: &[ShellWord]) -> Option<String> {
    let (first, rest) = words.split_first()?;
    let texts: Vec<&str> = rest.iter().map(|word| word.text.as_str()).collect();
    match first.text.as_str() {
        "echo" => Some(echoed(&texts)),
        "printf" => {
            let texts = texts.strip_prefix(&["--"]).unwrap_or(&texts);
            let (format, values) = texts.split_first()?;
            (*format != "-v").then(|| formatted(format, values))
        }
        _ => None,
    }
}

/// Returns what a script prints, where that is known: `echo rm` is a way to write `rm`.
pub(super) fn output_of(script: &ShellScript) -> Option<String> {
    let [pipeline] = script.pipelines.as_slice() else { return None };
    let [stage] = pipeline.stages.as_slice() else { return None };
    if !stage.redirects.is_empty() || !stage.words.iter().all(|word| word.known) {
        return None;
    }
    let words: Vec<&str> = stage.words.iter().map(|word| word.text.as_str()).collect();
    match words.as_slice() {
        ["which", name] | ["command", "-v", name] | ["type", "-p" | "-P", name] => Some((*name).to_owned()),
        _ => printed(&stage.words).map(|text| text.trim_end_matches('\n').to_owned()),
    }
}

fn echoed(texts: &[&str]) -> String {
    let options =
        texts.iter().take_while(|text| matches!(**text, "-n" | "-e" | "-E" | "-ne" | "-en")).count();
    unescape(&texts.get(options..).unwrap_or_default().join(" "), ZeroEscape::Prefix)
}

/// Returns a format with its values inserted. The conversion of each value does not matter here.
pub(super) fn formatted(format: &str, values: &[&str]) -> String {
    let mut values = values.iter();
    let mut text = String::new();
    for _ in 0..MOST_ROUNDS {
        let left = values.len();
        fill_in(format, &mut values, &mut text);
        if values.len() == 0 || values.len() == left || text.len() > LONGEST {
            break;
        }
    }
    unescape(&text, ZeroEscape::Digit)
}

fn fill_in(format: &str, values: &mut std::slice::Iter<'_, &str>, text: &mut String) {
    let mut rest = format.chars();
    while let Some(c) = rest.next() {
        if c != '%' {
            text.push(c);
            continue;
        }
        let kind = rest.by_ref().find(|c| !matches!(c, '-' | '+' | ' ' | '#' | '.' | '0'..='9'));
        match kind {
            Some('%') => text.push('%'),
            Some('b') => {
                text.push_str(&unescape(values.next().copied().unwrap_or_default(), ZeroEscape::Prefix));
            }
            Some(_) => text.push_str(values.next().copied().unwrap_or_default()),
            None => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_printed() {
        let check = |words: &[&str], wanted: Option<&str>| {
            let words: Vec<ShellWord> = words.iter().copied().map(ShellWord::plain).collect();
            assert_eq!(printed(&words).as_deref(), wanted, "{words:?}");
        };
        check(&["echo", "-n", "a", "b"], Some("a b"));
        check(&["echo", "a\\nb\\x21"], Some("a\nb!"));
        check(&["printf", "%s -%5s\\n", "rm", "rf"], Some("rm -rf\n"));
        check(&["printf", "%s ", "a", "b", "c"], Some("a b c "));
        check(&["printf", "x", "a", "b"], Some("x"));
        check(&["printf", "100%%"], Some("100%"));
        check(&["printf"], None);
        check(&["ls"], None);
    }
}
