//! `/insights`: shows recent usage.

use hermes_store::Store;
use hermes_types::Timestamp;

use super::CommandReply;
use crate::command;

const DEFAULT_DAYS: u32 = 30;

pub(super) fn run(arguments: &str, store: &Store, now: Timestamp) -> CommandReply {
    let Some((days, source)) = parse(arguments) else {
        return CommandReply::text("Usage: /insights [days] [--source NAME]");
    };
    let report = command::insights::report(store, days, source, now);
    CommandReply::text(report.unwrap_or_else(|error| format!("⚠️ {error:#}")))
}

/// Parses `7`, `--days 7` or `--days=7`, and `--source NAME`.
fn parse(arguments: &str) -> Option<(u32, Option<String>)> {
    let (mut days, mut source) = (DEFAULT_DAYS, None);
    let arguments = arguments.replace('=', " ");
    let mut words = arguments.split_whitespace();
    while let Some(word) = words.next() {
        match word {
            "--source" => source = Some(words.next()?.to_owned()),
            "--days" => days = words.next()?.parse().ok()?,
            word => days = word.parse().ok()?,
        }
    }
    Some((days, source))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_and_source_are_read_in_every_form() {
        assert_eq!(parse(""), Some((30, None)));
        for text in ["7", "--days 7", "--days=7"] {
            assert_eq!(parse(text), Some((7, None)), "{text}");
        }
        assert_eq!(parse("7 --source cli"), Some((7, Some("cli".to_owned()))));
        for text in ["soon", "--days", "--source", "--days x"] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
