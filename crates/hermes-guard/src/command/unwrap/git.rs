//! Commands that git runs: aliases, pagers, editors, helpers.

use super::{ExecutedItem, InvocationKind, ShellWord, follow, joined};

/// Options whose value is a command.
const OPTIONS: &[&str] = &[
    "--upload-pack",
    "--receive-pack",
    "--exec",
    "-x",
    "--extcmd",
    "-O",
    "--open-files-in-pager",
    "-u",
    "--tree-filter",
    "--index-filter",
    "--msg-filter",
    "--commit-filter",
    "--env-filter",
    "--parent-filter",
];

pub(super) fn runs(rest: &[ShellWord], via: InvocationKind, found: &mut Vec<ExecutedItem>, depth: usize) {
    let texts: Vec<&str> = rest.iter().map(|word| word.text.as_str()).collect();
    let after = |name: &str| texts.iter().position(|text| *text == name).map(|at| at + 1);
    if texts.contains(&"submodule")
        && let Some(at) = after("foreach")
    {
        found.push(ExecutedItem::Text { word: joined(rest.get(at..).unwrap_or_default()), via });
    }
    if texts.contains(&"bisect")
        && let Some(at) = after("run")
    {
        follow(rest.get(at..).unwrap_or_default(), via, found, depth + 1);
    }
    for (at, word) in rest.iter().enumerate() {
        let next = rest.get(at + 1);
        let given = word.text.as_str();
        let text = match given {
            "-c" => next.and_then(setting),
            "config" => rest.last().filter(|_| rest.len() > at + 2).map(|value| configured(&value.text)),
            // A message or a pattern follows, and its text is not run.
            "commit" | "tag" | "log" | "notes" | "stash" | "merge" => break,
            _ if OPTIONS.contains(&given) => next.map(|value| value.text.clone()),
            _ if given.starts_with("ext::") => given.strip_prefix("ext::").map(str::to_owned),
            _ => OPTIONS.iter().find_map(|option| attached(given, option)),
        };
        found.extend(text.map(|text| ExecutedItem::Text { word: ShellWord { text, ..word.clone() }, via }));
    }
}

/// Returns the value of `name=value`, if it could be a command.
fn setting(word: &ShellWord) -> Option<String> {
    let (_, value) = word.text.split_once('=')?;
    Some(configured(value))
}

/// Returns the command in a value; it begins with a `!` where it could also be one of git's own.
fn configured(value: &str) -> String {
    value.trim_start().trim_start_matches('!').to_owned()
}

/// Returns the value of `--option=value`, or `-Ovalue`.
fn attached(given: &str, option: &str) -> Option<String> {
    let value = given.strip_prefix(option)?;
    match value.strip_prefix('=') {
        Some(value) => Some(value.to_owned()),
        None if option.len() == 2 && value.contains(' ') => Some(value.to_owned()),
        None => None,
    }
}
