//! Resources that cannot be recovered: clouds and data stores.

use super::RuleFinding::{self, Ask};
use crate::command::argv::Argv;

const REMOTE: &str = "destroy remote resources";

pub(super) fn check(argv: &Argv<'_>) -> Option<RuleFinding> {
    match argv.name.as_str() {
        "kubectl" if argv.word(0) == "delete" => Some(Ask(REMOTE)),
        "terraform" | "tofu" | "pulumi" if argv.word(0) == "destroy" || argv.has("-destroy") => {
            Some(Ask(REMOTE))
        }
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
        "gh" if argv.word(0) == "api" && argv.has("DELETE") => Some(Ask(REMOTE)),
        "helm" if matches!(argv.word(0), "uninstall" | "delete") => Some(Ask(REMOTE)),
        "rclone" if matches!(argv.word(0), "delete" | "purge" | "deletefile" | "rmdirs") => Some(Ask(REMOTE)),
        "mongosh" | "mongo"
            if argv.texts().any(|text| text.contains("dropDatabase(") || text.contains(".drop(")) =>
        {
            Some(Ask("SQL DROP"))
        }
        "gh" if argv.word(1) == "delete" => Some(Ask(REMOTE)),
        "dropdb" => Some(Ask("SQL DROP")),
        "mysqladmin" if argv.has("drop") => Some(Ask("SQL DROP")),
        "redis-cli" => argv.texts().find_map(|text| wipes_store("redis-cli", text)),
        _ => None,
    }
}

/// Judges a command sent to a key-value store.
pub(in crate::command) fn wipes_store(name: &str, text: &str) -> Option<RuleFinding> {
    let wipes = |word: &str| matches!(word.to_lowercase().as_str(), "flushall" | "flushdb");
    (name == "redis-cli" && text.split_whitespace().any(wipes)).then_some(Ask(REMOTE))
}
