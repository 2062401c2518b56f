//! The tests of this crate's public interface, in one binary.
#![expect(clippy::unwrap_used, reason = "a failed unwrap in a test is a failed test")]

mod aws;
mod bodies;
mod client;
mod converse;
mod credential;
mod discovery;
mod issuer_fixture;
mod peer;
mod pool;
mod properties;
mod provider;
mod raw_tool_calls;
mod real_server;
mod remedies;
mod streams;
mod support;
