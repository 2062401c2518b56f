//! The command line before it is parsed. Session names may be several words.

use std::ffi::OsString;

use crate::command::profile::is_name;

const NAMED: [(&str, &str); 4] =
    [("-c", "--continue"), ("--continue", "--continue"), ("-r", "--resume"), ("--resume", "--resume")];

/// Short flags that take no value and may stand before `c` or `r` in one word.
const SWITCHES: &str = "Qv";

/// Parses a flag that names a session: the switches before it, the long flag, the beginning of the name.
fn parse_session_flag(word: &str) -> Option<(Option<String>, &'static str, Option<String>)> {
    if let Some((_, long)) = NAMED.iter().find(|(name, _)| *name == word) {
        return Some((None, long, None));
    }
    let letters = word.strip_prefix('-').filter(|letters| !letters.starts_with('-'))?;
    let at = letters.find(|c| !SWITCHES.contains(c))?;
    let (switches, rest) = letters.split_at_checked(at)?;
    let long = match rest.chars().next()? {
        'c' => "--continue",
        'r' => "--resume",
        _ => return None,
    };
    let before = (!switches.is_empty()).then(|| format!("-{switches}"));
    let name =
        rest.get(1..).filter(|name| !name.is_empty()).map(|name| name.trim_start_matches('=').to_owned());
    Some((before, long, name))
}

/// Takes `-p NAME`, `--profile NAME` and `--profile=NAME` out of the command line, wherever they stand before `--` and
/// before the words of a child program (`--args`). A value that cannot be a profile's name is left for others.
pub(crate) fn take_profile(arguments: impl IntoIterator<Item = OsString>) -> (Vec<OsString>, Option<String>) {
    let mut rest: Vec<OsString> = Vec::new();
    let mut profile = None;
    let mut waiting = arguments.into_iter().peekable();
    rest.extend(waiting.next());
    while let Some(argument) = waiting.next() {
        let word = argument.to_str().unwrap_or_default();
        if matches!(word, "--" | "--args") {
            rest.push(argument);
            break;
        }
        let name = match word.strip_prefix("--profile=") {
            Some(name) => is_name(name).then(|| name.to_owned()),
            None if matches!(word, "-p" | "--profile") => {
                let next = waiting.next_if(|next| next.to_str().is_some_and(is_name));
                next.and_then(|next| next.into_string().ok())
            }
            None => None,
        };
        match name {
            Some(name) => profile = Some(name),
            None => rest.push(argument),
        }
    }
    rest.extend(waiting);
    (rest, profile)
}

