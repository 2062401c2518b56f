//! Every test of this crate, in one binary.
#![expect(clippy::unwrap_used, reason = "a failed unwrap in a test is a failed test")]

mod all {
    mod elsewhere;
    mod pages;
    mod support;
}
