//! Every test of this crate that looks from outside, in one binary.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed unwrap in a test is a failed test")]

mod cases;
