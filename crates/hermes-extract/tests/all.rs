//! The integration tests of this crate, in one binary.
#![expect(clippy::unwrap_used, reason = "a failure is what a test reports")]

mod all {
    mod corpus;
    mod hostile;
    mod large;
    mod pdf;
    mod picture;
}
