//! Commands run as a tool runs them, on this machine.
#![expect(clippy::unwrap_used, reason = "a failure is what a test reports")]

mod all {
    pub(crate) mod support;

    mod background;
    mod ending;
    mod output;
    mod state;
}
