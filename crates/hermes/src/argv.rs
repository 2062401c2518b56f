//! The command line before it is parsed: names of conversations may be several words.

use std::ffi::OsString;

const NAMED: [(&str, &str); 4] =
    [("-c", "--continue"), ("--continue", "--continue"), ("-r", "--resume"), ("--resume", "--resume")];

/// Joins the words after `-c` and `-r` into one value, so that `hermes -c My long title` works unquoted. A word that is
/// a command ends the name.
pub(crate) fn joined(
    arguments: impl IntoIterator<Item = OsString>,
    is_command: impl Fn(&str) -> bool,
) -> Vec<OsString> {
    let mut result = Vec::new();
    let mut waiting = arguments.into_iter().peekable();
    result.extend(waiting.next());
    while let Some(argument) = waiting.next() {
        let long = argument
            .to_str()
            .and_then(|text| NAMED.iter().find_map(|(name, long)| (*name == text).then_some(*long)));
        let Some(long) = long else {
            let ends = argument == "--";
            result.push(argument);
            if ends {
                result.extend(waiting);
                break;
            }
            continue;
        };
        let mut words: Vec<String> = Vec::new();
        while let Some(word) = waiting.peek().and_then(|next| next.to_str()) {
            if word.starts_with('-') || is_command(word) {
                break;
            }
            words.push(word.to_owned());
            waiting.next();
        }
        result.push(OsString::from(format!("{long}={}", words.join(" "))));
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(given: &str, expected: &[&str]) {
        let words = given.split(' ').map(OsString::from);
        let joined = joined(words, |word| matches!(word, "chat" | "sessions"));
        assert_eq!(joined, expected.iter().map(OsString::from).collect::<Vec<_>>(), "{given}");
    }

    #[test]
    fn names_of_several_words_become_one_value() {
        check("hermes -c Pokemon Agent Dev", &["hermes", "--continue=Pokemon Agent Dev"]);
        check("hermes -c", &["hermes", "--continue="]);
        check("hermes -c chat -q hi", &["hermes", "--continue=", "chat", "-q", "hi"]);
        check("hermes chat --resume a b -q hi", &["hermes", "chat", "--resume=a b", "-q", "hi"]);
        check("hermes chat -q hi", &["hermes", "chat", "-q", "hi"]);
        check("hermes sessions rename x -- -c y", &["hermes", "sessions", "rename", "x", "--", "-c", "y"]);
    }
}
