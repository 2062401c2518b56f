//! Tests of the crate through its public interface, in one binary.

#![expect(
    clippy::expect_used,
    clippy::string_slice,
    clippy::format_push_string,
    reason = "a test that cannot go on says why and stops"
)]

#[path = "all/auth.rs"]
mod auth;
#[path = "all/concurrency.rs"]
mod concurrency;
#[path = "all/environment.rs"]
mod environment;
#[path = "all/files.rs"]
mod files;
#[path = "all/loading.rs"]
mod loading;
#[path = "all/migration.rs"]
mod migration;
#[path = "all/patching.rs"]
mod patching;
#[path = "all/setting.rs"]
mod setting;
#[path = "all/support.rs"]
mod support;
