//! Tests of the API server from outside: real sockets, a model inside the test.
#![expect(clippy::unwrap_used, reason = "a failure is what a test reports")]

mod all {
    pub(crate) mod support;

    mod chat;
    mod hostile;
    mod jobs;
    mod keyed;
    mod repeat;
    mod respond;
    mod runs;
    mod webhook;
}
