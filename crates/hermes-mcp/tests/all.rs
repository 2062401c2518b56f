//! Connections to scripted servers.
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a failure is what a test reports")]

mod all {
    mod elicitation;
    mod http;
    mod process;
    mod sampling;
    mod support;
}
