//! Version control: loss of work that cannot be recovered.

use super::RuleFinding::{self, Ask};
use crate::command::argv::Argv;

pub(super) fn check(argv: &Argv<'_>) -> Option<RuleFinding> {
    if argv.name != "git" {
        return None;
    }
    // Options of git itself may take a value: `-C folder`.
    let mut rest = argv.texts();
    let verb = loop {
        match rest.next()? {
            "-C" | "-c" | "--git-dir" | "--work-tree" | "--namespace" => {
                rest.next();
            }
            text if text.starts_with('-') => {}
            text => break text,
        }
    };
    let all: Vec<&str> = rest.collect();
    let rest: Vec<&str> = all.iter().copied().take_while(|text| *text != "--").collect();
    let letter = |letter: char| {
        rest.iter().any(|text| text.starts_with('-') && !text.starts_with("--") && text.contains(letter))
    };
    let has = |name: &str| rest.contains(&name);
    let found = match verb {
        "reset" => has("--hard"),
        "push" => {
            has("--force")
                || letter('f')
                || has("--mirror")
                || has("--delete")
                || letter('d')
                || rest.iter().skip(1).any(|text| text.starts_with(['+', ':']))
        }
        "clean" => (letter('f') || has("--force")) && !(letter('n') || has("--dry-run")),
        "branch" => letter('D') || has("--delete") && has("--force"),
        "stash" => matches!(rest.first(), Some(&("clear" | "drop"))),
        "filter-branch" | "filter-repo" => true,
        "reflog" => rest.first() == Some(&"expire"),
        "worktree" => rest.first() == Some(&"remove") && (letter('f') || has("--force")),
        "rm" => (letter('r') || has("--recursive")) && !(has("--cached") || letter('n') || has("--dry-run")),
        // Only everything at once; single files are common.
        "checkout" | "switch" => {
            letter('f')
                || has("--force")
                || has("--discard-changes")
                || verb == "checkout" && everything(&all)
        }
        "restore" => {
            everything(&all) && (!(has("--staged") || letter('S')) || has("--worktree") || letter('W'))
        }
        _ => false,
    };
    found.then_some(match verb {
        "reset" => Ask("git reset --hard"),
        "push" => Ask("git push --force"),
        "clean" => Ask("git clean -f"),
        "branch" => Ask("git branch -D"),
        "rm" => Ask("recursive delete"),
        "checkout" | "switch" | "restore" | "worktree" => Ask("discard uncommitted work"),
        _ => Ask("discard git history"),
    })
}

fn everything(words: &[&str]) -> bool {
    words.iter().any(|word| matches!(*word, "." | "./" | ":/" | "*" | ":/*"))
}
