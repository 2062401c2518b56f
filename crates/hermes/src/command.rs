//! One module per command group.

pub(crate) mod config;
pub(crate) mod database;
pub(crate) mod sessions;
