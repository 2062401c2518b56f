//! One module per command group.

pub(crate) mod chat;
pub(crate) mod config;
pub(crate) mod database;
pub(crate) mod model;
pub(crate) mod sessions;
