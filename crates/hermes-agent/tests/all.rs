//! The turn, seen from outside: what was asked of the model, what is in the database, what the user gets.
#![expect(clippy::unwrap_used, reason = "a failure is what a test reports")]

mod all {
    pub(crate) mod support;

    mod compress;
    mod kill;
    mod long;
    mod recover;
    mod subagent;
    mod turn;
}
