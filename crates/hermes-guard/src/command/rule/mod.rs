//! The rules: what a command's name and words make it.
//!
//! Each file has the rules of one kind. The key of a danger is what allow lists hold, so its words never change.

mod code;
mod delete;
mod hermes;
mod process;
mod project;
mod sql;
mod system;
mod write;

pub(super) use code::{is_interpreter, suspicious};
pub(super) use hermes::{OUTSIDE, runs_gateway};
pub(super) use sql::is_client as is_sql_client;
pub(super) use sql::{find as find_sql, only_talks};
pub(super) use write::redirected;

use super::argv::Argv;

/// What a rule found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Finding {
    Ask(&'static str),
    Deny(&'static str),
}

/// The first rule that applies.
pub(super) fn check(argv: &Argv<'_>) -> Option<Finding> {
    delete::check(argv)
        .or_else(|| system::check(argv))
        .or_else(|| process::check(argv))
        .or_else(|| write::check(argv))
        .or_else(|| code::check(argv))
        .or_else(|| project::check(argv))
        .or_else(|| hermes::check(argv))
        .or_else(|| sql::check(argv))
}