/// Joins the words after `-c` and `-r` into one value, so that `hermes -c My long title` works unquoted. A command
/// name ends the session name.
pub(crate) fn join_session_names(
    arguments: impl IntoIterator<Item = OsString>,
    is_command: impl Fn(&str) -> bool,
) -> Vec<OsString> {
    let mut result = Vec::new();
    let mut waiting = arguments.into_iter().peekable();
    result.extend(waiting.next());
    while let Some(argument) = waiting.next() {
        let Some((before, long, name)) = argument.to_str().and_then(parse_session_flag) else {
            // What follows `--args` of `mcp add` belongs to another program.
            let ends = argument == "--" || argument == "--args";
            result.push(argument);
            if ends {
                result.extend(waiting);
                break;
            }
            continue;
        };
        result.extend(before.map(OsString::from));
        let mut words: Vec<String> = name.into_iter().collect();
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

/// The commands whose flags other programs' scripts write in other forms.
const RESEARCH: [&str; 5] = ["batch", "compress", "rl", "sample-compress", "swe-run"];

/// Writes the flags of a research command as it declares them: `_` in a name becomes `-`, `--flag=True` becomes `--flag`, and
/// `--flag=False` and `--noflag` are left out. `None` for another command.
pub(crate) fn research_flags(
    arguments: &[OsString],
    switches_of: impl Fn(&str) -> Vec<String>,
) -> Option<Vec<OsString>> {
    let is_flag = |word: &OsString| word.to_str().is_some_and(|word| word.starts_with('-'));
    let at = arguments.iter().skip(1).position(|word| !is_flag(word))? + 1;
    let command = arguments.get(at)?.to_str().filter(|word| RESEARCH.contains(word))?;
    let switches = switches_of(command);
    let is_switch = |name: &str| switches.iter().any(|switch| switch == name);
    let truth = |word: &str| match word.to_ascii_lowercase().as_str() {
        "true" => Some(true),
        "false" => Some(false),
        _ => None,
    };
    let (before, after) = arguments.split_at_checked(at + 1)?;
    let mut result = before.to_vec();
    let mut waiting = after.iter().peekable();
    while let Some(argument) = waiting.next() {
        let Some(flag) =
            argument.to_str().and_then(|word| word.strip_prefix("--")).filter(|flag| !flag.is_empty())
        else {
            result.push(argument.clone());
            continue;
        };
        let (name, value) = match flag.split_once('=') {
            Some((name, value)) => (name.replace('_', "-"), Some(value)),
            None => (flag.replace('_', "-"), None),
        };
        if is_switch(&name) {
            let spoken = waiting.next_if(|next| value.is_none() && next.to_str().and_then(truth).is_some());
            let spoken = value.or_else(|| spoken.and_then(|word| word.to_str()));
            match spoken.map(truth) {
                Some(Some(false)) => {}
                Some(None) => result.push(argument.clone()),
                Some(Some(true)) | None => result.push(format!("--{name}").into()),
            }
        } else if name.strip_prefix("no").map(|rest| rest.trim_start_matches('-')).is_some_and(is_switch) {
            // A switch that is off needs no word.
        } else {
            result.push(match value {
                Some(value) => format!("--{name}={value}").into(),
                None => format!("--{name}").into(),
            });
        }
    }
    Some(result)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_of_research_commands_have_many_forms() {
        let written = |line: &str| {
            let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            let switches = |_: &str| vec!["resume".to_owned(), "verbose".to_owned()];
            let result = research_flags(&words, switches)?;
            Some(result.join(std::ffi::OsStr::new(" ")).into_string().unwrap())
        };
        let check =
            |given: &str, expected: &str| assert_eq!(written(given).as_deref(), Some(expected), "{given}");
        check("hermes batch --run_name=42 --resume", "hermes batch --run-name=42 --resume");
        check("hermes batch --batch_size 10 --resume=True", "hermes batch --batch-size 10 --resume");
        check("hermes batch --resume False --verbose true", "hermes batch --verbose");
        check("hermes batch --noresume --no-verbose", "hermes batch");
        check("hermes batch --providers_order=a,b_c", "hermes batch --providers-order=a,b_c");
        check("hermes batch --resume=maybe", "hermes batch --resume=maybe");
        assert_eq!(written("hermes chat --resume"), None);
        assert_eq!(written("hermes"), None);
    }

    fn check(given: &str, expected: &[&str]) {
        let words = given.split(' ').map(OsString::from);
        let joined = join_session_names(words, |word| matches!(word, "chat" | "sessions"));
        assert_eq!(joined, expected.iter().map(OsString::from).collect::<Vec<_>>(), "{given}");
    }

    #[test]
    fn a_profile_is_taken_out() {
        let taken = |words: &[&str]| {
            let (rest, profile) = super::take_profile(words.iter().map(OsString::from));
            (rest.join(std::ffi::OsStr::new(" ")).into_string().unwrap(), profile)
        };
        let work = Some("work".to_owned());
        assert_eq!(taken(&["hermes", "-p", "work", "status"]), ("hermes status".into(), work.clone()));
        assert_eq!(taken(&["hermes", "status", "--profile=work"]), ("hermes status".into(), work));
        assert_eq!(taken(&["hermes", "-p", "Not a name"]), ("hermes -p Not a name".into(), None));
        assert_eq!(taken(&["hermes", "mcp", "add", "--args", "-p", "work"]).1, None);
        assert_eq!(taken(&["hermes", "--", "-p", "work"]).1, None);
    }

    #[test]
    fn names_of_several_words_become_one_value() {
        check("hermes -c Pokemon Agent Dev", &["hermes", "--continue=Pokemon Agent Dev"]);
        check("hermes -c", &["hermes", "--continue="]);
        check("hermes -c chat -q hi", &["hermes", "--continue=", "chat", "-q", "hi"]);
        check("hermes chat --resume a b -q hi", &["hermes", "chat", "--resume=a b", "-q", "hi"]);
        check("hermes -Qc", &["hermes", "-Q", "--continue="]);
        check("hermes -cMy title -q hi", &["hermes", "--continue=My title", "-q", "hi"]);
        check("hermes -Qrabc -q hi", &["hermes", "-Q", "--resume=abc", "-q", "hi"]);
        check("hermes -Qq hi", &["hermes", "-Qq", "hi"]);
        check("hermes chat -q hi", &["hermes", "chat", "-q", "hi"]);
        check("hermes sessions rename x -- -c y", &["hermes", "sessions", "rename", "x", "--", "-c", "y"]);
    }
}
