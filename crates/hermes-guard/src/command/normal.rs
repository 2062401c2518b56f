//! A command as it is judged: without what only hides it.

use unicode_normalization::UnicodeNormalization;

use super::Places;
use crate::strip_ansi;

/// Control sequences and NULs go, look-alike letters become plain, absolute homes become `~`.
pub(super) fn normalize(command: &str, places: Places<'_>) -> String {
    let text: String = strip_ansi(command).chars().filter(|c| *c != '\0').nfkc().collect();
    let text = text.replace("\\\n", "");
    // The longer name first: the one often lies within the other.
    let text = fold(text, places.hermes_home, "~/.hermes");
    fold(text, places.home, "~")
}

fn fold(text: String, folder: Option<&str>, name: &str) -> String {
    let Some(folder) = folder.map(|folder| folder.trim_end_matches('/')).filter(|folder| folder.len() > 1)
    else {
        return text;
    };
    let mut folded = String::with_capacity(text.len());
    let mut rest = text.as_str();
    while let Some((before, after)) = rest.split_once(folder) {
        folded.push_str(before);
        let ends_here =
            after.chars().next().is_none_or(|c| !(c.is_alphanumeric() || matches!(c, '-' | '_' | '.')));
        let begins_here = before
            .chars()
            .next_back()
            .is_none_or(|c| !(c.is_alphanumeric() || matches!(c, '-' | '_' | '.' | '/')));
        folded.push_str(if ends_here && begins_here { name } else { folder });
        rest = after;
    }
    folded.push_str(rest);
    folded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_hides_a_command_goes() {
        let places = Places { home: Some("/home/me"), hermes_home: Some("/home/me/.hermes") };
        let check = |given: &str, wanted: &str| assert_eq!(normalize(given, places), wanted, "{given:?}");
        check("ｒｍ -rf x", "rm -rf x");
        check("r\u{1b}[31mm\0 x", "rm x");
        check("rm \\\n-rf", "rm -rf");
        check("cat /home/me/.hermes/.env /home/me/x /home/meter/y", "cat ~/.hermes/.env ~/x /home/meter/y");
    }
}
