//! Work and resources that cannot be had back: version control, containers, clouds.

use super::Finding::{self, Ask};
use crate::command::argv::Argv;

const REMOTE: &str = "destroy remote resources";

pub(super) fn check(argv: &Argv<'_>) -> Option<Finding> {
    match argv.name.as_str() {
        "git" => git(argv),
        "docker" | "podman" | "nerdctl" => docker(argv),
        "docker-compose" => compose(argv.word(0)),
        "kubectl" if argv.word(0) == "delete" => Some(Ask(REMOTE)),
        "terraform" | "tofu" | "pulumi" if argv.word(0) == "destroy" => Some(Ask(REMOTE)),
        "aws" => {
            let s3 = argv.word(0) == "s3"
                && (argv.word(1) == "rb" || argv.word(1) == "rm" && argv.has("--recursive"));
            let ends = ["delete-", "terminate-"].iter().any(|verb| argv.word(1).starts_with(verb));
            (s3 || ends).then_some(Ask(REMOTE))
        }
        "gcloud" | "az" | "heroku" | "fly" | "flyctl" | "doctl" => {
            let verb = |word: &str| matches!(word, "delete" | "destroy") || word.ends_with(":destroy");
            argv.plain().any(verb).then_some(Ask(REMOTE))
        }
        "gh" if argv.word(1) == "delete" => Some(Ask(REMOTE)),
        "dropdb" => Some(Ask("SQL DROP")),
        "redis-cli"
            if argv.texts().any(|text| matches!(text.to_lowercase().as_str(), "flushall" | "flushdb")) =>
        {
            Some(Ask(REMOTE))
        }
        _ => None,
    }
}

fn git(argv: &Argv<'_>) -> Option<Finding> {
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
    let rest: Vec<&str> = rest.take_while(|text| *text != "--").collect();
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
                || rest.iter().skip(1).any(|text| text.starts_with('+'))
        }
        "clean" => (letter('f') || has("--force")) && !(letter('n') || has("--dry-run")),
        "branch" => letter('D') || has("--delete") && has("--force"),
        "stash" => matches!(rest.first(), Some(&("clear" | "drop"))),
        "filter-branch" | "filter-repo" => true,
        "reflog" => rest.first() == Some(&"expire"),
        _ => false,
    };
    found.then_some(match verb {
        "reset" => Ask("git reset --hard"),
        "push" => Ask("git push --force"),
        "clean" => Ask("git clean -f"),
        "branch" => Ask("git branch -D"),
        _ => Ask("discard git history"),
    })
}

fn docker(argv: &Argv<'_>) -> Option<Finding> {
    let verb = argv.word(0);
    let (first, second) = match verb {
        "compose" => return compose(argv.word(1)),
        "container" => (argv.word(1), argv.word(2)),
        verb => (verb, argv.word(1)),
    };
    match (first, second) {
        ("restart" | "stop" | "kill", _) => Some(Ask("docker restart/stop/kill")),
        ("rm", _) if argv.has_letter('f') || argv.has_long("--force") => {
            Some(Ask("docker restart/stop/kill"))
        }
        ("system" | "volume" | "image" | "builder", "prune") | ("volume", "rm") | ("prune", _) => {
            Some(Ask("delete docker data"))
        }
        _ => None,
    }
}

fn compose(verb: &str) -> Option<Finding> {
    matches!(verb, "restart" | "stop" | "kill" | "down" | "rm")
        .then_some(Ask("docker compose restart/stop/kill/down"))
}
