//! The built binary, from outside: exit code, standard output, standard error, and what it left in the home.
#![expect(clippy::unwrap_used, reason = "a failure is what a test reports")]

mod all {
    pub(crate) mod support;

    mod config;
    mod database;
    mod sessions;
    mod shell;
}
