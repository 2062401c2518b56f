//! Deletion of files.

use super::RuleFinding::{self, Ask, Deny};
use crate::command::argv::Argv;
use crate::command::path::{is_temporary, is_vital};
use crate::command::unwrap::InvocationKind;

pub(super) fn check(argv: &Argv<'_>) -> Option<RuleFinding> {
    match argv.name.as_str() {
        "rm" | "grm" | "srm" => rm(argv),
        "find" if argv.has("-delete") => Some(Ask("find -delete")),
        "shred" | "wipe" if !argv.asks_for_help() => Some(Ask("destroy file contents")),
        "mv" if argv.texts().last() == Some("/dev/null") => Some(Ask("destroy file contents")),
        "truncate" if argv.plain().any(|path| path.starts_with('/') && !is_temporary(path)) => {
            Some(Ask("destroy file contents"))
        }
        "rsync" if argv.texts().any(|text| text.starts_with("--del")) => rsync(argv),
        "rimraf" | "trash-empty" | "del-cli" if !argv.asks_for_help() => {
            let vital = argv.plain().any(is_vital);
            Some(if vital { Deny("delete the system or a home folder") } else { Ask("recursive delete") })
        }
        // A variable that only the shell knows, with the options of a recursive delete.
        name if name.starts_with('$')
            && argv.texts().any(|text| matches!(text, "-rf" | "-fr" | "-Rf" | "-fR")) =>
        {
            Some(Ask("recursive delete"))
        }
        "del" | "erase" | "rd" | "remove-item" | "ri" => Some(Ask("delete (Windows)")),
        "cmd" if argv.texts().any(|text| text.eq_ignore_ascii_case("/c")) => {
            let deletes = |text: &str| {
                text.split_whitespace().any(|word| {
                    matches!(word.to_lowercase().as_str(), "del" | "rd" | "rmdir" | "erase" | "format")
                })
            };
            argv.texts().any(deletes).then_some(Ask("delete (Windows)"))
        }
        _ => None,
    }
}

fn rsync(argv: &Argv<'_>) -> Option<RuleFinding> {
    if argv.plain().last().is_some_and(is_vital) {
        return Some(Deny("delete the system or a home folder"));
    }
    let tries = argv.has_letter('n') || argv.has("--dry-run");
    (!tries).then_some(Ask("delete what the source lacks"))
}

fn rm(argv: &Argv<'_>) -> Option<RuleFinding> {
    if argv.asks_for_help() {
        return None;
    }
    let long = argv.has_long("--recursive");
    // The arguments of a function or a script may be options too.
    let given = argv.args.iter().any(|word| !word.known && matches!(word.text.as_str(), "$@" | "$*"));
    let recursive = long || given || argv.has_letter('r') || argv.has_letter('R');
    if recursive {
        let vital = argv.plain().any(is_vital);
        if vital || argv.has("--no-preserve-root") {
            return Some(Deny("delete the system or a home folder"));
        }
    }
    match argv.via {
        InvocationKind::Xargs => return Some(Ask("xargs with rm")),
        InvocationKind::FindExec => return Some(Ask("find -exec rm")),
        InvocationKind::Directly | InvocationKind::Remote => {}
    }
    let rooted = argv.plain().any(|path| path.starts_with('/') && (recursive || !is_temporary(path)));
    if rooted {
        Some(Ask("delete in root path"))
    } else if long {
        Some(Ask("recursive delete (long flag)"))
    } else if recursive {
        Some(Ask("recursive delete"))
    } else {
        None
    }
}
