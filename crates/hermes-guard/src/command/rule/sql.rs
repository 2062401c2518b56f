//! SQL that destroys tables, wherever a database may read it.

use std::sync::LazyLock;

use regex::Regex;

use super::RuleFinding::{self, Ask};
use crate::command::argv::Argv;
use crate::command::unwrap::{is_inert, passes_on};

static DROP: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"(?is)\bDROP\s+(TABLE|DATABASE|SCHEMA)\b").ok());
static DELETE: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"(?is)\bDELETE\s+FROM\b([^;]*)").ok());
static WHERE: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"(?is)\bWHERE\b").ok());
static TRUNCATE: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"(?is)(^|;|\n)\s*TRUNCATE\s+(TABLE\s+)?[\w.`\x22]").ok());

/// Programs whose words may run something, but never against a database.
const NO_CLIENTS: &[&str] = &[
    "cargo", "git", "sed", "awk", "gawk", "mawk", "less", "more", "find", "fd", "man", "vim", "nvim",
    "emacs", "python", "python3", "node", "perl", "ruby",
];

pub(in crate::command) fn is_client(name: &str) -> bool {
    matches!(
        name,
        "psql"
            | "mysql"
            | "mariadb"
            | "sqlite3"
            | "sqlite"
            | "duckdb"
            | "clickhouse-client"
            | "clickhouse"
            | "sqlcmd"
            | "sqlplus"
            | "cqlsh"
            | "bq"
            | "snowsql"
            | "usql"
            | "pgcli"
            | "mycli"
            | "mssql-cli"
            | "cockroach"
            | "turso"
            | "litecli"
    )
}

/// Returns the worst effect of a text.
pub(in crate::command) fn find(text: &str) -> Option<RuleFinding> {
    let matches =
        |pattern: &LazyLock<Option<Regex>>| pattern.as_ref().is_some_and(|pattern| pattern.is_match(text));
    if matches(&DROP) {
        return Some(Ask("SQL DROP"));
    }
    let unbounded = DELETE.as_ref().is_some_and(|pattern| {
        pattern.captures_iter(text).any(|found| {
            let rest = found.get(1).map_or("", |rest| rest.as_str());
            !WHERE.as_ref().is_some_and(|pattern| pattern.is_match(rest))
        })
    });
    if unbounded {
        return Some(Ask("SQL DELETE without WHERE"));
    }
    matches(&TRUNCATE).then_some(Ask("SQL TRUNCATE"))
}

/// Judges an unknown program, which may be a database client.
pub(super) fn check(argv: &Argv<'_>) -> Option<RuleFinding> {
    // A program that only runs another is judged by that other.
    let name = argv.name.as_str();
    if is_inert(name) || NO_CLIENTS.contains(&name) || passes_on(name) {
        return None;
    }
    let mut joined = argv.texts().collect::<Vec<_>>().join("\n");
    if !is_client(&argv.name) && joined.len() > 20_000 {
        joined = joined.chars().take(20_000).collect();
    }
    argv.texts().find_map(find).or_else(|| find(&joined))
}
