//! The rules: dangers recognised from a command's name and words.
//!
//! Each file has the rules of one kind. Allow lists contain the key of a danger, so its text never changes.

mod account;
mod code;
mod container;
mod delete;
mod git;
mod hermes;
mod network;
mod process;
mod project;
mod sed;
mod setting;
mod severe;
mod sql;
mod system;
mod write;

pub(super) use code::{is_interpreter, suspicious};
pub(super) use hermes::{OUTSIDE, runs_gateway};
pub(super) use network::SHELL as SHELL_FOR_OTHERS;
pub(super) use network::{opens_shell, prints_secrets, sends_arguments, sends_input};
pub(super) use project::wipes_store;
pub(super) use setting::{check as check_setting, is_run as is_run_by_name};
pub(super) use severe::is_severe;
pub(super) use sql::find as find_sql;
pub(super) use sql::is_client as is_sql_client;
pub(super) use write::redirected;

use super::argv::Argv;

/// The result of a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RuleFinding {
    Ask(&'static str),
    Deny(&'static str),
}

/// Returns the finding of the first rule that applies.
pub(super) fn check(argv: &Argv<'_>) -> Option<RuleFinding> {
    delete::check(argv)
        .or_else(|| system::check(argv))
        .or_else(|| account::check(argv))
        .or_else(|| process::check(argv))
        .or_else(|| write::check(argv))
        .or_else(|| code::check(argv))
        .or_else(|| git::check(argv))
        .or_else(|| container::check(argv))
        .or_else(|| project::check(argv))
        .or_else(|| network::check(argv))
        .or_else(|| hermes::check(argv))
        .or_else(|| sql::check(argv))
}
