//! All tests of this crate's public interface, in one binary.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed unwrap in a test is a failed test")]

mod cases;
