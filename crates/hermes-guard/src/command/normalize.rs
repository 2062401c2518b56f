//! Normalisation of a command's spelling.

use unicode_normalization::UnicodeNormalization;

use super::HomeFolders;

/// Returns a command with look-alike letters replaced by plain ones.
pub(super) fn plain_letters(command: &str) -> String {
    command.nfkc().collect()
}

/// Returns a command with the absolute paths of the homes written as `~`.
pub(super) fn fold_homes(command: &str, places: HomeFolders<'_>) -> String {
    // The longer path first: one is often within the other.
    let text = fold(command.to_owned(), places.hermes_home, "~/.hermes");
    fold(text, places.home, "~")
}

fn fold(text: String, folder: Option<&str>, name: &str) -> String {
    // A path with characters special to the shell could split words where bash does not.
    let is_plain = |folder: &&str| {
        folder.len() > 1
            && folder.chars().all(|c| c.is_alphanumeric() || matches!(c, '/' | '.' | '_' | '-' | '@' | '+'))
    };
    let Some(folder) = folder.map(|folder| folder.trim_end_matches('/')).filter(is_plain) else {
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
    fn other_ways_to_write_a_command() {
        assert_eq!(plain_letters("ｒｍ -rf x"), "rm -rf x");
        let places = HomeFolders { home: Some("/home/me"), hermes_home: Some("/home/me/.hermes") };
        let check = |given: &str, wanted: &str| assert_eq!(fold_homes(given, places), wanted, "{given:?}");
        check("cat /home/me/.hermes/.env /home/me/x /home/meter/y", "cat ~/.hermes/.env ~/x /home/meter/y");
        check("rm \\\n-rf", "rm \\\n-rf");
    }
}
