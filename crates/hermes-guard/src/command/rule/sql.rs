//! SQL that destroys tables, wherever a database may read it.

use std::sync::LazyLock;

use regex::Regex;

use super::Finding::{self, Ask};
use crate::command::argv::Argv;
use crate::command::unwrap::passes_on;

static DROP: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"(?is)\bDROP\s+(TABLE|DATABASE|SCHEMA)\b").ok());
static DELETE: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"(?is)\bDELETE\s+FROM\b([^;]*)").ok());
static WHERE: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"(?is)\bWHERE\b").ok());
static TRUNCATE: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"(?is)(^|;|\n)\s*TRUNCATE\s+(TABLE\s+)?[\w.`\x22]").ok());

/// Programs that only read, search or show their words.
const TALKERS: &[&str] = &[
    "echo",
    "printf",
    "grep",
    "egrep",
    "fgrep",
    "rg",
    "ag",
    "ack",
    "git",
    "gh",
    "glab",
    "sed",
    "awk",
    "gawk",
    "mawk",
    "cat",
    "bat",
    "less",
    "more",
    "head",
    "tail",
    "ls",
    "find",
    "fd",
    "jq",
    "yq",
    "cut",
    "sort",
    "uniq",
    "wc",
    "diff",
    "test",
    "[",
    "[[",
    "export",
    "man",
    "which",
    "type",
    "for",
    "touch",
    "mkdir",
    "cp",
    "mv",
    "rm",
    "tee",
    "code",
    "vim",
    "nano",
    "open",
    "notify-send",
    "say",
    "logger",
    "read",
    "true",
    "false",
    ":",
    "cargo",
    "pytest",
    "jest",
    "ctest",
    "pre-commit",
    "hermes",
    "curl",
    "wget",
    "http",
    "python",
    "python3",
    "node",
    "perl",
    "ruby",
    "case",
];

pub(in crate::command) fn only_talks(name: &str) -> bool {
    TALKERS.contains(&name)
}

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

/// The worst a text would do.
pub(in crate::command) fn find(text: &str) -> Option<Finding> {
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

/// A program we do not know may be one that talks to a database.
pub(super) fn check(argv: &Argv<'_>) -> Option<Finding> {
    // What only runs another program is judged by that program.
    if only_talks(&argv.name) || passes_on(&argv.name) {
        return None;
    }
    let mut joined = argv.texts().collect::<Vec<_>>().join("\n");
    if !is_client(&argv.name) && joined.len() > 20_000 {
        joined = joined.chars().take(20_000).collect();
    }
    argv.texts().find_map(find).or_else(|| find(&joined))
}
