//! Tests of the turn from outside: the requests to the model, the rows in the database, the text for the user.
#![expect(clippy::unwrap_used, reason = "a failure is what a test reports")]

mod all {
    pub(crate) mod support;

    mod compress;
    mod kill;
    mod long;
    mod recall;
    mod recover;
    mod subagent;
    mod turn;
}
